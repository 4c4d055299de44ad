//! Findings of the check because of which messages may not arrive, although the nodes choose paths for them.

use std::collections::{BTreeMap, BTreeSet};

use lnet_types::Net;
use serde::Serialize;

use crate::check::short;
use crate::lint::{NID_CLAIMED_TWICE, Severity, lint_places};
use crate::model::Track;
use crate::site::Site;

/// A finding of the check that makes an answer doubtful.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Doubt {
    /// The code of the lint.
    pub code: &'static str,
    /// The severity of the finding.
    pub severity: Severity,
    /// The name of the node.
    pub node: String,
    /// The problem, with the facts that show it.
    pub reason: String,
    /// The net of the NI that the finding is about; `None` if it is about the whole node.
    #[serde(skip)]
    net: Option<Net>,
}

impl Doubt {
    /// Decides whether the doubt concerns messages on a net.
    pub(crate) fn concerns(&self, net: Net) -> bool {
        self.net.is_none_or(|own| own == net)
    }

    /// Returns the doubt in one line.
    #[must_use]
    pub fn told(&self) -> String {
        let Self {
            code,
            severity,
            reason,
            ..
        } = self;
        format!("{severity}[{code}] {}: {reason}", short(&self.node))
    }
}

/// The doubts about each member of a smaller site, by its index.
#[derive(Debug, Default)]
pub(crate) struct Doubts(BTreeMap<usize, Vec<Doubt>>);

impl Doubts {
    /// Checks all nodes of a site for the members of a smaller one, which stand for several nodes.
    pub(crate) fn new(site: &Site, small: &Site) -> Self {
        let inputs: Vec<_> = site.members.iter().map(|one| one.text.input()).collect();
        let count = |at: usize| site.members.get(at).map_or(1, |one| one.text.count);
        // A site was made from its files, so its lists of interfaces can be read.
        let found = lint_places(&inputs, count).unwrap_or_default();
        // A note is no doubt.
        let found = found
            .into_iter()
            .filter(|one| one.finding.severity > Severity::Note);
        let mut by_host: BTreeMap<String, Vec<Doubt>> = BTreeMap::new();
        for placed in found {
            let Some(member) = site.members.get(placed.node) else {
                continue;
            };
            let doubt = Doubt {
                code: placed.finding.code,
                severity: placed.finding.severity,
                node: member.text.name.clone(),
                reason: placed.finding.reason,
                net: placed.ni.as_ref().map(|ni| ni.net),
            };
            // Messages to a NID with two owners arrive at one of them, and its answers do not come back to the other.
            let claimed = (doubt.code == NID_CLAIMED_TWICE.code)
                .then(|| placed.ni.and_then(|ni| ni.nid))
                .flatten();
            let owners = site.members.iter();
            let owners = owners.filter(|one| one.nids().any(|nid| Some(nid) == claimed));
            let names = owners.map(|one| &one.text.name).chain([&doubt.node]);
            let hosts: BTreeSet<String> = names.map(|name| first_host(name)).collect();
            for host in hosts {
                by_host.entry(host).or_default().push(doubt.clone());
            }
        }
        let mut doubts = BTreeMap::new();
        if by_host.is_empty() {
            return Self(doubts);
        }
        for (at, member) in small.members.iter().enumerate() {
            let hosts = fgr::hosts(&member.text.name).unwrap_or_default();
            let hosts = hosts.iter().chain([&member.text.name]);
            let own: BTreeSet<&Doubt> = hosts
                .filter_map(|host| by_host.get(host))
                .flatten()
                .collect();
            if !own.is_empty() {
                doubts.insert(at, own.into_iter().cloned().collect());
            }
        }
        Self(doubts)
    }

    /// Returns the doubts about messages that arrive: those about both ends on the nets of the messages, and those about
    /// the gateways.
    pub(crate) fn of(&self, tracks: &[Track], from: usize, to: usize) -> BTreeSet<Doubt> {
        let arrived = tracks.iter().filter(|track| track.outcome.is_ok());
        let mut concerned = BTreeSet::new();
        for track in arrived {
            for (at, nid) in [(from, track.source), (to, track.destination)] {
                let own = self.about(at);
                concerned.extend(own.filter(|doubt| doubt.concerns(nid.net())));
            }
            let gateways = track.gateways.iter();
            concerned.extend(gateways.flat_map(|&at| self.about(at)));
        }
        concerned.into_iter().cloned().collect()
    }

    /// Returns the doubts about a member.
    fn about(&self, at: usize) -> impl Iterator<Item = &Doubt> {
        self.0.get(&at).into_iter().flatten()
    }
}

fn first_host(name: &str) -> String {
    let hosts = fgr::hosts(name).unwrap_or_default();
    hosts.into_iter().next().unwrap_or_else(|| name.to_owned())
}
