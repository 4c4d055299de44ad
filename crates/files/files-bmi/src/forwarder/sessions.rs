//! The calls of each client, so that each call is executed once only.
//!
//! ```text
//!              a call, or a later attempt of a call that was not executed
//!   NOT DONE ─────────────▶ RUNNING ───────────────▶ DONE (with the answer, if it must not be executed twice)
//!       ▲                      │ cancelled             │ the next call of the slot
//!       └──────────────────────┘◀──────────────────────┘
//! ```
//!
//! A slot has one call at a time. Its client makes a new attempt only after it has cancelled the previous one. If an
//! attempt arrives while an earlier attempt runs, the earlier one is therefore cancelled. If a worker executes the
//! earlier attempt, the new one waits for its end; a still later attempt takes the place of the waiting one. Attempts
//! and calls that arrive after later ones are dropped.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::counters::Dropped;
use crate::options::SLOTS_MAX;
use crate::proto::{CallHead, ClientName};

/// What to do with an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Execute it.
    Run,
    /// Let it wait for the end of the exchange `runs`. Cancel `runs`, and the exchange `waited` that waited before.
    Wait {
        runs: u64,
        waited: Option<u64>,
    },
    /// Send this answer, which was kept.
    Repeat(Arc<[u8]>),
    /// Answer that the outcome is unknown: this forwarder cannot know whether the call was executed.
    Unknown,
    Drop(Dropped),
}

/// The sessions of all clients.
pub(super) struct Sessions {
    clients: FxHashMap<ClientName, Session>,
    /// Clients in the order of their last message. The key is a value of `clock`.
    heard: BTreeMap<u64, ClientName>,
    clock: u64,
    max: usize,
    epoch: u64,
    forgotten: u64,
}

struct Session {
    slots: Vec<Slot>,
    heard: u64,
}

#[derive(Default)]
struct Slot {
    sequence: u32,
    attempt: u32,
    state: State,
    /// The exchange that waits for the end of the running one.
    waiting: Option<u64>,
}

#[derive(Default)]
enum State {
    #[default]
    NotDone,
    /// This exchange runs.
    Running(u64),
    Done(Option<Arc<[u8]>>),
}

impl Sessions {
    pub(super) fn new(epoch: u64, max: usize) -> Self {
        Self {
            clients: FxHashMap::default(),
            heard: BTreeMap::new(),
            clock: 0,
            max: max.max(1),
            epoch,
            forgotten: 0,
        }
    }

    /// Decides about the attempt of `exchange`, which has arrived. `once`: the call must not be executed twice.
    pub(super) fn arrived(&mut self, head: &CallHead, once: bool, exchange: u64) -> Verdict {
        if head.slot >= SLOTS_MAX {
            return Verdict::Drop(Dropped::BadSlot);
        }
        let is_known = self.clients.contains_key(&head.client);
        if once && head.repeats && (head.epoch != self.epoch || !is_known) {
            return Verdict::Unknown;
        }
        let Some(slot) = self.slot(head) else {
            return Verdict::Drop(Dropped::TooMany);
        };
        let later = head.sequence.wrapping_sub(slot.sequence);
        // Sequence numbers wrap: a difference up to half of the numbers means later, a greater one earlier.
        let is_fresh = slot.sequence == 0 && slot.attempt == 0;
        if !is_fresh && later > u32::MAX / 2 {
            return Verdict::Drop(Dropped::Late);
        }
        if !is_fresh && later == 0 && head.attempt <= slot.attempt {
            return Verdict::Drop(Dropped::Late);
        }
        if let State::Running(runs) = slot.state {
            let waited = slot.waiting.replace(exchange);
            return Verdict::Wait { runs, waited };
        }
        if let (0, State::Done(Some(answer))) = (later, &slot.state) {
            slot.attempt = head.attempt;
            return Verdict::Repeat(Arc::clone(answer));
        }
        (slot.sequence, slot.attempt) = (head.sequence, head.attempt);
        slot.state = State::Running(exchange);
        Verdict::Run
    }

    /// Records the end of the running attempt. `done` is `Some` if it was executed, with the answer to keep if the
    /// call must not be executed twice, and `None` if it was cancelled. Returns the exchange that waited.
    pub(super) fn ended(
        &mut self,
        head: &CallHead,
        done: Option<Option<Arc<[u8]>>>,
    ) -> Option<u64> {
        let slot = self.clients.get_mut(&head.client)?;
        let slot = slot.slots.get_mut(usize::from(head.slot))?;
        if (slot.sequence, slot.attempt) != (head.sequence, head.attempt) {
            return None;
        }
        slot.state = done.map_or(State::NotDone, State::Done);
        slot.waiting.take()
    }

    /// Removes an exchange that waited and was cancelled.
    pub(super) fn left(&mut self, head: &CallHead, exchange: u64) {
        let session = self.clients.get_mut(&head.client);
        let slot = session.and_then(|session| session.slots.get_mut(usize::from(head.slot)));
        if let Some(slot) = slot.filter(|slot| slot.waiting == Some(exchange)) {
            slot.waiting = None;
        }
    }

    /// Returns the number of clients in memory.
    pub(super) fn count(&self) -> usize {
        self.clients.len()
    }

    /// Returns how many clients were forgotten since the last call of this method.
    pub(super) fn take_forgotten(&mut self) -> u64 {
        std::mem::take(&mut self.forgotten)
    }

    /// Returns the slot of a call. Creates the session of a new client; `None` if the table is full of clients with
    /// running exchanges.
    fn slot(&mut self, head: &CallHead) -> Option<&mut Slot> {
        self.clock += 1;
        let clock = self.clock;
        if let Some(session) = self.clients.get(&head.client) {
            self.heard.remove(&session.heard);
        } else if self.clients.len() >= self.max && !self.forget_one() {
            return None;
        }
        self.heard.insert(clock, head.client);
        let session = self.clients.entry(head.client).or_insert_with(|| Session {
            slots: Vec::new(),
            heard: 0,
        });
        session.heard = clock;
        let slot = usize::from(head.slot);
        if session.slots.len() <= slot {
            session.slots.resize_with(slot + 1, Slot::default);
        }
        session.slots.get_mut(slot)
    }

    /// Forgets the client that was silent for longest, of the clients without a running exchange. Returns false if
    /// there is none.
    fn forget_one(&mut self) -> bool {
        let idle = self.heard.iter().find(|(_, client)| {
            let session = self.clients.get(*client);
            session.is_none_or(|session| session.is_idle())
        });
        let Some((&heard, &client)) = idle else {
            return false;
        };
        self.heard.remove(&heard);
        self.clients.remove(&client);
        self.forgotten += 1;
        true
    }
}

impl Session {
    fn is_idle(&self) -> bool {
        let runs = |slot: &Slot| matches!(slot.state, State::Running(_)) || slot.waiting.is_some();
        !self.slots.iter().any(runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: u64 = 7;

    fn head(client: u8, sequence: u32, attempt: u32) -> CallHead {
        CallHead {
            repeats: attempt > 0,
            is_long: false,
            slot: 3,
            sequence,
            attempt,
            client: [client; 16],
            epoch: EPOCH,
            job: 0,
            room: 0,
            piece: 0,
            request: 0,
            data: 0,
        }
    }

    fn sessions() -> Sessions {
        Sessions::new(EPOCH, 2)
    }

    fn answer() -> Arc<[u8]> {
        Arc::from(&b"answer"[..])
    }

    #[test]
    fn a_call_that_was_carried_out_gets_its_answer_again() {
        let mut sessions = sessions();
        assert_eq!(sessions.arrived(&head(1, 1, 0), true, 10), Verdict::Run);
        assert_eq!(sessions.ended(&head(1, 1, 0), Some(Some(answer()))), None);
        let repeat = Verdict::Repeat(answer());
        assert_eq!(sessions.arrived(&head(1, 1, 1), true, 11), repeat);
        assert_eq!(sessions.arrived(&head(1, 1, 2), true, 12), repeat);
        assert_eq!(sessions.arrived(&head(1, 2, 0), true, 13), Verdict::Run);
    }

    #[test]
    fn an_attempt_that_never_arrived_or_was_given_up_is_carried_out() {
        let mut sessions = sessions();
        assert_eq!(sessions.arrived(&head(1, 1, 0), false, 1), Verdict::Run);
        sessions.ended(&head(1, 1, 0), Some(None));
        assert_eq!(sessions.arrived(&head(1, 2, 1), true, 2), Verdict::Run);
        sessions.ended(&head(1, 2, 1), None);
        assert_eq!(sessions.arrived(&head(1, 2, 2), true, 3), Verdict::Run);
    }

    #[test]
    fn an_attempt_waits_for_the_one_that_runs() {
        let mut sessions = sessions();
        assert_eq!(sessions.arrived(&head(1, 1, 0), true, 1), Verdict::Run);
        assert_eq!(
            sessions.arrived(&head(1, 1, 1), true, 2),
            Verdict::Wait {
                runs: 1,
                waited: None
            }
        );
        assert_eq!(
            sessions.arrived(&head(1, 1, 2), true, 3),
            Verdict::Wait {
                runs: 1,
                waited: Some(2)
            }
        );
        let waited = sessions.ended(&head(1, 1, 0), Some(Some(answer())));
        assert_eq!(waited, Some(3));
        let again = sessions.arrived(&head(1, 1, 2), true, 3);
        assert_eq!(again, Verdict::Repeat(answer()));
    }

    #[test]
    fn what_comes_late_is_dropped() {
        let mut sessions = sessions();
        let late = Verdict::Drop(Dropped::Late);
        assert_eq!(sessions.arrived(&head(1, 5, 1), false, 1), Verdict::Run);
        assert_eq!(sessions.arrived(&head(1, 5, 0), false, 2), late);
        assert_eq!(sessions.arrived(&head(1, 5, 1), false, 2), late);
        assert_eq!(sessions.arrived(&head(1, 4, 9), false, 2), late);
        let mut bad = head(1, 6, 0);
        bad.slot = SLOTS_MAX;
        let verdict = sessions.arrived(&bad, false, 2);
        assert_eq!(verdict, Verdict::Drop(Dropped::BadSlot));
    }

    #[test]
    fn a_new_client_is_dropped_while_every_known_one_has_a_running_exchange() {
        let mut sessions = sessions();
        for client in 1..=2 {
            let verdict = sessions.arrived(&head(client, 1, 0), true, client.into());
            assert_eq!(verdict, Verdict::Run);
        }
        let full = Verdict::Drop(Dropped::TooMany);
        assert_eq!(sessions.arrived(&head(3, 1, 0), true, 3), full);
        assert_eq!(sessions.count(), 2);
        sessions.ended(&head(1, 1, 0), Some(None));
        assert_eq!(sessions.arrived(&head(3, 1, 0), true, 4), Verdict::Run);
        assert_eq!(sessions.count(), 2);
    }

    #[test]
    fn who_cannot_know_says_so() {
        let mut sessions = sessions();
        // The first attempt went to another forwarder.
        let mut other = head(1, 1, 1);
        other.epoch = 6;
        assert_eq!(sessions.arrived(&other, true, 1), Verdict::Unknown);
        assert_eq!(sessions.arrived(&other, false, 1), Verdict::Run);
        // This forwarder forgets the client.
        sessions.ended(&other, Some(None));
        for client in 2..=3 {
            assert_eq!(
                sessions.arrived(&head(client, 1, 0), false, 1),
                Verdict::Run
            );
            sessions.ended(&head(client, 1, 0), Some(None));
        }
        assert_eq!((sessions.count(), sessions.take_forgotten()), (2, 1));
        assert_eq!(sessions.arrived(&head(1, 2, 1), true, 1), Verdict::Unknown);
    }
}
