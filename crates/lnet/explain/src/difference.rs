//! A comparison of two explanations.

use std::collections::BTreeMap;

use crate::explanation::{Difference, Explanation, Share};
use crate::finding::Finding;

/// Returns the differences that the changes make.
pub(crate) fn difference(
    before: &Explanation,
    after: Explanation,
    changes: Vec<String>,
) -> Difference {
    // A finding's text may contain a value that changed although the cause is the same, so texts are not compared.
    let among = |one: &Finding, others: &[Finding]| {
        let mut others = others.iter();
        others.any(|other| (other.code, &other.subject) == (one.code, &one.subject))
    };
    let of_after = after.findings.iter();
    let of_before = before.findings.iter();
    let new = of_after
        .filter(|one| !among(one, &before.findings))
        .cloned()
        .collect();
    let solved = of_before
        .filter(|one| !among(one, &after.findings))
        .cloned()
        .collect();
    Difference {
        changes,
        differing: differing(before, &after),
        shares: shares(before, &after),
        solved,
        new,
        after: Box::new(after),
    }
}

fn differing(before: &Explanation, after: &Explanation) -> Vec<(String, String, String)> {
    let mut subjects: Vec<(String, String, String)> = Vec::new();
    let mut compare = |subject: String, before: String, after: String| {
        if before != after {
            subjects.push((subject, before, after));
        }
    };
    compare("path".to_owned(), path(before), path(after));
    compare("case".to_owned(), case(before), case(after));
    let (was, is) = (winners(before), winners(after));
    for level in was
        .keys()
        .chain(is.keys().filter(|level| !was.contains_key(*level)))
    {
        let winner = |winners: &BTreeMap<&str, String>| {
            winners
                .get(level)
                .cloned()
                .unwrap_or_else(|| "-".to_owned())
        };
        compare((*level).to_owned(), winner(&was), winner(&is));
    }
    let (was, is) = (tries(before), tries(after));
    for (class, before) in &was {
        let after = is.get(class).cloned().unwrap_or_else(|| "-".to_owned());
        compare(format!("after {class}"), before.clone(), after);
    }
    joined(subjects)
}

/// Joins subjects that have the same text before and the same text after.
fn joined(subjects: Vec<(String, String, String)>) -> Vec<(String, String, String)> {
    let mut joined: Vec<(String, String, String)> = Vec::new();
    for (subject, was, is) in subjects {
        let same = |one: &&mut (String, String, String)| (&one.1, &one.2) == (&was, &is);
        match joined.iter_mut().find(same) {
            Some((known, ..)) => {
                known.push_str(", ");
                known.push_str(subject.trim_start_matches("after "));
            }
            None => joined.push((subject, was, is)),
        }
    }
    joined
}

fn path(one: &Explanation) -> String {
    let path = one.answer.path.as_ref().map(ToString::to_string);
    path.or_else(|| one.answer.error.clone())
        .unwrap_or_default()
}

fn case(one: &Explanation) -> String {
    let case = one.classification.as_ref().map(|one| one.case.clone());
    case.unwrap_or_else(|| "-".to_owned())
}

fn winners(one: &Explanation) -> BTreeMap<&'static str, String> {
    let decided = one.levels.iter().filter_map(|table| {
        let by = table
            .decided_by
            .map(|by| format!(" by {by}"))
            .unwrap_or_default();
        Some((table.level, format!("{}{by}", table.winner.as_ref()?)))
    });
    decided.collect()
}

/// Returns, for each class of failure, the paths of the tries after the first, in the profile that was asked about.
fn tries(one: &Explanation) -> BTreeMap<&'static str, String> {
    let mut trees = one.resends.iter();
    let tree = trees.find(|tree| tree.profile == one.question.profile);
    let branches = tree.into_iter().flat_map(|tree| &tree.branches);
    let told = branches.flat_map(|branch| {
        let again = branch.tries.iter().skip(1).map(|one| one.path.to_string());
        let again: Vec<String> = again.collect();
        let again = if again.is_empty() {
            "no second try".to_owned()
        } else {
            again.join("; ")
        };
        let text = format!("{again}, {}", branch.end);
        branch
            .classes
            .iter()
            .map(move |&class| (class, text.clone()))
    });
    told.collect()
}

fn shares(before: &Explanation, after: &Explanation) -> BTreeMap<String, (u32, u32)> {
    let name = |share: &Share| match &share.path {
        Some(path) => path.to_string(),
        None => "no path".to_owned(),
    };
    let mut shares: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    for share in &before.forecast.shares {
        shares.entry(name(share)).or_default().0 += share.sends;
    }
    for share in &after.forecast.shares {
        shares.entry(name(share)).or_default().1 += share.sends;
    }
    shares
}
