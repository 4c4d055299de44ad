//! Converts the faults of a document into faults of a plan.

use lnet_core::{DropRule, FaultFilter, FaultTypes, MessageStatus, Pace};
use serde_saphyr::Spanned;

use super::compile::{SPAN_MAX_NS, nanoseconds};
use super::document::{CompletionText, FaultText, TroubleText};
use super::error::ScenarioError;
use crate::cores::lnd::CompletionError;
use crate::cores::plan::{Fault, PortId, Trouble, World};

/// The limit on the repetitions of a fault. More are a mistake.
const TIMES_MAX: u32 = 10_000;

/// Returns all repetitions of one fault.
pub(super) fn faults(text: &FaultText, world: &World) -> Result<Vec<Fault>, ScenarioError> {
    let (at, until) = (nanoseconds(text.at), nanoseconds(text.until.value));
    if until < at {
        let help = "write a time that is not before 'at'";
        return Err(ScenarioError::of(
            &text.until,
            "the fault ends before it begins",
            help,
        ));
    }
    let what = trouble(&text.what, world)?;
    let every = nanoseconds(text.every);
    let times = 0..u64::from(text.times.min(TIMES_MAX));
    let later = |from: u64, time: u64| {
        from.saturating_add(time.saturating_mul(every))
            .min(SPAN_MAX_NS)
    };
    Ok(times
        .map(|time| Fault {
            at: later(at, time),
            until: later(until, time),
            what: what.clone(),
        })
        .collect())
}

fn trouble(text: &TroubleText, world: &World) -> Result<Trouble, ScenarioError> {
    Ok(match text {
        TroubleText::Link(name) => Trouble::Link(link(name, world)?),
        TroubleText::Port(name) => Trouble::Port(port(name, world)?),
        TroubleText::Device(name) => Trouble::Device(port(name, world)?),
        TroubleText::Interrupt(name) => Trouble::Interrupt(port(name, world)?),
        TroubleText::LostCompletions(name) => Trouble::LostCompletions(port(name, world)?),
        TroubleText::Crash(name) => Trouble::Crash(node(name, world)?),
        TroubleText::Reject(name) => Trouble::Reject(node(name, world)?),
        TroubleText::Partition(names) => {
            let nodes: Result<_, _> = names.iter().map(|name| node(name, world)).collect();
            Trouble::Partition(nodes?)
        }
        TroubleText::SlowLink { link: name, by } => Trouble::SlowLink(link(name, world)?, *by),
        TroubleText::SlowPort { port: name, by } => Trouble::SlowPort(port(name, world)?, *by),
        TroubleText::Loss {
            port: name,
            one_in,
            types,
        } => Trouble::Loss(port(name, world)?, types_of(types)?, *one_in),
        TroubleText::Completion { port: name, error } => {
            Trouble::Completion(port(name, world)?, completion(*error))
        }
        TroubleText::Rule {
            node: name,
            one_in,
            types,
            classes,
        } => {
            if one_in.value == 0 {
                return Err(ScenarioError::of(
                    one_in,
                    "one in 0 messages",
                    "write 1 for each",
                ));
            }
            let classes: Result<_, _> = classes.iter().map(class).collect();
            let filter = FaultFilter {
                types: types_of(types)?,
                ..FaultFilter::default()
            };
            let rule = DropRule {
                filter,
                pace: Pace::Rate(one_in.value),
                classes: classes?,
                all: false,
            };
            Trouble::Rule(node(name, world)?, Box::new(rule))
        }
        TroubleText::Lie {
            port: name,
            class: named,
        } => Trouble::Lie(port(name, world)?, class(named)?),
    })
}

fn completion(text: CompletionText) -> CompletionError {
    match text {
        CompletionText::Local => CompletionError::Local,
        CompletionText::Flushed => CompletionError::Flushed,
        CompletionText::RetryExceeded => CompletionError::RetryExceeded,
        CompletionText::ReceiverNotReady => CompletionError::ReceiverNotReady,
        CompletionText::Remote => CompletionError::Remote,
    }
}

fn node(name: &Spanned<String>, world: &World) -> Result<u32, ScenarioError> {
    let at = world.nodes.iter().position(|node| node.name == name.value);
    at.map(|at| at as u32).ok_or_else(|| {
        let known: Vec<&str> = world
            .nodes
            .iter()
            .take(20)
            .map(|node| node.name.as_str())
            .collect();
        let help = format!("nodes are: {}", known.join(", "));
        ScenarioError::of(name, format!("no node '{}'", name.value), help)
    })
}

/// Parses an interface: `server0/1` is the second interface of `server0`.
fn port(name: &Spanned<String>, world: &World) -> Result<PortId, ScenarioError> {
    let (of, ni) = name.value.split_once('/').unwrap_or((&name.value, "0"));
    let owner = Spanned::new(of.to_owned(), name.referenced, name.defined);
    let node = node(&owner, world)?;
    let nis = world
        .nodes
        .get(node as usize)
        .map_or(0, |node| node.nis.len());
    match ni.parse::<u16>() {
        Ok(ni) if usize::from(ni) < nis => Ok(PortId { node, ni }),
        _ => {
            let help = format!(
                "interfaces of {of} are {of}/0 to {of}/{}",
                nis.saturating_sub(1)
            );
            Err(ScenarioError::of(
                name,
                format!("no interface '{}'", name.value),
                help,
            ))
        }
    }
}

/// Parses the link between two switches: `0-1`.
fn link(name: &Spanned<String>, world: &World) -> Result<u32, ScenarioError> {
    let ends = name.value.split_once('-');
    let ends = ends.and_then(|(a, b)| Some((a.parse::<u32>().ok()?, b.parse::<u32>().ok()?)));
    let joins = |a: u32, b: u32| {
        let mut links = world.links.iter();
        links.position(|link| (link.a, link.b) == (a, b) || (link.b, link.a) == (a, b))
    };
    let found = ends.and_then(|(a, b)| joins(a, b));
    found.map(|at| at as u32).ok_or_else(|| {
        let help = "write two switches that are joined, such as 0-1";
        ScenarioError::of(name, format!("no link '{}'", name.value), help)
    })
}

fn types_of(names: &[Spanned<String>]) -> Result<FaultTypes, ScenarioError> {
    let mut types = FaultTypes::empty();
    for name in names {
        let named = FaultTypes::from_name(&name.value.to_uppercase());
        types |= named.ok_or_else(|| {
            let what = format!("no message type '{}'", name.value);
            ScenarioError::of(name, what, "types are: put, get, ack, reply")
        })?;
    }
    Ok(types)
}

/// The names of classes in the spelling of `lnetctl fault`.
const CLASSES: [(&str, MessageStatus); 10] = [
    ("local_interrupt", MessageStatus::LocalInterrupt),
    ("local_dropped", MessageStatus::LocalDropped),
    ("local_aborted", MessageStatus::LocalAborted),
    ("local_no_route", MessageStatus::LocalNoRoute),
    ("local_error", MessageStatus::LocalError),
    ("local_timeout", MessageStatus::LocalTimeout),
    ("remote_error", MessageStatus::RemoteError),
    ("remote_dropped", MessageStatus::RemoteDropped),
    ("remote_timeout", MessageStatus::RemoteTimeout),
    ("network_timeout", MessageStatus::NetworkTimeout),
];

fn class(name: &Spanned<String>) -> Result<MessageStatus, ScenarioError> {
    let known = CLASSES.iter().find(|(known, _)| *known == name.value);
    known.map(|(_, class)| *class).ok_or_else(|| {
        let names: Vec<&str> = CLASSES.iter().map(|(name, _)| *name).collect();
        let what = format!("no class '{}'", name.value);
        ScenarioError::of(name, what, format!("classes are: {}", names.join(", ")))
    })
}
