//! Completion of the server's operations, and delivery of the results.

use crate::zbmi::Engine;
use crate::zbmi::io::{Answer, CallId, Completion, Direction, Output, PluginId};
use crate::zbmi::server::{Call, Ended, PostStage};
use crate::zbmi::time::Time;
use crate::zbmi::timers::Timer;

impl Engine {
    /// Completes an operation of the server. A command that waits for its success is answered "immediate". A
    /// failure is always collected by a test: in the answer to a post it would mean that the post itself was
    /// invalid.
    // [ZOID-34]
    pub(crate) fn complete_post(&mut self, now: Time, plugin: PluginId, result: Ended) {
        let held = self.end_hold(plugin);
        let Some(post) = self.posts.remove(&plugin) else {
            return;
        };
        self.kept_segments -= post.segments.len();
        let call = match post.stage {
            PostStage::Claimed { immediate, .. } => immediate,
            PostStage::Held { .. } | PostStage::Registered => held,
        };
        if let Some(client) = self.client_mut(post.peer) {
            client.unqueue_post(post.key, plugin);
        }
        match result {
            Ok(_) => self.counters.posts_completed += 1,
            Err(_) => self.counters.posts_failed += 1,
        }
        let to_end = match post.key.direction {
            Direction::ToClient => &mut self.counters.send_to_end,
            Direction::ToServer => &mut self.counters.receive_to_end,
        };
        to_end.add(now.since(post.posted));
        match (call, result) {
            (Some(call), Ok(len)) => {
                self.counters.posts_immediate += 1;
                return self.answer(call, Answer::Immediate(len));
            }
            (Some(call), Err(_)) => self.answer(call, Answer::Registered(plugin)),
            (None, _) => {}
        }
        self.report(
            Completion {
                bmi: post.bmi,
                plugin,
                result,
            },
            Place::Last,
        );
    }

    /// Gives a completion to the first sleeping TEST that asks for it; stores it if there is none.
    pub(crate) fn report(&mut self, completion: Completion, place: Place) {
        let Some(server) = &mut self.server else {
            return;
        };
        let sleeper = server.first_sleeper(
            |call| matches!(call, Call::Test { wanted, .. } if wanted.covers(completion.plugin)),
        );
        match (sleeper, place) {
            (Some(call), _) => self.answer_test(call, vec![completion], false),
            (None, Place::Last) => server.done.push_back(completion),
            (None, Place::First) => server.done.push_front(completion),
        }
    }

    /// Answers a TEST.
    pub(crate) fn answer_test(&mut self, call: CallId, completions: Vec<Completion>, woken: bool) {
        let unexpected_pending = self.inbox.any_ready();
        self.answer(
            call,
            Answer::Completions {
                completions,
                unexpected_pending,
                woken,
            },
        );
    }

    /// Answers a command of the server and removes it.
    pub(crate) fn answer(&mut self, call: CallId, answer: Answer) {
        let Some(server) = &mut self.server else {
            return;
        };
        let deadline = server.end_call(call).and_then(|ended| ended.deadline());
        let session = server.session;
        if let Some(deadline) = deadline {
            self.timers.clear(deadline, Timer::Call(call));
        }
        self.outputs.push_back(Output::Answer {
            session,
            call,
            answer,
        });
    }
}

/// The position of an uncollected completion among the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// First: it was handed out before, and the delivery failed.
    First,
    Last,
}
