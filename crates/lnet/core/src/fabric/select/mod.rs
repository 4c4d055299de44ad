//! Path selection: chooses the local interface and the next hop of a message. The rules are in
//! `docs/selection`.
//!
//! Selection is a function of a request and of read access to interfaces, peers and routes. [`Fabric::commit`]
//! afterwards makes the changes that follow from the choice: round-robin stamps, and the pinned source of a peer. The
//! same code serves sending and explaining, because it is generic over an [`Observer`].
//!
//! ```text
//! request   loopback ── 0@lo, or own NID
//!           A1C A1D B1C B1D ── direct: the destination's net is local
//!           A2C A2D B2C B2D ── routed: over the best gateway
//!              A source given  1 local   C Multi-Rail
//!              B any source    2 remote  D not Multi-Rail
//! response  ── back by the interface and the process that the request came from
//! forward   ── B1D, B1C if the addressed interface is not in full health, or to the next gateway
//! ```

mod ask;
mod commit;
mod contest;
mod direct;
pub(crate) mod kept;
mod limits;
mod observe;
mod routed;

use lnet_policy::{PreferredList, Profile};
use lnet_types::{Net, Nid, ProcessId};
use thiserror::Error;

pub use self::ask::{Choice, SendQuery};
pub use self::kept::{Observation, Selection, Whose};
pub(crate) use self::limits::Retry;
pub use self::observe::{
    Case, Classification, Criterion, Exclusion, Level, Locality, Observer, Subject, TargetKind,
    Unobserved,
};
use crate::fabric::Fabric;
use crate::fabric::gateways::route::Routes;
use crate::fabric::ni::{Ni, Nis};
use crate::fabric::peer::{Peer, PeerNi, Peers};
use crate::fabric::policies::Policies;
use crate::fabric::select::limits::Limits;
use crate::ground::event::Errno;
use crate::ground::globals::Globals;
use crate::ground::ids::PeerNiId;
use crate::ground::io::NiId;

/// The description of a message for selection. A resend uses the description of the first attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PathRequest {
    /// A PUT or GET of this node.
    Request(Request),
    /// The ACK or REPLY to a request.
    Response {
        /// The interface that received the request.
        ni: NiId,
        /// The process that sent the request to this node.
        via: ProcessId,
    },
    /// A message of another node.
    Forward {
        /// The node that created the message.
        origin: Nid,
        /// The node that sent the message to this node; the message never goes back to it.
        from: Nid,
        /// The destination.
        target: ProcessId,
    },
}

/// When a message goes to exactly the NID that its sender named, although its peer has other NIDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exact {
    /// The choice is free.
    Never,
    /// Only in the first attempt: the sender knows that this NID can be reached.
    FirstAttempt,
    /// In each attempt: a ping, whose answer says something about this NID alone.
    Always,
}

impl Exact {
    fn holds(self, is_first: bool) -> bool {
        self == Self::Always || self == Self::FirstAttempt && is_first
    }
}

/// A PUT or GET of this node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// The interface to send from; `None` if the caller accepts any.
    pub(crate) source: Option<Nid>,
    /// The destination.
    pub(crate) target: ProcessId,
    /// True for traffic of portal 0, such as pings. Every first message sets the source that a peer sees from then on;
    /// this traffic uses the source only through gateways.
    pub(crate) reserved: bool,
    /// Whether other NIDs of the peer may replace the target. A message that is always exact does not use loopback.
    pub(crate) exact: Exact,
    /// The NUMA node (CPT) of its payload.
    pub(crate) cpt: u16,
    /// The gateway that does not carry the message while there is another one.
    pub(crate) avoid: Option<Nid>,
}

/// A chosen path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) ni: NiId,
    /// The process whose connections carry the message.
    pub(crate) next_hop: ProcessId,
    /// The final destination. For a Multi-Rail peer it may differ from the requested NID.
    pub(crate) dest: Nid,
    /// The route of the path: remote net and gateway as configured.
    pub(crate) route: Option<(Net, Nid)>,
    /// True if another attempt may have a path after this one fails.
    pub(crate) retryable: bool,
}

/// The reason why there is no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SelectError {
    /// The requested source is not a NID of this node.
    #[error("{0} is not a local NID")]
    SourceNotLocal(Nid),
    /// The interface that was requested as the source is down.
    #[error("the interface {0} is down")]
    SourceDown(Nid),
    /// The requested source and the target have addresses of different sizes, so that no connection can join
    /// them.
    #[error(
        "no connection joins {0} and {1}: one has a 4-byte address, the other a 16-byte address"
    )]
    OtherAddressSize(Nid, Nid),
    /// This node has no interface on the net.
    #[error("no local interface on {0}")]
    NoInterface(Net),
    /// There is no live route to the net.
    #[error("no live route to {0}")]
    NoRoute(Net),
    /// A resend found no unused path in full health.
    #[error("no path is left for a resend")]
    NothingLeft,
    /// A resend has no other path in this case.
    #[error("case {0} has no other path")]
    NoAlternative(Case),
}

impl SelectError {
    /// Returns the errno that the sender receives. Kernels call a source that is not local an invalid argument. The
    /// design only says that the send fails.
    // [PATH-14]
    pub(crate) fn errno(self, profile: Profile) -> Errno {
        match self {
            Self::SourceNotLocal(_) if profile.is_lustre() => Errno::EINVAL,
            Self::SourceDown(_) => Errno::ENETDOWN,
            Self::OtherAddressSize(..) => Errno::EINVAL,
            _ => Errno::EHOSTUNREACH,
        }
    }
}

/// The parts of a core that selection reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(in crate::fabric) nis: &'a Nis,
    pub(in crate::fabric) peers: &'a Peers,
    pub(in crate::fabric) routes: &'a Routes,
    pub(in crate::fabric) policies: &'a Policies,
    pub(in crate::fabric) globals: &'a Globals,
}

/// The state of one selection.
#[derive(Clone, Copy, Debug)]
struct Search<'a> {
    source: Option<&'a Ni>,
    target: ProcessId,
    /// The peer NI of the target, if it is known.
    peer_ni: Option<&'a PeerNi>,
    cpt: u16,
    /// True if a peer that is not Multi-Rail must see the interface that it has always seen.
    pins: bool,
    /// True for traffic of portal 0, which uses this interface only through gateways.
    reserved: bool,
    /// The gateway to avoid.
    avoid: Option<Nid>,
    /// The peer that sent the message to this node; as a gateway it is excluded.
    came_from: Option<Nid>,
    limits: Limits<'a>,
}

impl<'a> View<'a> {
    /// Selects the path of one message. With `retry`, the message is a resend.
    pub(crate) fn path<O: Observer>(
        &self,
        send: &PathRequest,
        retry: Option<&Retry<'_>>,
        observer: &mut O,
    ) -> Result<Path, SelectError> {
        match *send {
            PathRequest::Request(ref request) => self.request(request, retry, observer),
            PathRequest::Response { ni, via } => self.response(ni, via),
            PathRequest::Forward {
                origin,
                from,
                target,
            } => self.forward([origin, from], target, retry, observer),
        }
    }

    /// Returns the path of a response. A response keeps the pair of NIDs of its request.
    // [PATH-12] [RESEND-7]
    fn response(&self, ni: NiId, via: ProcessId) -> Result<Path, SelectError> {
        let no_interface = SelectError::NoInterface(via.nid.net());
        self.nis.get(ni).ok_or(no_interface)?;
        Ok(Path {
            ni,
            next_hop: via,
            dest: via.nid,
            route: None,
            retryable: self.globals.profile.is_lustre(),
        })
    }

    // [PATH-2] [PATH-60] [UDSP-8]
    fn request<O: Observer>(
        &self,
        request: &Request,
        retry: Option<&Retry<'_>>,
        observer: &mut O,
    ) -> Result<Path, SelectError> {
        let target = request.target;
        if self.is_by_loopback(request) {
            return Ok(Path {
                ni: NiId::LOOPBACK,
                next_hop: target,
                dest: target.nid,
                route: None,
                retryable: false,
            });
        }
        let source = self.source(request.source)?;
        let peer_ni = self.peers.by_nid(target.nid);
        let peer = peer_ni.and_then(|peer_ni| self.peers.owner(peer_ni));
        let kind = match peer {
            _ if request.exact.holds(retry.is_none()) => TargetKind::Pinned,
            Some(peer) if peer.multi_rail => TargetKind::MultiRail {
                primary: peer.primary,
            },
            _ => TargetKind::SingleRail,
        };
        let limits = Limits::new(self.globals, retry);
        let search = Search {
            source,
            target,
            peer_ni,
            cpt: request.cpt,
            pins: source.is_none(),
            reserved: request.reserved,
            avoid: request.avoid,
            came_from: None,
            limits,
        };
        self.select_path(&search, peer, kind, observer)
    }

    // [PATH-3] [PATH-4]
    fn is_by_loopback(&self, request: &Request) -> bool {
        let nid = request.target.nid;
        nid.is_loopback()
            || request.exact != Exact::Always
                && self.globals.own_nids_by_loopback
                && self.nis.by_nid(nid).is_some()
    }

    /// Returns whether the message leaves this node if a path exists: loopback is not used, and its source may send.
    pub(in crate::fabric) fn is_for_peer(&self, request: &Request) -> bool {
        !self.is_by_loopback(request) && self.source(request.source).is_ok()
    }

    // [PATH-5] [PATH-6]
    fn source(&self, source: Option<Nid>) -> Result<Option<&'a Ni>, SelectError> {
        let Some(nid) = source.filter(|nid| !nid.is_any()) else {
            return Ok(None);
        };
        let ni = self
            .nis
            .by_nid(nid)
            .ok_or(SelectError::SourceNotLocal(nid))?;
        if self.globals.profile == Profile::Design && ni.is_down() {
            return Err(SelectError::SourceDown(nid));
        }
        Ok(Some(ni))
    }

    /// Selects the path of a forwarded message. The last hop keeps the NID that the originator chose, unless the
    /// originator is Multi-Rail and the chosen interface is not in full health.
    // [GATE-30]
    fn forward<O: Observer>(
        &self,
        [origin, from]: [Nid; 2],
        target: ProcessId,
        retry: Option<&Retry<'_>>,
        observer: &mut O,
    ) -> Result<Path, SelectError> {
        let peer_ni = self.peers.by_nid(target.nid);
        let peer = peer_ni.and_then(|peer_ni| self.peers.owner(peer_ni));
        let may_divert = peer_ni.is_some_and(|peer_ni| !peer_ni.is_optimal())
            && self.nis.has_net(target.nid.net())
            && self.peers.is_multi_rail(origin);
        let kind = match peer {
            Some(peer) if peer.multi_rail && may_divert => TargetKind::MultiRail {
                primary: peer.primary,
            },
            _ => TargetKind::LastHop,
        };
        let search = Search {
            source: None,
            target,
            peer_ni,
            cpt: 0,
            pins: false,
            reserved: false,
            avoid: None,
            came_from: Some(from),
            limits: Limits::new(self.globals, retry),
        };
        self.select_path(&search, peer, kind, observer)
    }

    /// Determines the case of a message and selects the path by it.
    // [PATH-1]
    fn select_path<O: Observer>(
        &self,
        search: &Search<'_>,
        peer: Option<&Peer>,
        kind: TargetKind,
        observer: &mut O,
    ) -> Result<Path, SelectError> {
        let net = search.target.nid.net();
        let is_local = match search.source {
            Some(source) => source.nid.net() == net,
            None => self.nis.has_net(net),
        };
        let classification = Classification {
            source: search.source.map(|ni| ni.nid),
            locality: if is_local {
                Locality::Local(net)
            } else {
                Locality::Remote(net)
            },
            kind,
        };
        if O::WATCHES {
            observer.classified(&classification);
        }
        let case = classification.case();
        let peer = peer.filter(|_| matches!(kind, TargetKind::MultiRail { .. }));
        self.check_source(search, case)?;
        let retryable = self.globals.profile.is_lustre() || !matches!(case, Case::A1D | Case::A2D);
        let path = match (case, search.source, peer) {
            (Case::A1C | Case::A1D, Some(source), _) => {
                self.pick_from_source(search, source, peer, observer)
            }
            (Case::B1C | Case::B2C, _, Some(peer)) => self.pick_multi_rail(search, peer, observer),
            (Case::B1C | Case::B1D, ..) => self.pick_single_rail(search, observer),
            _ => self.over_gateway(search, net, search.target, peer.is_some(), observer),
        };
        path.map(|path| Path { retryable, ..path })
    }

    /// Checks the requested source of a resend: the case must allow another path from it, and it must be in full
    /// health.
    // [RESEND-20] [RESEND-23]
    fn check_source(&self, search: &Search<'_>, case: Case) -> Result<(), SelectError> {
        if !search.limits.are_active() {
            return Ok(());
        }
        match (case, search.source) {
            (Case::A1D | Case::A2D, _) => Err(SelectError::NoAlternative(case)),
            (_, Some(source)) if !source.is_optimal() => Err(SelectError::NothingLeft),
            _ => Ok(()),
        }
    }

    /// Returns the interface that a peer that is not Multi-Rail must see: the one that the rules prefer for the target
    /// NID, otherwise the one that the peer has always seen, if this node still has it.
    // [PATH-53]
    fn pinned(&self, search: &Search<'_>) -> Option<&'a Ni> {
        if !search.pins {
            return None;
        }
        let first_of = |list: &PreferredList| list.nids().find_map(|nid| self.nis.by_nid(nid));
        let Some(peer_ni) = search.peer_ni else {
            let effect = self.policies.of_stranger(search.target.nid)?;
            return first_of(&effect.sources);
        };
        let preferred = self.policies.list(peer_ni.sources).and_then(first_of);
        preferred.or_else(|| self.seen_by(peer_ni))
    }

    /// Returns the interface that a peer has seen on one of its nets, under any of its NIDs.
    // [PATH-50]
    fn seen_by(&self, peer_ni: &PeerNi) -> Option<&'a Ni> {
        let ni_of = |peer_ni: &PeerNi| self.nis.get(peer_ni.pinned?);
        let owner = self.peers.owner(peer_ni);
        let on = owner.and_then(|peer| peer.on_net(peer_ni.nid.net()));
        let Some(on) = on else { return ni_of(peer_ni) };
        let mut nis = on.nis.iter().filter_map(|&id| self.peers.get(id));
        nis.find_map(ni_of)
    }

    /// Returns the transmit credits left of a peer NI; negative by the number of messages that wait.
    pub(crate) fn peer_credits(&self, nid: Nid) -> i64 {
        let limit = self.peer_limit(nid.net());
        let peer_ni = self.peers.by_nid(nid);
        peer_ni.map_or(i64::from(limit), |peer_ni| peer_ni.credits.left(limit))
    }

    /// Returns the transmit credits of every peer NI on a net.
    fn peer_limit(&self, net: Net) -> u32 {
        let tunables = self.nis.net_tunables(net);
        tunables.map_or(0, |tunables| tunables.peer_credits)
    }

    fn nid_of(&self, id: PeerNiId) -> Nid {
        self.peers.get(id).map_or(Nid::ANY, |peer_ni| peer_ni.nid)
    }
}

impl Fabric {
    pub(crate) fn view(&self) -> View<'_> {
        View {
            nis: &self.nis,
            peers: &self.peers,
            routes: &self.routes,
            policies: &self.policies,
            globals: self.globals(),
        }
    }
}
