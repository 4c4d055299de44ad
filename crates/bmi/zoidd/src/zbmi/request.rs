//! The three calls of clients: zbmi_send, zbmi_recv, zbmi_test.
//!
//! A call claims a counterpart, or waits up to its timeout, or is answered "not now". A call that does not
//! wait leaves no state behind (R21).

use crate::zbmi::Engine;
use crate::zbmi::client::{Client, Key, Request};
use crate::zbmi::counters::Rejection;
use crate::zbmi::io::{
    Direction, Errno, Output, Peer, RecvRequest, Reply, RequestId, SendKind, SendRequest, TestKind,
    TestRequest,
};
use crate::zbmi::matching::Offer;
use crate::zbmi::time::Time;
use crate::zbmi::timers::Timer;

impl Engine {
    /// zbmi_send (SEND_REQ). Ends with [`Reply::Sent`], [`Reply::NotNow`] or [`Reply::Failed`]; an
    /// [`Output::Grant`] comes first if there is a buffer. The caller drops an inline payload that gets no
    /// grant at once.
    pub fn send(&mut self, now: Time, peer: Peer, request: RequestId, send: SendRequest) {
        if !self.accepts(peer, request) {
            return;
        }
        if self.is_stopping() {
            self.counters.reject(Rejection::Draining);
            return self.reply(peer, request, Reply::Failed(Errno::TryAgain));
        }
        let limit = match send.kind {
            SendKind::Expected => self.config.max_expected,
            SendKind::Unexpected { .. } => self.config.max_unexpected,
        };
        if send.total > limit {
            return self.too_long(peer, request);
        }
        if let Some(result) = self
            .client(peer)
            .and_then(|client| client.recall(send.order))
        {
            self.counters.repeated_sends += 1;
            let reply = result.map_or_else(Reply::Failed, |()| Reply::Sent);
            return self.reply(peer, request, reply);
        }
        match send.kind {
            SendKind::Expected => self.send_expected(now, peer, request, send),
            SendKind::Unexpected { inline: true, .. } => self.send_inline(now, peer, request, send),
            SendKind::Unexpected { inline: false, .. } => {
                self.send_unexpected(now, peer, request, send);
            }
        }
    }

    /// zbmi_recv (RECV_REQ). Ends with an [`Output::Deliver`] that is acknowledged, [`Reply::NotNow`] or
    /// [`Reply::Failed`].
    pub fn recv(&mut self, now: Time, peer: Peer, request: RequestId, recv: RecvRequest) {
        if !self.accepts(peer, request) {
            return;
        }
        if self.is_stopping() {
            self.counters.reject(Rejection::Draining);
            return self.not_now(peer, request);
        }
        if recv.capacity > self.config.max_expected {
            return self.too_long(peer, request);
        }
        let key = Key {
            direction: Direction::ToClient,
            tag: recv.tag,
        };
        let offer = Offer {
            peer,
            request,
            key,
            size: recv.capacity,
            order: 0,
        };
        if self.claim_post(now, offer) {
            return;
        }
        if recv.timeout.is_zero() {
            return self.not_now(peer, request);
        }
        let deadline = now + recv.timeout;
        self.wait(peer, request, Request::Recv { recv, deadline });
    }

    /// zbmi_test (TEST_REQ). Ends with [`Reply::Ready`] or [`Reply::Failed`].
    pub fn test(&mut self, now: Time, peer: Peer, request: RequestId, test: TestRequest) {
        if !self.accepts(peer, request) {
            return;
        }
        self.counters.client_tests += 1;
        let kept = self.client(peer).map_or(0, Client::sleeping_entries);
        if kept + test.entries.len() > self.config.limits.test_entries {
            self.counters.reject(Rejection::RequestLimit);
            return self.reply(peer, request, Reply::Failed(Errno::Protocol));
        }
        let ready = self.readiness(peer, &test.entries);
        let asleep = ready.iter().all(|&count| count == 0) && !test.timeout.is_zero();
        if !asleep || self.is_stopping() {
            return self.reply(peer, request, Reply::Ready(ready));
        }
        let about_memory = test
            .entries
            .iter()
            .any(|entry| matches!(entry.kind, TestKind::Unexpected { .. }));
        if about_memory {
            self.memory.testers.insert((peer, request));
        }
        let deadline = now + test.timeout;
        self.wait(
            peer,
            request,
            Request::Test {
                entries: test.entries,
                deadline,
            },
        );
    }

    /// Ends a waiting request early (WAKE), with the answer of its timeout. A request whose transfer runs
    /// continues.
    // [FWD-24]
    pub fn wake(&mut self, now: Time, peer: Peer, request: RequestId) {
        let found = self
            .client(peer)
            .and_then(|client| client.requests.get(&request));
        match found {
            None => self.counters.reject(Rejection::StaleWake),
            Some(Request::Moving(_)) => {}
            Some(_) => self.end_waiting(now, peer, request),
        }
    }

    /// Ends a request whose timeout has expired.
    pub(crate) fn expire_request(&mut self, now: Time, peer: Peer, request: RequestId) {
        let found = self
            .client(peer)
            .and_then(|client| client.requests.get(&request));
        if matches!(found, Some(Request::Test { .. })) {
            self.counters.client_tests_timed_out += 1;
        }
        self.end_waiting(now, peer, request);
    }

    fn end_waiting(&mut self, now: Time, peer: Peer, request: RequestId) {
        match self.take_waiting(peer, request) {
            Some(Request::Test { entries, .. }) => {
                self.reply(peer, request, Reply::Ready(vec![0; entries.len()]));
            }
            Some(Request::Send { memory_ticket, .. }) => {
                self.not_now(peer, request);
                if memory_ticket.is_some() {
                    // The request may have been too large for the free memory, and smaller ones may wait
                    // behind it.
                    self.serve_memory(now);
                }
            }
            Some(Request::Recv { .. }) => self.not_now(peer, request),
            Some(Request::Moving(_)) | None => {}
        }
    }

    // [ZOID-14]
    fn send_expected(&mut self, now: Time, peer: Peer, request: RequestId, send: SendRequest) {
        let key = Key {
            direction: Direction::ToServer,
            tag: send.tag,
        };
        let offer = Offer {
            peer,
            request,
            key,
            size: send.total,
            order: send.order,
        };
        if self.claim_post(now, offer) {
            return;
        }
        if send.timeout.is_zero() {
            return self.not_now(peer, request);
        }
        let deadline = now + send.timeout;
        self.wait(
            peer,
            request,
            Request::Send {
                send,
                deadline,
                memory_ticket: None,
            },
        );
    }

    // [ZOID-13]
    fn send_unexpected(&mut self, now: Time, peer: Peer, request: RequestId, send: SendRequest) {
        if let Some(slot) = self.allocate_in_turn(peer, send.total) {
            return self.grant_message(now, peer, request, send, slot);
        }
        if send.timeout.is_zero() {
            return self.not_now(peer, request);
        }
        let deadline = now + send.timeout;
        let memory_ticket = Some(self.memory.enqueue(peer, request));
        self.wait(
            peer,
            request,
            Request::Send {
                send,
                deadline,
                memory_ticket,
            },
        );
    }

    // [FWD-31]
    fn send_inline(&mut self, now: Time, peer: Peer, request: RequestId, send: SendRequest) {
        match self
            .client_mut(peer)
            .and_then(|client| client.credits.pop())
        {
            Some(slot) => self.grant_message(now, peer, request, send, slot),
            None => {
                self.counters.reject(Rejection::NoCredit);
                self.reply(peer, request, Reply::Failed(Errno::Protocol));
            }
        }
    }

    /// Returns whether this request is accepted; otherwise it has been rejected or ignored.
    // [FWD-20]
    fn accepts(&mut self, peer: Peer, request: RequestId) -> bool {
        let limit = self.config.limits.requests_per_client;
        let Some(client) = self
            .client(peer)
            .filter(|client| client.away_until.is_none())
        else {
            self.counters.reject(Rejection::UnknownPeer);
            return false;
        };
        let reason = if client.requests.contains_key(&request) {
            Rejection::DuplicateRequest
        } else if client.requests.len() >= limit {
            Rejection::RequestLimit
        } else {
            return true;
        };
        self.counters.reject(reason);
        self.reply(peer, request, Reply::Failed(Errno::Protocol));
        false
    }

    fn too_long(&mut self, peer: Peer, request: RequestId) {
        self.counters.reject(Rejection::TooLong);
        self.reply(peer, request, Reply::Failed(Errno::MessageSize));
    }

    // [ZOID-17]
    fn wait(&mut self, peer: Peer, request: RequestId, waiting: Request) {
        let Some(client) = self.client_mut(peer) else {
            return;
        };
        let deadline = match &waiting {
            Request::Send { deadline, .. }
            | Request::Recv { deadline, .. }
            | Request::Test { deadline, .. } => *deadline,
            Request::Moving(_) => return,
        };
        let is_test = matches!(waiting, Request::Test { .. });
        if is_test {
            client.sleeping.insert(request);
        } else if let Some(key) = waiting.key() {
            client
                .keys
                .entry(key)
                .or_default()
                .waiters
                .push_back(request);
        }
        client.requests.insert(request, waiting);
        self.counters.waits += u64::from(!is_test);
        self.timers.set(deadline, Timer::Request(peer, request));
    }

    /// Removes a waiting request from every table. Returns `None` and changes nothing if its transfer runs.
    pub(crate) fn take_waiting(&mut self, peer: Peer, request: RequestId) -> Option<Request> {
        let client = self.client_mut(peer)?;
        if matches!(client.requests.get(&request)?, Request::Moving(_)) {
            return None;
        }
        let taken = client.requests.remove(&request)?;
        if let Some(key) = taken.key() {
            client.unqueue_waiter(key, request);
        }
        client.sleeping.remove(&request);
        self.memory.testers.remove(&(peer, request));
        let deadline = match &taken {
            Request::Send {
                deadline,
                memory_ticket,
                ..
            } => {
                if let Some(ticket) = memory_ticket {
                    self.memory.waiters.remove(ticket);
                }
                *deadline
            }
            Request::Recv { deadline, .. } | Request::Test { deadline, .. } => *deadline,
            Request::Moving(_) => return None,
        };
        self.timers.clear(deadline, Timer::Request(peer, request));
        Some(taken)
    }

    // [ZOID-12]
    pub(crate) fn not_now(&mut self, peer: Peer, request: RequestId) {
        self.counters.not_now += 1;
        if let Some(client) = self.client_mut(peer) {
            client.traffic.not_now += 1;
        }
        self.reply(peer, request, Reply::NotNow);
    }

    pub(crate) fn reply(&mut self, peer: Peer, request: RequestId, reply: Reply) {
        self.outputs.push_back(Output::Reply {
            peer,
            request,
            reply,
        });
    }
}

impl Request {
    /// Returns the queue in which it waits for a counterpart, if it does.
    fn key(&self) -> Option<Key> {
        match self {
            Self::Send {
                send,
                memory_ticket: None,
                ..
            } => Some(Key {
                direction: Direction::ToServer,
                tag: send.tag,
            }),
            Self::Recv { recv, .. } => Some(Key {
                direction: Direction::ToClient,
                tag: recv.tag,
            }),
            Self::Send { .. } | Self::Test { .. } | Self::Moving(_) => None,
        }
    }
}
