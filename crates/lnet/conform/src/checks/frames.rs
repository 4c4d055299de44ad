//! Frames.

use lnet_wire::{Ctype, FrameType, Handle, HelloVersion, KsockHeader};

use super::messages::{UNUSED_PORTAL, spoiled};
use crate::link::{Answer, Link, first_ready};
use crate::probe::{Probe, SINK_MAX, Stop, ensure, equal};

/// The smallest payload for which a kernel can be configured to ask for an acknowledgement: [ZC-1].
const ZERO_COPY_MIN: usize = 2048;

pub(super) fn fields(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let heard = probe.ping_afresh(SINK_MAX)?;
    equal("the checksum", &heard.frame.csum, &0)?;
    let [request, ack] = heard.frame.cookies;
    equal("the acknowledged cookie", &ack, &0)?;
    ensure(request == 0 || heard.payload.len() >= ZERO_COPY_MIN, || {
        let length = heard.payload.len();
        format!("a payload of {length} bytes asks for acknowledgement {request}")
    })
}

pub(super) fn noop(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let mut link = probe.open(Ctype::CONTROL)?;
    link.send(&KsockHeader::KEEPALIVE.to_bytes());
    link.send(&noop_of(0, [0, 0]));
    probe.still_answers(&mut link)
}

pub(super) fn undefined(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let mut link = probe.open(Ctype::CONTROL)?;
    link.send(&undefined_frame());
    link.closed().map(drop)
}

/// A frame with an undefined type.
pub(super) fn undefined_frame() -> Vec<u8> {
    spoiled(noop_of(0, [0, 0]).to_vec(), 0, 0xC2)
}

pub(super) fn checksum(probe: &mut Probe<'_>) -> Result<(), Stop> {
    probe.need_small_nid()?;
    let mut ours = probe.hello(Ctype::CONTROL);
    ours.version = HelloVersion::V2;
    let (mut link, _) = probe.handshake(&ours)?;
    link.send(&noop_of(0xDEAD_BEEF, [0, 0]));
    link.closed().map(drop)
}

pub(super) fn ack_unknown(probe: &mut Probe<'_>) -> Result<(), Stop> {
    closes(probe, [0, 77])
}

pub(super) fn ack_keepalive(probe: &mut Probe<'_>) -> Result<(), Stop> {
    closes(probe, [77, 1])
}

fn closes(probe: &mut Probe<'_>, cookies: [u64; 2]) -> Result<(), Stop> {
    let mut link = probe.open(Ctype::CONTROL)?;
    link.send(&noop_of(0, cookies));
    link.closed().map(drop)
}

pub(super) fn cut(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let mut link = probe.open(Ctype::CONTROL)?;
    let frame = KsockHeader::LNET.to_bytes();
    link.send(frame.get(..10).unwrap_or_default());
    link.end_after_bytes();
    link.closed().map(drop)
}

/// Cookies of the requests; kernels count from 2.
const COOKIES: [u64; 3] = [2, 3, 4];

/// The smallest payload for which kernels ask for an acknowledgement by default.
const PAYLOAD: usize = 16_384;

pub(super) fn zero_copy(probe: &mut Probe<'_>) -> Result<(), Stop> {
    probe.need_siblings()?;
    let control = probe.open(Ctype::CONTROL)?;
    let bulk_in = probe.open(Ctype::BULK_IN)?;
    // A kernel acknowledges only on its BULK_IN.
    let mut bulk_out = probe.open(Ctype::BULK_OUT)?;
    for cookie in COOKIES {
        let frame = KsockHeader {
            cookies: [cookie, 0],
            ..KsockHeader::LNET
        };
        let header = probe.put_header(UNUSED_PORTAL, Handle::NONE, PAYLOAD as u32);
        bulk_out.send_message(frame, &header, &[0x5A; PAYLOAD])?;
    }
    let mut links = [control, bulk_in, bulk_out];
    let mut acknowledged = [0; COOKIES.len()];
    while acknowledged.contains(&0) {
        take_acknowledgement(&mut links, &mut acknowledged)?;
    }
    ensure(acknowledged == [1; COOKIES.len()], || {
        format!("cookies {COOKIES:?} were acknowledged {acknowledged:?} times")
    })
}

fn take_acknowledgement(links: &mut [Link; 3], acknowledged: &mut [u32]) -> Result<(), Stop> {
    let ready = first_ready(&links.each_ref())?;
    let Some(link) = links.get_mut(ready) else {
        return Ok(());
    };
    match link.answer("a zero-copy acknowledgement")? {
        Answer::Zc(ack) => {
            let counts = acknowledged.iter_mut().zip(COOKIES);
            counts.for_each(|(count, cookie)| *count += u32::from(ack.contains(cookie)));
            Ok(())
        }
        other => Err(Stop::failed(format!(
            "{} answers a PUT that matches nothing",
            other.name()
        ))),
    }
}

fn noop_of(csum: u32, cookies: [u64; 2]) -> [u8; KsockHeader::LEN] {
    let header = KsockHeader {
        frame_type: FrameType::Noop,
        csum,
        cookies,
    };
    header.to_bytes()
}
