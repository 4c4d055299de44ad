//! Settings of the o2ib LND, under the names of the kernel module's parameters.

use std::time::Duration;

use lnd::NiId;
use lnet_types::Nid;
use lnet_wire::o2ib::FRAGMENTS_MAX;

/// Limits on what peers can make the LND hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections in any state; a request for one more is rejected.
    pub connections_max: usize,
    /// Connections with one peer; a request for one more is rejected.
    pub connections_per_peer_max: usize,
    /// Messages that wait for a connection with one peer.
    pub waiting_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 16_384,
            connections_per_peer_max: 64,
            waiting_max: 8192,
        }
    }
}

/// Parameters of the LND; the defaults are those of kernel nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct O2ibConfig {
    /// Messages carry a checksum; one that arrives is always verified.
    pub cksum: bool,
    /// How long a message may take, on interfaces without a timeout of their own.
    pub timeout: Duration,
    /// An empty message is sent after this time without another.
    pub keepalive: Duration,
    /// Accept only dialling peers with a source port below 1024.
    pub require_privileged_port: bool,
    /// The most fragments of a descriptor.
    pub fragments: u16,
    /// Limits on what the LND holds.
    pub limits: Limits,
}

impl Default for O2ibConfig {
    fn default() -> Self {
        Self {
            cksum: false,
            timeout: Duration::from_secs(50),
            keepalive: Duration::from_secs(100),
            require_privileged_port: false,
            fragments: FRAGMENTS_MAX,
            limits: Limits::default(),
        }
    }
}

/// Parameters of one interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NiTuning {
    /// The depth of the queue that is asked for and accepted, 1 to 254.
    pub peer_credits: u8,
    /// Credits are given back at the latest when this many have come together; 0 is half of `peer_credits`.
    pub peer_credits_hiw: u8,
    /// Sends that may be posted and not completed on one connection; 0 is `peer_credits`.
    pub concurrent_sends: u16,
    /// Connections that are dialled for a new peer; 0 counts as 1.
    pub conns_per_peer: u8,
    /// How long a message of this interface may take; `None` is [`O2ibConfig::timeout`].
    pub timeout: Option<Duration>,
}

impl Default for NiTuning {
    fn default() -> Self {
        Self {
            peer_credits: 8,
            peer_credits_hiw: 0,
            concurrent_sends: 0,
            conns_per_peer: 1,
            timeout: None,
        }
    }
}

impl NiTuning {
    /// Returns the depth of the queue, within the limits of the protocol.
    #[must_use]
    pub fn depth(&self) -> u16 {
        self.peer_credits.clamp(1, 254).into()
    }

    /// Returns the high-water mark of a connection with this depth: the mark for the own depth, in proportion.
    // [IB-24]
    #[must_use]
    pub fn high_water(&self, depth: u16) -> u16 {
        let own = self.depth();
        let least = own.div_ceil(2);
        let most = own.saturating_sub(1).max(1);
        let mark = u16::from(self.peer_credits_hiw).clamp(least.min(most), most);
        let scaled = u32::from(mark) * u32::from(depth) / u32::from(own);
        // The product of two numbers below 255, divided by one of them, is below 255.
        (scaled as u16).max(1)
    }

    /// Returns how many sends may be posted at a time.
    #[must_use]
    pub fn sends(&self, depth: u16) -> u16 {
        match self.concurrent_sends {
            0 => depth,
            sends => sends,
        }
    }
}

/// A local interface for [`crate::O2iblnd::add_ni`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LndNi {
    /// The identifier that the node above gives the interface.
    pub ni: NiId,
    /// Its NID, on a network of type `o2ib`, with the IPv4 address of an RDMA device.
    pub nid: Nid,
    /// Its parameters.
    pub tuning: NiTuning,
    /// When the interface started, in microseconds of wall-clock time: constant while the interface exists, different
    /// after a restart.
    pub incarnation: u64,
}
