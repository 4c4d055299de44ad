//! Why a node on an o2ib network was not reached: what the attempts of an endpoint to connect have counted.

use std::fmt;

use lnet_node::{ConnectFailure, Node};
use lnet_wire::o2ib::RejectionReason;

/// The end of the attempts to connect over RDMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreached {
    /// The node rejected the request.
    Rejected(RejectionReason),
    /// No node saw the request, or the request was not made.
    Failed(ConnectFailure),
    /// The request was not answered.
    Silent,
}

impl Unreached {
    /// Returns why the endpoint has no connection over RDMA; `None` if it had one, or has no o2ib interface.
    pub(crate) fn of(node: &Node) -> Option<Self> {
        node.look(|engine| {
            let stats = engine.o2iblnd_stats()?;
            if stats.established > 0 {
                return None;
            }
            let rejected = stats.rejections.iter().next();
            let rejected = rejected.map(|(reason, _)| Self::Rejected(reason));
            let failed = stats.failed.iter().next();
            let failed = failed.map(|(failure, _)| Self::Failed(failure));
            rejected.or(failed).or(Some(Self::Silent))
        })
    }
}

impl fmt::Display for Unreached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rejected(reason) => meaning(*reason),
            Self::Failed(ConnectFailure::Unreachable) => {
                "the address has no route over RDMA, or does not answer"
            }
            Self::Failed(ConnectFailure::NobodyListens) => {
                "the host answers over RDMA, and nothing listens at LNet's service number"
            }
            Self::Failed(ConnectFailure::Stale) => {
                "the host still has an older connection of this machine"
            }
            Self::Failed(ConnectFailure::Local) => "the device of this machine refused",
            Self::Failed(_) => "the request was rejected without a reason of LNet",
            Self::Silent => "the connection request has no answer",
        })
    }
}

/// Returns what a reason says of the node that rejected a request.
fn meaning(reason: RejectionReason) -> &'static str {
    match reason {
        RejectionReason::ConnRace => "both nodes dial at the same moment",
        RejectionReason::NoResources => {
            "the node has no memory, or its device no resources, for another connection"
        }
        RejectionReason::Fatal => {
            "the node has no interface with this NID (perhaps another o2ib network or another address), or does not \
             accept the request"
        }
        RejectionReason::ConnUncompat => "the node speaks another version of the protocol",
        RejectionReason::ConnStale => {
            "the node closes connections of an earlier start of this machine"
        }
        RejectionReason::RdmaFrags => {
            "the node accepts fewer fragments than this machine needs (map_on_demand)"
        }
        RejectionReason::MsgQueueSize => {
            "the node accepts fewer peer_credits than this machine has"
        }
        RejectionReason::InvalidSrvId => "nothing listens at LNet's service number",
        RejectionReason::Early => {
            "the node's interface with this address is not active yet, or has no LNet network"
        }
    }
}
