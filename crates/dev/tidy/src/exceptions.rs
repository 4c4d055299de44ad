//! The list of places that may break a rule.

use anyhow::Context as _;

use crate::rule::{Finding, Rule};

/// Least number of words in a reason.
const REASON_WORDS_MIN: usize = 4;

/// One place that may break one rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Exception {
    /// The rule that the place may break.
    pub rule: Rule,
    /// The place in the form of [`Finding::place`].
    pub place: String,
    /// The line of the exception in its file, counted from 1.
    pub line: usize,
}

/// The whole list.
///
/// Each line has one exception: the rule, the place, the reason.
///
/// ```
/// let text = "function-length crates/a/src/b.rs#decode One arm for each of the 60 fields.\n";
/// let list = tidy::Exceptions::parse(text)?;
/// assert_eq!(list.all()[0].place, "crates/a/src/b.rs#decode");
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Exceptions(Vec<Exception>);

impl Exceptions {
    /// Parses the list. Empty lines and lines that begin with `#` are comments.
    ///
    /// # Errors
    ///
    /// A line has no rule, no place, or a reason with too few words. The error says which.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let lines = text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line.trim()));
        let kept = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let parsed = kept.map(|(number, line)| {
            exception(number, line).with_context(|| format!("line {number}: {line:?}"))
        });
        Ok(Self(parsed.collect::<anyhow::Result<_>>()?))
    }

    /// All exceptions, in the order of the file.
    #[must_use]
    pub fn all(&self) -> &[Exception] {
        &self.0
    }

    /// Returns the findings that no exception covers.
    #[must_use]
    pub fn uncovered(&self, findings: Vec<Finding>) -> Vec<Finding> {
        findings
            .into_iter()
            .filter(|finding| !self.0.iter().any(|e| covers(e, finding)))
            .collect()
    }

    /// Returns the exceptions that cover no finding and must be removed.
    #[must_use]
    pub fn unneeded(&self, findings: &[Finding]) -> Vec<&Exception> {
        self.0
            .iter()
            .filter(|e| !findings.iter().any(|finding| covers(e, finding)))
            .collect()
    }
}

fn covers(exception: &Exception, finding: &Finding) -> bool {
    exception.rule == finding.rule && exception.place == finding.place()
}

fn exception(line: usize, text: &str) -> anyhow::Result<Exception> {
    let mut words = text.split_whitespace();
    let rule = words.next().context("no rule")?;
    let rule = Rule::ALL
        .into_iter()
        .find(|known| known.name() == rule)
        .context("no such rule")?;
    let place = words.next().context("no place")?.to_owned();
    anyhow::ensure!(words.count() >= REASON_WORDS_MIN, "no reason");
    Ok(Exception { rule, place, line })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(subject: &str) -> Finding {
        Finding {
            rule: Rule::FunctionLength,
            path: "a.rs".to_owned(),
            line: 3,
            subject: subject.to_owned(),
            what: "long".to_owned(),
        }
    }

    const LIST: &str = "# A comment.\n\nfunction-length a.rs#f One arm for each field.\n";

    #[test]
    fn an_exception_covers_its_rule_and_place_only() {
        let list = Exceptions::parse(LIST).unwrap();
        let other_rule = Finding {
            rule: Rule::Panics,
            ..finding("f")
        };
        let left = list.uncovered(vec![finding("f"), finding("g"), other_rule.clone()]);
        assert_eq!(left, [finding("g"), other_rule]);
    }

    #[test]
    fn an_exception_that_covers_nothing_is_unneeded() {
        let list = Exceptions::parse(LIST).unwrap();
        assert_eq!(list.unneeded(&[finding("f")]), Vec::<&Exception>::new());
        let unneeded = list.unneeded(&[finding("g")]);
        assert_eq!(unneeded.iter().map(|e| e.line).collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn a_line_without_rule_place_or_reason_is_rejected_with_its_number() {
        for bad in [
            "no-rule a.rs#f for a good reason",
            "panics",
            "panics a.rs#f because",
        ] {
            let rejected = Exceptions::parse(&format!("\n{bad}\n")).unwrap_err();
            assert!(rejected.to_string().starts_with("line 2:"), "{rejected}");
        }
    }
}
