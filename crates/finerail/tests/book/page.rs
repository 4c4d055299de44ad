//! Reads what a page asks for; book.rs shows the notation.

use std::iter::Peekable;
use std::str::Lines;

/// One thing to do.
#[derive(Debug)]
pub(crate) enum Step {
    /// Write a file.
    File { name: String, text: String },
    /// Run a command.
    Run(Run),
}

/// One command.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) command: String,
    /// Runs beside the commands that follow.
    pub(crate) background: bool,
    /// The expected output; `None` if the page shows none.
    pub(crate) output: Option<String>,
    /// The expected exit code of a command in the foreground.
    pub(crate) code: i32,
}

impl Run {
    /// Makes a command without an expected output.
    fn new(line: &str) -> Self {
        let plain = line.split(" #").next().unwrap_or(line).trim_end();
        let background = plain.strip_suffix('&');
        Self {
            command: background.unwrap_or(line).trim_end().to_owned(),
            background: background.is_some(),
            output: None,
            code: 0,
        }
    }
}

/// Returns what a page asks for, in order.
///
/// # Errors
///
/// A block without an end, or a reason without a block.
pub(crate) fn steps(page: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut lines = page.lines().peekable();
    let mut reason: Option<&str> = None;
    while let Some(line) = lines.next() {
        if let Some(command) = comment(line, "setup:") {
            steps.push(Step::Run(Run::new(command)));
        } else if let Some(why) = comment(line, "not run:") {
            reason = Some(why);
        } else if let Some(language) = line.trim_start().strip_prefix("```") {
            let text =
                block(&mut lines).ok_or_else(|| format!("no end of the block '{language}'"))?;
            match reason.take() {
                Some("") => return Err("a block does not run, without a reason".to_owned()),
                Some(_) => {}
                None => steps.extend(block_steps(language, &text)),
            }
        } else if let Some(reason) = reason.filter(|_| !line.is_empty()) {
            return Err(format!("no block follows 'not run: {reason}'"));
        }
    }
    Ok(steps)
}

/// Returns what a comment of this kind says.
fn comment<'a>(line: &'a str, kind: &str) -> Option<&'a str> {
    let inside = line.strip_prefix("<!-- ")?.strip_suffix("-->")?;
    inside.strip_prefix(kind).map(str::trim)
}

/// Takes the lines up to the end of a block.
fn block(lines: &mut Peekable<Lines<'_>>) -> Option<String> {
    let mut text = String::new();
    for line in lines {
        if line.trim_start() == "```" {
            return Some(text);
        }
        text += line;
        text.push('\n');
    }
    None
}

fn block_steps(language: &str, text: &str) -> Vec<Step> {
    match language.split_once(",file=") {
        Some((_, name)) => vec![Step::File {
            name: name.to_owned(),
            text: text.to_owned(),
        }],
        None if language == "console" => console(text),
        None if language == "sh" => script(text),
        None => Vec::new(),
    }
}

/// Reads commands with the output that is expected of each.
fn console(text: &str) -> Vec<Step> {
    let mut runs: Vec<Run> = Vec::new();
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            let output = Some(String::new());
            runs.push(Run {
                output,
                ..Run::new(command)
            });
            continue;
        }
        let Some(run) = runs.last_mut() else { continue };
        if let Some(code) = line.strip_prefix("? ") {
            run.code = code.parse().expect("a number follows '? '");
        } else if let Some(output) = &mut run.output {
            *output += line;
            output.push('\n');
        }
    }
    runs.into_iter().map(Step::Run).collect()
}

/// Reads commands without expected outputs: one a line; `<<END` and a backslash continue a command.
fn script(text: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let mut command = line.to_owned();
        while command.ends_with('\\') {
            let Some(next) = lines.next() else { break };
            command = format!("{command}\n{next}");
        }
        if line.ends_with("<<END") {
            for next in lines.by_ref() {
                command = format!("{command}\n{next}");
                if next == "END" {
                    break;
                }
            }
        }
        if !command.trim().is_empty() {
            steps.push(Step::Run(Run::new(&command)));
        }
    }
    steps
}
