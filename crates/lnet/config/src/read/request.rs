//! Requests: `ping` and `discover` with their NIDs.

use super::fields::mapping_of;
use crate::error::{Fault, Problem};
use crate::request::Request;
use crate::yaml::{Entry, Node};

pub(crate) fn requests(root: &Node<'_>) -> Result<Vec<Request>, Fault> {
    let mut requests = Vec::new();
    for entry in mapping_of(root, "the document")? {
        let nids = match entry.key.as_ref() {
            "ping" | "discover" => nids(entry)?,
            _ => return Err(entry.invalid_key(&["ping", "discover"])),
        };
        requests.push(match entry.key.as_ref() {
            "ping" => Request::Ping(nids),
            _ => Request::Discover(nids),
        });
    }
    Ok(requests)
}

fn nids(section: &Entry<'_>) -> Result<Vec<lnet_types::Nid>, Fault> {
    let mut nids = None;
    for entry in section.mapping()? {
        match entry.key.as_ref() {
            "nids" => nids = Some(entry.enumerated(Entry::parse)?),
            _ => return Err(entry.invalid_key(&["nids"])),
        }
    }
    nids.ok_or(Fault::new(
        section.key_place,
        Problem::MissingKey { key: "nids" },
    ))
}
