//! A node: a core, a driver for each interface, and the messages that it holds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use lnet_core::{
    Core, CoreConfig, Entropy, Globals, InsertPosition, MdHandle, MdOptions, MdSpec, MeSpec,
    MessageStatus, NiConfig, NiId, Place, RouterBuffer, RxId, Transmit,
};
use lnet_types::{Nid, ProcessId, Time};
use rustc_hash::FxHashMap;

use super::Sim;
use super::wire::Flight;
use crate::cores::fabric::{Fabric, Plug};
use crate::cores::lnd::{CompletionError, Incarnation, Lnd, LndEvent};
use crate::cores::plan::{NodeSpec, Plan, PortId};

/// The portal that programs use.
pub(super) const PORTAL: u32 = 30;

/// The limit on the bytes of one operation.
const MTU: u32 = 1 << 20;

/// A node.
#[derive(Debug)]
pub(super) struct Node {
    /// The core; `None` while the node is dead.
    pub(super) core: Option<Box<Core>>,
    pub(super) incarnation: Incarnation,
    pub(super) ports: Vec<Port>,
    /// The time for which its core's timer is planned.
    pub(super) wake_at: u64,
    /// The descriptor with which its program accepts messages.
    pub(super) sink: Option<MdHandle>,
    /// The nodes that it knows as peers of several interfaces.
    peers: Vec<u32>,
    /// Connections on which no further message is read until a held message may continue, by interface and sender.
    pub(super) held: BTreeMap<(u16, Nid), Held>,
    /// The bytes in router buffers, if bytes matter.
    pub(super) router_bytes: BTreeMap<RouterBuffer, Box<[u8]>>,
    pub(super) cancellable: Vec<(u32, MdHandle)>,
    /// The number of faults that keep it dead.
    pub(super) crashes: u32,
    /// The number of faults that make it reject connections.
    pub(super) rejects: u32,
}

/// An interface and its driver.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) nid: Nid,
    pub(super) plug: Plug,
    pub(super) lnd: Lnd,
    /// The time for which its driver's timer is planned.
    pub(super) wake_at: u64,
    pub(super) link_up: bool,
    /// The number of faults of its device.
    pub(super) device_faults: u32,
    pub(super) completion_lost: u32,
    pub(super) completion_error: Vec<(usize, CompletionError)>,
    pub(super) lies: Vec<(usize, MessageStatus)>,
}

/// A connection whose messages are held.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) rx: RxId,
    pub(super) flight: Flight,
    pub(super) behind: VecDeque<Flight>,
}

impl Node {
    /// Returns the number of an interface's port; `None` for loopback.
    pub(super) fn port_of(&self, ni: NiId) -> Option<u16> {
        // Cores number their interfaces from 1 in the order of creation, which is the order of the ports.
        let port = u16::try_from(ni.0.checked_sub(1)?).ok()?;
        (usize::from(port) < self.ports.len()).then_some(port)
    }

    /// Returns the bytes of a message if they matter.
    pub(super) fn payload(&self, transmit: &Transmit) -> Option<Box<[u8]>> {
        let payload = transmit.payload?;
        match payload.place {
            Place::Md(_) => None,
            Place::Router(buffer) => self.router_bytes.get(&buffer).cloned(),
            Place::Core(buffer) => {
                let bytes = self.core.as_deref()?.core_buffer(buffer);
                let from = payload.offset as usize;
                let bytes = bytes.get(from..from + payload.length as usize)?;
                Some(bytes.into())
            }
        }
    }
}

/// Returns the interface that has each NID.
pub(super) fn places(plan: &Plan) -> FxHashMap<Nid, PortId> {
    let mut places = FxHashMap::default();
    for (node, spec) in plan.world.nodes.iter().enumerate() {
        for (ni, at) in spec.nis.iter().enumerate() {
            let port = PortId {
                node: node as u32,
                ni: ni as u16,
            };
            places.insert(at.nid, port);
        }
    }
    places
}

/// Makes all nodes, not booted yet, and plugs in their interfaces.
pub(super) fn all(plan: &Plan, fabric: &mut Fabric) -> Vec<Node> {
    let places = places(plan);
    let mut peers: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); plan.world.nodes.len()];
    let discovers = |node: u32| {
        let spec = plan.world.nodes.get(node as usize);
        spec.is_some_and(|spec| spec.discovery)
    };
    let mut know = |a: u32, b: u32| {
        if let Some(known) = peers.get_mut(a as usize).filter(|_| a != b && discovers(a)) {
            known.insert(b);
        }
    };
    for operation in &plan.operations {
        know(operation.from, operation.to);
        know(operation.to, operation.from);
    }
    for (node, spec) in plan.world.nodes.iter().enumerate() {
        for route in &spec.routes {
            if let Some(gateway) = places.get(&route.gateway) {
                know(node as u32, gateway.node);
                know(gateway.node, node as u32);
            }
        }
    }
    let nodes = plan.world.nodes.iter().zip(peers);
    nodes
        .map(|(spec, peers)| Node {
            core: None,
            incarnation: Incarnation(0),
            ports: ports(plan, spec, fabric),
            wake_at: u64::MAX,
            sink: None,
            peers: peers.into_iter().collect(),
            held: BTreeMap::new(),
            router_bytes: BTreeMap::new(),
            cancellable: Vec::new(),
            crashes: 0,
            rejects: 0,
        })
        .collect()
}

fn ports(plan: &Plan, spec: &NodeSpec, fabric: &mut Fabric) -> Vec<Port> {
    let timeout = plan.world.globals.lnd_timeout();
    spec.nis
        .iter()
        .map(|ni| Port {
            nid: ni.nid,
            plug: fabric.plug(ni.switch, ni.speed),
            lnd: Lnd::new(ni.lnd, timeout),
            wake_at: u64::MAX,
            link_up: true,
            device_faults: 0,
            completion_lost: 0,
            completion_error: Vec::new(),
            lies: Vec::new(),
        })
        .collect()
}

impl Sim {
    /// Boots a node without any earlier state.
    pub(super) fn boot(&mut self, index: u32) {
        let Some(spec) = self.plan.world.nodes.get(index as usize) else {
            return;
        };
        let Some(node) = self.nodes.get_mut(index as usize) else {
            return;
        };
        node.incarnation.0 += 1;
        let lnd_timeout = self.plan.world.globals.lnd_timeout();
        for (port, ni) in node.ports.iter_mut().zip(&spec.nis) {
            port.lnd = Lnd::new(ni.lnd, lnd_timeout);
            port.wake_at = u64::MAX;
        }
        let now = Time::from_nanos(self.now);
        let cookie = u64::from(index) << 32 | u64::from(node.incarnation.0);
        let mut core = core_of(&self.plan, spec, cookie, now);
        for &peer in &node.peers {
            if let Some(peer) = self.plan.world.nodes.get(peer as usize) {
                introduce(&mut core, peer);
            }
        }
        for &route in &spec.routes {
            // The routes were checked when the scenario was read.
            let _checked = core.add_route(route, now);
        }
        #[cfg(not(feature = "defects"))]
        let rules = spec.rules.clone();
        #[cfg(feature = "defects")]
        let rules = self
            .defect
            .map_or_else(|| spec.rules.clone(), |what| what.rules(&spec.rules));
        core.set_rules(rules);
        node.sink = accept_everything(&mut core, now);
        node.core = Some(Box::new(core));
        node.wake_at = u64::MAX;
        for ni in 0..spec.nis.len() as u16 {
            let port = PortId { node: index, ni };
            let state = self
                .port(port)
                .map(|port| (port.link_up, port.device_faults));
            if state.is_some_and(|(_, faults)| faults > 0) {
                self.tell(port, LndEvent::DeviceFatal);
            }
            if state.is_some_and(|(up, _)| !up) {
                self.tell(port, LndEvent::PortDown);
            }
        }
        self.settle(index);
    }

    pub(super) fn port(&self, port: PortId) -> Option<&Port> {
        self.nodes
            .get(port.node as usize)?
            .ports
            .get(usize::from(port.ni))
    }

    pub(super) fn port_mut(&mut self, port: PortId) -> Option<&mut Port> {
        self.nodes
            .get_mut(port.node as usize)?
            .ports
            .get_mut(usize::from(port.ni))
    }
}

fn core_of(plan: &Plan, spec: &NodeSpec, cookie: u64, now: Time) -> Core {
    let config = CoreConfig {
        entropy: Entropy::from_seed(plan.seed ^ cookie),
        seed: plan.seed ^ cookie,
        globals: Globals {
            drop_asym_route: spec.drop_asym_route,
            ..plan.world.globals
        },
        buffers: spec.buffers,
        routing: spec.routing,
        pid: 12345,
    };
    let mut core = Core::new(config, now);
    for ni in &spec.nis {
        let config = NiConfig {
            nid: ni.nid,
            tunables: ni.tunables,
        };
        // The interfaces were checked when the scenario was read.
        let _checked = core.add_ni(config, now);
    }
    core
}

/// Configures a peer of several interfaces. A peer of one interface is created by traffic.
fn introduce(core: &mut Core, peer: &NodeSpec) {
    let nids: Vec<Nid> = peer.nis.iter().map(|ni| ni.nid).collect();
    if let [primary, _, ..] = nids[..] {
        // Nodes have different NIDs, so no other peer has one of these.
        let _checked = core.add_peer(primary, &nids, true);
    }
}

/// Attaches one descriptor that accepts every PUT and answers every GET.
fn accept_everything(core: &mut Core, now: Time) -> Option<MdHandle> {
    let me = MeSpec {
        portal: PORTAL,
        match_id: ProcessId::ANY,
        match_bits: 0,
        ignore_bits: u64::MAX,
        unlink_with_md: true,
        position: InsertPosition::After,
    };
    let md = MdSpec {
        length: MTU,
        threshold: None,
        max_size: 0,
        options: MdOptions::OP_PUT | MdOptions::OP_GET | MdOptions::MANAGE_REMOTE,
        unlink_when_exhausted: false,
        user: u64::MAX,
    };
    let me = core.me_attach(me).ok()?;
    core.md_attach(me, md, now).ok()
}
