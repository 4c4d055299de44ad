//! Observed state of interfaces.

use lnet_types::Nid;

use super::reader::{Reader, has_key, number};
use crate::document::{NiShow, PeerNiShow, Status, UdspInfo};
use crate::error::Fault;
use crate::stats::PeerCredits;
use crate::yaml::Entry;

/// Keys that nodes print for a local interface and imports ignore.
const NI_KEYS: [&str; 8] = [
    "status",
    "statistics",
    "sent_stats",
    "received_stats",
    "dropped_stats",
    "health stats",
    "udsp info",
    "dev cpt",
];

/// The same for a peer's interface, without its credits.
const PEER_NI_KEYS: [&str; 7] = [
    "state",
    "statistics",
    "sent_stats",
    "received_stats",
    "dropped_stats",
    "health stats",
    "udsp info",
];

/// Reads observed state of a local interface; false for another key.
// [CONF-3]
pub(super) fn ni(ni: &mut NiShow, entry: &Entry<'_>, reader: &mut Reader) -> Result<bool, Fault> {
    let key = entry.key.as_ref();
    if !NI_KEYS.contains(&key) {
        return Ok(false);
    }
    if !reader.shows() {
        return Ok(true);
    }
    match key {
        "status" => ni.status = Some(status(entry)?),
        "statistics" => ni.statistics = Some(reader.block(entry)?),
        "sent_stats" => ni.sent = Some(reader.block(entry)?),
        "received_stats" => ni.received = Some(reader.block(entry)?),
        "dropped_stats" => ni.dropped = Some(reader.block(entry)?),
        "health stats" => ni.health = Some(reader.block(entry)?),
        "udsp info" => ni.udsp = Some(udsp_info(entry, reader)?),
        _ => ni.dev_cpt = Some(entry.signed()?),
    }
    Ok(true)
}

/// Reads observed state of a peer's interface; false for another key.
pub(super) fn peer_ni(
    ni: &mut PeerNiShow,
    entry: &Entry<'_>,
    reader: &mut Reader,
) -> Result<bool, Fault> {
    let key = entry.key.as_ref();
    let is_credit = has_key::<PeerCredits>(key);
    if !is_credit && !PEER_NI_KEYS.contains(&key) {
        return Ok(false);
    }
    if !reader.shows() {
        return Ok(true);
    }
    if is_credit {
        return number(ni.credits.get_or_insert_default(), entry);
    }
    match key {
        "state" => ni.state = Some(status(entry)?),
        "statistics" => ni.statistics = Some(reader.block(entry)?),
        "sent_stats" => ni.sent = Some(reader.block(entry)?),
        "received_stats" => ni.received = Some(reader.block(entry)?),
        "dropped_stats" => ni.dropped = Some(reader.block(entry)?),
        "health stats" => ni.health = Some(reader.block(entry)?),
        _ => ni.udsp = Some(udsp_info(entry, reader)?),
    }
    Ok(true)
}

pub(super) fn status(entry: &Entry<'_>) -> Result<Status, Fault> {
    match entry.text()? {
        "up" => Ok(Status::Up),
        "down" => Ok(Status::Down),
        "NA" => Ok(Status::NotWatched),
        _ => Err(entry.invalid_value("it is up, down or NA")),
    }
}

fn udsp_info(section: &Entry<'_>, reader: &mut Reader) -> Result<UdspInfo, Fault> {
    let mut info = UdspInfo::default();
    for entry in section.mapping()? {
        match entry.key.as_ref() {
            "net priority" => info.net_priority = entry.unsigned_or_default(0..=u32::MAX)?,
            "nid priority" => info.nid_priority = entry.unsigned_or_default(0..=u32::MAX)?,
            "Preferred gateway NIDs" => info.gateways = nids(entry)?,
            "Preferred source NIDs" => info.sources = nids(entry)?,
            _ => reader.unknown(entry, &[])?,
        }
    }
    Ok(info)
}

/// `NID-0: …`, `NID-1: …`: the keys are only a count.
pub(super) fn nids(section: &Entry<'_>) -> Result<Vec<Nid>, Fault> {
    section.mapping()?.iter().map(Entry::parse).collect()
}
