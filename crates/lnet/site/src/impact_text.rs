//! Shows the effects of failures and changes as text: causes first, then the effects, with names folded.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::check::short;
use crate::fold::fold;
use crate::impact::{Change, Impact, SiteDifference};
use crate::text::{counted, wrapped};

/// How much of the effects is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// At most [`SCREEN`] lines.
    Screen,
    /// Every direction.
    All,
}

/// The number of lines of a terminal as it is opened.
pub const SCREEN: usize = 24;

/// Returns the failures and their effects as text, the worst first. If there are several failures, those without
/// effect are only counted.
#[must_use]
pub fn impacts_text(impacts: &[Impact], extent: Extent) -> String {
    let is_one = impacts.len() == 1;
    let (shown, harmless): (Vec<&Impact>, Vec<&Impact>) = impacts
        .iter()
        .partition(|impact| is_one || impact.has_effect());
    let mut end = String::new();
    if !harmless.is_empty() {
        let _infallible = writeln!(
            end,
            "{} without any effect",
            counted(harmless.len(), "failure")
        );
    }
    let texts = shown.iter().map(|impact| {
        let head = impact.head();
        let mut whole = head.clone();
        for cause in &impact.causes {
            wrapped(&mut whole, "  ", &format!("cause: {cause}"));
        }
        if !impact.cut_off.is_empty() {
            wrapped(
                &mut whole,
                "  ",
                &format!("cut off from everything: {}", impact.cut_off),
            );
        }
        // Directions with fewer paths have moved, too, which goes without saying.
        let thinner = impact.thinner.iter().map(Change::ends);
        let thinner: BTreeSet<(&str, &str)> = thinner.collect();
        for (name, changes) in impact.kinds() {
            let is_said = |one: &&Change| {
                extent == Extent::Screen && name == MOVED && thinner.contains(&one.ends())
            };
            let changes = changes.iter().filter(|one| !is_said(one));
            list(&mut whole, name, &changes.collect::<Vec<_>>(), extent);
        }
        (whole, head)
    });
    let (whole, heads): (Vec<String>, Vec<String>) = texts.unzip();
    let whole = whole.concat() + &end;
    if extent == Extent::All || lines(&whole) <= SCREEN {
        return whole;
    }
    match is_one {
        true => cut(&whole),
        false => cut(&(heads.concat() + &end)),
    }
}

/// The name of changes to other paths.
const MOVED: &str = "moved";

impl Impact {
    fn kinds(&self) -> [(&'static str, &[Change]); 5] {
        [
            ("lost", &self.lost),
            ("lost in part", &self.partly),
            ("fewer paths", &self.thinner),
            (MOVED, &self.moved),
            ("one-sided", &self.asymmetric),
        ]
    }

    fn has_effect(&self) -> bool {
        let mut kinds = self.kinds().into_iter();
        !self.cut_off.is_empty() || kinds.any(|(_, changes)| !changes.is_empty())
    }

    /// Returns the line with what fails, and how many directions that affects.
    fn head(&self) -> String {
        let kinds = self.kinds().into_iter();
        let kinds = kinds.filter(|(_, changes)| !changes.is_empty());
        let counts = kinds.map(|(name, all)| format!("{} {name}", counted(all.len(), "direction")));
        let cut_off = fgr::hosts(&self.cut_off).map_or(0, |hosts| hosts.len());
        let cut_off = (cut_off > 0).then(|| format!("{} cut off", counted(cut_off, "node")));
        let counts: Vec<String> = cut_off.into_iter().chain(counts).collect();
        let told = match counts.is_empty() {
            true => "nothing changes".to_owned(),
            false => counts.join(", "),
        };
        format!("without {}: {told}\n", short(&self.failed))
    }
}

impl Change {
    /// Returns the sender and the destination.
    fn ends(&self) -> (&str, &str) {
        (&self.from, &self.to)
    }
}

/// Returns the differences of two sites as text.
#[must_use]
pub fn difference_text(difference: &SiteDifference, extent: Extent) -> String {
    let mut text = match difference.is_empty() {
        true => "both behave the same\n".to_owned(),
        false => {
            let directions = counted(difference.changes.len(), "direction");
            format!("{directions} changed\n")
        }
    };
    let label = if difference.is_empty() {
        "without effect"
    } else {
        "cause"
    };
    for cause in &difference.causes {
        wrapped(&mut text, "  ", &format!("{label}: {cause}"));
    }
    for (what, names) in [
        ("added", &difference.added),
        ("removed", &difference.removed),
        ("unreadable, and not compared", &difference.unreadable),
    ] {
        if !names.is_empty() {
            let _infallible = writeln!(text, "{what}: {}", short(names));
        }
    }
    let changes: Vec<&Change> = difference.changes.iter().collect();
    list(&mut text, "changed", &changes, extent);
    match extent {
        Extent::All => text,
        Extent::Screen => cut(&text),
    }
}

/// Lists changes: each one, or those with the same paths before and after together.
fn list(text: &mut String, name: &str, changes: &[&Change], extent: Extent) {
    if extent == Extent::All {
        for change in changes {
            let ends = format!("{} -> {}", change.from, change.to);
            write_change(text, name, &ends, (&change.before, &change.after));
        }
        return;
    }
    let mut groups: BTreeMap<(&str, &str), Vec<&Change>> = BTreeMap::new();
    for &change in changes {
        let key = (change.before.as_str(), change.after.as_str());
        groups.entry(key).or_default().push(change);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    // The change of most directions first.
    groups.sort_by_key(|(_, members)| std::cmp::Reverse(members.len()));
    for (paths, members) in groups {
        write_change(text, name, &ends(&members), paths);
    }
}

fn write_change(text: &mut String, name: &str, ends: &str, (before, after): (&str, &str)) {
    let _infallible = writeln!(text, "  {name}: {ends}");
    wrapped(text, "    ", &format!("before: {before}"));
    wrapped(text, "    ", &format!("after: {after}"));
}

/// Returns the ends of some directions in one line.
fn ends(changes: &[&Change]) -> String {
    let names = |of: fn(&Change) -> &str| -> BTreeSet<&str> {
        changes.iter().map(|change| of(change)).collect()
    };
    let (from, to) = (names(|one| &one.from), names(|one| &one.to));
    let folded = |names: &BTreeSet<&str>| {
        let hosts = names
            .iter()
            .flat_map(|name| fgr::hosts(name).unwrap_or_default());
        let hosts: Vec<String> = hosts.collect();
        short(&fold(hosts.iter().map(String::as_str)))
    };
    let count = counted(changes.len(), "direction");
    if changes.len() == from.len() * to.len() {
        return format!("{} -> {}", folded(&from), folded(&to));
    }
    if from == to {
        return format!("{count} among {}", folded(&from));
    }
    format!("{count} from {} to {}", folded(&from), folded(&to))
}

fn lines(text: &str) -> usize {
    text.lines().count()
}

/// Cuts a text to a screen. The last line says how much is left out.
fn cut(text: &str) -> String {
    let all = lines(text);
    if all <= SCREEN {
        return text.to_owned();
    }
    let shown = text.lines().take(SCREEN - 1);
    let mut cut: String = shown.map(|line| format!("{line}\n")).collect();
    let _infallible = writeln!(cut, "and {} lines more: -v shows all", all + 1 - SCREEN);
    cut
}
