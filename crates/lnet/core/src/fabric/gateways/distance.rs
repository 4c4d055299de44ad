//! The distance to a NID, by which upper layers rank the NIDs of a peer.

use lnet_types::Nid;

use crate::fabric::Fabric;
use crate::fabric::select::SelectError;

/// The distance to a NID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Distance {
    /// Hops: 0 for this node's own NIDs (1 if `local_nid_dist_zero` is off), 1 on a local net.
    pub hops: u32,
    /// The rank among equal distances, smaller is nearer: 0 for loopback, 1 for this node's own NIDs, otherwise 2 and
    /// up in the order of the local interfaces.
    pub order: u32,
}

/// The order of the first local interface, and of all NIDs behind routers, which differ by their hops.
const FIRST_ORDER_OF_NET: u32 = 2;

impl Fabric {
    /// Returns the distance to `nid`.
    ///
    /// # Errors
    ///
    /// [`SelectError::NoRoute`] if neither a local net nor a route leads to it.
    // [PATH-61] [PATH-62]
    pub(crate) fn distance(&self, nid: Nid) -> Result<Distance, SelectError> {
        if let Some(own) = self.nis.by_nid(nid) {
            return Ok(Distance {
                hops: u32::from(!self.globals().local_nid_dist_zero),
                order: u32::from(!own.nid.is_loopback()),
            });
        }
        let net = nid.net();
        if let Some(at) = self.nis.real().iter().position(|ni| ni.nid.net() == net) {
            return Ok(Distance {
                hops: 1,
                order: FIRST_ORDER_OF_NET.saturating_add(at as u32),
            });
        }
        let routes = self.routes.to(net).iter();
        let hops = routes
            .map(|state| u32::from(state.route.hops.unwrap_or(1)))
            .min();
        Ok(Distance {
            hops: hops.ok_or(SelectError::NoRoute(net))? + 1,
            order: FIRST_ORDER_OF_NET,
        })
    }
}
