//! Reads the sections of a document and checks each by itself. Routes keep their places until all
//! networks are known.

mod fields;
mod globals;
mod ip2nets;
mod net;
mod peer;
mod reader;
mod reply;
mod request;
mod route;
mod router;
mod shown;
mod udsp;

use std::collections::BTreeSet;

use lnet_policy::RuleList;
use lnet_types::Nid;

pub(crate) use reader::{Purpose, Reader};
pub(crate) use request::requests;

use crate::document::{Document, RouteShow};
use crate::error::{Fault, Place, Problem, shown as shortened};
use crate::yaml::{Entry, Node};

/// A document without routes, and the routes with their places.
#[derive(Debug, Default)]
pub(crate) struct Sections {
    pub(crate) document: Document,
    pub(crate) routes: Vec<PlacedRoute>,
    /// The rules, if they will take effect.
    pub(crate) rules: RuleList,
    /// The NIDs of all peers so far.
    peer_nids: BTreeSet<Nid>,
}

/// A route with the places of its network and its gateway.
#[derive(Debug)]
pub(crate) struct PlacedRoute {
    pub(crate) route: RouteShow,
    pub(crate) net_place: Place,
    pub(crate) gateway_place: Place,
}

impl Sections {
    pub(crate) fn into_document(self) -> Document {
        let routes = self.routes.into_iter().map(|placed| placed.route).collect();
        Document {
            routes,
            ..self.document
        }
    }
}

/// The sections of an import.
const SECTIONS: [&str; 9] = [
    "net", "ip2nets", "route", "peer", "routing", "buffers", "global", "numa", "udsp",
];

/// Requests and outputs of lnetctl, which are not configuration.
const NO_CONFIGURATION: [&str; 3] = ["ping", "discover", "statistics"];

/// Reads the sections of a document.
pub(crate) fn sections(root: &Node<'_>, reader: &mut Reader) -> Result<Sections, Fault> {
    let mut sections = Sections::default();
    for entry in fields::mapping_of(root, "the document")? {
        let key = SECTIONS.iter().copied().find(|key| *key == entry.key);
        reader.section(key, |reader| section(&mut sections, entry, reader))?;
    }
    reader.attempt(|_| globals::check(&sections.document.globals, root))?;
    Ok(sections)
}

fn section(sections: &mut Sections, entry: &Entry<'_>, reader: &mut Reader) -> Result<(), Fault> {
    let document = &mut sections.document;
    match entry.key.as_ref() {
        "net" => document.nets.extend(net::nets(entry, reader)?),
        "ip2nets" => document.ip2nets.extend(ip2nets::rules(entry, reader)?),
        "route" => sections.routes.extend(route::routes(entry, reader)?),
        "peer" => {
            let peers = peer::peers(entry, &mut sections.peer_nids, reader)?;
            document.peers.extend(peers);
        }
        "routing" => router::routing(document, entry, reader)?,
        "buffers" => document.buffers = router::buffers(entry, reader)?,
        "global" => globals::section(document, entry, reader)?,
        "numa" => globals::numa(&mut document.globals, entry, reader)?,
        "udsp" => {
            let (rules, list) = udsp::rules(entry, reader)?;
            document.udsp.extend(rules);
            sections.rules = list;
        }
        // lnetctl accepts every node-wide parameter outside its section, too.
        _ if globals::parameter(document, entry)? => {}
        _ if reader.shows() => observed(document, entry, reader)?,
        key if NO_CONFIGURATION.contains(&key) => {
            let key = shortened(key);
            return Err(Fault::new(
                entry.key_place,
                Problem::NoConfiguration { key },
            ));
        }
        _ => reader.unknown(entry, &SECTIONS)?,
    }
    Ok(())
}

/// Reads a section that is not configuration.
fn observed(document: &mut Document, entry: &Entry<'_>, reader: &mut Reader) -> Result<(), Fault> {
    if entry.key == "statistics" {
        document.statistics = Some(reader.block(entry)?);
    } else if let Some(replies) = reply::section(entry, reader)? {
        document.replies.extend(replies);
    } else {
        reader.unknown(entry, &SECTIONS)?;
    }
    Ok(())
}
