//! Runs all lints on all nodes of a site, and groups the findings by cause and role.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::error::SiteError;
use crate::fold::fold;
use crate::lint::{Finding, Input, Report, Severity, lint_classes};
use crate::site::{Class, Site};

/// The result of the check of a site.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// The number of nodes.
    pub nodes: usize,
    /// The number of classes: nodes that differ only in their NIDs and counters form one class.
    pub classes: usize,
    /// The causes of findings, the most severe first.
    pub causes: Vec<Cause>,
    /// The roles, and how the nodes of each differ.
    pub roles: Vec<RoleReport>,
    /// The paths of files that were not understood, each with the reason.
    pub passed_over: Vec<(String, &'static str)>,
    /// Every finding, with its place in the files.
    pub report: Report,
}

/// One problem that nodes of one role have.
#[derive(Clone, Debug, Serialize)]
pub struct Cause {
    /// The code of the lint that found it.
    pub code: &'static str,
    /// The severity of the problem.
    pub severity: Severity,
    /// The key in the documents, without the indices of lists.
    pub key: String,
    /// The name of the nodes' role.
    pub role: String,
    /// The number of nodes with the problem.
    pub nodes: usize,
    /// The number of all nodes of the role.
    pub of: usize,
    /// The names of the nodes with the problem, as a host list.
    pub names: String,
    /// The first of the findings.
    pub first: Finding,
    /// The number of findings.
    pub findings: usize,
    /// The number of findings whose reason is not that of the first.
    pub others: usize,
}

/// The nodes of one role.
#[derive(Clone, Debug, Serialize)]
pub struct RoleReport {
    /// The name of the role.
    pub role: String,
    /// The number of nodes.
    pub nodes: usize,
    /// The classes of the role, the largest first.
    pub classes: Vec<ClassReport>,
}

/// The nodes of one class.
#[derive(Clone, Debug, Serialize)]
pub struct ClassReport {
    /// The number of nodes.
    pub nodes: usize,
    /// The names of the nodes, as a host list.
    pub names: String,
    /// Settings that this class has and the largest class of the role does not have.
    pub has: Vec<String>,
    /// Settings that the largest class of the role has and this class does not have.
    pub lacks: Vec<String>,
}

/// Checks all nodes of a site.
///
/// # Errors
///
/// A site that was made from its files causes no error, because its lists of interfaces were read before.
pub fn check(site: &Site) -> Result<Check, SiteError> {
    let inputs: Vec<Input<'_>> = site.members.iter().map(|one| one.text.input()).collect();
    let count = |at: usize| site.members.get(at).map_or(1, |one| one.text.count);
    let found = lint_classes(&inputs, count)?;
    let at: BTreeMap<&str, usize> = inputs.iter().map(|input| input.name).zip(0..).collect();
    let mut groups: BTreeMap<(&str, Severity, String, usize), Group<'_>> = BTreeMap::new();
    for finding in &found.findings {
        let Some(&member) = at.get(finding.file.as_str()) else {
            continue;
        };
        let role = site.members.get(member).map_or(0, |one| one.role);
        let key = (finding.code, finding.severity, bare_key(&finding.key), role);
        let group = groups.entry(key).or_default();
        group.members.insert(member);
        group.findings.push(finding);
    }
    let mut causes: Vec<Cause> = Vec::new();
    for ((code, severity, key, role), group) in groups {
        causes.extend(cause(site, (code, severity, key, role), &group));
    }
    causes.sort_by_key(|cause| {
        (
            std::cmp::Reverse((cause.severity, cause.nodes)),
            cause.code,
            cause.names.clone(),
        )
    });
    Ok(Check {
        nodes: site.nodes(),
        classes: site.classes.len(),
        causes,
        roles: roles(site),
        passed_over: site.passed_over.clone(),
        report: placed(site, &found),
    })
}

#[derive(Default)]
struct Group<'f> {
    members: BTreeSet<usize>,
    findings: Vec<&'f Finding>,
}

fn cause(
    site: &Site,
    (code, severity, key, role): (&str, Severity, String, usize),
    group: &Group<'_>,
) -> Option<Cause> {
    let first = group.findings.first()?;
    let members: Vec<usize> = group.members.iter().copied().collect();
    let count = |at: &usize| site.members.get(*at).map_or(0, |one| one.text.count);
    let code = crate::lint::LINTS
        .iter()
        .map(|lint| lint.code)
        .find(|known| *known == code)?;
    Some(Cause {
        code,
        severity,
        key,
        role: site.roles.get(role)?.name(),
        nodes: members.iter().map(count).sum(),
        of: {
            let classes = site.classes.iter().filter(|class| class.role == role);
            classes.map(|class| class.nodes).sum()
        },
        names: site.names(&members),
        first: placed_finding(site, first),
        findings: group.findings.len(),
        others: {
            let findings = group.findings.iter();
            findings.filter(|one| one.reason != first.reason).count()
        },
    })
}

/// Removes the list indices of a key: returns `net.local NI(s).tunables.credits` for
/// `net[0].local NI(s)[1].tunables.credits`.
fn bare_key(key: &str) -> String {
    let mut bare = String::new();
    let mut inside = false;
    for one in key.chars() {
        match one {
            '[' => inside = true,
            ']' => inside = false,
            one if !inside => bare.push(one),
            _ => {}
        }
    }
    bare
}

/// Returns the report with the paths and lines of the site's files in place of the nodes' names.
fn placed(site: &Site, found: &Report) -> Report {
    let findings = found
        .findings
        .iter()
        .map(|finding| placed_finding(site, finding));
    let files = site.members.iter().flat_map(|one| &one.text.parts);
    let files: BTreeSet<String> = files.map(|part| part.path.clone()).collect();
    Report {
        files: files.into_iter().collect(),
        findings: findings.collect(),
        ..found.clone()
    }
}

fn placed_finding(site: &Site, finding: &Finding) -> Finding {
    let by_name = |name: &str| {
        let found = site
            .members
            .binary_search_by(|one| one.text.name.as_str().cmp(name));
        found.ok().and_then(|at| site.members.get(at))
    };
    let mut placed = finding.clone();
    if let Some(member) = by_name(&finding.file) {
        let (file, line) = member.text.place(finding.line);
        placed.file = file.to_owned();
        placed.line = line;
    }
    placed
}

fn roles(site: &Site) -> Vec<RoleReport> {
    let mut reports = Vec::new();
    for (at, role) in site.roles.iter().enumerate() {
        let classes: Vec<&Class> = site.classes.iter().filter(|one| one.role == at).collect();
        let Some(usual) = classes.first() else {
            continue;
        };
        let told = classes.iter().map(|class| ClassReport {
            nodes: class.nodes,
            names: site.names(&class.members),
            has: class
                .settings
                .difference(&usual.settings)
                .cloned()
                .collect(),
            lacks: usual
                .settings
                .difference(&class.settings)
                .cloned()
                .collect(),
        });
        reports.push(RoleReport {
            role: role.name(),
            nodes: classes.iter().map(|class| class.nodes).sum(),
            classes: told.collect(),
        });
    }
    reports
}

impl crate::gather::NodeText {
    /// Returns the text for the lints.
    pub(crate) fn input(&self) -> Input<'_> {
        Input {
            name: &self.name,
            text: &self.text,
            interfaces: self.interfaces.as_deref(),
            port: self.port,
        }
    }
}

/// The number of characters of a host list that a heading shows before it is cut.
pub(crate) const NAMES_SHOWN: usize = 80;

/// Cuts a long host list.
pub(crate) fn short(names: &str) -> String {
    if names.chars().count() <= NAMES_SHOWN {
        return names.to_owned();
    }
    let cut: String = names.chars().take(NAMES_SHOWN).collect();
    let cut = cut
        .rsplit_once(',')
        .map_or(cut.as_str(), |(before, _)| before);
    let open = cut.matches('[').count() > cut.matches(']').count();
    format!("{cut}{},…", if open { ",…]" } else { "" })
}

/// Returns the names of members as a host list, cut if it is long.
#[must_use]
pub fn listed<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    short(&fold(names))
}
