//! News for an administrator: changes of routes, health and peers, each reported once.
//!
//! The core keeps up to [`PENDING_MAX`] news until they are taken. It leaves out further news and counts them.

use std::collections::VecDeque;
use std::fmt;

use lnet_types::Nid;

use crate::fabric::Fabric;
use crate::fabric::gateways::obstacle::RouteFault;
use crate::fabric::peer::PeerNi;
use crate::fabric::watch::{HealthCause, Watched};
use crate::ground::health::Health;
use crate::ground::ids::PeerNiId;

/// A change that an administrator needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum News {
    /// The number of routes through a gateway that are down has changed.
    Routes {
        /// The gateway.
        gateway: Nid,
        /// Number of the gateway's routes that are down.
        down: u32,
        /// Number of the gateway's routes.
        all: u32,
        /// The reason why the first route that is down is down.
        fault: Option<RouteFault>,
    },
    /// The health of an interface of this node left its maximum, reached zero, or reached its maximum.
    NiHealth {
        /// The interface.
        nid: Nid,
        /// Its health.
        health: Health,
    },
    /// The health of an interface of a peer left its maximum, reached zero, or reached its maximum.
    PeerNiHealth {
        /// The interface.
        nid: Nid,
        /// Its health.
        health: Health,
    },
    /// A configured peer or a gateway has lost its last connection, or has a connection again.
    Peer {
        /// The interface of the peer.
        nid: Nid,
        /// True if there is a connection.
        connected: bool,
    },
}

/// News that have not been taken yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pending {
    queue: VecDeque<News>,
    left_out: u64,
}

/// The limit of news that are kept. The driver takes all news in every turn, so that few accumulate.
const PENDING_MAX: usize = 64;

impl Pending {
    /// Takes the news, and the number of news that were left out.
    pub(crate) fn take(&mut self) -> (Vec<News>, u64) {
        let left_out = std::mem::take(&mut self.left_out);
        (self.queue.drain(..).collect(), left_out)
    }

    fn push(&mut self, news: News) {
        if self.queue.len() < PENDING_MAX {
            self.queue.push_back(news);
        } else {
            self.left_out += 1;
        }
    }
}

/// Decides whether to report a change of health: when health leaves or reaches its maximum, and when it reaches zero.
/// Changes between the two are not reported.
fn is_news(before: Health, health: Health) -> bool {
    before.is_full() != health.is_full() || (health == Health::ZERO && before != health)
}

impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Routes {
                gateway,
                down,
                all,
                fault,
            } => {
                match down {
                    0 => write!(f, "routes by {gateway} are up again: {all}")?,
                    _ => write!(f, "routes by {gateway} are down: {down} of {all}")?,
                }
                fault.map_or(Ok(()), |fault| write!(f, " ({fault})"))
            }
            Self::NiHealth { nid, health } => health_of(f, "this node's interface", *nid, *health),
            Self::PeerNiHealth { nid, health } => health_of(f, "peer interface", *nid, *health),
            Self::Peer { nid, connected } => match connected {
                true => write!(f, "peer interface {nid} is connected again"),
                false => write!(f, "peer interface {nid} is no longer connected"),
            },
        }
    }
}

fn health_of(f: &mut fmt::Formatter<'_>, whose: &str, nid: Nid, health: Health) -> fmt::Result {
    match health.is_full() {
        true => write!(f, "{whose} {nid} has full health again"),
        false => write!(
            f,
            "{whose} {nid} has health {}: messages fail there",
            health.value()
        ),
    }
}

impl Fabric {
    /// Reports the routes through a gateway if another number of them is down than in the last report.
    pub(crate) fn report_routes(&mut self, gateway: Nid) {
        let Some(state) = self.routes.gateway(gateway) else {
            return;
        };
        let (alive, told) = (state.alive, state.reported_down);
        let (mut all, mut down, mut fault) = (0, 0, None);
        for route in self.routes.via_mut(gateway) {
            all += 1;
            if !alive || !route.is_up() {
                down += 1;
                fault = fault.or(route.fault);
            }
        }
        if down == told {
            return;
        }
        if let Some(state) = self.routes.gateway_mut(gateway) {
            state.reported_down = down;
        }
        self.news.push(News::Routes {
            gateway,
            down,
            all,
            fault,
        });
        self.happened(Watched::Routes {
            gateway,
            down,
            all,
            fault,
        });
    }

    pub(crate) fn report_ni_health(
        &mut self,
        nid: Nid,
        (before, health): (Health, Health),
        cause: HealthCause,
    ) {
        self.ni_health_happened(nid, (before, health), cause);
        if is_news(before, health) {
            self.news.push(News::NiHealth { nid, health });
        }
    }

    pub(in crate::fabric) fn report_peer_health(
        &mut self,
        id: PeerNiId,
        before: Health,
        cause: HealthCause,
    ) {
        self.peer_health_happened(id, before, cause);
        let Some(peer_ni) = self.peers.get(id) else {
            return;
        };
        let (nid, health) = (peer_ni.nid, peer_ni.health);
        if is_news(before, health) {
            self.news.push(News::PeerNiHealth { nid, health });
        }
    }

    /// Reports that connections to a peer's interface were made or closed, if the peer is configured or a gateway.
    /// Connections of other peers change too often to be news.
    pub(crate) fn report_peer(&mut self, nid: Nid, was_down: bool) {
        let peer_ni = self.peers.id_of(nid).and_then(|id| self.peers.get(id));
        let is_down = |peer_ni: &PeerNi| peer_ni.down_since.is_some();
        let Some(down) = peer_ni.map(is_down).filter(|&down| down != was_down) else {
            return;
        };
        let owner = self.peers.owner_of(nid);
        if owner.is_some_and(|owner| owner.configured || owner.routes > 0) {
            let connected = !down;
            self.news.push(News::Peer { nid, connected });
            self.happened(Watched::Peer { nid, connected });
        }
    }
}
