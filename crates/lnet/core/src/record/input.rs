//! Every input of the core as a value, and every answer.

use std::fmt::Debug;
use std::time::Duration;

use lnet_policy::{Added, Rule, RuleList};
use lnet_types::{Net, Nid, ProcessId, Time};
use lnet_wire::Header;

use crate::config::{Globals, NiConfig, NiDevice, Route, RouterBuffers};
use crate::discovery::table::PeerState;
use crate::fault::{DelayRule, DropRule, NidFilter};
use crate::health::value::Health;
use crate::io::{CoreBuffer, NiId, RxId, TxId, Verdict};
use crate::portals::md::{MdHandle, MdSpec, MeHandle, MeSpec};
use crate::portals::put_get::{GetRequest, PutRequest, SendHints};
use crate::status::MessageStatus;

/// A call of [`Core`](crate::Core) that changes what the core decides, with its arguments.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "fields are the arguments of the call")]
pub enum Input {
    /// [`Core::add_ni`](crate::Core::add_ni).
    AddNi { config: NiConfig, now: Time },
    /// [`Core::remove_ni`](crate::Core::remove_ni).
    RemoveNi { ni: NiId, now: Time },
    /// [`Core::set_ni_fatal`](crate::Core::set_ni_fatal).
    SetNiFatal { ni: NiId, fatal: bool, now: Time },
    /// [`Core::set_ni_device`](crate::Core::set_ni_device).
    SetNiDevice { ni: NiId, device: NiDevice },
    /// [`Core::set_ni_lnd_timeout`](crate::Core::set_ni_lnd_timeout).
    SetNiLndTimeout { ni: NiId, timeout: Option<Duration> },
    /// [`Core::add_route`](crate::Core::add_route).
    AddRoute { route: Route, now: Time },
    /// [`Core::remove_route`](crate::Core::remove_route).
    RemoveRoute { net: Net, gateway: Nid },
    /// [`Core::add_peer`](crate::Core::add_peer).
    AddPeer {
        primary: Nid,
        nids: Vec<Nid>,
        multi_rail: bool,
    },
    /// [`Core::set_peer_state`](crate::Core::set_peer_state).
    SetPeerState { nid: Nid, state: PeerState },
    /// [`Core::remove_peer`](crate::Core::remove_peer).
    RemovePeer { primary: Nid },
    /// [`Core::change_globals`](crate::Core::change_globals).
    ChangeGlobals { globals: Globals, now: Time },
    /// [`Core::set_globals`](crate::Core::set_globals).
    SetGlobals { globals: Globals, now: Time },
    /// [`Core::set_router_buffers`](crate::Core::set_router_buffers).
    SetRouterBuffers { buffers: RouterBuffers, now: Time },
    /// [`Core::start_routing`](crate::Core::start_routing).
    StartRouting { now: Time },
    /// [`Core::stop_routing`](crate::Core::stop_routing).
    StopRouting { now: Time },
    /// [`Core::set_routing`](crate::Core::set_routing).
    SetRouting { enabled: bool, now: Time },
    /// [`Core::reset_stats`](crate::Core::reset_stats).
    ResetStats,
    /// [`Core::discover`](crate::Core::discover).
    Discover { nid: Nid, now: Time },
    /// [`Core::add_drop_rule`](crate::Core::add_drop_rule).
    AddDropRule { rule: DropRule },
    /// [`Core::add_delay_rule`](crate::Core::add_delay_rule).
    AddDelayRule { rule: DelayRule },
    /// [`Core::delete_drop_rules`](crate::Core::delete_drop_rules).
    DeleteDropRules {
        source: NidFilter,
        destination: NidFilter,
    },
    /// [`Core::delete_delay_rules`](crate::Core::delete_delay_rules).
    DeleteDelayRules {
        source: NidFilter,
        destination: NidFilter,
    },
    /// [`Core::reset_fault_rules`](crate::Core::reset_fault_rules).
    ResetFaultRules,
    /// [`Core::set_ni_health`](crate::Core::set_ni_health).
    SetNiHealth { ni: NiId, health: Health, now: Time },
    /// [`Core::set_peer_ni_health`](crate::Core::set_peer_ni_health).
    SetPeerNiHealth { nid: Nid, health: Health, now: Time },
    /// [`Core::set_all_peer_health`](crate::Core::set_all_peer_health).
    SetAllPeerHealth { health: Health, now: Time },
    /// [`Core::add_rule`](crate::Core::add_rule).
    AddRule {
        rule: Box<Rule>,
        before: Option<usize>,
    },
    /// [`Core::delete_rule`](crate::Core::delete_rule).
    DeleteRule { index: usize },
    /// [`Core::clear_rules`](crate::Core::clear_rules).
    ClearRules,
    /// [`Core::set_rules`](crate::Core::set_rules).
    SetRules { rules: RuleList },
    /// [`Core::hold_rules`](crate::Core::hold_rules).
    HoldRules,
    /// [`Core::release_rules`](crate::Core::release_rules).
    ReleaseRules,
    /// [`Core::release_rules_in_steps`](crate::Core::release_rules_in_steps).
    ReleaseRulesInSteps,
    /// [`Core::apply_rules_step`](crate::Core::apply_rules_step).
    ApplyRulesStep { count: usize },
    /// [`Core::me_attach`](crate::Core::me_attach).
    MeAttach { me: MeSpec },
    /// [`Core::md_attach`](crate::Core::md_attach).
    MdAttach { me: MeHandle, md: MdSpec, now: Time },
    /// [`Core::md_bind`](crate::Core::md_bind).
    MdBind { md: MdSpec },
    /// [`Core::md_unlink`](crate::Core::md_unlink).
    MdUnlink { md: MdHandle, now: Time },
    /// [`Core::md_cancel`](crate::Core::md_cancel).
    MdCancel { md: MdHandle, now: Time },
    /// [`Core::me_unlink`](crate::Core::me_unlink).
    MeUnlink { me: MeHandle, now: Time },
    /// [`Core::set_lazy`](crate::Core::set_lazy).
    SetLazy { portal: u32 },
    /// [`Core::clear_lazy`](crate::Core::clear_lazy).
    ClearLazy { portal: u32, now: Time },
    /// [`Core::hinted_put`](crate::Core::hinted_put).
    Put {
        put: PutRequest,
        hints: SendHints,
        now: Time,
    },
    /// [`Core::hinted_get`](crate::Core::hinted_get).
    Get {
        get: GetRequest,
        hints: SendHints,
        now: Time,
    },
    /// [`Core::header`](crate::Core::header).
    Header {
        ni: NiId,
        from: ProcessId,
        header: Header,
        now: Time,
    },
    /// [`Core::arrived`](crate::Core::arrived).
    Arrived {
        rx: RxId,
        result: Result<(), MessageStatus>,
        now: Time,
    },
    /// [`Core::sent`](crate::Core::sent).
    Sent {
        tx: TxId,
        status: MessageStatus,
        now: Time,
    },
    /// [`Core::sent_try_next`](crate::Core::sent_try_next).
    SentTryNext {
        tx: TxId,
        status: MessageStatus,
        next: Nid,
        now: Time,
    },
    /// [`Core::sent_in_no_form`](crate::Core::sent_in_no_form).
    SentInNoForm { tx: TxId, now: Time },
    /// [`Core::peer_notify`](crate::Core::peer_notify).
    PeerNotify {
        ni: NiId,
        peer: Nid,
        alive: bool,
        now: Time,
    },
    /// [`Core::peer_incarnation`](crate::Core::peer_incarnation).
    PeerIncarnation {
        peer: Nid,
        incarnation: u64,
        now: Time,
    },
    /// [`Core::tick`](crate::Core::tick).
    Tick { now: Time },
    /// The driver wrote these bytes into a buffer of the core, by
    /// [`Core::core_buffer_mut`](crate::Core::core_buffer_mut).
    Fill { buffer: CoreBuffer, bytes: Vec<u8> },
}

impl Input {
    /// Returns the time parameter of the call; `None` if it has none.
    #[must_use]
    pub const fn now(&self) -> Option<Time> {
        match self {
            Self::AddNi { now, .. }
            | Self::RemoveNi { now, .. }
            | Self::SetNiFatal { now, .. }
            | Self::AddRoute { now, .. }
            | Self::ChangeGlobals { now, .. }
            | Self::SetGlobals { now, .. }
            | Self::Discover { now, .. }
            | Self::SetNiHealth { now, .. }
            | Self::SetPeerNiHealth { now, .. }
            | Self::SetAllPeerHealth { now, .. }
            | Self::PeerNotify { now, .. }
            | Self::PeerIncarnation { now, .. }
            | Self::MdAttach { now, .. }
            | Self::MdUnlink { now, .. }
            | Self::MdCancel { now, .. }
            | Self::MeUnlink { now, .. }
            | Self::ClearLazy { now, .. }
            | Self::Put { now, .. }
            | Self::Get { now, .. }
            | Self::Header { now, .. }
            | Self::Arrived { now, .. }
            | Self::SetRouterBuffers { now, .. }
            | Self::StartRouting { now, .. }
            | Self::StopRouting { now, .. }
            | Self::SetRouting { now, .. }
            | Self::Sent { now, .. }
            | Self::SentTryNext { now, .. }
            | Self::SentInNoForm { now, .. }
            | Self::Tick { now, .. } => Some(*now),
            _ => None,
        }
    }
}

/// The result of a call of the core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing, or a result that is no decision.
    Nothing,
    /// A number: a handle, an interface, an index, a count, or 1 for true and 0 for false.
    Number(u64),
    /// The verdict about a message that arrived.
    Verdict(Verdict),
    /// The call was rejected with this error.
    Refused(String),
}

/// The conversion of a result into its recorded form.
pub(crate) trait ToAnswer {
    fn to_answer(&self) -> Answer;
}

impl ToAnswer for () {
    fn to_answer(&self) -> Answer {
        Answer::Nothing
    }
}

impl ToAnswer for bool {
    fn to_answer(&self) -> Answer {
        Answer::Number((*self).into())
    }
}

impl ToAnswer for usize {
    fn to_answer(&self) -> Answer {
        Answer::Number(*self as u64)
    }
}

impl ToAnswer for NiId {
    fn to_answer(&self) -> Answer {
        Answer::Number(self.0.into())
    }
}

impl ToAnswer for MdHandle {
    fn to_answer(&self) -> Answer {
        Answer::Number(self.0)
    }
}

impl ToAnswer for MeHandle {
    fn to_answer(&self) -> Answer {
        Answer::Number(self.0)
    }
}

impl ToAnswer for Added {
    fn to_answer(&self) -> Answer {
        let (Self::Inserted(index) | Self::Updated(index)) = self;
        index.to_answer()
    }
}

impl ToAnswer for Rule {
    fn to_answer(&self) -> Answer {
        Answer::Nothing
    }
}

impl ToAnswer for Verdict {
    fn to_answer(&self) -> Answer {
        Answer::Verdict(*self)
    }
}

impl<T: ToAnswer, E: Debug> ToAnswer for Result<T, E> {
    fn to_answer(&self) -> Answer {
        match self {
            Ok(value) => value.to_answer(),
            Err(error) => Answer::Refused(format!("{error:?}")),
        }
    }
}
