//! What is worth an administrator's look in a stream of RPCs, counted, with the first places of each kind.

use lnet_types::{Nid, Time};
use serde::Serialize;

use crate::opcode::opc;
use crate::rpc::{End, Rpc};
use crate::text::{Status, errno_name};

/// The most findings of a kind that are kept with their place.
const SHOWN_MAX: usize = 20;

/// Kinds of finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// A request without a reply in its time.
    NoReply,
    /// A callback of a lock without an answer: its holder will be evicted.
    CallbackUnanswered,
    /// A lock that was asked for, and that nothing gave back.
    LockKept,
    /// A request that was sent again.
    Resent,
    /// A server that asked for more time.
    Early,
    /// A request that was executed again after a restart of the server.
    Replayed,
    /// An error that says more than "no such name".
    Failed,
}

impl FindingKind {
    /// All kinds, the gravest first.
    pub const ALL: [Self; 7] = [
        Self::NoReply,
        Self::CallbackUnanswered,
        Self::LockKept,
        Self::Resent,
        Self::Early,
        Self::Replayed,
        Self::Failed,
    ];

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoReply => "no_reply",
            Self::CallbackUnanswered => "callback_unanswered",
            Self::LockKept => "lock_kept",
            Self::Resent => "resent",
            Self::Early => "early",
            Self::Replayed => "replayed",
            Self::Failed => "failed",
        }
    }

    /// Returns what the kind means, and what to do.
    #[must_use]
    pub const fn means(self) -> &'static str {
        match self {
            Self::NoReply => {
                "the service is not loaded there, the server hangs, or a router lost the request or the reply"
            }
            Self::CallbackUnanswered => {
                "the holder of the lock does not answer; the server evicts the holder"
            }
            Self::LockKept => {
                "no message gave the lock back; others wait for the lock, and the server may evict the holder"
            }
            Self::Resent => "the requester did not see a reply in time",
            Self::Early => {
                "the server asked for more time: the server is overloaded, or its disks are slow"
            }
            Self::Replayed => "the server restarted, and its clients repeat what was not on disk",
            Self::Failed => "the server refused the request",
        }
    }
}

/// A finding with its place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Its kind.
    pub kind: FindingKind,
    /// When, in seconds since the Unix epoch.
    pub time: f64,
    /// What was seen.
    pub seen: String,
}

/// Counts of a stream of RPCs.
#[derive(Debug, Default)]
pub struct Tally {
    /// RPCs that ended, whatever their end.
    pub rpcs: u64,
    /// RPCs that were under way at the end.
    pub in_flight: u64,
    /// RPCs that were forgotten, because too many were under way.
    pub forgotten: u64,
    /// Early replies.
    pub early: u64,
    /// Final replies whose request was not seen.
    pub orphan_replies: u64,
    /// Final replies that came once more.
    pub repeated_replies: u64,
    /// Final replies that came when their RPC counted as unanswered.
    pub late_replies: u64,
    /// Messages of bulk whose request was not seen.
    pub orphan_bulk: u64,
    /// Messages of bulk that came when their RPC had ended.
    pub late_bulk: u64,
    /// Messages on portals of Lustre that are no RPC.
    pub malformed: u64,
    counts: [u64; FindingKind::ALL.len()],
    found: Vec<Finding>,
}

impl Tally {
    /// Returns the findings that are kept, in the order of their ends.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.found
    }

    /// Returns how many findings of a kind there are, kept or not.
    #[must_use]
    pub fn count_of(&self, kind: FindingKind) -> u64 {
        self.counts.get(kind as usize).copied().unwrap_or_default()
    }

    pub(crate) fn count(&mut self, rpc: &Rpc) {
        self.rpcs += 1;
        self.in_flight += u64::from(rpc.end == End::InFlight);
        self.forgotten += u64::from(rpc.end == End::Forgotten);
        let is_callback = matches!(
            rpc.opc,
            Some(opc::LDLM_BL_CALLBACK | opc::LDLM_CP_CALLBACK | opc::LDLM_GL_CALLBACK)
        );
        if rpc.end == End::Unanswered {
            let kind = if is_callback {
                FindingKind::CallbackUnanswered
            } else {
                FindingKind::NoReply
            };
            match rpc.timeout {
                // An encrypted request does not say its time.
                0 => self.find(kind, rpc, format_args!("no reply")),
                timeout => self.find(kind, rpc, format_args!("no reply within {timeout} s")),
            }
        }
        if rpc.resends > 0 {
            self.find(FindingKind::Resent, rpc, format_args!("sent again"));
        }
        if rpc.early > 0 {
            let replies = if rpc.early == 1 { "reply" } else { "replies" };
            self.find(
                FindingKind::Early,
                rpc,
                format_args!("{} early {replies}", rpc.early),
            );
        }
        if rpc.is_replay {
            self.find(FindingKind::Replayed, rpc, format_args!("a replay"));
        }
        if let Some(status) = rpc.status.filter(|status| is_notable(*status)) {
            self.find(FindingKind::Failed, rpc, format_args!("{}", Status(status)));
        }
    }

    pub(crate) fn lock_kept(&mut self, since: Time, now: Time, server: Nid, client: Nid) {
        let waited = now.saturating_since(since).as_secs_f64();
        let seen = format!(
            "{server} asked {client} for a lock {waited:.3} s before the end; not given back"
        );
        self.add(FindingKind::LockKept, since, seen);
    }

    fn find(&mut self, kind: FindingKind, rpc: &Rpc, what: std::fmt::Arguments<'_>) {
        let (client, server) = (rpc.client, rpc.target_name());
        let seen = format!(
            "{} {client} > {server} xid {:#x}: {what}",
            rpc.operation(),
            rpc.xid
        );
        self.add(kind, rpc.started, seen);
    }

    fn add(&mut self, kind: FindingKind, time: Time, seen: String) {
        let Some(count) = self.counts.get_mut(kind as usize) else {
            return;
        };
        *count += 1;
        if *count <= SHOWN_MAX as u64 {
            // Seconds of this century have enough digits left for microseconds.
            let time = time.as_nanos() as f64 / 1e9;
            self.found.push(Finding { kind, time, seen });
        }
    }
}

/// Returns whether an error says more than that a name or an attribute does not exist, or that a log has ended.
fn is_notable(status: i32) -> bool {
    let usual = ["ENOENT", "ENODATA", "EEXIST", "EAGAIN", "EBADR"];
    status < 0 && errno_name(status).is_none_or(|name| !usual.contains(&name))
}
