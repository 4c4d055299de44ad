//! The sequence of tries if tries fail: a core that is made from the state sends a message, and each try fails.
//!
//! Each branch fails every try with the same class. A timeout is noticed after the LND timeout of one try; any
//! other failure is assumed to be noticed at once. Recovery pings that the core sends meanwhile are not answered.

use std::time::Duration;

use lnet_core::{MessageStatus, StateError, Transmit};
use lnet_policy::Profile;

use crate::Question;
use crate::drive::{Drive, Step};
use crate::explanation::{Branch, ResendTree, Try};
use crate::node::Node;

/// The limit on the tries that are followed. It exceeds any sensible retry count.
const TRIES_MAX: usize = 64;

/// The limit on the time until a timeout is noticed. The core processes all its deadlines in that time one by one,
/// so a longer time would take long to simulate.
const NOTICED_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns the tree of the design and the tree of kernels. The second tree uses the node's own profile if that is a
/// kernel's, and the profile of release 2.16 otherwise.
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

/// Returns the branch of one class of failure; `None` if not even the first try is transmitted.
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
        Step::Over(Some(errno)) => format!("fails with -{errno}{}", errno_name(*errno)),
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

/// Returns the name of a class in the spelling of `lctl`.
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
