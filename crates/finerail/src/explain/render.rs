//! Formats explanations for administrators: first the answer, then its reasons, then everything else.

use std::net::IpAddr;

use lnet_explain::{
    Answer, Assumption, Branch, CaseFacts, Decision, Difference, Explanation, Finding, Forecast,
    HealthReport, LevelTable, Path, Policies, Reverse, Row, Severity,
};
use lnet_site::lint;
use lnet_types::Nid;

use super::page::{Page, listed};

/// The limit of values that are listed of each kind. A rule can apply to 100,000 peers.
const VALUES_MAX: usize = 32;
/// The distance value that stands for an unknown distance.
const UNKNOWN_DISTANCE: i64 = u32::MAX as i64;

/// Writes an explanation: the path, the reason, the findings, and what would change the path. With `verbose` 1
/// it adds the tables that led to the path, with 2 everything.
pub(super) fn explanation(page: &mut Page, one: &Explanation, left_out: &[String], verbose: u8) {
    answer(page, one);
    findings(page, "Findings", &one.findings);
    if verbose == 0 {
        what_changes_it(page, one);
    } else {
        details(page, one, verbose);
    }
    if !left_out.is_empty() {
        page.heading("Left out of the input");
        left_out.iter().for_each(|why| page.item(why));
    }
}

fn details(page: &mut Page, one: &Explanation, verbose: u8) {
    case(page, one);
    for (at, table) in one.levels.iter().enumerate() {
        level(page, at + 1, table);
    }
    forecast(page, &one.forecast);
    resends(page, one, verbose);
    policies(page, &one.policies);
    health(page, &one.health);
    if verbose > 1 {
        assumed(page, one);
    }
}

/// The limit of alternative changes that are listed without `--verbose`.
const CHANGES_MAX: usize = 4;

/// Writes what would have to change so that the next message takes another path.
fn what_changes_it(page: &mut Page, one: &Explanation) {
    let margins = one.levels.iter().filter_map(|table| {
        let winner = table.winner.as_deref()?;
        Some(format!(
            "{} {winner}: {}",
            table.level,
            table.margin.as_ref()?
        ))
    });
    let alternatives = one.assumed.iter().flat_map(|one| &one.alternatives);
    let changes: Vec<String> = margins
        .chain(alternatives.take(CHANGES_MAX).cloned())
        .collect();
    if changes.is_empty() {
        return;
    }
    page.heading("What would change it");
    changes.iter().for_each(|change| page.item(change));
}

/// Writes the effect of changes.
pub(super) fn difference(page: &mut Page, before: &Explanation, one: &Difference) {
    page.answer(&format!("What if {}", listed(&one.changes, ", ")));
    page.paragraph(0, 2, &format!("before: {}", answer_line(before)));
    page.paragraph(0, 2, &format!("after:  {}", answer_line(&one.after)));
    because(page, &one.after.answer);
    if one.differing.is_empty() {
        page.paragraph(0, 2, "Nothing about the next message changes.");
    } else {
        page.heading("What changes");
        for (subject, was, is) in &one.differing {
            page.item(&format!("{subject}:"));
            page.paragraph(4, 2, &format!("was {was}"));
            page.paragraph(4, 2, &format!("is  {is}"));
        }
    }
    shares(page, one);
    findings(page, "New findings", &one.new);
    findings(page, "Findings that no longer apply", &one.solved);
}

/// Writes what the lints found at the ends of the path.
pub(super) fn places(page: &mut Page, findings: &[lint::Finding]) {
    if findings.is_empty() {
        return;
    }
    page.heading("Findings at the ends of the path");
    for one in findings {
        page.finding(
            severity(one.severity),
            &format!("{} ({})", one.code, one.file),
        );
        page.paragraph(4, 0, &one.reason);
        page.paragraph(4, 2, &format!("→ {}", one.fix));
    }
}

fn severity(of: lint::Severity) -> Severity {
    match of {
        lint::Severity::Note => Severity::Note,
        lint::Severity::Warning => Severity::Warning,
        lint::Severity::Error => Severity::Error,
    }
}

/// Writes the reverse path.
pub(super) fn reverse(page: &mut Page, one: &Reverse) {
    page.heading("The reverse path");
    page.item(&answer_line(&one.explanation));
    page.item(&format!(
        "because {}",
        listed(&one.explanation.answer.because, "; ")
    ));
    if one.is_of_another {
        page.item("The peer's document is that of another node: the two paths cannot be compared.");
    } else if one.asymmetric.is_empty() {
        page.item("The ends have the same NIDs as on the forward path.");
    } else {
        page.item(&format!("Asymmetric: {}.", listed(&one.asymmetric, "; ")));
    }
    findings(page, "Findings at the peer", &one.explanation.findings);
}

fn answer_line(one: &Explanation) -> String {
    match (&one.answer.path, &one.answer.error) {
        (Some(path), _) => path.to_string(),
        (None, Some(error)) => format!("no path to {}: {error}", one.question.to),
        (None, None) => format!("no path to {}", one.question.to),
    }
}

fn answer(page: &mut Page, one: &Explanation) {
    page.answer(&answer_line(one));
    because(page, &one.answer);
    if let Some(path) = &one.answer.path
        && is_stand_in(&path.source)
    {
        let whose = path.interface.as_deref().unwrap_or("the interface");
        let text = format!(
            "{} stands for the NID of {whose}, which the input does not give: --interfaces tells the address",
            path.source
        );
        page.paragraph(0, 2, &text);
    }
}

/// Returns whether a NID stands for one that the input does not give: its address is 0.0.0.N.
fn is_stand_in(nid: &str) -> bool {
    let nid: Option<Nid> = nid.parse().ok();
    let address = nid.and_then(Nid::ip);
    matches!(address, Some(IpAddr::V4(v4)) if v4.octets().starts_with(&[0, 0, 0]))
}

fn because(page: &mut Page, answer: &Answer) {
    if !answer.because.is_empty() {
        let reasons = listed(&answer.because, "; ");
        page.paragraph(0, 2, &format!("because {reasons}"));
    }
}

fn findings(page: &mut Page, heading: &str, findings: &[Finding]) {
    if findings.is_empty() {
        return;
    }
    page.heading(heading);
    for one in findings {
        page.finding(one.severity, &format!("{} ({})", one.code, one.subject));
        page.paragraph(4, 0, &one.text);
        page.paragraph(4, 2, &format!("→ {}", one.advice));
    }
}

/// Writes a past selection: the path, the reason, and the tables that led to it.
pub(super) fn decision(page: &mut Page, one: &Decision) {
    page.heading(&one.message);
    match (&one.answer.path, &one.answer.error) {
        (Some(path), _) => page.item(&path.to_string()),
        (None, error) => page.item(&format!(
            "no path: {}",
            error.as_deref().unwrap_or("nothing was found")
        )),
    }
    if !one.answer.because.is_empty() {
        page.item(&format!("because {}", listed(&one.answer.because, "; ")));
    }
    if let Some(facts) = &one.classification {
        case_facts(page, &format!("Case {}", facts.case), facts);
    }
    for (at, table) in one.levels.iter().enumerate() {
        level(page, at + 1, table);
    }
}

fn case(page: &mut Page, one: &Explanation) {
    if let Some(facts) = &one.classification {
        let heading = format!("Case {} ({} profile)", facts.case, one.question.profile);
        case_facts(page, &heading, facts);
    }
}

fn case_facts(page: &mut Page, heading: &str, facts: &CaseFacts) {
    page.heading(heading);
    page.item(&format!("source: {}", facts.source));
    page.item(&format!("destination: {}", facts.locality));
    page.item(&format!("peer: {}", facts.kind));
}

fn level(page: &mut Page, number: usize, table: &LevelTable) {
    let winner = table.winner.as_deref().unwrap_or("none");
    let by = table
        .decided_by
        .map(|by| format!(", by {by}"))
        .unwrap_or_default();
    page.heading(&format!("{number}. {}: {winner}{by}", table.level));
    if !table.candidates.is_empty() {
        let mut header = vec!["candidate".to_owned()];
        header.extend(
            table
                .criteria
                .iter()
                .map(|&criterion| short(criterion).to_owned()),
        );
        header.push("outcome".to_owned());
        let rows = table.candidates.iter().map(|row| cells(table, row));
        page.table(&header, &rows.collect::<Vec<_>>(), 1);
    }
    for (name, why) in &table.excluded {
        page.item(&format!("{name} is out: {why}"));
    }
    if let Some(margin) = &table.margin {
        page.item(margin);
    }
}

/// Returns a short name of a criterion, which fits above a column of numbers.
fn short(criterion: &str) -> &str {
    match criterion {
        "used before" => "used",
        "priority" => "prio",
        "preference" => "pref",
        "device" => "dev",
        "distance" => "dist",
        "credits" => "cred",
        "sequence" => "seq",
        "local net sequence" => "local net seq",
        "peer net priority" => "peer net prio",
        "local net priority" => "local net prio",
        "not preferred" => "not pref",
        "route priority" => "route prio",
        "queued bytes" => "queued",
        other => other,
    }
}

fn cells(table: &LevelTable, row: &Row) -> Vec<String> {
    let name = match &row.interface {
        Some(interface) => format!("{} ({interface})", row.name),
        None => row.name.clone(),
    };
    let values = table.criteria.iter().zip(&row.values);
    let values = values.map(|(&criterion, &value)| shown(criterion, value));
    let outcome = match row.eliminated_by {
        Some(by) => format!("out: {by}"),
        None => "chosen".to_owned(),
    };
    std::iter::once(name)
        .chain(values)
        .chain([outcome])
        .collect()
}

fn shown(criterion: &str, value: i64) -> String {
    match criterion {
        "distance" if value == UNKNOWN_DISTANCE => "?".to_owned(),
        "priority" | "peer net priority" | "local net priority" | "preference" if value == -1 => {
            "-".to_owned()
        }
        _ => value.to_string(),
    }
}

fn path_name(path: Option<&Path>) -> String {
    path.map_or_else(|| "no path".to_owned(), ToString::to_string)
}

fn forecast(page: &mut Page, one: &Forecast) {
    page.heading(&format!(
        "The next {} sends, none of which completes",
        one.picks.len()
    ));
    let mut paths: Vec<(String, Vec<usize>, Option<usize>)> = Vec::new();
    for (at, pick) in one.picks.iter().enumerate() {
        let name = path_name(pick.path.as_ref());
        let known = paths.iter().position(|(path, ..)| *path == name);
        let known = known.unwrap_or_else(|| {
            paths.push((name, Vec::new(), None));
            paths.len() - 1
        });
        let (_, places, waits) = &mut paths[known];
        places.push(at + 1);
        if pick.waits {
            waits.get_or_insert(at + 1);
        }
    }
    for (path, places, waits) in paths {
        let waits = waits.map(|at| format!("; from {at} on they wait for credits"));
        let waits = waits.unwrap_or_default();
        page.item(&format!("{path}: {}{waits}", listed(&places, ", ")));
    }
    let total: u32 = one.shares.iter().map(|share| share.sends).sum();
    page.heading(&format!(
        "Traffic of {total} sends, each complete before the next"
    ));
    for share in &one.shares {
        let path = path_name(share.path.as_ref());
        page.item(&format!("{:>5.1} %  {path}", percent(share.sends, total)));
    }
}

fn percent(part: u32, whole: u32) -> f64 {
    100.0 * f64::from(part) / f64::from(whole.max(1))
}

/// Writes the resends of the node's profile; with `verbose` above 1, of all profiles.
fn resends(page: &mut Page, one: &Explanation, verbose: u8) {
    let is_shown = |profile| verbose > 1 || profile == one.question.profile;
    let trees = one.resends.iter().filter(|tree| is_shown(tree.profile));
    for tree in trees.filter(|tree| !tree.branches.is_empty()) {
        page.heading(&format!("When tries fail ({} profile)", tree.profile));
        for branch in &tree.branches {
            page.item(&format!("{}:", listed(&branch.classes, ", ")));
            page.paragraph(4, 2, &tries(branch));
        }
    }
}

fn tries(branch: &Branch) -> String {
    let again = branch
        .tries
        .iter()
        .skip(1)
        .enumerate()
        .map(|(at, one)| format!("try {} after {} s: {}", at + 2, one.at_seconds, one.path));
    let again: Vec<String> = again.collect();
    let end = format!("{} after {} s", branch.end, branch.end_seconds);
    if again.is_empty() {
        return format!("no second try; {end}");
    }
    format!("{}; {end}", again.join("; "))
}

fn policies(page: &mut Page, one: &Policies) {
    if one.rules.is_empty() {
        return;
    }
    page.heading("Rules");
    for rule in &one.rules {
        page.item(&format!("{}  {}: {}", rule.index, rule.text, rule.state));
    }
    for value in one.values.iter().take(VALUES_MAX) {
        page.paragraph(
            4,
            2,
            &format!(
                "{} has {} from rule {}",
                value.object, value.value, value.rule
            ),
        );
    }
    more(page, one.values.len());
    for why in one.unapplied.iter().take(VALUES_MAX) {
        page.paragraph(4, 2, &format!("kernel: {why}"));
    }
    more(page, one.unapplied.len());
}

fn more(page: &mut Page, all: usize) {
    if let Some(others @ 1..) = all.checked_sub(VALUES_MAX) {
        page.paragraph(4, 2, &format!("and {others} more, which --json lists"));
    }
}

fn health(page: &mut Page, reports: &[HealthReport]) {
    if reports.is_empty() {
        return;
    }
    page.heading("Not in full health");
    for one in reports {
        page.item(&health_line(one));
    }
}

fn health_line(one: &HealthReport) -> String {
    let mut facts = vec![format!("health {}", one.health)];
    facts.extend(one.down.clone());
    facts.extend(one.cause.as_ref().map(|cause| format!("failures: {cause}")));
    if let Some(seconds) = one.next_ping_seconds {
        facts.push(format!("next ping in {seconds} s"));
    } else if let Some(uptime) = one.next_ping_uptime_seconds {
        facts.push(format!("next ping at uptime {uptime} s"));
    }
    match (&one.stuck, one.full_after_seconds) {
        (Some(stuck), _) => facts.push(stuck.clone()),
        (None, Some(0)) => facts.push("full with the first answered ping".to_owned()),
        (None, Some(last)) => facts.push(format!(
            "full with {} answered pings, {last} s after the first",
            one.pings
        )),
        (None, None) => {}
    }
    format!("{}: {}", one.nid, facts.join("; "))
}

fn assumed(page: &mut Page, one: &Explanation) {
    if one.assumed.is_empty() {
        return;
    }
    page.heading("Assumed, because the input does not say it");
    let matters = |one: &&Assumption| !one.alternatives.is_empty();
    for assumption in one.assumed.iter().filter(matters) {
        page.item(&format!("{}; otherwise", assumption.what));
        for other in &assumption.alternatives {
            page.paragraph(4, 2, other);
        }
    }
    let others = one.assumed.iter().filter(|one| !matters(one));
    let others: Vec<&str> = others.map(|one| one.what.as_str()).collect();
    if !others.is_empty() {
        page.item(&format!(
            "without effect on this path: {}",
            listed(&others, "; ")
        ));
    }
}

fn shares(page: &mut Page, one: &Difference) {
    let whole = one
        .shares
        .values()
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    page.heading(&format!(
        "Traffic of {} sends, each complete before the next",
        whole.0.max(whole.1)
    ));
    let header = ["path", "before", "after"].map(str::to_owned);
    let rows = one.shares.iter().map(|(path, (was, is))| {
        let share = |part, whole| format!("{:.1} %", percent(part, whole));
        vec![path.clone(), share(*was, whole.0), share(*is, whole.1)]
    });
    page.table(&header, &rows.collect::<Vec<_>>(), 0);
}
