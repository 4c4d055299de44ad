//! Reads the configuration that a node has, without holding up messages.

use std::collections::BTreeSet;

use lnet_config::{Change, Config, PeerConfig};
use lnet_core::{Core, PeerCursor, PeerView};
use lnet_types::Nid;

use super::show;
use crate::managed::ManagedNode;

/// Peers that are read under one lock, which takes some 100 µs.
pub(super) const PEERS_PER_PAGE: usize = 64;

/// The peers that a change concerns.
pub(super) enum Concerned {
    /// Peers that have one of these NIDs.
    With(BTreeSet<Nid>),
    /// All peers.
    All,
}

/// The state of a node before a change.
pub(super) struct Before {
    /// The configuration from which an import would make a node like this one; its peers are only those concerned.
    pub(super) config: Config,
    /// The concerned peers that exist because routes name them.
    pub(super) gateways: Vec<PeerConfig>,
    /// The primary NIDs of the concerned peers that exist only because of traffic.
    pub(super) found: BTreeSet<Nid>,
}

impl Concerned {
    pub(super) fn named<'n>(nids: impl Iterator<Item = &'n Nid>) -> Self {
        Self::With(nids.copied().collect())
    }

    /// Returns the peers that a list of changes concerns.
    pub(super) fn by(changes: &[Change]) -> Self {
        let mut all = BTreeSet::new();
        for change in changes {
            match change {
                Change::AddPeer(peer) => all.extend(&peer.nids),
                Change::DelPeer { primary } => _ = all.insert(*primary),
                Change::DelPeerNids { primary, nids } | Change::AddPeerNids { primary, nids } => {
                    all.insert(*primary);
                    all.extend(nids);
                }
                _ => {}
            }
        }
        Self::With(all)
    }

    fn includes(&self, peer: &PeerConfig) -> bool {
        match self {
            Self::With(nids) => peer.nids.iter().any(|nid| nids.contains(nid)),
            Self::All => true,
        }
    }
}

impl Before {
    /// Reads the state. The caller has the right to change the configuration, so nothing changes between two pages.
    pub(super) fn look(node: &ManagedNode, concerned: &Concerned) -> Self {
        let (document, rules) = node.with(|node, _| {
            let rules = node.core().rules().clone();
            (show::without_peers(node), rules)
        });
        let (config, _) = document.config();
        let mut before = Self {
            config: Config { rules, ..config },
            gateways: Vec::new(),
            found: BTreeSet::new(),
        };
        match concerned {
            Concerned::With(nids) => {
                let nids: Vec<Nid> = nids.iter().copied().collect();
                let mut seen = BTreeSet::new();
                for page in nids.chunks(PEERS_PER_PAGE) {
                    let views = node.with_core(|core, _| owners(core, page));
                    let found = views
                        .iter()
                        .filter(|view| !view.configured && !view.gateway);
                    before.found.extend(found.map(|view| view.primary));
                    let new = views.into_iter().filter(|view| seen.insert(view.primary));
                    let new: Vec<PeerView> = new.collect();
                    before.take_gateways(&new);
                    let new = new.into_iter();
                    before.config.peers.extend(configured(new));
                }
            }
            Concerned::All => before.take_everybody(node),
        }
        before
    }

    fn take_everybody(&mut self, node: &ManagedNode) {
        let mut at = Some(PeerCursor::START);
        while let Some(from) = at {
            let (page, next) = node.with_core(|core, _| core.peer_page(from, PEERS_PER_PAGE));
            at = next;
            self.take_gateways(&page);
            self.config.peers.extend(configured(page.into_iter()));
        }
    }

    fn take_gateways(&mut self, page: &[PeerView]) {
        let gateways = page.iter().filter(|peer| peer.gateway && !peer.configured);
        self.gateways.extend(gateways.map(peer));
    }

    /// Returns the configuration with only these peers.
    pub(super) fn only(&self, concerned: &Concerned) -> Config {
        let peers = self.config.peers.iter();
        let peers = peers.filter(|peer| concerned.includes(peer));
        Config {
            peers: peers.cloned().collect(),
            ..self.config.clone()
        }
    }
}

/// Returns the configured peers that are concerned, as they are now.
pub(super) fn peers_now(core: &Core, concerned: &Concerned) -> Vec<PeerConfig> {
    match concerned {
        Concerned::All => configured(core.peers()).collect(),
        Concerned::With(nids) => {
            let nids: Vec<Nid> = nids.iter().copied().collect();
            let mut seen = BTreeSet::new();
            let views = owners(core, &nids).into_iter();
            configured(views.filter(|view| seen.insert(view.primary))).collect()
        }
    }
}

fn owners(core: &Core, nids: &[Nid]) -> Vec<PeerView> {
    nids.iter().filter_map(|&nid| core.peer_with(nid)).collect()
}

fn configured(peers: impl Iterator<Item = PeerView>) -> impl Iterator<Item = PeerConfig> {
    peers.filter(|peer| peer.configured).map(|view| peer(&view))
}

fn peer(view: &PeerView) -> PeerConfig {
    let others = view.nis.iter().map(|ni| ni.nid);
    let others = others.filter(|&nid| nid != view.primary);
    PeerConfig {
        nids: std::iter::once(view.primary).chain(others).collect(),
        multi_rail: view.multi_rail,
    }
}
