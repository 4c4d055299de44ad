//! Matching of the server's operations with the calls of clients.
//!
//! ```text
//!        POST ─┬─ a call waits ────────────────────────────▶ CLAIMED(immediate)
//!              ├─ a test sleeps ─▶ HELD ─┬─ follow-up ──────▶ CLAIMED(immediate)
//!              │                         └─ deadline ─┐
//!              └─ neither, or not immediate ──────────┴─▶ REGISTERED ─ call ─▶ CLAIMED ─▶ end
//! ```
//!
//! Per client, direction and tag both sides are served in the order of arrival. Held and registered posts are
//! in one queue. A key never has posts and waiting calls at the same time, because the second to arrive
//! claims the first.

use std::sync::Arc;

use crate::zbmi::Engine;
use crate::zbmi::client::{Key, Request};
use crate::zbmi::io::{
    Answer, CallId, Direction, Errno, GrantId, Peer, PluginId, Reply, RequestId, Segment,
};
use crate::zbmi::server::PostStage;
use crate::zbmi::time::Time;
use crate::zbmi::timers::Timer;
use crate::zbmi::transfer::{Running, Target};

/// A client's call, as seen by matching.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub(crate) peer: Peer,
    pub(crate) request: RequestId,
    pub(crate) key: Key,
    /// The length of the message, or of the buffer for it, in bytes.
    pub(crate) size: u64,
    pub(crate) order: u64,
}

impl Engine {
    /// Matches a client's call with the oldest post of its key. Returns false if there is none.
    // [BMI-10]
    pub(crate) fn claim_post(&mut self, now: Time, offer: Offer) -> bool {
        let oldest = self
            .client(offer.peer)
            .and_then(|client| client.oldest_post(offer.key));
        let Some(plugin) = oldest else {
            return false;
        };
        let immediate = self.end_hold(plugin);
        self.counters.holds_used += u64::from(immediate.is_some());
        self.claim(now, offer, plugin, immediate);
        true
    }

    /// Matches a post with the call that has waited longest for its key. Returns false if there is none.
    pub(crate) fn claim_waiter(
        &mut self,
        now: Time,
        plugin: PluginId,
        immediate: Option<CallId>,
    ) -> bool {
        let Some((peer, key)) = self.posts.get(&plugin).map(|post| (post.peer, post.key)) else {
            return false;
        };
        let waiter = self
            .client(peer)
            .and_then(|client| client.oldest_waiter(key));
        let Some(request) = waiter else {
            return false;
        };
        let Some(taken) = self.take_waiting(peer, request) else {
            return false;
        };
        let (size, order) = match taken {
            Request::Send { send, .. } => (send.total, send.order),
            Request::Recv { recv, .. } => (recv.capacity, 0),
            Request::Test { .. } | Request::Moving(_) => return false,
        };
        self.counters.waits_satisfied += 1;
        self.claim(
            now,
            Offer {
                peer,
                request,
                key,
                size,
                order,
            },
            plugin,
            immediate,
        );
        true
    }

    /// Claims a post for a call. If the message does not fit, both sides fail and both are consumed, so that
    /// later pairs match in step.
    // [ZOID-15]
    fn claim(&mut self, now: Time, offer: Offer, plugin: PluginId, immediate: Option<CallId>) {
        let Some(post) = self.posts.get_mut(&plugin) else {
            return;
        };
        // The id of the transfer is not known yet. If there is no transfer, none is needed.
        post.stage = PostStage::Claimed {
            grant: GrantId(0),
            immediate,
        };
        let (total, room) = match offer.key.direction {
            Direction::ToServer => (offer.size, post.total),
            Direction::ToClient => (post.total, offer.size),
        };
        let segments = first_bytes(&post.segments, total);
        if let Some(client) = self.client_mut(offer.peer) {
            client.unqueue_post(offer.key, plugin);
        }
        // [ZOID-50]
        if total > room {
            return self.mismatch(now, offer, plugin);
        }
        let grant = self.start(
            now,
            Running {
                peer: offer.peer,
                request: offer.request,
                direction: offer.key.direction,
                target: Target::Post(plugin),
                segments,
                total,
                inline: false,
                order: offer.order,
                begun: None,
            },
        );
        if let Some(post) = self.posts.get_mut(&plugin) {
            post.stage = PostStage::Claimed { grant, immediate };
        }
    }

    // [BMI-12]
    fn mismatch(&mut self, now: Time, offer: Offer, plugin: PluginId) {
        self.counters.size_mismatches += 1;
        let error = Errno::MessageSize;
        if let Some(client) = self.client_mut(offer.peer) {
            client.remember(offer.order, Err(error));
        }
        self.reply(offer.peer, offer.request, Reply::Failed(error));
        self.complete_post(now, plugin, Err(error));
    }

    /// Releases a claim that moved no message: the post waits again in its old place, and its command is
    /// answered.
    // [ZOID-52]
    pub(crate) fn release_claim(&mut self, now: Time, plugin: PluginId) {
        let Some(post) = self.posts.get_mut(&plugin) else {
            return;
        };
        let immediate = match post.stage {
            PostStage::Claimed { immediate, .. } => immediate,
            PostStage::Held { .. } | PostStage::Registered => return,
        };
        if post.cancel_wanted {
            self.counters.cancels_honoured += 1;
            return self.complete_post(now, plugin, Err(Errno::Canceled));
        }
        self.register(plugin, immediate);
        if !self.claim_waiter(now, plugin, None) {
            self.flag_tests_of(plugin);
        }
    }

    /// Makes the post wait for a counterpart. Answers its command, if that is unanswered.
    // [ZOID-30]
    pub(crate) fn register(&mut self, plugin: PluginId, call: Option<CallId>) {
        let Some(post) = self.posts.get_mut(&plugin) else {
            return;
        };
        post.stage = PostStage::Registered;
        let (peer, key) = (post.peer, post.key);
        if let Some(client) = self.client_mut(peer) {
            client.keys.entry(key).or_default().posts.insert(plugin);
        }
        if let Some(call) = call {
            self.answer(call, Answer::Registered(plugin));
        }
    }

    /// Holds the post: it keeps its place, and its command stays unanswered meanwhile (R57).
    // [ZOID-32]
    pub(crate) fn hold(&mut self, now: Time, plugin: PluginId, call: CallId) {
        let until = now + self.config.hold;
        if let Some(post) = self.posts.get_mut(&plugin) {
            post.stage = PostStage::Held { call, until };
            self.timers.set(until, Timer::Hold(plugin));
            self.counters.holds += 1;
        }
    }

    /// Ends a hold whose call did not come in time.
    pub(crate) fn expire_hold(&mut self, plugin: PluginId) {
        if let Some(call) = self.end_hold(plugin) {
            self.counters.holds_expired += 1;
            self.register(plugin, Some(call));
        }
    }

    /// Ends the hold of a post. Returns the unanswered command.
    pub(crate) fn end_hold(&mut self, plugin: PluginId) -> Option<CallId> {
        let post = self.posts.get_mut(&plugin)?;
        let PostStage::Held { call, until } = post.stage else {
            return None;
        };
        post.stage = PostStage::Registered;
        self.timers.clear(until, Timer::Hold(plugin));
        Some(call)
    }
}

/// Returns the segments of the first `total` bytes of a buffer; all segments if it is shorter.
// [BMI-11]
fn first_bytes(segments: &Arc<[Segment]>, total: u64) -> Arc<[Segment]> {
    let mut left = total;
    let mut pieces = Vec::new();
    for segment in segments.iter() {
        if left == 0 {
            break;
        }
        let len = segment.len.min(left);
        left -= len;
        pieces.push(Segment { len, ..*segment });
    }
    if pieces.as_slice() == &segments[..] {
        Arc::clone(segments)
    } else {
        pieces.into()
    }
}
