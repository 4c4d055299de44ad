//! Decides which classes of nodes reach each other, in both directions, and searches for a repair of each direction
//! that fails.

use std::collections::{BTreeMap, BTreeSet};

use lnet_types::Nid;
use serde::Serialize;

use crate::doubt::{Doubt, Doubts};
use crate::model::{Model, Track, Verdict, verdict};
use crate::repair::repair;
use crate::site::{Member, Site};

/// The limit on the directions for which a repair is searched. Each search tries several changes.
const REPAIRS_MAX: usize = 64;

/// The answer to the question which nodes reach each other.
#[derive(Clone, Debug, Serialize)]
pub struct Reach {
    /// The ends: classes of nodes that are no gateways.
    pub ends: Vec<End>,
    /// The gateways.
    pub gateways: Vec<End>,
    /// The directions of each pair that is joined by a net or a route.
    pub directions: Vec<Direction>,
    /// The number of pairs with neither a common net nor a route from one to a net of the other. If both ends were
    /// selected, such pairs are among `directions`.
    pub apart: usize,
}

/// A class of nodes, or a gateway.
#[derive(Clone, Debug, Serialize)]
pub struct End {
    /// The names of the nodes, as a host list.
    pub name: String,
    /// The number of nodes.
    pub nodes: usize,
    /// The nets of the nodes.
    pub nets: Vec<String>,
}

/// One direction of a pair.
#[derive(Clone, Debug, Serialize)]
pub struct Direction {
    /// The sender, as an index of [`Reach::ends`].
    pub from: usize,
    /// The destination, as an index of [`Reach::ends`].
    pub to: usize,
    /// Whether the messages arrive.
    pub verdict: Verdict,
    /// The paths: the gateways in their order, or `direct` and the net.
    pub paths: BTreeSet<String>,
    /// The number of gateways or rails that could each carry the messages alone.
    pub ways: usize,
    /// The reasons why routes from the sender to the destination's nets are not used.
    pub unused: BTreeSet<String>,
    /// The reasons why messages are lost.
    pub troubles: BTreeSet<String>,
    /// The findings of the check because of which the messages may be lost nevertheless.
    pub doubts: Vec<Doubt>,
    /// The one change that repairs this direction, if one was found.
    pub repair: Option<String>,
    /// The changes among which a repair was searched; `None` if none was searched.
    pub tried: Option<Tried>,
}

/// The single changes among which a repair was searched: routes by the gateways of the files, routing, acceptance of
/// asymmetric routes, removals of routes, interfaces that are down, and ports that differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Tried {
    /// The number of changes that were tried at most.
    pub changes: usize,
    /// The number of changes that there are.
    pub of: usize,
}

impl Direction {
    /// Tells, for a direction that does not work and has no repair, what was tried.
    pub(crate) fn told_tried(&self) -> String {
        match self.tried {
            None => format!("no repair was searched: {REPAIRS_MAX} other directions came first"),
            Some(Tried { of: 0, .. }) => "no repair: no gateway of the files joins them".to_owned(),
            Some(Tried { changes, of }) if changes < of => {
                format!("no repair among the {changes} of {of} single changes that were tried")
            }
            Some(Tried { of, .. }) => {
                let changes = crate::text::counted(of, "single change");
                format!(
                    "no repair: {changes} tried (routes, routing, drop_asym_route, interfaces, ports)"
                )
            }
        }
    }
}

/// Examines every pair of classes with one end in `from` and the other in `to`.
#[must_use]
pub fn reach(site: &Site, from: &Selection, to: &Selection) -> Reach {
    let small = site.reduced(&BTreeSet::new());
    let doubts = Doubts::new(site, &small);
    reach_of(&small, from, to, &BTreeSet::new(), Some(&doubts))
}

/// The nodes that a question is about: names, NIDs and nets; empty for all nodes.
#[derive(Clone, Debug, Default)]
pub struct Selection(pub(crate) BTreeSet<String>);

impl Selection {
    /// Parses a list of host names or host lists, NIDs and nets, separated by commas.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is no host list.
    pub fn parse(text: &str) -> Result<Self, fgr::HostListError> {
        let names = fgr::hosts(text)?;
        Ok(Self(names.into_iter().collect()))
    }

    /// Returns true if all nodes are selected, because none is named.
    pub(crate) fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// Decides whether a member is selected.
    pub(crate) fn has(&self, member: &Member) -> bool {
        let named = |name: &str| self.0.contains(name);
        self.0.is_empty()
            || member
                .nids()
                .any(|nid| named(&nid.to_string()) || named(&nid.net().to_string()))
            || named(&member.text.name)
            || fgr::hosts(&member.text.name).is_ok_and(|names| names.iter().any(|name| named(name)))
    }

    /// Returns the NIDs that are selected: all NIDs of a named node, all NIDs on a named net, and each named NID.
    #[must_use]
    pub fn nids(&self, site: &Site) -> BTreeSet<Nid> {
        let mut nids = BTreeSet::new();
        for member in &site.members {
            let by_name = fgr::hosts(&member.text.name);
            let whole = by_name.is_ok_and(|names| names.iter().any(|name| self.0.contains(name)));
            nids.extend(member.nids().filter(|nid| {
                let (nid, net) = (nid.to_string(), nid.net().to_string());
                whole || self.0.contains(&nid) || self.0.contains(&net)
            }));
        }
        nids
    }

    /// Returns the names that match no member of the site.
    #[must_use]
    pub fn unknown(&self, site: &Site) -> Vec<String> {
        let unknown = self.0.iter().filter(|name| {
            let one = Self(BTreeSet::from([(*name).clone()]));
            !site.members.iter().any(|member| one.has(member))
        });
        unknown.cloned().collect()
    }
}

/// Returns for each pair of members whether messages of the first arrive at each NID of the second, while the NIDs in
/// `failed` are down. The site is not reduced first: every member stands for itself.
#[must_use]
pub fn verdicts(
    site: &Site,
    failed: &BTreeSet<Nid>,
    pairs: impl IntoIterator<Item = (usize, usize)>,
) -> BTreeMap<(usize, usize), Vec<(Nid, Verdict)>> {
    let model = Model::new(site, failed);
    let of_pair = |(from, to)| {
        let nids = site.members.get(to).into_iter().flat_map(Member::nids);
        let verdicts = nids.map(|nid| (nid, verdict(&model.tracks(from, nid))));
        ((from, to), verdicts.collect())
    };
    pairs.into_iter().map(of_pair).collect()
}

/// Follows messages of a member to a NID on every path that the member chooses, while the NIDs in `failed` are
/// down.
#[must_use]
pub fn tracks(site: &Site, failed: &BTreeSet<Nid>, from: usize, to: Nid) -> Vec<Track> {
    Model::new(site, failed).tracks(from, to)
}

/// Examines pairs like [`reach`], in a site that is already reduced, while the NIDs in `failed` are down. Repairs are
/// searched only with `doubts`.
pub(crate) fn reach_of(
    small: &Site,
    from: &Selection,
    to: &Selection,
    failed: &BTreeSet<Nid>,
    doubts: Option<&Doubts>,
) -> Reach {
    let model = Model::new(small, failed);
    let gateways = small.gateways();
    let ends: Vec<usize> = (0..small.members.len())
        .filter(|at| !gateways.contains(at))
        .collect();
    let among =
        |which: &Selection, at: usize| small.members.get(at).is_some_and(|one| which.has(one));
    let mut reach = Reach {
        ends: ends.iter().filter_map(|&at| end(small, at)).collect(),
        gateways: gateways.iter().filter_map(|&at| end(small, at)).collect(),
        directions: Vec::new(),
        apart: 0,
    };
    let mut repaired = 0;
    for (a, &one) in ends.iter().enumerate() {
        for (b, &other) in ends.iter().enumerate().skip(a) {
            let asked =
                among(from, one) && among(to, other) || among(from, other) && among(to, one);
            let alone = a == b && small.members.get(one).is_some_and(|one| one.text.count < 2);
            if !asked || alone {
                continue;
            }
            let pairs = [(a, b, one, other), (b, a, other, one)];
            let pairs = pairs.into_iter().take(if a == b { 1 } else { 2 });
            let sides: Vec<_> = pairs
                .map(|pair| (pair, side(&model, pair.2, pair.3)))
                .collect();
            let is_named = !from.is_all() && !to.is_all();
            if !is_named && sides.iter().all(|(_, side)| side.is_none()) {
                reach.apart += 1;
                continue;
            }
            for ((from, to, one, other), side) in sides {
                let side = side.unwrap_or_else(Side::without_route);
                let mut direction = side.direction(small, from, to);
                direction.unused = unused(&model, one, other);
                if let Some(doubts) = doubts {
                    direction.doubts = doubts.of(&side.tracks, one, other).into_iter().collect();
                }
                if doubts.is_some() && side.verdict != Verdict::All && repaired < REPAIRS_MAX {
                    repaired += 1;
                    let (found, tried) = repair(small, failed, one, other);
                    (direction.repair, direction.tried) = (found, Some(tried));
                }
                reach.directions.push(direction);
            }
        }
    }
    reach
}

fn end(site: &Site, at: usize) -> Option<End> {
    let member = site.members.get(at)?;
    Some(End {
        name: member.text.name.clone(),
        nodes: member.text.count,
        nets: member
            .document
            .nets
            .iter()
            .map(|net| net.net.to_string())
            .collect(),
    })
}

/// The messages from one end to another, and their outcomes.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    pub(crate) verdict: Verdict,
    tracks: Vec<Track>,
    ways: usize,
}

/// Follows the messages of one member to the NIDs of another, and returns the worst result. Returns `None` if the
/// two have no common net and the sender has no route.
pub(crate) fn side(model: &Model<'_>, from: usize, to: usize) -> Option<Side> {
    let (one, other) = (model.site.members.get(from)?, model.site.members.get(to)?);
    let local: BTreeSet<_> = one.nids().map(|nid| nid.net()).collect();
    let routed: BTreeSet<_> = one.document.routes.iter().map(|route| route.net).collect();
    // A message within a class goes to another node of the class, and this node's NIDs are not known.
    if from == to {
        return within(model, one);
    }
    let near = other.nids().filter(|nid| local.contains(&nid.net()));
    let far = other
        .nids()
        .filter(|nid| !local.contains(&nid.net()) && routed.contains(&nid.net()));
    let mut best: Option<Side> = None;
    for nid in near.chain(far) {
        let tracks = model.tracks(from, nid);
        let verdict = verdict(&tracks);
        if best.as_ref().is_none_or(|best| verdict < best.verdict) {
            let ways = ways(model, from, to, nid);
            best = Some(Side {
                verdict,
                tracks,
                ways,
            });
        }
        if verdict == Verdict::All {
            break;
        }
    }
    best
}

/// Returns the result within a class: its nodes reach each other on each net on which the class has a working NI.
fn within(model: &Model<'_>, one: &Member) -> Option<Side> {
    let mut up = one.nids().filter(|nid| model.is_up(*nid));
    let nid = up.next()?;
    Some(Side {
        verdict: Verdict::All,
        tracks: vec![Track {
            source: nid,
            gateways: Vec::new(),
            destination: nid,
            outcome: Ok(()),
        }],
        ways: 1 + up.count(),
    })
}

/// Returns why routes of one member to nets of another are down.
fn unused(model: &Model<'_>, from: usize, to: usize) -> BTreeSet<String> {
    let (Some(one), Some(other)) = (model.site.members.get(from), model.site.members.get(to))
    else {
        return BTreeSet::new();
    };
    let nets: BTreeSet<_> = other.nids().map(|nid| nid.net()).collect();
    let routes = one
        .document
        .routes
        .iter()
        .filter(|route| nets.contains(&route.net));
    let down = routes.filter_map(|route| model.route_state(from, route).err());
    down.map(|trouble| trouble.told(model.site)).collect()
}

/// Counts the gateways or rails that could each carry the messages alone.
fn ways(model: &Model<'_>, from: usize, to: usize, nid: Nid) -> usize {
    let (Some(one), Some(other)) = (model.site.members.get(from), model.site.members.get(to))
    else {
        return 0;
    };
    let count = |member: &Member, net| {
        let nids = member
            .nids()
            .filter(|nid| nid.net() == net && model.is_up(*nid));
        nids.count()
    };
    let nets: BTreeSet<_> = one.nids().map(|nid| nid.net()).collect();
    let rails = nets
        .into_iter()
        .map(|net| count(one, net).min(count(other, net)))
        .sum();
    if rails > 0 {
        return rails;
    }
    let routes = one
        .document
        .routes
        .iter()
        .filter(|route| route.net == nid.net());
    let usable = routes.filter(|route| model.route_state(from, route).is_ok());
    let gateways: BTreeSet<usize> = usable
        .filter_map(|route| model.owners.get(&route.gateway).copied())
        .collect();
    let carries = |gateway: &&usize| model.carries(from, **gateway, nid);
    gateways.iter().filter(carries).count()
}

impl Side {
    fn without_route() -> Self {
        Self {
            verdict: Verdict::None,
            tracks: Vec::new(),
            ways: 0,
        }
    }

    fn direction(&self, site: &Site, from: usize, to: usize) -> Direction {
        let lost = self
            .tracks
            .iter()
            .filter_map(|track| track.outcome.as_ref().err());
        let mut troubles: BTreeSet<String> = lost.map(|trouble| trouble.told(site)).collect();
        if self.tracks.is_empty() {
            troubles.insert("no network in common, and no route".to_owned());
        }
        let arrived = self.tracks.iter().filter(|track| track.outcome.is_ok());
        Direction {
            from,
            to,
            verdict: self.verdict,
            paths: arrived.map(|track| path(site, track)).collect(),
            ways: self.ways,
            unused: BTreeSet::new(),
            troubles,
            doubts: Vec::new(),
            repair: None,
            tried: None,
        }
    }
}

fn path(site: &Site, track: &Track) -> String {
    if track.gateways.is_empty() {
        return format!("direct on {}", track.destination.net());
    }
    let names: Vec<String> = track
        .gateways
        .iter()
        .map(|&at| site.member_name(at))
        .collect();
    format!("by {}", names.join(", then "))
}
