//! The loopback LND: carries messages from this node to itself.

use lnet_core::{Landing, MessageStatus, NiId, RxId, Transmit, Verdict};
use lnet_tcp::Source;
use lnet_types::{Nid, ProcessId, Time};
use rustc_hash::FxHashMap;

use crate::stack::event::EventSink;
use crate::stack::turn::Side;

/// Messages that wait at a lazy portal of this node. Messages from other nodes wait in a socket instead.
pub(crate) type Parked = FxHashMap<RxId, Transmit>;

/// Carries one message from the core back into the core.
pub(crate) fn carry<Q: EventSink>(side: &mut Side<Q>, transmit: &Transmit, now: Time) {
    let from = ProcessId {
        nid: Nid::LOOPBACK,
        pid: transmit.header.src_pid,
    };
    match side
        .core
        .header(NiId::LOOPBACK, from, &transmit.header, now)
    {
        Verdict::Receive { rx, landing } => deliver(side, rx, Some(landing), transmit, now),
        Verdict::Hold { rx } => {
            side.parked.insert(rx, transmit.clone());
        }
        // The core has dropped and counted the message. For the sender it was sent, as on any net.
        Verdict::Drop(_) => side.core.sent(transmit.tx, MessageStatus::Ok, now),
        Verdict::Reject(_) => side.core.sent(transmit.tx, MessageStatus::LocalError, now),
    }
}

/// Continues a parked message; returns false if `rx` is not a loopback message.
pub(crate) fn resume<Q: EventSink>(
    side: &mut Side<Q>,
    rx: RxId,
    landing: Option<Landing>,
    now: Time,
) -> bool {
    let Some(transmit) = side.parked.remove(&rx) else {
        return false;
    };
    deliver(side, rx, landing, &transmit, now);
    true
}

/// Copies a message from memory to memory. The copy is necessary: both ends are buffers of this node.
fn deliver<Q: EventSink>(
    side: &mut Side<Q>,
    rx: RxId,
    landing: Option<Landing>,
    transmit: &Transmit,
    now: Time,
) {
    let destination = landing.and_then(|landing| side.destination(rx, landing));
    let source = transmit.payload.and_then(|payload| side.source(payload));
    if let (Some(destination), Some(source)) = (destination, source) {
        match source {
            Source::Shared(bytes) => destination.memory().copy_in(&bytes),
            Source::Span(span) => span.copy_to(destination.memory()),
            // Only payload that is forwarded to another node is in a pipe.
            Source::Pipe(..) => 0,
        };
    }
    side.arrived(rx, Ok(()), now);
    side.core.sent(transmit.tx, MessageStatus::Ok, now);
}
