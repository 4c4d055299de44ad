//! A captured conversation as a script for two parties: the test plays one kernel node, our node plays the other.
//!
//! ```text
//!   capture ──> lives ──────────────> script of a life, with one address played by our node
//!               (a node that restarts    kernel   CONNREQ, HELLO          on connection 0
//!                says so by another      node     HELLO                   on connection 0
//!                incarnation)            kernel   GET                     on connection 0 ...
//! ```
//!
//! A script keeps the captured order, with two exceptions. No message causes a request of a program, so our
//! program sends its request at fixed points: before the episode begins, if the kernel's program did so before the
//! kernel received the other's handshake; and before a request arrives, if the kernel's own request left before its
//! answer to that request. The order on each connection stays as captured.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use lnet_capture::{Kind, LNET_PORT, decode_capture};
use lnet_types::Nid;

use crate::layout::{Message, is_of};

/// The sender of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Party {
    /// Our node.
    Node,
    /// The captured kernel node, played by the test.
    Kernel,
}

/// A message of the script.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) connection: u32,
    pub(crate) party: Party,
    pub(crate) message: Message,
}

/// The ends of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialled {
    pub(crate) from: Ipv4Addr,
    pub(crate) source_port: u16,
    pub(crate) to: Ipv4Addr,
}

/// The messages of two nodes during one life of both.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) node: Ipv4Addr,
    pub(crate) kernel: Ipv4Addr,
    /// The two ends of each connection.
    pub(crate) dialled: BTreeMap<u32, Dialled>,
    pub(crate) steps: Vec<Step>,
}

/// A message of a capture.
#[derive(Clone, Debug)]
pub(crate) struct Captured {
    connection: u32,
    dialled: Dialled,
    from: Ipv4Addr,
    to: Ipv4Addr,
    pub(crate) message: Message,
}

/// Returns the named capture of kernel nodes; prints a message and returns `None` if it is absent.
pub(crate) fn shared_capture(name: &str) -> Option<Vec<u8>> {
    let path = testkit::shared_data(format!("captures/{name}"))?;
    Some(std::fs::read(path).expect("a capture that can be read"))
}

/// Returns the messages of a capture, divided into lives: a node that restarts begins a new life of both nodes.
pub(crate) fn lives(capture: &[u8]) -> Vec<Vec<Captured>> {
    let all = read(capture);
    let mut known = BTreeMap::new();
    let mut life = 0;
    let mut life_of = BTreeMap::new();
    for captured in all
        .iter()
        .filter(|captured| captured.message.name() == "HELLO")
    {
        let incarnation = &captured.message.0[32..40];
        if known
            .get(&captured.from)
            .is_some_and(|known| *known != incarnation)
        {
            known.clear();
            life += 1;
        }
        known.insert(captured.from, incarnation);
        life_of.entry(captured.connection).or_insert(life);
    }
    let mut lives = vec![Vec::new(); life + 1];
    for captured in &all {
        lives[life_of[&captured.connection]].push(captured.clone());
    }
    lives
}

fn read(capture: &[u8]) -> Vec<Captured> {
    let mut all = Vec::new();
    let (_, whole) = decode_capture(capture, &[LNET_PORT], |message| {
        // Connections that began before the capture are not replayed.
        if message.connection.joined || message.raw.is_empty() {
            return Ok(());
        }
        assert!(
            matches!(
                message.kind,
                Kind::Connreq(_) | Kind::Hello(_) | Kind::Noop(_) | Kind::Lnet(_)
            ),
            "not a whole conversation: {:?}",
            message.kind
        );
        assert_eq!(message.raw.len() as u64, message.length, "payload is known");
        let (from, to) = (v4(message.from().ip()), v4(message.to().ip()));
        let initiator = v4(message.connection.initiator.ip());
        let captured = Captured {
            connection: message.connection.id,
            dialled: Dialled {
                from: initiator,
                source_port: message.connection.initiator.port(),
                to: if initiator == from { to } else { from },
            },
            from,
            to,
            message: Message(message.raw.to_vec()),
        };
        all.push((message.time, captured));
        Ok(())
    });
    whole.expect("the capture is whole");
    // Several networks may be in one file. Each of them is in order, so a stable sort is enough.
    all.sort_by_key(|(time, _)| *time);
    all.into_iter().map(|(_, captured)| captured).collect()
}

fn v4(address: IpAddr) -> Ipv4Addr {
    match address {
        IpAddr::V4(v4) => v4,
        IpAddr::V6(v6) => panic!("{v6} in an IPv4 conversation"),
    }
}

impl Script {
    /// Returns the script in which our node plays `node`.
    pub(crate) fn new(life: &[Captured], node: Ipv4Addr) -> Self {
        let party = |address| match is_of(address, node) {
            true => Party::Node,
            false => Party::Kernel,
        };
        // Messages between other nodes are not part of the script.
        let is_its = |captured: &&Captured| is_of(captured.from, node) || is_of(captured.to, node);
        let life: Vec<&Captured> = life.iter().filter(is_its).collect();
        let others = life
            .iter()
            .flat_map(|captured| [captured.from, captured.to]);
        let kernel = others.into_iter().find(|address| !is_of(*address, node));
        let dialled = life
            .iter()
            .map(|captured| (captured.connection, captured.dialled));
        let steps = life.iter().map(|captured| Step {
            connection: captured.connection,
            party: party(captured.from),
            message: captured.message.clone(),
        });
        let mut script = Self {
            node,
            kernel: kernel.expect("there are two"),
            dialled: dialled.collect(),
            steps: steps.collect(),
        };
        script.ask_before_the_other_dials();
        script.ask_before_the_other_asks();
        script
    }

    /// Moves the opening of our node's first connection to the front of the script, before any message of the kernel,
    /// unless the node sends no request.
    fn ask_before_the_other_dials(&mut self) {
        if !self.steps.iter().any(|step| self.is_request(step)) {
            return;
        }
        let dialled = |step: &Step| step.party == Party::Node && step.message.name() == "CONNREQ";
        let Some(first) = self.steps.iter().find(|step| dialled(step)) else {
            return;
        };
        let first = first.connection;
        let is_opening = |step: &Step| {
            step.connection == first && matches!(step.message.name(), "CONNREQ" | "HELLO")
        };
        let by_node = |step: &Step| step.party == Party::Node && is_opening(step);
        let (mut opening, rest): (Vec<_>, Vec<_>) = self.steps.drain(..).partition(by_node);
        opening.extend(rest);
        self.steps = opening;
    }

    /// Moves a GET that left before a pending answer to the place before the kernel's request.
    fn ask_before_the_other_asks(&mut self) {
        for at in 0..self.steps.len() {
            let step = &self.steps[at];
            if !self.is_request(step) {
                continue;
            }
            let is_open = |earlier: &Step| {
                earlier.party == Party::Kernel
                    && earlier.message.name() == "GET"
                    && earlier.connection == step.connection
                    && self.steps[at..].iter().any(|later| {
                        later.message.name() == "REPLY"
                            && later.message.handle() == earlier.message.handle()
                    })
            };
            if let Some(request) = self.steps[..at].iter().position(is_open) {
                self.steps[request..=at].rotate_right(1);
            }
        }
    }

    /// Returns the same script with the two nodes at other addresses: only NIDs change.
    pub(crate) fn moved(mut self, node: Ipv4Addr, kernel: Ipv4Addr) -> Self {
        let nid = |address: Ipv4Addr| {
            let nid: Nid = format!("{address}@tcp").parse().expect("a NID");
            nid.to_nid4().expect("an IPv4 NID").to_le_bytes()
        };
        let moves = [(nid(self.node), nid(node)), (nid(self.kernel), nid(kernel))];
        for step in &mut self.steps {
            // In every message NIDs are at multiples of four.
            for at in (0..step.message.0.len().saturating_sub(7)).step_by(4) {
                let place = &mut step.message.0[at..at + 8];
                if let Some((_, to)) = moves.iter().find(|(from, _)| place == from) {
                    place.copy_from_slice(to);
                }
            }
        }
        let moved = |address| if address == self.node { node } else { kernel };
        for ends in self.dialled.values_mut() {
            (ends.from, ends.to) = (moved(ends.from), moved(ends.to));
        }
        self.node = node;
        self.kernel = kernel;
        self
    }

    /// Returns all addresses of both nodes.
    pub(crate) fn addresses(&self) -> BTreeSet<Ipv4Addr> {
        let ends = self.dialled.values().flat_map(|ends| [ends.from, ends.to]);
        ends.chain([self.node, self.kernel]).collect()
    }

    /// Returns the addresses of the kernel node.
    pub(crate) fn kernel_addresses(&self) -> impl Iterator<Item = Ipv4Addr> {
        let node = self.node;
        self.addresses()
            .into_iter()
            .filter(move |address| !is_of(*address, node))
    }

    /// Returns true if the step is our node's own request.
    pub(crate) fn is_request(&self, step: &Step) -> bool {
        let is_own = !step.message.is_passed_on_by(self.node);
        step.party == Party::Node && step.message.name() == "GET" && is_own
    }

    /// Returns the same script up to the first request to an absent node.
    pub(crate) fn until_asked_for(mut self, nobody: Ipv4Addr) -> Self {
        let is_for_nobody = |step: &Step| step.message.destination() == Some(nobody);
        if let Some(at) = self.steps.iter().position(is_for_nobody) {
            self.steps.truncate(at);
        }
        self
    }

    /// Returns the same script up to the first keepalive, which a kernel sends after half a minute without a message.
    pub(crate) fn until_silence(mut self) -> Self {
        let is_keepalive = |step: &Step| step.message.name() == "NOOP";
        if let Some(at) = self.steps.iter().position(is_keepalive) {
            self.steps.truncate(at);
        }
        self
    }

    /// Returns the same script up to our node's second request.
    pub(crate) fn first_request(mut self) -> Self {
        let is_request = |step: &Step| step.party == Party::Node && step.message.name() == "GET";
        let mut requests = self
            .steps
            .iter()
            .enumerate()
            .filter(|(_, step)| is_request(step));
        if let Some((second, _)) = requests.nth(1) {
            self.steps.truncate(second);
        }
        self
    }

    /// Appends `times` dials of our node like connection `like`, each answered with NONE: a kernel with one pair of
    /// bulk connections rejects a second pair so.
    pub(crate) fn with_refused_dials(mut self, like: u32, times: u32) -> Self {
        let is_handshake = |step: &&Step| {
            step.connection == like && matches!(step.message.name(), "CONNREQ" | "HELLO")
        };
        let handshake: Vec<_> = self.steps.iter().filter(is_handshake).cloned().collect();
        let first = self.dialled.keys().max().map_or(0, |last| last + 1);
        let ports = self.dialled.values().map(|ends| ends.source_port);
        let ends = Dialled {
            source_port: ports.min().map_or(0, |port| port - 1),
            ..self.dialled[&like]
        };
        for connection in first..first + times {
            self.dialled.insert(connection, ends);
            self.steps.extend(handshake.iter().map(|step| Step {
                connection,
                party: step.party,
                message: match step.party {
                    Party::Node => step.message.clone(),
                    Party::Kernel => step.message.clone().refusing(),
                },
            }));
        }
        self
    }

    /// Returns how many messages of this name a party sends.
    pub(crate) fn count(&self, party: Party, name: &str) -> usize {
        let matching = |step: &&Step| step.party == party && step.message.name() == name;
        self.steps.iter().filter(matching).count()
    }
}
