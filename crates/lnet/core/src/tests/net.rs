//! Several cores connected by wires in memory.
//!
//! A wire connects two nodes in one direction and is first in, first out. A held message stops its wire, as it stops a
//! connection. A message counts as sent when it is on the wire, unless the test keeps the answers back
//! ([`Net::keep_answers`]).

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use lnet_policy::Profile;
use lnet_types::{Nid, ProcessId, Time};
use lnet_wire::Header;

use crate::*;

pub(super) fn nid(text: &str) -> Nid {
    text.parse().unwrap()
}

/// A message on a wire.
#[derive(Clone, Debug)]
struct Carried {
    ni: NiId,
    from: ProcessId,
    header: Header,
    payload: Vec<u8>,
}

#[derive(Debug, Default)]
struct Wire {
    queue: VecDeque<Carried>,
    held: Option<(RxId, Vec<u8>)>,
}

pub(super) struct Node {
    pub(super) core: Core,
    pub(super) nis: Vec<(NiId, Nid)>,
    pub(super) memory: BTreeMap<MdHandle, Vec<u8>>,
    router_memory: BTreeMap<RouterBuffer, Vec<u8>>,
    pub(super) events: Vec<Event>,
    pub(super) gateways: Vec<(Nid, bool)>,
    pub(super) verdicts: Vec<Verdict>,
    /// The messages that the core has cancelled.
    pub(super) cancelled: Vec<RxId>,
    pub(super) kept: VecDeque<Transmit>,
    pub(super) alive: bool,
    ceased: BTreeSet<MdHandle>,
}

pub(super) struct Net {
    pub(super) nodes: Vec<Node>,
    pub(super) now: Time,
    pub(super) keep_answers: bool,
    /// Every header that was transmitted, with its sender.
    pub(super) trace: Vec<(usize, Header)>,
    wires: BTreeMap<(usize, usize), Wire>,
}

thread_local! {
    static PROFILE: Cell<Profile> = const { Cell::new(Profile::Design) };
}

/// Runs a test with its nodes in this profile, unless the test sets another one.
pub(super) fn in_profile(profile: Profile, test: fn()) {
    PROFILE.set(profile);
    test();
    PROFILE.set(Profile::Design);
}

/// Returns the parameters of the nodes of tests.
pub(super) fn globals() -> Globals {
    Globals {
        profile: PROFILE.get(),
        ..Globals::default()
    }
}

pub(crate) fn config(cookie: u64) -> CoreConfig {
    CoreConfig {
        entropy: Entropy::from_seed(cookie),
        seed: 7,
        globals: globals(),
        buffers: RouterBuffers {
            tiny: 8,
            small: 8,
            large: 4,
        },
        routing: false,
        pid: 12345,
    }
}

impl Net {
    pub(super) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            now: Time::from_secs(1000),
            keep_answers: false,
            trace: Vec::new(),
            wires: BTreeMap::new(),
        }
    }

    /// Creates two nodes on one net: 10.0.0.1@tcp and 10.0.0.2@tcp.
    pub(super) fn pair() -> Self {
        let mut net = Self::new();
        net.add(&["10.0.0.1@tcp"]);
        net.add(&["10.0.0.2@tcp"]);
        net
    }

    /// Creates a client, a router and a server: 10.0.0.1@tcp, 10.0.0.9@tcp with 10.1.0.9@tcp1, 10.1.0.2@tcp1.
    pub(super) fn routed(buffers: RouterBuffers) -> Self {
        let mut net = Self::new();
        net.add(&["10.0.0.1@tcp"]);
        let router = CoreConfig {
            routing: true,
            buffers,
            ..config(2)
        };
        net.add_configured(router, &["10.0.0.9@tcp", "10.1.0.9@tcp1"]);
        net.add(&["10.1.0.2@tcp1"]);
        net.route(0, "tcp1", "10.0.0.9@tcp");
        net.route(2, "tcp", "10.1.0.9@tcp1");
        net
    }

    pub(super) fn add(&mut self, nids: &[&str]) -> usize {
        let cookie = self.nodes.len() as u64 + 100;
        self.add_configured(config(cookie), nids)
    }

    pub(super) fn add_configured(&mut self, config: CoreConfig, nids: &[&str]) -> usize {
        let mut core = Core::new(config, self.now);
        let tunables = Tunables::default();
        let nis = nids
            .iter()
            .map(|text| {
                let nid = nid(text);
                (
                    core.add_ni(NiConfig { nid, tunables }, self.now).unwrap(),
                    nid,
                )
            })
            .collect();
        self.nodes.push(Node {
            core,
            nis,
            memory: BTreeMap::new(),
            router_memory: BTreeMap::new(),
            events: Vec::new(),
            gateways: Vec::new(),
            verdicts: Vec::new(),
            cancelled: Vec::new(),
            kept: VecDeque::new(),
            alive: true,
            ceased: BTreeSet::new(),
        });
        self.nodes.len() - 1
    }

    /// Adds a node that discovers its peers.
    pub(super) fn add_discovering(&mut self, nids: &[&str]) -> usize {
        let cookie = self.nodes.len() as u64 + 100;
        let mut config = config(cookie);
        config.globals.discovery = true;
        self.add_configured(config, nids)
    }

    pub(super) fn route(&mut self, node: usize, net: &str, gateway: &str) {
        let (net, gateway) = (net.parse().unwrap(), nid(gateway));
        let route = Route {
            net,
            gateway,
            hops: None,
            priority: 0,
        };
        self.nodes[node].core.add_route(route, self.now).unwrap();
    }

    pub(super) fn core(&mut self, node: usize) -> &mut Core {
        &mut self.nodes[node].core
    }

    // --- the interface of portals, with memory ---

    pub(super) fn attach(&mut self, node: usize, me: MeSpec, md: MdSpec) -> MdHandle {
        let now = self.now;
        let me = self.core(node).me_attach(me).unwrap();
        let handle = self.core(node).md_attach(me, md, now).unwrap();
        self.nodes[node]
            .memory
            .insert(handle, vec![0; md.length as usize]);
        handle
    }

    pub(super) fn bind(&mut self, node: usize, data: &[u8], threshold: u32) -> MdHandle {
        let md = MdSpec {
            length: data.len() as u32,
            threshold: Some(threshold),
            max_size: 0,
            options: MdOptions::empty(),
            unlink_when_exhausted: true,
            user: 0,
        };
        let handle = self.core(node).md_bind(md).unwrap();
        self.nodes[node].memory.insert(handle, data.to_vec());
        handle
    }

    pub(super) fn put(&mut self, node: usize, data: &[u8], ack: bool, to: &str) -> MdHandle {
        let md = self.bind(node, data, 1 + u32::from(ack));
        let put = PutRequest {
            md,
            ack,
            source: None,
            target: ProcessId::lustre(nid(to)),
            portal: 30,
            match_bits: 7,
            offset: 0,
            hdr_data: 99,
        };
        let now = self.now;
        self.core(node).put(put, now).unwrap();
        md
    }

    pub(super) fn get(&mut self, node: usize, length: usize, to: &str) -> MdHandle {
        let md = self.bind(node, &vec![0; length], 2);
        let get = GetRequest {
            md,
            source: None,
            target: ProcessId::lustre(nid(to)),
            portal: 30,
            match_bits: 7,
            offset: 0,
        };
        let now = self.now;
        self.core(node).get(get, now).unwrap();
        md
    }

    // --- time and messages ---

    /// Moves messages until nothing is left to move.
    pub(super) fn run(&mut self) {
        loop {
            let mut moved = false;
            for node in 0..self.nodes.len() {
                while let Some(output) = self.nodes[node].core.poll_output() {
                    moved = true;
                    self.output(node, output);
                }
            }
            moved |= self.deliver_one_of_each_wire();
            if !moved {
                return;
            }
        }
    }

    /// Lets time pass, and stops at every deadline on the way.
    pub(super) fn advance(&mut self, span: Duration) {
        let end = self.now + span;
        self.run();
        loop {
            let next = self
                .nodes
                .iter()
                .filter_map(|node| node.core.next_deadline())
                .min();
            let Some(next) = next.filter(|&next| next <= end) else {
                break;
            };
            self.now = self.now.max(next);
            let now = self.now;
            for node in &mut self.nodes {
                node.core.tick(now);
            }
            self.run();
        }
        self.now = end;
        self.run();
    }

    pub(super) fn take_events(&mut self, node: usize) -> Vec<Event> {
        std::mem::take(&mut self.nodes[node].events)
    }

    pub(super) fn kinds(&mut self, node: usize) -> Vec<EventKind> {
        self.take_events(node)
            .into_iter()
            .map(|event| event.kind)
            .collect()
    }

    /// Answers one message that was kept back.
    pub(super) fn answer(&mut self, node: usize, status: MessageStatus) -> Option<Header> {
        let transmit = self.nodes[node].kept.pop_front()?;
        if status == MessageStatus::Ok {
            self.carry(node, &transmit);
        }
        let now = self.now;
        self.core(node).sent(transmit.tx, status, now);
        self.run();
        Some(transmit.header)
    }

    /// Reports that the LND has no form for a message that was kept back.
    pub(super) fn answer_in_no_form(&mut self, node: usize) {
        let transmit = self.nodes[node].kept.pop_front().unwrap();
        let now = self.now;
        self.core(node).sent_in_no_form(transmit.tx, now);
        self.run();
    }

    /// Checks that the nodes are as before the first message: no message, buffer or credit is in use.
    pub(super) fn assert_at_rest(&self) {
        for node in self.nodes.iter().filter(|node| node.alive) {
            let core = &node.core;
            assert!(core.is_idle());
            assert_eq!(core.counters().msgs_alloc, 0);
            for ni in core.nis() {
                assert_eq!(ni.tx_credits, i64::from(ni.tunables.credits), "{}", ni.nid);
            }
            for peer_ni in core.peers().flat_map(|peer| peer.nis) {
                assert_eq!(peer_ni.tx_credits, i64::from(peer_ni.max_tx_credits));
                assert_eq!(peer_ni.queued_bytes, 0);
            }
            for pool in core.router_pools() {
                assert_eq!(pool.credits, i64::from(pool.buffers), "{:?}", pool.pool);
            }
            assert!(core.traffic().hops.is_empty(), "shares of next hops");
            let checks = core
                .fabric()
                .routes
                .gateways()
                .filter_map(|n| core.fabric().routes.gateway(n)?.ping)
                .count();
            let of_nis = core.fabric().nis.all().iter().map(|ni| &ni.recovery);
            let of_peers = core.fabric().peers.iter().map(|peer_ni| &peer_ni.recovery);
            let recoveries = of_nis.chain(of_peers).filter(|r| r.is_pending()).count();
            let checks = checks
                + core.traffic().mds.net_checks()
                + recoveries
                + core.upkeep.push_target.posted();
            assert_eq!(
                core.traffic().mds.len(),
                1 + node.memory.len() + checks,
                "descriptors"
            );
            assert_eq!(
                core.traffic().buffers.len(),
                1 + checks,
                "buffers of the core"
            );
        }
    }

    fn output(&mut self, node: usize, output: Output) {
        match output {
            Output::Transmit(transmit) => {
                self.trace.push((node, transmit.header));
                if self.keep_answers {
                    self.nodes[node].kept.push_back(transmit);
                } else {
                    let status = self.carry(node, &transmit);
                    let now = self.now;
                    self.core(node).sent(transmit.tx, status, now);
                }
            }
            Output::Resume { rx, landing } => self.resume(node, rx, landing),
            Output::Cancel { rx } => self.nodes[node].cancelled.push(rx),
            Output::Doubt { .. } => {}
            Output::Event(event) => self.event(node, event),
            Output::Gateway { nid, alive } => self.nodes[node].gateways.push((nid, alive)),
        }
    }

    fn event(&mut self, node: usize, event: Event) {
        let node = &mut self.nodes[node];
        assert!(
            !node.ceased.contains(&event.md),
            "an event after the last one: {event:?}"
        );
        if event.unlinked {
            node.ceased.insert(event.md);
            node.memory.remove(&event.md);
        }
        node.events.push(event);
    }

    fn carry(&mut self, node: usize, transmit: &Transmit) -> MessageStatus {
        let payload = transmit.payload.map_or_else(Vec::new, |payload| {
            let (from, to) = (
                payload.offset as usize,
                (payload.offset + payload.length) as usize,
            );
            self.nodes[node].bytes(payload.place)[from..to].to_vec()
        });
        assert_eq!(payload.len(), transmit.header.payload_length as usize);
        let (to, ni, from) = if transmit.ni == NiId::LOOPBACK {
            (node, NiId::LOOPBACK, ProcessId::lustre(Nid::LOOPBACK))
        } else {
            let own = self.nodes[node]
                .nis
                .iter()
                .find(|(ni, _)| *ni == transmit.ni)
                .unwrap()
                .1;
            match self.find(transmit.to.nid) {
                Some((to, ni)) => (to, ni, ProcessId::lustre(own)),
                None => return MessageStatus::RemoteDropped,
            }
        };
        let carried = Carried {
            ni,
            from,
            header: transmit.header,
            payload,
        };
        self.wires
            .entry((node, to))
            .or_default()
            .queue
            .push_back(carried);
        MessageStatus::Ok
    }

    fn find(&self, nid: Nid) -> Option<(usize, NiId)> {
        self.nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| node.alive)
            .find_map(|(index, node)| {
                let (ni, _) = node.nis.iter().find(|(_, own)| *own == nid)?;
                Some((index, *ni))
            })
    }

    fn deliver_one_of_each_wire(&mut self) -> bool {
        let keys: Vec<_> = self.wires.keys().copied().collect();
        let mut moved = false;
        for key in keys {
            let wire = self.wires.get_mut(&key).unwrap();
            if wire.held.is_some() {
                continue;
            }
            let Some(carried) = wire.queue.pop_front() else {
                continue;
            };
            moved = true;
            if self.nodes[key.1].alive {
                self.deliver(key, carried);
            }
        }
        moved
    }

    fn deliver(&mut self, key: (usize, usize), carried: Carried) {
        let Carried {
            ni,
            from,
            header,
            payload,
        } = carried;
        let now = self.now;
        let verdict = self.core(key.1).header(ni, from, &header, now);
        self.nodes[key.1].verdicts.push(verdict);
        match verdict {
            Verdict::Receive { rx, landing } => self.land(key.1, rx, landing, &payload),
            Verdict::Hold { rx } => self.wires.get_mut(&key).unwrap().held = Some((rx, payload)),
            Verdict::Drop(_) | Verdict::Reject(_) => {}
        }
    }

    fn land(&mut self, node: usize, rx: RxId, landing: Landing, payload: &[u8]) {
        let Landing {
            place,
            offset,
            length,
        } = landing;
        let (from, length) = (offset as usize, length as usize);
        let bytes = self.nodes[node].bytes_mut(place);
        bytes[from..from + length].copy_from_slice(&payload[..length]);
        let now = self.now;
        self.core(node).arrived(rx, Ok(()), now);
    }

    fn resume(&mut self, node: usize, rx: RxId, landing: Option<Landing>) {
        let wire = self
            .wires
            .iter_mut()
            .find(|(key, wire)| key.1 == node && wire.held.as_ref().is_some_and(|h| h.0 == rx));
        // The connection may have broken after the core made the output.
        let Some((_, payload)) = wire.and_then(|(_, wire)| wire.held.take()) else {
            return;
        };
        match landing {
            Some(landing) => self.land(node, rx, landing, &payload),
            None => {
                let now = self.now;
                self.core(node).arrived(rx, Ok(()), now);
            }
        }
    }

    /// Breaks the connections of a node's held messages.
    pub(super) fn break_held(&mut self, node: usize) {
        for (key, wire) in &mut self.wires {
            if key.1 == node
                && let Some((rx, _)) = wire.held.take()
            {
                let now = self.now;
                self.nodes[node]
                    .core
                    .arrived(rx, Err(MessageStatus::RemoteError), now);
            }
        }
        self.run();
    }

    pub(super) fn held(&self) -> usize {
        self.wires
            .values()
            .filter(|wire| wire.held.is_some())
            .count()
    }
}

impl Node {
    fn bytes(&self, place: Place) -> &[u8] {
        match place {
            Place::Md(md) => &self.memory[&md],
            Place::Router(buffer) => &self.router_memory[&buffer],
            Place::Core(buffer) => self.core.core_buffer(buffer),
        }
    }

    fn bytes_mut(&mut self, place: Place) -> &mut [u8] {
        match place {
            Place::Md(md) => self
                .memory
                .get_mut(&md)
                .expect("memory of a live descriptor"),
            Place::Router(buffer) => self
                .router_memory
                .entry(buffer)
                .or_insert_with(|| vec![0; buffer.pool.buffer_len()]),
            Place::Core(buffer) => self.core.core_buffer_mut(buffer),
        }
    }
}

/// Returns a match entry for every initiator, for match bits 7 on portal 30.
pub(super) fn any_me() -> MeSpec {
    MeSpec {
        portal: 30,
        match_id: ProcessId::ANY,
        match_bits: 7,
        ignore_bits: 0,
        unlink_with_md: true,
        position: InsertPosition::After,
    }
}

/// Returns a descriptor that accepts any number of PUTs and GETs at the offset in the message.
pub(super) fn open_md(length: u32) -> MdSpec {
    MdSpec {
        length,
        threshold: None,
        max_size: 0,
        options: MdOptions::OP_PUT | MdOptions::OP_GET | MdOptions::MANAGE_REMOTE,
        unlink_when_exhausted: false,
        user: 5,
    }
}

/// Returns such a descriptor for one operation.
pub(super) fn one_shot(length: u32) -> MdSpec {
    MdSpec {
        threshold: Some(1),
        unlink_when_exhausted: true,
        ..open_md(length)
    }
}
