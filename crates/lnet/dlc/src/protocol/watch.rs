//! Events of a node, for clients that watch it.
//!
//! ```text
//!  Request::Watch  ─▶  [Happening …]  []  [Happening …]  …  until the client closes
//! ```
//!
//! Each piece of the answer is a list as JSON. If the client is slower than the node, events are
//! lost; an event with their number takes their place. Reasons have the names of the counters.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Kinds of events to watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Happenings {
    /// Messages that were dropped or failed before they were sent.
    Dropped,
    /// Changes of health, fatal errors, connections of configured peers.
    Health,
    /// Routes that go up or down.
    Routes,
    /// Attempts to send that failed.
    FailedSends,
    /// All attempts to send.
    Sends,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Happening {
    /// Seconds since 1970.
    pub time: f64,
    /// What happened.
    #[serde(flatten)]
    pub what: Happened,
}

/// The types of events. Lengths are payload in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Happened {
    /// A message that arrived was dropped.
    Dropped {
        /// The interface at which it arrived; `None` if the interface was removed.
        ni: Option<String>,
        /// The last hop.
        sender: String,
        /// `put`, `get`, `reply` or `ack`.
        message: String,
        /// Its length.
        length: u32,
        /// Why.
        reason: String,
    },
    /// A message failed before it was sent.
    GivenUp {
        /// Its destination.
        target: String,
        /// `put`, `get`, `reply` or `ack`.
        message: String,
        /// Its length.
        length: u32,
        /// The errno for its sender, as a positive number.
        errno: i32,
        /// For a forwarded message: the reason under which it is counted.
        reason: Option<String>,
    },
    /// An attempt to send ended.
    Send {
        /// The sending interface; `None` if the interface was removed.
        ni: Option<String>,
        /// The next hop.
        next_hop: String,
        /// The destination.
        target: String,
        /// `put`, `get`, `reply` or `ack`.
        message: String,
        /// Its length.
        length: u32,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// Its result: `ok`, or a class of failures.
        status: String,
        /// True if the message waits for a resend.
        again: bool,
    },
    /// The health of an interface changed.
    Health {
        /// The interface.
        nid: String,
        /// True for an interface of this node.
        own: bool,
        /// Its health before.
        before: u16,
        /// Its health now.
        health: u16,
        /// Why.
        cause: String,
    },
    /// An interface of this node has a fatal error, such as a link that is down, or has recovered
    /// from one.
    Fatal {
        /// The interface.
        nid: String,
        /// True if it has one now.
        fatal: bool,
    },
    /// The routes through a gateway went up or down.
    Routes {
        /// The gateway.
        gateway: String,
        /// How many of its routes are down.
        down: u32,
        /// How many it has.
        all: u32,
        /// The reason why the first of them is down.
        reason: Option<String>,
    },
    /// A configured peer or a gateway lost its connection, or has one again.
    Peer {
        /// Its interface.
        nid: String,
        /// Whether there is a connection.
        connected: bool,
    },
    /// An RPC of Lustre that the node saw has ended.
    Rpc(Box<super::RpcTold>),
    /// Events were lost here.
    LeftOut {
        /// How many.
        count: u64,
    },
}

impl Happened {
    /// The kind of this event; `None` for lost events, which every watcher receives, and for RPCs, which have a request
    /// of their own.
    #[must_use]
    pub fn kind(&self) -> Option<Happenings> {
        match self {
            Self::Dropped { .. } | Self::GivenUp { .. } => Some(Happenings::Dropped),
            Self::Health { .. } | Self::Fatal { .. } | Self::Peer { .. } => {
                Some(Happenings::Health)
            }
            Self::Routes { .. } => Some(Happenings::Routes),
            Self::Send { status, .. } if status == "ok" => Some(Happenings::Sends),
            Self::Send { .. } => Some(Happenings::FailedSends),
            Self::Rpc(_) | Self::LeftOut { .. } => None,
        }
    }
}

impl fmt::Display for Happened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dropped { .. } | Self::GivenUp { .. } | Self::Send { .. } => self.message(f),
            Self::Health {
                nid,
                own,
                before,
                health,
                cause,
            } => {
                let whose = if *own { "interface" } else { "peer interface" };
                write!(f, "health: {whose} {nid} {before} to {health}: {cause}")
            }
            Self::Fatal { nid, fatal: true } => write!(f, "health: interface {nid} is down"),
            Self::Fatal { nid, fatal: false } => write!(f, "health: interface {nid} is up"),
            Self::Routes {
                gateway,
                down,
                all,
                reason,
            } => {
                write!(f, "routes: {down} of {all} by {gateway} are down")?;
                Self::because(f, reason.as_deref())
            }
            Self::Peer { nid, connected } => {
                let now = if *connected {
                    "is connected"
                } else {
                    "has no connection"
                };
                write!(f, "peer: {nid} {now}")
            }
            Self::Rpc(rpc) => rpc.fmt(f),
            Self::LeftOut { count } => write!(f, "{count} events are left out here"),
        }
    }
}

impl Happened {
    /// Writes the event of a message.
    fn message(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |ni: &Option<String>| {
            ni.clone()
                .unwrap_or_else(|| "a former interface".to_owned())
        };
        match self {
            Self::Dropped {
                ni,
                sender,
                message,
                length,
                reason,
            } => {
                let ni = at(ni);
                write!(
                    f,
                    "dropped: {message} of {length} bytes from {sender} at {ni}: {reason}"
                )
            }
            Self::GivenUp {
                target,
                message,
                length,
                errno,
                reason,
            } => {
                write!(
                    f,
                    "failed: {message} of {length} bytes to {target}: -{errno}"
                )?;
                Self::because(f, reason.as_deref())
            }
            Self::Send {
                ni,
                next_hop,
                target,
                message,
                length,
                attempt,
                status,
                again,
            } => {
                let ni = at(ni);
                let again = if *again { ", will be resent" } else { "" };
                write!(f, "send: {message} of {length} bytes to {target}: ")?;
                write!(f, "{ni} to {next_hop}, attempt {attempt}: {status}{again}")
            }
            _ => Ok(()),
        }
    }

    fn because(f: &mut fmt::Formatter<'_>, reason: Option<&str>) -> fmt::Result {
        reason.map_or(Ok(()), |reason| write!(f, ": {reason}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_flat_object() {
        let event = Happening {
            time: 1.5,
            what: Happened::Fatal {
                nid: "10.0.0.1@tcp".into(),
                fatal: true,
            },
        };
        let text = serde_json::to_string(&event).unwrap();
        let expected = r#"{"time":1.5,"event":"fatal","nid":"10.0.0.1@tcp","fatal":true}"#;
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<Happening>(&text).unwrap(), event);
        assert_eq!(
            event.what.to_string(),
            "health: interface 10.0.0.1@tcp is down"
        );
    }
}
