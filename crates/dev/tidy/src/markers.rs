//! Finds unfinished work, ignored tests, and tests that sleep.

use crate::rule::{Finding, Rule};
use crate::source::{Source, Token};
use crate::workspace::Workspace;

/// Words that postpone work, split so that this file does not contain them.
const WORDS: [&str; 4] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("X", "XX"),
    concat!("HA", "CK"),
];

pub(crate) fn unfinished(workspace: &Workspace) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in &workspace.sources {
        for (index, text) in source.lines.iter().enumerate() {
            let words = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
            for word in words.filter(|word| WORDS.contains(word)) {
                found.push(finding(
                    Rule::Unfinished,
                    source,
                    index + 1,
                    word,
                    "postponed work",
                ));
            }
        }
        for window in source.tokens.windows(2) {
            let [name, after] = window else { continue };
            if after.text == "!" && ["todo", "unimplemented"].contains(&name.text.as_str()) {
                found.push(finding(
                    Rule::Unfinished,
                    source,
                    name.line,
                    &name.text,
                    "missing code",
                ));
            }
        }
        for name in ignored_tests(&source.tokens) {
            let what = "a test that does not run; leave it out, or skip it with a message";
            found.push(finding(
                Rule::Unfinished,
                source,
                name.line,
                &name.text,
                what,
            ));
        }
    }
    found
}

/// Finds `#[ignore]` and `#[ignore = "..."]`.
fn ignored_tests(tokens: &[Token]) -> impl Iterator<Item = &Token> {
    tokens.windows(3).filter_map(|window| match window {
        [hash, open, name] if hash.text == "#" && open.text == "[" && name.text == "ignore" => {
            Some(name)
        }
        _ => None,
    })
}

pub(crate) fn sleeps(workspace: &Workspace) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in &workspace.sources {
        for window in source.tokens.windows(2) {
            let [name, open] = window else { continue };
            if name.text == "sleep" && open.text == "(" && source.in_test(name.line) {
                let what = "a test waits on a condition, or uses virtual time";
                found.push(finding(Rule::Sleep, source, name.line, &name.text, what));
            }
        }
    }
    found
}

fn finding(rule: Rule, source: &Source, line: usize, subject: &str, what: &str) -> Finding {
    Finding {
        rule,
        path: source.path.clone(),
        line,
        subject: subject.to_owned(),
        what: what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planted::{library, places};

    #[test]
    fn words_that_postpone_work_are_found_in_comments() {
        let text = format!("// {}: later\nfn f() {{}} // {}\n", WORDS[0], WORDS[2]);
        assert_eq!(
            places(&unfinished(&library(&text))),
            [(1, WORDS[0]), (2, WORDS[2])]
        );
    }

    #[test]
    fn a_longer_word_is_not_a_marker() {
        let text = format!("// {}S and a{}\n", WORDS[0], WORDS[1]);
        assert_eq!(unfinished(&library(&text)), []);
    }

    #[test]
    fn unwritten_code_and_ignored_tests_are_found() {
        let text = "fn f() { todo!() }\nfn g() { unimplemented!() }\n#[test]\n#[ignore = \"slow\"]\nfn h() {}\n";
        let found = unfinished(&library(text));
        assert_eq!(
            places(&found),
            [(1, "todo"), (2, "unimplemented"), (4, "ignore")]
        );
    }

    #[test]
    fn a_sleep_is_found_in_tests_and_left_alone_elsewhere() {
        let sleep = "fn f() { std::thread::sleep(a); }\n";
        let text = format!("{sleep}#[cfg(test)]\nmod t {{\n{sleep}}}\n");
        assert_eq!(places(&sleeps(&library(&text))), [(4, "sleep")]);
    }
}
