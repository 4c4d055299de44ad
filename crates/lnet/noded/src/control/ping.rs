//! Carries out `ping` and `discover` for a client, one peer after the other.
//!
//! `discover` carries out a discovery. If discovery is off, it pings instead and stores the NIDs that the peer lists.

use std::io;
use std::time::Duration;

use lnet_config::{Document, PeerReply};
use lnet_dlc::protocol::{Failure, Reply};
use lnet_node::{NoPath, NodeError, PingError, PingReply};
use lnet_types::Nid;
use lnet_wire::PingFeatures;

use super::connection::Pieces;
use super::request::{failure, parsed};
use crate::managed::ManagedNode;

/// How to ask the peers.
pub(super) struct How<'a> {
    /// The interface to send from; `None` lets selection choose.
    pub(super) source: Option<&'a str>,
    /// The timeout for each peer.
    pub(super) timeout: Duration,
    /// Whether to store the peers' answers.
    pub(super) discover: bool,
}

const EIO: i32 = 5;
const EINVAL: i32 = 22;
const ESHUTDOWN: i32 = 108;
const EHOSTUNREACH: i32 = 113;
const ETIMEDOUT: i32 = 110;

/// The most peers that one request may name.
const PEERS_MAX: usize = 1024;

pub(super) fn ask(
    node: &ManagedNode,
    nids: &[String],
    how: &How<'_>,
    send: Pieces<'_>,
) -> io::Result<Reply> {
    let entity = if how.discover { "discover" } else { "ping" };
    let none_is_a_nid = nids.iter().all(|text| text.parse::<Nid>().is_err());
    if none_is_a_nid || nids.len() > PEERS_MAX {
        let descr = "Unable to parse nidlist: no valid NIDs in string";
        return Ok(failure("manage", entity, -EINVAL, descr));
    }
    let source: Option<Nid> = match how.source.map(parsed).transpose() {
        Ok(source) => source,
        Err(refused) => return Ok(refused),
    };
    let mut answers = Vec::new();
    let mut failures = Vec::new();
    for text in nids {
        match text.parse::<Nid>() {
            Ok(nid) => match ask_one(node, nid, source, how) {
                Ok(answer) => answers.push(answer),
                Err(why) => failures.push(unanswered(entity, text, &why)),
            },
            Err(_) => failures.push(unanswered(entity, text, &Unanswered::from(-EINVAL))),
        }
    }
    if !answers.is_empty() {
        let replies = vec![if how.discover {
            lnet_config::Reply::Discover(answers)
        } else {
            lnet_config::Reply::Ping(answers)
        }];
        let document = Document {
            replies,
            ..Document::default()
        };
        send(Reply::Text(document.to_yaml()))?;
    }
    Ok(if failures.is_empty() {
        Reply::Done
    } else {
        Reply::Failed(failures)
    })
}

fn ask_one(
    node: &ManagedNode,
    nid: Nid,
    source: Option<Nid>,
    how: &How<'_>,
) -> Result<PeerReply, Unanswered> {
    if nid.is_any() {
        return Err(Unanswered::from(-EINVAL));
    }
    let discovers = how.discover && node.with_core(|core, _| core.globals().discovery);
    // For loopback, the node is discovered by its first NID.
    let first = node.node().primary_nid();
    let target = if nid.is_loopback() { first } else { nid };
    let is_own = target.is_loopback() || node.node().nids().contains(&target);
    if how.discover && is_own && (!discovers || target.is_loopback()) {
        return Ok(ourselves(node, discovers));
    }
    if discovers {
        let peer = node.node().discover(target, how.timeout);
        let peer = peer.map_err(|error| {
            let is_late = matches!(error, PingError::TimedOut { .. });
            let unanswered = Unanswered::from(error);
            match is_late {
                true => Unanswered {
                    errno: -ETIMEDOUT,
                    ..unanswered
                },
                false => unanswered,
            }
        })?;
        return Ok(PeerReply {
            primary: peer.primary,
            multi_rail: peer.multi_rail,
            nids: peer.nis.iter().map(|ni| ni.nid).collect(),
        });
    }
    let answer = node
        .node()
        .ping(nid, source, how.timeout)
        .map_err(Unanswered::from)?;
    if how.discover {
        remember(node, &answer)?;
    }
    let known = node.with_core(|core, _| core.peer_with(nid));
    let multi_rail = known.as_ref().is_some_and(|peer| peer.multi_rail);
    let primary = known
        .filter(|_| multi_rail)
        .map_or(nid, |peer| peer.primary);
    let others = answer.nis.iter().map(|ni| ni.nid);
    let others = others.filter(|&other| other != primary && !other.is_loopback());
    Ok(PeerReply {
        primary,
        multi_rail,
        nids: std::iter::once(primary)
            .filter(|primary| !primary.is_loopback())
            .chain(others)
            .collect(),
    })
}

/// Returns what a peer that discovers this node would find, without sending anything.
fn ourselves(node: &ManagedNode, multi_rail: bool) -> PeerReply {
    PeerReply {
        primary: node.node().primary_nid(),
        multi_rail,
        nids: node.node().nids(),
    }
}

/// Stores the peer with all NIDs that it lists. A peer that was configured as Multi-Rail stays so, even if it says
/// otherwise.
fn remember(node: &ManagedNode, answer: &PingReply) -> Result<(), i32> {
    let nids: Vec<Nid> = answer.nis.iter().map(|ni| ni.nid).collect();
    let says_so = answer.features.contains(PingFeatures::MULTI_RAIL);
    let added = node.changing().make(|node, _| {
        let core = node.core_mut();
        let known = core.peer_with(answer.primary_nid);
        let configured = known.is_some_and(|peer| peer.configured && peer.multi_rail);
        core.add_peer(answer.primary_nid, &nids, says_so || configured)
    });
    added.map_err(|error| -error.errno().0)
}

/// The reason why a peer has not answered.
struct Unanswered {
    /// The negative errno.
    errno: i32,
    /// The gateways that lead to the peer, if all of them are down or have not answered.
    no_path: Option<NoPath>,
}

impl From<i32> for Unanswered {
    fn from(errno: i32) -> Self {
        Self {
            errno,
            no_path: None,
        }
    }
}

impl From<PingError> for Unanswered {
    fn from(error: PingError) -> Self {
        Self {
            errno: errno(&error),
            no_path: error.no_path().cloned(),
        }
    }
}

/// Describes a peer that has not answered in the words of kernel nodes. Adds the gateways that are down, or the size
/// of the address, if that is the reason.
fn unanswered(entity: &str, nid: &str, failed: &Unanswered) -> Failure {
    let errno = failed.errno;
    let why = io::Error::from_raw_os_error(-errno).to_string();
    // The library's text without the number that Rust appends.
    let why = why.split(" (os error").next().unwrap_or(&why);
    let gateways = failed
        .no_path
        .as_ref()
        .filter(|why| !why.gateways.is_empty() || why.other_size.is_some());
    let because = gateways.map(|why| format!(" ({why})")).unwrap_or_default();
    Failure {
        verb: "manage".to_owned(),
        entity: entity.to_owned(),
        errno,
        descr: format!("failed to {entity} {nid}: {why}{because}"),
        seq_no: None,
    }
}

/// Returns the errno that `lnetctl` prints: no reply in time is an I/O error, but a
/// handshake that does not end is a timeout.
fn errno(error: &PingError) -> i32 {
    match error {
        PingError::Failed { errno, .. } => -errno.0.abs(),
        PingError::NoPath { .. } => -EHOSTUNREACH,
        PingError::NotSent { .. } => -ETIMEDOUT,
        PingError::DiscoveryOff => -EINVAL,
        PingError::Node(NodeError::ShutDown) => -ESHUTDOWN,
        _ => -EIO,
    }
}
