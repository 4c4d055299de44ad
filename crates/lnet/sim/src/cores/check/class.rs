//! Derives the paths that a first send may take, from the rules and from what a core shows.
//!
//! Selection compares health, then the effects of rules, then loads and round-robin turns. Loads and turns change
//! with every message. The criteria before them sort the paths into classes, and a first send takes a path of the
//! best class:
//!
//! ```text
//!  direct   net (peer's health, --dst NET, own health, --src NET) ▶ our NI (health, --src NID)
//!           ▶ peer's NI (health, --dst NID, pair)
//!  routed   peer's net and NI behind the gateway ▶ gateway (not silent, --rte, priority, hops, health) ▶ its NI ▶ our NI
//! ```
//!
//! This module follows the rules of `docs/selection`: [PATH-20], [PATH-30], [PATH-40], [GATE-3], [UDSP-30]. It shares
//! no code with selection or with the compiler of rules: it reads the rules one by one, and uses only the matching
//! test of the descriptors' grammar. Resends are not checked here, because their rules exclude paths; the other checkers cover them.

use lnet_core::{Core, NiId, NiView, PeerNiView, PeerView};
use lnet_policy::{Profile, Rule, Selector};
use lnet_types::expr::Descriptor;
use lnet_types::{Net, Nid};

/// The value that stands for no priority and no rank. It is worse than any other value.
const NONE: u32 = u32::MAX;

/// The number of messages in a row without a response after which a node uses another gateway. This does not apply
/// in the `lustre` profiles.
const SILENT: u32 = 3;

/// The paths of the best class: the local NI, or `None` if any may be chosen, and the next hop.
#[derive(Clone, Debug, Default)]
pub(super) struct Paths(Vec<(Option<NiId>, Nid)>);

impl Paths {
    /// Decides whether a path is in the class. An empty list allows all paths.
    pub(super) fn allow(&self, (ni, hop): (NiId, Nid)) -> bool {
        let mut paths = self.0.iter();
        self.0.is_empty()
            || paths.any(|&(own, next)| next == hop && own.is_none_or(|own| own == ni))
    }
}

/// Returns the paths that a request to `target` may take now in its first try.
pub(super) fn first_paths(rules: &[Rule], core: &Core, target: Nid) -> Paths {
    let globals = core.globals();
    let own: Vec<NiView> = core.nis().filter(|ni| ni.id != NiId::LOOPBACK).collect();
    let node = Node {
        rules,
        profile: globals.profile,
        own,
        core,
    };
    let peer = core.peer_with(target).filter(|peer| peer.multi_rail);
    let is_shared = |net: Net| node.own.iter().any(|ni| ni.nid.net() == net);
    let paths = match &peer {
        Some(peer) if peer.nis.iter().any(|ni| is_shared(ni.nid.net())) => node.direct(peer),
        Some(peer) => node.routed(peer),
        None if is_shared(target.net()) => node.to_one(target),
        None => node.routed_to_one(target),
    };
    Paths(paths)
}

/// The sending node.
struct Node<'a> {
    rules: &'a [Rule],
    profile: Profile,
    own: Vec<NiView>,
    core: &'a Core,
}

type Found = Vec<(Option<NiId>, Nid)>;

impl Node<'_> {
    fn direct(&self, peer: &PeerView) -> Found {
        let mut nets: Vec<Net> = peer.nis.iter().map(|ni| ni.nid.net()).collect();
        nets.sort_unstable();
        nets.dedup();
        nets.retain(|&net| self.own.iter().any(|ni| ni.nid.net() == net));
        let nets = best(nets, |&net| {
            let whole = self
                .own
                .iter()
                .filter(|ni| ni.nid.net() == net && !ni.fatal);
            let own_health = whole.map(|ni| ni.health.health.value()).max();
            (
                1000 - health_on(peer, net),
                self.priority(true, |dst| covers_net(dst, net)),
                1000 - own_health.unwrap_or(0),
                self.priority(false, |src| covers_net(src, net)),
            )
        });
        let mut found = Found::new();
        for net in nets {
            for own in self.best_own(net) {
                let theirs = self.best_theirs(peer, |nid| nid.net() == net, Some(own.nid));
                found.extend(theirs.iter().map(|ni| (Some(own.id), ni.nid)));
            }
        }
        found
    }

    /// Returns the paths to a peer of one NI. If a pair rule prefers local NIs for this peer, only these NIs may
    /// send.
    fn to_one(&self, target: Nid) -> Found {
        let preferred = self.preferred(target);
        let preferred = best(preferred, |&(_, rank, rule)| (rank, rule));
        let settled =
            !preferred.is_empty() && preferred.iter().all(|(nid, ..)| nid.net() == target.net());
        let ids = self
            .own
            .iter()
            .filter(|ni| preferred.iter().any(|(nid, ..)| *nid == ni.nid));
        if settled {
            return ids.map(|ni| (Some(ni.id), target)).collect();
        }
        vec![(None, target)]
    }

    fn routed(&self, peer: &PeerView) -> Found {
        let mut nets: Vec<Net> = self.core.routes().map(|route| route.route.net).collect();
        nets.sort_unstable();
        nets.dedup();
        nets.retain(|&net| peer.nis.iter().any(|ni| ni.nid.net() == net));
        let nets = best(nets, |&net| {
            let priority = self.priority(true, |dst| covers_net(dst, net));
            (1000 - health_on(peer, net), priority)
        });
        let mut found = Found::new();
        for net in nets {
            for last in self.best_theirs(peer, |nid| nid.net() == net, None) {
                for hop in self.gateways(net, last.nid, None) {
                    let own = self.best_own(hop.net());
                    found.extend(own.iter().map(|ni| (Some(ni.id), hop)));
                }
            }
        }
        found
    }

    /// Returns the paths through gateways to a peer of one NI. The message leaves from the local NI to which the peer
    /// is pinned. Any local NI may be that NI, so the best gateways of each local NI are allowed.
    fn routed_to_one(&self, target: Nid) -> Found {
        let seen = self.own.iter().map(|ni| Some(ni.nid)).chain([None]);
        let hops = seen.flat_map(|seen| self.gateways(target.net(), target, seen));
        hops.map(|hop| (None, hop)).collect()
    }

    /// Returns the NIDs of the best gateways towards `last` that `from` reaches; if `from` is `None`, any local NI
    /// may reach the gateway.
    fn gateways(&self, net: Net, last: Nid, from: Option<Nid>) -> Vec<Nid> {
        let in_reach = |nid: Nid| match from {
            Some(from) => from.net() == nid.net(),
            None => self.own.iter().any(|ni| ni.nid.net() == nid.net()),
        };
        let live = self
            .core
            .routes()
            .filter(|way| way.route.net == net && way.alive);
        let known = live.filter_map(|way| Some((way, self.core.peer_with(way.route.gateway)?)));
        let usable = known.filter(|(_, peer)| peer.nis.iter().any(|ni| in_reach(ni.nid)));
        let usable: Vec<_> = usable.collect();
        let preferred = self.preferred_gateways(last);
        let ways = best(usable, |(way, peer)| {
            let reached = peer.nis.iter().filter(|ni| in_reach(ni.nid));
            let health = reached
                .map(|ni| ni.health.health.value())
                .max()
                .unwrap_or(0);
            (
                peer.silent >= SILENT && self.profile == Profile::Design,
                !preferred.contains(&peer.primary),
                way.route.priority,
                way.route.hops.unwrap_or(1),
                1000 - health,
            )
        });
        let nis = ways
            .iter()
            .flat_map(|(_, peer)| self.best_theirs(peer, in_reach, from));
        nis.map(|ni| ni.nid).collect()
    }

    fn best_own(&self, net: Net) -> Vec<&NiView> {
        let on_net = self.own.iter().filter(|ni| ni.nid.net() == net);
        best(on_net.collect(), |ni| {
            let priority = self.priority(false, |src| covers_nid(src, ni.nid));
            (ni.fatal, 1000 - ni.health.health.value(), priority)
        })
    }

    fn best_theirs<'p>(
        &self,
        peer: &'p PeerView,
        wanted: impl Fn(Nid) -> bool,
        from: Option<Nid>,
    ) -> Vec<&'p PeerNiView> {
        let nis = peer.nis.iter().filter(|ni| wanted(ni.nid));
        best(nis.collect(), |ni| {
            let listed = self.preferred(ni.nid);
            let listed = listed.iter().filter(|(nid, ..)| Some(*nid) == from);
            (
                1000 - ni.health.health.value(),
                self.priority(true, |dst| covers_nid(dst, ni.nid)),
                listed.map(|(_, rank, _)| *rank).min().unwrap_or(NONE),
            )
        })
    }

    /// Returns the priority of the first rule with a single descriptor that fits.
    fn priority(&self, remote: bool, fits: impl Fn(&Descriptor) -> bool) -> u32 {
        let mut rules = self.rules.iter().filter(|rule| !rule.is_disabled());
        let found = rules.find(|rule| match rule.selector() {
            Selector::Local(src) => !remote && fits(src),
            Selector::Remote(dst) => remote && fits(dst),
            _ => false,
        });
        found.map_or(NONE, |rule| rule.priority().value())
    }

    /// Returns the local NIDs that pair rules prefer for a peer's NID, each with its rank and the index of the
    /// rule. Kernels apply only the first matching rule, and have no ranks.
    fn preferred(&self, theirs: Nid) -> Vec<(Nid, u32, usize)> {
        let mut listed = Vec::new();
        for (index, rule) in self.rules.iter().enumerate() {
            let Selector::Pair { local, remote } = rule.selector() else {
                continue;
            };
            if rule.is_disabled()
                || !(covers_nid(remote, theirs) || covers_net(remote, theirs.net()))
            {
                continue;
            }
            let rank = match self.profile {
                Profile::Design => rule.rank().value(),
                Profile::Lustre | Profile::Lustre217 => 0,
            };
            let own = self.own.iter().filter(|ni| covers_nid(local, ni.nid));
            listed.extend(own.map(|ni| (ni.nid, rank, index)));
            if self.profile.is_lustre() && !listed.is_empty() {
                break;
            }
        }
        listed
    }

    /// Returns the primary NIDs of the gateways that router rules prefer for a peer's NID.
    fn preferred_gateways(&self, last: Nid) -> Vec<Nid> {
        let mut listed = Vec::new();
        for rule in self.rules.iter().filter(|rule| !rule.is_disabled()) {
            let Selector::Router { remote, gateway } = rule.selector() else {
                continue;
            };
            if !(covers_nid(remote, last) || covers_net(remote, last.net())) {
                continue;
            }
            let peers = self
                .core
                .routes()
                .filter_map(|way| self.core.peer_with(way.route.gateway));
            let fitting =
                peers.filter(|peer| peer.nis.iter().any(|ni| covers_nid(gateway, ni.nid)));
            listed.extend(fitting.map(|peer| peer.primary));
            if self.profile.is_lustre() && !listed.is_empty() {
                break;
            }
        }
        listed
    }
}

fn health_on(peer: &PeerView, net: Net) -> u16 {
    let nis = peer.nis.iter().filter(|ni| ni.nid.net() == net);
    nis.map(|ni| ni.health.health.value()).max().unwrap_or(0)
}

/// A rule for nets does not match NIDs.
// [UDSP-23]
fn covers_nid(descriptor: &Descriptor, nid: Nid) -> bool {
    matches!(descriptor, Descriptor::Nid(expr) if expr.matches(nid))
}

fn covers_net(descriptor: &Descriptor, net: Net) -> bool {
    matches!(descriptor, Descriptor::Net(expr) if expr.matches(net))
}

/// Returns all elements with the smallest key.
fn best<T, K: Ord>(mut all: Vec<T>, key: impl Fn(&T) -> K) -> Vec<T> {
    if let Some(least) = all.iter().map(&key).min() {
        all.retain(|one| key(one) == least);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_that_are_best_all_are_kept() {
        assert_eq!(best(vec![3, 1, 2, 1], |&number| number), [1, 1]);
        assert_eq!(best(Vec::<u8>::new(), |&number| number), [0; 0]);
    }

    #[test]
    fn a_path_is_allowed_from_any_interface_where_that_is_not_settled() {
        let nid = |text: &str| text.parse::<Nid>().expect("a NID of the test");
        let hop = nid("10.0.0.1@tcp");
        let paths = Paths(vec![(None, hop)]);
        assert!(paths.allow((NiId(3), hop)));
        assert!(!paths.allow((NiId(3), nid("10.0.0.2@tcp"))));
        let paths = Paths(vec![(Some(NiId(2)), hop)]);
        assert!(paths.allow((NiId(2), hop)) && !paths.allow((NiId(3), hop)));
    }
}
