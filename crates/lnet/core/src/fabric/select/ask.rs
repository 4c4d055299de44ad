//! Queries for the path that a message would take, without sending it.

use lnet_types::{Nid, ProcessId};
use lnet_wire::LNET_PORTAL;
use smallvec::SmallVec;

use crate::fabric::Fabric;
use crate::fabric::select::{Exact, Observer, PathRequest, Request, Retry, SelectError};
use crate::ground::ids::PeerNiId;
use crate::ground::io::NiId;

/// A query for the path of a PUT or GET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendQuery {
    /// The local NID to send from; `None` for any.
    pub source: Option<Nid>,
    /// The destination.
    pub target: Nid,
    /// The portal. Portal 0 is LNet's own traffic, which has no pinned source.
    pub portal: u32,
    /// The NUMA node (CPT) of the payload.
    pub cpt: u16,
    /// A gateway to avoid while there is another one, as in [`SendHints::avoid`](crate::SendHints::avoid).
    pub avoid: Option<Nid>,
    /// For a resend: the pairs of local and peer NID that earlier attempts used; `None` for a first attempt.
    pub used: Option<Vec<(Nid, Nid)>>,
    /// For a resend: the peer NI to take if it is up and in full health.
    pub resend_to: Option<Nid>,
}

impl SendQuery {
    /// Returns a query for an ordinary first attempt to `target`.
    #[must_use]
    pub const fn to(target: Nid) -> Self {
        Self {
            source: None,
            target,
            portal: LNET_PORTAL + 1,
            cpt: 0,
            avoid: None,
            used: None,
            resend_to: None,
        }
    }
}

/// The path that a message would take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The local interface.
    pub ni: NiId,
    /// Its NID.
    pub source: Nid,
    /// The next hop: the destination or a gateway.
    pub next_hop: Nid,
    /// The final destination. If the peer is Multi-Rail, it may differ from the requested NID.
    pub destination: Nid,
}

impl Fabric {
    /// Returns the path that this message would take now, and reports to `observer` why. The code that selects paths
    /// for sending selects this path, too; nothing is sent and nothing changes.
    ///
    /// # Errors
    ///
    /// The reason why there is no path.
    pub(crate) fn explain<O: Observer>(
        &self,
        query: &SendQuery,
        observer: &mut O,
    ) -> Result<Choice, SelectError> {
        let send = PathRequest::Request(Request {
            source: query.source,
            target: ProcessId::lustre(query.target),
            reserved: query.portal == LNET_PORTAL,
            exact: match query.resend_to {
                Some(nid) if nid == query.target => Exact::FirstAttempt,
                _ => Exact::Never,
            },
            cpt: query.cpt,
            avoid: query.avoid,
        });
        let used: SmallVec<[(NiId, PeerNiId); 4]> = query
            .used
            .iter()
            .flatten()
            .filter_map(|&(ni, peer)| Some((self.nis.by_nid(ni)?.id, self.peers.id_of(peer)?)))
            .collect();
        let retry = query.used.as_ref().map(|_| Retry {
            used: &used,
            named: query.resend_to.and_then(|nid| self.peers.id_of(nid)),
        });
        let path = self.view().path(&send, retry.as_ref(), observer)?;
        Ok(self.choice_of(&path))
    }
}
