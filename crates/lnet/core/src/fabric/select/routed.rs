//! Selection of a gateway. The rules are in `docs/selection/routes.md`.

use lnet_policy::PreferredList;
use lnet_types::{Net, Nid, ProcessId};

use crate::fabric::gateways::route::RouteState;
use crate::fabric::ni::Ni;
use crate::fabric::peer::{Peer, PeerNet};
use crate::fabric::select::contest::{Contender, Contest, Ties, by_credits, by_health};
use crate::fabric::select::observe::{Criterion, Exclusion, Level, Observer, Subject};
use crate::fabric::select::{Path, Search, SelectError, View};
use crate::ground::ids::PeerNiId;

/// The contest among the nets of a peer that routes lead to.
// [GATE-1]
const REMOTE_NET: Contest<3> = Contest {
    level: Level::RemoteNet,
    criteria: [
        Criterion::PeerNetHealth,
        Criterion::PeerNetPriority,
        Criterion::Sequence,
    ],
    ties: Ties::First,
};

/// The contest among routes. Among equal ones the one scanned last wins, as in kernels.
// [GATE-3] [GATE-5] [UDSP-7]
const ROUTE: Contest<7> = Contest {
    level: Level::Route,
    criteria: [
        Criterion::PreferredGateway,
        Criterion::RoutePriority,
        Criterion::Hops,
        Criterion::Health,
        Criterion::QueuedBytes,
        Criterion::Credits,
        Criterion::Sequence,
    ],
    ties: Ties::Last,
};

/// The number of consecutive unanswered messages after which other gateways are preferred. A single message is often
/// lost because of its target. An answer through the gateway resets the count.
const UNANSWERED_MESSAGES: u32 = 3;

/// A route, and the interface of its gateway to send to.
#[derive(Clone, Copy, Debug)]
struct RouteCandidate<'a> {
    state: &'a RouteState,
    gateway: PeerNiId,
    /// The reasons to prefer any other usable route, whatever the criteria say: that the gateway cannot be reached, and
    /// that it seems dead or that the caller avoids it.
    avoided: [Option<Exclusion>; 2],
}

impl<'a> View<'a> {
    /// Selects the path for B1C and B2C without a shared net: chooses the best of the peer's nets that a route leads
    /// to, and the peer's best interface on it, which becomes the destination.
    pub(super) fn pick_multi_rail_routed<O: Observer>(
        &self,
        search: &Search<'_>,
        peer: &Peer,
        observer: &mut O,
    ) -> Result<Path, SelectError> {
        let nets = peer
            .nets
            .iter()
            .filter(|on| !self.routes.to(on.net).is_empty());
        let contenders = nets.map(|on| Contender {
            item: on,
            key: [
                by_health(on.health),
                on.priority.priority.value().into(),
                on.seq,
            ],
        });
        let best = REMOTE_NET.best(contenders, |on| Subject::Net(on.net), observer);
        let on: &PeerNet = best
            .ok_or(SelectError::NoRoute(search.target.nid.net()))?
            .item;
        // The used paths of a resend are pairs of interfaces up to the next hop, so they do not limit this choice.
        let unlimited = Search {
            limits: super::limits::Limits::new(self.globals, None),
            ..*search
        };
        let nis = on.nis.iter().copied();
        let last = self.best_peer_ni(&unlimited, Level::FinalPeerNi, nis, None, observer);
        let nid = last.map_or(search.target.nid, |id| self.nid_of(id));
        self.over_gateway(
            search,
            on.net,
            ProcessId {
                nid,
                ..search.target
            },
            true,
            observer,
        )
    }

    /// Selects the path over the best gateway to `net`. For a peer that is not Multi-Rail, a resend uses the same
    /// gateway from another local interface, if the gateway is in full health.
    // [ROUTE-1]
    pub(super) fn over_gateway<O: Observer>(
        &self,
        search: &Search<'_>,
        net: Net,
        dest: ProcessId,
        multi_rail: bool,
        observer: &mut O,
    ) -> Result<Path, SelectError> {
        let limits = &search.limits;
        let (source, candidate) = if multi_rail {
            (
                search.source,
                self.best_candidate(search, net, dest, observer)?,
            )
        } else {
            self.single_rail_candidate(search, net, dest, observer)?
        };
        let gateway = self
            .peers
            .get(candidate.gateway)
            .ok_or(SelectError::NoRoute(net))?;
        if limits.are_active() && !gateway.is_optimal() {
            return Err(SelectError::NothingLeft);
        }
        let ni = match source {
            Some(ni) => ni,
            None if multi_rail => {
                let pair = || std::iter::once((candidate.gateway, gateway));
                let check = |ni: &_| limits.check_pairing(ni, pair());
                self.best_ni(search, gateway.nid.net(), check, observer)
                    .ok_or(SelectError::NothingLeft)?
            }
            None => {
                let check = |ni: &_| limits.check_ni(ni, gateway.nid);
                self.best_ni(search, gateway.nid.net(), check, observer)
                    .ok_or(SelectError::NothingLeft)?
            }
        };
        Ok(Path {
            ni: ni.id,
            next_hop: ProcessId::lustre(gateway.nid),
            dest: dest.nid,
            route: Some((net, candidate.state.route.gateway)),
            retryable: true,
        })
    }

    /// Selects the gateway for a peer that is not Multi-Rail, and the local interface if it is already decided. A
    /// first attempt takes a gateway that can be reached from the interface that the peer has always seen. If no such
    /// gateway is alive, or that interface has a fatal error, the design lets the peer see another interface, and
    /// kernels fail.
    // [PATH-54]
    fn single_rail_candidate<'q, O: Observer>(
        &self,
        search: &Search<'q>,
        net: Net,
        dest: ProcessId,
        observer: &mut O,
    ) -> Result<(Option<&'q Ni>, RouteCandidate<'_>), SelectError>
    where
        'a: 'q,
    {
        let unlimited = Search {
            limits: super::limits::Limits::new(self.globals, None),
            ..*search
        };
        let is_kernel = self.globals.profile.is_lustre();
        let pinned = self.pinned(search).filter(|_| !search.limits.are_active());
        let pinned = pinned.filter(|ni| is_kernel || !ni.fatal);
        if pinned.is_some() {
            let choice = Search {
                source: pinned,
                ..unlimited
            };
            let candidate = self.best_candidate(&choice, net, dest, observer);
            if candidate.is_ok() || is_kernel {
                return Ok((pinned, candidate?));
            }
        }
        Ok((
            search.source,
            self.best_candidate(&unlimited, net, dest, observer)?,
        ))
    }

    // [ROUTE-17]
    fn best_candidate<O: Observer>(
        &self,
        search: &Search<'_>,
        net: Net,
        dest: ProcessId,
        observer: &mut O,
    ) -> Result<RouteCandidate<'_>, SelectError> {
        let mut candidates: smallvec::SmallVec<[RouteCandidate<'_>; 8]> = smallvec::SmallVec::new();
        for state in self.routes.to(net) {
            match self.candidate(search, state, observer) {
                Ok(candidate) => candidates.push(candidate),
                Err(why) if O::WATCHES => {
                    let gateway = state.route.gateway;
                    observer.excluded(Level::Route, Subject::Route { net, gateway }, why);
                }
                Err(_) => {}
            }
        }
        self.remove_avoided(&mut candidates, net, observer);
        let stranger;
        let preferred = match self.peers.by_nid(dest.nid) {
            Some(last) => last.gateways.as_ref(),
            None => {
                stranger = self.policies.of_stranger(dest.nid);
                stranger.as_ref().map(|effect| &effect.gateways)
            }
        };
        let contenders = candidates
            .iter()
            .filter_map(|candidate| self.contender(*candidate, preferred));
        let subject = |candidate: RouteCandidate<'_>| Subject::Route {
            net,
            gateway: candidate.state.route.gateway,
        };
        let best = ROUTE
            .best(contenders, subject, observer)
            .map(|best| best.item);
        best.ok_or(if search.limits.are_active() {
            SelectError::NothingLeft
        } else {
            SelectError::NoRoute(net)
        })
    }

    /// Returns whether a live route to a net leads through the peer with this NID.
    pub(crate) fn leads_through(&self, net: Net, nid: Nid) -> bool {
        let primary = self.peers.primary_of(nid);
        let mut routes = self.routes.to(net).iter();
        routes.any(|state| {
            self.routes.is_alive(state) && self.peers.primary_of(state.route.gateway) == primary
        })
    }

    /// Removes the gateways that cannot be reached, then those that seem dead or that the caller avoids, each time while
    /// others remain. So an unreachable gateway is worse than one to avoid, and of several unreachable ones those that
    /// have answered are left.
    fn remove_avoided<O: Observer>(
        &self,
        candidates: &mut smallvec::SmallVec<[RouteCandidate<'_>; 8]>,
        net: Net,
        observer: &mut O,
    ) {
        for reason in 0..2 {
            let why = |candidate: &RouteCandidate<'_>| candidate.avoided[reason];
            if candidates.iter().all(|candidate| why(candidate).is_some()) {
                continue;
            }
            candidates.retain(|candidate| {
                let why = why(candidate);
                if O::WATCHES
                    && let Some(why) = why
                {
                    let gateway = candidate.state.route.gateway;
                    observer.excluded(Level::Route, Subject::Route { net, gateway }, why);
                }
                why.is_none()
            });
        }
    }

    /// Returns the reasons to prefer another gateway. Kernels do none of this.
    // [GATE-8]
    fn avoided(&self, search: &Search<'_>, gateway: &Peer, by: PeerNiId) -> [Option<Exclusion>; 2] {
        if self.globals.profile.is_lustre() {
            return [None; 2];
        }
        let net = self.peers.get(by).map(|peer_ni| peer_ni.nid.net());
        let is_cut_off = net.is_some_and(|net| self.nis.on_net(net).all(|ni| ni.fatal));
        let is_named = search.avoid.is_some_and(|nid| gateway.nids.contains(&nid));
        let is_silent = gateway.silent >= UNANSWERED_MESSAGES;
        let named = is_named.then_some(Exclusion::Avoided);
        [
            is_cut_off.then_some(Exclusion::NoLink),
            named.or(is_silent.then_some(Exclusion::Silent)),
        ]
    }

    /// Returns a live route, with the interface of its gateway to send to.
    // [GATE-2] [GATE-6] [PATH-9]
    fn candidate<'s, O: Observer>(
        &self,
        search: &Search<'_>,
        state: &'s RouteState,
        observer: &mut O,
    ) -> Result<RouteCandidate<'s>, Exclusion> {
        if !self.routes.is_alive(state) {
            return Err(Exclusion::DeadRoute);
        }
        let peer = self.peers.owner_of(state.route.gateway);
        let is_of_gateway = |nid| peer.is_some_and(|peer| peer.nids.contains(&nid));
        if search.came_from.is_some_and(is_of_gateway) {
            return Err(Exclusion::CameFrom);
        }
        let reachable = |on: &&PeerNet| match search.source {
            Some(source) => source.nid.net() == on.net,
            None => self.nis.has_net(on.net),
        };
        let nets = peer
            .into_iter()
            .flat_map(|peer| peer.nets.iter())
            .filter(reachable);
        let nis = nets.flat_map(|on| on.nis.iter().copied());
        if nis.clone().next().is_none() {
            return Err(Exclusion::NotFromSource);
        }
        let usable = nis.filter(|&id| self.has_counterpart(search, id));
        let gateway = self
            .best_peer_ni(search, Level::GatewayNi, usable, search.source, observer)
            .ok_or(Exclusion::NoCounterpart)?;
        let avoided = peer.map_or([None; 2], |peer| self.avoided(search, peer, gateway));
        Ok(RouteCandidate {
            state,
            gateway,
            avoided,
        })
    }

    /// Returns whether a local interface exists from which a resend may use this interface of a gateway.
    fn has_counterpart(&self, search: &Search<'_>, id: PeerNiId) -> bool {
        if !search.limits.are_active() || search.source.is_some() {
            return true;
        }
        let Some(peer_ni) = self.peers.get(id) else {
            return false;
        };
        let pair = || std::iter::once((id, peer_ni));
        let mut nis = self.nis.on_net(peer_ni.nid.net());
        nis.any(|ni| search.limits.check_pairing(ni, pair()).is_ok())
    }

    // [GATE-4]
    fn contender<'s>(
        &self,
        candidate: RouteCandidate<'s>,
        preferred: Option<&PreferredList>,
    ) -> Option<Contender<RouteCandidate<'s>, 7>> {
        let route = &candidate.state.route;
        let gateway = self.peers.get(candidate.gateway)?;
        let preferred = preferred.is_some_and(|list| list.nids().any(|nid| nid == gateway.primary));
        Some(Contender {
            item: candidate,
            key: [
                (!preferred).into(),
                route.priority.into(),
                route.hops.unwrap_or(1).into(),
                by_health(gateway.health),
                gateway.queued_bytes(),
                by_credits(gateway.credits.left(self.peer_limit(gateway.nid.net()))),
                candidate.state.seq,
            ],
        })
    }
}
