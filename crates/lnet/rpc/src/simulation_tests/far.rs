//! The simulated node of the server: descriptors of pieces, from their messages to their last events.

use std::time::Duration;

use bytes::Bytes;
use lnet_node::EventKind;

use super::{Happening, Key, Operation, Piece, World};
use crate::transfer::Heard;

/// How long the node waits for an answer.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(8);

/// A descriptor of two operations: the message and the answer.
pub(super) struct Bound {
    pub(super) call: Key,
    answers_by: EventKind,
    is_sent: bool,
    answer: Option<Bytes>,
}

impl World {
    /// Binds a descriptor and sends its message. The send may fail.
    pub(super) fn post_piece(&mut self, call: Key, piece: Piece) {
        let tag = piece.tag;
        let answers_by = match piece.operation {
            Operation::Put(_) => EventKind::Ack,
            Operation::Get { .. } => EventKind::Reply,
        };
        let bound = Bound {
            call,
            answers_by,
            is_sent: false,
            answer: None,
        };
        self.bound.insert(tag, bound);
        let is_ok = self.draw(1000) >= self.weather.loss;
        // The answer may come before the server learns that the message was sent.
        let reported = self.draw_ms(200);
        self.at(reported, Happening::Sent { tag, is_ok });
        if is_ok {
            self.carry(|| Happening::Piece(piece.clone()));
            self.at(RESPONSE_TIMEOUT, Happening::Overdue { tag });
        }
    }

    pub(super) fn sent(&mut self, tag: u64, is_ok: bool) -> Result<(), String> {
        let Some(bound) = self.bound.get_mut(&tag) else {
            return Ok(());
        };
        bound.is_sent = true;
        let call = bound.call;
        let answer = bound.answer.take();
        let is_last = !is_ok || answer.is_some();
        if is_last {
            self.bound.remove(&tag);
        }
        let data = answer.unwrap_or_default();
        let heard = Heard {
            kind: EventKind::Send,
            is_ok,
            len: data.len() as u32,
            is_last,
        };
        self.piece_event(call, tag, heard, data)
    }

    pub(super) fn answered(
        &mut self,
        tag: u64,
        incarnation: u64,
        data: Bytes,
    ) -> Result<(), String> {
        // A handle of an earlier life, or of a descriptor that is gone, matches nothing.
        let known = self.bound.get_mut(&tag);
        let Some(bound) = known.filter(|_| incarnation == self.incarnation) else {
            return Ok(());
        };
        if bound.answer.is_some() {
            return Ok(());
        }
        let (call, is_last) = (bound.call, bound.is_sent);
        let heard = Heard {
            kind: bound.answers_by,
            is_ok: true,
            len: data.len() as u32,
            is_last,
        };
        if is_last {
            self.bound.remove(&tag);
        } else {
            bound.answer = Some(data.clone());
        }
        self.piece_event(call, tag, heard, data)
    }

    pub(super) fn overdue(&mut self, tag: u64) -> Result<(), String> {
        let Some(bound) = self.bound.remove(&tag) else {
            return Ok(());
        };
        self.seen.overdue += 1;
        let timeout = Heard {
            kind: EventKind::Timeout,
            is_ok: false,
            len: 0,
            is_last: false,
        };
        self.piece_event(bound.call, tag, timeout, Bytes::new())?;
        let unlinked = Heard {
            kind: EventKind::Unlink,
            is_ok: true,
            is_last: true,
            ..timeout
        };
        self.piece_event(bound.call, tag, unlinked, Bytes::new())
    }
}
