//! The counters of a node, for clients that poll them.
//!
//! ```text
//!  Request::Numbers  ─▶  Part::Node  Part::Nis  Part::Routes …  Part::Peers …
//! ```
//!
//! Each piece of the answer is one [`Part`] as JSON. The parts are taken at slightly different
//! times; `uptime_nanos` is the time of the first. Counts only grow, until they are zeroed or the
//! node restarts. A list may be split into several parts.

use serde::{Deserialize, Serialize};

/// A part of the counters of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The whole node; the first part.
    Node(Box<NodeNumbers>),
    /// Some of its interfaces, without loopback.
    Nis(Vec<NiNumbers>),
    /// Some of its routes.
    Routes(Vec<RouteNumbers>),
    /// Some interfaces of peers.
    PeerNis(Vec<PeerNiNumbers>),
    /// Some connections of the socket LND.
    Connections(Vec<ConnectionNumbers>),
    /// What the service on the node counts, if there is a service.
    Service(Vec<ServiceNumber>),
    /// What the o2ib LND counts, if the node has one.
    O2ib(Vec<O2ibNumber>),
}

/// A number of the o2ib LND.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct O2ibNumber {
    /// What is counted, such as `sent`.
    pub counter: String,
    /// The type of message or the reason; empty for a counter that has none.
    pub of: String,
    /// The value now.
    pub value: u64,
    /// Whether the number is a level, and does not only grow.
    pub is_level: bool,
    /// Whether the number is of bytes.
    pub is_bytes: bool,
}

/// A number of a service on a node, such as a storage gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceNumber {
    /// The name of the metric, without prefix and ending.
    pub name: String,
    /// The value now.
    pub value: u64,
    /// Whether the number only grows.
    pub is_counter: bool,
}

/// A connection of the socket LND. Sizes are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnectionNumbers {
    /// The NID of the local interface.
    pub ni: String,
    /// The peer's NID.
    pub peer: String,
    /// The peer's process id.
    pub pid: u32,
    /// The type of the connection: 0 all messages, 1 control, 2 bulk in, 3 bulk out.
    pub ctype: u32,
    /// Address and port of this end.
    pub local: String,
    /// Address and port of the peer's end.
    pub remote: String,
    /// True if this node dialled.
    pub dialled: bool,
    /// The size of the socket's send buffer.
    pub send_buffer: u64,
    /// The size of the socket's receive buffer.
    pub receive_buffer: u64,
    /// Bytes that wait to be written.
    pub queued_bytes: u64,
}

/// The whole node. Counts are since its start; lengths are payload in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeNumbers {
    /// Time since its start.
    pub uptime_nanos: u64,
    /// Its NIDs, the primary one first.
    pub nids: Vec<String>,
    /// True if it forwards messages for others.
    pub routing: bool,
    /// The change of routing that is under way, if there is one.
    pub routing_change: Option<RoutingChange>,
    /// Messages sent, forwarded ones included.
    pub sent: u64,
    /// Their payload.
    pub sent_bytes: u64,
    /// Messages received for this node.
    pub received: u64,
    /// Their payload.
    pub received_bytes: u64,
    /// Messages forwarded.
    pub routed: u64,
    /// Their payload.
    pub routed_bytes: u64,
    /// Messages dropped.
    pub dropped: u64,
    /// Resends; each attempt counts.
    pub resends: u64,
    /// Messages that failed after resends.
    pub resends_failed: u64,
    /// ACKs and REPLYs that timed out.
    pub response_timeouts: u64,
    /// Attempts to send that failed.
    pub failures: u64,
    /// Events lost because a program did not take them in time.
    pub events_lost: u64,
    /// Messages in flight now.
    pub under_way: u64,
    /// Messages that wait for a resend.
    pub resend_queue: u64,
    /// Connections open now.
    pub connections: u64,
    /// Router buffers: tiny, small, large.
    pub pools: Vec<PoolNumbers>,
}

/// A change of routing that is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RoutingChange {
    /// True if routing stops, false if it starts.
    pub stops: bool,
    /// The time until the change can be complete. A router that stops then looks whether its buffers are free.
    pub soonest_nanos: u64,
    /// The time until the change is complete in any case.
    pub latest_nanos: u64,
}

/// A router buffer pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolNumbers {
    /// Its buffers.
    pub buffers: u32,
    /// Free buffers; the number of waiting messages as a negative number if there are none.
    pub credits: i64,
    /// The lowest value of `credits` so far.
    pub min_credits: i64,
}

/// Counters of an interface of the node or of a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "TrafficRow", into = "TrafficRow")]
pub struct Traffic {
    /// Messages sent without error.
    pub sent: u64,
    /// Their payload.
    pub sent_bytes: u64,
    /// Messages that arrived.
    pub received: u64,
    /// Their payload.
    pub received_bytes: u64,
    /// Messages dropped.
    pub dropped: u64,
    /// Failed attempts that count against the interface.
    pub failures: u64,
}

/// Traffic as a row of numbers, because there may be 100,000 rows.
type TrafficRow = [u64; 6];

impl From<TrafficRow> for Traffic {
    fn from(row: TrafficRow) -> Self {
        let [
            sent,
            sent_bytes,
            received,
            received_bytes,
            dropped,
            failures,
        ] = row;
        Self {
            sent,
            sent_bytes,
            received,
            received_bytes,
            dropped,
            failures,
        }
    }
}

impl From<Traffic> for TrafficRow {
    fn from(traffic: Traffic) -> Self {
        [
            traffic.sent,
            traffic.sent_bytes,
            traffic.received,
            traffic.received_bytes,
            traffic.dropped,
            traffic.failures,
        ]
    }
}

/// The state of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// Messages may be sent over it.
    pub up: bool,
    /// 0 to 1000, which is full health.
    pub health: u16,
    /// True if it is in recovery.
    pub recovering: bool,
    /// Transmit credits left; the number of waiting messages as a negative number if there are
    /// none.
    pub credits: i64,
    /// The most credits.
    pub credits_max: i64,
}

/// A local interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NiNumbers {
    /// Its NID.
    pub nid: String,
    /// Its state.
    pub condition: Condition,
    /// Its messages.
    pub traffic: Traffic,
    /// Histogram of the round trips of GETs and of PUTs with ACK: the upper limit in nanoseconds
    /// and the number of round trips. The limit 0 of the last entry stands for no limit.
    pub round_trips: Vec<(u64, u64)>,
}

/// A route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteNumbers {
    /// The remote net.
    pub net: String,
    /// The gateway.
    pub gateway: String,
    /// Messages may be sent along it.
    pub up: bool,
    /// Hops, if configured.
    pub hops: Option<u32>,
    /// Lower is preferred.
    pub priority: u32,
    /// Messages that left along it.
    pub sent: u64,
    /// Their payload.
    pub sent_bytes: u64,
    /// Attempts that failed, and messages that failed after all attempts.
    pub dropped: u64,
}

/// An interface of a peer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerNiNumbers {
    /// Its NID.
    pub nid: String,
    /// The primary NID of its peer, if that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary: Option<String>,
    /// Its state.
    #[serde(flatten)]
    pub condition: Condition,
    /// Its messages.
    pub traffic: Traffic,
    /// Bytes queued and in flight.
    pub queued_bytes: u64,
}

impl Part {
    /// Encodes the part as a piece of an answer.
    ///
    /// # Errors
    ///
    /// None for values of this type; the error is that of the JSON encoder's interface.
    pub fn to_text(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// Reads a piece of an answer.
    ///
    /// # Errors
    ///
    /// Text that is not JSON, or not a part; with line and column.
    pub fn from_text(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_comes_back_whole() {
        let peer_ni = PeerNiNumbers {
            nid: "10.0.0.1@tcp".into(),
            primary: Some("10.0.0.2@tcp".into()),
            condition: Condition {
                up: true,
                health: 900,
                recovering: true,
                credits: -3,
                credits_max: 8,
            },
            traffic: Traffic {
                sent: 1,
                sent_bytes: 2,
                received: 3,
                received_bytes: 4,
                dropped: 5,
                failures: 6,
            },
            queued_bytes: 7,
        };
        let part = Part::PeerNis(vec![peer_ni]);
        let text = part.to_text().unwrap();
        assert_eq!(
            text,
            r#"{"peer_nis":[{"nid":"10.0.0.1@tcp","primary":"10.0.0.2@tcp","up":true,"health":900,"recovering":true,"credits":-3,"credits_max":8,"traffic":[1,2,3,4,5,6],"queued_bytes":7}]}"#
        );
        assert_eq!(Part::from_text(&text).unwrap(), part);
    }

    #[test]
    fn what_an_older_node_does_not_count_is_zero() {
        let part = Part::from_text(r#"{"node":{"sent":3}}"#).unwrap();
        let Part::Node(node) = part else {
            unreachable!("it says node")
        };
        assert_eq!((node.sent, node.received), (3, 0));
    }
}
