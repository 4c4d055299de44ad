//! The clients: numbers for the interface, pset process ids for the plugin.

use std::collections::BTreeMap;

use bmi::Peer;

/// A client, as one attachment knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Client {
    /// The server's session.
    pub(super) session: u64,
    /// The pset process id.
    pub(super) pid: i32,
    /// Distinguishes successive clients with the same id.
    pub(super) generation: u32,
}

/// This process itself, under the method's only address.
pub(super) const ITSELF: Peer = Peer(0);

/// Every client that sent something and was not forgotten.
#[derive(Debug, Default)]
pub(super) struct Peers {
    numbers: BTreeMap<Client, Peer>,
    clients: BTreeMap<Peer, (Client, bool)>,
    last: u64,
}

impl Peers {
    /// Returns the number of a client; a new one if the client is unknown.
    // [ADDR-15]
    pub(super) fn number(&mut self, client: Client) -> Peer {
        if let Some(known) = self.numbers.get(&client) {
            return *known;
        }
        self.last += 1;
        let peer = Peer(self.last);
        self.numbers.insert(client, peer);
        self.clients.insert(peer, (client, false));
        peer
    }

    pub(super) fn client(&self, peer: Peer) -> Option<Client> {
        Some(self.clients.get(&peer)?.0)
    }

    /// Records that the client is gone.
    pub(super) fn note_gone(&mut self, peer: Peer) {
        if let Some((_, gone)) = self.clients.get_mut(&peer) {
            *gone = true;
        }
    }

    /// Returns whether a client is gone: it was reported gone, or its daemon is another one.
    pub(super) fn is_gone(&self, peer: Peer, session: Option<u64>) -> bool {
        self.clients
            .get(&peer)
            .is_none_or(|(client, gone)| *gone || Some(client.session) != session)
    }

    pub(super) fn forget(&mut self, peer: Peer) -> Option<Client> {
        let (client, _) = self.clients.remove(&peer)?;
        self.numbers.remove(&client);
        Some(client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn client(pid: i32, generation: u32) -> Client {
        Client {
            session: 5,
            pid,
            generation,
        }
    }

    #[test]
    fn r69_three_hundred_clients_have_three_hundred_numbers() {
        let mut peers = Peers::default();
        let numbers: Vec<Peer> = (0..300).map(|pid| peers.number(client(pid, 1))).collect();
        let again: Vec<Peer> = (0..300).map(|pid| peers.number(client(pid, 1))).collect();
        assert_eq!(numbers, again);
        let distinct: std::collections::BTreeSet<Peer> = numbers.into_iter().collect();
        assert_eq!(distinct.len(), 300);
        assert!(!distinct.contains(&ITSELF));
    }

    #[test]
    fn r69_a_forgotten_client_that_sends_again_has_a_new_number() {
        let mut peers = Peers::default();
        let first = peers.number(client(7, 1));
        assert_eq!(peers.forget(first), Some(client(7, 1)));
        assert_eq!(peers.client(first), None);
        assert_ne!(peers.number(client(7, 1)), first);
    }

    #[test]
    fn a_client_is_gone_with_its_generation_and_with_its_daemon() {
        let mut peers = Peers::default();
        let old = peers.number(client(7, 1));
        peers.note_gone(old);
        let new = peers.number(client(7, 2));
        assert!(peers.is_gone(old, Some(5)));
        assert!(!peers.is_gone(new, Some(5)));
        assert!(peers.is_gone(new, Some(6)));
        assert!(peers.is_gone(new, None));
    }
}
