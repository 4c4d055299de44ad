//! What a node counts, for those who look at it again and again.
//!
//! ```text
//!  Request::Numbers  ─▶  Part::Node  Part::Nis  Part::Routes …  Part::Peers …
//! ```
//!
//! Each piece of the answer is one [`Part`] as JSON. The parts are of slightly different moments; the
//! node's `uptime_nanos` is that of the first. Counts only grow, unless somebody zeroes them or the
//! node starts anew. Lists have no end but that of the answer: a part of a list is a page.

use serde::{Deserialize, Serialize};

/// A piece of what a node counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The node as a whole; the first piece.
    Node(Box<NodeNumbers>),
    /// Some of its interfaces, loopback excepted.
    Nis(Vec<NiNumbers>),
    /// Some of its routes.
    Routes(Vec<RouteNumbers>),
    /// Some interfaces of peers.
    PeerNis(Vec<PeerNiNumbers>),
    /// Some connections of the socket LND.
    Connections(Vec<ConnectionNumbers>),
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
    /// What the connection carries: 0 everything, 1 control, 2 bulk in, 3 bulk out.
    pub ctype: u32,
    /// Address and port of this end.
    pub local: String,
    /// Address and port of the peer's end.
    pub remote: String,
    /// This node dialled.
    pub dialled: bool,
    /// The size of the socket's send buffer.
    pub send_buffer: u64,
    /// The size of the socket's receive buffer.
    pub receive_buffer: u64,
    /// Bytes that wait to be written.
    pub queued_bytes: u64,
}

/// The node as a whole. Counts are since its start; lengths are payload in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeNumbers {
    /// Time since its start.
    pub uptime_nanos: u64,
    /// Its NIDs, the primary one first.
    pub nids: Vec<String>,
    /// It forwards messages for others.
    pub routing: bool,
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
    /// Messages sent again, each time.
    pub resends: u64,
    /// Messages given up after resends.
    pub resends_failed: u64,
    /// ACKs and REPLYs that did not come in time.
    pub response_timeouts: u64,
    /// Attempts to send that failed.
    pub failures: u64,
    /// Events lost because a program did not take them.
    pub events_lost: u64,
    /// Messages under way now.
    pub under_way: u64,
    /// Messages that wait to be sent again.
    pub resend_queue: u64,
    /// Connections open now.
    pub connections: u64,
    /// Router buffers: tiny, small, large.
    pub pools: Vec<PoolNumbers>,
}

/// A router buffer pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolNumbers {
    /// Buffers it has.
    pub buffers: u32,
    /// Free ones; negative by the number of messages that wait.
    pub credits: i64,
    /// The fewest there ever were.
    pub min_credits: i64,
}

/// What interfaces of the node and those of peers have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "TrafficRow", into = "TrafficRow")]
pub struct Traffic {
    /// Messages that left without error.
    pub sent: u64,
    /// Their payload.
    pub sent_bytes: u64,
    /// Messages that arrived.
    pub received: u64,
    /// Their payload.
    pub received_bytes: u64,
    /// Messages dropped.
    pub dropped: u64,
    /// Attempts that failed for which the interface is blamed.
    pub failures: u64,
}

/// Traffic as it is written: there may be 100,000 of them.
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

/// How an interface does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// Messages may be sent over it.
    pub up: bool,
    /// 0 to 1000, which is full health.
    pub health: u16,
    /// It is being recovered.
    pub recovering: bool,
    /// Transmit credits left; negative by the number of messages that wait.
    pub credits: i64,
    /// The most there can be.
    pub credits_max: i64,
}

/// A local interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NiNumbers {
    /// Its NID.
    pub nid: String,
    /// How it does.
    pub condition: Condition,
    /// What went over it.
    pub traffic: Traffic,
    /// Round trips, of GETs and of PUTs with ACK, that took at most so many nanoseconds, and their
    /// number; the bound of the last is 0, which stands for none.
    pub round_trips: Vec<(u64, u64)>,
}

/// A route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteNumbers {
    /// Where it leads.
    pub net: String,
    /// Over which gateway.
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
    /// Attempts that failed, and messages given up.
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
    /// How it does.
    #[serde(flatten)]
    pub condition: Condition,
    /// What went to it and came from it.
    pub traffic: Traffic,
    /// Queued and in flight.
    pub queued_bytes: u64,
}

impl Part {
    /// The part as a piece of an answer.
    ///
    /// # Errors
    ///
    /// None that a value of this type can cause; the codec's own type says otherwise.
    pub fn to_text(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// Reads a piece of an answer.
    ///
    /// # Errors
    ///
    /// No JSON, or no such part; with line and column.
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
