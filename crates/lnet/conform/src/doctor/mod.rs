//! Examines from outside why this machine cannot use a node, step by step.
//!
//! ```text
//!  port ──▶ ping ──▶ handshakes ──▶ identity ──▶ sizes ──▶ way back      and each further port
//!   │ no LNet node that answers here: a finding, and the other steps were not tested
//! ```
//!
//! Every step has the timeout of the subject, and reads a limited number of bytes. The examination
//! sends only valid messages. A kernel logs at most a few rejected connections, because of an
//! unknown version or network. Only [`Examination::listen`] leaves a peer in the node's tables.

mod back;
mod catalogue;
mod identity;
mod ping;
mod reach;
mod sizes;
mod through;
mod versions;

use std::net::SocketAddr;
use std::time::Duration;

use lnet_types::{LndType, Nid};

use crate::node::{NodeUnderTest, SetupError, Subject};
use crate::probe::Stop;

pub use catalogue::{
    FINDING_KINDS, FindingKind, NAME_UNKNOWN, NI_DOWN, NID_NOT_LISTED, NO_LNET_SERVICE,
    NO_RDMA_DEVICE, NO_WAY, OWN_ADDRESS_MISSING, OWN_NET_MISSING, OWN_SOURCE_DIFFERS,
    PING_UNANSWERED, RDMA_FAILED_HERE, RDMA_REJECTED, RDMA_UNREACHABLE, RDMA_VERSION, Severity,
    UNSTEADY,
};

/// The subject of an examination and its extent.
#[derive(Clone, Debug)]
pub struct Examination {
    /// The node, and the local address. Its timeout applies to each step.
    pub subject: Subject,
    /// Further TCP ports of the node's address that must be reachable. If no node answers on the port of the subject,
    /// the node is looked for on these ports and on LNet's own, too.
    pub ports: Vec<u16>,
    /// Listen for a moment, to check whether the node can connect to this machine. Leaves a peer in
    /// the node's tables, and needs privileged source ports, because nodes do not dial other peers.
    pub listen: bool,
    /// How long a transfer may take at the nodes of the site: `transaction_timeout` divided by the
    /// number of attempts.
    pub lnd_timeout: Duration,
}

/// The observation of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The step's name.
    pub name: &'static str,
    /// False if nothing was tested; the text has the reason.
    pub tested: bool,
    /// The observation, in a line.
    pub seen: String,
}

/// A problem that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its kind, with the remedy.
    pub kind: &'static FindingKind,
    /// The observation, in a sentence.
    pub seen: String,
}

/// The result of an examination.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnosis {
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The problems, each kind once for each port; empty for a healthy node.
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

    fn found(&mut self, kind: &'static FindingKind, seen: impl Into<String>) {
        let seen = seen.into();
        let known = self
            .findings
            .iter()
            .any(|finding| finding.kind == kind && kind != &catalogue::PORT_FILTERED);
        if !known {
            self.findings.push(Finding { kind, seen });
        }
    }
}

/// Steps about a node that only a connection to the node shows.
const NEAR_ONLY: [&str; 5] = ["port", "release", "identity", "sizes", "way back"];

/// Examines the node `far` through a gateway, which is the subject of the examination. First examines
/// the gateway as [`examine`] does. Only messages pass a router, so of the node behind it only the
/// answers to pings are examined.
///
/// # Errors
///
/// As [`examine`].
pub fn examine_through(
    examination: &Examination,
    far: Nid,
    mut announce: impl FnMut(&'static str),
) -> Result<[Diagnosis; 2], SetupError> {
    let gateway = examine(examination, &mut announce)?;
    let mut diagnosis = Diagnosis::default();
    let node = NodeUnderTest::unchecked(examination.subject);
    let is_reached = gateway.steps.iter().any(|step| step.name == "node");
    announce("ping");
    if is_reached {
        through::ping(&node, far, examination.lnd_timeout, &mut diagnosis);
    } else {
        diagnosis.untested("ping", "the gateway does not answer");
    }
    for name in NEAR_ONLY {
        diagnosis.untested(
            name,
            "only messages pass a router: examine the node from its own network",
        );
    }
    Ok([gateway, diagnosis])
}

/// Steps that need a node which answers.
const INSIDE: [&str; 5] = ["ping", "release", "identity", "sizes", "way back"];

/// Examines a node. Calls `announce` with the name of each step at its beginning.
///
/// # Errors
///
/// [`SetupError::NotTcp`] and [`SetupError::Privilege`]: nothing could be examined. A node that
/// cannot be reached is not an error but a finding.
pub fn examine(
    examination: &Examination,
    mut announce: impl FnMut(&'static str),
) -> Result<Diagnosis, SetupError> {
    let subject = examination.subject;
    if subject.nid.net().lnd != LndType::TCP {
        return Err(SetupError::NotTcp(subject.nid));
    }
    let node = NodeUnderTest::unchecked(subject);
    let mut diagnosis = Diagnosis::default();
    announce("port");
    if reach::try_node(&node, &examination.ports, &mut diagnosis)? {
        inside(examination, &node, &mut diagnosis, &mut announce);
    } else {
        for name in INSIDE {
            diagnosis.untested(name, "no node answers");
        }
    }
    for &port in &examination.ports {
        announce("further port");
        let address = SocketAddr::new(subject.address.ip(), port);
        reach::try_port(Subject { address, ..subject }, &mut diagnosis);
    }
    Ok(diagnosis)
}

/// The steps that need a node which answers.
fn inside(
    examination: &Examination,
    node: &NodeUnderTest,
    diagnosis: &mut Diagnosis,
    announce: &mut impl FnMut(&'static str),
) {
    announce("ping");
    let answers = ping::ping(node, examination.lnd_timeout, diagnosis);
    announce("release");
    versions::versions(node, answers.as_ref(), diagnosis);
    announce("identity");
    identity::identity(node, diagnosis);
    if answers.is_none() {
        diagnosis.untested("sizes", "no ping is answered");
        diagnosis.untested("way back", "no ping is answered");
        return;
    }
    announce("sizes");
    sizes::sizes(node, diagnosis);
    announce("way back");
    if examination.listen {
        back::way_back(node, diagnosis);
    } else {
        diagnosis.untested("way back", "--listen is not given");
    }
}

/// The reason why a step ended.
fn reason(stop: Stop) -> String {
    match stop {
        Stop::Failed(why) | Stop::NotApplicable(why) | Stop::Local(why) => why,
    }
}

/// A duration in milliseconds.
fn milliseconds(duration: Duration) -> String {
    format!("{:.3} ms", duration.as_secs_f64() * 1_000.0)
}
