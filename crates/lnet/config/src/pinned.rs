//! The memory that a configuration lets a node of this project pin for RDMA devices, in the node's own process: a limit
//! of the process (`RLIMIT_MEMLOCK`) must hold it. Kernel nodes have no such limit.

use std::fmt;

use lnet_types::{LndType, Net};

use crate::{Config, NetConfig, NiConfig};

/// Bytes of a message buffer.
const MESSAGE: u64 = 4096;
/// Bytes of the largest payload, and of a large router buffer.
const PAYLOAD: u64 = 1 << 20;
/// Large buffers of a router that does not name their number.
const LARGE_BUFFERS: u64 = 1024;

/// Bytes that a node pins at most with a number of peers, while all its credits are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pinned {
    /// Message buffers of the connections with all known peers.
    pub buffers: u64,
    /// Payload that waits for its RDMA to end.
    pub payload: u64,
    /// Large buffers of a router.
    pub router: u64,
    /// The peers and gateways that count, on all o2ib networks. A node that discovers more peers pins more.
    pub peers: u64,
}

impl Pinned {
    /// Adds up what a configuration needs on its o2ib networks; `None` if it has none. A network counts the peers and
    /// gateways that the configuration names, and at least one.
    #[must_use]
    pub fn of(config: &Config) -> Option<Self> {
        let over_rdma = |net: &&NetConfig| net.net.lnd == LndType::O2IB;
        config.nets.iter().find(over_rdma)?;
        let mut all = Self::default();
        for net in config.nets.iter().filter(over_rdma) {
            let peers = peers(config, net.net);
            all.peers = all.peers.saturating_add(peers);
            for ni in &net.nis {
                all.add(ni, peers);
            }
        }
        if config.routing == Some(true) {
            let given = config.buffers.large.filter(|&count| count > 0);
            all.router = given.map_or(LARGE_BUFFERS, u64::from) * PAYLOAD;
        }
        Some(all)
    }

    /// Returns the sum.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.buffers
            .saturating_add(self.payload)
            .saturating_add(self.router)
    }

    fn add(&mut self, ni: &NiConfig, peers: u64) {
        let depth = ni.tunables.peer_credits.unwrap_or(8).clamp(1, 254).into();
        let sends = ni.lnd_tunables.other.get("concurrent_sends");
        let sends = sends.and_then(|text| text.parse::<u16>().ok());
        let sends = sends.filter(|&sends| sends > 0).map_or(depth, u64::from);
        let conns = u64::from(ni.lnd_tunables.conns_per_peer.unwrap_or(1).max(1));
        let rails = (ni.interfaces.len() as u64).max(1);
        // [IB-18] [IB-26] Each end also keeps room for two NOOPs.
        let of_connection = (2 * depth + 2 + sends + 2) * MESSAGE;
        let messages = u64::from(ni.tunables.credits.unwrap_or(256)).min(depth * peers);
        self.buffers = self
            .buffers
            .saturating_add(rails * peers * conns * of_connection);
        self.payload = self.payload.saturating_add(rails * messages * PAYLOAD);
    }
}

/// Returns how many peers and gateways of a network a configuration names, at least one.
fn peers(config: &Config, net: Net) -> u64 {
    let is_here = |peer: &&crate::PeerConfig| peer.nids.iter().any(|nid| nid.net() == net);
    let peers = config.peers.iter().filter(is_here).count();
    let gateways = config.routes.iter().map(|route| route.gateway);
    let gateways = gateways.filter(|gateway| {
        let mut peers = config.peers.iter();
        gateway.net() == net && !peers.any(|peer| peer.nids.contains(gateway))
    });
    let gateways = gateways.collect::<std::collections::BTreeSet<_>>().len();
    ((peers + gateways) as u64).max(1)
}

impl fmt::Display for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of memory with {} peer{} (message buffers {}, payload under way {}",
            size(self.total()),
            self.peers,
            if self.peers == 1 { "" } else { "s" },
            size(self.buffers),
            size(self.payload)
        )?;
        if self.router > 0 {
            write!(f, ", router buffers {}", size(self.router))?;
        }
        f.write_str(")")
    }
}

/// Returns a number of bytes as text, such as `8 MiB`; rounds up.
#[must_use]
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} KiB", bytes.div_ceil(1024)),
        _ => format!("{} MiB", bytes.div_ceil(1 << 20)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pinned(text: &str) -> Option<Pinned> {
        Pinned::of(&crate::parse(text).unwrap())
    }

    #[test]
    fn a_network_needs_memory_for_each_peer_and_gateway() {
        let net = "net: [{net type: o2ib, local NI(s): [{interfaces: {0: ib0}}]}]\n";
        let one = pinned(net).unwrap();
        assert_eq!((one.buffers, one.payload), (112 << 10, 8 << 20));
        assert_eq!(
            one.to_string(),
            "9 MiB of memory with 1 peer (message buffers 112 KiB, payload under way 8 MiB)"
        );
        let more = format!(
            "{net}peer: [{{primary nid: 10.0.0.2@o2ib}}, {{primary nid: 10.0.0.3@tcp}}]\n\
             route: [{{net: tcp9, gateway: 10.0.0.2@o2ib}}, {{net: tcp9, gateway: 10.0.0.4@o2ib}}]\n"
        );
        let two = pinned(&more).unwrap();
        assert_eq!((two.buffers, two.payload), (2 * (112 << 10), 16 << 20));
        let text = two.to_string();
        assert!(
            text.starts_with("17 MiB of memory with 2 peers ("),
            "{text}"
        );
    }

    #[test]
    fn credits_limit_payload_and_a_router_has_its_buffers() {
        let text = "net: [{net type: o2ib, local NI(s): [{interfaces: {0: ib0, 1: ib1}, tunables: {peer_credits: 32, \
                    credits: 4}, lnd tunables: {conns_per_peer: 4, concurrent_sends: 64}}]}]\n\
                    routing: {enable: 1}\nbuffers: {large: 16}\n";
        let all = pinned(text).unwrap();
        assert_eq!(all.buffers, 2 * 4 * (2 * 32 + 2 + 64 + 2) * 4096);
        assert_eq!((all.payload, all.router), (2 * (4 << 20), 16 << 20));
    }

    #[test]
    fn a_node_without_rdma_pins_nothing() {
        let text = "net: [{net type: tcp, local NI(s): [{interfaces: {0: eth0}}]}]\n";
        assert_eq!(pinned(text), None);
    }
}
