//! The push target.
//!
//! The pushed information has no Multi-Rail bit. A receiver acknowledges and then ignores it,
//! so the node does not ping the checker and keeps nothing more about it.

use lnet_types::ProcessId;
use lnet_wire::{
    Body, Ctype, Handle, KsockHeader, LNET_PORTAL, NiStatus, PING_MATCH_BITS, PingFeatures,
    PingInfoRepr, PingNi,
};

use crate::link::Link;
use crate::probe::{Probe, Stop, equal};

pub(super) fn acknowledged(probe: &mut Probe<'_>) -> Result<(), Stop> {
    need_target(probe)?;
    let info = info(probe)?;
    let mut link = probe.open(Ctype::CONTROL)?;
    push(probe, &mut link, &info)
}

pub(super) fn again(probe: &mut Probe<'_>) -> Result<(), Stop> {
    need_target(probe)?;
    let info = info(probe)?;
    let mut link = probe.open(Ctype::CONTROL)?;
    push(probe, &mut link, &info)?;
    push(probe, &mut link, &info)
}

pub(super) fn unacknowledged(probe: &mut Probe<'_>) -> Result<(), Stop> {
    need_target(probe)?;
    let info = info(probe)?;
    let mut link = probe.open(Ctype::CONTROL)?;
    let header = probe.put_header(LNET_PORTAL, Handle::NONE, info.len() as u32);
    link.send_message(KsockHeader::LNET, &header, &info)?;
    probe.still_answers(&mut link)
}

pub(super) fn malformed(probe: &mut Probe<'_>) -> Result<(), Stop> {
    need_target(probe)?;
    let mut info = info(probe)?;
    if let Some(magic) = info.first_mut() {
        *magic ^= 0xFF;
    }
    let mut link = probe.open(Ctype::CONTROL)?;
    push(probe, &mut link, &info)?;
    probe.still_answers(&mut link)
}

/// Pushes, and compares the ACK with the push.
fn push(probe: &mut Probe<'_>, link: &mut Link, info: &[u8]) -> Result<(), Stop> {
    let handle = probe.handle();
    let header = probe.put_header(LNET_PORTAL, handle, info.len() as u32);
    link.send_message(KsockHeader::LNET, &header, info)?;
    let heard = link.ack()?;
    let Body::Ack(ack) = heard.header.body else {
        return Err(Stop::failed("the answer is no ACK"));
    };
    equal("the handle", &ack.dst_wmd, &handle)?;
    equal("the match bits", &ack.match_bits, &PING_MATCH_BITS)?;
    equal("the accepted length", &(ack.mlength as usize), &info.len())
}

/// Stops if the node does not announce that it accepts pushes.
fn need_target(probe: &Probe<'_>) -> Result<(), Stop> {
    let promise = PingFeatures::MULTI_RAIL | PingFeatures::DISCOVERY;
    if probe.features()?.contains(promise) {
        return Ok(());
    }
    Err(Stop::NotApplicable(
        "the node does not advertise discovery".to_owned(),
    ))
}

fn info(probe: &Probe<'_>) -> Result<Vec<u8>, Stop> {
    let ni = PingNi {
        nid: probe.me.nid,
        status: NiStatus::UP,
    };
    let info = PingInfoRepr {
        features: PingFeatures::NI_STATUS | PingFeatures::RTE_DISABLED,
        pid: ProcessId::LUSTRE_PID,
        sequence: 1,
        nis: &[ni],
    };
    let info = info.with_large_bits();
    let mut bytes = vec![0; info.encoded_len()];
    info.encode(&mut bytes)
        .map_err(|error| Stop::NotApplicable(error.to_string()))?;
    Ok(bytes)
}
