//! Invariants between any two calls: for tests, for fuzzing, and for a daemon in doubt.

use std::collections::BTreeSet;

use crate::zbmi::Engine;
use crate::zbmi::client::{Client, Key, KeyQueue, Request};
use crate::zbmi::inbox::Stage;
use crate::zbmi::io::{GrantId, PluginId};
use crate::zbmi::pool::Slot;
use crate::zbmi::server::{Call, PostStage};
use crate::zbmi::transfer::{Running, Target};

/// A violated invariant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the engine's state is inconsistent: {0}")]
pub struct Inconsistency(pub &'static str);

/// An invariant, and whether it holds.
type Rule = (bool, &'static str);

impl Engine {
    /// Checks the tables against each other. Takes time in proportion to their size.
    pub fn audit(&self) -> Result<(), Inconsistency> {
        self.clients
            .values()
            .try_for_each(|client| self.audit_client(client))?;
        for (&plugin, post) in &self.posts {
            check(&[(
                self.post_has_its_place(plugin, post.stage),
                "a post is not in the table of its stage",
            )])?;
        }
        self.audit_transfers()?;
        self.audit_memory()?;
        self.audit_bounds()
    }

    fn audit_client(&self, client: &Client) -> Result<(), Inconsistency> {
        for (&key, queue) in &client.keys {
            self.audit_queue(client, key, queue)?;
        }
        for (request, state) in &client.requests {
            let sleeping = client.sleeping.contains(request);
            let placed = match state {
                Request::Test { .. } => sleeping,
                Request::Moving(grant) => self.transfers.contains_key(grant) && !sleeping,
                Request::Send {
                    memory_ticket: Some(ticket),
                    ..
                } => self.memory.waiters.get(ticket) == Some(&(client.peer, *request)),
                Request::Send { .. } | Request::Recv { .. } => client
                    .keys
                    .values()
                    .any(|queue| queue.waiters.contains(request)),
            };
            check(&[(placed, "a request is not in the table of its state")])?;
        }
        let held = client.credits.iter().map(|slot| slot.len).sum::<u64>();
        let bytes = held + self.inbox.bytes_of(client.peer);
        let owed = self
            .memory
            .owed
            .iter()
            .filter(|&&peer| peer == client.peer)
            .count();
        let credits = client.credits.len() + owed + self.inbox.credited(client.peer);
        let away = client.away_until.is_some();
        let due = if away {
            0
        } else {
            self.config.credits as usize
        };
        check(&[
            (
                bytes == client.pool_bytes,
                "a client's count of memory is wrong",
            ),
            (credits == due, "credits are lost or duplicated"),
            (
                !away || client.requests.is_empty(),
                "a detached client has requests",
            ),
        ])
    }

    fn audit_queue(
        &self,
        client: &Client,
        key: Key,
        queue: &KeyQueue,
    ) -> Result<(), Inconsistency> {
        let posts_fit = queue.posts.iter().all(|plugin| {
            self.posts.get(plugin).is_some_and(|post| {
                let waits = !matches!(post.stage, PostStage::Claimed { .. });
                post.peer == client.peer && post.key == key && waits
            })
        });
        check(&[
            (posts_fit, "a queue names a post that does not wait in it"),
            (
                queue.posts.is_empty() != queue.waiters.is_empty(),
                "both sides of a key wait, or neither",
            ),
            (
                queue
                    .waiters
                    .iter()
                    .all(|request| client.requests.contains_key(request)),
                "a waiter without a request",
            ),
        ])
    }

    fn post_has_its_place(&self, plugin: PluginId, stage: PostStage) -> bool {
        let Some(post) = self.posts.get(&plugin) else {
            return false;
        };
        let call_waits = |call| {
            let calls = self.server.as_ref().map(|server| &server.calls);
            calls.is_some_and(|calls| matches!(calls.get(&call), Some(Call::Post)))
        };
        let queued = self.client(post.peer).is_some_and(|client| {
            client
                .keys
                .get(&post.key)
                .is_some_and(|queue| queue.posts.contains(&plugin))
        });
        match stage {
            PostStage::Registered => queued,
            PostStage::Held { call, .. } => queued && call_waits(call),
            PostStage::Claimed { grant, immediate } => {
                let target = self.transfers.get(&grant).map(|running| running.target);
                let fits = target == Some(Target::Post(plugin));
                fits && !queued && immediate.is_none_or(call_waits)
            }
        }
    }

    fn audit_transfers(&self) -> Result<(), Inconsistency> {
        let mut targets = BTreeSet::new();
        for (&grant, running) in &self.transfers {
            let (name, arriving) = match running.target {
                Target::Post(PluginId(plugin)) => ((0, plugin), true),
                Target::Message(offset) => (
                    (1, offset),
                    self.inbox.stage(offset) == Some(Stage::Arriving),
                ),
            };
            let pieces: u64 = running.segments.iter().map(|piece| piece.len).sum();
            check(&[
                (targets.insert(name), "two claims of one buffer"),
                (arriving, "a transfer into a message that does not arrive"),
                (
                    pieces == running.total,
                    "a transfer's segments have another total",
                ),
                (
                    self.client_knows(running, grant),
                    "a transfer that its client does not know",
                ),
            ])?;
        }
        Ok(())
    }

    fn client_knows(&self, running: &Running, grant: GrantId) -> bool {
        let client = self.client(running.peer);
        let request = client.and_then(|client| client.requests.get(&running.request));
        matches!(request, Some(Request::Moving(moving)) if *moving == grant)
    }

    fn audit_memory(&self) -> Result<(), Inconsistency> {
        let messages = self.inbox.entries().map(|entry| entry.slot);
        let credits = self
            .clients
            .values()
            .flat_map(|client| client.credits.iter().copied());
        let mut slots: Vec<Slot> = messages.chain(credits).collect();
        let used: u64 = slots.iter().map(|slot| slot.len).sum();
        slots.extend(self.pool.gaps());
        slots.sort_by_key(|slot| slot.offset);
        let disjoint = slots
            .windows(2)
            .all(|two| two[0].offset + two[0].len == two[1].offset);
        check(&[
            (used == self.pool.used(), "memory is lost or held twice"),
            (
                disjoint,
                "slots overlap, or memory is neither used nor free",
            ),
        ])
    }

    fn audit_bounds(&self) -> Result<(), Inconsistency> {
        let limits = &self.config.limits;
        let gauges = self.gauges();
        // One timer per request, call, post and transfer, one per client, and one for the drain.
        let timers = gauges.requests
            + gauges.calls
            + gauges.posts
            + gauges.transfers
            + self.clients.len()
            + 1;
        check(&[
            (self.clients.len() <= limits.clients, "too many clients"),
            // Completions of rejected posts without an answer count separately.
            (gauges.posts <= 3 * limits.posts, "too many posts"),
            (gauges.calls <= limits.server_calls, "too many calls"),
            (
                self.admission.running() <= self.config.bulk_slots,
                "too many bulk transfers",
            ),
            (self.timers.len() <= timers, "timers without an owner"),
        ])
    }
}

fn check(rules: &[Rule]) -> Result<(), Inconsistency> {
    match rules.iter().find(|(holds, _)| !holds) {
        Some(&(_, what)) => Err(Inconsistency(what)),
        None => Ok(()),
    }
}
