//! Lustre's RPCs as a node sees them, for clients that poll or watch them.
//!
//! ```text
//!  Request::RpcNumbers  ─▶  RpcNumbers
//!  Request::WatchRpcs   ─▶  [Happening …]  []  …, each of the kind Happened::Rpc
//! ```

use serde::{Deserialize, Serialize};

/// What a node counts of the RPCs that it sees. Counts only grow, until the node restarts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RpcNumbers {
    /// All RPCs that have ended.
    pub all: RpcRow,
    /// RPCs without a reply so far.
    pub outstanding: u64,
    /// Messages that were not looked at, because too many came.
    pub missed: u64,
    /// RPCs that were forgotten before their end, because too many were outstanding.
    pub not_followed: u64,
    /// The same RPCs by client, target, operation and job.
    pub tables: Vec<RpcTable>,
    /// The answered RPCs that took longest in the last one to two minutes, the slowest first.
    pub slowest: Vec<RpcTold>,
}

/// RPCs by one of their properties.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RpcTable {
    /// `client`, `target`, `operation` or `job`.
    pub by: String,
    /// Those with the most RPCs first; at most 100, and one row `other` of all others. A row that comes out of `other`
    /// begins at 0, and one that becomes part of it adds what it has: no count falls while its row is shown, and that of
    /// `other` never does.
    pub rows: Vec<RpcRow>,
}

/// Counts of RPCs that have something in common. Times are from request to final reply, as the node sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RpcRow {
    /// What they have in common.
    pub name: String,
    /// RPCs that have ended.
    pub rpcs: u64,
    /// RPCs whose reply has an error.
    pub errors: u64,
    /// RPCs without a reply in time.
    pub unanswered: u64,
    /// Bytes of data: bulk, or what stood in the messages themselves.
    pub bytes: u64,
    /// RPCs with a final reply.
    pub answered: u64,
    /// The microseconds that the answered ones took together.
    pub micros: u64,
    /// The microseconds within which 99 of 100 ended since the first one; unknown for the row `other`.
    pub micros_99: Option<u64>,
    /// The most microseconds since the first one; unknown for the row `other`.
    pub micros_max: Option<u64>,
}

/// An RPC that has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RpcTold {
    /// The requester.
    pub client: String,
    /// The node that the request went to.
    pub server: String,
    /// The target, or the kind of server and its NID.
    pub target: String,
    /// The operation.
    pub operation: String,
    /// The job; empty if there is none.
    pub job: String,
    /// What it is about: names, FIDs, objects, extents.
    pub subject: String,
    /// The number that the requester gave it.
    pub xid: u64,
    /// Bytes of data: bulk, or what stood in the messages themselves.
    pub bytes: u64,
    /// The status of the reply; `None` without a reply.
    pub status: Option<i32>,
    /// The time from request to final reply; `None` without a reply.
    pub micros: Option<u64>,
    /// The seconds that the server says it took.
    pub service_seconds: Option<u32>,
    /// Requests that were sent again.
    pub resends: u32,
    /// Replies that asked for more time.
    pub early: u32,
    /// Whether the node forgot it before its end, because too many were outstanding. It may have a reply.
    pub forgotten: bool,
}

/// Which RPCs to watch: those that every given condition holds for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RpcFilter {
    /// The NID of the client.
    pub client: Option<String>,
    /// A part of the target's name.
    pub target: Option<String>,
    /// A part of the operation's name, in capitals or not.
    pub operation: Option<String>,
    /// A part of the job.
    pub job: Option<String>,
    /// Only RPCs with an error, or without a reply.
    pub failed: bool,
    /// Only RPCs that took at least so many microseconds, or that have no reply.
    pub slower_micros: Option<u64>,
}

impl RpcFilter {
    /// Returns whether every condition holds for an RPC.
    #[must_use]
    pub fn has(&self, rpc: &RpcTold) -> bool {
        let part = |wanted: &Option<String>, text: &str| {
            wanted.as_deref().is_none_or(|wanted| text.contains(wanted))
        };
        let operation = self.operation.as_deref().map(str::to_ascii_uppercase);
        let is_slow = |least| rpc.micros.is_none_or(|micros| micros >= least);
        self.client
            .as_ref()
            .is_none_or(|client| *client == rpc.client)
            && part(&self.target, &rpc.target)
            && part(&operation, &rpc.operation.to_ascii_uppercase())
            && part(&self.job, &rpc.job)
            && (!self.failed || has_failed(rpc))
            && self.slower_micros.is_none_or(is_slow)
    }
}

/// Returns whether an RPC has an error or no reply. The reply to an encrypted one has no status that can be read.
fn has_failed(rpc: &RpcTold) -> bool {
    let is_unanswered = rpc.micros.is_none() && !rpc.forgotten;
    rpc.status.map_or(is_unanswered, |status| status < 0)
}

impl std::fmt::Display for RpcTold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "rpc: {} {} to {}",
            self.operation, self.client, self.target
        )?;
        if !self.job.is_empty() {
            write!(f, " job {}", self.job)?;
        }
        if !self.subject.is_empty() {
            write!(f, " {}", self.subject)?;
        }
        if self.bytes > 0 {
            write!(f, ", {} bytes", self.bytes)?;
        }
        match (self.status, self.micros) {
            (Some(status), Some(micros)) => write!(f, ": status {status}, {micros} us")?,
            (None, Some(micros)) => write!(f, ": {micros} us")?,
            (_, None) if self.forgotten => write!(f, ": not followed to its end")?,
            (_, None) => write!(f, ": no reply")?,
        }
        if self.resends > 0 {
            write!(f, ", sent again {} times", self.resends)?;
        }
        if self.early > 0 {
            write!(f, ", {} early replies", self.early)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answered_and_forgotten_rpcs_have_not_failed() {
        let failed = RpcFilter {
            failed: true,
            ..RpcFilter::default()
        };
        let encrypted = RpcTold {
            status: None,
            ..told()
        };
        let silent = RpcTold {
            micros: None,
            ..encrypted.clone()
        };
        let forgotten = RpcTold {
            forgotten: true,
            ..silent.clone()
        };
        assert!(!failed.has(&encrypted) && !failed.has(&forgotten));
        assert!(failed.has(&silent));
        assert!(forgotten.to_string().contains(": not followed to its end"));
    }

    fn told() -> RpcTold {
        RpcTold {
            client: "10.0.0.1@tcp".into(),
            target: "fs1-OST0000_UUID".into(),
            operation: "OST_READ".into(),
            job: "fio.1000".into(),
            bytes: 4096,
            status: Some(0),
            micros: Some(700),
            ..RpcTold::default()
        }
    }

    #[test]
    fn every_condition_of_a_filter_must_hold() {
        let text = |text: &str| Some(text.to_owned());
        let all = RpcFilter::default();
        assert!(all.has(&told()));
        let good = RpcFilter {
            client: text("10.0.0.1@tcp"),
            target: text("OST0000"),
            operation: text("ost_read"),
            job: text("fio"),
            failed: false,
            slower_micros: Some(700),
        };
        assert!(good.has(&told()));
        let bad = [
            RpcFilter {
                client: text("0.0.0.1@tcp"),
                ..good.clone()
            },
            RpcFilter {
                target: text("OST0001"),
                ..good.clone()
            },
            RpcFilter {
                operation: text("write"),
                ..good.clone()
            },
            RpcFilter {
                job: text("dd"),
                ..good.clone()
            },
            RpcFilter {
                failed: true,
                ..good.clone()
            },
            RpcFilter {
                slower_micros: Some(701),
                ..good.clone()
            },
        ];
        for filter in bad {
            assert!(!filter.has(&told()), "{filter:?}");
        }
        let lost = RpcTold {
            status: None,
            micros: None,
            ..told()
        };
        let slow = RpcFilter {
            failed: true,
            slower_micros: Some(u64::MAX),
            ..good
        };
        assert!(slow.has(&lost));
    }

    #[test]
    fn a_line_says_who_what_and_how_long() {
        let expected = "rpc: OST_READ 10.0.0.1@tcp to fs1-OST0000_UUID job fio.1000, 4096 bytes: status 0, 700 us";
        assert_eq!(told().to_string(), expected);
        let lost = RpcTold {
            status: None,
            micros: None,
            resends: 2,
            early: 1,
            bytes: 0,
            ..told()
        };
        let expected = "rpc: OST_READ 10.0.0.1@tcp to fs1-OST0000_UUID job fio.1000: no reply, sent again 2 times, \
                        1 early replies";
        assert_eq!(lost.to_string(), expected);
    }
}
