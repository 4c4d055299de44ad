//! A connection: its credits, its queues, and the messages under way in both directions.
//!
//! ```text
//!   PUT_REQ, GET_REQ ─▶ unreserved ─(reserved)─▶ credited ─(credit)─▶ posted ─▶ completed
//!   IMMEDIATE ───────────────────────────────────▶   ▲
//!   PUT_NAK, PUT_ACK, PUT_DONE, GET_DONE ─▶ free ────┴──────────────▶ posted
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use lnd::{Failure, NiId, RxId, TxId};
use lnet_types::{Nid, Time};
use lnet_wire::Header;
use lnet_wire::o2ib::{
    Body, Descriptor, Envelope, IMMEDIATE_PAYLOAD_AT, MESSAGE_MAX, Message, MessageKind,
    encode_immediate, seal,
};

use crate::config::{NiTuning, O2ibConfig};
use crate::device::{CompletionError, ConnId, Device, Mapped, MappingId, Source, Write};
use crate::stats::{CloseReason, O2ibStats};
use crate::table::Table;

/// NOOPs that may be posted and not completed. Each end has two receive buffers for them.
// [IB-25]
const NOOPS_MAX: u8 = 2;

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) nid: Nid,
    pub(crate) incarnation: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Address and route are being resolved.
    Resolving,
    /// The request is under way.
    Connecting,
    /// The request of the peer is accepted.
    Accepting,
    /// Established.
    Open,
    /// Closed; the device may still use memory.
    Closing,
}

/// A message that we send, and the transfer behind it.
pub(crate) struct Outgoing<D: Device> {
    /// The message of the node above that ends with this transfer.
    pub(crate) owner: Option<TxId>,
    pub(crate) deadline: Time,
    /// What is posted next, or was posted last.
    pub(crate) task: Task,
    pub(crate) header: Option<Header>,
    pub(crate) source: Option<D::Source>,
    pub(crate) sink: Option<D::Sink>,
    pub(crate) mapping: Option<Mapped>,
    /// It is in a queue, or was in one when the connection closed.
    pub(crate) is_queued: bool,
    /// Posted and not completed.
    pub(crate) posts: u8,
    /// It was posted at least once.
    pub(crate) was_posted: bool,
    /// The answer that must come.
    pub(crate) awaits: Option<MessageKind>,
    pub(crate) failure: Option<Failure>,
}

/// A message without the parts that [`Outgoing`] has.
#[derive(Debug)]
pub(crate) enum Task {
    Noop,
    Immediate,
    PutReq,
    GetReq,
    PutNak {
        cookie: u64,
        status: i32,
    },
    PutAck {
        source_cookie: u64,
        sink_cookie: u64,
        descriptor: Descriptor,
    },
    PutDone {
        cookie: u64,
        status: i32,
        writes: Vec<Write>,
    },
    GetDone {
        cookie: u64,
        status: i32,
        writes: Vec<Write>,
    },
}

impl<D: Device> Outgoing<D> {
    pub(crate) fn new(task: Task, deadline: Time) -> Self {
        Self {
            owner: None,
            deadline,
            task,
            header: None,
            source: None,
            sink: None,
            mapping: None,
            is_queued: false,
            posts: 0,
            was_posted: false,
            awaits: None,
            failure: None,
        }
    }

    /// Returns true if nothing remains to be posted, completed or answered.
    pub(crate) fn is_complete(&self) -> bool {
        !self.is_unfinished() && self.posts == 0
    }

    /// Returns true if something remains to be posted or answered. That never happens once the connection is closed.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.is_queued || self.awaits.is_some()
    }

    /// Returns the class of a deadline that has passed.
    // [IB-33]
    pub(crate) fn overdue(&self) -> Failure {
        if self.posts > 0 {
            Failure::NetworkTimeout
        } else if self.awaits.is_some() && self.was_posted {
            Failure::RemoteTimeout
        } else {
            Failure::LocalTimeout
        }
    }

    /// Returns the class of another end of the connection.
    // [IB-33]
    pub(crate) fn broken_off(&self) -> Failure {
        if self.was_posted {
            Failure::RemoteDropped
        } else {
            Failure::LocalError
        }
    }
}

/// A message of the peer that is not complete.
pub(crate) enum Incoming<D: Device> {
    /// A PUT_REQ that we have answered with memory.
    Put {
        rx: RxId,
        sink: D::Sink,
        mapping: MappingId,
        length: u32,
        deadline: Time,
    },
    /// A GET_REQ whose REPLY has not come from the node above.
    Get {
        cookie: u64,
        descriptor: Descriptor,
        header: Header,
        deadline: Time,
    },
    /// A message that the node above holds, in its receive buffer.
    Held {
        rx: RxId,
        buffer: u32,
        message: Vec<u8>,
    },
}

/// What posting needs besides the connection.
pub(crate) struct Around<'a, D: Device> {
    pub(crate) device: &'a mut D,
    pub(crate) stats: &'a mut O2ibStats,
    pub(crate) config: &'a O2ibConfig,
    /// How long a message of this connection may take.
    pub(crate) timeout: Duration,
    pub(crate) scratch: &'a mut [u8; MESSAGE_MAX],
    pub(crate) now: Time,
}

pub(crate) struct Conn<D: Device> {
    pub(crate) id: ConnId,
    pub(crate) peer: u64,
    pub(crate) ni: NiId,
    pub(crate) ours: End,
    pub(crate) theirs: End,
    pub(crate) state: State,
    pub(crate) depth: u16,
    pub(crate) fragments: u16,
    high_water: u16,
    /// Sends that may be posted and not completed: at most what the queues were made for.
    pub(crate) sends_max: u16,
    /// Credited messages that we may still send.
    pub(crate) credits: u16,
    /// Transfers that we may still begin.
    pub(crate) reserved: u16,
    /// Credits that we can give back with the next message.
    pub(crate) outstanding: u16,
    /// Credits of the peer that we have: given back or not earned yet.
    pub(crate) owed: u16,
    noops: u8,
    pub(crate) posted: u16,
    free: VecDeque<u64>,
    unreserved: VecDeque<u64>,
    credited: VecDeque<u64>,
    pub(crate) out: Table<Outgoing<D>>,
    pub(crate) incoming: Table<Incoming<D>>,
    /// Messages that arrived before our end was established.
    pub(crate) early: Vec<(u32, Vec<u8>)>,
    sent_at: Time,
    /// When the peer last showed that it lives.
    pub(crate) alive_at: Time,
    /// When an attempt to connect is given up.
    pub(crate) connect_until: Time,
    #[cfg(feature = "defects")]
    pub(crate) returns_twice: bool,
    #[cfg(feature = "defects")]
    pub(crate) first_key: Option<u32>,
}

impl<D: Device> Conn<D> {
    pub(crate) fn new(
        peer: u64,
        ni: NiId,
        ours: End,
        theirs: End,
        state: State,
        now: Time,
    ) -> Self {
        Self {
            id: ConnId(0),
            peer,
            ni,
            ours,
            theirs,
            state,
            depth: 0,
            fragments: 0,
            high_water: 1,
            sends_max: 1,
            credits: 0,
            reserved: 0,
            outstanding: 0,
            owed: 0,
            noops: 0,
            posted: 0,
            free: VecDeque::new(),
            unreserved: VecDeque::new(),
            credited: VecDeque::new(),
            out: Table::default(),
            incoming: Table::default(),
            early: Vec::new(),
            sent_at: now,
            alive_at: now,
            connect_until: now,
            #[cfg(feature = "defects")]
            returns_twice: false,
            #[cfg(feature = "defects")]
            first_key: None,
        }
    }

    /// Sets what both ends have agreed.
    // [IB-11] [IB-19] [IB-22]
    pub(crate) fn agree(&mut self, depth: u16, fragments: u16, tuning: &NiTuning) {
        self.depth = depth;
        self.fragments = fragments;
        self.high_water = tuning.high_water(depth);
        self.sends_max = self.sends_max.min(tuning.sends(depth)).max(1);
        self.credits = depth;
        self.reserved = depth;
    }

    pub(crate) fn queued(&self) -> usize {
        self.free.len() + self.unreserved.len() + self.credited.len()
    }

    /// Takes a message into its queue. [`Self::pump`] posts it.
    pub(crate) fn queue(&mut self, outgoing: Outgoing<D>, stats: &mut O2ibStats) -> u64 {
        let key = self.out.insert(outgoing);
        self.requeue(key, stats);
        key
    }

    /// Queues the next message of a transfer.
    pub(crate) fn requeue(&mut self, key: u64, stats: &mut O2ibStats) {
        let Some(outgoing) = self.out.get_mut(key) else {
            return;
        };
        outgoing.is_queued = true;
        match outgoing.task {
            Task::PutReq | Task::GetReq => self.unreserved.push_back(key),
            Task::Immediate => self.credited.push_back(key),
            _ => return self.free.push_back(key),
        }
        if usize::from(self.credits) < self.credited.len() + self.unreserved.len() {
            stats.waited_for_credit += 1;
        }
    }

    /// Takes the credits of a message that arrived.
    // [IB-20]
    pub(crate) fn take_credits(&mut self, given: u8) -> Result<(), CloseReason> {
        let credits = self.credits + u16::from(given);
        if credits > self.depth {
            return Err(CloseReason::Credits);
        }
        self.credits = credits;
        Ok(())
    }

    /// Counts a credit that the peer has used.
    pub(crate) fn owe(&mut self) -> Result<(), CloseReason> {
        if self.owed >= self.depth {
            return Err(CloseReason::Credits);
        }
        self.owed += 1;
        Ok(())
    }

    /// Gives a credit of the peer back with one of the next messages.
    // [IB-23]
    pub(crate) fn earn(&mut self) {
        self.outstanding += 1;
        #[cfg(feature = "defects")]
        if self.returns_twice && self.outstanding < self.depth {
            self.outstanding += 1;
            self.owed += 1;
        }
    }

    /// Posts what may be posted.
    // [IB-24] [IB-26]
    pub(crate) fn pump(&mut self, around: &mut Around<'_, D>) -> Result<(), CloseReason> {
        if self.state != State::Open {
            return Ok(());
        }
        // [IB-22]
        while self.reserved > 0
            && let Some(key) = self.unreserved.pop_front()
        {
            self.reserved -= 1;
            self.credited.push_back(key);
        }
        while self.posted < self.sends_max {
            if let Some(key) = self.free.pop_front() {
                self.post(key, around)?;
            } else if self.credits > 0
                && let Some(key) = self.credited.pop_front()
            {
                self.credits -= 1;
                self.post(key, around)?;
            } else if self.needs_noop(around) {
                let deadline = around.now + around.timeout;
                let mut noop = Outgoing::new(Task::Noop, deadline);
                noop.is_queued = true;
                self.noops += 1;
                let key = self.out.insert(noop);
                self.post(key, around)?;
            } else {
                break;
            }
        }
        Ok(())
    }

    fn needs_noop(&self, around: &Around<'_, D>) -> bool {
        let is_quiet = around.now - self.sent_at >= around.config.keepalive;
        (self.outstanding >= self.high_water || is_quiet) && self.noops < NOOPS_MAX
    }

    fn post(&mut self, key: u64, around: &mut Around<'_, D>) -> Result<(), CloseReason> {
        let envelope = Envelope {
            // At most the depth, which is below 255.
            credits: self.outstanding.min(u8::MAX.into()) as u8,
            source: self.ours.nid,
            source_incarnation: self.ours.incarnation,
            destination: self.theirs.nid,
            destination_incarnation: self.theirs.incarnation,
        };
        let Some(outgoing) = self.out.get_mut(key) else {
            return Ok(());
        };
        outgoing.is_queued = false;
        let encoded = encode(outgoing, key, envelope, around);
        let (len, kind) = encoded.ok_or(CloseReason::DeviceRefused)?;
        let message = around.scratch.get_mut(..len).unwrap_or_default();
        if around.config.cksum {
            seal(message);
        }
        let none = Vec::new();
        let writes = match &outgoing.task {
            Task::PutDone { writes, .. } | Task::GetDone { writes, .. } => writes,
            _ => &none,
        };
        let posted = around.device.post_send(self.id, writes, message, key);
        if posted.is_err() {
            outgoing.failure = Some(Failure::LocalError);
            return Err(CloseReason::DeviceRefused);
        }
        let written: u64 = writes.iter().map(|write| u64::from(write.length)).sum();
        around.stats.bytes_written += written;
        around.stats.sent.add(kind);
        outgoing.posts += 1;
        outgoing.was_posted = true;
        self.posted += 1;
        self.owed = self.owed.saturating_sub(self.outstanding);
        self.outstanding = 0;
        self.sent_at = around.now;
        Ok(())
    }

    /// Records the completion of a posted message. Returns the message if nothing of it remains.
    pub(crate) fn completed(
        &mut self,
        ticket: u64,
        result: Result<(), CompletionError>,
        now: Time,
    ) -> Option<Result<Option<Outgoing<D>>, CloseReason>> {
        let outgoing = self.out.get_mut(ticket).filter(|out| out.posts > 0)?;
        outgoing.posts -= 1;
        self.posted = self.posted.saturating_sub(1);
        if matches!(outgoing.task, Task::Noop) {
            self.noops = self.noops.saturating_sub(1);
        }
        if result.is_err() {
            outgoing.failure.get_or_insert(Failure::RemoteDropped);
            return Some(Err(CloseReason::SendFailed));
        }
        self.alive_at = now;
        let complete = outgoing.is_complete();
        Some(Ok(if complete {
            self.out.remove(ticket)
        } else {
            None
        }))
    }

    /// Empties the queues; their messages stay in the table, still marked as queued.
    pub(crate) fn clear_queues(&mut self) {
        for queue in [&mut self.free, &mut self.unreserved, &mut self.credited] {
            queue.clear();
        }
    }
}

/// Writes the next message of a transfer into the scratch memory. Returns its length and type; `None` if it has no
/// bytes, which the checks at its start rule out.
fn encode<D: Device>(
    outgoing: &Outgoing<D>,
    cookie: u64,
    envelope: Envelope,
    around: &mut Around<'_, D>,
) -> Option<(usize, MessageKind)> {
    let header = outgoing.header;
    let descriptor = |mapped: &Mapped| Descriptor {
        rkey: mapped.rkey,
        fragments: mapped.fragments.clone(),
    };
    let body = match &outgoing.task {
        Task::Immediate => return encode_payload(outgoing, &envelope, around),
        Task::Noop => Body::Noop,
        Task::PutReq => Body::PutReq {
            header: header?,
            cookie,
        },
        Task::GetReq => Body::GetReq {
            header: header?,
            cookie,
            descriptor: outgoing.mapping.as_ref().map(descriptor)?,
        },
        &Task::PutNak { cookie, status } => Body::PutNak { cookie, status },
        Task::PutAck {
            source_cookie,
            sink_cookie,
            descriptor,
        } => Body::PutAck {
            source_cookie: *source_cookie,
            sink_cookie: *sink_cookie,
            descriptor: descriptor.clone(),
        },
        &Task::PutDone { cookie, status, .. } => Body::PutDone { cookie, status },
        &Task::GetDone { cookie, status, .. } => Body::GetDone { cookie, status },
    };
    let kind = body.kind();
    let message = Message { envelope, body };
    Some((message.encode(around.scratch).ok()?, kind))
}

fn encode_payload<D: Device>(
    outgoing: &Outgoing<D>,
    envelope: &Envelope,
    around: &mut Around<'_, D>,
) -> Option<(usize, MessageKind)> {
    let header = outgoing.header?;
    let len = encode_immediate(envelope, &header, around.scratch).ok()?;
    let room = around.scratch.get_mut(IMMEDIATE_PAYLOAD_AT..len)?;
    if let Some(source) = &outgoing.source {
        source.copy_out(room);
        around.stats.bytes_copied += room.len() as u64;
    }
    Some((len, MessageKind::Immediate))
}
