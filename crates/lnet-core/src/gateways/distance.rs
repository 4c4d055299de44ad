//! How far away a NID is: what upper layers rank the NIDs of a peer by (section 2.13 of
//! lnet-selection).

use lnet_types::Nid;

use crate::Core;
use crate::select::SelectError;

/// How far away a NID is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Distance {
    /// Hops; 0 for our own NIDs, 1 on a net of ours.
    pub hops: u32,
    /// Among equal distances the smaller is nearer: 0 for loopback, 1 for our own NIDs, else 2 and up
    /// in the order of our interfaces.
    pub order: u32,
}

/// The order of what is not on a net of ours, which its distance tells apart.
const FIRST_ORDER_OF_NET: u32 = 2;

impl Core {
    /// How far away `nid` is.
    ///
    /// # Errors
    ///
    /// [`SelectError::NoRoute`] when neither a local net nor a route leads there.
    pub fn distance(&self, nid: Nid) -> Result<Distance, SelectError> {
        if let Some(own) = self.nis.by_nid(nid) {
            return Ok(Distance {
                hops: u32::from(!self.config.globals.local_nid_dist_zero),
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
