//! Nodes to sections, checked as far as one section goes; routes are kept with their places until all
//! networks are known.

mod fields;
mod globals;
mod net;
mod peer;
mod route;
mod router;

use std::collections::BTreeSet;

use lnet_types::Nid;

use crate::error::{Fault, Place, Problem, shown};
use crate::model::{Config, RouteConfig};
use crate::yaml::{Entry, Node};

/// What [`document`] returns: a configuration without routes, and the routes with their places.
#[derive(Debug, Default)]
pub(crate) struct Document {
    pub(crate) config: Config,
    pub(crate) routes: Vec<PlacedRoute>,
    /// The NIDs of all peers so far.
    peer_nids: BTreeSet<Nid>,
}

/// A route and where its network and its gateway stand.
#[derive(Debug)]
pub(crate) struct PlacedRoute {
    pub(crate) route: RouteConfig,
    pub(crate) net_place: Place,
    pub(crate) gateway_place: Place,
}

impl Document {
    pub(crate) fn into_config(self) -> Config {
        let routes = self.routes.into_iter().map(|placed| placed.route).collect();
        Config {
            routes,
            ..self.config
        }
    }
}

/// The sections that this version reads.
const SECTIONS: [&str; 7] = [
    "net", "route", "peer", "routing", "buffers", "global", "numa",
];

/// Sections and requests of lnetctl that this version does not act on.
const UNSUPPORTED: [&str; 5] = ["udsp", "ip2nets", "ping", "discover", "statistics"];

/// Reads the sections of a document.
pub(crate) fn document(root: &Node<'_>) -> Result<Document, Fault> {
    let mut document = Document::default();
    for entry in fields::mapping_of(root, "the document")? {
        section(&mut document, entry)?;
    }
    globals::check(&document.config.globals, root)?;
    Ok(document)
}

fn section(document: &mut Document, entry: &Entry<'_>) -> Result<(), Fault> {
    let config = &mut document.config;
    match entry.key.as_ref() {
        "net" => config.nets = net::nets(entry)?,
        "route" => document.routes = route::routes(entry)?,
        "peer" => config
            .peers
            .extend(peer::peers(entry, &mut document.peer_nids)?),
        "routing" => config.routing = router::routing(entry)?,
        "buffers" => config.buffers = router::buffers(entry)?,
        "global" => globals::section(&mut config.globals, entry)?,
        "numa" => globals::numa(&mut config.globals, entry)?,
        key if UNSUPPORTED.contains(&key) => {
            let key = shown(key);
            return Err(Fault::new(
                entry.key_place,
                Problem::UnsupportedSection { key },
            ));
        }
        // lnetctl takes every node-wide parameter outside its section too.
        _ if globals::parameter(&mut config.globals, entry)? => {}
        _ => return Err(entry.invalid_key(&SECTIONS)),
    }
    Ok(())
}
