//! Documents of single nodes beside the classes of a site: what lies in the folder of a site counts,
//! and what disagrees is named.

use std::collections::BTreeMap;

use lnet_config::{Config, NetConfig, NiConfig, PeerConfig};
use lnet_types::Nid;

use crate::config::gather::nids;
use crate::config::siblings::Siblings;
use crate::config::{Class, Site};
use crate::diff::differences;

impl Site {
    /// Replaces the configurations of nodes whose documents, by name, differ from their classes, and
    /// returns what differs, one text for each node. A node without a document differs, too.
    #[must_use]
    pub fn beside(&mut self, mut documents: BTreeMap<String, Config>) -> Vec<String> {
        let mut found = Vec::new();
        let mut replaced: Vec<(usize, Config)> = Vec::new();
        let siblings = Siblings::new(self);
        for (index, node) in self.nodes.iter().enumerate() {
            let name = &node.name;
            let Some(document) = documents.remove(name) else {
                found.push(format!("{name}: no document, although others have one"));
                continue;
            };
            let planned = self.config_among(node, &siblings);
            if let Some(what) = difference(&planned, &document) {
                let class = &self.class_of(node).name;
                found.push(format!("{name}: its document differs from {class}: {what}"));
                replaced.push((index, document));
            }
        }
        let strangers = documents.into_keys();
        found.extend(strangers.map(|name| format!("{name}: a document of no node of nodes.csv")));
        for (index, document) in replaced {
            self.replace(index, document);
        }
        found
    }

    /// Gives a node a class of its own with this document.
    fn replace(&mut self, index: usize, mut document: Config) {
        let node = &mut self.nodes[index];
        let role = self.classes[node.class].role;
        let of_document = nids(&document);
        if !of_document.is_empty() {
            node.nids = of_document.into_iter().collect();
        }
        for net in &mut document.nets {
            for ni in &mut net.nis {
                ni.nid = None;
            }
        }
        node.class = self.classes.len();
        self.classes.push(Class {
            name: node.name.clone(),
            role,
            rules: document.rules.rules().to_vec(),
            config: document,
        });
    }
}

/// Returns how a document differs from the planned one, if both do not mean the same.
fn difference(planned: &Config, document: &Config) -> Option<String> {
    let same = comparable(planned) == comparable(document);
    let told = || differences(planned, document);
    let what = |told: Vec<crate::diff::Difference>| match told.into_iter().next() {
        Some(difference) => difference.what,
        None => "its addresses, settings or peers".to_owned(),
    };
    (!same).then(|| what(told()))
}

/// Returns the parts that may stand in another order, sorted.
fn comparable(config: &Config) -> (Config, Vec<Nid>, Vec<PeerConfig>) {
    let mut config = config.clone();
    config
        .routes
        .sort_by_key(|route| (route.net, route.gateway, route.priority));
    let mut addresses = nids(&config);
    addresses.sort();
    let mut peers = std::mem::take(&mut config.peers);
    peers.sort_by(|a, b| a.nids.cmp(&b.nids));
    config.nets.sort_by_key(|net: &NetConfig| net.net);
    for net in &mut config.nets {
        let rest = |ni: &NiConfig| NiConfig {
            nid: None,
            interfaces: Vec::new(),
            ..ni.clone()
        };
        net.nis = net.nis.iter().map(rest).collect();
    }
    (config, addresses, peers)
}
