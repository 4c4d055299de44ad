//! The input of a run: machines, the operations of their programs, and the faults with their times.
//!
//! A [`Plan`] is complete: two runs of the same plan are identical to the byte.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use lnet_core::{Globals, Route, RouterBuffers, Tunables};
use lnet_types::{LndType, Net, Nid};

use crate::invariant::Seconds;

/// The complete input of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of random decisions during the run.
    pub seed: u64,
    /// The parameters of every node.
    pub globals: Globals,
    /// The credits and other tunables of every interface.
    pub tunables: Tunables,
    /// The machines.
    pub machines: Vec<Machine>,
    /// The operations of the programs.
    pub operations: Vec<Operation>,
    /// The faults.
    pub faults: Vec<Fault>,
    /// The time in nanoseconds from which on operations must succeed; if it is set, connections must be as sections
    /// 2.5 to 2.8 prescribe when the run ends. The faults are over long before this time.
    pub sound_from: Option<u64>,
}

/// A machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The NIDs of its interfaces.
    pub nids: Vec<Nid>,
    /// The program that runs on it.
    pub program: Program,
    /// The static routes of its node.
    pub routes: Vec<Route>,
}

/// The program of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// A node with programs that put, get and accept messages.
    Node,
    /// A node that also forwards, with these router buffers.
    Router(RouterBuffers),
    /// A hostile machine: it connects and accepts like a node, answers nothing, and passes the handles that it gets
    /// to the other hostile machines.
    Thief,
    /// A hostile machine that answers in place of the thieves, and sends unwanted messages.
    Forger,
}

impl Program {
    /// Returns true if the machine runs a node's stack.
    #[must_use]
    pub fn is_node(self) -> bool {
        matches!(self, Self::Node | Self::Router(_))
    }
}

/// An operation of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The time at which it begins, in nanoseconds from the start of the run.
    pub at: u64,
    /// The machine that starts the operation.
    pub from: u32,
    /// The target machine.
    pub to: u32,
    /// The kind of operation.
    pub kind: Kind,
    /// The payload in bytes.
    pub length: u32,
    /// The number of messages that one descriptor sends at once; more than one only for [`Kind::Put`].
    pub count: u32,
}

/// The kinds of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// PUTs without ACK.
    Put,
    /// A PUT with ACK.
    PutAck,
    /// A GET.
    Get,
}

/// A fault that lasts for a limited time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The time at which it begins, in nanoseconds.
    pub at: u64,
    /// The time at which it ends, in nanoseconds.
    pub until: u64,
    /// The machine that it affects.
    pub machine: u32,
    /// The kind of fault.
    pub what: Trouble,
}

/// The kinds of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// At the beginning, one of so many connections of the machine is reset.
    Reset(u32),
    /// Nothing reaches or leaves the machine, and no end is told.
    Cut,
    /// The machine rejects connections.
    Reject,
    /// The program stands still; the network part of the machine continues.
    Standstill,
    /// The program is killed, which closes its connections, and boots again when the fault ends.
    Kill,
    /// The machine loses power, which no other end is told, and boots again when the fault ends.
    PowerOff,
    /// The machine's connections are slower by this factor.
    Slow(u32),
    /// The machine's link to the net of this number is cut, and no end is told.
    CutLink(u16),
    /// Each connection that the machine dials or accepts is reset when one of its ends has written so many bytes.
    ResetAt(End, u32),
    /// The machine's RDMA ports have no link, which its program is told.
    PortDown,
    /// Nothing moves over RDMA, at any machine.
    Pause,
    /// The program is killed between the arrival of a connection request and the answer, if the machine has this
    /// end of the connection. The program boots again when the fault ends.
    KillInHandshake(End),
    /// The machine loses power at that moment.
    PowerOffInHandshake(End),
}

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The end that dialled.
    Dialler,
    /// The end that accepts.
    Acceptor,
}

impl End {
    /// Returns the index of the end on a line.
    pub(crate) fn index(self) -> usize {
        match self {
            Self::Dialler => 0,
            Self::Acceptor => 1,
        }
    }
}

impl Trouble {
    /// Returns true if the other ends are not told that the machine is gone.
    pub(crate) fn cuts_power(self) -> bool {
        matches!(self, Self::PowerOff | Self::PowerOffInHandshake(_))
    }

    /// Returns the end that the machine must have for a connection request to trigger the fault.
    pub(crate) fn strikes(self) -> Option<End> {
        match self {
            Self::KillInHandshake(end) | Self::PowerOffInHandshake(end) => Some(end),
            _ => None,
        }
    }
}

impl Plan {
    /// Returns true if the plan has no faults and no hostile machines. Then everything must succeed.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        let friendly = self
            .machines
            .iter()
            .all(|machine| machine.program.is_node());
        friendly && self.faults.is_empty()
    }

    /// Returns the time within which everything must come to rest after the last fault, in nanoseconds: operations
    /// in progress time out, a gateway is pinged, and an interface whose health is 0 needs some pings, each after
    /// the longest pause.
    pub(crate) fn patience(&self) -> u64 {
        let globals = &self.globals;
        let steps = 1000 / u32::from(globals.health_sensitivity.max(1)) + 10;
        let pauses = globals.max_recovery_ping_interval * steps;
        let checks = globals.alive_router_check_interval * 4;
        let timeouts = globals.transaction_timeout * 6;
        (pauses + checks + timeouts).as_nanos() as u64
    }

    /// Returns true if an operation that begins at this time must succeed.
    pub(crate) fn is_sound_at(&self, at: u64) -> bool {
        self.sound_from.is_some_and(|from| at >= from)
    }

    /// Returns the operations whose target is the machine, with their numbers.
    pub(crate) fn targeted(&self, machine: u32) -> impl Iterator<Item = (u32, &Operation)> {
        let numbered = (0..).zip(&self.operations);
        numbered.filter(move |(_, operation)| operation.to == machine)
    }
}

/// Returns the NID with the same address on the o2ib network of the same number.
#[must_use]
pub(crate) fn over_rdma(nid: Nid) -> Nid {
    let net = Net::new(LndType::O2IB, nid.net().number);
    nid.ip().map_or(nid, |address| Nid::from_ip(net, address))
}

/// Returns the NID of a machine on a net. The addresses of a machine differ from net to net.
#[must_use]
pub fn nid(machine: u32, net: u16) -> Nid {
    let address = Ipv4Addr::new(10, net as u8, 0, 1 + machine as u8);
    Nid::from_ip(Net::tcp(net), IpAddr::V4(address))
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nids: Vec<String> = self.nids.iter().map(ToString::to_string).collect();
        let program = match self.program {
            Program::Node => "node",
            Program::Router(_) => "router",
            Program::Thief => "thief",
            Program::Forger => "forger",
        };
        write!(f, "{program} {}", nids.join(" "))
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            at,
            from,
            to,
            kind,
            length,
            count,
        } = self;
        let kind = match kind {
            Kind::Put => "put",
            Kind::PutAck => "put with ack",
            Kind::Get => "get",
        };
        let at = Seconds(*at);
        write!(
            f,
            "{at} s: machine {from}: {count} times {kind}, machine {to}, {length} bytes"
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.what {
            Trouble::Reset(one_in) => format!("one of {one_in} connections reset"),
            Trouble::Cut => "cut off".to_owned(),
            Trouble::Reject => "rejects connections".to_owned(),
            Trouble::Standstill => "stands still".to_owned(),
            Trouble::Kill => "killed".to_owned(),
            Trouble::PowerOff => "without power".to_owned(),
            Trouble::Slow(times) => format!("{times} times slower"),
            Trouble::CutLink(net) => format!("link to net {net} cut"),
            Trouble::ResetAt(end, byte) => {
                format!("connections reset at byte {byte} of the {end:?}")
            }
            Trouble::Pause => "nothing moves over RDMA".to_owned(),
            Trouble::PortDown => "ports without a link".to_owned(),
            Trouble::KillInHandshake(end) => format!("killed in a handshake as {end:?}"),
            Trouble::PowerOffInHandshake(end) => {
                format!("without power in a handshake as {end:?}")
            }
        };
        let (at, until, machine) = (Seconds(self.at), Seconds(self.until), self.machine);
        write!(f, "{at} to {until} s: machine {machine}: {what}")
    }
}
