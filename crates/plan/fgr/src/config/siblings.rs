//! The other routers that a router may ask whether its nets work.
//!
//! ```text
//!   router of slot 3 to o2ib201:  tcp103 ─ routers of slot 3 to o2ib202, o2ib203, …
//!                                 o2ib201 ─ the other routers to o2ib201
//! ```
//!
//! A router advertises its interface on a net as down if no node of the net pings it, as in a slot
//! whose clients are not up yet. A Finerail router pings the peers of its configuration first, and
//! an answer keeps the interface up; so servers reach the first client at once. The peers stand in
//! the document of a node only: in the documents of classes they would make every router a class of
//! its own, and kernel routers do not ask.

use std::collections::{BTreeMap, BTreeSet};

use lnet_config::PeerConfig;
use lnet_types::{Net, Nid};

use crate::config::{NodeRole, Site, SiteNode};

/// Siblings of a router on each of its nets. One that answers is enough, and a router asks no more.
const SIBLINGS: usize = 4;

/// The routers of each net.
pub(super) struct Siblings<'a> {
    site: &'a Site,
    /// Indices of nodes, in the order of the site.
    on_net: BTreeMap<Net, Vec<usize>>,
}

impl<'a> Siblings<'a> {
    pub(super) fn new(site: &'a Site) -> Self {
        let mut on_net: BTreeMap<Net, Vec<usize>> = BTreeMap::new();
        for (index, node) in site.nodes.iter().enumerate() {
            if site.class_of(node).role != NodeRole::Router {
                continue;
            }
            for nid in node.nids.iter() {
                on_net.entry(nid.net()).or_default().push(index);
            }
        }
        Self { site, on_net }
    }

    /// Returns the peers of a node: for a router the next routers on each of its nets, in a circle,
    /// so that no router is asked by all others; none for another node. A peer has the NIDs that
    /// the node reaches directly.
    pub(super) fn peers_of(&self, node: &SiteNode) -> Vec<PeerConfig> {
        let class = self.site.class_of(node);
        if class.role != NodeRole::Router {
            return Vec::new();
        }
        let mut siblings: BTreeSet<usize> = BTreeSet::new();
        for nid in node.nids.iter() {
            let on_net = self.on_net.get(&nid.net()).map_or(&[][..], Vec::as_slice);
            let is_node = |index: &usize| self.site.nodes[*index].name == node.name;
            if let Some(at) = on_net.iter().position(is_node) {
                let circle = on_net[at + 1..].iter().chain(&on_net[..at]);
                siblings.extend(circle.take(SIBLINGS));
            }
        }
        let reached = |nid: &Nid| node.nids.iter().any(|own| own.net() == nid.net());
        let peers = siblings.into_iter().map(|other| PeerConfig {
            nids: self.site.nodes[other].nids.iter().filter(reached).collect(),
            multi_rail: class.config.globals.discovery == Some(true),
        });
        peers.collect()
    }
}
