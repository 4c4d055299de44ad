//! A test bench of one core without a network: the test is the LND.

use std::time::Duration;

use lnet_policy::{Priority, Profile, Rule, RuleText};
use lnet_types::{Nid, ProcessId, Time};
use lnet_wire::{Body, Handle, Header, LNET_PORTAL, PING_MATCH_BITS, Put};

use super::nid;
use crate::*;

/// The profile of the design.
pub(super) const DESIGN: fn(&mut Globals) = |globals| globals.profile = Profile::Design;
/// The profile of kernels of 2.16.
pub(super) const LUSTRE: fn(&mut Globals) = |globals| globals.profile = Profile::Lustre;
/// The profile of kernels of 2.17.
pub(super) const LUSTRE_217: fn(&mut Globals) = |globals| globals.profile = Profile::Lustre217;
/// The design, with a resend that never takes the same pair twice.
pub(super) const PAIR: fn(&mut Globals) = |globals| globals.used_paths = UsedPaths::Pair;
/// The design, with a resend that never takes the same interface twice.
pub(super) const LITERAL: fn(&mut Globals) = |globals| globals.used_paths = UsedPaths::Literal;

/// Returns a rule from the parts that `lnetctl udsp add` takes: source, destination, gateway, priority.
pub(crate) fn rule(src: &str, dst: &str, rte: &str, priority: Option<u32>) -> Rule {
    let given = |text: &'static str| Some(text).filter(|text| !text.is_empty());
    let leak = |text: &str| given(Box::leak(text.to_owned().into_boxed_str()));
    let action = priority.map(|value| lnet_policy::Action::Priority(Priority::new(value).unwrap()));
    let text = RuleText {
        src: leak(src),
        dst: leak(dst),
        rte: leak(rte),
        action,
    };
    Rule::from_text(&text, Profile::Design).unwrap()
}

/// The next event of a send.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The LND has the message.
    Sent(Box<Transmit>),
    /// The message ended.
    Ended(Result<(), Errno>),
}

pub(super) struct Bench {
    pub(super) core: Core,
    pub(super) now: Time,
    pub(super) events: Vec<Event>,
    transmits: Vec<Transmit>,
}

impl Bench {
    /// Creates a node with these interfaces.
    pub(super) fn new(nids: &[&str]) -> Self {
        let now = Time::from_secs(1000);
        let mut bench = Self {
            core: Core::new(super::net::config(1), now),
            now,
            events: Vec::new(),
            transmits: Vec::new(),
        };
        for text in nids {
            bench.add_ni(text);
        }
        // Pings of gateways would mix with the messages of the test.
        bench.set(|globals| globals.alive_router_check_interval = Duration::ZERO);
        bench
    }

    /// Creates a node with two local interfaces and a Multi-Rail peer with two, all on one net: n1, n2, p1, p2.
    pub(super) fn two_by_two() -> Self {
        let mut bench = Self::new(&["10.0.0.1@tcp", "10.0.0.2@tcp"]);
        bench.peer(&["10.0.1.1@tcp", "10.0.1.2@tcp"]);
        bench
    }

    pub(super) fn add_ni(&mut self, text: &str) -> NiId {
        let tunables = Tunables::default();
        let config = NiConfig {
            nid: nid(text),
            tunables,
        };
        self.core.add_ni(config, self.now).unwrap()
    }

    pub(super) fn with(mut self, change: fn(&mut Globals)) -> Self {
        self.set(change);
        self
    }

    pub(super) fn set(&mut self, change: fn(&mut Globals)) {
        let mut globals = self.core.ground().config.globals;
        change(&mut globals);
        self.core.set_globals(globals, self.now);
    }

    /// Adds a Multi-Rail peer from which messages have been received.
    pub(super) fn peer(&mut self, nids: &[&str]) {
        let nids: Vec<Nid> = nids.iter().map(|text| nid(text)).collect();
        self.core.add_peer(nids[0], &nids, true).unwrap();
        for nid in nids {
            self.peer_ni(nid).last_alive = Some(self.now);
        }
    }

    pub(super) fn route(&mut self, net: &str, gateway: &str, hops: Option<u8>, priority: u32) {
        let route = Route {
            net: net.parse().unwrap(),
            gateway: nid(gateway),
            hops,
            priority,
        };
        self.core.add_route(route, self.now).unwrap();
    }

    pub(super) fn rule(&mut self, src: &str, dst: &str, rte: &str, priority: Option<u32>) {
        self.core
            .add_rule(rule(src, dst, rte, priority), None)
            .unwrap();
    }

    pub(super) fn ni(&mut self, text: &str) -> &mut crate::fabric::ni::Ni {
        let id = self.core.fabric().nis.by_nid(nid(text)).unwrap().id;
        self.core.fabric_mut().nis.get_mut(id).unwrap()
    }

    pub(super) fn peer_ni(&mut self, nid: Nid) -> &mut crate::fabric::peer::PeerNi {
        self.core.fabric_mut().peers.by_nid_mut(nid).unwrap()
    }

    /// Sets the health of a local or a peer interface, without recovery.
    pub(super) fn set_health(&mut self, text: &str, value: u16) {
        let health = Health::new(value).unwrap();
        match self.core.fabric().nis.by_nid(nid(text)).map(|ni| ni.id) {
            Some(id) => self.core.fabric_mut().nis.get_mut(id).unwrap().health = health,
            None => {
                let id = self.core.fabric().peers.id_of(nid(text)).unwrap();
                self.core.fabric_mut().peers.set_health(id, health);
            }
        }
    }

    pub(super) fn health(&self, text: &str) -> u16 {
        let value = match self.core.fabric().nis.by_nid(nid(text)) {
            Some(ni) => ni.health,
            None => self.core.fabric().peers.by_nid(nid(text)).unwrap().health,
        };
        value.value()
    }

    /// Returns whether a local or a peer interface is in recovery.
    pub(super) fn in_recovery(&self, text: &str) -> bool {
        let recovery = match self.core.fabric().nis.by_nid(nid(text)) {
            Some(ni) => &ni.recovery,
            None => &self.core.fabric().peers.by_nid(nid(text)).unwrap().recovery,
        };
        recovery.at.is_some()
    }

    pub(super) fn distance(&mut self, text: &str, distance: u32) {
        let device = NiDevice {
            rank: 0,
            distances: smallvec::smallvec![distance],
        };
        let id = self.ni(text).id;
        self.core.set_ni_device(id, device).unwrap();
    }

    pub(super) fn use_credits(&mut self, text: &str, credits: u32) {
        if self.core.fabric().nis.by_nid(nid(text)).is_some() {
            let ni = self.ni(text);
            ni.credits.set_held(ni.credits.demand() + credits);
        } else {
            let peer_ni = self.peer_ni(nid(text));
            peer_ni.credits.set_held(peer_ni.credits.demand() + credits);
        }
    }

    // --- sending ---

    /// Starts a PUT without ACK.
    pub(super) fn start(&mut self, source: Option<&str>, to: &str, hints: SendHints) -> Step {
        let spec = MdSpec {
            length: 0,
            threshold: Some(1),
            max_size: 0,
            options: MdOptions::empty(),
            unlink_when_exhausted: true,
            user: 0,
        };
        let put = PutRequest {
            md: self.core.md_bind(spec).unwrap(),
            ack: false,
            source: source.map(nid),
            target: ProcessId::lustre(nid(to)),
            portal: 30,
            match_bits: 0,
            offset: 0,
            hdr_data: 0,
        };
        self.core.hinted_put(put, hints, self.now).unwrap();
        self.step()
    }

    /// Sends a ping from a NID of this node; it arrives.
    pub(super) fn ping_from(&mut self, source: &str, to: &str) {
        let spec = MdSpec {
            length: 0,
            threshold: Some(2),
            max_size: 0,
            options: MdOptions::TRUNCATE,
            unlink_when_exhausted: true,
            user: 0,
        };
        let get = GetRequest {
            md: self.core.md_bind(spec).unwrap(),
            source: Some(nid(source)),
            target: ProcessId::lustre(nid(to)),
            portal: LNET_PORTAL,
            match_bits: PING_MATCH_BITS,
            offset: 0,
        };
        self.core.get(get, self.now).unwrap();
        let Step::Sent(transmit) = self.step() else {
            panic!("the ping of {to} is not sent");
        };
        let (from, hop) = self.pair(&transmit);
        assert_eq!(from, source, "through {hop}");
        let _sent = self.answer(&transmit, MessageStatus::Ok);
    }

    pub(super) fn send(&mut self, to: &str) -> Transmit {
        self.send_from(None, to)
    }

    pub(super) fn send_from(&mut self, source: Option<&str>, to: &str) -> Transmit {
        match self.start(source, to, SendHints::default()) {
            Step::Sent(transmit) => *transmit,
            Step::Ended(result) => panic!("ended with {result:?}"),
        }
    }

    /// Returns the next event of the only message under way.
    pub(super) fn step(&mut self) -> Step {
        self.settle();
        if !self.transmits.is_empty() {
            return Step::Sent(Box::new(self.transmits.remove(0)));
        }
        let event = self.events.pop().expect("an event");
        Step::Ended(event.status)
    }

    /// Reports the result of an attempt.
    pub(super) fn answer(&mut self, transmit: &Transmit, status: MessageStatus) -> Step {
        self.core.sent(transmit.tx, status, self.now);
        self.step()
    }

    /// Reports an attempt as failed, expects another attempt, and returns it.
    pub(super) fn retried(&mut self, transmit: &Transmit, status: MessageStatus) -> Transmit {
        match self.answer(transmit, status) {
            Step::Sent(next) => *next,
            Step::Ended(result) => panic!("ended with {result:?}"),
        }
    }

    /// Reports an attempt as failed, expects that it was the last, and returns the error.
    pub(super) fn failed(&mut self, transmit: &Transmit, status: MessageStatus) -> Errno {
        match self.answer(transmit, status) {
            Step::Sent(next) => panic!("sent again: {:?}", self.pair(&next)),
            Step::Ended(result) => result.unwrap_err(),
        }
    }

    /// Sends a message and completes it. Returns the local NID and the next hop.
    pub(super) fn carry(&mut self, to: &str) -> (String, String) {
        self.carry_from(None, to)
    }

    pub(super) fn carry_from(&mut self, source: Option<&str>, to: &str) -> (String, String) {
        let transmit = self.send_from(source, to);
        assert_eq!(
            self.answer(&transmit, MessageStatus::Ok),
            Step::Ended(Ok(()))
        );
        self.pair(&transmit)
    }

    /// Returns the local NIDs of several consecutive messages.
    pub(super) fn sources(&mut self, count: usize, to: &str) -> Vec<String> {
        (0..count).map(|_| self.carry(to).0).collect()
    }

    /// Returns the next hops of several consecutive messages.
    pub(super) fn hops(&mut self, count: usize, to: &str) -> Vec<String> {
        (0..count).map(|_| self.carry(to).1).collect()
    }

    pub(super) fn pair(&self, transmit: &Transmit) -> (String, String) {
        let ni = self.core.fabric().nis.get(transmit.ni).unwrap();
        (ni.nid.to_string(), transmit.to.nid.to_string())
    }

    /// Starts a message that never reaches the LND, and returns its error.
    pub(super) fn refused(&mut self, source: Option<&str>, to: &str) -> Errno {
        match self.start(source, to, SendHints::default()) {
            Step::Sent(transmit) => panic!("sent over {:?}", self.pair(&transmit)),
            Step::Ended(result) => result.unwrap_err(),
        }
    }

    // --- receiving and time ---

    /// Delivers a complete message from a peer; its content does not matter.
    pub(super) fn hear(&mut self, from: &str, at: &str) {
        self.hear_from(from, from, at);
    }

    /// Delivers such a message through a router.
    pub(super) fn hear_from(&mut self, source: &str, hop: &str, at: &str) {
        let me = MeSpec {
            match_bits: 99,
            ..super::any_me()
        };
        let me = self.core.me_attach(me).unwrap();
        let md = MdSpec {
            threshold: Some(1),
            unlink_when_exhausted: true,
            ..super::open_md(0)
        };
        self.core.md_attach(me, md, self.now).unwrap();
        let header = Header {
            dest_nid: nid(at),
            src_nid: nid(source),
            dest_pid: 12345,
            src_pid: 12345,
            payload_length: 0,
            body: Body::Put(Put {
                ack_wmd: Handle::NONE,
                match_bits: 99,
                hdr_data: 0,
                ptl_index: 30,
                offset: 0,
            }),
        };
        let ni = self.ni(at).id;
        let hop = ProcessId::lustre(nid(hop));
        let verdict = self.core.header(ni, hop, &header, self.now);
        let Verdict::Receive { rx, .. } = verdict else {
            panic!("{verdict:?}")
        };
        self.core.arrived(rx, Ok(()), self.now);
        self.settle();
        self.events.clear();
    }

    /// Lets time pass in steps of a second and reports `status` for every message. Returns when a message was sent, in
    /// seconds from now, and to which next hop.
    pub(super) fn wait(&mut self, seconds: u64, status: MessageStatus) -> Vec<(u64, String)> {
        let mut sent = Vec::new();
        for second in 0..=seconds {
            self.settle();
            for transmit in std::mem::take(&mut self.transmits) {
                sent.push((second, transmit.to.nid.to_string()));
                self.core.sent(transmit.tx, status, self.now);
            }
            self.settle();
            if second < seconds {
                self.now = self.now + Duration::from_secs(1);
            }
        }
        sent
    }

    fn settle(&mut self) {
        loop {
            while let Some(output) = self.core.poll_output() {
                match output {
                    Output::Transmit(transmit) => self.transmits.push(transmit),
                    Output::Event(event) => self.events.push(event),
                    Output::Resume { .. }
                    | Output::Cancel { .. }
                    | Output::Doubt { .. }
                    | Output::Gateway { .. } => {}
                }
            }
            if self.core.next_deadline().is_none_or(|at| at > self.now) {
                return;
            }
            self.core.tick(self.now);
        }
    }
}
