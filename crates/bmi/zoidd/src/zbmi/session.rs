//! The server's session and its commands, except the posts.

use crate::zbmi::Engine;
use crate::zbmi::complete::Place;
use crate::zbmi::counters::Rejection;
use crate::zbmi::io::{
    Answer, BmiId, CallId, Departure, Errno, Output, Pid, PluginId, Selection, ServerTest, Session,
};
use crate::zbmi::server::{Call, PostStage, Server, Wanted};
use crate::zbmi::time::Time;
use crate::zbmi::timers::Timer;
use crate::zbmi::transfer::Target;

impl Engine {
    /// Attaches a server (INIT). [`Errno::Busy`]: one is attached; [`Errno::TryAgain`]: draining.
    // [CTL-12]
    pub fn server_attached(&mut self) -> Result<Session, Errno> {
        if self.is_stopping() {
            self.counters.reject(Rejection::Draining);
            return Err(Errno::TryAgain);
        }
        if self.server.is_some() {
            self.counters.reject(Rejection::SecondServer);
            return Err(Errno::Busy);
        }
        let session = self.next_session;
        self.next_session = Session(session.0.checked_add(1).unwrap_or(1));
        self.server = Some(Server::new(session));
        self.counters.servers_attached += 1;
        Ok(session)
    }

    /// Detaches the server (FINI, or its process died). Its operations are dropped, their transfers stopped,
    /// and the messages that it held freed. After FINI its unanswered commands are answered with
    /// [`Errno::NetDown`]; otherwise they are forgotten. Waiting clients continue to wait.
    // [DEATH-10]
    pub fn server_lost(&mut self, now: Time, session: Session, how: Departure) {
        if !self.is_session(session) {
            return self.counters.reject(Rejection::UnknownSession);
        }
        self.counters.servers_lost += 1;
        self.end_calls(how);
        self.server = None;
        self.fail_transfers(now, |running| matches!(running.target, Target::Post(_)));
        let posts: Vec<_> = self.posts.keys().copied().collect();
        for plugin in posts {
            self.complete_post(now, plugin, Err(Errno::NetDown));
        }
        for offset in self.inbox.delivered() {
            self.free_message(offset);
        }
        self.serve_memory(now);
    }

    /// Ends every unanswered command.
    pub(crate) fn end_calls(&mut self, how: Departure) {
        let Some(server) = &self.server else {
            return;
        };
        let calls: Vec<CallId> = server.calls.keys().copied().collect();
        for call in calls {
            match how {
                Departure::Orderly => self.answer(call, Answer::Failed(Errno::NetDown)),
                Departure::Broken => self.forget_call(call),
            }
        }
    }

    /// TEST. Answered with [`Answer::Completions`] or [`Answer::Failed`].
    pub fn server_test(&mut self, now: Time, session: Session, call: CallId, test: ServerTest) {
        if !self.accepts_call(session, call) {
            return;
        }
        self.counters.server_tests += 1;
        let Some(wanted) = self.wanted(test.selection) else {
            self.counters.reject(Rejection::BadTest);
            return self.answer(call, Answer::Failed(Errno::Invalid));
        };
        let Some(server) = &mut self.server else {
            return;
        };
        let completions = server.done.take(&wanted);
        let wake_on_unexpected = test.wake_on_unexpected;
        let message_waits = wake_on_unexpected && self.inbox.any_ready();
        if !completions.is_empty() || message_waits || test.timeout.is_zero() {
            return self.answer_test(call, completions, false);
        }
        let deadline = now + test.timeout;
        self.sleep(
            call,
            Call::Test {
                wanted,
                wake_on_unexpected,
                deadline,
            },
            deadline,
        );
    }

    /// CANCEL. Cancels the operation unless it is claimed or complete (R61). In both cases the operation
    /// completes exactly once, and a test reports the result.
    // [ZOID-35]
    pub fn cancel(&mut self, now: Time, session: Session, plugin: PluginId) {
        let Some(server) = self
            .server
            .as_ref()
            .filter(|server| server.session == session)
        else {
            return self.counters.reject(Rejection::UnknownSession);
        };
        let is_done = server.done.contains(plugin);
        let Some(post) = self.posts.get_mut(&plugin) else {
            let counters = &mut self.counters;
            let count = if is_done {
                &mut counters.cancels_ignored
            } else {
                &mut counters.cancels_unknown
            };
            *count += 1;
            return;
        };
        if let PostStage::Claimed { .. } = post.stage {
            post.cancel_wanted = true;
            self.counters.cancels_ignored += 1;
            return;
        }
        self.counters.cancels_honoured += 1;
        self.complete_post(now, plugin, Err(Errno::Canceled));
    }

    /// RECALL: cancels an operation that was posted without an answer, by the server's id.
    // [CTL-21]
    pub fn recall(&mut self, now: Time, session: Session, bmi: BmiId) {
        let named = self.posts.iter().find(|(_, post)| post.bmi == bmi);
        match named.map(|(&plugin, _)| plugin) {
            Some(plugin) => self.cancel(now, session, plugin),
            None if self.is_session(session) => self.counters.cancels_unknown += 1,
            None => self.counters.reject(Rejection::UnknownSession),
        }
    }

    /// DROP_PEER: the server has forgotten this client's address, so the pid of a client that is gone may be
    /// reused, unless one of its messages is still to be fetched. Has no effect on an attached client.
    /// [`Errno::NetReset`]: not the server's session.
    pub fn drop_peer(&mut self, session: Session, pid: Pid) -> Result<(), Errno> {
        if !self.is_session(session) {
            self.counters.reject(Rejection::UnknownSession);
            return Err(Errno::NetReset);
        }
        if !self.inbox.holds_unfetched(pid) {
            self.pids.drop_address(pid);
        }
        Ok(())
    }

    /// WAKE: every sleeping TEST and UNEXP_TEST returns now.
    // [CTL-23]
    pub fn server_wake(&mut self, session: Session) {
        let Some(server) = self
            .server
            .as_ref()
            .filter(|server| server.session == session)
        else {
            return self.counters.reject(Rejection::UnknownSession);
        };
        let sleepers: Vec<CallId> = server.sleepers.iter().copied().collect();
        for call in sleepers {
            self.end_sleep(call, true);
        }
    }

    /// Cancels the wait for an answer: a sleeping TEST or UNEXP_TEST is removed without an answer. A post is
    /// still answered.
    pub fn cancel_call(&mut self, session: Session, call: CallId) {
        let server = self
            .server
            .as_ref()
            .filter(|server| server.session == session);
        match server.and_then(|server| server.calls.get(&call)) {
            Some(Call::Test { .. } | Call::Unexpected { .. }) => self.forget_call(call),
            Some(Call::Post) | None => self.counters.reject(Rejection::StaleWake),
        }
    }

    /// Takes back an answer that could not be delivered because its reply slot vanished. Its contents are
    /// reported again, before everything else.
    // [CTL-22]
    pub fn undelivered(&mut self, session: Session, answer: Answer) {
        if !self.is_session(session) {
            return self.counters.reject(Rejection::UnknownSession);
        }
        self.counters.answers_returned += 1;
        match answer {
            Answer::Completions { completions, .. } => {
                for completion in completions.into_iter().rev() {
                    if !self.is_uncollected(completion.plugin) {
                        self.report(completion, Place::First);
                    }
                }
            }
            Answer::Messages { messages, .. } => {
                for class in self.inbox.take_back(&messages) {
                    self.announce_message(class);
                }
            }
            Answer::Registered(_) | Answer::Immediate(_) | Answer::NoMemory | Answer::Failed(_) => {
            }
        }
    }

    /// Ends the sleep of a command whose timeout has expired.
    pub(crate) fn expire_call(&mut self, call: CallId) {
        let found = self
            .server
            .as_ref()
            .and_then(|server| server.calls.get(&call));
        if matches!(found, Some(Call::Test { .. })) {
            self.counters.server_tests_timed_out += 1;
        }
        self.end_sleep(call, false);
    }

    fn end_sleep(&mut self, call: CallId, woken: bool) {
        let found = self
            .server
            .as_ref()
            .and_then(|server| server.calls.get(&call));
        match found {
            Some(Call::Test { .. }) => self.answer_test(call, Vec::new(), woken),
            Some(Call::Unexpected { .. }) => {
                self.answer(
                    call,
                    Answer::Messages {
                        messages: Vec::new(),
                        woken,
                    },
                );
            }
            Some(Call::Post) | None => {}
        }
    }

    /// Returns the operations that a TEST asks for; `None` if there are none.
    // [CTL-19]
    fn wanted(&self, selection: Selection) -> Option<Wanted> {
        match selection {
            Selection::Any(capacity) => (capacity > 0).then_some(Wanted::Any(capacity)),
            Selection::Ids(mut ids) => {
                if ids.len() > self.config.limits.test_ids {
                    return None;
                }
                ids.retain(|&id| self.is_uncollected(id));
                ids.sort_unstable();
                ids.dedup();
                (!ids.is_empty()).then_some(Wanted::Ids(ids))
            }
        }
    }

    fn is_uncollected(&self, plugin: PluginId) -> bool {
        let done = self
            .server
            .as_ref()
            .is_some_and(|server| server.done.contains(plugin));
        done || self.posts.contains_key(&plugin)
    }

    // [ZOID-39]
    pub(crate) fn sleep(&mut self, call: CallId, sleeping: Call, deadline: Time) {
        if let Some(server) = &mut self.server {
            server.calls.insert(call, sleeping);
            server.sleepers.push_back(call);
            self.timers.set(deadline, Timer::Call(call));
        }
    }

    fn forget_call(&mut self, call: CallId) {
        let ended = self
            .server
            .as_mut()
            .and_then(|server| server.end_call(call));
        if let Some(deadline) = ended.and_then(|ended| ended.deadline()) {
            self.timers.clear(deadline, Timer::Call(call));
        }
    }

    pub(crate) fn is_session(&self, session: Session) -> bool {
        self.server
            .as_ref()
            .is_some_and(|server| server.session == session)
    }

    /// Returns whether this command is accepted; otherwise it has been answered.
    pub(crate) fn accepts_call(&mut self, session: Session, call: CallId) -> bool {
        let (reason, error) = match &self.server {
            Some(server) if server.session == session => {
                let calls = &server.calls;
                if self.is_drained() {
                    (Rejection::Draining, Errno::NetDown)
                } else if calls.contains_key(&call)
                    || calls.len() >= self.config.limits.server_calls
                {
                    (Rejection::CallLimit, Errno::Invalid)
                } else {
                    return true;
                }
            }
            _ => (Rejection::UnknownSession, Errno::NetReset),
        };
        self.counters.reject(reason);
        let answer = Answer::Failed(error);
        self.outputs.push_back(Output::Answer {
            session,
            call,
            answer,
        });
        false
    }
}
