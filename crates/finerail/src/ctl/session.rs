//! `lnetctl` without a command: it reads commands line by line, from a terminal or from a script on standard
//! input.
//!
//! ```text
//!  line ── words (quotes, #) ──▶ the parser of the command line ──▶ the node ──▶ the next line
//! ```
//!
//! After a failed command the session continues with the next line, as in `lnetctl`. The exit code at the end
//! is that of the first failed command, so that the caller notices the failure and its kind.

use std::io::{self, BufRead, IsTerminal, Read, Write};

use super::talk::{self, Failed, Talk};
use super::{Called, Partner, Tool, carry_out, usage};

/// The limit of bytes of a line.
const LINE_MAX: u64 = 64 << 10;

/// The settings of a session.
pub(super) struct Session<'a> {
    /// The tool whose commands the session takes.
    pub(super) tool: Tool,
    /// The node for lines that name no other node.
    pub(super) partner: Partner<'a>,
}

/// Carries out the lines of standard input until the input ends or a line ends the session. Returns the exit
/// code.
pub(super) fn run(session: &Session<'_>) -> anyhow::Result<u8> {
    let mut talk = Talk::within_session(session.partner);
    let mut first_failure = 0;
    let at_terminal = io::stdin().is_terminal();
    loop {
        if at_terminal {
            write!(io::stdout(), "{} > ", session.tool.name())?;
            io::stdout().flush()?;
        }
        let Some(line) = read_line()? else {
            if at_terminal {
                writeln!(io::stdout())?;
            }
            return Ok(first_failure);
        };
        let code = match line.as_deref().map(words) {
            Ok(Ok(words)) => match words.first().map(String::as_str) {
                None => 0,
                Some("quit" | "exit") => return Ok(first_failure),
                Some(_) => session.carry_out(&words, &mut talk)?,
            },
            Ok(Err(unclosed)) => talk::exit(Err(Failed::plain(unclosed)))?,
            Err(too_long) => talk::exit(Err(Failed::plain(too_long)))?,
        };
        if first_failure == 0 {
            first_failure = code;
        }
    }
}

impl Session<'_> {
    pub(super) fn carry_out(&self, words: &[String], talk: &mut Talk) -> anyhow::Result<u8> {
        // A line that was copied from a shell may begin with the program's name.
        let words = match words {
            [name, rest @ ..] if name == self.tool.name() => rest,
            words => words,
        };
        if let Some(answered) = super::about_itself(self.tool, words) {
            answered?;
            return Ok(0);
        }
        let Called { node, group, .. } = match self.tool.parse(words) {
            Ok(called) => called,
            Err(error) => return Ok(usage(self.tool, &error)),
        };
        let done = match (group, node) {
            // The line has only options, so there is no command.
            (None, _) => Err(Failed::plain("no command is given")),
            (Some(group), Some(other)) if self.partner.node != Some(&other) => {
                let partner = Partner {
                    node: Some(&other),
                    ..self.partner
                };
                carry_out(&group, &mut Talk::within_session(partner))
            }
            (Some(group), _) => carry_out(&group, talk),
        };
        if matches!(done, Err(Failed::Node(_))) {
            talk.forget();
        }
        talk::exit(done)
    }
}

/// Reads the next line without its line end. Returns `None` at the end of the input. The inner error says why a
/// line is rejected.
fn read_line() -> io::Result<Option<Result<String, &'static str>>> {
    let mut bytes = Vec::new();
    let mut input = io::stdin().lock();
    let count = (&mut input).take(LINE_MAX).read_until(b'\n', &mut bytes)?;
    if count == 0 {
        return Ok(None);
    }
    if count as u64 == LINE_MAX && !bytes.ends_with(b"\n") {
        input.skip_until(b'\n')?;
        return Ok(Some(Err("the line is too long")));
    }
    let line = String::from_utf8(bytes).map_err(|_| "the line is not text");
    Ok(Some(line))
}

/// Splits a line into words at blanks. Quotes keep blanks inside a word, `\` takes the next character
/// literally, and `#` at the start of a word ends the line.
fn words(line: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(end), _) if character == end => quote = None,
            (Some('\''), _) => word.get_or_insert_default().push(character),
            (_, '\\') => match characters.next() {
                Some(next) => word.get_or_insert_default().push(next),
                None => return Err("the line ends behind a \\"),
            },
            (Some(_), _) => word.get_or_insert_default().push(character),
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, _) if character.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    match quote {
        Some(_) => Err("a quote is not closed"),
        None => Ok(words),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_are_parted_by_blanks_and_kept_by_quotes() {
        let line = r#"  udsp add --src "tcp 1" --dst 'a"b' c\ d '' # the rest"#;
        let expected = ["udsp", "add", "--src", "tcp 1", "--dst", "a\"b", "c d", ""];
        assert_eq!(words(line).unwrap(), expected);
        assert_eq!(words("# nothing\n").unwrap(), [""; 0]);
        assert_eq!(words("a#b\r\n").unwrap(), ["a#b"]);
    }

    #[test]
    fn what_is_not_closed_is_refused() {
        for line in ["net 'show", "net \"show", "net \\"] {
            assert!(words(line).is_err(), "{line}");
        }
    }

    proptest! {
        #[test]
        fn quoted_words_come_back_as_they_were(expected: Vec<String>) {
            let quoted = expected.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''")));
            let line = quoted.collect::<Vec<_>>().join(" ");
            prop_assert_eq!(words(&line).unwrap(), expected);
        }

        #[test]
        fn no_line_panics(line: String) {
            let _any = words(&line);
        }
    }
}
