//! Shows the effects of failures and changes as text.

use std::fmt::Write as _;

use crate::check::short;
use crate::impact::{Change, Impact, SiteDifference};
use crate::text::{counted, wrapped};

/// The limit on the changes of one kind that are listed. The number of the others is printed.
const SHOWN: usize = 20;

/// Returns the failures and their effects as text, the worst first. If there are several failures, those without
/// effect are only counted.
#[must_use]
pub fn impacts_text(impacts: &[Impact]) -> String {
    let mut text = String::new();
    let mut harmless = 0;
    for impact in impacts {
        let kinds = [
            ("lost", &impact.lost),
            ("lost in part", &impact.partly),
            ("fewer paths", &impact.thinner),
            ("moved", &impact.moved),
            ("one-sided", &impact.asymmetric),
        ];
        if impacts.len() > 1 && kinds.iter().all(|(_, changes)| changes.is_empty()) {
            harmless += 1;
            continue;
        }
        let counts: Vec<String> = kinds
            .iter()
            .filter(|(_, changes)| !changes.is_empty())
            .map(|(name, changes)| format!("{} {name}", counted(changes.len(), "direction")))
            .collect();
        let told = match counts.is_empty() {
            true => "nothing changes".to_owned(),
            false => counts.join(", "),
        };
        let _infallible = writeln!(text, "without {}: {told}", impact.failed);
        for (name, changes) in kinds {
            list(&mut text, name, changes);
        }
    }
    if harmless > 0 {
        let _infallible = writeln!(text, "{} without any effect", counted(harmless, "failure"));
    }
    text
}

/// Returns the differences of two sites as text.
#[must_use]
pub fn difference_text(difference: &SiteDifference) -> String {
    let mut text = match difference.is_empty() {
        true => "both behave the same\n".to_owned(),
        false => {
            let directions = counted(difference.changes.len(), "direction");
            format!("{directions} changed\n")
        }
    };
    for (what, names) in [
        ("added", &difference.added),
        ("removed", &difference.removed),
        ("unreadable, and not compared", &difference.unreadable),
    ] {
        if !names.is_empty() {
            let _infallible = writeln!(text, "{what}: {}", short(names));
        }
    }
    list(&mut text, "changed", &difference.changes);
    text
}

fn list(text: &mut String, name: &str, changes: &[Change]) {
    for change in changes.iter().take(SHOWN) {
        let (from, to) = (short(&change.from), short(&change.to));
        let _infallible = writeln!(text, "  {name}: {from} -> {to}");
        wrapped(text, "    ", &format!("before: {}", change.before));
        wrapped(text, "    ", &format!("after: {}", change.after));
    }
    let more = changes.len().saturating_sub(SHOWN);
    if more > 0 {
        let _infallible = writeln!(text, "  {name}: {more} more");
    }
}
