//! The door of the core: every call that changes what the core decides, in one table.
//!
//! ```text
//!                  ┌─ the method of Core, which a driver calls
//!  inputs! line ───┼─ Input, the call as a value ──▶ Core::apply, and its bytes in a record
//!                  └─ the room that takes the call, and its method there
//! ```
//!
//! A line has the number of the input in records, which never changes, the name of the input, the method, and the room's
//! method behind it. After each input, [`Upkeep::settle`](crate::upkeep::Upkeep::settle) handles what follows. A new call is a new line with the next number.

use std::any::Any;
use std::time::Duration;

use lnet_policy::{Added, PolicyError, Rule, RuleList};
use lnet_types::{Net, Nid, ProcessId, Time};
use lnet_wire::Header;

use crate::Core;
use crate::fabric::discovery::PeerState;
use crate::ground::config::{ConfigError, NiConfig, NiDevice, Route, RouterBuffers};
use crate::ground::event::Errno;
use crate::ground::globals::Globals;
use crate::ground::health::Health;
use crate::ground::io::{CoreBuffer, NiId, RxId, TxId, Verdict};
use crate::ground::md::{MdHandle, MdSpec, MeHandle, MeSpec};
use crate::ground::status::MessageStatus;
use crate::record::{Answer, ToAnswer};
use crate::traffic::fault::{DelayRule, DropRule, FaultError, NidFilter};
use crate::traffic::portals::calls::PortalError;
use crate::traffic::portals::put_get::{GetRequest, PutRequest, SendHints};

/// The type that an input keeps of an argument.
macro_rules! kept {
    ($type:ty) => {
        $type
    };
    ($type:ty, $kept:ty) => {
        $kept
    };
}

/// The argument that a kept value becomes again.
macro_rules! given {
    ($arg:ident) => {
        $arg
    };
    ($arg:ident, $kept:ty) => {
        &$arg
    };
}

/// The room that takes an input.
macro_rules! room {
    ($core:ident, upkeep) => {
        $core.upkeep
    };
    ($core:ident, traffic) => {
        $core.upkeep.traffic
    };
    ($core:ident, fabric) => {
        $core.upkeep.traffic.fabric
    };
}

macro_rules! inputs {
    ($(
        $(#[$doc:meta])*
        $number:literal $input:ident => pub fn $name:ident($($arg:ident: $type:ty $(as $kept:ty)?),*)
            $(-> $answer:ty)? = $room:ident . $call:ident;
    )*) => {
        /// A call of [`Core`] that changes what the core decides, with its arguments.
        #[derive(Clone, Debug, PartialEq)]
        #[expect(missing_docs, reason = "fields are the arguments of the call")]
        #[expect(clippy::large_enum_variant, reason = "it lives while a call is recorded or made again")]
        pub enum Input {
            $(
                #[doc = concat!("[`Core::", stringify!($name), "`].")]
                $input { $($arg: kept!($type $(, $kept)?)),* },
            )*
            /// The driver wrote these bytes into a buffer of the core, by [`Core::core_buffer_mut`].
            Fill { buffer: CoreBuffer, bytes: Vec<u8> },
        }

        impl Core {
            $(
                $(#[$doc])*
                pub fn $name(&mut self, $($arg: $type),*) $(-> $answer)? {
                    let input = self.noted(|| Input::$input { $($arg: $arg.to_owned()),* });
                    self.take_in(input, |core| {
                        let answer = room!(core, $room).$call($($arg),*);
                        core.upkeep.settle();
                        answer
                    })
                }
            )*

            fn call(&mut self, input: Input) -> Answer {
                match input {
                    $(
                        Input::$input { $($arg),* } =>
                            self.$name($(given!($arg $(, $kept)?)),*).to_answer(),
                    )*
                    Input::Fill { buffer, bytes } => fill(self, buffer, &bytes).to_answer(),
                }
            }
        }

        impl Input {
            fn arguments(&self) -> Vec<&dyn Any> {
                match self {
                    $(Self::$input { $($arg),* } => vec![$($arg),*],)*
                    Self::Fill { .. } => Vec::new(),
                }
            }
        }

        #[cfg(feature = "record-file")]
        crate::record::file::codec::choices! {
            Input {
                $($number $input { $($arg),* },)*
                51 Fill { buffer, bytes }
            }
        }
    };
}

impl Input {
    /// Returns the time argument of the call; `None` if it has none.
    #[must_use]
    pub fn now(&self) -> Option<Time> {
        let arguments = self.arguments();
        arguments.iter().find_map(|any| any.downcast_ref().copied())
    }
}

/// Copies recorded bytes into a buffer. Bytes beyond the end of the buffer are left out; they show that the record is
/// from another core.
fn fill(core: &mut Core, buffer: CoreBuffer, bytes: &[u8]) {
    for (to, from) in core.core_buffer_mut(buffer).iter_mut().zip(bytes) {
        *to = *from;
    }
}

inputs! {
    // Interfaces.

    /// Adds an interface. The first interface of a net also adds the net.
    ///
    /// # Errors
    ///
    /// [`ConfigError::InvalidNid`], [`ConfigError::NoCredits`], [`ConfigError::DuplicateNid`],
    /// [`ConfigError::NetIsRouted`].
    0 AddNi => pub fn add_ni(config: NiConfig, now: Time) -> Result<NiId, ConfigError> = upkeep.add_ni;

    /// Removes an interface. Messages that are queued for the interface end with [`Errno::ENODEV`]. Messages that wait
    /// for a resend take another interface if there is one.
    ///
    /// # Errors
    ///
    /// [`ConfigError::UnknownNi`], also for loopback.
    1 RemoveNi => pub fn remove_ni(ni: NiId, now: Time) -> Result<(), ConfigError> = upkeep.remove_ni;

    /// Takes the LND's report that an interface has a fatal error, such as a link that is down, or no longer has one.
    2 SetNiFatal => pub fn set_ni_fatal(ni: NiId, fatal: bool, now: Time) = upkeep.set_ni_fatal;

    /// Sets the hardware that is behind an interface.
    ///
    /// # Errors
    ///
    /// [`ConfigError::UnknownNi`].
    3 SetNiDevice => pub fn set_ni_device(ni: NiId, device: NiDevice) -> Result<(), ConfigError>
        = upkeep.set_ni_device;

    /// Sets how long the LND of an interface may take for one attempt; `None` means [`Globals::lnd_timeout`].
    ///
    /// # Errors
    ///
    /// [`ConfigError::UnknownNi`].
    4 SetNiLndTimeout => pub fn set_ni_lnd_timeout(ni: NiId, timeout: Option<Duration>) -> Result<(), ConfigError>
        = upkeep.set_ni_lnd_timeout;

    // Routes and peers.

    /// Adds a static route, and pings its gateway.
    ///
    /// # Errors
    ///
    /// [`ConfigError::NotRemote`], [`ConfigError::InvalidNid`], [`ConfigError::GatewayNotLocal`],
    /// [`ConfigError::HopsOutOfRange`], [`ConfigError::DuplicateRoute`],
    /// [`ConfigError::TooManyPeers`].
    5 AddRoute => pub fn add_route(route: Route, now: Time) -> Result<(), ConfigError> = upkeep.add_route;

    /// Removes a route. Messages that have already chosen the route keep their path.
    ///
    /// # Errors
    ///
    /// [`ConfigError::UnknownRoute`].
    6 RemoveRoute => pub fn remove_route(net: Net, gateway: Nid) -> Result<(), ConfigError> = upkeep.remove_route;

    /// Configures a peer, or adds NIDs to a configured peer. Peer NIs that traffic created under these NIDs become
    /// part of the peer.
    ///
    /// # Errors
    ///
    /// [`ConfigError::InvalidNid`], [`ConfigError::NidOfAnotherPeer`], [`ConfigError::TooManyPeers`].
    7 AddPeer => pub fn add_peer(primary: Nid, nids: &[Nid] as Vec<Nid>, multi_rail: bool) -> Result<(), ConfigError>
        = upkeep.add_peer;

    /// Sets the state bits of the peer with this NID, on behalf of an administrator. With [`PeerState::LOCK_PRIMARY`]
    /// discovery keeps the peer's primary NID. The bits of a discovery that is under way do not change.
    ///
    /// # Errors
    ///
    /// [`ConfigError::UnknownPeer`].
    8 SetPeerState => pub fn set_peer_state(nid: Nid, state: PeerState) -> Result<(), ConfigError>
        = upkeep.set_peer_state;

    /// Removes a peer, also a peer that traffic created. Messages that are queued for the peer end with
    /// [`Errno::EHOSTUNREACH`]. If the primary NID of the peer is locked, the peer keeps that NID and loses the
    /// others.
    ///
    /// # Errors
    ///
    /// [`ConfigError::UnknownPeer`], [`ConfigError::PeerIsGateway`].
    9 RemovePeer => pub fn remove_peer(primary: Nid) -> Result<(), ConfigError> = upkeep.remove_peer;

    /// Starts a discovery of a peer, even if the peer is already known. [`Core::discovery`] shows its state. If the
    /// NID is one of this node, the node becomes a peer of its own: messages to its NIDs are counted, and its health
    /// is kept.
    ///
    /// # Errors
    ///
    /// [`Errno::EINVAL`] for loopback and the wildcard, and while discovery is switched off; [`Errno::ENOMEM`] if the
    /// peer table is full.
    13 Discover => pub fn discover(nid: Nid, now: Time) -> Result<(), Errno> = upkeep.discover;

    // Parameters and routing.

    /// Changes the node's parameters within the limits for an administrator. Switching
    /// health off also switches resends off.
    ///
    /// # Errors
    ///
    /// [`ConfigError::SensitivityOutOfRange`], [`ConfigError::RetryWithoutHealth`],
    /// [`ConfigError::TooManyRetries`], [`ConfigError::TimeoutTooShort`]; nothing has changed then.
    10 ChangeGlobals => pub fn change_globals(globals: Globals, now: Time) -> Result<(), ConfigError>
        = upkeep.change_globals;

    /// Sets the parameters without a check. Operations that wait for a response keep their deadlines.
    11 SetGlobals => pub fn set_globals(globals: Globals, now: Time) = upkeep.set_globals;

    /// Sets the sizes of the pools. Buffers beyond the new sizes are removed when they come back.
    43 SetRouterBuffers => pub fn set_router_buffers(buffers: RouterBuffers, now: Time)
        = traffic.set_router_buffers;

    /// Starts to route. Peers learn this only after the node has forwarded for one check interval and one ping
    /// timeout.
    44 StartRouting => pub fn start_routing(now: Time) = upkeep.start_routing;

    /// Stops routing. Peers learn this at once, and messages that they still send are forwarded until all buffers are
    /// free, or until a time limit.
    45 StopRouting => pub fn stop_routing(now: Time) = upkeep.stop_routing;

    /// Starts or stops routing at once. When routing stops, messages that wait are dropped.
    46 SetRouting => pub fn set_routing(enabled: bool, now: Time) = upkeep.set_routing;

    /// Zeroes the node's counters, the counts of each local and peer interface, and all latencies, as `lnetctl stats
    /// reset` does from the release after 2.17 on. In the profiles of kernels the
    /// counts of interfaces stay. Counters of things that exist now keep their values.
    12 ResetStats => pub fn reset_stats() = fabric.reset_stats;

    // Selection rules.

    /// Adds a selection rule before the rule that now has index `before`, or at the end. If a rule with the same
    /// descriptors exists, it takes the new value instead. All effective values are updated at once.
    ///
    /// # Errors
    ///
    /// [`PolicyError::Exists`], [`PolicyError::TooMany`]; the rules are then unchanged.
    23 AddRule => pub fn add_rule(rule: Rule, before: Option<usize>) -> Result<Added, PolicyError> = fabric.add_rule;

    /// Deletes a selection rule. Rules that it hid take effect.
    ///
    /// # Errors
    ///
    /// [`PolicyError::NotFound`].
    24 DeleteRule => pub fn delete_rule(index: usize) -> Result<Rule, PolicyError> = fabric.delete_rule;

    /// Deletes all selection rules.
    25 ClearRules => pub fn clear_rules() = fabric.clear_rules;

    /// Replaces the selection rules by another list.
    26 SetRules => pub fn set_rules(rules: RuleList) = fabric.set_rules;

    /// Begins a series of changes: the rules are not applied until [`Core::release_rules`]. Nothing may be sent
    /// meanwhile. Without this, adding a thousand routes would apply a thousand rules a thousand times.
    27 HoldRules => pub fn hold_rules() = fabric.hold_rules;

    /// Ends a series of changes: applies the rules to everything.
    28 ReleaseRules => pub fn release_rules() = fabric.release_rules;

    /// Does the same as [`Core::release_rules`], but leaves peers to [`Core::apply_rules_step`], which the caller
    /// repeats until it returns false. Until then [`Core::peers`] may show the effective values of the old rules;
    /// paths already follow the new ones.
    29 ReleaseRulesInSteps => pub fn release_rules_in_steps() = fabric.release_rules_in_steps;

    /// Applies the rules to the peer interfaces in the next `count` slots of the table. Returns whether there are
    /// more.
    30 ApplyRulesStep => pub fn apply_rules_step(count: usize) -> bool = fabric.apply_rules_step;

    // Health.

    /// Sets the health of an interface, on behalf of an administrator. Health 0 advertises the interface as down, full
    /// health as up. Below full health, recovery begins at once.
    ///
    /// # Errors
    ///
    /// [`ConfigError::UnknownNi`], also for loopback.
    19 SetNiHealth => pub fn set_ni_health(ni: NiId, health: Health, now: Time) -> Result<(), ConfigError>
        = fabric.set_ni_health;

    /// Sets the health of a peer interface, on behalf of an administrator. Below full health, recovery begins a second
    /// later.
    ///
    /// # Errors
    ///
    /// [`ConfigError::UnknownPeer`] if no peer has this NID.
    20 SetPeerNiHealth => pub fn set_peer_ni_health(nid: Nid, health: Health, now: Time) -> Result<(), ConfigError>
        = fabric.set_peer_ni_health;

    /// Sets the health of every peer interface, as `peer set --health --all` does.
    21 SetAllPeerHealth => pub fn set_all_peer_health(health: Health, now: Time) = fabric.set_all_peer_health;

    // Injected faults.

    /// Adds a rule that drops messages; it is checked before the older rules.
    ///
    /// # Errors
    ///
    /// [`FaultError`]; the rules are then unchanged.
    14 AddDropRule => pub fn add_drop_rule(rule: DropRule) -> Result<(), FaultError> = traffic.add_drop_rule;

    /// Adds a rule that delays messages; it is checked before the older rules.
    ///
    /// # Errors
    ///
    /// [`FaultError`]; the rules are then unchanged.
    15 AddDelayRule => pub fn add_delay_rule(rule: DelayRule) -> Result<(), FaultError> = traffic.add_delay_rule;

    /// Deletes the drop rules with exactly these filters; [`NidFilter::Any`] matches all filters. Returns the number
    /// of deleted rules.
    16 DeleteDropRules => pub fn delete_drop_rules(source: NidFilter, destination: NidFilter) -> usize
        = traffic.delete_drop_rules;

    /// Deletes delay rules as [`Core::delete_drop_rules`] does. Messages that are already delayed keep their delay.
    17 DeleteDelayRules => pub fn delete_delay_rules(source: NidFilter, destination: NidFilter) -> usize
        = traffic.delete_delay_rules;

    /// Restarts every rule, with its counts at zero.
    18 ResetFaultRules => pub fn reset_fault_rules() = traffic.reset_fault_rules;

    // Portals.

    /// Adds a match entry to a portal.
    ///
    /// # Errors
    ///
    /// [`PortalError::InvalidPortal`], and [`PortalError::PortalKind`] if the portal's first entry was of the other
    /// kind.
    31 MeAttach => pub fn me_attach(me: MeSpec) -> Result<MeHandle, PortalError> = traffic.me_attach;

    /// Attaches memory to a match entry, so that the entry accepts PUTs or GETs. PUTs that a lazy portal holds are
    /// offered to the entry at once.
    ///
    /// # Errors
    ///
    /// [`PortalError::UnknownHandle`], [`PortalError::EntryInUse`], [`PortalError::InvalidOptions`] if the descriptor
    /// accepts neither, [`PortalError::InvalidMaxSize`].
    32 MdAttach => pub fn md_attach(me: MeHandle, md: MdSpec, now: Time) -> Result<MdHandle, PortalError>
        = traffic.md_attach;

    /// Registers memory as the source of PUTs or the destination of GETs.
    ///
    /// # Errors
    ///
    /// [`PortalError::InvalidOptions`] if the descriptor accepts operations, [`PortalError::TooLong`] above 1 MiB,
    /// [`PortalError::InvalidMaxSize`].
    33 MdBind => pub fn md_bind(md: MdSpec) -> Result<MdHandle, PortalError> = traffic.md_bind;

    /// Unlinks a descriptor. Its handle is invalid at once. The event with `unlinked` reports when the caller may
    /// reuse the memory: at once, or after the operations under way.
    ///
    /// # Errors
    ///
    /// [`PortalError::UnknownHandle`].
    34 MdUnlink => pub fn md_unlink(md: MdHandle, now: Time) -> Result<(), PortalError> = traffic.md_unlink;

    /// Unlinks a descriptor as [`Core::md_unlink`] does, and cancels the messages that are being received into it
    /// ([`Output::Cancel`](crate::Output::Cancel)). The caller may reuse the memory as soon as the LND has released
    /// it, however long the peer takes for the rest of the payload. Each cancelled message ends with an event of
    /// status `ECANCELED`. The call also works on a descriptor that was unlinked or has expired and waits for such a
    /// message. Messages that are being sent from the descriptor are not cancelled; the descriptor waits for them.
    ///
    /// # Errors
    ///
    /// [`PortalError::UnknownHandle`].
    35 MdCancel => pub fn md_cancel(md: MdHandle, now: Time) -> Result<(), PortalError> = traffic.md_cancel;

    /// Removes a match entry. Its descriptor is unlinked as by [`Core::md_unlink`].
    ///
    /// # Errors
    ///
    /// [`PortalError::UnknownHandle`].
    36 MeUnlink => pub fn me_unlink(me: MeHandle, now: Time) -> Result<(), PortalError> = traffic.me_unlink;

    /// Makes a portal lazy: a PUT that no entry accepts is held instead of dropped, until a descriptor is attached
    /// that accepts it. Each held PUT blocks its connection meanwhile.
    ///
    /// # Errors
    ///
    /// [`PortalError::InvalidPortal`].
    37 SetLazy => pub fn set_lazy(portal: u32) -> Result<(), PortalError> = traffic.set_lazy;

    /// Makes a portal an ordinary portal. The PUTs that it holds are dropped.
    ///
    /// # Errors
    ///
    /// [`PortalError::InvalidPortal`].
    38 ClearLazy => pub fn clear_lazy(portal: u32, now: Time) -> Result<(), PortalError> = traffic.clear_lazy;

    // Operations.

    /// Does the same as [`Core::put`], with hints for the selection of the path.
    ///
    /// # Errors
    ///
    /// As [`Core::put`].
    39 Put => pub fn hinted_put(put: PutRequest, hints: SendHints, now: Time) -> Result<(), PortalError>
        = upkeep.hinted_put;

    /// Does the same as [`Core::get`], with hints for the selection of the path.
    ///
    /// # Errors
    ///
    /// As [`Core::put`].
    40 Get => pub fn hinted_get(get: GetRequest, hints: SendHints, now: Time) -> Result<(), PortalError>
        = upkeep.hinted_get;

    // What the LND reports.

    /// Takes the header of a message that arrived over `ni` from the process at the other end of the connection, which
    /// for a routed message is not its source. Returns what to do with the payload behind it.
    41 Header => pub fn header(ni: NiId, from: ProcessId, header: &Header as Header, now: Time) -> Verdict
        = traffic.header;

    /// Takes the LND's report that the payload of a message has arrived in the place that its verdict or
    /// [`Output::Resume`](crate::Output::Resume) named, or that the message has failed. The core counts and ignores an
    /// id that names no message, or no longer names one.
    42 Arrived => pub fn arrived(rx: RxId, result: Result<(), MessageStatus>, now: Time) = traffic.arrived;

    /// Takes the LND's report of the result of a message. The core counts and ignores an id that names no message, or
    /// no longer names one. It may resend a failed message as another
    /// [`Output::Transmit`](crate::Output::Transmit) with another id.
    47 Sent => pub fn sent(tx: TxId, status: MessageStatus, now: Time) = traffic.sent;

    /// Does the same as [`Core::sent`], for a failure after which the LND knows which interface of the peer is worth
    /// trying. A resend takes the interface `next` if it is up and in full health.
    48 SentTryNext => pub fn sent_try_next(tx: TxId, status: MessageStatus, next: Nid, now: Time)
        = traffic.sent_try_next;

    /// Takes the LND's report that the next hop reads no form of header that can name the message's NIDs: a
    /// NID has an IPv6 address, and the peer is old. No health is lowered, and the message is not resent,
    /// because no resend would help. The caller of the operation receives [`Errno::EAFNOSUPPORT`].
    49 SentInNoForm => pub fn sent_in_no_form(tx: TxId, now: Time) = traffic.sent_in_no_form;

    /// Takes the LND's report that an interface has connections to a peer NI, or that it has none: the last connection
    /// closed, or none could be made. A peer NI without a connection to any interface of this node is down. A router
    /// drops messages for such a peer NI until a message arrives from it or `peer_timeout` has passed. If the peer NI
    /// is one of a gateway, the router checker pings the gateway at once.
    22 PeerNotify => pub fn peer_notify(ni: NiId, peer: Nid, alive: bool, now: Time) = upkeep.peer_notify;

    /// Takes the LND's report of the incarnation of a peer that is now connected. A changed incarnation
    /// means that the peer has restarted: a discovered peer is discovered once more before the next message to it.
    /// Kernels do not do this.
    52 PeerIncarnation => pub fn peer_incarnation(peer: Nid, incarnation: u64, now: Time)
        = upkeep.peer_incarnation;

    // Time.

    /// Handles all timers that are due. Costs little if none is due.
    50 Tick => pub fn tick(now: Time) = upkeep.tick;
}

impl Core {
    /// Makes the recorded call, and returns its answer. The answer equals the recorded one if this core is in the
    /// state of the recorded core. `latest` is the latest time that the recorded core had seen before the call.
    pub fn apply(&mut self, input: Input, latest: Time) -> Answer {
        self.upkeep.traffic.fabric.ground.latest =
            self.upkeep.traffic.fabric.ground.latest.max(latest);
        self.call(input)
    }
}
