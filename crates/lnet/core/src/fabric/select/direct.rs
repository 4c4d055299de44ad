//! Selection of net, local interface and peer interface. The rules are in `docs/selection/paths.md`.

use std::iter;

use lnet_policy::Profile;
use lnet_types::{Net, ProcessId};

use crate::fabric::ni::Ni;
use crate::fabric::peer::{Peer, PeerNet, PeerNi};
use crate::fabric::select::contest::{Contender, Contest, Ties, by_credits, by_health};
use crate::fabric::select::observe::{Criterion, Exclusion, Level, Observer, Subject};
use crate::fabric::select::{Path, Search, SelectError, View};
use crate::ground::ids::PeerNiId;

/// The contest among the nets that both ends have.
// [PATH-20] [PATH-22] [UDSP-4]
const NET: Contest<6> = Contest {
    level: Level::Net,
    criteria: [
        Criterion::PeerNetHealth,
        Criterion::PeerNetPriority,
        Criterion::LocalNetHealth,
        Criterion::LocalNetPriority,
        Criterion::Sequence,
        Criterion::LocalNetSequence,
    ],
    ties: Ties::First,
};

/// The contest among the local interfaces on a net. `Used` differs only for resends.
// [PATH-30] [PATH-31] [UDSP-4]
const LOCAL_NI: Contest<8> = Contest {
    level: Level::LocalNi,
    criteria: [
        Criterion::Fatal,
        Criterion::Health,
        Criterion::Used,
        Criterion::Priority,
        Criterion::Device,
        Criterion::Distance,
        Criterion::Credits,
        Criterion::Sequence,
    ],
    ties: Ties::First,
};

/// The contest among the peer interfaces on a net.
// [PATH-40] [UDSP-4]
const PEER_NI: Contest<6> = Contest {
    level: Level::PeerNi,
    criteria: [
        Criterion::Health,
        Criterion::Used,
        Criterion::Priority,
        Criterion::Preference,
        Criterion::Credits,
        Criterion::Sequence,
    ],
    ties: Ties::First,
};

impl<'a> View<'a> {
    /// Selects the path for A1C and A1D: from the source to the destination. In the design, the destination of a
    /// Multi-Rail peer is its best interface on the source's net.
    // [PATH-7] [PATH-8]
    pub(super) fn pick_from_source<O: Observer>(
        &self,
        search: &Search<'_>,
        source: &Ni,
        peer: Option<&Peer>,
        observer: &mut O,
    ) -> Result<Path, SelectError> {
        let on = peer
            .filter(|_| self.globals.profile == Profile::Design)
            .and_then(|peer| peer.on_net(source.nid.net()));
        let Some(on) = on else {
            let (from, to) = (source.nid, search.target.nid);
            if from.is_large() != to.is_large() {
                return Err(SelectError::OtherAddressSize(from, to));
            }
            return Ok(direct(source, search.target));
        };
        let chosen = self
            .best_peer_ni(
                search,
                Level::PeerNi,
                on.nis.iter().copied(),
                Some(source),
                observer,
            )
            .ok_or(SelectError::NothingLeft)?;
        let nid = self.nid_of(chosen);
        Ok(direct(
            source,
            ProcessId {
                nid,
                ..search.target
            },
        ))
    }

    /// Selects the path for B1D: to exactly this interface, from the pinned interface. A resend ignores the pin and
    /// takes another local interface, if the peer's interface is up and in full health.
    // [PATH-11] [RESEND-24]
    pub(super) fn pick_single_rail<O: Observer>(
        &self,
        search: &Search<'_>,
        observer: &mut O,
    ) -> Result<Path, SelectError> {
        let target = search.target.nid;
        let net = target.net();
        let limits = &search.limits;
        let check = |ni: &Ni| limits.check_ni(ni, target);
        if limits.are_active() {
            let well = search.peer_ni.is_some_and(PeerNi::is_optimal);
            let other = well
                .then(|| self.best_ni(search, net, check, observer))
                .flatten();
            return other
                .map(|ni| direct(ni, search.target))
                .ok_or(SelectError::NothingLeft);
        }
        // [PATH-52]
        let pinned = self
            .pinned(search)
            .filter(|ni| !search.reserved && ni.nid.net() == net && check(ni).is_ok());
        pinned
            .or_else(|| self.best_ni(search, net, check, observer))
            .map(|ni| direct(ni, search.target))
            .ok_or(SelectError::NoInterface(net))
    }

    /// Selects the path for B1C and B2C: over the best net that this node shares with the peer; without one, over a
    /// gateway.
    // [PATH-10] [PATH-41]
    pub(super) fn pick_multi_rail<O: Observer>(
        &self,
        search: &Search<'_>,
        peer: &Peer,
        observer: &mut O,
    ) -> Result<Path, SelectError> {
        if !peer.nets.iter().any(|on| self.nis.has_net(on.net)) {
            return self.pick_multi_rail_routed(search, peer, observer);
        }
        let Some(on) = self.best_net(search, peer, observer) else {
            // A resend that has no path on a shared net may still take a route.
            let routed = self.pick_multi_rail_routed(search, peer, observer);
            return routed.map_err(|_| SelectError::NothingLeft);
        };
        let nis = || on.nis.iter().copied();
        let pairs = || nis().filter_map(|id| Some((id, self.peers.get(id)?)));
        let check = |ni: &Ni| search.limits.check_pairing(ni, pairs());
        let ni = self
            .best_ni(search, on.net, check, observer)
            .ok_or(SelectError::NothingLeft)?;
        let chosen = self
            .best_peer_ni(search, Level::PeerNi, nis(), Some(ni), observer)
            .ok_or(SelectError::NothingLeft)?;
        let nid = self.nid_of(chosen);
        Ok(direct(
            ni,
            ProcessId {
                nid,
                ..search.target
            },
        ))
    }

    /// Returns the best net on which both ends have an interface that may be used.
    fn best_net<'p, O: Observer>(
        &self,
        search: &Search<'_>,
        peer: &'p Peer,
        observer: &mut O,
    ) -> Option<&'p PeerNet> {
        if O::WATCHES {
            for on in &peer.nets {
                if let Err(why) = self.check_net(search, on) {
                    observer.excluded(Level::Net, Subject::Net(on.net), why);
                }
            }
        }
        let only = self.net_of_named(search, peer);
        let usable = peer
            .nets
            .iter()
            .filter(|on| self.check_net(search, on).is_ok())
            .filter(|on| only.is_none_or(|only| only == on.net));
        // If only one net is usable and nothing is observed, no comparison is needed.
        let mut rest = usable.clone();
        if let (false, Some(on), None) = (O::WATCHES, rest.next(), rest.next()) {
            return Some(on);
        }
        let contenders = usable.filter_map(|on| self.net_contender(on));
        NET.best(contenders, |on| Subject::Net(on.net), observer)
            .map(|best| best.item)
    }

    /// Returns the net of the peer NI that was named for this resend, if that peer NI may be used.
    fn net_of_named(&self, search: &Search<'_>, peer: &Peer) -> Option<Net> {
        let named = search.limits.named()?;
        let on = peer.nets.iter().find(|on| on.nis.contains(&named))?;
        let peer_ni = self.peers.get(named)?;
        let pair = || iter::once((named, peer_ni));
        let mut nis = self.nis.on_net(on.net);
        nis.any(|ni| search.limits.check_pairing(ni, pair()).is_ok())
            .then_some(on.net)
    }

    fn check_net(&self, search: &Search<'_>, on: &PeerNet) -> Result<(), Exclusion> {
        let mut nis = self.nis.on_net(on.net).peekable();
        if nis.peek().is_none() {
            return Err(Exclusion::NetNotLocal);
        }
        let pairs = || {
            on.nis
                .iter()
                .filter_map(|&id| Some((id, self.peers.get(id)?)))
        };
        if nis.any(|ni| search.limits.check_pairing(ni, pairs()).is_ok()) {
            return Ok(());
        }
        Err(Exclusion::NoCounterpart)
    }

    // [PATH-21]
    fn net_contender<'p>(&self, on: &'p PeerNet) -> Option<Contender<&'p PeerNet, 6>> {
        let state = self.nis.net(on.net)?;
        Some(Contender {
            item: on,
            key: [
                by_health(on.health),
                on.priority.priority.value().into(),
                by_health(self.nis.net_health(on.net)),
                state.priority.priority.value().into(),
                on.seq,
                state.seq,
            ],
        })
    }

    /// Returns the best local interface on a net, among those that `check` allows.
    pub(super) fn best_ni<O: Observer>(
        &self,
        search: &Search<'_>,
        net: Net,
        check: impl Fn(&Ni) -> Result<(), Exclusion>,
        observer: &mut O,
    ) -> Option<&'a Ni> {
        if O::WATCHES {
            for ni in self.nis.on_net(net) {
                if let Err(why) = check(ni) {
                    observer.excluded(Level::LocalNi, Subject::Ni(ni.id, ni.nid), why);
                }
            }
        }
        let allowed = self.nis.on_net(net).filter(|ni| check(ni).is_ok());
        let contenders = allowed.map(|ni| self.ni_contender(search, ni));
        LOCAL_NI
            .best(contenders, |ni| Subject::Ni(ni.id, ni.nid), observer)
            .map(|best| best.item)
    }

    // [PATH-32] [PATH-34]
    fn ni_contender(&self, search: &Search<'_>, ni: &'a Ni) -> Contender<&'a Ni, 8> {
        let distance = ni.device.distance(search.cpt).max(self.globals.numa_range);
        Contender {
            item: ni,
            key: [
                ni.fatal.into(),
                by_health(ni.health),
                search.limits.has_used_ni(ni.id).into(),
                ni.priority.priority.value().into(),
                ni.device.rank.into(),
                distance.into(),
                by_credits(ni.tx_credits()),
                ni.seq,
            ],
        }
    }

    /// Returns the best of these peer NIs as seen from a local interface, among those that the limits of a resend
    /// allow.
    pub(super) fn best_peer_ni<O: Observer>(
        &self,
        search: &Search<'_>,
        level: Level,
        ids: impl Iterator<Item = PeerNiId> + Clone,
        ni: Option<&Ni>,
        observer: &mut O,
    ) -> Option<PeerNiId> {
        let limits = &search.limits;
        let known = ids.filter_map(|id| Some((id, self.peers.get(id)?)));
        let check = |id, peer_ni| limits.check_peer_ni(ni, id, peer_ni);
        if O::WATCHES {
            for (id, peer_ni) in known.clone() {
                if let Err(why) = check(id, peer_ni) {
                    observer.excluded(level, Subject::PeerNi(peer_ni.nid), why);
                }
            }
        }
        let allowed = known.filter(|&(id, peer_ni)| check(id, peer_ni).is_ok());
        if let Some(named) = limits.named()
            && let Some((id, peer_ni)) = allowed.clone().find(|&(id, _)| id == named)
        {
            if O::WATCHES {
                observer.chosen(level, Subject::PeerNi(peer_ni.nid), None);
            }
            return Some(id);
        }
        let mut limit = self.credit_limit();
        let contenders = allowed.map(|(id, peer_ni)| {
            let limit = limit(peer_ni.nid.net());
            self.peer_contender(search, id, peer_ni, ni, limit)
        });
        let contest = Contest { level, ..PEER_NI };
        let subject = |id| Subject::PeerNi(self.nid_of(id));
        contest
            .best(contenders, subject, observer)
            .map(|best| best.item)
    }

    /// Returns a function that looks up the credits of peer interfaces on a net. It looks them up again only when the
    /// net changes, since mostly all peer interfaces are on one net.
    fn credit_limit(&self) -> impl FnMut(Net) -> u32 {
        let mut known: Option<(Net, u32)> = None;
        move |net| match known {
            Some((of, limit)) if of == net => limit,
            _ => {
                let limit = self.peer_limit(net);
                known = Some((net, limit));
                limit
            }
        }
    }

    // [UDSP-6]
    fn peer_contender(
        &self,
        search: &Search<'_>,
        id: PeerNiId,
        peer_ni: &PeerNi,
        ni: Option<&Ni>,
        limit: u32,
    ) -> Contender<PeerNiId, 6> {
        let rank = ni.map_or(u32::MAX, |ni| {
            self.policies.rank(peer_ni.sources, ni).value()
        });
        Contender {
            item: id,
            key: [
                by_health(peer_ni.health),
                search.limits.has_used_peer_ni(id).into(),
                peer_ni.priority.priority.value().into(),
                rank.into(),
                by_credits(peer_ni.credits.left(limit)),
                peer_ni.seq,
            ],
        }
    }
}

/// Returns a path without a router.
fn direct(ni: &Ni, next_hop: ProcessId) -> Path {
    Path {
        ni: ni.id,
        next_hop,
        dest: next_hop.nid,
        route: None,
        retryable: true,
    }
}
