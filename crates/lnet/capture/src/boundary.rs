//! Finds the start of a frame after a gap, after damage, and in a connection that began before the
//! capture.
//!
//! A position is a boundary if a whole frame header (and, for an LNet frame, a whole LNet header)
//! decodes there with values that nodes send: no checksum, unused bytes zero, known networks, a
//! portal below 64. These conditions fix more than 200 bits of an LNet frame and more than 100 of a
//! NOOP, so payload does not satisfy them by chance.

use lnet_types::Nid;
use lnet_wire::{
    Body, ByteOrder, DecodeError, FrameType, Header, HeaderForm, KsockHeader, PORTALS, ZcAck,
};

/// The known properties of a stream's frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Framing {
    /// False for HELLO version 1.
    pub(crate) frame_header: bool,
    /// The form of LNet headers, if known.
    pub(crate) form: Option<HeaderForm>,
}

impl Framing {
    /// Bytes before the LNet header.
    pub(crate) const fn frame_header_len(&self) -> usize {
        if self.frame_header {
            KsockHeader::LEN
        } else {
            0
        }
    }

    /// Bytes before the payload of an LNet frame; those of the longer form if the form is unknown.
    pub(crate) fn headers_len(&self) -> usize {
        self.frame_header_len() + self.form.unwrap_or(HeaderForm::Nid16).len()
    }
}

/// The result of a search in one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A frame starts here; the form of its LNet header if it has one.
    At(usize, Option<HeaderForm>),
    /// No frame starts before this position; more bytes are needed to check the position.
    NotBefore(usize),
}

/// Decodes a frame header in the byte order that its type shows. The HELLO also shows the order,
/// but a capture may lack the HELLO.
pub(crate) fn frame_header(bytes: &[u8]) -> Result<KsockHeader, DecodeError> {
    let order = KsockHeader::order_of(bytes).unwrap_or(ByteOrder::Little);
    KsockHeader::decode(order, bytes)
}

/// Searches the first boundary at or after `from`.
pub(crate) fn find(bytes: &[u8], from: usize, framing: Framing) -> Found {
    for at in from..bytes.len() {
        match check_position(bytes.get(at..).unwrap_or_default(), framing) {
            Verdict::Boundary(form) => return Found::At(at, form),
            Verdict::Unsure => return Found::NotBefore(at),
            Verdict::No => {}
        }
    }
    Found::NotBefore(bytes.len().max(from))
}

/// The form in which the LNet header at the start of `bytes` is plausible. `None` if neither form
/// is, or if more bytes are needed.
pub(crate) fn infer_form(bytes: &[u8]) -> Option<HeaderForm> {
    [HeaderForm::Nid4, HeaderForm::Nid16]
        .into_iter()
        .find(|&form| bytes.len() >= form.len() && is_plausible_header(form, bytes))
}

enum Verdict {
    Boundary(Option<HeaderForm>),
    No,
    Unsure,
}

fn check_position(bytes: &[u8], framing: Framing) -> Verdict {
    if !framing.frame_header {
        return check_header(bytes, framing);
    }
    if bytes.len() < KsockHeader::LEN {
        return Verdict::Unsure;
    }
    let Ok(frame) = frame_header(bytes) else {
        return Verdict::No;
    };
    let behind = bytes.get(KsockHeader::LEN..).unwrap_or_default();
    match frame.frame_type {
        _ if frame.csum != 0 => Verdict::No,
        FrameType::Lnet => check_header(behind, framing),
        FrameType::Noop if is_plausible_noop(&frame, behind) => Verdict::Boundary(None),
        FrameType::Noop => Verdict::No,
    }
}

fn check_header(bytes: &[u8], framing: Framing) -> Verdict {
    let form = match framing.form {
        Some(form) => is_plausible_header(form, bytes).then_some(form),
        None => infer_form(bytes),
    };
    let longest = framing.form.unwrap_or(HeaderForm::Nid16).len();
    match form {
        Some(form) => Verdict::Boundary(Some(form)),
        None if bytes.len() < longest => Verdict::Unsure,
        None => Verdict::No,
    }
}

/// The highest plausible cookie. Cookies count up from 2 for each peer; a higher one would take
/// years of traffic.
const COOKIE_MAX: u64 = 1 << 40;

fn is_plausible_noop(frame: &KsockHeader, behind: &[u8]) -> bool {
    let acknowledges = frame.zc_ack().is_ok_and(|ack| ack != ZcAck::None);
    // The check of the whole next frame header follows later.
    let next_is_frame = behind.len() < 4 || KsockHeader::order_of(behind).is_some();
    acknowledges && next_is_frame && frame.cookies.iter().all(|&cookie| cookie < COOKIE_MAX)
}

fn is_plausible_header(form: HeaderForm, bytes: &[u8]) -> bool {
    let Ok(header) = Header::decode(form, bytes) else {
        return false;
    };
    let portal = match header.body {
        Body::Put(put) => put.ptl_index,
        Body::Get(get) => get.ptl_index,
        Body::Ack(_) | Body::Reply(_) => 0,
    };
    portal < PORTALS
        && is_plausible_nid(header.dest_nid)
        && is_plausible_nid(header.src_nid)
        && Header::reserved_is_zero(form, bytes)
}

fn is_plausible_nid(nid: Nid) -> bool {
    !nid.is_any() && nid.net().lnd.name().is_some()
}
