//! What keeps this machine from using a node: one examination, step by step, from outside.
//!
//! ```text
//!  door ──▶ ping ──▶ handshakes ──▶ identity ──▶ sizes ──▶ way back      and each further port
//!   │ no LNet node that answers here: a finding, and the other steps were not tested
//! ```
//!
//! Every step has the timeout of the subject, and reads a bounded number of bytes. The doctor sends what nodes
//! in good order send; a kernel logs at most that it rejected a few connections: a version that it does not
//! know, or a network that it does not have. Only [`Examination::listen`] leaves a peer in the node's tables.

mod back;
mod catalogue;
mod door;
mod identity;
mod ping;
mod sizes;
mod versions;

use std::net::SocketAddr;
use std::time::Duration;

use lnet_types::LndType;

use crate::meeting::{MeetError, Meeting, Subject};
use crate::probe::Stop;

pub use catalogue::{AILMENTS, Ailment, NAME_UNKNOWN, Severity};

/// What is examined, and how thoroughly.
#[derive(Clone, Debug)]
pub struct Examination {
    /// The node, and from where. Its timeout is that of each step.
    pub subject: Subject,
    /// Further TCP ports of the node's address that have to be reachable.
    pub ports: Vec<u16>,
    /// Listen here for a moment, to see whether the node can connect to this machine. Leaves a peer in the
    /// node's tables, and wants privileged source ports: nodes take others for peers that nobody can dial.
    pub listen: bool,
    /// How long a transfer may take at the nodes of the site: `transaction_timeout` divided among the tries.
    pub lnd_timeout: Duration,
}

/// What a step saw, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The step's name.
    pub name: &'static str,
    /// False where nothing was tested; the text says why.
    pub tested: bool,
    /// What was seen, in a line.
    pub seen: String,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its kind, with what to do.
    pub ailment: &'static Ailment,
    /// What was seen, in a sentence.
    pub seen: String,
}

/// The result of an examination.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnosis {
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// What is wrong, each kind once for each port; empty for a node in good order.
    pub findings: Vec<Finding>,
}

impl Diagnosis {
    fn saw(&mut self, name: &'static str, seen: impl Into<String>) {
        let seen = seen.into();
        let tested = true;
        self.steps.push(Step { name, tested, seen });
    }

    fn untested(&mut self, name: &'static str, why: impl Into<String>) {
        let seen = why.into();
        let tested = false;
        self.steps.push(Step { name, tested, seen });
    }

    fn found(&mut self, ailment: &'static Ailment, seen: impl Into<String>) {
        let seen = seen.into();
        let known = self
            .findings
            .iter()
            .any(|it| it.ailment == ailment && ailment != &catalogue::PORT_FILTERED);
        if !known {
            self.findings.push(Finding { ailment, seen });
        }
    }
}

/// Steps behind the door, which are not made where no node answers.
const INSIDE: [&str; 5] = ["ping", "release", "identity", "sizes", "way back"];

/// Examines a node. `announce` hears the name of each step when it begins.
///
/// # Errors
///
/// [`MeetError::NotTcp`] and [`MeetError::Privilege`]: nothing could be examined. A node that cannot be
/// reached is a finding.
pub fn examine(
    examination: &Examination,
    mut announce: impl FnMut(&'static str),
) -> Result<Diagnosis, MeetError> {
    let subject = examination.subject;
    if subject.nid.net().lnd != LndType::TCP {
        return Err(MeetError::NotTcp(subject.nid));
    }
    let meeting = Meeting::unmet(subject);
    let mut diagnosis = Diagnosis::default();
    announce("port");
    if door::try_door(&meeting, &mut diagnosis)? {
        inside(examination, &meeting, &mut diagnosis, &mut announce);
    } else {
        for name in INSIDE {
            diagnosis.untested(name, "no node answers");
        }
    }
    for &port in &examination.ports {
        announce("further port");
        let address = SocketAddr::new(subject.address.ip(), port);
        door::try_port(Subject { address, ..subject }, &mut diagnosis);
    }
    Ok(diagnosis)
}

/// The steps that need a node which answers.
fn inside(
    examination: &Examination,
    meeting: &Meeting,
    diagnosis: &mut Diagnosis,
    announce: &mut impl FnMut(&'static str),
) {
    announce("ping");
    let answers = ping::ping(meeting, examination.lnd_timeout, diagnosis);
    announce("release");
    versions::versions(meeting, answers.as_ref(), diagnosis);
    announce("identity");
    identity::identity(meeting, diagnosis);
    if answers.is_none() {
        diagnosis.untested("sizes", "no ping is answered");
        diagnosis.untested("way back", "no ping is answered");
        return;
    }
    announce("sizes");
    sizes::sizes(meeting, diagnosis);
    announce("way back");
    if examination.listen {
        back::way_back(meeting, diagnosis);
    } else {
        diagnosis.untested("way back", "nothing listens here without --listen");
    }
}

/// What ended a step.
fn reason(stop: Stop) -> String {
    match stop {
        Stop::Failed(why) | Stop::NotApplicable(why) => why,
    }
}

/// A time as people read it.
fn milliseconds(duration: Duration) -> String {
    format!("{:.3} ms", duration.as_secs_f64() * 1_000.0)
}
