//! The loopback LND: a message to this node never leaves it (section 5.9).

use lnet_core::{Landing, MessageStatus, NiId, RxId, Transmit, Verdict};
use lnet_tcp::Source;
use lnet_types::{Nid, ProcessId, Time};
use rustc_hash::FxHashMap;

use crate::event::EventSink;
use crate::stack::Side;

/// Messages that wait at a lazy portal of this node, as others wait in a socket.
pub(crate) type Parked = FxHashMap<RxId, Transmit>;

/// Carries one message from the core back into the core.
pub(crate) fn carry<Q: EventSink>(side: &mut Side<Q>, transmit: Transmit, now: Time) {
    let from = ProcessId {
        nid: Nid::LOOPBACK,
        pid: transmit.header.src_pid,
    };
    match side
        .core
        .header(NiId::LOOPBACK, from, &transmit.header, now)
    {
        Verdict::Receive { rx, landing } => deliver(side, rx, Some(landing), &transmit, now),
        Verdict::Hold { rx } => {
            side.parked.insert(rx, transmit);
        }
        // Dropped and counted by the core; to the sender it has left, as on any network.
        Verdict::Discard(_) => side.core.sent(transmit.tx, MessageStatus::Ok, now),
        Verdict::Refuse(_) => side.core.sent(transmit.tx, MessageStatus::LocalError, now),
    }
}

/// Continues a parked message; false when `rx` is not one of loopback's.
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

/// Memory to memory is a copy that cannot be saved: both ends are buffers of this node.
fn deliver<Q: EventSink>(
    side: &mut Side<Q>,
    rx: RxId,
    landing: Option<Landing>,
    transmit: &Transmit,
    now: Time,
) {
    let landing = landing.and_then(|landing| side.landing(rx, landing));
    let source = transmit.payload.and_then(|payload| side.source(payload));
    if let (Some(landing), Some(source)) = (landing, source) {
        match source {
            Source::Shared(bytes) => landing.memory().copy_in(&bytes),
            Source::Span(span) => span.copy_to(landing.memory()),
            // Only what is forwarded to another node is in a pipe.
            Source::Pipe(..) => 0,
        };
    }
    side.arrived(rx, Ok(()), now);
    side.core.sent(transmit.tx, MessageStatus::Ok, now);
}
