//! Handshakes that the node must reject.

use lnet_types::Nid;
use lnet_wire::{Connreq, Ctype, Hello, LNET_MAGIC};

use super::handshake::{NIPS_AT, set_u32, stranger};
use crate::link::{Ended, Link};
use crate::probe::{Probe, Stop, ensure, equal, hello_of, request_of};

/// An undefined version, which was tried on a kernel.
const UNKNOWN_VERSION: u32 = 99;

pub(super) fn request_junk(probe: &mut Probe<'_>) -> Result<(), Stop> {
    silently(&ended(probe, b"GET / HTTP/1.0\r\n\r\n")?)
}

pub(super) fn request_lnet_magic(probe: &mut Probe<'_>) -> Result<(), Stop> {
    sent_rejection(&ended(probe, &LNET_MAGIC.to_le_bytes())?)
}

pub(super) fn request_version(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let mut request = probe.request();
    set_u32(&mut request, 4, UNKNOWN_VERSION);
    sent_rejection(&ended(probe, &request)?)
}

pub(super) fn request_other_nid(probe: &mut Probe<'_>) -> Result<(), Stop> {
    silently(&ended(probe, &request_of(&Connreq::to(stranger())))?)
}

pub(super) fn request_loopback(probe: &mut Probe<'_>) -> Result<(), Stop> {
    silently(&ended(probe, &request_of(&Connreq::to(Nid::LOOPBACK)))?)
}

pub(super) fn silent(probe: &mut Probe<'_>) -> Result<(), Stop> {
    silently(&ended(probe, &[])?)
}

pub(super) fn hello_short(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let hello = hello_of(&probe.hello(Ctype::CONTROL));
    let half = hello.get(..40).unwrap_or_default();
    silently(&ended(probe, &[&probe.request(), half].concat())?)
}

pub(super) fn hello_magic(probe: &mut Probe<'_>) -> Result<(), Stop> {
    spoiled_hello(probe, 0, 0x6B6E_756A)
}

pub(super) fn hello_17_addresses(probe: &mut Probe<'_>) -> Result<(), Stop> {
    probe.need_small_nid()?;
    spoiled_hello(probe, NIPS_AT, Hello::MAX_ADDRESSES + 1)
}

pub(super) fn hello_zero_address(probe: &mut Probe<'_>) -> Result<(), Stop> {
    probe.need_small_nid()?;
    let mut hello = hello_of(&probe.hello(Ctype::CONTROL));
    set_u32(&mut hello, NIPS_AT, 1);
    hello.extend([0; 4]);
    silently(&ended(probe, &[probe.request(), hello].concat())?)
}

pub(super) fn hello_any(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let mut hello = probe.hello(Ctype::CONTROL);
    hello.src_nid = Nid::ANY;
    let hello = hello_of(&hello);
    silently(&ended(probe, &[probe.request(), hello].concat())?)
}

pub(super) fn hello_type(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let mut hello = probe.hello(Ctype::CONTROL);
    hello.ctype = Ctype(4);
    let hello = hello_of(&hello);
    silently(&ended(probe, &[probe.request(), hello].concat())?)
}

pub(super) fn hello_version(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let ours = probe.hello(Ctype::CONTROL);
    let mut hello = hello_of(&ours);
    set_u32(&mut hello, 4, UNKNOWN_VERSION);
    let ended = ended(probe, &[probe.request(), hello].concat())?;
    not_destroyed(&ended)?;
    let answer = Hello::decode(&ended.said)
        .map_err(|error| Stop::failed(format!("no HELLO came back: {error}")))?;
    equal("the type", &answer.hello.ctype, &Ctype::NONE)?;
    equal("the version", &answer.hello.version, &ours.version)?;
    equal("the source NID", &answer.hello.src_nid, &probe.nid())
}

/// A HELLO with one integer replaced.
fn spoiled_hello(probe: &mut Probe<'_>, at: usize, value: u32) -> Result<(), Stop> {
    let mut hello = hello_of(&probe.hello(Ctype::CONTROL));
    set_u32(&mut hello, at, value);
    silently(&ended(probe, &[probe.request(), hello].concat())?)
}

/// Sends `bytes` on a new connection and waits until the node closes.
fn ended(probe: &mut Probe<'_>, bytes: &[u8]) -> Result<Ended, Stop> {
    let mut link: Link = probe.connect()?;
    link.send(bytes);
    link.closed()
}

fn silently(ended: &Ended) -> Result<(), Stop> {
    let count = ended.said.len();
    ensure(count == 0, || {
        format!("the node sent {count} bytes before it closed")
    })
}

/// Checks that the node sent the rejection of a connection request.
fn sent_rejection(ended: &Ended) -> Result<(), Stop> {
    not_destroyed(ended)?;
    let due = Connreq::REJECTION.as_slice();
    ensure(ended.said == due, || {
        format!("the node sent {:02x?}, not {due:02x?}", ended.said)
    })
}

fn not_destroyed(ended: &Ended) -> Result<(), Stop> {
    if ended.reset && ended.said.is_empty() {
        return Err(Stop::NotApplicable(
            "the node reset the connection, which destroys what it may have said before (HELLO-16)"
                .to_owned(),
        ));
    }
    Ok(())
}
