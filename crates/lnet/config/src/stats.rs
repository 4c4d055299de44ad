//! Blocks of numbers: their keys in the order of printing, each with its field.
//!
//! Reading and writing use the same table.

/// A number of a block.
pub(crate) enum Slot<'a> {
    /// A count.
    Count(&'a mut u64),
    /// A number that may be negative, such as credits while messages wait.
    Signed(&'a mut i64),
    /// A count that only some versions print.
    Optional(&'a mut Option<u64>),
}

/// A mapping of numbers.
pub(crate) trait Block: Copy + Default {
    /// Every key, in the order of printing, and its number.
    fn slots(&mut self) -> Vec<(&'static str, Slot<'_>)>;
}

/// Messages of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages sent.
    pub send_count: u64,
    /// Messages received.
    pub recv_count: u64,
    /// Messages dropped.
    pub drop_count: u64,
    /// The time of a PUT until the LND completes it.
    pub put_egress: Latency,
    /// The time from a GET to its REPLY.
    pub get_rtt: Latency,
    /// The time from a PUT to its ACK.
    pub put_ack: Latency,
}

/// Times of one kind. The release after 2.17 prints them; documents
/// of older releases lack them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// The number of samples.
    pub samples: Option<u64>,
    /// The shortest, in nanoseconds.
    pub min_nsec: Option<u64>,
    /// The longest, in nanoseconds.
    pub max_nsec: Option<u64>,
    /// The mean, in nanoseconds.
    pub avg_nsec: Option<u64>,
}

impl Latency {
    fn slots(&mut self, keys: [&'static str; 4]) -> [(&'static str, Slot<'_>); 4] {
        let [samples, min, max, avg] = keys;
        [
            (samples, Slot::Optional(&mut self.samples)),
            (min, Slot::Optional(&mut self.min_nsec)),
            (max, Slot::Optional(&mut self.max_nsec)),
            (avg, Slot::Optional(&mut self.avg_nsec)),
        ]
    }
}

impl Block for Traffic {
    fn slots(&mut self) -> Vec<(&'static str, Slot<'_>)> {
        let mut slots = vec![
            ("send_count", Slot::Count(&mut self.send_count)),
            ("recv_count", Slot::Count(&mut self.recv_count)),
            ("drop_count", Slot::Count(&mut self.drop_count)),
        ];
        slots.extend(self.put_egress.slots([
            "put_egress_samples",
            "put_egress_min_nsec",
            "put_egress_max_nsec",
            "put_egress_avg_nsec",
        ]));
        slots.extend(self.get_rtt.slots([
            "get_rtt_samples",
            "get_rtt_min_nsec",
            "get_rtt_max_nsec",
            "get_rtt_avg_nsec",
        ]));
        slots.extend(self.put_ack.slots([
            "put_ack_samples",
            "put_ack_min_nsec",
            "put_ack_max_nsec",
            "put_ack_avg_nsec",
        ]));
        slots
    }
}

/// Messages of an interface by type. Among sent messages, a node counts a reply as `get` and an
/// acknowledgement as `put`, unless it forwards them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageStats {
    /// PUT.
    pub put: u64,
    /// GET.
    pub get: u64,
    /// REPLY.
    pub reply: u64,
    /// ACK.
    pub ack: u64,
    /// HELLO.
    pub hello: u64,
}

impl Block for MessageStats {
    fn slots(&mut self) -> Vec<(&'static str, Slot<'_>)> {
        vec![
            ("put", Slot::Count(&mut self.put)),
            ("get", Slot::Count(&mut self.get)),
            ("reply", Slot::Count(&mut self.reply)),
            ("ack", Slot::Count(&mut self.ack)),
            ("hello", Slot::Count(&mut self.hello)),
        ]
    }
}

/// Health of a local interface, and its failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NiHealth {
    /// 1 while the device is down.
    pub fatal_error: u64,
    /// 0 to 1000; 0 for loopback, which has none.
    pub health_value: u64,
    /// Transmissions interrupted.
    pub interrupts: u64,
    /// Transmissions dropped.
    pub dropped: u64,
    /// Transmissions aborted.
    pub aborted: u64,
    /// Transmissions that found no route.
    pub no_route: u64,
    /// Transmissions that timed out.
    pub timeouts: u64,
    /// Other failures.
    pub error: u64,
    /// Recovery pings since the last message.
    pub ping_count: u64,
    /// When the next recovery ping is due: seconds of the node's uptime.
    pub next_ping: u64,
}

impl Block for NiHealth {
    fn slots(&mut self) -> Vec<(&'static str, Slot<'_>)> {
        vec![
            ("fatal_error", Slot::Count(&mut self.fatal_error)),
            ("health value", Slot::Count(&mut self.health_value)),
            ("interrupts", Slot::Count(&mut self.interrupts)),
            ("dropped", Slot::Count(&mut self.dropped)),
            ("aborted", Slot::Count(&mut self.aborted)),
            ("no route", Slot::Count(&mut self.no_route)),
            ("timeouts", Slot::Count(&mut self.timeouts)),
            ("error", Slot::Count(&mut self.error)),
            ("ping_count", Slot::Count(&mut self.ping_count)),
            ("next_ping", Slot::Count(&mut self.next_ping)),
        ]
    }
}

/// Health of a peer's interface, and its failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerNiHealth {
    /// 0 to 1000.
    pub health_value: u64,
    /// Messages dropped.
    pub dropped: u64,
    /// Messages that timed out at the peer.
    pub timeout: u64,
    /// Other failures at the peer.
    pub error: u64,
    /// Messages that timed out in the network.
    pub network_timeout: u64,
    /// Recovery pings since the last message.
    pub ping_count: u64,
    /// When the next recovery ping is due: seconds of the node's uptime.
    pub next_ping: u64,
}

impl Block for PeerNiHealth {
    fn slots(&mut self) -> Vec<(&'static str, Slot<'_>)> {
        vec![
            ("health value", Slot::Count(&mut self.health_value)),
            ("dropped", Slot::Count(&mut self.dropped)),
            ("timeout", Slot::Count(&mut self.timeout)),
            ("error", Slot::Count(&mut self.error)),
            ("network timeout", Slot::Count(&mut self.network_timeout)),
            ("ping_count", Slot::Count(&mut self.ping_count)),
            ("next_ping", Slot::Count(&mut self.next_ping)),
        ]
    }
}

/// Credits of a peer's interface; all 0 on a network that is not local. Printed without a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerCredits {
    /// The most messages in flight to it.
    pub max_tx: i64,
    /// The credits left; negative while messages wait.
    pub available_tx: i64,
    /// The lowest number of credits so far.
    pub min_tx: i64,
    /// Bytes that wait to be sent.
    pub tx_queued: u64,
    /// Router buffers left for it.
    pub available_router: i64,
    /// The lowest number of router buffers so far.
    pub min_router: i64,
    /// References to it inside the node.
    pub refcount: u64,
}

impl Block for PeerCredits {
    fn slots(&mut self) -> Vec<(&'static str, Slot<'_>)> {
        vec![
            ("max_ni_tx_credits", Slot::Signed(&mut self.max_tx)),
            ("available_tx_credits", Slot::Signed(&mut self.available_tx)),
            ("min_tx_credits", Slot::Signed(&mut self.min_tx)),
            ("tx_q_num_of_buf", Slot::Count(&mut self.tx_queued)),
            (
                "available_rtr_credits",
                Slot::Signed(&mut self.available_router),
            ),
            ("min_rtr_credits", Slot::Signed(&mut self.min_router)),
            ("refcount", Slot::Count(&mut self.refcount)),
        ]
    }
}

/// A pool of router buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// Pages of one buffer.
    pub pages: u64,
    /// Buffers.
    pub buffers: u64,
    /// Free buffers; negative while messages wait.
    pub credits: i64,
    /// The lowest number of free buffers so far.
    pub min_credits: i64,
}

impl Block for Pool {
    fn slots(&mut self) -> Vec<(&'static str, Slot<'_>)> {
        vec![
            ("npages", Slot::Count(&mut self.pages)),
            ("nbuffers", Slot::Count(&mut self.buffers)),
            ("credits", Slot::Signed(&mut self.credits)),
            ("mincredits", Slot::Signed(&mut self.min_credits)),
        ]
    }
}

/// The node's counters, `stats show`.
// [CONF-44]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeStats {
    /// Messages in existence.
    pub msgs_alloc: u64,
    /// The highest number so far.
    pub msgs_max: u64,
    /// Response trackers in existence.
    pub rst_alloc: u64,
    /// Messages that could not be handled.
    pub errors: u64,
    /// Messages sent without error, with own replies and acknowledgements.
    pub send_count: u64,
    /// Resends.
    pub resend_count: u64,
    /// Responses that timed out.
    pub response_timeout_count: u64,
    /// Sends that were interrupted on this node.
    pub local_interrupt_count: u64,
    /// Sends that were dropped on this node.
    pub local_dropped_count: u64,
    /// Sends that were aborted on this node.
    pub local_aborted_count: u64,
    /// Sends that found no route.
    pub local_no_route_count: u64,
    /// Sends that timed out on this node.
    pub local_timeout_count: u64,
    /// Sends that failed on this node for another reason.
    pub local_error_count: u64,
    /// Messages that the peer dropped.
    pub remote_dropped_count: u64,
    /// Messages that failed at the peer.
    pub remote_error_count: u64,
    /// Messages that timed out at the peer.
    pub remote_timeout_count: u64,
    /// Messages that timed out in the network.
    pub network_timeout_count: u64,
    /// Resends that failed; printed since 2.17.0.
    pub failed_resends: Option<u64>,
    /// Resends that succeeded; printed since 2.17.0.
    pub successful_resends: Option<u64>,
    /// Messages received.
    pub recv_count: u64,
    /// Messages forwarded.
    pub route_count: u64,
    /// Messages dropped.
    pub drop_count: u64,
    /// Bytes of payload sent.
    pub send_length: u64,
    /// Bytes of payload received.
    pub recv_length: u64,
    /// Bytes of payload forwarded.
    pub route_length: u64,
    /// Bytes of payload dropped.
    pub drop_length: u64,
}

impl Block for NodeStats {
    fn slots(&mut self) -> Vec<(&'static str, Slot<'_>)> {
        use Slot::{Count, Optional};
        vec![
            ("msgs_alloc", Count(&mut self.msgs_alloc)),
            ("msgs_max", Count(&mut self.msgs_max)),
            ("rst_alloc", Count(&mut self.rst_alloc)),
            ("errors", Count(&mut self.errors)),
            ("send_count", Count(&mut self.send_count)),
            ("resend_count", Count(&mut self.resend_count)),
            (
                "response_timeout_count",
                Count(&mut self.response_timeout_count),
            ),
            (
                "local_interrupt_count",
                Count(&mut self.local_interrupt_count),
            ),
            ("local_dropped_count", Count(&mut self.local_dropped_count)),
            ("local_aborted_count", Count(&mut self.local_aborted_count)),
            (
                "local_no_route_count",
                Count(&mut self.local_no_route_count),
            ),
            ("local_timeout_count", Count(&mut self.local_timeout_count)),
            ("local_error_count", Count(&mut self.local_error_count)),
            (
                "remote_dropped_count",
                Count(&mut self.remote_dropped_count),
            ),
            ("remote_error_count", Count(&mut self.remote_error_count)),
            (
                "remote_timeout_count",
                Count(&mut self.remote_timeout_count),
            ),
            (
                "network_timeout_count",
                Count(&mut self.network_timeout_count),
            ),
            ("failed_resends", Optional(&mut self.failed_resends)),
            ("successful_resends", Optional(&mut self.successful_resends)),
            ("recv_count", Count(&mut self.recv_count)),
            ("route_count", Count(&mut self.route_count)),
            ("drop_count", Count(&mut self.drop_count)),
            ("send_length", Count(&mut self.send_length)),
            ("recv_length", Count(&mut self.recv_length)),
            ("route_length", Count(&mut self.route_length)),
            ("drop_length", Count(&mut self.drop_length)),
        ]
    }
}
