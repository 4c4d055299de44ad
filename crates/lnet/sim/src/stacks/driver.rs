//! Drives a machine's stack step by step, as threads would: several jobs are in progress at the same time, and any
//! event may occur between taking, running and finishing a job.

use std::collections::VecDeque;
use std::time::Duration;

use lnet_tcp::{Job, Readiness, Staging};
use lnet_types::Time;

use crate::random::Random;
use crate::stacks::port::Handle;

/// The operations of a driver on a stack, independent of what is above the LND.
pub(crate) trait Drive {
    /// Accepts the readiness of a slot of the LND.
    fn ready(&mut self, slot: usize, readiness: Readiness, now: Time);
    /// Returns true if RDMA devices have news.
    fn has_rdma_news(&self) -> bool {
        false
    }
    /// Takes the news of RDMA devices.
    fn rdma_ready(&mut self, _now: Time) {}
    /// Runs everything that is due.
    fn tick(&mut self, now: Time);
    /// Carries out one turn of outputs; returns true if outputs remain.
    fn decide(&mut self, now: Time) -> bool;
    /// Returns the next job: bytes to be moved.
    fn next_job(&mut self, now: Time) -> Option<Job<Handle>>;
    /// Reports a job whose bytes were moved.
    fn finish(&mut self, job: Job<Handle>, staging: &mut Staging, now: Time);
    /// Returns true if bytes can be moved at once.
    fn has_work(&self) -> bool;
    /// Returns the time at which something is due.
    fn next_deadline(&self) -> Option<Time>;
}

/// A job that a thread has taken.
struct Held {
    job: Job<Handle>,
    staging: Staging,
    ran: bool,
    /// The thread does not continue before this time.
    until: Time,
}

/// The threads that drive a stack.
#[derive(Default)]
pub(crate) struct Driver {
    held: Vec<Held>,
    /// The last turn left outputs.
    more: bool,
}

/// The time at which the driver wants to continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Now,
    At(Time),
    Never,
}

/// The limit on the jobs in progress at the same time.
const THREADS: usize = 3;

/// A thread keeps a job during other events once in so many times: for some microseconds, or for as long as a
/// message needs through the network.
const KEEP_ONE_IN: u64 = 3;
const KEEP_NS: [u64; 3] = [5_000, 50_000, 1_000_000];

/// The limit on the readiness reports that are passed on in a row.
const NEWS_MAX: u64 = 8;

#[derive(Clone, Copy)]
enum Action {
    News,
    Rdma,
    Tick,
    Held,
    Take,
    Decide,
}

impl Driver {
    /// Does a few actions in random order.
    pub(crate) fn step(
        &mut self,
        stack: &mut impl Drive,
        news: &mut VecDeque<(usize, Readiness)>,
        now: Time,
        random: &mut Random,
    ) -> Next {
        for _ in 0..random.within(1, 8) {
            let possible = self.possible(stack, news, now);
            let Some(action) = random.of(&possible).copied() else {
                break;
            };
            self.act(action, stack, news, now, random);
        }
        if !self.possible(stack, news, now).is_empty() {
            return Next::Now;
        }
        let goes_on = self.held.iter().map(|held| held.until);
        let due = goes_on.chain(stack.next_deadline()).min();
        due.map_or(Next::Never, Next::At)
    }

    fn possible(
        &self,
        stack: &impl Drive,
        news: &VecDeque<(usize, Readiness)>,
        now: Time,
    ) -> Vec<Action> {
        let is_due = stack.next_deadline().is_some_and(|due| due <= now);
        let all = [
            (!news.is_empty(), Action::News),
            (stack.has_rdma_news(), Action::Rdma),
            (is_due, Action::Tick),
            (self.held.iter().any(|held| held.until <= now), Action::Held),
            (stack.has_work() && self.held.len() < THREADS, Action::Take),
            (self.more, Action::Decide),
        ];
        let possible = all.into_iter().filter(|(is_possible, _)| *is_possible);
        possible.map(|(_, action)| action).collect()
    }

    fn act(
        &mut self,
        action: Action,
        stack: &mut impl Drive,
        news: &mut VecDeque<(usize, Readiness)>,
        now: Time,
        random: &mut Random,
    ) {
        match action {
            Action::News => {
                let count = random.within(1, NEWS_MAX).min(news.len() as u64) as usize;
                for (slot, readiness) in news.drain(..count) {
                    stack.ready(slot, readiness, now);
                }
            }
            Action::Rdma => stack.rdma_ready(now),
            Action::Tick => stack.tick(now),
            Action::Held => self.go_on(stack, now, random),
            Action::Take => self.take(stack, now, random),
            Action::Decide => {}
        }
        self.more = stack.decide(now);
    }

    fn take(&mut self, stack: &mut impl Drive, now: Time, random: &mut Random) {
        let Some(job) = stack.next_job(now) else {
            return;
        };
        let mut held = Held {
            job,
            staging: Staging::default(),
            ran: false,
            until: pause(now, random),
        };
        if random.one_in(KEEP_ONE_IN) {
            self.held.push(held);
        } else {
            held.job.run(&mut held.staging);
            stack.finish(held.job, &mut held.staging, now);
        }
    }

    fn go_on(&mut self, stack: &mut impl Drive, now: Time, random: &mut Random) {
        let ready = self.held.iter().position(|held| held.until <= now);
        let Some(held) = ready.and_then(|index| self.held.get_mut(index)) else {
            return;
        };
        if !held.ran {
            held.job.run(&mut held.staging);
            held.ran = true;
            held.until = pause(now, random);
            return;
        }
        if let Some(index) = ready {
            let mut held = self.held.swap_remove(index);
            stack.finish(held.job, &mut held.staging, now);
        }
    }

    /// Returns true if no job is in progress and the last turn left nothing.
    pub(crate) fn is_idle(&self) -> bool {
        self.held.is_empty() && !self.more
    }

    /// Records that a call of a program left outputs.
    pub(crate) fn has_more(&mut self, more: bool) {
        self.more |= more;
    }
}

fn pause(now: Time, random: &mut Random) -> Time {
    let longest = random.of(&KEEP_NS).copied().unwrap_or(0);
    now + Duration::from_nanos(random.below(longest))
}
