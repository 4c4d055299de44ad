//! An LNet node as a state machine without I/O: interfaces, peers, routes, portals, messages, forwarding.
//!
//! Tags in comments cite the rules of the wire protocol in `docs/protocol`, and those of path selection, health,
//! policies and configuration in `docs/selection`.
//!
//! [`Core`] is the node. It takes inputs: a call of the user, a header that arrived, a payload that is in its place,
//! the result of an attempt to send, the time. It gives outputs ([`Output`]). The driver, which is the code that calls
//! the core, owns the clock, the connections and the memory. The core has no clock, socket, thread or lock, and no
//! random numbers but those of its seed. No input from outside can make it panic.
//!
//! ```text
//!           put get attach …          Event                       the rooms, each the owner of the one below it
//!                │                      ▲
//!  ┌─────────────▼──────────────────────┴──────────────┐
//!  │ upkeep    pings, discovery, recovery, routing     │        what the node does by itself
//!  ├───────────────────────────────────────────────────┤
//!  │ traffic   portals ─▶ send      receive ─▶ router  │        messages on their way
//!  ├───────────────────────────────────────────────────┤
//!  │ fabric    interfaces peers routes rules ─ select  │        what the node knows, and its choice of a path
//!  ├───────────────────────────────────────────────────┤
//!  │ ground    parameters time timers counters outputs │        what every room uses
//!  └───────┼──────────────────────┼────────────────────┘
//!          ▼                      │
//!      Transmit   sent      header   Verdict   arrived   Resume
//! ```
//!
//! A folder of `src` is a room, and its `mod.rs` says what it contains. `entry.rs` is the table of all inputs and names
//! the room that takes each; `queries.rs` and `view.rs` are what a caller may ask.

mod census;
#[cfg(feature = "defects")]
mod defects;
mod entry;
mod fabric;
mod ground;
mod queries;
mod record;
mod state;
#[cfg(test)]
mod tests;
mod traffic;
mod upkeep;
mod view;

use std::collections::VecDeque;

use lnet_types::Time;

pub use census::Census;
pub use entry::Input;
pub use fabric::discovery::{DiscoveryView, Heard, PeerState};
pub use fabric::gateways::distance::Distance;
pub use fabric::gateways::obstacle::{NoPath, RouteFault};
pub use fabric::gateways::route::RouteStats;
pub use fabric::news::News;
pub use fabric::own::RoutingState;
pub use fabric::peer::MAX_PEER_NIS;
pub use fabric::select::{
    Case, Choice, Classification, Criterion, Exclusion, Level, Locality, Observation, Observer,
    SelectError, Selection, SendQuery, Subject, TargetKind, Unobserved, Whose,
};
pub use fabric::watch::{HealthCause, Watched, WatchedAttempt, WatchedEvent, Watcher};
pub use ground::config::{
    ConfigError, CoreConfig, NiConfig, NiDevice, Route, RouterBuffers, Tunables, UsedPaths,
};
pub use ground::counters::{Counters, MessageStats, TypeCounts};
pub use ground::entropy::Entropy;
pub use ground::event::{Errno, Event, EventKind};
pub use ground::globals::Globals;
pub use ground::health::{Health, HealthView, NiHealthStats, PeerHealthStats};
pub use ground::histogram::{LATENCY_LIMITS, LatencyHistogram, LatencyHistograms};
pub use ground::io::{
    CoreBuffer, Landing, NiId, Output, Payload, Place, RouterBuffer, RouterPool, RxId, Transmit,
    TxId, Verdict,
};
pub use ground::latency::{Latency, LatencyStats};
pub use ground::md::{InsertPosition, MdHandle, MdOptions, MdSpec, MeHandle, MeSpec};
pub use ground::status::{DropReason, IllegalMessage, MessageStatus};
#[cfg(feature = "record-file")]
pub use record::file as record_file;
pub use record::{Answer, Recorded, Recorder, TooLate};
#[cfg(feature = "state-json")]
pub use state::json as state_json;
pub use state::{
    GatewaySelection, NetSelection, NiSelection, PeerNiSelection, PeerSelection, RecoverySelection,
    RouteSelection, SelectionState, StateError,
};
pub use traffic::fault::{
    DelayRule, DropRule, FaultError, FaultFilter, FaultStats, FaultTypes, NidFilter, Pace,
};
pub use traffic::portals::calls::PortalError;
pub use traffic::portals::put_get::{GetRequest, PutRequest, SendHints};
pub use traffic::portals::table::MAX_HELD_PER_PORTAL;
pub use upkeep::discovery::merge::PEER_NIDS_MAX;
pub use view::{NiView, PeerCursor, PeerNiView, PeerView, RouteView, RouterPoolView};

/// A node.
///
/// # How to drive a node
///
/// After every call that changes anything, take outputs with [`Core::poll_output`] until there are none. Call
/// [`Core::tick`] when the time of [`Core::next_deadline`] has come; an earlier call does no harm. Times never go
/// backwards; debug builds check this.
///
/// * The driver answers each [`Output::Transmit`] with exactly one call of [`Core::sent`], [`Core::sent_try_next`] or
///   [`Core::sent_in_no_form`]. The payload's memory stays valid until then. The core may resend a failed message as
///   another [`Output::Transmit`], with another id and another path. The caller who started the operation sees one
///   SEND event, after the last attempt.
/// * The driver gives each header that arrives to [`Core::header`]. It answers [`Verdict::Receive`] and
///   [`Verdict::Hold`] with exactly one call of [`Core::arrived`]: when the payload is in the place that [`Landing`]
///   or [`Output::Resume`] named; after a Resume without a landing, when the payload has been read and dropped; or
///   when the message fails, also while it is held. After [`Output::Cancel`] the driver reports the failure at once.
/// * An [`Event`] with `unlinked` is the last event of its descriptor. After it the memory belongs to the caller.
/// * The core counts and ignores an answer whose id names no message, or no longer names one.
///
/// # Two nodes in memory
///
/// ```
/// use lnet_core::*;
/// use lnet_types::{ProcessId, Time};
///
/// let config = |seed| CoreConfig {
///     entropy: Entropy::from_seed(seed),
///     seed: 1,
///     globals: Globals::default(),
///     buffers: RouterBuffers::default(),
///     routing: false,
///     pid: 12345,
/// };
/// let now = Time::ZERO;
/// let (mut a, mut b) = (Core::new(config(1), now), Core::new(config(2), now));
/// let nid_a = "10.0.0.1@tcp".parse()?;
/// let nid_b = "10.0.0.2@tcp".parse()?;
/// let ni = |nid| NiConfig { nid, tunables: Tunables::default() };
/// let ni_a = a.add_ni(ni(nid_a), now)?;
/// let ni_b = b.add_ni(ni(nid_b), now)?;
///
/// // B offers 64 bytes on portal 30.
/// let me = b.me_attach(MeSpec {
///     portal: 30,
///     match_id: ProcessId::ANY,
///     match_bits: 7,
///     ignore_bits: 0,
///     unlink_with_md: true,
///     position: InsertPosition::After,
/// })?;
/// let md = MdSpec {
///     length: 64,
///     threshold: Some(1),
///     max_size: 0,
///     options: MdOptions::OP_PUT,
///     unlink_when_exhausted: true,
///     user: 42,
/// };
/// b.md_attach(me, md, now)?;
///
/// // A puts five bytes there and wants no ACK.
/// let source = a.md_bind(MdSpec { length: 5, options: MdOptions::empty(), ..md })?;
/// a.put(
///     PutRequest {
///         md: source,
///         ack: false,
///         source: None,
///         target: ProcessId::lustre(nid_b),
///         portal: 30,
///         match_bits: 7,
///         offset: 0,
///         hdr_data: 0,
///     },
///     now,
/// )?;
///
/// // The wire: what A transmits, B receives.
/// let Some(Output::Transmit(message)) = a.poll_output() else { panic!("nothing to send") };
/// assert_eq!(message.ni, ni_a);
/// let from = ProcessId::lustre(nid_a);
/// let Verdict::Receive { rx, landing } = b.header(ni_b, from, &message.header, now) else {
///     panic!("not wanted")
/// };
/// assert_eq!((landing.offset, landing.length), (0, 5));
/// b.arrived(rx, Ok(()), now);
/// a.sent(message.tx, MessageStatus::Ok, now);
///
/// let Some(Output::Event(event)) = b.poll_output() else { panic!("no event") };
/// assert_eq!((event.kind, event.mlength, event.user), (EventKind::Put, 5, 42));
/// assert!(event.unlinked);
/// let Some(Output::Event(event)) = a.poll_output() else { panic!("no event") };
/// assert_eq!((event.kind, event.status), (EventKind::Send, Ok(())));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Core {
    upkeep: upkeep::Upkeep,
    tape: record::Tape,
}

impl Core {
    /// Creates a node that has only the loopback interface and answers pings.
    #[must_use]
    pub fn new(config: CoreConfig, now: Time) -> Self {
        Self {
            upkeep: upkeep::Upkeep::new(config, now),
            tape: record::Tape::default(),
        }
    }

    fn traffic(&self) -> &traffic::Traffic {
        &self.upkeep.traffic
    }

    #[cfg(test)]
    fn traffic_mut(&mut self) -> &mut traffic::Traffic {
        &mut self.upkeep.traffic
    }

    #[cfg(test)]
    fn fabric_mut(&mut self) -> &mut fabric::Fabric {
        &mut self.upkeep.traffic.fabric
    }

    fn fabric(&self) -> &fabric::Fabric {
        &self.upkeep.traffic.fabric
    }

    fn ground(&self) -> &ground::Ground {
        &self.upkeep.traffic.fabric.ground
    }

    /// Returns when [`Core::tick`] next has work to do; `None` if no timer is armed.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        self.ground().timers.next()
    }

    /// Removes and returns the oldest output.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.upkeep.traffic.fabric.ground.outputs.pop_front()
    }

    /// Exchanges the queue of outputs for an empty queue: a driver that reads outputs in their place copies none of
    /// them. Returns false, and does nothing, if there are no outputs or the other queue is not empty.
    pub fn swap_outputs(&mut self, empty: &mut VecDeque<Output>) -> bool {
        let outputs = &mut self.upkeep.traffic.fabric.ground.outputs;
        let any = !outputs.is_empty() && empty.is_empty();
        if any {
            std::mem::swap(outputs, empty);
        }
        any
    }

    /// Returns the bytes of a buffer that the core owns; empty if there is no such buffer.
    #[must_use]
    pub fn core_buffer(&self, buffer: CoreBuffer) -> &[u8] {
        self.traffic().buffers.data(buffer)
    }

    /// Returns the bytes of a buffer that the core owns, for the driver to receive into.
    pub fn core_buffer_mut(&mut self, buffer: CoreBuffer) -> &mut [u8] {
        self.tape.buffer_is_written(buffer);
        self.upkeep.traffic.buffers.data_mut(buffer)
    }

    /// Starts a PUT. `Ok` means that a SEND event will follow, even if there is no path to the target. With `ack`, an
    /// ACK event follows, or a TIMEOUT event and the end of the descriptor.
    ///
    /// # Errors
    ///
    /// [`PortalError::UnknownHandle`]; [`PortalError::Exhausted`] if no operation of the threshold is left or the
    /// descriptor is an attached one; [`PortalError::WildcardTarget`] if the target is the wildcard.
    pub fn put(&mut self, put: PutRequest, now: Time) -> Result<(), PortalError> {
        self.hinted_put(put, SendHints::default(), now)
    }

    /// Starts a GET. `Ok` means that a SEND event will follow. Then a REPLY event follows, or a TIMEOUT event and the
    /// end of the descriptor.
    ///
    /// # Errors
    ///
    /// As [`Core::put`].
    pub fn get(&mut self, get: GetRequest, now: Time) -> Result<(), PortalError> {
        self.hinted_get(get, SendHints::default(), now)
    }
}
