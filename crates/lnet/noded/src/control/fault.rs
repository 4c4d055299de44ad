//! Changes and lists fault rules for a client.

use std::fmt::Write;
use std::time::Duration;

use lnet_core::{
    Core, DelayRule, DropRule, FaultFilter, FaultStats, FaultTypes, MessageStatus, NidFilter, Pace,
};
use lnet_dlc::protocol::{Fault, FaultPace, FaultRule, Reply};

use super::request::{parsed, refusal};
use crate::managed::ManagedNode;

const EINVAL: i32 = 22;
const ENOENT: i32 = 2;

pub(super) fn carry_out(node: &ManagedNode, fault: &Fault) -> Reply {
    let done = match fault {
        Fault::Add(rule) => add(node, rule),
        Fault::Del {
            delay,
            source,
            dest,
        } => delete(node, *delay, source.as_deref(), dest.as_deref()),
        Fault::Reset { delay: _ } => {
            node.with_core(|core, _| core.reset_fault_rules());
            Ok(Reply::Done)
        }
        Fault::Show { delay } => Ok(Reply::Text(node.with_core(|core, _| listed(core, *delay)))),
    };
    done.unwrap_or_else(|refused| refused)
}

fn add(node: &ManagedNode, rule: &FaultRule) -> Result<Reply, Reply> {
    let local = rule.local_nid.as_deref();
    let filter = FaultFilter {
        source: nid_filter(&rule.source)?,
        destination: nid_filter(&rule.dest)?,
        local: local.map_or(Ok(NidFilter::Any), nid_filter)?,
        types: types(&rule.messages)?,
        portals: portals(rule.portal)?,
    };
    let pace = pace(rule);
    let added = match rule.delay {
        Some(seconds) => {
            let latency = Duration::from_secs(seconds.into());
            let rule = DelayRule {
                filter,
                pace,
                latency,
            };
            node.with_core(|core, _| core.add_delay_rule(rule))
        }
        None => {
            let rule = DropRule {
                filter,
                pace,
                classes: classes(&rule.errors)?,
                all: rule.all,
            };
            node.with_core(|core, _| core.add_drop_rule(rule))
        }
    };
    match added {
        Ok(()) => Ok(Reply::Done),
        Err(error) => Err(refusal(-EINVAL, error.to_string())),
    }
}

fn delete(
    node: &ManagedNode,
    delay: bool,
    source: Option<&str>,
    dest: Option<&str>,
) -> Result<Reply, Reply> {
    let source = source.map_or(Ok(NidFilter::Any), nid_filter)?;
    let dest = dest.map_or(Ok(NidFilter::Any), nid_filter)?;
    let gone = node.with_core(|core, _| {
        if delay {
            core.delete_delay_rules(source, dest)
        } else {
            core.delete_drop_rules(source, dest)
        }
    });
    let all = (source, dest) == (NidFilter::Any, NidFilter::Any);
    if gone == 0 && !all {
        return Err(refusal(-ENOENT, "no such rule".to_owned()));
    }
    Ok(Reply::Text(format!("removed {gone} rules\n")))
}

/// Parses a NID, `*@NET`, or `*`.
fn nid_filter(text: &str) -> Result<NidFilter, Reply> {
    match text.strip_prefix('*') {
        Some("") => Ok(NidFilter::Any),
        Some(net) => parsed(net.strip_prefix('@').unwrap_or(net)).map(NidFilter::Net),
        None => parsed(text).map(NidFilter::Nid),
    }
}

fn types(names: &[String]) -> Result<FaultTypes, Reply> {
    let types = names
        .iter()
        .map(|name| match name.to_ascii_uppercase().as_str() {
            "PUT" => Ok(FaultTypes::PUT),
            "ACK" => Ok(FaultTypes::ACK),
            "GET" => Ok(FaultTypes::GET),
            "REPLY" => Ok(FaultTypes::REPLY),
            _ => Err(refusal(
                -EINVAL,
                format!("'{name}' is not PUT, ACK, GET or REPLY"),
            )),
        });
    types
        .collect::<Result<Vec<_>, _>>()
        .map(FaultTypes::from_iter)
}

fn portals(portal: Option<u32>) -> Result<u64, Reply> {
    let Some(portal) = portal else { return Ok(0) };
    1_u64
        .checked_shl(portal)
        .ok_or_else(|| refusal(-EINVAL, format!("portal {portal}: 0 to 63")))
}

/// Parses the class names that `lnetctl` knows; `random` is every class.
fn classes(names: &[String]) -> Result<Vec<MessageStatus>, Reply> {
    let failures = || {
        MessageStatus::ALL
            .into_iter()
            .filter(|status| *status != MessageStatus::Ok)
    };
    let mut classes = Vec::new();
    for name in names {
        let plain = name.to_ascii_lowercase().replace('_', "");
        if plain == "random" {
            classes.extend(failures());
            continue;
        }
        let known = failures().find(|status| format!("{status:?}").to_ascii_lowercase() == plain);
        classes.push(
            known.ok_or_else(|| refusal(-EINVAL, format!("'{name}' is not a class of errors")))?,
        );
    }
    Ok(classes)
}

fn pace(rule: &FaultRule) -> Pace {
    match rule.pace {
        _ if rule.random_interval => Pace::HalfOfAll,
        FaultPace::Rate(messages) => Pace::Rate(messages),
        FaultPace::Interval(seconds) => Pace::Interval(Duration::from_secs(seconds.into())),
    }
}

/// Lists the rules as `lctl` does; returns nothing if there are none.
// [FAULT-6]
fn listed(core: &Core, delay: bool) -> String {
    let lines: Vec<String> = if delay {
        let rules = core.delay_rules();
        let latency = |rule: &DelayRule| format!(", latency {}", rule.latency.as_secs());
        rules
            .map(|(rule, stats)| line(&rule.filter, rule.pace, &latency(rule), stats))
            .collect()
    } else {
        let rules = core.drop_rules();
        rules
            .map(|(rule, stats)| line(&rule.filter, rule.pace, "", stats))
            .collect()
    };
    if lines.is_empty() {
        return String::new();
    }
    let mut text = format!("LNet {} rules:\n", if delay { "delay" } else { "drop" });
    for line in &lines {
        text.push_str(line);
        text.push('\n');
    }
    // Writing into a string does not fail.
    let _ = writeln!(text, "found total {}", lines.len());
    text
}

fn line(filter: &FaultFilter, pace: Pace, latency: &str, stats: FaultStats) -> String {
    let (rate, interval) = match pace {
        Pace::Rate(messages) => (u64::from(messages), 0),
        Pace::Interval(span) => (0, span.as_secs()),
        Pace::HalfOfAll => (2, 0),
    };
    let types = if filter.types.is_empty() {
        FaultTypes::all()
    } else {
        filter.types
    };
    let FaultStats {
        matched,
        struck,
        put,
        ack,
        get,
        reply,
    } = stats;
    format!(
        "{}->{} (1/{rate} | {interval}{latency}) ptl {:x}, msg {:x}, {struck}/{matched}, \
         PUT {put}, ACK {ack}, GET {get}, REP {reply}",
        shown(filter.source),
        shown(filter.destination),
        filter.portals,
        types.bits(),
    )
}

fn shown(filter: NidFilter) -> String {
    match filter {
        NidFilter::Any => "*".to_owned(),
        NidFilter::Net(net) => format!("*@{net}"),
        NidFilter::Nid(nid) => nid.to_string(),
    }
}
