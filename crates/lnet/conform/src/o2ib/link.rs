//! A connection of a check: its state at the checker.

use std::collections::VecDeque;

use lnet_o2ib::{ConnectFailure, Shape};
use lnet_wire::o2ib::{MessageKind, Parameters};

/// The places of two fields in a message.
const KIND_AT: usize = 6;
const CREDITS_AT: usize = 7;

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

/// A connection.
#[derive(Debug)]
pub(super) struct Link {
    /// The number of the connection within the check, from 0.
    pub(super) number: usize,
    /// The private data of the request.
    pub(super) request: Vec<u8>,
    pub(super) shape: Shape,
    pub(super) answer: Option<Answer>,
    /// The incarnation of the node, from its CONNACK.
    pub(super) incarnation: u64,
    /// Messages that arrived and were not looked at.
    pub(super) inbox: VecDeque<Vec<u8>>,
    /// Messages that may be sent and take a credit.
    pub(super) credits: u32,
    /// Credits that the node gave back on this connection.
    pub(super) given_back: u32,
    /// Messages of the node that took a credit.
    pub(super) taken: u32,
    /// Credits to give back with the next message.
    pub(super) owed: u8,
    /// Messages carry no credits back.
    pub(super) withholds: bool,
    pub(super) posted: u32,
    pub(super) next_ticket: u64,
    pub(super) is_closed: bool,
}

impl Link {
    pub(super) fn new(number: usize, request: Vec<u8>, asked: Parameters) -> Self {
        let depth = u32::from(asked.queue_depth);
        Self {
            number,
            request,
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
            given_back: 0,
            taken: 0,
            owed: 0,
            withholds: false,
            posted: 0,
            next_ticket: 0,
            is_closed: false,
        }
    }

    /// Takes over what the CONNACK says.
    pub(super) fn agree(&mut self, incarnation: u64, parameters: Parameters) {
        self.incarnation = incarnation;
        self.credits = parameters.queue_depth.into();
    }

    /// Counts the credits of a message that arrived, and keeps the message.
    // [IB-21] [IB-23]
    pub(super) fn arrived(&mut self, bytes: Vec<u8>) {
        let credits = u32::from(bytes.get(CREDITS_AT).copied().unwrap_or(0));
        self.credits += credits;
        self.given_back += credits;
        let number = bytes.get(KIND_AT).copied();
        let is = |kind: MessageKind| number == Some(kind as u8);
        if MessageKind::ALL
            .into_iter()
            .any(|kind| is(kind) && kind.takes_credit())
        {
            self.taken += 1;
        }
        if is(MessageKind::Immediate) || is(MessageKind::GetReq) || is(MessageKind::PutDone) {
            self.owed = self.owed.saturating_add(1);
        }
        self.inbox.push_back(bytes);
    }

    /// Returns the credits that the next message gives back.
    pub(super) fn give_back(&mut self) -> u8 {
        if self.withholds {
            return 0;
        }
        std::mem::take(&mut self.owed)
    }
}
