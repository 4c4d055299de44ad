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
//!      put get attach …                                 Event
//!           │                                            ▲
//!  ┌────────▼────────────────────────────────────────────┴────────┐
//!  │ portals: calls, matching, descriptors, responses             │
//!  │    │                      ▲                                  │
//!  │    ▼                      │                                  │
//!  │ select ──▶ send        receive ──▶ router ─┐    ping         │
//!  │ (ni peer   (credits)      ▲  ▲             │    timer        │
//!  │  policies     ▲           │  └─ fault      │    counts       │
//!  │  gateways)    └───────────┼────────────────┘                 │
//!  │    ▲                      │                                  │
//!  │    └─ health ◀─ outcomes ─┤                                  │
//!  └───────────────┼───────────┼──────────────────────────────────┘
//!                  ▼           │
//!      Transmit   sent       header   Verdict   arrived   Resume
//! ```
//!
//! Most names in the drawing are folders of `src`. The `mod.rs` of a folder says what the folder contains.

mod config;
mod configure;
mod counts;
#[cfg(feature = "defects")]
mod defects;
mod discovery;
mod entry;
mod event;
mod fault;
mod gateways;
mod globals;
mod health;
mod invariant;
mod io;
mod news;
mod ni;
mod own;
mod peer;
mod ping;
mod policies;
mod portals;
mod receive;
mod record;
mod router;
mod select;
mod send;
mod state;
mod status;
mod table;
#[cfg(test)]
mod tests;
mod timer;
mod view;
mod watch;

use std::collections::VecDeque;

use lnet_types::Time;

pub use config::{
    ConfigError, CoreConfig, NiConfig, NiDevice, Route, RouterBuffers, Tunables, UsedPaths,
};
pub use counts::census::Census;
pub use counts::counters::{Counters, MessageStats, TypeCounts};
pub use counts::histogram::{LATENCY_LIMITS, LatencyHistogram, LatencyHistograms};
pub use counts::latency::{Latency, LatencyStats};
pub use discovery::merge::PEER_NIDS_MAX;
pub use discovery::table::{DiscoveryView, Heard, PeerState};
pub use entry::Input;
pub use event::{Errno, Event, EventKind};
pub use fault::{
    DelayRule, DropRule, FaultError, FaultFilter, FaultStats, FaultTypes, NidFilter, Pace,
};
pub use gateways::distance::Distance;
pub use gateways::obstacle::{NoPath, RouteFault};
pub use gateways::route::RouteStats;
pub use globals::Globals;
pub use health::value::{Health, HealthView, NiHealthStats, PeerHealthStats};
pub use io::{
    CoreBuffer, Landing, NiId, Output, Payload, Place, RouterBuffer, RouterPool, RxId, Transmit,
    TxId, Verdict,
};
pub use news::News;
pub use peer::MAX_PEER_NIS;
pub use portals::calls::PortalError;
pub use portals::md::{InsertPosition, MdHandle, MdOptions, MdSpec, MeHandle, MeSpec};
pub use portals::put_get::{GetRequest, PutRequest, SendHints};
pub use portals::table::MAX_HELD_PER_PORTAL;
pub use portals::wire_handle::Entropy;
#[cfg(feature = "record-file")]
pub use record::file as record_file;
pub use record::{Answer, Recorded, Recorder, TooLate};
pub use router::routing::RoutingState;
pub use select::{
    Case, Choice, Classification, Criterion, Exclusion, Level, Locality, Observation, Observer,
    SelectError, Selection, SendQuery, Subject, TargetKind, Unobserved, Whose,
};
#[cfg(feature = "state-json")]
pub use state::json as state_json;
pub use state::{
    GatewaySelection, NetSelection, NiSelection, PeerNiSelection, PeerSelection, RecoverySelection,
    RouteSelection, SelectionState, StateError,
};
pub use status::{DropReason, IllegalMessage, MessageStatus};
pub use view::{NiView, PeerCursor, PeerNiView, PeerView, RouteView, RouterPoolView};
pub use watch::{HealthCause, Watched, WatchedAttempt, WatchedEvent, Watcher};

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
    config: CoreConfig,
    wire_handles: portals::wire_handle::WireHandles,
    nis: ni::Nis,
    peers: peer::Peers,
    routes: gateways::route::Routes,
    portals: portals::table::Portals,
    mds: portals::descriptor::Mds,
    rx: table::Table<RxId, receive::rx::Rx>,
    tx: table::Table<TxId, send::tx::Tx>,
    /// Messages that wait for a resend, oldest first.
    resends: VecDeque<TxId>,
    /// Events of operations that the core itself started, which [`Core::settle`] handles.
    finished: VecDeque<portals::lifecycle::Finished>,
    policies: policies::Policies,
    faults: fault::Faults,
    pools: router::pool::Pools,
    hops: router::hops::Hops,
    buffers: ping::buffers::Buffers,
    /// The descriptor that answers pings.
    ping_answer: Option<MdHandle>,
    own: own::Own,
    kept: select::kept::Kept,
    push_target: discovery::target::PushTarget,
    claims: discovery::claims::Claims,
    timers: timer::Timers,
    counters: Counters,
    outputs: VecDeque<Output>,
    news: news::Pending,
    watch: watch::Watch,
    tape: record::Tape,
    /// True if this core was made from the state of another core, to predict the paths that the other core selects.
    is_copy: bool,
    /// The time of the latest input.
    latest: Time,
    /// How often an interface went down, or a gateway lost its last connection.
    paths_lost: u64,
    /// A defect that a test switches on: a response is accepted from any sender.
    #[cfg(feature = "defects")]
    gullible: bool,
}

impl Core {
    /// Creates a node that has only the loopback interface and answers pings.
    #[must_use]
    pub fn new(config: CoreConfig, now: Time) -> Self {
        let mut core = Self {
            wire_handles: portals::wire_handle::WireHandles::new(&config.entropy),
            nis: ni::Nis::new(),
            peers: peer::Peers::new(config.entropy.hash_key(), MAX_PEER_NIS),
            routes: gateways::route::Routes::default(),
            portals: portals::table::Portals::new(),
            mds: portals::descriptor::Mds::default(),
            rx: table::Table::default(),
            tx: table::Table::default(),
            resends: VecDeque::new(),
            finished: VecDeque::new(),
            policies: policies::Policies::new(config.globals.profile),
            faults: fault::Faults::new(config.seed),
            pools: router::pool::Pools::new(config.buffers),
            hops: router::hops::Hops::default(),
            buffers: ping::buffers::Buffers::default(),
            ping_answer: None,
            own: own::Own::default(),
            kept: select::kept::Kept::default(),
            push_target: discovery::target::PushTarget::default(),
            claims: discovery::claims::Claims::default(),
            is_copy: false,
            timers: timer::Timers::default(),
            counters: Counters::default(),
            outputs: VecDeque::new(),
            news: news::Pending::default(),
            watch: watch::Watch::default(),
            tape: record::Tape::default(),
            latest: now,
            paths_lost: 0,
            #[cfg(feature = "defects")]
            gullible: false,
            config,
        };
        core.set_push_target(core.config.globals.discovery, now);
        core.open_ping_target();
        core
    }

    /// Returns when [`Core::tick`] next has work to do; `None` if no timer is armed.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Removes and returns the oldest output.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Returns the bytes of a buffer that the core owns; empty if there is no such buffer.
    #[must_use]
    pub fn core_buffer(&self, buffer: CoreBuffer) -> &[u8] {
        self.buffers.data(buffer)
    }

    /// Returns the bytes of a buffer that the core owns, for the driver to receive into.
    pub fn core_buffer_mut(&mut self, buffer: CoreBuffer) -> &mut [u8] {
        self.tape.buffer_is_written(buffer);
        self.buffers.data_mut(buffer)
    }
}
