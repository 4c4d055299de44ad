//! Read access to the engine's state.

use crate::zbmi::Engine;
use crate::zbmi::client::Request;
use crate::zbmi::config::Config;
use crate::zbmi::counters::{ClientTraffic, Counters, Gauges};
use crate::zbmi::io::{Peer, Pid, Session};

impl Engine {
    /// Returns the client that has this pid, or may come back to it.
    #[must_use]
    pub fn peer(&self, pid: Pid) -> Option<Peer> {
        self.clients.get(&pid).map(|client| client.peer)
    }

    /// Returns the attached server's session.
    #[must_use]
    pub fn session(&self) -> Option<Session> {
        self.server.as_ref().map(|server| server.session)
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the counters.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns messages and bytes of one client that is attached or may come back.
    #[must_use]
    pub fn client_traffic(&self, peer: Peer) -> Option<ClientTraffic> {
        self.client(peer).map(|client| client.traffic)
    }

    /// Returns the current state. Visits all clients.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        let away = self
            .clients
            .values()
            .filter(|client| client.away_until.is_some())
            .count();
        let requests = || {
            self.clients
                .values()
                .flat_map(|client| client.requests.values())
        };
        let waits =
            |request: &&Request| matches!(request, Request::Send { .. } | Request::Recv { .. });
        let done = self.server.as_ref().map_or(0, |server| server.done.len());
        Gauges {
            clients: self.clients.len() - away,
            clients_away: away,
            requests: requests().count(),
            waiting: requests().filter(waits).count(),
            client_tests: self
                .clients
                .values()
                .map(|client| client.sleeping.len())
                .sum(),
            posts: self.posts.len() + done,
            posts_done: done,
            transfers: self.transfers.len(),
            bulk_waiting: self.admission.waiting(),
            calls: self.server.as_ref().map_or(0, |server| server.calls.len()),
            pool_used: self.pool.used(),
            unexpected: self.inbox.len(),
            unexpected_ready: self.inbox.ready_len(),
        }
    }
}
