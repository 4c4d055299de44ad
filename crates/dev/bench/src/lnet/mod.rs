//! Finerail's side of the comparison: the same messages as LNet PUTs and GETs between nodes of this program.
//!
//! ```text
//!   initiator 127.0.0.2@tcp ─────▶ target 127.0.0.3@tcp
//!             127.0.0.2@tcp ─────▶ router 127.0.0.4@tcp
//!                                  router 127.0.0.5@tcp1 ─────▶ routed target 127.0.0.6@tcp1
//! ```
//!
//! At both ends the thread that waits for events drives the node, because the raw ends do their own reading and
//! writing, too. A stream has no ACKs: the header data of every PUT contains the number of messages in the stream,
//! and the target answers the last message with a PUT of its own. So the clock stops when all data has arrived and
//! the program has seen it.

pub(super) mod bystander;
pub(super) mod crowd;
pub(super) mod fan;
mod initiator;
pub(super) mod target;

use std::fs;
use std::net::Ipv4Addr;

use anyhow::{Context, anyhow};
use lnet_node::{Node, NodeOptions, Progress};
use lnet_noded::ManagedNode;
use lnet_types::Nid;
use sys::ReservedPort;

use super::child::{Peer, PeerSpec};
use super::peer::Role;
use super::workload;

pub(super) use initiator::Initiator;

/// The limit on the messages in flight to one peer. With LNet's default of 8, a stream of small messages would wait
/// for credits, and the raw limit has no such waits.
pub(super) const PEER_CREDITS: u32 = 64;

/// A node of the bench.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The NIDs, each on the net that its suffix names.
    nids: &'static [&'static str],
    /// A remote net, and the gateway to it.
    route: Option<(&'static str, &'static str)>,
}

pub(super) const INITIATOR: Place = Place {
    nids: &["127.0.0.2@tcp"],
    route: Some(("tcp1", "127.0.0.4@tcp")),
};
pub(super) const TARGET: Place = Place {
    nids: &["127.0.0.3@tcp"],
    route: None,
};
pub(super) const ROUTER: Place = Place {
    nids: &["127.0.0.4@tcp", "127.0.0.5@tcp1"],
    route: None,
};
pub(super) const ROUTED_TARGET: Place = Place {
    nids: &["127.0.0.6@tcp1"],
    route: Some(("tcp", "127.0.0.5@tcp1")),
};
pub(super) const IDLE: Place = Place {
    nids: &["127.0.0.7@tcp"],
    route: None,
};

/// The nodes that send at the same time, with ports and peers of their own.
const SENDERS: [Place; workload::SENDERS] = [
    sender(&["127.0.0.20@tcp"]),
    sender(&["127.0.0.21@tcp"]),
    sender(&["127.0.0.22@tcp"]),
    sender(&["127.0.0.23@tcp"]),
];

const fn sender(nids: &'static [&'static str]) -> Place {
    Place {
        nids,
        route: Some(("tcp1", "127.0.0.4@tcp")),
    }
}

pub(super) const BYSTANDER: Place = Place {
    nids: &["127.0.0.8@tcp"],
    route: None,
};

/// A node that discovers many peers. It answers none of them.
pub(super) const DISCOVERER: Place = Place {
    nids: &["127.0.0.9@tcp"],
    route: None,
};
/// A console, and the test node that it loads.
pub(super) const LOADER: Place = Place {
    nids: &["127.0.0.10@tcp"],
    route: None,
};
pub(super) const TESTED: Place = Place {
    nids: &["127.0.0.11@tcp"],
    route: None,
};

/// The portal for data.
const DATA_PORTAL: u32 = 60;
/// Lustre's portal of data that servers fetch.
const BULK_PORTAL: u32 = 8;
/// The portal of the cold buffers.
const COLD_PORTAL: u32 = 62;
/// The portal on which the initiator is told that a stream has arrived.
const DONE_PORTAL: u32 = 61;
/// The match bits on all these portals.
const MATCH_BITS: u64 = 1;

impl Place {
    /// Returns the configuration document of this node.
    fn yaml(&self) -> String {
        let mut yaml = String::from("net:\n");
        for nid in self.nids {
            let net = nid.rsplit('@').next().unwrap_or_default();
            yaml += &format!(
                "  - net type: {net}\n    local NI(s):\n      - nid: {nid}\n        tunables:\n          \
                 peer_credits: {PEER_CREDITS}\n          credits: {}\n",
                4 * PEER_CREDITS
            );
        }
        if let Some((net, gateway)) = self.route {
            yaml += &format!("route:\n  - net: {net}\n    gateway: {gateway}\n");
        }
        if self.nids.len() > 1 {
            yaml += "routing:\n  enable: 1\n";
        }
        yaml
    }

    /// Returns the first of its NIDs.
    pub(super) fn nid(&self) -> anyhow::Result<Nid> {
        let nid = self.nids.first().context("a place without a NID")?;
        Ok(nid.parse()?)
    }

    fn start(&self, port: u16, congestion: &str, progress: Progress) -> anyhow::Result<Node> {
        let node = self.start_with(NodeOptions {
            port,
            progress,
            congestion: Some(congestion.to_owned()),
            ..NodeOptions::default()
        });
        Ok(node?.into_node())
    }

    pub(super) fn start_with(&self, options: NodeOptions) -> anyhow::Result<ManagedNode> {
        let config = lnet_config::parse(&self.yaml())
            .map_err(|error| anyhow!("{}", error.render("the bench's configuration")))?;
        lnet_noded::start(&config, options).context("cannot start a node")
    }
}

/// Reserves a TCP port above 1023 for all nodes of one placement. The reservation lasts until all of them listen.
pub(super) fn reserve_port() -> anyhow::Result<ReservedPort> {
    ReservedPort::on(Ipv4Addr::UNSPECIFIED).context("no TCP port is free")
}

/// Returns the resident bytes of an idle endpoint process.
pub(super) fn idle_memory(congestion: &str) -> anyhow::Result<u64> {
    let cpus = sys::allowed_cpus().context("cannot ask which CPUs may be used")?;
    let cpu = cpus.first().copied().unwrap_or_default();
    let reserved = reserve_port()?;
    let port = reserved.number();
    let peer = Peer::start(&PeerSpec {
        role: Role::Idle,
        cpu,
        congestion,
        port,
    })?;
    resident(&peer)
}

/// Returns the resident bytes of a peer's process.
fn resident(peer: &Peer) -> anyhow::Result<u64> {
    let path = format!("/proc/{}/status", peer.pid());
    let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    resident_bytes(&status).with_context(|| format!("{path} has no VmRSS"))
}

/// Returns the resident memory that a process status of the system contains.
fn resident_bytes(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_has_a_valid_configuration() {
        let others = [INITIATOR, TARGET, ROUTER, ROUTED_TARGET, IDLE, BYSTANDER];
        let many = [DISCOVERER, LOADER, TESTED];
        for place in others.into_iter().chain(many).chain(SENDERS) {
            let yaml = place.yaml();
            let config = lnet_config::parse(&yaml);
            let config = config.unwrap_or_else(|error| panic!("{}", error.render(&yaml)));
            assert_eq!(config.nets.len(), place.nids.len());
        }
    }

    #[test]
    fn resident_memory_is_read_in_bytes() {
        assert_eq!(
            resident_bytes("VmPeak:\t 99 kB\nVmRSS:\t   12 kB\n"),
            Some(12_288)
        );
        assert_eq!(resident_bytes("VmPeak:\t 99 kB\n"), None);
    }
}
