//! Attaching and losing clients.

use crate::zbmi::Engine;
use crate::zbmi::client::Client;
use crate::zbmi::counters::Rejection;
use crate::zbmi::io::{Attach, Attached, Departure, Errno, Peer, Pid};
use crate::zbmi::time::Time;
use crate::zbmi::timers::Timer;

impl Engine {
    /// Attaches a client (HELLO). [`Errno::Busy`]: the table of clients is full; [`Errno::TryAgain`]:
    /// draining.
    pub fn client_attached(&mut self, now: Time, attach: Attach) -> Result<Attached, Errno> {
        if self.is_stopping() {
            self.counters.reject(Rejection::Draining);
            return Err(Errno::TryAgain);
        }
        if let Some(peer) = self.returning(&attach) {
            return Ok(self.welcome_back(now, peer));
        }
        // [FWD-12]
        if self.clients.len() >= self.config.limits.clients {
            self.counters.reject(Rejection::ClientLimit);
            return Err(Errno::Busy);
        }
        let peer = self.pids.take();
        self.clients
            .insert(peer.pid, Client::new(peer, attach.uuid, attach.job));
        self.counters.clients_attached += 1;
        let credits = self.first_credits(peer);
        Ok(Attached {
            peer,
            credits,
            reattached: false,
        })
    }

    /// Detaches a client (BYE, or its connection broke). Its requests are forgotten, its transfers stopped,
    /// and the server's operations for it fail, unless it may come back ([`crate::zbmi::Config::reattach`]). Its
    /// complete unexpected messages can still be fetched.
    pub fn client_lost(&mut self, now: Time, peer: Peer, how: Departure) {
        if self
            .client(peer)
            .is_none_or(|client| client.away_until.is_some())
        {
            return self.counters.reject(Rejection::UnknownPeer);
        }
        match how {
            Departure::Orderly => self.counters.clients_left += 1,
            Departure::Broken => self.counters.clients_lost += 1,
        }
        self.forget_work(now, peer);
        if how == Departure::Broken && !self.config.reattach.is_zero() {
            let until = now + self.config.reattach;
            if let Some(client) = self.client_mut(peer) {
                client.away_until = Some(until);
            }
            self.timers.set(until, Timer::Reattach(peer.pid));
        } else {
            self.remove_client(now, peer);
        }
        self.serve_memory(now);
    }

    /// Removes a client that did not come back in time.
    pub(crate) fn expire_reattach(&mut self, now: Time, pid: Pid) {
        let away = self
            .clients
            .get(&pid)
            .filter(|client| client.away_until.is_some());
        if let Some(peer) = away.map(|client| client.peer) {
            self.remove_client(now, peer);
        }
    }

    /// Returns the client that reattaches: the same process at the same daemon.
    // [DEATH-4]
    fn returning(&self, attach: &Attach) -> Option<Peer> {
        let previous = attach.previous?;
        if self.config.reattach.is_zero() || previous.epoch != self.config.epoch {
            return None;
        }
        let client = self.clients.get(&previous.pid)?;
        (client.uuid == attach.uuid).then_some(client.peer)
    }

    fn welcome_back(&mut self, now: Time, peer: Peer) -> Attached {
        if self
            .client(peer)
            .is_some_and(|client| client.away_until.is_none())
        {
            // The old connection is dead, but not yet detected as such.
            self.client_lost(now, peer, Departure::Broken);
        }
        let until = self
            .client_mut(peer)
            .and_then(|client| client.away_until.take());
        if let Some(until) = until {
            self.timers.clear(until, Timer::Reattach(peer.pid));
        }
        self.counters.clients_reattached += 1;
        let credits = self.first_credits(peer);
        Attached {
            peer,
            credits,
            reattached: true,
        }
    }

    /// Ends everything that needs the client's connection.
    // [DEATH-8]
    fn forget_work(&mut self, now: Time, peer: Peer) {
        let Some(client) = self.client(peer) else {
            return;
        };
        let requests: Vec<_> = client.requests.keys().copied().collect();
        for request in requests {
            self.take_waiting(peer, request);
        }
        // This includes running tests: the client no longer waits for their results.
        if let Some(client) = self.client_mut(peer) {
            client.requests.clear();
        }
        self.fail_transfers(now, |running| running.peer == peer);
        // Last: a message dropped after it would be owed as a credit.
        self.withdraw_credits(peer);
    }

    // [DEATH-1]
    fn remove_client(&mut self, now: Time, peer: Peer) {
        let Some(client) = self.clients.get(&peer.pid) else {
            return;
        };
        let mut posts: Vec<_> = client
            .keys
            .values()
            .flat_map(|queue| queue.posts.iter().copied())
            .collect();
        // In the order in which they were posted, regardless of their keys.
        posts.sort_unstable();
        for plugin in posts {
            self.complete_post(now, plugin, Err(Errno::ConnectionReset));
        }
        self.clients.remove(&peer.pid);
        self.pids.free(peer.pid);
    }
}
