//! What happens when tries fail, by really failing a message in a core made from the state.
//!
//! Each branch fails every try in the same way. A failure that is noticed by its absence (a timeout) takes as
//! long as the LND gives a try, any other is taken to be noticed at once. Recovery pings that go out meanwhile
//! are not answered.

use std::time::Duration;

use lnet_core::{MessageStatus, StateError, Transmit};
use lnet_policy::Profile;

use crate::Question;
use crate::drive::{Drive, Step};
use crate::explanation::{Branch, ResendTree, Try};
use crate::node::Node;

/// Tries that are followed; more than any sensible retry count.
const TRIES_MAX: usize = 64;

/// A failure is noticed within a day; what a core does meanwhile is done step by step.
const NOTICED_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The trees of the design and of kernels: as the node behaves, or as 2.16 does.
pub(crate) fn trees(node: &Node, question: &Question) -> Result<Vec<ResendTree>, StateError> {
    let own = node.state.config.globals.profile;
    let kernels = if own.is_lustre() {
        own
    } else {
        Profile::Lustre
    };
    let trees = [Profile::Design, kernels].into_iter().map(|profile| {
        let mut node = node.clone();
        node.state.config.globals.profile = profile;
        Ok(ResendTree {
            profile: profile.name(),
            branches: branches(&node, question)?,
        })
    });
    trees.collect()
}

fn branches(node: &Node, question: &Question) -> Result<Vec<Branch>, StateError> {
    let mut branches: Vec<Branch> = Vec::new();
    let failures = MessageStatus::ALL
        .into_iter()
        .filter(|&status| status != MessageStatus::Ok);
    for status in failures {
        let Some(mut branch) = branch(node, question, status)? else {
            return Ok(branches);
        };
        let same = |one: &&mut Branch| {
            (&one.tries, &one.end, one.end_seconds)
                == (&branch.tries, &branch.end, branch.end_seconds)
        };
        match branches.iter_mut().find(same) {
            Some(known) => known.classes.append(&mut branch.classes),
            None => branches.push(branch),
        }
    }
    Ok(branches)
}

/// `None` when not even the first try goes out.
fn branch(
    node: &Node,
    question: &Question,
    status: MessageStatus,
) -> Result<Option<Branch>, StateError> {
    let mut drive = Drive::new(node)?;
    let begun = drive.now;
    let mut tries = Vec::new();
    let mut step = drive.send(question);
    while let (Step::Out(transmit), true) = (&step, tries.len() < TRIES_MAX) {
        tries.push(Try {
            path: drive.path_of(transmit),
            at_seconds: (drive.now - begun).as_secs(),
        });
        drive.now = drive.now + time_until_noticed(&drive, transmit, status);
        drive.answer(transmit, status);
        step = drive.next();
    }
    if tries.is_empty() {
        return Ok(None);
    }
    Ok(Some(Branch {
        classes: vec![class_name(status)],
        tries,
        end: end(&step),
        end_seconds: (drive.now - begun).as_secs(),
    }))
}

fn time_until_noticed(drive: &Drive<'_>, transmit: &Transmit, status: MessageStatus) -> Duration {
    if !matches!(
        status,
        MessageStatus::LocalTimeout | MessageStatus::RemoteTimeout | MessageStatus::NetworkTimeout
    ) {
        return Duration::ZERO;
    }
    let mut nis = drive.core.nis();
    let ni = nis.find(|ni| ni.id == transmit.ni);
    ni.map_or(Duration::ZERO, |ni| ni.lnd_timeout.min(NOTICED_MAX))
}

fn end(step: &Step) -> String {
    match step {
        Step::Over(Some(errno)) => format!("given up with -{errno}{}", errno_name(*errno)),
        Step::Over(None) => "sent".to_owned(),
        Step::Waits => "waits for a credit".to_owned(),
        Step::Out(_) => "and so on".to_owned(),
    }
}

fn errno_name(errno: i32) -> &'static str {
    match errno {
        5 => " (EIO)",
        19 => " (ENODEV)",
        100 => " (ENETDOWN)",
        110 => " (ETIMEDOUT)",
        113 => " (EHOSTUNREACH)",
        125 => " (ECANCELED)",
        _ => "",
    }
}

/// A class as `lctl` names it.
pub(crate) fn class_name(status: MessageStatus) -> &'static str {
    match status {
        MessageStatus::Ok => "ok",
        MessageStatus::LocalInterrupt => "local_interrupt",
        MessageStatus::LocalDropped => "local_dropped",
        MessageStatus::LocalAborted => "local_aborted",
        MessageStatus::LocalNoRoute => "local_no_route",
        MessageStatus::LocalError => "local_error",
        MessageStatus::LocalTimeout => "local_timeout",
        MessageStatus::RemoteError => "remote_error",
        MessageStatus::RemoteDropped => "remote_dropped",
        MessageStatus::RemoteTimeout => "remote_timeout",
        MessageStatus::NetworkTimeout => "network_timeout",
    }
}
