//! Lints of the nets and NIDs that a node and its peers have.

use std::collections::BTreeSet;
use std::net::IpAddr;

use lnet_config::machine::share_subnet;
use lnet_config::{PeerNiShow, PeerShow, Step};
use lnet_types::{Net, Nid};

use super::interfaces::{USUAL_PREFIX, is_host_prefix, prefix};
use super::routes::HEALTH_MAX;
use crate::lint::catalogue::{
    NET_NOT_REACHED, PEER_NETS_MISSING, PRIMARY_NOT_LOCAL, PRIMARY_NOT_REACHED, RAIL_MISMATCH,
};
use crate::lint::finding::Finding;
use crate::lint::node::{COMPARED_MAX, Ni, Node, listed};

/// The finding about one peer, if there is one.
type Told = Option<Finding>;

fn each_peer(node: &Node<'_>, look: impl Fn(&PeerShow, &[Step<'static>]) -> Told) -> Vec<Finding> {
    if node.is_partial() || node.lacks(&["route"]) {
        return Vec::new();
    }
    let told = whole_peers(node).filter_map(|(at, peer)| {
        let path = [Step::Key("peer"), Step::Item(at), Step::Key("primary nid")];
        look(peer, &path)
    });
    told.collect()
}

/// Returns the peers of which all NIDs are known.
fn whole_peers<'n>(node: &'n Node<'_>) -> impl Iterator<Item = (usize, &'n PeerShow)> {
    let of_peer = |at| [Step::Key("peer"), Step::Item(at)];
    node.peers()
        .filter(move |(at, _)| !node.is_rejected(&of_peer(*at)))
}

fn nets_of(peer: &PeerShow) -> BTreeSet<Net> {
    let others = peer.nis.iter().map(|ni| ni.nid.net());
    std::iter::once(peer.primary.net()).chain(others).collect()
}

/// Reports peers without a NID on a net that this node can reach.
pub(super) fn net_not_reached(node: &Node<'_>) -> Vec<Finding> {
    each_peer(node, |peer, path| {
        let nets = nets_of(peer);
        if nets.iter().any(|&net| node.reaches(net)) {
            return None;
        }
        let nets = listed(nets);
        let reason = format!(
            "peer {} has NIDs on {nets}, which are neither local nor behind a route",
            peer.primary
        );
        let fix = format!("add an NI or a route to one of {nets}, or name the peer by another NID");
        Some(node.finding(&NET_NOT_REACHED, path, reason, fix))
    })
}

/// Reports peers whose primary NID cannot be reached. Upper layers know a peer by this NID.
pub(super) fn primary_not_reached(node: &Node<'_>) -> Vec<Finding> {
    each_peer(node, |peer, path| {
        let other = nets_of(peer).into_iter().find(|&net| node.reaches(net))?;
        if node.reaches(peer.primary.net()) {
            return None;
        }
        let reason = format!(
            "the primary NID {} is on {}, which is neither local nor behind a route, but {other} is: a program that \
             names the peer by it waits for discovery",
            peer.primary,
            peer.primary.net()
        );
        let fix = format!("make a NID on {other} the primary one");
        Some(node.finding(&PRIMARY_NOT_REACHED, path, reason, fix))
    })
}

/// Reports peers whose primary NID is behind a route while another NID is on a local net. Upper layers know the peer by
/// its primary NID.
pub(super) fn primary_not_local(node: &Node<'_>) -> Vec<Finding> {
    each_peer(node, |peer, path| {
        let primary = peer.primary.net();
        let local = nets_of(peer)
            .into_iter()
            .find(|net| node.local().contains(net))?;
        if node.local().contains(&primary) || !node.reaches(primary) {
            return None;
        }
        let reason = format!(
            "the primary NID {} is on {primary}, which is behind a route, though {local} is local: before discovery \
             has joined the two, messages to the peer go through a router",
            peer.primary
        );
        let fix = format!("make a NID on {local} the primary one");
        Some(node.finding(&PRIMARY_NOT_LOCAL, path, reason, fix))
    })
}

/// Reports nets of peers that this node cannot use.
pub(super) fn peer_nets_missing(node: &Node<'_>) -> Vec<Finding> {
    each_peer(node, |peer, path| {
        let (shared, missing): (Vec<Net>, Vec<Net>) = nets_of(peer)
            .into_iter()
            .partition(|&net| node.reaches(net));
        if shared.is_empty() || missing.is_empty() {
            return None;
        }
        let missing = listed(missing);
        let reason = format!(
            "peer {} has NIDs on {missing}, where this node has no interface and no route: these rails stay unused",
            peer.primary
        );
        let fix = format!("add an NI or a route to {missing}, or remove the NIDs");
        Some(node.finding(&PEER_NETS_MISSING, path, reason, fix))
    })
}

/// Reports a local NI that stays in use although the peer NIs in its subnet are not in full health: selection
/// chooses the local NI before it looks at the peer NIs that this NI reaches.
pub(super) fn rail_mismatch(node: &Node<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for ni in node.nis.iter().take(COMPARED_MAX) {
        let Some(ip) = ni.nid.and_then(Nid::ip) else {
            continue;
        };
        if !has_other_subnet(node, ni, ip) || !is_in_use(node, ni) {
            continue;
        }
        let prefix = prefix(node, ip).unwrap_or(USUAL_PREFIX);
        let dead = whole_peers(node).find_map(|(_, peer)| unwell_ends(peer, ni.net, ip, prefix));
        let Some(dead) = dead else { continue };
        let ends = dead.iter().map(|end| {
            let health = end.health.map_or(0, |health| health.health_value);
            format!("{} has health {health}", end.nid)
        });
        let reason = format!(
            "local NI {} stays in use, and the only peer NIs in its subnet are unhealthy: {}; the health of peer NIs \
             is compared after the local NI is selected",
            Node::label(ni),
            listed(ends)
        );
        let fix = "give each subnet its own net number (tcp1, tcp2), so that the health at both ends selects the \
                   net; or add a pair rule for each rail";
        found.push(node.finding(&RAIL_MISMATCH, &ni.path, reason, fix.to_owned()));
    }
    found
}

/// Decides whether messages still leave by an NI: no other NI of its net is in better health.
fn is_in_use(node: &Node<'_>, ni: &Ni<'_>) -> bool {
    let of = |ni: &Ni<'_>| {
        let health = ni.show.and_then(|show| show.health);
        let fatal = health.is_some_and(|health| health.fatal_error != 0);
        (
            !fatal,
            health.map_or(HEALTH_MAX, |health| health.health_value),
        )
    };
    let mut same_net = node.nis.iter().filter(|other| other.net == ni.net);
    same_net.all(|other| of(other) <= of(ni))
}

fn has_other_subnet(node: &Node<'_>, ni: &Ni<'_>, ip: IpAddr) -> bool {
    let known = prefix(node, ip);
    if is_host_prefix(ip, known) {
        return false;
    }
    let prefix = known.unwrap_or(USUAL_PREFIX);
    let mut same_net = node.nis.iter().filter(|other| other.net == ni.net);
    same_net.any(|other| {
        let other = other.nid.and_then(Nid::ip);
        other.is_some_and(|other| !share_subnet(ip, other, prefix))
    })
}

/// Returns the peer's NIs in a subnet if there are some and none of them is in full health.
fn unwell_ends(peer: &PeerShow, net: Net, ip: IpAddr, prefix: u8) -> Option<Vec<&PeerNiShow>> {
    let here = |end: &&PeerNiShow| {
        let other = end.nid.ip().filter(|_| end.nid.net() == net);
        other.is_some_and(|other| share_subnet(ip, other, prefix))
    };
    let unwell = |end: &&PeerNiShow| end.health.is_some_and(|one| one.health_value < HEALTH_MAX);
    let ends: Vec<&PeerNiShow> = peer.nis.iter().filter(here).collect();
    (!ends.is_empty() && ends.iter().all(unwell)).then_some(ends)
}
