//! What a run is made of: machines, what their programs do, and what goes wrong when.
//!
//! A [`Plan`] is complete: the same plan gives the same run to the byte.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use lnet_core::{Globals, Route, RouterBuffers, Tunables};
use lnet_types::{Net, Nid};

/// A run before it begins.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Seeds what is drawn while it runs.
    pub seed: u64,
    /// Parameters of every node.
    pub globals: Globals,
    /// Limits of every interface.
    pub tunables: Tunables,
    /// The machines.
    pub machines: Vec<Machine>,
    /// What programs do.
    pub operations: Vec<Operation>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// Operations from this time on, in nanoseconds, must succeed, and connections be as sections 2.5 to 2.8
    /// prescribe when the run ends; the faults are over long before.
    pub sound_from: Option<u64>,
}

/// A machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Its interfaces.
    pub nids: Vec<Nid>,
    /// What runs on it.
    pub program: Program,
    /// Its static routes.
    pub routes: Vec<Route>,
}

/// What runs on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// A node with programs that put, get and accept messages.
    Node,
    /// A node that forwards, too, with these buffers.
    Router(RouterBuffers),
    /// Nobody's friend: connects and accepts as a node does, answers nothing, and tells the other strangers the
    /// handles that it is shown.
    Thief,
    /// A stranger that answers in the thieves' place, and sends without pause.
    Forger,
}

impl Program {
    /// Whether a node's stack runs there.
    #[must_use]
    pub fn is_node(self) -> bool {
        matches!(self, Self::Node | Self::Router(_))
    }
}

/// What a program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// When, in nanoseconds from the beginning.
    pub at: u64,
    /// The machine that does it.
    pub from: u32,
    /// The machine that it is done to.
    pub to: u32,
    /// What.
    pub kind: Kind,
    /// Bytes.
    pub length: u32,
    /// So many messages from one descriptor at once; more than one for [`Kind::Put`] only.
    pub count: u32,
}

/// Kinds of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// PUTs that nobody acknowledges.
    Put,
    /// A PUT with ACK.
    PutAck,
    /// A GET.
    Get,
}

/// Something that goes wrong for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// When it begins, in nanoseconds.
    pub at: u64,
    /// When it is over.
    pub until: u64,
    /// To which machine.
    pub machine: u32,
    /// What.
    pub what: Trouble,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// One of so many connections of the machine is reset, at the beginning.
    Reset(u32),
    /// Nothing reaches the machine or leaves it, and nobody is told.
    Cut,
    /// The machine refuses connections.
    Refuse,
    /// The program stands still; the machine's network goes on.
    Standstill,
    /// The program is killed, which closes its connections, and starts anew afterwards.
    Kill,
    /// The machine loses power, which nobody is told, and starts anew afterwards.
    PowerOff,
    /// Everything takes so many times as long on the machine's connections.
    Slow(u32),
    /// The machine's link to the net of this number is cut, and nobody is told.
    CutLink(u16),
    /// Each connection that the machine begins or is asked for is reset when one of its ends has written so many bytes.
    ResetAt(End, u32),
    /// The program is killed between the arrival of a connection request, its own or another's, and the answer, and
    /// starts anew when the fault is over.
    KillInHandshake(End),
    /// The machine loses power at the same moment.
    PowerOffInHandshake(End),
}

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The one that dialled.
    Dialler,
    /// The one that accepts.
    Acceptor,
}

impl End {
    /// Its place on a line.
    pub(crate) fn index(self) -> usize {
        match self {
            Self::Dialler => 0,
            Self::Acceptor => 1,
        }
    }
}

impl Trouble {
    /// Nobody is told that the machine is gone.
    pub(crate) fn cuts_power(self) -> bool {
        matches!(self, Self::PowerOff | Self::PowerOffInHandshake(_))
    }

    /// The end that the machine has of the connection whose request strikes it.
    pub(crate) fn strikes(self) -> Option<End> {
        match self {
            Self::KillInHandshake(end) | Self::PowerOffInHandshake(end) => Some(end),
            _ => None,
        }
    }
}

impl Plan {
    /// Nothing goes wrong and nobody is hostile: everything must succeed.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        let friendly = self
            .machines
            .iter()
            .all(|machine| machine.program.is_node());
        friendly && self.faults.is_empty()
    }

    /// How long everything may take to come to rest after the last fault, in nanoseconds: what is under way times out,
    /// a gateway is asked again, and an interface from the bottom of its health needs some pings, each after the
    /// longest pause.
    pub(crate) fn patience(&self) -> u64 {
        let globals = &self.globals;
        let steps = 1000 / u32::from(globals.health_sensitivity.max(1)) + 10;
        let pauses = globals.max_recovery_ping_interval * steps;
        let checks = globals.alive_router_check_interval * 4;
        let timeouts = globals.transaction_timeout * 6;
        (pauses + checks + timeouts).as_nanos() as u64
    }

    /// What begins at that time must succeed.
    pub(crate) fn is_sound_at(&self, at: u64) -> bool {
        self.sound_from.is_some_and(|from| at >= from)
    }

    /// The operations of a machine, and those that it is the target of.
    pub(crate) fn targeted(&self, machine: u32) -> impl Iterator<Item = (u32, &Operation)> {
        let numbered = (0..).zip(&self.operations);
        numbered.filter(move |(_, operation)| operation.to == machine)
    }
}

/// The NID of a machine on a net: addresses of a machine differ from net to net.
#[must_use]
pub fn nid(machine: u32, net: u16) -> Nid {
    let address = Ipv4Addr::new(10, net as u8, 0, 1 + machine as u8);
    Nid::from_ip(Net::tcp(net), IpAddr::V4(address))
}

/// Nanoseconds as seconds.
pub(crate) struct Seconds(pub(crate) u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, rest) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        write!(f, "{seconds}.{rest:09}")
    }
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
            Trouble::Refuse => "refuses connections".to_owned(),
            Trouble::Standstill => "stands still".to_owned(),
            Trouble::Kill => "killed".to_owned(),
            Trouble::PowerOff => "without power".to_owned(),
            Trouble::Slow(times) => format!("{times} times slower"),
            Trouble::CutLink(net) => format!("link to net {net} cut"),
            Trouble::ResetAt(end, byte) => {
                format!("connections reset at byte {byte} of the {end:?}")
            }
            Trouble::KillInHandshake(end) => format!("killed in a handshake as {end:?}"),
            Trouble::PowerOffInHandshake(end) => {
                format!("without power in a handshake as {end:?}")
            }
        };
        let (at, until, machine) = (Seconds(self.at), Seconds(self.until), self.machine);
        write!(f, "{at} to {until} s: machine {machine}: {what}")
    }
}
