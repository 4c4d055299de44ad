//! Why a message does not arrive.

use lnet_types::{Net, Nid};

use crate::site::Site;

/// Why a message does not arrive. Members are indices of [`Site::members`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// A member has no path, for this reason.
    NoPath(usize, String),
    /// No node of the files has a gateway's NID.
    GatewayUnknown(Nid),
    /// A gateway is on no local network that works.
    GatewayNotLocal(Nid),
    /// A gateway does not answer.
    GatewayDown(Nid),
    /// A gateway does not forward.
    NotRouting(usize),
    /// A gateway's interfaces on the remote network do not work.
    FarSideDown(usize, Net),
    /// Nobody sends to a gateway on the remote network, so that its interface there counts as down.
    FarSideQuiet(usize, Net),
    /// Gateways send it in a circle, or by more of them than are followed.
    Loop(usize),
    /// No node has the NID.
    NobodyHas(Nid),
    /// The interface of this NID does not work.
    NidDown(Nid),
    /// A member drops what comes from a network by a gateway by which it has no route back.
    Dropped(usize, Net, Nid),
    /// The message arrives, and its answer does not.
    Answer(Box<Trouble>),
}

impl Trouble {
    /// In words.
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
                "nobody on {net} has a route by {}, whose interface there counts as down",
                name(*at)
            ),
            Self::Loop(at) => format!(
                "{} sends it back to where it was, or it takes too many hops",
                name(*at)
            ),
            Self::NobodyHas(nid) => format!("no node of the files has {nid}"),
            Self::NidDown(nid) => format!("{nid} is down"),
            Self::Dropped(at, net, by) => format!(
                "{} drops what comes from {net} by {by}: drop_asym_route is set, and it has no route back by that gateway",
                name(*at)
            ),
            Self::Answer(why) => format!("the answer is lost: {}", why.told(site)),
        }
    }
}
