//! Rules about several connections of one peer.

use lnet_wire::Ctype;

use super::frames::undefined_frame;
use crate::link::Link;
use crate::node::takes_both_for_one_peer;
use crate::probe::{Probe, Stop};

pub(super) fn reply_connection(probe: &mut Probe<'_>) -> Result<(), Stop> {
    if !probe.subject().privileged {
        probe.need_siblings()?;
    }
    takes_both_for_one_peer(probe)
}

pub(super) fn error(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let (mut control, mut bulk) = pair(probe)?;
    control.send(&undefined_frame());
    control.closed()?;
    closed_too(&mut bulk)
}

pub(super) fn end(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let (mut control, mut bulk) = pair(probe)?;
    control.end_writing();
    closed_too(&mut bulk)
}

pub(super) fn restart(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let (_control, mut bulk) = pair(probe)?;
    probe.incarnation += 1;
    // A kernel answers NONE here, and our node accepts; both close the earlier connections.
    let mut later = probe.dial(&probe.hello(Ctype::CONTROL))?;
    later.hello()?;
    closed_too(&mut bulk)
}

fn pair(probe: &mut Probe<'_>) -> Result<(Link, Link), Stop> {
    probe.need_siblings()?;
    let control = probe.open(Ctype::CONTROL)?;
    let bulk = probe.open(Ctype::BULK_OUT)?;
    Ok((control, bulk))
}

fn closed_too(bulk: &mut Link) -> Result<(), Stop> {
    match bulk.closed() {
        Ok(_) => Ok(()),
        Err(_) => Err(Stop::failed(
            "the node kept the peer's other connection open",
        )),
    }
}
