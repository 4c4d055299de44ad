//! The `peer` section.

use std::collections::BTreeSet;

use lnet_types::Nid;

use super::fields::mapping_of;
use crate::error::{Fault, Problem};
use crate::model::PeerConfig;
use crate::yaml::{Entry, Node};

const PEER_KEYS: [&str; 3] = ["primary nid", "Multi-Rail", "peer ni"];

/// What exports print of a peer's interface and imports do not take.
const NI_OUTPUT: [&str; 13] = [
    "state",
    "max_ni_tx_credits",
    "available_tx_credits",
    "min_tx_credits",
    "tx_q_num_of_buf",
    "available_rtr_credits",
    "min_rtr_credits",
    "refcount",
    "statistics",
    "sent_stats",
    "received_stats",
    "dropped_stats",
    "health stats",
];

/// `seen` has the NIDs of all peers before.
pub(super) fn peers(
    section: &Entry<'_>,
    seen: &mut BTreeSet<Nid>,
) -> Result<Vec<PeerConfig>, Fault> {
    section
        .sequence()?
        .iter()
        .map(|item| peer(item, seen))
        .collect()
}

fn peer(item: &Node<'_>, seen: &mut BTreeSet<Nid>) -> Result<PeerConfig, Fault> {
    let (mut primary, mut multi_rail, mut nis) = (None, true, Default::default());
    for entry in mapping_of(item, "peer")? {
        match entry.key.as_ref() {
            "primary nid" => primary = Some(entry),
            "Multi-Rail" => multi_rail = boolean(entry)?,
            "peer ni" => nis = entry.sequence()?,
            "peer state" => {}
            _ => return Err(entry.invalid_key(&PEER_KEYS)),
        }
    }
    let Some(primary) = primary else {
        return Err(Fault::new(
            item.place,
            Problem::MissingKey { key: "primary nid" },
        ));
    };
    let primary = peer_nid(primary, seen)?;
    let mut nids = vec![primary];
    let mut primary_listed = false;
    for ni in nis {
        let entry = ni_nid(ni)?;
        // The primary NID is usually in the list too; once is enough.
        if !primary_listed && entry.parse::<Nid>()? == primary {
            primary_listed = true;
            continue;
        }
        nids.push(peer_nid(entry, seen)?);
    }
    Ok(PeerConfig { nids, multi_rail })
}

/// The `nid` entry of one item under `peer ni`.
fn ni_nid<'n, 'a>(item: &'n Node<'a>) -> Result<&'n Entry<'a>, Fault> {
    let mut nid = None;
    for entry in mapping_of(item, "peer ni")? {
        match entry.key.as_ref() {
            "nid" => nid = Some(entry),
            "udsp info" => {}
            key if NI_OUTPUT.contains(&key) => {}
            _ => return Err(entry.invalid_key(&["nid"])),
        }
    }
    nid.ok_or(Fault::new(item.place, Problem::MissingKey { key: "nid" }))
}

fn peer_nid(entry: &Entry<'_>, seen: &mut BTreeSet<Nid>) -> Result<Nid, Fault> {
    let nid: Nid = entry.parse()?;
    if nid.is_any() || nid.is_loopback() {
        return Err(Fault::new(entry.node.place, Problem::NotAPeer(nid)));
    }
    if !seen.insert(nid) {
        return Err(Fault::new(entry.node.place, Problem::NidTwice(nid)));
    }
    Ok(nid)
}

/// `True` and `False` up to 2.15, `true` and `false` since (selection, section 11.1).
fn boolean(entry: &Entry<'_>) -> Result<bool, Fault> {
    match entry.text()? {
        "True" | "true" => Ok(true),
        "False" | "false" => Ok(false),
        _ => Err(entry.invalid_value("Multi-Rail is True or False")),
    }
}
