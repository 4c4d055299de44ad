//! Unexpected messages for the server: order, fetching, freeing.

use crate::zbmi::Engine;
use crate::zbmi::counters::Rejection;
use crate::zbmi::inbox::Stage;
use crate::zbmi::io::{Answer, CallId, Class, Errno, Peer, Session, Tag, UnexpTest};
use crate::zbmi::server::Call;
use crate::zbmi::time::Time;

impl Engine {
    /// UNEXP_TEST. Answered with [`Answer::Messages`] or [`Answer::Failed`].
    pub fn unexp_test(&mut self, now: Time, session: Session, call: CallId, test: UnexpTest) {
        if !self.accepts_call(session, call) {
            return;
        }
        let UnexpTest {
            capacity,
            class,
            timeout,
        } = test;
        if capacity == 0 {
            self.counters.reject(Rejection::BadTest);
            return self.answer(call, Answer::Failed(Errno::Invalid));
        }
        if self.deliver_messages(call, class, capacity) {
            return;
        }
        if timeout.is_zero() {
            return self.answer(
                call,
                Answer::Messages {
                    messages: Vec::new(),
                    woken: false,
                },
            );
        }
        let deadline = now + timeout;
        self.sleep(
            call,
            Call::Unexpected {
                class,
                capacity,
                deadline,
            },
            deadline,
        );
    }

    /// UNEXP_FREE of the message at this offset. An offset at which the server holds no message is counted
    /// and ignored.
    // [MEM-22]
    pub fn unexp_free(&mut self, now: Time, session: Session, offset: u64) {
        if !self.is_session(session) {
            return self.counters.reject(Rejection::UnknownSession);
        }
        if self.inbox.stage(offset) != Some(Stage::Delivered) {
            return self.counters.reject(Rejection::BadFree);
        }
        self.counters.unexpected_freed += 1;
        self.free_message(offset);
        self.serve_memory(now);
    }

    /// Returns the clients and tags of the unexpected messages that no server has fetched; the next server
    /// can fetch them.
    pub fn unfetched(&self) -> impl Iterator<Item = (Peer, Tag)> {
        self.inbox.unfetched()
    }

    /// Handles an unexpected message whose bytes have all arrived: it can be fetched, and so can those that
    /// waited for it.
    // [BMI-16]
    pub(crate) fn message_arrived(&mut self, peer: Peer, offset: u64) {
        self.inbox.arrived(offset);
        let class = self.client(peer).and_then(|client| {
            let mut queues = client.arriving.iter();
            queues
                .find(|(_, queue)| queue.contains(&offset))
                .map(|(&class, _)| class)
        });
        if let Some(class) = class {
            self.advance_messages(peer, class);
        }
    }

    /// Frees the memory of an unexpected message that will not arrive. The caller then calls `serve_memory`.
    pub(crate) fn drop_message(&mut self, peer: Peer, offset: u64) {
        let mut classes = Vec::new();
        if let Some(client) = self.client_mut(peer) {
            for (&class, queue) in &mut client.arriving {
                let before = queue.len();
                queue.retain(|&other| other != offset);
                classes.extend((queue.len() < before).then_some(class));
            }
        }
        self.free_message(offset);
        for class in classes {
            self.advance_messages(peer, class);
        }
    }

    fn advance_messages(&mut self, peer: Peer, class: Class) {
        loop {
            let queue = self
                .client(peer)
                .and_then(|client| client.arriving.get(&class));
            let first = queue.and_then(|queue| queue.front().copied());
            let arrived = first.filter(|&offset| self.inbox.stage(offset) == Some(Stage::Arrived));
            let Some(client) = self.client_mut(peer) else {
                return;
            };
            let Some(offset) = arrived else {
                client.arriving.retain(|_, queue| !queue.is_empty());
                return;
            };
            if let Some(queue) = client.arriving.get_mut(&class) {
                queue.pop_front();
            }
            if let Some(class) = self.inbox.make_ready(offset) {
                self.announce_message(class);
            }
        }
    }

    /// Wakes one UNEXP_TEST, which gets the message, and every TEST that asked to be woken.
    pub(crate) fn announce_message(&mut self, class: Class) {
        let Some(server) = &self.server else {
            return;
        };
        let fetcher = server.first_sleeper(
            |call| matches!(call, Call::Unexpected { class: wanted, .. } if *wanted == class),
        );
        let tests = server.sleepers.iter().copied().filter(|call| {
            matches!(
                server.calls.get(call),
                Some(Call::Test {
                    wake_on_unexpected: true,
                    ..
                })
            )
        });
        let tests: Vec<CallId> = tests.collect();
        let capacity = fetcher.and_then(|call| match server.calls.get(&call) {
            Some(Call::Unexpected { capacity, .. }) => Some((call, *capacity)),
            _ => None,
        });
        if let Some((call, capacity)) = capacity {
            self.deliver_messages(call, class, capacity);
        }
        for call in tests {
            self.answer_test(call, Vec::new(), false);
        }
    }

    /// Answers an UNEXP_TEST if a message can be fetched. Returns whether it did.
    fn deliver_messages(&mut self, call: CallId, class: Class, capacity: usize) -> bool {
        let messages = self.inbox.fetch(class, capacity);
        if messages.is_empty() {
            return false;
        }
        self.counters.unexpected_delivered += messages.len() as u64;
        self.answer(
            call,
            Answer::Messages {
                messages,
                woken: false,
            },
        );
        true
    }
}
