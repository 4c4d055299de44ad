//! A connection of a check: its state at the checker.

use std::collections::VecDeque;

use lnet_o2ib::{ConnectFailure, Shape};
use lnet_wire::o2ib::{Message, MessageKind};

/// Messages that are posted beyond those with a credit: answers and NOOPs.
const SPARE: u32 = 8;

/// The answer to a connection request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The node accepted the request; the bytes are its private data.
    Accepted(Vec<u8>),
    /// The node rejected the request; the bytes are its private data.
    Rejected(Vec<u8>),
    /// There was no answer of a node.
    Failed(ConnectFailure),
}

/// The end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The node closed the connection.
    ByNode,
    /// What was sent did not arrive, or the device refused it.
    Broken(String),
}

/// A connection.
#[derive(Debug)]
pub(super) struct Link {
    /// The number of the connection within the check, from 0.
    pub(super) number: usize,
    /// The private data of the request.
    pub(super) request: Vec<u8>,
    pub(super) shape: Shape,
    pub(super) answer: Option<Answer>,
    /// The queue depth that both ends agreed about.
    pub(super) depth: u32,
    /// The incarnation of the node, from its CONNACK.
    pub(super) incarnation: u64,
    /// Messages that arrived and were not looked at.
    pub(super) inbox: VecDeque<Vec<u8>>,
    /// Messages that may be sent and take a credit.
    pub(super) credits: u32,
    /// Messages of the node that took a credit.
    pub(super) taken: u32,
    /// Credits that the checker gave back.
    pub(super) returned: u32,
    /// Credits to give back with the next message.
    pub(super) owed: u8,
    /// Messages carry no credits back.
    pub(super) withholds: bool,
    pub(super) posted: u32,
    pub(super) next_ticket: u64,
    pub(super) end: Option<End>,
}

impl Link {
    /// A connection that is to be dialled, for a queue of this depth.
    pub(super) fn new(number: usize, request: Vec<u8>, depth: u16) -> Self {
        let depth = u32::from(depth);
        Self {
            number,
            request,
            depth,
            // [IB-18]
            shape: Shape {
                receives: 2 * depth + 2,
                messages: depth + SPARE,
                sends: 2 * (depth + SPARE),
            },
            answer: None,
            incarnation: 0,
            inbox: VecDeque::new(),
            credits: depth,
            taken: 0,
            returned: 0,
            owed: 0,
            withholds: false,
            posted: 0,
            next_ticket: 0,
            end: None,
        }
    }

    /// Takes over what the CONNACK says.
    pub(super) fn agree(&mut self, incarnation: u64, depth: u16) {
        self.incarnation = incarnation;
        self.depth = depth.into();
        self.credits = self.depth;
    }

    /// Counts the credits of a message that arrived, and keeps the message.
    // [IB-21] [IB-23]
    pub(super) fn arrived(&mut self, bytes: Vec<u8>) {
        if let Ok(Message { envelope, body }) = Message::decode(&bytes) {
            let kind = body.kind();
            self.credits += u32::from(envelope.credits);
            self.taken += u32::from(kind.takes_credit());
            let gives = [
                MessageKind::Immediate,
                MessageKind::GetReq,
                MessageKind::PutDone,
            ];
            self.owed = self.owed.saturating_add(gives.contains(&kind).into());
        }
        self.inbox.push_back(bytes);
    }

    /// Returns true if a message is due only for the credits that it gives back.
    pub(super) fn must_give_back(&self) -> bool {
        let is_open = self.end.is_none() && self.posted < self.shape.messages;
        let is_due = self.owed > 0 && 2 * u32::from(self.owed) >= self.depth;
        is_open && is_due && !self.withholds
    }

    /// Returns the credits that the next message gives back.
    pub(super) fn give_back(&mut self) -> u8 {
        if self.withholds {
            return 0;
        }
        let credits = std::mem::take(&mut self.owed);
        self.returned += u32::from(credits);
        credits
    }
}
