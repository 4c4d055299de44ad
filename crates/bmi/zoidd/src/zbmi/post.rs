//! The server's POST_SEND and POST_RECV: checks and outcomes.

use std::sync::Arc;

use crate::zbmi::Engine;
use crate::zbmi::client::Key;
use crate::zbmi::complete::Place;
use crate::zbmi::counters::Rejection;
use crate::zbmi::io::{Answer, BmiId, CallId, Completion, Errno, PluginId, Post, Segment, Session};
use crate::zbmi::server::{Call, PostStage, ServerPost};
use crate::zbmi::time::Time;

impl Engine {
    /// POST_SEND, POST_RECV. Answered with [`Answer::Registered`], [`Answer::Immediate`],
    /// [`Answer::NoMemory`] or [`Answer::Failed`]: [`Errno::Invalid`] for an invalid buffer,
    /// [`Errno::ConnectionReset`] if there is no such client, [`Errno::NetDown`] while draining.
    pub fn post(&mut self, now: Time, session: Session, call: CallId, post: Post) {
        if !self.accepts_call(session, call) {
            return;
        }
        let plugin = match self.admit_post(now, &post) {
            Ok(plugin) => plugin,
            Err(answer) => return self.answer(call, answer),
        };
        // [ZOID-33]
        if post.not_immediate {
            self.register(plugin, Some(call));
            if !self.claim_waiter(now, plugin, None) {
                self.flag_tests_of(plugin);
            }
        } else {
            self.try_immediate(now, plugin, call);
        }
    }

    /// A post without an answer: the operation is registered under the server's id, and an error becomes its
    /// completion.
    // [CTL-21]
    pub fn announce(&mut self, now: Time, session: Session, post: Post) {
        if !self.is_session(session) {
            return self.counters.reject(Rejection::UnknownSession);
        }
        match self.admit_post(now, &post) {
            Ok(plugin) => {
                self.register(plugin, None);
                if !self.claim_waiter(now, plugin, None) {
                    self.flag_tests_of(plugin);
                }
            }
            Err(Answer::Failed(errno)) => self.reject_announced(session, post.bmi, errno),
            Err(_) => self.reject_announced(session, post.bmi, Errno::NoMemory),
        }
    }

    /// Completes a post without an answer that could not be registered. If the server lets twice as many such
    /// completions pile up as it may have posts, further ones are dropped.
    pub fn reject_announced(&mut self, session: Session, bmi: BmiId, errno: Errno) {
        let piled_up = self.server.as_ref().map_or(0, |server| server.done.len());
        if !self.is_session(session) || piled_up >= 2 * self.config.limits.posts {
            return self.counters.reject(Rejection::PostLimit);
        }
        let plugin = self.next_plugin;
        self.next_plugin = PluginId(plugin.0 + 1);
        let completion = Completion {
            bmi,
            plugin,
            result: Err(errno),
        };
        self.report(completion, Place::Last);
    }

    /// Checks a post and stores it.
    fn admit_post(&mut self, now: Time, post: &Post) -> Result<PluginId, Answer> {
        let segments = self.check_post(post).map_err(|(reason, answer)| {
            self.counters.reject(reason);
            answer
        })?;
        self.counters.posts += 1;
        let plugin = self.next_plugin;
        self.next_plugin = PluginId(plugin.0 + 1);
        self.kept_segments += segments.len();
        let taken_in = ServerPost {
            bmi: post.bmi,
            peer: post.peer,
            key: Key {
                direction: post.direction,
                tag: post.tag,
            },
            segments,
            total: post.total,
            stage: PostStage::Registered,
            posted: now,
            cancel_wanted: false,
        };
        self.posts.insert(plugin, taken_in);
        Ok(plugin)
    }

    /// Completes a post at once if a client waits for it (R57).
    // [ZOID-31]
    fn try_immediate(&mut self, now: Time, plugin: PluginId, call: CallId) {
        if let Some(server) = &mut self.server {
            server.calls.insert(call, Call::Post);
        }
        if self.claim_waiter(now, plugin, Some(call)) {
            return;
        }
        // Registered first, because the tests count the queue.
        self.register(plugin, None);
        if self.flag_tests_of(plugin) && !self.config.hold.is_zero() {
            self.hold(now, plugin, call);
        } else {
            self.answer(call, Answer::Registered(plugin));
        }
    }

    /// Returns the post's segments without empty ones, or why the post is rejected.
    // [BMI-13]
    fn check_post(&self, post: &Post) -> Result<Arc<[Segment]>, (Rejection, Answer)> {
        let failed = |reason, error| Err((reason, Answer::Failed(error)));
        if self.is_stopping() {
            return failed(Rejection::Draining, Errno::NetDown);
        }
        // [ZOID-2]
        if self.client(post.peer).is_none() {
            return failed(Rejection::PeerGone, Errno::ConnectionReset);
        }
        let limits = &self.config.limits;
        let (expected, end) = (self.config.unexpected_size, self.config.total_size);
        let inside = |piece: &&Segment| {
            let last = piece.offset.checked_add(piece.len);
            piece.offset >= expected && last.is_some_and(|last| last <= end)
        };
        let pieces: Vec<Segment> = post
            .segments
            .iter()
            .filter(|piece| piece.len > 0)
            .copied()
            .collect();
        let sum = pieces
            .iter()
            .try_fold(0_u64, |sum, piece| sum.checked_add(piece.len));
        // [CTL-15]
        let fine = pieces.iter().filter(inside).count() == pieces.len()
            && sum == Some(post.total)
            && post.total <= self.config.max_expected;
        if !fine {
            return failed(Rejection::BadPost, Errno::Invalid);
        }
        let uncollected = self.server.as_ref().map_or(0, |server| server.done.len());
        let kept = self.kept_segments + pieces.len();
        if self.posts.len() + uncollected >= limits.posts || kept > limits.segments {
            return Err((Rejection::PostLimit, Answer::NoMemory));
        }
        Ok(pieces.into())
    }
}
