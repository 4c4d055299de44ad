//! One RPC as it was seen: a request, its bulk and its replies.

use std::sync::Arc;
use std::time::Duration;

use lnet_types::{Nid, Time};

use crate::opcode::{opc, opcode_name, service_of};
use crate::security::Flavor;
use crate::text::Status;

/// An RPC that has ended, or that nothing more is known about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rpc {
    /// The opcode; `None` if the request is encrypted.
    pub opc: Option<u32>,
    /// The number that the requester gave it: the match bits of the request.
    pub xid: u64,
    /// The requester: a client, or a server that calls a client back.
    pub client: Nid,
    /// The node that the request went to.
    pub server: Nid,
    /// The portal of the request.
    pub portal: u32,
    /// The target, if its connect was seen.
    pub target: Option<Arc<str>>,
    /// The job, printable; empty if there is none.
    pub job: Arc<str>,
    /// User and group of the caller, if the request says them.
    pub ids: Option<(u32, u32)>,
    /// What it is about: names, FIDs, objects, extents.
    pub subject: String,
    /// The security flavor.
    pub flavor: Flavor,
    /// When the request was first seen.
    pub started: Time,
    /// When the final reply was last seen.
    pub ended: Option<Time>,
    /// The time behind the place of the capture, if the capture has both sides of a router: from the request that the
    /// router sent on to the reply that it received.
    pub beyond: Option<Duration>,
    /// The seconds that the server says it took.
    pub service_time: Option<u32>,
    /// The status of the final reply.
    pub status: Option<i32>,
    /// Bytes that a read or a write asked for.
    pub asked: u64,
    /// Bytes of bulk that were seen.
    pub bulk: u64,
    /// Messages of bulk that were seen.
    pub bulk_parts: u32,
    /// Early replies.
    pub early: u32,
    /// Requests beyond the first, sent again by the requester.
    pub resends: u32,
    /// Whether it was executed before a restart of the server.
    pub is_replay: bool,
    /// Seconds that the request gives the server.
    pub timeout: u32,
    /// How it ended.
    pub end: End,
}

/// How an RPC ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// With a final reply.
    Answered,
    /// Without a reply within the time that the request gives the server. While messages still come, it is waited for some
    /// time more, in which the request may be sent again.
    Unanswered,
    /// The capture ended before its time was over.
    InFlight,
    /// It was forgotten, because more RPCs were under way than this program follows.
    Forgotten,
}

impl Rpc {
    /// Returns the time from the request to the final reply, as seen here.
    #[must_use]
    pub fn took(&self) -> Option<Duration> {
        self.ended.map(|end| end.saturating_since(self.started))
    }

    /// Returns the bytes of data that it moved: bulk, or what stood in the messages themselves. A read says in its status
    /// how much that was.
    #[must_use]
    pub fn moved(&self) -> u64 {
        match (self.opc, self.status) {
            _ if self.bulk > 0 => self.bulk,
            (Some(opc::OST_READ), Some(read)) => u64::try_from(read).unwrap_or(0),
            (Some(opc::OST_WRITE), Some(0..)) => self.asked,
            _ => 0,
        }
    }

    /// Returns the status of the final reply as text: a positive one of a lock request is a code of locks, and that of
    /// another request is a count.
    #[must_use]
    pub fn status_text(&self) -> Option<String> {
        let status = self.status?;
        let name = match (self.opc, status) {
            (Some(opc::LDLM_ENQUEUE), 1) => "lock matched",
            (Some(opc::LDLM_ENQUEUE), 300) => "lock changed",
            (Some(opc::LDLM_ENQUEUE), 301) => "lock aborted",
            (Some(opc::LDLM_ENQUEUE), 302) => "lock replaced",
            (Some(opc::LDLM_ENQUEUE), 303) => "no lock data",
            (Some(opc::LDLM_ENQUEUE), 304) => "would block",
            _ => return Some(Status(status).to_string()),
        };
        Some(name.to_owned())
    }

    /// Returns whether it failed: an error, or no reply in time.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.status.is_some_and(|status| status < 0) || self.end == End::Unanswered
    }

    /// Returns the name of the operation.
    #[must_use]
    pub fn operation(&self) -> String {
        operation_name(self.opc)
    }

    /// Returns the target, or the kind of server and its NID.
    #[must_use]
    pub fn target_name(&self) -> String {
        match &self.target {
            Some(target) => target.to_string(),
            None => format!("{}@{}", service_of(self.portal), self.server),
        }
    }
}

/// Returns the name of an operation; that of an encrypted RPC is not known.
pub(crate) fn operation_name(opc: Option<u32>) -> String {
    match opc {
        None => "encrypted".to_owned(),
        Some(opc) => opcode_name(opc).map_or_else(|| format!("opcode {opc}"), str::to_owned),
    }
}
