//! The tasks that a client and the server run together in one measurement.
//!
//! The bench sends a task to a client as a line of text. The client sends it to the server as an unexpected message
//! with the same text.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, bail};
use bmi::Setting;
use clap::ValueEnum;
use serde::Serialize;

/// The method by which messages get from one process to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Method {
    /// The zoid method; payload goes through the daemon's socket.
    Zoid,
    /// The zoid method; all processes poll for work for a limited time before they sleep.
    Spinning,
    /// The zoid method; the daemon copies long messages directly from and to the client's memory.
    ProcessCopy,
    /// Sockets between client and server.
    Tcp,
}

/// The pattern of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Pattern {
    /// An expected message there and one back, one at a time.
    Exchange,
    /// An unexpected message there and an expected one back, one at a time.
    UnexpectedExchange,
    /// Expected messages to the server, several in flight.
    Stream,
    /// Unexpected messages to the server, several in flight.
    UnexpectedStream,
    /// Exchanges of messages of all sizes up to that of the task, every byte looked at.
    Verify,
    /// Sends that the server has no receive for, each cancelled after it was refused.
    Refused,
    /// Tests of an operation that does not complete.
    Silence,
}

/// The origin of the server's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Origin {
    /// From the interface: for zoid, in the segment.
    Pre,
    /// From the heap.
    Ext,
}

/// One measurement of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Task {
    pub(super) pattern: Pattern,
    pub(super) origin: Origin,
    /// The payload bytes of a message; for [`Pattern::Verify`] the limit on them.
    pub(super) bytes: usize,
    /// The number of messages that the client sends.
    pub(super) count: u64,
    /// The number of messages in flight; exchanges have one.
    pub(super) in_flight: u32,
    /// The number of buffers that either end of a stream uses in turn. There are at least as many as messages in
    /// flight.
    pub(super) buffers: u32,
    /// The number of the client. The bytes of verified messages depend on it.
    pub(super) client: u64,
}

/// The client's result of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) nanoseconds: u64,
    /// The frames between client and daemon, in both directions; 0 with tcp.
    pub(super) frames: u64,
    /// The bytes of the frames that the client sent.
    pub(super) bytes_sent: u64,
    /// The number of calls that the client forwarded to the daemon.
    pub(super) exchanges: u64,
}

impl Task {
    /// Returns whether the client's posts wait for their result. The posts of the tcp method never wait.
    pub(super) const fn posts(&self) -> Setting {
        match self.pattern {
            Pattern::Stream | Pattern::UnexpectedStream => zoid::setting::PIPELINED,
            _ => zoid::setting::UNPIPELINED,
        }
    }

    /// Returns true if the server takes part in the task.
    pub(super) const fn needs_server(&self) -> bool {
        !matches!(self.pattern, Pattern::Refused | Pattern::Silence)
    }
}

fn name(value: &impl ValueEnum) -> String {
    value
        .to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_owned())
}

fn named<T: ValueEnum>(text: &str) -> anyhow::Result<T> {
    T::from_str(text, false).map_err(anyhow::Error::msg)
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name(self))
    }
}

impl FromStr for Method {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        named(text)
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            pattern,
            origin,
            bytes,
            count,
            in_flight,
            buffers,
            client,
        } = self;
        let (pattern, origin) = (name(pattern), name(origin));
        write!(
            f,
            "{pattern} {origin} {bytes} {count} {in_flight} {buffers} {client}"
        )
    }
}

impl FromStr for Task {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let words: Vec<&str> = text.split(' ').collect();
        let &[pattern, origin, bytes, count, in_flight, buffers, client] = words.as_slice() else {
            bail!("{text:?} is no task");
        };
        Ok(Self {
            pattern: named(pattern)?,
            origin: named(origin)?,
            bytes: bytes.parse().context("a task's bytes")?,
            count: count.parse().context("a task's count")?,
            in_flight: in_flight.parse().context("a task's messages in flight")?,
            buffers: buffers.parse().context("a task's buffers")?,
            client: client.parse().context("a task's client")?,
        })
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            nanoseconds,
            frames,
            bytes_sent,
            exchanges,
        } = self;
        write!(f, "done {nanoseconds} {frames} {bytes_sent} {exchanges}")
    }
}

impl FromStr for Done {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let words: Vec<&str> = text.split(' ').collect();
        let &["done", nanoseconds, frames, bytes_sent, exchanges] = words.as_slice() else {
            bail!("a client says {text:?}");
        };
        Ok(Self {
            nanoseconds: nanoseconds.parse()?,
            frames: frames.parse()?,
            bytes_sent: bytes_sent.parse()?,
            exchanges: exchanges.parse()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_read_as_it_was_written() {
        for &pattern in Pattern::value_variants() {
            let task = Task {
                pattern,
                origin: Origin::Ext,
                bytes: 1 << 27,
                count: u64::MAX,
                in_flight: 8,
                buffers: 16,
                client: 3,
            };
            assert_eq!(task.to_string().parse::<Task>().unwrap(), task);
        }
        assert!("stream pre 1 2 3 4".parse::<Task>().is_err());
    }

    #[test]
    fn what_was_done_is_read_as_it_was_written() {
        let done = Done {
            nanoseconds: 1,
            frames: 2,
            bytes_sent: 3,
            exchanges: 4,
        };
        assert_eq!(done.to_string().parse::<Done>().unwrap(), done);
        assert!("done 1 2 3".parse::<Done>().is_err());
    }
}
