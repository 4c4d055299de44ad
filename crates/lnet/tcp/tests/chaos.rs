//! Tests connections under disturbances on real sockets: dials from both ends, resets within handshakes, a peer that
//! restarts between request and answer, stale incarnations, half-open peers. After each disturbance, both ends must
//! have the connections that the protocol prescribes, and nothing may arrive twice. `lnet-sim::stacks` runs
//! thousands of such rounds in virtual time.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

mod common;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use lnet_tcp::ConnectionView;
use lnet_wire::{Ctype, Hello};

use common::{Node, Raw, address, config, opening};

const ROUNDS: u64 = 50;

/// The length of a connection request and a HELLO of version 3, in bytes.
const OPENING_BYTES: u64 = 16 + 56;

/// How long a round waits for an expected event.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two nodes; each life of a node has another incarnation.
struct World {
    one: Node,
    other: Node,
    lives: u64,
    next_message: u8,
}

impl World {
    fn new() -> Self {
        Self {
            one: Node::at(address(), config(), 1, 1),
            other: Node::at(address(), config(), 1, 2),
            lives: 2,
            next_message: 0,
        }
    }

    /// Returns the HELLO of `other` when it dials `one` in some life.
    fn hello(&self, incarnation: u64) -> Hello {
        Hello::dial(self.other.nid, self.one.nid, incarnation, Ctype::CONTROL)
    }

    fn restart(&mut self) {
        let address = self.other.nid.ip().unwrap();
        self.lives += 1;
        let now = self.other.now;
        // The address is free only once the old node has closed its listener.
        self.other.lnd.close_all(now, &mut self.other.upper);
        self.other = Node::at(address, config(), 1, self.lives);
        self.other.now = now;
    }

    fn strike(&mut self, round: u64) {
        let place = (round / 5 * 7) % (OPENING_BYTES + 1);
        match round % 5 {
            // The dials of both nodes cross.
            0 => {}
            1 => {
                let opening = opening(self.one.nid, &self.hello(self.lives));
                let mut raw = Raw::connect(&self.one);
                raw.write(&opening[..place as usize]);
                self.one.turn();
                let socket = socket2::SockRef::from(&raw.stream);
                socket.set_linger(Some(Duration::ZERO)).unwrap();
            }
            2 => {
                self.one.send(self.other.id(), vec![0]);
                for _ in 0..=round % 3 {
                    self.one.turn();
                }
                self.restart();
            }
            3 => {
                let stale = self.hello(1_000_000 + round);
                drop(Raw::establish(&mut self.one, &stale));
            }
            _ => {
                let opening = opening(self.one.nid, &self.hello(self.lives));
                let mut silent = Raw::connect(&self.one);
                silent.write(&opening[..place as usize]);
                self.one.turn();
                self.one
                    .pass(config().accept_timeout + Duration::from_secs(1));
            }
        }
    }

    /// Makes both nodes send until their messages arrive.
    fn talk(&mut self) {
        loop {
            self.next_message = self.next_message.checked_add(1).unwrap();
            let message = vec![self.next_message, 1];
            let sent = [
                self.one.send(self.other.id(), message.clone()),
                self.other.send(self.one.id(), message.clone()),
            ];
            self.run_until(|pair| {
                pair.one.result(sent[0]).is_some() && pair.other.result(sent[1]).is_some()
            });
            let ok = |node: &Node, tx| node.result(tx) == Some(Ok(()));
            let arrived = ok(&self.one, sent[0]) && ok(&self.other, sent[1]);
            self.run_for(200, Duration::from_millis(1));
            if arrived && self.has(&message) {
                return self.settle();
            }
            // Let the longest pause between dials pass, one second at a time.
            self.run_for(60, Duration::from_secs(1));
        }
    }

    fn has(&self, message: &[u8]) -> bool {
        let holds = |node: &Node| contents(node).iter().any(|known| known == message);
        holds(&self.one) && holds(&self.other)
    }

    /// Runs both nodes until their connections agree, as they must.
    fn settle(&mut self) {
        self.run_until(|pair| agree(&views(&pair.one), &views(&pair.other)));
    }

    fn run_for(&mut self, turns: u32, step: Duration) {
        for _ in 0..turns {
            for node in [&mut self.one, &mut self.other] {
                node.now = node.now + step;
                node.turn();
            }
        }
    }

    /// Runs both nodes; pauses between dials pass in the nodes' virtual time.
    fn run_until(&mut self, mut done: impl FnMut(&Self) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !done(self) {
            self.run_for(1, Duration::from_millis(1));
            assert!(
                Instant::now() < end,
                "waited in vain: {:?}, {:?}",
                views(&self.one),
                views(&self.other)
            );
        }
    }
}

fn views(node: &Node) -> Vec<ConnectionView> {
    node.lnd.connections().collect()
}

/// Returns whether both ends know the same connections, each type is there, and no connection was dialled twice.
fn agree(own: &[ConnectionView], theirs: &[ConnectionView]) -> bool {
    let known = |view: &ConnectionView| {
        theirs.iter().any(|other| {
            (other.local, other.remote, other.dialled) == (view.remote, view.local, !view.dialled)
                && Some(other.ctype) == view.ctype.inverse()
        })
    };
    let types: BTreeSet<(Ctype, bool)> =
        own.iter().map(|link| (link.ctype, link.dialled)).collect();
    let kinds: BTreeSet<Ctype> = own.iter().map(|link| link.ctype).collect();
    own.len() == theirs.len()
        && own.iter().all(known)
        && types.len() == own.len()
        && kinds.len() == 3
}

fn contents(node: &Node) -> Vec<Vec<u8>> {
    let whole = node
        .upper
        .received
        .iter()
        .filter(|(_, result)| result.is_ok());
    whole
        .map(|(message, _)| node.upper.landed(*message))
        .collect()
}

// [SET-5] [SET-6]
#[test]
fn fifty_rounds_on_sockets_end_with_the_connections_prescribed_and_nothing_twice() {
    let mut world = World::new();
    for round in 0..ROUNDS {
        world.strike(round);
        world.talk();
        for node in [&world.one, &world.other] {
            let mut numbered = contents(node);
            numbered.retain(|message| message.len() == 2);
            let different: BTreeSet<_> = numbered.iter().collect();
            assert_eq!(different.len(), numbered.len(), "round {round}");
        }
        if round % 2 == 0 {
            world.restart();
        }
    }
}

#[test]
fn a_connection_that_one_end_does_not_know_is_seen() {
    let mut world = World::new();
    world.talk();
    let (own, mut theirs) = (views(&world.one), views(&world.other));
    assert!(agree(&own, &theirs));
    theirs.pop();
    assert!(!agree(&own, &theirs));
    assert!(!agree(&own[..2], &theirs));
}
