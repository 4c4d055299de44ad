//! What `finerail doctor mount` prints: the verdict, and the table of all nodes.

use std::fmt::Write as _;

use comfy_table::{Table, presets};
use lnet_ptlrpc::client::{Granted, Service};
use lnet_ptlrpc::mount::{Answer, Facts, Finding, Reach, Severity, TargetFacts, Verdict, Way};
use lnet_types::Nid;
use serde_json::{Value, json};

use super::gather::Gathered;
use super::records::Record;

/// The places of a finding that are listed. The table has all of them.
const PLACES_MAX: usize = 5;

/// The report about a check.
pub(super) struct Report<'a> {
    pub(super) verdict: &'a Verdict,
    pub(super) gathered: &'a Gathered,
    pub(super) has_knocked: bool,
    /// The port of the check.
    pub(super) port: u16,
}

impl Report<'_> {
    fn facts(&self) -> &Facts {
        &self.gathered.facts
    }

    /// Returns the text for a terminal: the verdict in the first three lines.
    pub(super) fn text(&self) -> String {
        let mut text = self.verdict.to_string();
        if self.verdict.is_healthy() {
            // Writing to a `String` cannot fail.
            let _ok = writeln!(text, "{}", self.healthy());
        }
        let left = self.gathered.left.iter();
        for line in left.map(|record| left_line(record, self.port)) {
            let _ok = writeln!(text, "{line}");
        }
        for finding in self.verdict.findings.iter().skip(1) {
            let _ok = writeln!(text, "\nalso: {finding}");
            for (_, seen) in finding.places.iter().take(PLACES_MAX) {
                let _ok = writeln!(text, "    {seen}");
            }
            let _ok = writeln!(text, "    to do: {}", finding.kind.to_do);
        }
        let _ok = writeln!(text, "\n{}", self.table());
        text
    }

    /// Returns what was asked.
    fn healthy(&self) -> String {
        let targets = &self.facts().targets;
        let off = targets.iter().filter(|target| target.is_inactive).count();
        let count = targets.len() - off;
        let what = match self.has_knocked {
            true => "serve",
            false => "are on nodes that answer (--targets asks the targets themselves)",
        };
        let off = match off {
            0 => String::new(),
            off => format!("; {off} more are switched off and were not asked"),
        };
        format!("all {count} targets {what}{off}")
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let mut names = vec!["target", "node", "NID", "way", "ping"];
        names.extend(self.has_knocked.then_some("connect"));
        table.set_header(names);
        for mgs in &self.facts().mgs {
            let outcome = mgs.outcome.as_ref().map(|outcome| match outcome {
                Ok(granted) => format!("Lustre {}", granted.release),
                Err(failure) => failure.to_string(),
            });
            for reach in &mgs.nids {
                let mut row = row("MGS", "", reach).to_vec();
                row.extend(
                    self.has_knocked
                        .then(|| outcome.clone().unwrap_or_default()),
                );
                table.add_row(row);
            }
        }
        for target in &self.facts().targets {
            self.rows(target, &mut table);
        }
        table
    }

    fn rows(&self, target: &TargetFacts, table: &mut Table) {
        for (at, node) in target.nodes.iter().enumerate() {
            let kind = match (target.is_inactive, at) {
                (true, _) => "inactive",
                (false, 0) => "primary",
                (false, _) => "failover",
            };
            for reach in node {
                let is_now = target.now.iter().any(|now| now.nid == reach.nid);
                let kind = if is_now {
                    format!("{kind}, now")
                } else {
                    kind.to_owned()
                };
                let mut row = row(&target.name, &kind, reach).to_vec();
                let knock = target.knocks.iter().find(|knock| knock.nid == reach.nid);
                let knock = knock.map(|knock| match &knock.result {
                    Ok((granted, _)) => format!("serves, Lustre {}", granted.release),
                    Err(failure) => failure.to_string(),
                });
                row.extend(self.has_knocked.then(|| knock.unwrap_or_default()));
                table.add_row(row);
            }
        }
        for now in &target.now {
            let mut logged = target.nodes.iter().flatten();
            if logged.all(|reach| reach.nid != now.nid) {
                let mut row = row(&target.name, "now", now).to_vec();
                row.extend(self.has_knocked.then(String::new));
                table.add_row(row);
            }
        }
    }

    /// Returns the document for programs.
    pub(super) fn json(&self) -> anyhow::Result<String> {
        let facts = self.facts();
        let worst = self.verdict.findings.first().map(|worst| worst.severity);
        let mgs = facts.mgs.iter().map(|mgs| {
            let failure = mgs
                .outcome
                .as_ref()
                .and_then(|outcome| outcome.as_ref().err());
            let granted = mgs
                .outcome
                .as_ref()
                .and_then(|outcome| outcome.as_ref().ok());
            json!({
                "nids": mgs.nids,
                "release": granted.map(release),
                "failure": failure.map(ToString::to_string),
            })
        });
        let left = self.gathered.left.iter().map(|record| {
            json!({
                "server": record.server,
                "port": record.port,
                "target": record.export.target,
                "uuid": record.export.uuid,
            })
        });
        let document = json!({
            "fs": facts.fs,
            "mounts": match worst {
                Some(Severity::Fails) => Some(false),
                Some(Severity::Unknown) => None,
                Some(Severity::Suffers) | None => Some(true),
            },
            "healthy": self.verdict.is_healthy(),
            "interrupted": self.gathered.is_interrupted,
            "cut": facts.cut,
            "findings": self.verdict.findings.iter().map(finding_row).collect::<Vec<_>>(),
            "mgs": mgs.collect::<Vec<_>>(),
            "targets": facts.targets.iter().map(target_row).collect::<Vec<_>>(),
            "parameters": self.gathered.system.parameters,
            "pools": self.gathered.system.pools,
            "problems": facts.problems,
            "security_rules": facts.rules.texts(),
            "left": left.collect::<Vec<_>>(),
        });
        Ok(serde_json::to_string_pretty(&document)? + "\n")
    }
}

fn left_line(record: &Record, port: u16) -> String {
    let (target, uuid) = (&record.export.target, &record.export.uuid);
    let server = record.server.escape_debug();
    let ends = "it ends when the MGS evicts it or restarts";
    let how = match record.export.service {
        Service::Mdt | Service::Ost => "the server ends it after 150 s".to_owned(),
        Service::Mgs if record.server.parse::<Nid>().is_err() => {
            format!("its record has no NID that can be read: {ends}")
        }
        Service::Mgs if record.port != port => {
            let port = record.port;
            format!("the next run with --port {port} ends it; otherwise {ends}")
        }
        Service::Mgs => format!("the next run of this command ends it; otherwise {ends}"),
    };
    format!("left: {target} at {server} may still have the connection of client {uuid}; {how}")
}

fn row(name: &str, node: &str, reach: &Reach) -> [String; 5] {
    let way = match &reach.way {
        Way::Direct { from } => format!("from {from}"),
        Way::Through { gateways } => format!("through {}", gateways.join(", ")),
        Way::Here => "this machine".to_owned(),
        Way::NoNet => "no net".to_owned(),
        Way::NoDevice { .. } => "no RDMA device".to_owned(),
        Way::Unexamined { .. } | Way::NotAsked => "not tried".to_owned(),
        Way::Unreadable => "no NID".to_owned(),
    };
    let answer = match &reach.answer {
        Answer::Yes => "answers",
        Answer::No { .. } => "NO ANSWER",
        Answer::NotAsked => "-",
    };
    [
        name.to_owned(),
        node.to_owned(),
        reach.nid.clone(),
        way,
        answer.to_owned(),
    ]
}

fn release(granted: &Granted) -> String {
    granted.release.to_string()
}

fn finding_row(finding: &Finding) -> Value {
    let places = finding.places.iter();
    json!({
        "name": finding.kind.name,
        "fails": finding.severity == Severity::Fails,
        "means": finding.kind.means,
        "to_do": finding.kind.to_do,
        "places": places.map(|(place, seen)| json!({"place": place, "seen": seen})).collect::<Vec<_>>(),
    })
}

fn target_row(target: &TargetFacts) -> Value {
    let knocks = target.knocks.iter().map(|knock| {
        let served = knock.result.as_ref().ok();
        json!({
            "nid": knock.nid,
            "serves": knock.result.is_ok(),
            "release": served.map(|(granted, _)| release(granted)),
            "instance": served.map(|(granted, _)| granted.instance),
            "state": served.and_then(|(_, statfs)| statfs.map(|statfs| statfs.state)),
            "failure": knock.result.as_ref().err().map(ToString::to_string),
        })
    });
    json!({
        "name": target.name,
        "index": target.index,
        "inactive": target.is_inactive,
        "nodes": target.nodes,
        "now": target.now,
        "connects": knocks.collect::<Vec<_>>(),
    })
}
