//! Drives a machine's stack step by step, as threads would: jobs of several are under way at the same time, and
//! anything may happen between the taking, the running and the finishing of one.

use std::collections::VecDeque;
use std::time::Duration;

use lnet_sim::Random;
use lnet_tcp::{Job, Readiness, Staging};
use lnet_types::Time;

use crate::port::Handle;

/// What a driver does with a stack, whatever stands above the LND.
pub(crate) trait Drive {
    /// Takes the news that something may be done in a slot of the LND.
    fn ready(&mut self, slot: usize, readiness: Readiness, now: Time);
    /// Runs what is due.
    fn tick(&mut self, now: Time);
    /// One turn of carrying out what is wanted; true when something is left.
    fn decide(&mut self, now: Time) -> bool;
    /// The next bytes to be moved.
    fn next_job(&mut self, now: Time) -> Option<Job<Handle>>;
    /// Takes note of the bytes that were moved.
    fn finish(&mut self, job: Job<Handle>, staging: &mut Staging, now: Time);
    /// Bytes can be moved at once.
    fn has_work(&self) -> bool;
    /// When something is due.
    fn next_deadline(&self) -> Option<Time>;
}

/// A job that a thread has.
struct Held {
    job: Job<Handle>,
    staging: Staging,
    ran: bool,
    /// The thread does not go on before this.
    until: Time,
}

/// The threads that drive a stack.
#[derive(Default)]
pub(crate) struct Driver {
    held: Vec<Held>,
    /// The last turn left something to do.
    more: bool,
}

/// When the driver wants to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Now,
    At(Time),
    Never,
}

/// Jobs under way at the same time.
const THREADS: usize = 3;

/// A thread keeps a job over other events once in so many times: for some microseconds, or as long as a message
/// takes through the network.
const KEEP_ONE_IN: u64 = 3;
const KEEP_NS: [u64; 3] = [5_000, 50_000, 1_000_000];

/// News handed over in a row.
const NEWS_MAX: u64 = 8;

#[derive(Clone, Copy)]
enum Action {
    News,
    Tick,
    Held,
    Take,
    Decide,
}

impl Driver {
    /// Does a few things in an order that is drawn.
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

    /// No job is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.held.is_empty() && !self.more
    }

    /// A call of a program left something to do.
    pub(crate) fn has_more(&mut self, more: bool) {
        self.more |= more;
    }
}

fn pause(now: Time, random: &mut Random) -> Time {
    let longest = random.of(&KEEP_NS).copied().unwrap_or(0);
    now + Duration::from_nanos(random.below(longest))
}
