//! The input of a run: a world, the operations of its programs, and the faults with their times.
//!
//! A [`Plan`] is complete: two runs of the same plan are identical to the byte. Scenarios and seeds produce plans,
//! and a failing run is reported as a reduced plan.

use std::fmt;

use lnet_core::{DropRule, FaultTypes, Globals, MessageStatus, Route, RouterBuffers, Tunables};
use lnet_policy::RuleList;
use lnet_types::Nid;

use crate::cores::lnd::{CompletionError, LndKind};

/// The complete input of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of random decisions during the run: losses, and the random numbers of the cores.
    pub seed: u64,
    /// The switches, links and nodes.
    pub world: World,
    /// The operations of the programs, sorted by time.
    pub operations: Vec<Operation>,
    /// The faults.
    pub faults: Vec<Fault>,
}

/// The switches, links and nodes of a run.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// The parameters of every node.
    pub globals: Globals,
    /// The number of switches.
    pub switches: u32,
    /// The links between switches.
    pub links: Vec<SwitchLink>,
    /// The nodes.
    pub nodes: Vec<NodeSpec>,
    /// The names of the rails by which traffic is reported.
    pub rails: Vec<String>,
    /// The names of the links between switches, for the description of a [`Fault`].
    pub link_names: Vec<String>,
}

/// A link between two switches, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchLink {
    /// The switch at one end.
    pub a: u32,
    /// The switch at the other end.
    pub b: u32,
    /// The speed of the link.
    pub speed: Speed,
}

/// The speed of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed {
    /// The latency from one end to the other, in nanoseconds.
    pub latency_ns: u64,
    /// The transfer time of each byte in picoseconds: 1000 is 1 GB/s.
    pub picoseconds_per_byte: u64,
}

/// A node.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// The name in traces.
    pub name: String,
    /// The interfaces.
    pub nis: Vec<NiSpec>,
    /// True if the node forwards between its nets.
    pub routing: bool,
    /// The router buffers.
    pub buffers: RouterBuffers,
    /// True if the node knows other nodes of several interfaces as one peer, as if discovery had found them.
    pub discovery: bool,
    /// True if the node drops messages from a gateway by which it has no route back.
    pub drop_asym_route: bool,
    /// The static routes.
    pub routes: Vec<Route>,
    /// The selection rules.
    pub rules: RuleList,
}

/// An interface of a node.
#[derive(Clone, Debug)]
pub struct NiSpec {
    /// The NID.
    pub nid: Nid,
    /// The credits and other tunables.
    pub tunables: Tunables,
    /// The kind of its driver.
    pub lnd: LndKind,
    /// The index of the switch that it is plugged into.
    pub switch: u32,
    /// The speed of its link to that switch.
    pub speed: Speed,
    /// The index of its rail's name.
    pub rail: u16,
}

/// An operation of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The time at which it begins, in nanoseconds from the start of the run.
    pub at: u64,
    /// The node that starts the operation.
    pub from: u32,
    /// The target node.
    pub to: u32,
    /// The index of the target's interface whose NID the program names.
    pub to_ni: u16,
    /// The kind of operation.
    pub kind: OperationKind,
    /// The payload in bytes.
    pub length: u32,
    /// The time after which the program unlinks the memory, in nanoseconds from the start of the operation; 0: never.
    pub cancel_after: u64,
}

/// The kinds of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// A PUT without ACK.
    Put,
    /// A PUT with ACK.
    PutAck,
    /// A GET.
    Get,
}

/// A fault that lasts for a limited time.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The time at which it begins, in nanoseconds.
    pub at: u64,
    /// The time at which it ends, in nanoseconds.
    pub until: u64,
    /// The kind of fault.
    pub what: Trouble,
}

/// An interface of a node, both by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortId {
    /// The index of the node.
    pub node: u32,
    /// The index of its interface.
    pub ni: u16,
}

/// The kinds of fault.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// The link between two switches with this index is down.
    Link(u32),
    /// The link of an interface is down.
    Port(PortId),
    /// The device of an interface has failed.
    Device(PortId),
    /// The driver of an interface is stopped and started again, at the beginning.
    Interrupt(PortId),
    /// A node is dead, and boots again afterwards.
    Crash(u32),
    /// No messages pass between these nodes and all others.
    Partition(Vec<u32>),
    /// A link between switches is slower by this factor, at least 1.
    SlowLink(u32, u32),
    /// The link of an interface is slower by this factor, at least 1.
    SlowPort(PortId, u32),
    /// The link of an interface loses one of so many messages of these types.
    Loss(PortId, FaultTypes, u32),
    /// Messages sent from an interface arrive, but their completions are lost.
    LostCompletions(PortId),
    /// Messages sent from an interface complete with this error.
    Completion(PortId, CompletionError),
    /// A node rejects new connections.
    Reject(u32),
    /// A drop rule inside the core of a node.
    Rule(u32, Box<DropRule>),
    /// The driver of an interface falsely reports this class for messages that arrived.
    Lie(PortId, MessageStatus),
}

impl Plan {
    /// Decides whether a driver sees the first attempt of each operation of a node: no drop rule may take an
    /// attempt before. The check is done only for nodes with selection rules, because it costs time.
    pub(crate) fn shows_first_paths(&self, node: u32) -> bool {
        let spec = self.world.nodes.get(node as usize);
        let has_rules = spec.is_some_and(|node| !node.rules.rules().is_empty());
        let drops = |fault: &Fault| matches!(fault.what, Trouble::Rule(at, _) if at == node);
        has_rules && !self.faults.iter().any(drops)
    }

    /// Returns the operations that a node starts.
    pub(crate) fn operations_from(&self, node: u32) -> impl Iterator<Item = u32> {
        let operations = (0..).zip(&self.operations);
        let own = operations.filter(move |(_, operation)| operation.from == node);
        own.map(|(index, _)| index)
    }
}

impl World {
    /// Returns the name of an interface in a trace.
    pub(crate) fn port_name(&self, port: PortId) -> String {
        let node = self.nodes.get(port.node as usize);
        let ni = node.and_then(|node| node.nis.get(usize::from(port.ni)));
        match (node, ni) {
            (Some(node), Some(ni)) => format!("{} {}", node.name, ni.nid),
            _ => "nobody".to_owned(),
        }
    }

    /// Returns the name of a node in a trace.
    pub(crate) fn node_name(&self, node: u32) -> &str {
        let spec = self.nodes.get(node as usize);
        spec.map_or("nobody", |node| node.name.as_str())
    }

    fn link_name(&self, link: u32) -> String {
        match self.link_names.get(link as usize) {
            Some(name) => name.clone(),
            None => format!("link {link}"),
        }
    }
}

/// Displays a fault in words.
pub(crate) struct ShownTrouble<'a>(pub(crate) &'a World, pub(crate) &'a Trouble);

impl fmt::Display for ShownTrouble<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(world, trouble) = self;
        let port = |port: &PortId| world.port_name(*port);
        match trouble {
            Trouble::Link(link) => write!(f, "{} down", world.link_name(*link)),
            Trouble::Port(at) => write!(f, "port of {} down", port(at)),
            Trouble::Device(at) => write!(f, "device of {} failed", port(at)),
            Trouble::Interrupt(at) => write!(f, "driver of {} restarted", port(at)),
            Trouble::Crash(node) => write!(f, "{} crashed", world.node_name(*node)),
            Trouble::Partition(nodes) => {
                let names: Vec<&str> = nodes.iter().map(|&node| world.node_name(node)).collect();
                write!(f, "{} cut off", names.join(", "))
            }
            Trouble::SlowLink(link, by) => {
                write!(f, "{} {by} times slower", world.link_name(*link))
            }
            Trouble::SlowPort(at, by) => write!(f, "link of {} {by} times slower", port(at)),
            Trouble::Loss(at, types, rate) => {
                write!(
                    f,
                    "1 of {rate} lost at {} ({})",
                    port(at),
                    type_names(*types)
                )
            }
            Trouble::LostCompletions(at) => write!(f, "completions lost at {}", port(at)),
            Trouble::Completion(at, error) => {
                write!(f, "completion error {error:?} at {}", port(at))
            }
            Trouble::Reject(node) => write!(f, "{} rejects connections", world.node_name(*node)),
            Trouble::Rule(node, rule) => {
                write!(
                    f,
                    "drop rule in {}: {:?} {:?}",
                    world.node_name(*node),
                    rule.pace,
                    rule.classes
                )
            }
            Trouble::Lie(at, class) => write!(f, "{} reports {class:?} for what arrived", port(at)),
        }
    }
}

fn type_names(types: FaultTypes) -> String {
    if types.is_empty() {
        return "all types".to_owned();
    }
    let names: Vec<&str> = types.iter_names().map(|(name, _)| name).collect();
    names.join(", ")
}
