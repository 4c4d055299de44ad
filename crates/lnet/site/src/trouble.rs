//! The reasons why a message does not arrive.

use lnet_types::{Net, Nid};

use crate::site::Site;

/// A reason why a message does not arrive. Members are indices of [`Site::members`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// The member has no path, for this reason.
    NoPath(usize, String),
    /// No node of the files has the gateway's NID.
    GatewayUnknown(Nid),
    /// The gateway is on no local net that works.
    GatewayNotLocal(Nid),
    /// The gateway does not answer.
    GatewayDown(Nid),
    /// The gateway does not forward.
    NotRouting(usize),
    /// The gateway's interfaces on the remote net do not work.
    FarSideDown(usize, Net),
    /// No node sends to the gateway on the remote net, so the gateway's interface there counts as down.
    FarSideQuiet(usize, Net),
    /// Gateways forward the message in a circle, or through more gateways than are followed.
    Loop(usize),
    /// The gateway forwards the message onto the net from which it came. The next node drops the message, because its
    /// sender is another node of that net.
    Turned(usize, Net),
    /// No node has the NID.
    NobodyHas(Nid),
    /// The interface of this NID does not work.
    NidDown(Nid),
    /// The member drops messages that come from this net by this NID of a gateway, because the member has no route
    /// back by that gateway.
    Dropped(usize, Net, Nid),
    /// The two members listen and dial on different ports.
    PortsDiffer([usize; 2], [u16; 2]),
    /// The message arrives, but its response does not, for this reason.
    Answer(Box<Trouble>),
}

impl Trouble {
    /// Returns the member that causes the trouble, if it is one.
    pub(crate) fn member(&self) -> Option<usize> {
        match self {
            Self::NoPath(at, _)
            | Self::NotRouting(at)
            | Self::FarSideDown(at, _)
            | Self::FarSideQuiet(at, _)
            | Self::Loop(at)
            | Self::Turned(at, _)
            | Self::Dropped(at, ..) => Some(*at),
            Self::Answer(why) => why.member(),
            Self::GatewayUnknown(_)
            | Self::GatewayNotLocal(_)
            | Self::GatewayDown(_)
            | Self::NobodyHas(_)
            | Self::NidDown(_)
            | Self::PortsDiffer(..) => None,
        }
    }

    /// Describes the reason in words.
    #[must_use]
    pub fn told(&self, site: &Site) -> String {
        let name = |at: usize| site.member_name(at);
        match self {
            Self::NoPath(at, why) => format!("{}: {why}", name(*at)),
            Self::GatewayUnknown(nid) => format!("no node of the files has the gateway {nid}"),
            Self::GatewayNotLocal(nid) => {
                format!("the gateway {nid} is on no local network that works")
            }
            Self::GatewayDown(nid) => format!("the gateway {nid} is down"),
            Self::NotRouting(at) => format!("the gateway {} does not forward", name(*at)),
            Self::FarSideDown(at, net) => {
                format!(
                    "the gateway {} has no interface on {net} that works",
                    name(*at)
                )
            }
            Self::FarSideQuiet(at, net) => format!(
                "no node on {net} has a route by {}, whose interface there counts as down",
                name(*at)
            ),
            Self::Loop(at) => format!(
                "{} sends the message back, or the path has too many hops",
                name(*at)
            ),
            Self::Turned(at, net) => format!(
                "{} sends the message back onto {net}, from which it came, and the next node drops it",
                name(*at)
            ),
            Self::NobodyHas(nid) => format!("no node of the files has {nid}"),
            Self::NidDown(nid) => format!("{nid} is down"),
            Self::Dropped(at, net, by) => format!(
                "{} drops messages from {net} by {by}: drop_asym_route is set, and it has no route back by that gateway",
                name(*at)
            ),
            Self::PortsDiffer([at, next], [port, other]) => format!(
                "ports differ: {} listens and dials on {port}, and {} on {other}",
                name(*at),
                name(*next)
            ),
            Self::Answer(why) => format!("the answer is lost: {}", why.told(site)),
        }
    }
}
