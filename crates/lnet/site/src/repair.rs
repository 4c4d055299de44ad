//! Searches for one change after which messages arrive. Each change is tried in a model of the site.

use std::collections::BTreeSet;

use lnet_config::{RouteConfig, RouteShow};
use lnet_types::{Net, Nid};

use crate::document::PORT;
use crate::model::{Model, Track, Verdict};
use crate::reach::{Tried, side};
use crate::site::{Member, Site};
use crate::trouble::Trouble;

/// The limit on the changes that are tried for one direction.
const TRIED_MAX: usize = 32;

/// A change of one member, by its index.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    /// The member gets a route to this net by this gateway.
    Route(usize, Net, Nid),
    /// The member forwards messages.
    Routing(usize),
    /// The member accepts messages from any gateway.
    Asymmetric(usize),
    /// The member has no route to this net by this gateway any more.
    Without(usize, Net, Nid),
    /// The interface of this NID of the member works.
    Up(usize, Nid),
    /// The member listens and dials on this port.
    Port(usize, u16),
}

/// Returns, in words, the first change after which all messages of one member to another arrive, and what was tried.
pub(crate) fn repair(
    site: &Site,
    failed: &BTreeSet<Nid>,
    from: usize,
    to: usize,
) -> (Option<String>, Tried) {
    let changes = candidates(site, failed, from, to);
    let helps = |change: &&Change| {
        let mut changed = site.clone();
        change.apply(&mut changed);
        let model = Model::new(&changed, failed);
        side(&model, from, to).is_some_and(|side| side.verdict == Verdict::All)
    };
    let tried = Tried {
        changes: changes.len().min(TRIED_MAX),
        of: changes.len(),
    };
    let found = changes.iter().take(TRIED_MAX).find(helps);
    (found.map(|change| change.told(site)), tried)
}

/// Returns the changes to try: first the interfaces of the two members that do not work, then the changes that the
/// troubles suggest, routes by every gateway that joins the two members, and the removal of routes, first of those by
/// gateways in trouble.
fn candidates(site: &Site, failed: &BTreeSet<Nid>, from: usize, to: usize) -> Vec<Change> {
    let model = Model::new(site, failed);
    let mut changes = Vec::new();
    let (Some(one), Some(other)) = (site.members.get(from), site.members.get(to)) else {
        return changes;
    };
    for (at, member) in [(from, one), (to, other)] {
        let down = member.nids().filter(|nid| !model.is_up(*nid));
        changes.extend(down.map(|nid| Change::Up(at, nid)));
    }
    let troubles: BTreeSet<Trouble> = other
        .nids()
        .flat_map(|nid| model.tracks(from, nid))
        .filter_map(|Track { outcome, .. }| outcome.err())
        .collect();
    for trouble in &troubles {
        named(&model, trouble, &mut changes);
    }
    let silent = site.gateways().into_iter();
    let silent = silent.filter(|&at| site.members.get(at).is_some_and(|one| !one.is_router()));
    changes.extend(silent.map(Change::Routing));
    let ends = [(from, one, other), (to, other, one)];
    for (at, here, there) in ends {
        for router in site.gateways() {
            let Some(router) = site.members.get(router) else {
                continue;
            };
            for (net, gateway) in joins(&model, router, here, there) {
                changes.push(Change::Route(at, net, gateway));
            }
        }
    }
    changes.extend(removals(&model, &troubles, (from, one), other));
    changes.extend(removals(&model, &troubles, (to, other), one));
    let mut unique: Vec<Change> = Vec::new();
    for change in changes {
        if !unique.contains(&change) {
            unique.push(change);
        }
    }
    unique
}

fn named(model: &Model<'_>, trouble: &Trouble, changes: &mut Vec<Change>) {
    match trouble {
        Trouble::NotRouting(at) => changes.push(Change::Routing(*at)),
        Trouble::Dropped(at, net, by) => {
            changes.push(Change::Route(*at, *net, *by));
            changes.push(Change::Asymmetric(*at));
        }
        Trouble::NidDown(nid) | Trouble::GatewayDown(nid) => {
            let owner = model.owners.get(nid);
            changes.extend(owner.map(|&at| Change::Up(at, *nid)));
        }
        Trouble::PortsDiffer([at, next], [port, other]) => {
            let changed = [Change::Port(*at, *other), Change::Port(*next, *port)];
            // The usual port comes first.
            changes.extend(
                changed
                    .iter()
                    .filter(|change| change.is_usual_port())
                    .cloned(),
            );
            changes.extend(changed);
        }
        Trouble::Answer(why) => named(model, why, changes),
        _ => {}
    }
}

/// Returns the removal of each route of `here` to a net of `there`, first of those by a gateway that a trouble names.
fn removals(
    model: &Model<'_>,
    troubles: &BTreeSet<Trouble>,
    (at, here): (usize, &Member),
    there: &Member,
) -> Vec<Change> {
    let named: BTreeSet<usize> = troubles.iter().filter_map(Trouble::member).collect();
    let nets: BTreeSet<Net> = there.nids().map(|nid| nid.net()).collect();
    let routes = here.document.routes.iter();
    let mut routes: Vec<&RouteShow> = routes.filter(|route| nets.contains(&route.net)).collect();
    let is_named = |route: &RouteShow| {
        let owner = model.owners.get(&route.gateway);
        owner.is_none_or(|owner| named.contains(owner))
    };
    routes.sort_by_key(|route| !is_named(route));
    let removed = routes.into_iter();
    removed
        .map(|route| Change::Without(at, route.net, route.gateway))
        .collect()
}

/// Returns the nets of `there` that a router leads to from `here`, each with the router's NID on a net of `here`.
fn joins(model: &Model<'_>, router: &Member, here: &Member, there: &Member) -> Vec<(Net, Nid)> {
    let is_local = |net: Net| here.nids().any(|nid| nid.net() == net);
    let near = router
        .nids()
        .find(|nid| is_local(nid.net()) && model.is_up(*nid));
    let Some(near) = near else {
        return Vec::new();
    };
    let leads = |net: Net| {
        let routes = &router.document.routes;
        router.nids().any(|nid| nid.net() == net) || routes.iter().any(|route| route.net == net)
    };
    let has = |net: Net| {
        let mut routes = here.document.routes.iter();
        routes.any(|route| (route.net, route.gateway) == (net, near))
    };
    let nets: BTreeSet<Net> = there.nids().map(|nid| nid.net()).collect();
    let nets = nets
        .into_iter()
        .filter(|&net| !is_local(net) && leads(net) && !has(net));
    nets.map(|net| (net, near)).collect()
}

impl Change {
    fn apply(&self, site: &mut Site) {
        let at = match self {
            Self::Route(at, ..)
            | Self::Routing(at)
            | Self::Asymmetric(at)
            | Self::Without(at, ..)
            | Self::Up(at, _)
            | Self::Port(at, _) => *at,
        };
        let Some(member) = site.members.get_mut(at) else {
            return;
        };
        match self {
            Self::Route(_, net, gateway) => {
                let route = RouteConfig {
                    net: *net,
                    gateway: *gateway,
                    hop: None,
                    priority: 0,
                };
                member.document.routes.push(RouteShow::from(&route));
            }
            Self::Routing(_) => member.document.routing = Some(true),
            Self::Asymmetric(_) => member.document.globals.drop_asym_route = Some(false),
            Self::Without(_, net, gateway) => {
                let routes = &mut member.document.routes;
                routes.retain(|route| (route.net, route.gateway) != (*net, *gateway));
            }
            Self::Up(_, nid) => member.mark_up(*nid),
            Self::Port(_, port) => member.port = Some(*port),
        }
    }

    fn is_usual_port(&self) -> bool {
        matches!(self, Self::Port(_, PORT))
    }

    fn told(&self, site: &Site) -> String {
        match self {
            Self::Route(at, net, gateway) => format!(
                "on {}: lnetctl route add --net {net} --gateway {gateway}",
                site.member_name(*at)
            ),
            Self::Routing(at) => format!("on {}: lnetctl set routing 1", site.member_name(*at)),
            Self::Without(at, net, gateway) => format!(
                "on {}: lnetctl route del --net {net} --gateway {gateway}",
                site.member_name(*at)
            ),
            Self::Up(at, nid) => {
                let advice = site.members.get(*at).and_then(|one| one.advice_for(*nid));
                let advice = advice.unwrap_or_else(|| {
                    format!(
                        "bring the interface of {nid} up (ip addr: it needs carrier and address)"
                    )
                });
                let name = site.member_name(*at);
                format!("on {name}: {advice}, then lnetctl net add, or restart LNet")
            }
            Self::Port(at, port) => format!(
                "on {}: options lnet accept_port={port}",
                site.member_name(*at)
            ),
            Self::Asymmetric(at) => format!(
                "on {}: lnetctl set drop_asym_route 0",
                site.member_name(*at)
            ),
        }
    }
}
