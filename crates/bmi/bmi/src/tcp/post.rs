//! Calls of the program: sends, receives, cancels.

use super::link::{Frame, Link, Outgoing, Waiting};
use super::state::{Arrival, Place, State};
use super::wire::{EAGER_MAX, FrameKind, Header, REQUESTS_MAX, charge};
use crate::error::Error;
use crate::id::{Class, OpId};
use crate::method::{Posted, Request, RequestKind};

impl State {
    /// Posts an operation. Other operations that complete meanwhile are in `done`.
    pub(crate) fn post(&mut self, request: &Request) -> Result<Posted, Error> {
        match request.kind {
            RequestKind::Receive => self.post_receive(request),
            RequestKind::Send => self.post_send(request, None),
            RequestKind::SendUnexpected(class) => self.post_send(request, Some(class)),
        }
    }

    fn post_send(&mut self, request: &Request, class: Option<Class>) -> Result<Posted, Error> {
        let index = self.link_to(self.known_as(request.peer.0))?;
        let outgoing = Outgoing {
            op: request.op,
            tag: request.tag,
            class: class.unwrap_or_default().0,
            segments: request.segments.clone(),
            total: request.total,
        };
        let Some(link) = &mut self.links[index] else {
            return Err(Error::ConnReset);
        };
        if class.is_some() {
            link.sending.backlog.push_back(outgoing);
            self.send_unexpected(index, Some(request.op));
        } else {
            link.sending.expected_backlog.push_back(outgoing);
            self.send_expected(index, Some(request.op));
        }
        self.outcome(request.op)
    }

    /// Returns whether the operation that is being posted has completed.
    fn outcome(&mut self, op: OpId) -> Result<Posted, Error> {
        let Some(index) = self.done.iter().rposition(|(done, _)| *done == op) else {
            return Ok(Posted::Pending);
        };
        let (_, result) = self.done.swap_remove(index);
        self.places.remove(&op);
        result.map(Posted::Immediate)
    }

    /// Sends unexpected messages while the window allows.
    pub(crate) fn send_unexpected(&mut self, index: usize, posted: Option<OpId>) {
        while let Some(link) = &mut self.links[index] {
            let sending = &mut link.sending;
            let Some(first) = sending.backlog.front() else {
                return;
            };
            let cost = charge(first.total);
            if sending.unexpected < cost {
                break;
            }
            sending.unexpected -= cost;
            let Some(outgoing) = sending.backlog.pop_front() else {
                return;
            };
            self.send_message(index, FrameKind::Unexpected, outgoing);
        }
        self.note_backlog(index, posted);
    }

    /// Sends or announces expected messages while the limits allow.
    pub(crate) fn send_expected(&mut self, index: usize, posted: Option<OpId>) {
        while let Some(link) = &mut self.links[index] {
            let sending = &mut link.sending;
            let Some(first) = sending.expected_backlog.front() else {
                return;
            };
            let cost = charge(first.total);
            let eager = first.total <= EAGER_MAX && sending.eager >= cost;
            if !eager && sending.requested.len() >= REQUESTS_MAX {
                break;
            }
            let Some(outgoing) = sending.expected_backlog.pop_front() else {
                return;
            };
            if eager {
                sending.eager -= cost;
                self.send_message(index, FrameKind::Eager, outgoing);
            } else {
                self.announce(index, outgoing);
            }
        }
        self.note_backlog(index, posted);
    }

    /// Records that the operation that is being posted stays in a backlog.
    fn note_backlog(&mut self, index: usize, posted: Option<OpId>) {
        if let Some(op) = posted {
            self.places.insert(op, Place::Backlog { link: index });
        }
    }

    fn send_message(&mut self, index: usize, kind: FrameKind, outgoing: Outgoing) {
        let header = Header {
            class: outgoing.class,
            tag: outgoing.tag.0,
            length: outgoing.total as u64,
            ..Header::new(kind)
        };
        self.places
            .insert(outgoing.op, Place::Queued { link: index });
        self.enqueue(index, Frame::message(header, outgoing));
    }

    fn announce(&mut self, index: usize, outgoing: Outgoing) {
        let Some(link) = &mut self.links[index] else {
            return;
        };
        let token = link.sending.next_token;
        link.sending.next_token += 1;
        let header = Header {
            tag: outgoing.tag.0,
            length: outgoing.total as u64,
            token,
            ..Header::new(FrameKind::Request)
        };
        let place = Place::Requested { link: index, token };
        self.places.insert(outgoing.op, place);
        link.sending.requested.insert(token, outgoing);
        self.enqueue(index, Frame::control(header));
    }

    fn post_receive(&mut self, request: &Request) -> Result<Posted, Error> {
        let peer = self.known_as(request.peer.0);
        let tag = request.tag;
        let state = self.peers.get_mut(&peer).ok_or(Error::Inval)?;
        let arrival = state.arrivals.pop_front(tag.0);
        if arrival.is_none() && state.link.is_none() && state.remote.is_none() {
            return Err(Error::ConnReset);
        }
        let number = self.next_receive;
        self.next_receive += 1;
        let waiting = Waiting {
            op: request.op,
            tag,
            segments: request.segments.clone(),
            total: request.total,
            number,
        };
        match arrival {
            None => {
                state.receives.push_back(tag.0, waiting);
                self.places.insert(request.op, Place::Receive { peer, tag });
            }
            Some(arrival) => self.match_arrival(waiting, arrival),
        }
        self.outcome(request.op)
    }

    /// Matches a receive with a message that arrived before it.
    pub(crate) fn match_arrival(&mut self, waiting: Waiting, arrival: Arrival) {
        match arrival {
            Arrival::Eager { link, data, .. } => {
                let result = self.copy_out(&waiting, &data);
                let op = waiting.op;
                drop(waiting);
                self.done.push((op, result));
                self.consumed_eager(link, charge(data.len()));
            }
            Arrival::Request {
                link,
                token,
                length,
                ..
            } => {
                if let Some(state) = &mut self.links[link] {
                    state.receiving.requests -= 1;
                }
                self.grant(link, token, length, waiting);
            }
        }
    }

    /// Cancels an operation, if possible.
    // [BMI-40]
    pub(crate) fn cancel(&mut self, op: OpId) {
        let taken = match self.places.get(&op) {
            None | Some(Place::Claimed) => false,
            Some(&Place::Receive { peer, tag }) => {
                let state = self.peers.get_mut(&peer);
                let mine = |waiting: &Waiting| waiting.op == op;
                state.is_some_and(|state| state.receives.remove(tag.0, mine).is_some())
            }
            Some(&Place::Backlog { link }) => self.links[link]
                .as_mut()
                .is_some_and(|link| remove_from_backlog(link, op)),
            Some(&Place::Requested { link, token }) => self.withdraw(link, token),
            Some(&Place::Queued { link }) => self.remove_from_queue(link, op),
        };
        if taken {
            self.done.push((op, Err(Error::Cancel)));
        }
    }

    fn withdraw(&mut self, index: usize, token: u64) -> bool {
        let Some(link) = &mut self.links[index] else {
            return false;
        };
        let Some(outgoing) = link.sending.requested.remove(&token) else {
            return false;
        };
        let header = Header {
            tag: outgoing.tag.0,
            token,
            ..Header::new(FrameKind::Withdraw)
        };
        self.enqueue(index, Frame::control(header));
        self.send_expected(index, None);
        true
    }

    /// Removes a frame from the queue, unless some of its bytes have been written.
    fn remove_from_queue(&mut self, index: usize, op: OpId) -> bool {
        let Some(link) = &mut self.links[index] else {
            return false;
        };
        let unsent = |frame: &Frame| frame.op == Some(op) && frame.sent == 0;
        let Some(place) = link.outbound.iter().position(unsent) else {
            return false;
        };
        let Some(frame) = link.outbound.remove(place) else {
            return false;
        };
        let payload: usize = frame.segments.iter().map(|span| span.len()).sum();
        if frame.header[0] == FrameKind::Eager as u8 {
            link.sending.eager += charge(payload);
        } else {
            link.sending.unexpected += charge(payload);
        }
        true
    }
}

/// Removes an operation from a backlog.
fn remove_from_backlog(link: &mut Link, op: OpId) -> bool {
    for backlog in [
        &mut link.sending.backlog,
        &mut link.sending.expected_backlog,
    ] {
        if let Some(place) = backlog.iter().position(|outgoing| outgoing.op == op) {
            backlog.remove(place);
            return true;
        }
    }
    false
}
