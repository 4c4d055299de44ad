//! What a run is made of: a world, what its programs do, and what goes wrong when.
//!
//! A [`Plan`] is complete: the same plan gives the same run to the byte. Scenarios and seeds are ways to
//! make one, and a shorter plan is how a failing run is told.

use std::fmt;

use lnet_core::{DropRule, FaultTypes, Globals, MessageStatus, Route, RouterBuffers, Tunables};
use lnet_policy::RuleList;
use lnet_types::Nid;

use crate::lnd::{CompletionError, LndKind};

/// A run before it begins.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Seeds what is drawn while it runs: losses, and what the cores draw.
    pub seed: u64,
    /// What there is.
    pub world: World,
    /// What programs do, by time.
    pub operations: Vec<Operation>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
}

/// Switches, links and nodes.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// Parameters of every node.
    pub globals: Globals,
    /// Number of switches.
    pub switches: u32,
    /// Links between switches.
    pub links: Vec<SwitchLink>,
    /// The nodes.
    pub nodes: Vec<NodeSpec>,
    /// Names of the rails that traffic is reported by.
    pub rails: Vec<String>,
    /// What belongs together in a [`Fault`]'s description: names of switch links.
    pub link_names: Vec<String>,
}

/// A link between two switches, both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchLink {
    /// One end.
    pub a: u32,
    /// The other.
    pub b: u32,
    /// How fast it is.
    pub speed: Speed,
}

/// How fast a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed {
    /// Nanoseconds from one end to the other.
    pub latency_ns: u64,
    /// Picoseconds for each byte: 1000 is 1 GB/s.
    pub picoseconds_per_byte: u64,
}

/// A node.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// Its name in traces.
    pub name: String,
    /// Its interfaces.
    pub nis: Vec<NiSpec>,
    /// It forwards between its nets.
    pub routing: bool,
    /// Its router buffers.
    pub buffers: RouterBuffers,
    /// It knows nodes of several interfaces as one peer, as discovery would have told it.
    pub discovery: bool,
    /// It drops what comes by a gateway that it has no route back by.
    pub drop_asym_route: bool,
    /// Its static routes.
    pub routes: Vec<Route>,
    /// Its selection rules.
    pub rules: RuleList,
}

/// An interface of a node.
#[derive(Clone, Debug)]
pub struct NiSpec {
    /// Its NID.
    pub nid: Nid,
    /// Its limits.
    pub tunables: Tunables,
    /// Its driver.
    pub lnd: LndKind,
    /// The switch that it is plugged into.
    pub switch: u32,
    /// Its link to that switch.
    pub speed: Speed,
    /// Index of its rail's name.
    pub rail: u16,
}

/// What a program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// When, in nanoseconds from the beginning.
    pub at: u64,
    /// The node that does it.
    pub from: u32,
    /// The node that it is done to.
    pub to: u32,
    /// By the NID of which of its interfaces.
    pub to_ni: u16,
    /// What.
    pub kind: OperationKind,
    /// Bytes.
    pub length: u32,
    /// Its memory is taken back so many nanoseconds later; 0: never.
    pub cancel_after: u64,
}

/// Kinds of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// A PUT that nobody acknowledges.
    Put,
    /// A PUT with ACK.
    PutAck,
    /// A GET.
    Get,
}

/// Something that goes wrong for a while.
#[derive(Clone, Debug)]
pub struct Fault {
    /// When it begins, in nanoseconds.
    pub at: u64,
    /// When it is over.
    pub until: u64,
    /// What.
    pub what: Trouble,
}

/// An interface of a node, both by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortId {
    /// The node.
    pub node: u32,
    /// Its interface.
    pub ni: u16,
}

/// What goes wrong.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// A link between switches is down; by index.
    Link(u32),
    /// The link of an interface is down.
    Port(PortId),
    /// The device of an interface has failed.
    Device(PortId),
    /// The driver of an interface is stopped and started again, at the beginning.
    Interrupt(PortId),
    /// A node is dead, and starts anew afterwards.
    Crash(u32),
    /// These nodes and all others do not hear of each other.
    Partition(Vec<u32>),
    /// A link between switches is so many times slower, at least once.
    SlowLink(u32, u32),
    /// The link of an interface is so many times slower, at least once.
    SlowPort(PortId, u32),
    /// One of so many messages of these types is lost on the link of an interface.
    Loss(PortId, FaultTypes, u32),
    /// Messages sent from an interface arrive, but their completions are lost.
    LostCompletions(PortId),
    /// Messages sent from an interface complete with this error.
    Completion(PortId, CompletionError),
    /// A node rejects new connections.
    Reject(u32),
    /// A drop rule inside the core of a node.
    Rule(u32, Box<DropRule>),
    /// The driver of an interface reports this class for messages that arrived: a lie.
    Lie(PortId, MessageStatus),
}

impl Plan {
    /// Whether the first attempt that a driver sees of a node's operations is the first that its core makes: no drop
    /// rule takes any before. Only nodes with rules are worth the work.
    pub(crate) fn shows_first_paths(&self, node: u32) -> bool {
        let spec = self.world.nodes.get(node as usize);
        let has_rules = spec.is_some_and(|node| !node.rules.rules().is_empty());
        let drops = |fault: &Fault| matches!(fault.what, Trouble::Rule(at, _) if at == node);
        has_rules && !self.faults.iter().any(drops)
    }
}

impl World {
    /// The interface as a trace names it.
    pub(crate) fn port_name(&self, port: PortId) -> String {
        let node = self.nodes.get(port.node as usize);
        let ni = node.and_then(|node| node.nis.get(usize::from(port.ni)));
        match (node, ni) {
            (Some(node), Some(ni)) => format!("{} {}", node.name, ni.nid),
            _ => "nobody".to_owned(),
        }
    }

    /// The node as a trace names it.
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

/// A fault in words.
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

/// Nanoseconds as seconds, for traces and schedules.
pub(crate) struct Seconds(pub(crate) u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, rest) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        f.pad(&format!("{seconds}.{rest:09}"))
    }
}
