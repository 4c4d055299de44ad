//! Ping information.

use lnet_types::ProcessId;
use lnet_wire::{Body, NiStatus, PING_BUFFER_MIN, PingFeatures, PingInfo};

use super::messages::dropped;
use crate::probe::{Probe, SINK_MAX, Stop, ensure, equal};

/// The most entries that any kernel accepts.
const ENTRIES_MAX: u32 = 4096;

/// Room for the header and the entry of 0@lo. Every info is longer, because it has an interface.
const CUT: u32 = 32;

pub(super) fn reply(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let heard = probe.ping_afresh(PING_BUFFER_MIN)?;
    ensure(!heard.payload.is_empty(), || {
        "the REPLY has no payload".to_owned()
    })
}

pub(super) fn valid(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let payload = probe.ping_afresh(SINK_MAX)?.payload;
    let checked = read(&payload)?.validate(ENTRIES_MAX);
    checked.map_err(|error| Stop::failed(error.to_string()))
}

pub(super) fn size(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let payload = probe.ping_afresh(SINK_MAX)?.payload;
    let info = read(&payload)?;
    if info.features().contains(PingFeatures::METADATA) {
        return Err(Stop::NotApplicable("metadata follows the info".to_owned()));
    }
    let due = info.info_size().min(SINK_MAX as usize);
    equal("the length of the REPLY", &payload.len(), &due)
}

pub(super) fn contains_nid(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let payload = probe.ping_afresh(SINK_MAX)?.payload;
    let info = read(&payload)?;
    if info.is_truncated() {
        return Err(Stop::NotApplicable(
            "the list is longer than a ping has room for".to_owned(),
        ));
    }
    let nid = probe.nid();
    ensure(info.nis().any(|ni| ni.nid == nid), || {
        format!("{nid} is not in the list")
    })
}

pub(super) fn pid(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let payload = probe.ping_afresh(SINK_MAX)?.payload;
    let found = read(&payload)?.pid();
    equal("the process", &found, &ProcessId::LUSTRE_PID)
}

pub(super) fn status(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let payload = probe.ping_afresh(SINK_MAX)?.payload;
    let known = [NiStatus::UP, NiStatus::DOWN, NiStatus::INVALID];
    let mut nis = read(&payload)?.nis();
    match nis.find(|ni| !known.contains(&ni.status)) {
        None => Ok(()),
        Some(ni) => Err(Stop::failed(format!(
            "the status of {} is {:#x}",
            ni.nid, ni.status.0
        ))),
    }
}

/// Feature bits that require another bit.
const NEEDS: [(PingFeatures, PingFeatures, &str); 2] = [
    (
        PingFeatures::DISCOVERY,
        PingFeatures::MULTI_RAIL,
        "DISCOVERY is set without MULTI_RAIL",
    ),
    (
        PingFeatures::PRIMARY_LARGE,
        PingFeatures::LARGE_ADDR,
        "PRIMARY_LARGE is set without LARGE_ADDR",
    ),
];

pub(super) fn features(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let payload = probe.ping_afresh(SINK_MAX)?.payload;
    let features = read(&payload)?.features();
    ensure(!features.contains(PingFeatures::BASE), || {
        "BASE is set, which no release sets".to_owned()
    })?;
    for (bit, needed, what) in NEEDS {
        let holds = !features.contains(bit) || features.contains(needed);
        ensure(holds, || what.to_owned())?;
    }
    Ok(())
}

pub(super) fn cut(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let whole = probe.ping_afresh(SINK_MAX)?.payload;
    let part = probe.ping_afresh(CUT)?.payload;
    equal("the length of the REPLY", &part.len(), &(CUT as usize))?;
    // The sequence number, in the status of entry 0, may have grown in between.
    let same = part.get(..24) == whole.get(..24);
    ensure(same, || {
        "the bytes are not the first ones of the whole info".to_owned()
    })
}

pub(super) fn sequence(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let mut numbers = [0; 2];
    for number in &mut numbers {
        let payload = probe.ping_afresh(SINK_MAX)?.payload;
        *number = read(&payload)?
            .sequence()
            .ok_or_else(|| Stop::failed("there is no whole entry 0"))?;
    }
    let [first, second] = numbers;
    ensure(first > 0, || "the sequence number is 0".to_owned())?;
    ensure(first <= second, || {
        format!("the sequence number fell from {first} to {second}")
    })
}

pub(super) fn other_bits(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let (mut header, handle) = probe.ping_header(SINK_MAX);
    if let Body::Get(get) = &mut header.body {
        get.match_bits = 0x5A;
    }
    dropped(probe, &header, &[], handle)
}

fn read(payload: &[u8]) -> Result<PingInfo<'_>, Stop> {
    PingInfo::parse(payload).map_err(|error| Stop::failed(error.to_string()))
}
