//! The `peer` section.

use std::collections::BTreeSet;

use lnet_types::Nid;

use super::fields::mapping_of;
use super::reader::Reader;
use super::shown;
use crate::document::{PeerNiShow, PeerShow};
use crate::error::{Fault, Problem};
use crate::yaml::{Entry, Node};

const PEER_KEYS: [&str; 3] = ["primary nid", "Multi-Rail", "peer ni"];

/// Reads the section. `seen` has the NIDs of all earlier peers.
pub(super) fn peers(
    section: &Entry<'_>,
    seen: &mut BTreeSet<Nid>,
    reader: &mut Reader,
) -> Result<Vec<PeerShow>, Fault> {
    reader.each(section, |item, reader| peer(item, seen, reader))
}

/// Reads a peer; `None` if its primary NID was rejected.
fn peer(
    item: &Node<'_>,
    seen: &mut BTreeSet<Nid>,
    reader: &mut Reader,
) -> Result<Option<PeerShow>, Fault> {
    let (mut primary, mut multi_rail, mut state, mut nis) = (None, true, None, None);
    for entry in mapping_of(item, "peer")? {
        match entry.key.as_ref() {
            "primary nid" => primary = Some(entry),
            "Multi-Rail" => multi_rail = reader.attempt(|_| boolean(entry))?.unwrap_or(true),
            "peer ni" => nis = Some(entry),
            "peer state" if reader.shows() => state = reader.attempt(|_| entry.count())?,
            "peer state" => {}
            _ => reader.unknown(entry, &PEER_KEYS)?,
        }
    }
    let Some(primary) = primary else {
        return Err(Fault::new(
            item.place,
            Problem::MissingKey { key: "primary nid" },
        ));
    };
    let primary = reader.attempt(|reader| peer_nid(primary, seen, reader))?;
    let nis = match nis {
        // If the primary NID was rejected, the other NIDs are still checked.
        Some(list) => peer_nis(list, primary.unwrap_or(Nid::ANY), seen, reader)?,
        None => Vec::new(),
    };
    Ok(primary.map(|primary| PeerShow {
        primary,
        multi_rail,
        state,
        nis,
    }))
}

fn peer_nis(
    section: &Entry<'_>,
    primary: Nid,
    seen: &mut BTreeSet<Nid>,
    reader: &mut Reader,
) -> Result<Vec<PeerNiShow>, Fault> {
    let mut primary_listed = false;
    reader.each(section, |item, reader| {
        let (nid, mut ni) = peer_ni(item, reader)?;
        // The list usually contains the primary NID, too; only a second occurrence is an error.
        if !primary_listed && nid.parse::<Nid>()? == primary {
            primary_listed = true;
            ni.nid = primary;
        } else {
            ni.nid = peer_nid(nid, seen, reader)?;
        }
        Ok(Some(ni))
    })
}

/// One item under `peer ni`, and its `nid` entry.
fn peer_ni<'n, 'a>(
    item: &'n Node<'a>,
    reader: &mut Reader,
) -> Result<(&'n Entry<'a>, PeerNiShow), Fault> {
    let mut nid = None;
    let mut ni = PeerNiShow::new(Nid::ANY);
    for entry in mapping_of(item, "peer ni")? {
        match entry.key.as_ref() {
            "nid" => nid = Some(entry),
            _ => {
                let known = reader.attempt(|reader| shown::peer_ni(&mut ni, entry, reader))?;
                if known == Some(false) {
                    reader.unknown(entry, &["nid"])?;
                }
            }
        }
    }
    let nid = nid.ok_or(Fault::new(item.place, Problem::MissingKey { key: "nid" }))?;
    Ok((nid, ni))
}

fn peer_nid(
    entry: &Entry<'_>,
    seen: &mut BTreeSet<Nid>,
    reader: &mut Reader,
) -> Result<Nid, Fault> {
    let nid: Nid = entry.parse()?;
    if nid.is_any() || nid.is_loopback() {
        return Err(Fault::new(entry.node.place, Problem::NotAPeer(nid)));
    }
    if !seen.insert(nid) {
        reader.complain(Fault::new(entry.node.place, Problem::NidTwice(nid)))?;
    }
    Ok(nid)
}

/// `True` and `False` up to 2.15, `true` and `false` in later releases.
// [CONF-28]
pub(super) fn boolean(entry: &Entry<'_>) -> Result<bool, Fault> {
    match entry.text()? {
        "True" | "true" => Ok(true),
        "False" | "false" => Ok(false),
        _ => Err(entry.invalid_value("Multi-Rail is True or False")),
    }
}
