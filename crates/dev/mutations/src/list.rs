//! Parses the list of a crate's mutations.

use anyhow::{Context as _, bail};

/// A place to break, and the test that must fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutation {
    /// Name of the mutation: one word.
    pub name: String,
    /// Path of the file, relative to the crate's directory.
    pub file: String,
    /// Name of the test function. The test of a catalogue case has the case's ID at the start.
    pub test: String,
    /// Whole lines that occur exactly once in the file.
    pub from: String,
    /// Their replacement.
    pub to: String,
    /// First line of the mutation in the list, counted from 1.
    pub line: usize,
}

/// Parses a list. Empty lines and lines that begin with `#` between mutations are comments.
///
/// # Errors
///
/// A part is missing, occurs twice, or is in the wrong place. The error names the line.
pub fn parse(text: &str) -> anyhow::Result<Vec<Mutation>> {
    let lines: Vec<&str> = text.lines().collect();
    let starts = lines.iter().enumerate();
    let starts: Vec<usize> = starts
        .filter(|(_, line)| line.starts_with("== "))
        .map(|(at, _)| at)
        .collect();
    let first = starts.first().copied().unwrap_or(lines.len());
    let before = lines.iter().take(first).enumerate();
    for (at, line) in before {
        if !line.is_empty() && !line.starts_with('#') {
            bail!("line {}: {line:?} belongs to no mutation", at + 1);
        }
    }
    let ends = starts.iter().skip(1).copied().chain([lines.len()]);
    let blocks = starts.iter().copied().zip(ends);
    let parsed = blocks.map(|(start, end)| {
        let block = lines.get(start..end).unwrap_or_default();
        mutation(block, start + 1).with_context(|| format!("mutation at line {}", start + 1))
    });
    let mutations: Vec<Mutation> = parsed.collect::<anyhow::Result<_>>()?;
    for (at, mutation) in mutations.iter().enumerate() {
        if mutations
            .iter()
            .take(at)
            .any(|other| other.name == mutation.name)
        {
            bail!("line {}: {} is there twice", mutation.line, mutation.name);
        }
    }
    Ok(mutations)
}

fn mutation(block: &[&str], line: usize) -> anyhow::Result<Mutation> {
    let mut lines = block.iter().copied().peekable();
    let mut field = |prefix: &str| {
        let line = lines.next().unwrap_or_default();
        let value = line.strip_prefix(prefix).map(str::trim);
        value
            .filter(|value| !value.is_empty() && !value.contains(' '))
            .with_context(|| format!("{prefix:?} and one word expected, not {line:?}"))
            .map(str::to_owned)
    };
    let (name, file, test) = (field("== ")?, field("file: ")?, field("test: ")?);
    if lines.next() != Some("--- from") {
        bail!("\"--- from\" is missing");
    }
    let rest: Vec<&str> = lines.collect();
    let Some(middle) = rest.iter().position(|line| *line == "--- to") else {
        bail!("\"--- to\" is missing");
    };
    let (from, to) = rest.split_at(middle);
    let from = text_of(from);
    let to = text_of(to.get(1..).unwrap_or_default());
    if from.is_empty() || from == to {
        bail!("nothing is changed");
    }
    Ok(Mutation {
        name,
        file,
        test,
        from,
        to,
        line,
    })
}

/// Joins lines. Empty lines and comments at the end belong to the list, not to the text.
fn text_of(lines: &[&str]) -> String {
    let kept = lines
        .iter()
        .rposition(|line| !line.is_empty() && !line.starts_with('#'));
    let lines = lines.iter().take(kept.map_or(0, |last| last + 1));
    lines.map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "# What is broken.\n\n== a_gate\nfile: src/a.rs\ntest: t_x1_y\n--- from\n    if gate {\n\n    x\n--- to\n    if !gate {\n\n# More.\n== b\nfile: src/b.rs\ntest: t\n--- from\nb\n--- to\n";

    #[test]
    fn a_list_is_read_block_by_block() {
        let list = parse(LIST).unwrap();
        assert_eq!(list.len(), 2);
        assert_eq!(list[0].name, "a_gate");
        assert_eq!((list[0].file.as_str(), list[0].line), ("src/a.rs", 3));
        assert_eq!(list[0].from, "    if gate {\n\n    x\n");
        assert_eq!(list[0].to, "    if !gate {\n");
        assert_eq!((list[1].from.as_str(), list[1].to.as_str()), ("b\n", ""));
    }

    #[test]
    fn an_incomplete_list_is_rejected_with_the_line() {
        let broken = [
            ("x\n", "line 1"),
            ("== a b\nfile: f\ntest: t\n", "line 1"),
            ("\n== a\ntest: t\n", "line 2"),
            ("== a\nfile: f\ntest: t\n--- to\nx\n", "from"),
            ("== a\nfile: f\ntest: t\n--- from\nx\n", "to"),
            (
                "== a\nfile: f\ntest: t\n--- from\nx\n--- to\nx\n",
                "nothing",
            ),
        ];
        for (text, expected) in broken {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(expected), "{text:?}: {error}");
        }
        let twice = format!("{LIST}== b\nfile: f\ntest: t\n--- from\nx\n--- to\n");
        assert!(parse(&twice).unwrap_err().to_string().contains("twice"));
    }
}
