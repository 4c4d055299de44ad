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
        match self {
            Self::Rejected(reason) => f.write_str(reason.meaning()),
            Self::Failed(failure) => failure.fmt(f),
            Self::Silent => f.write_str("the connection request has no answer"),
        }
    }
}
