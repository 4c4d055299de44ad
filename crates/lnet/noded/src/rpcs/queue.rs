//! Messages on their way from the node to the thread that counts.
//!
//! Two batches: the node fills one while the other is counted. After its first use a batch allocates nothing, and the thread
//! is woken once a batch, so that a message costs the node a short lock and a copy.

use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lnet_node::stack::Shown;
use lnet_ptlrpc::Seen;
use lnet_types::Time;
use lnet_wire::Header;

/// The most messages of a batch: with their heads 20 MB.
pub(super) const BATCH_MAX: usize = 1 << 14;

/// How long the thread lets a batch grow.
const REST: Duration = Duration::from_millis(5);

/// How long the thread waits for a message before it looks for what else there is to do.
const IDLE_MAX: Duration = Duration::from_secs(1);

/// The place of messages that this node sends; those that arrive have the number of their interface.
const OWN: u64 = u64::MAX;

/// What a wait for messages ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    /// Messages.
    Messages,
    /// Nothing came.
    Nothing,
    /// The queue is empty, and has ended.
    End,
}

#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    batch: Batch,
    is_over: bool,
}

/// Messages in the order in which they were shown.
#[derive(Default)]
pub(super) struct Batch {
    messages: Vec<Copied>,
    heads: Vec<u8>,
}

struct Copied {
    place: u64,
    header: Header,
    head: Range<usize>,
    time: Time,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a message; returns false if the batch is full.
    pub(super) fn push(&self, message: &Shown<'_>) -> bool {
        let mut state = self.lock();
        let len = state.batch.messages.len();
        if len == BATCH_MAX {
            return false;
        }
        state.batch.push(message);
        drop(state);
        if len == 0 {
            self.news.notify_one();
        }
        true
    }

    /// Ends the queue. The messages in it are still taken.
    pub(super) fn end(&self) {
        self.lock().is_over = true;
        self.news.notify_one();
    }

    /// Waits for messages, and a little longer for more; for a second if there are none.
    pub(super) fn wait(&self, batch: &mut Batch) -> Waited {
        let is_idle = |state: &mut State| state.batch.messages.is_empty() && !state.is_over;
        let waited = self.news.wait_timeout_while(self.lock(), IDLE_MAX, is_idle);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if state.batch.messages.is_empty() {
            let is_over = state.is_over;
            return if is_over {
                Waited::End
            } else {
                Waited::Nothing
            };
        }
        let rested = self
            .news
            .wait_timeout_while(state, REST, |state| !state.is_over);
        drop(rested);
        self.take(batch);
        Waited::Messages
    }

    /// Takes the messages of now. Returns false if there are none.
    pub(super) fn take(&self, batch: &mut Batch) -> bool {
        batch.messages.clear();
        batch.heads.clear();
        std::mem::swap(&mut self.lock().batch, batch);
        batch.len() > 0
    }
}

impl Batch {
    fn push(&mut self, message: &Shown<'_>) {
        let start = self.heads.len();
        self.heads.extend_from_slice(message.head);
        self.messages.push(Copied {
            place: message.ni.map_or(OWN, |ni| ni.0.into()),
            header: *message.header,
            head: start..self.heads.len(),
            time: message.time,
        });
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Seen<'_>> {
        self.messages.iter().map(|message| Seen {
            time: message.time,
            place: message.place,
            header: &message.header,
            head: self.heads.get(message.head.clone()).unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use lnet_core::NiId;
    use lnet_types::Nid;
    use lnet_wire::{Body, Put};

    use super::*;

    fn header(match_bits: u64) -> Header {
        Header {
            dest_nid: Nid::LOOPBACK,
            src_nid: Nid::LOOPBACK,
            dest_pid: 12345,
            src_pid: 12345,
            payload_length: 4,
            body: Body::Put(Put {
                ack_wmd: lnet_wire::Handle::NONE,
                match_bits,
                hdr_data: 0,
                ptl_index: 28,
                offset: 0,
            }),
        }
    }

    fn push(queue: &Queue, number: u64) -> bool {
        queue.push(&Shown {
            ni: number.is_multiple_of(2).then_some(NiId(2)),
            header: &header(number),
            head: &number.to_le_bytes()[..number as usize % 5],
            time: Time::from_secs(number),
        })
    }

    #[test]
    fn messages_keep_their_order_and_what_does_not_fit_is_told() {
        let queue = Queue::default();
        let most = BATCH_MAX as u64;
        let pushed = (0..most + 7).filter(|number| push(&queue, *number)).count();
        assert_eq!(pushed, BATCH_MAX);
        let mut batch = Batch::default();
        assert_eq!(queue.wait(&mut batch), Waited::Messages);
        assert_eq!(batch.len(), BATCH_MAX);
        for (number, seen) in batch.iter().enumerate() {
            let number = number as u64;
            assert_eq!(*seen.header, header(number));
            assert_eq!(seen.head, &number.to_le_bytes()[..number as usize % 5]);
            let place = if number.is_multiple_of(2) {
                2
            } else {
                u64::MAX
            };
            assert_eq!((seen.place, seen.time), (place, Time::from_secs(number)));
        }
        assert!(push(&queue, 3));
        assert!(queue.take(&mut batch) && batch.len() == 1);
        assert!(!queue.take(&mut batch) && batch.len() == 0);
    }

    #[test]
    fn the_end_comes_behind_the_messages_that_are_there() {
        let queue = Queue::default();
        push(&queue, 1);
        queue.end();
        let mut batch = Batch::default();
        assert_eq!(queue.wait(&mut batch), Waited::Messages);
        assert_eq!(queue.wait(&mut batch), Waited::End);
    }
}
