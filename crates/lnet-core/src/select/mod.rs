//! Path selection: over which local interface, and to which next hop, a message goes (section 2 of
//! lnet-selection).
//!
//! A function of the description of a send and of read access to interfaces, peers and routes; what
//! the choice changes (round-robin stamps, the pinned source of a peer) is done by [`Core::commit`]
//! afterwards. There is one code for sending and for explaining: it is generic over an [`Observer`].
//!
//! ```text
//! request   loopback ── 0@lo, or own NID
//!           A1C A1D B1C B1D ── direct: the destination's net is local
//!           A2C A2D B2C B2D ── routed: over the best gateway
//!              A source given  1 local   C Multi-Rail
//!              B any source    2 remote  D not Multi-Rail
//! response  ── exactly back: the interface and the process that the request came from
//! forward   ── B1D, B1C where the addressed interface is not well, or on to the next gateway
//! ```

mod ask;
mod commit;
mod contest;
mod direct;
mod kept;
mod limits;
mod observe;
mod routed;

use lnet_policy::{PreferredList, Profile};
use lnet_types::{Net, Nid, ProcessId};
use thiserror::Error;

pub use self::ask::{Choice, SendQuery};
pub use self::kept::{Observation, Selection, Whose};
use self::limits::Limits;
pub(crate) use self::limits::Retry;
pub use self::observe::{
    Case, Classification, Criterion, Exclusion, Level, Locality, Observer, Subject, TargetKind,
    Unobserved,
};
use crate::Core;
use crate::config::Globals;
use crate::event::Errno;
use crate::gateways::route::Routes;
use crate::io::NiId;
use crate::ni::{Ni, Nis};
use crate::peer::{Peer, PeerNi, PeerNiId, Peers};
use crate::policies::Policies;

/// What is to be sent, as selection sees it. A resend gives the same description again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PathRequest {
    /// A PUT or GET of ours.
    Request(Request),
    /// The ACK or REPLY to a request.
    Response {
        /// Where the request came in.
        ni: NiId,
        /// The process that handed it to us.
        via: ProcessId,
    },
    /// Somebody else's message.
    Forward {
        /// Who sent it.
        origin: Nid,
        /// Who handed it to us; it never goes back there.
        from: Nid,
        /// Its destination.
        target: ProcessId,
    },
}

/// A PUT or GET of ours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// The interface to send from, if the caller wants a certain one.
    pub(crate) source: Option<Nid>,
    /// Its destination.
    pub(crate) target: ProcessId,
    /// Traffic of portal 0 neither uses nor sets the pinned source.
    pub(crate) reserved: bool,
    /// It is about this very NID: its first attempt is never diverted, and never by loopback.
    pub(crate) exact: bool,
    /// The NUMA node (CPT) of its payload.
    pub(crate) cpt: u16,
    /// The gateway that is not to carry it while there is another one.
    pub(crate) avoid: Option<Nid>,
}

/// A chosen path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) ni: NiId,
    /// The process whose connections carry the message.
    pub(crate) next_hop: ProcessId,
    /// The final destination, which for a Multi-Rail peer may be another NID than the one asked for.
    pub(crate) dest: Nid,
    /// The route it takes: remote net and gateway as configured.
    pub(crate) route: Option<(Net, Nid)>,
    /// If this attempt fails another one may have a path.
    pub(crate) retryable: bool,
}

/// Why there is no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SelectError {
    /// The source that was given is no NID of this node.
    #[error("{0} is not a local NID")]
    SourceNotLocal(Nid),
    /// The interface that was given as the source is down.
    #[error("the interface {0} is down")]
    SourceDown(Nid),
    /// The source that was given and the target have addresses of different sizes: there is no connection between them
    /// (sections 2.4 and 4.2).
    #[error(
        "no connection joins {0} and {1}: one has a 4-byte address, the other a 16-byte address"
    )]
    OtherAddressSize(Nid, Nid),
    /// No interface on the net.
    #[error("no local interface on {0}")]
    NoInterface(Net),
    /// No live route.
    #[error("no live route to {0}")]
    NoRoute(Net),
    /// A resend found nothing that is in full health and unused.
    #[error("no path is left for a resend")]
    NothingLeft,
    /// A resend has no alternative in this case.
    #[error("case {0} has no other path")]
    NoAlternative(Case),
}

impl SelectError {
    /// Returns the errno that the sender receives. Kernels call a source that is not local an invalid
    /// argument; the design only says that the send fails.
    pub(crate) fn errno(self, profile: Profile) -> Errno {
        match self {
            Self::SourceNotLocal(_) if profile.is_lustre() => Errno::EINVAL,
            Self::SourceDown(_) => Errno::ENETDOWN,
            Self::OtherAddressSize(..) => Errno::EINVAL,
            _ => Errno::EHOSTUNREACH,
        }
    }
}

/// What selection may look at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) nis: &'a Nis,
    pub(crate) peers: &'a Peers,
    pub(crate) routes: &'a Routes,
    pub(crate) policies: &'a Policies,
    pub(crate) globals: &'a Globals,
}

/// A send while its path is being chosen.
#[derive(Clone, Copy, Debug)]
struct Search<'a> {
    source: Option<&'a Ni>,
    target: ProcessId,
    cpt: u16,
    /// A peer that is not Multi-Rail is to see the interface it has always seen.
    pins: bool,
    /// The gateway that is not wanted.
    avoid: Option<Nid>,
    /// The peer that handed it to us, which is no gateway for it.
    came_from: Option<Nid>,
    limits: Limits<'a>,
}

impl<'a> View<'a> {
    /// Chooses the path of one message; `retry` makes it a resend.
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

    /// A response belongs to a conversation: it keeps the pair of NIDs that it was given (C-01).
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
        let peer = self.peers.owner_of(target.nid);
        let kind = match peer {
            _ if request.exact && retry.is_none() => TargetKind::Pinned,
            Some(peer) if peer.multi_rail => TargetKind::MultiRail {
                primary: peer.primary,
            },
            _ => TargetKind::SingleRail,
        };
        let limits = Limits::new(self.globals, retry);
        let search = Search {
            source,
            target,
            cpt: request.cpt,
            pins: source.is_none() && !request.reserved,
            avoid: request.avoid,
            came_from: None,
            limits,
        };
        self.select_path(&search, peer, kind, observer)
    }

    fn is_by_loopback(&self, request: &Request) -> bool {
        let nid = request.target.nid;
        nid.is_loopback()
            || !request.exact && self.globals.own_nids_by_loopback && self.nis.by_nid(nid).is_some()
    }

    /// It leaves the node, if there is a way: its source may send.
    pub(crate) fn is_for_peer(&self, request: &Request) -> bool {
        !self.is_by_loopback(request) && self.source(request.source).is_ok()
    }

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

    /// A router's last hop respects the originator's choice, unless the originator is Multi-Rail and
    /// its choice is not well (section 2.8).
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
            cpt: 0,
            pins: false,
            avoid: None,
            came_from: Some(from),
            limits: Limits::new(self.globals, retry),
        };
        self.select_path(&search, peer, kind, observer)
    }

    /// Classifies a send and follows the case.
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

    /// A resend from a given source needs another way than from it to the same place, and a source in
    /// full health (section 2.2, patch 3).
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

    /// The interface that a peer that is not Multi-Rail is to see: the one that the rules prefer for
    /// this NID of it, else the one it has always seen, while we have it.
    fn pinned(&self, search: &Search<'_>) -> Option<&'a Ni> {
        if !search.pins {
            return None;
        }
        let first_of = |list: &PreferredList| list.nids().find_map(|nid| self.nis.by_nid(nid));
        let Some(peer_ni) = self.peers.by_nid(search.target.nid) else {
            let effect = self.policies.of_stranger(search.target.nid)?;
            return first_of(&effect.sources);
        };
        let preferred = self.policies.list(peer_ni.sources).and_then(first_of);
        preferred.or_else(|| self.seen_by(peer_ni))
    }

    /// The interface that a peer has seen on a net of its, under whichever of its NIDs (section 2.11).
    fn seen_by(&self, peer_ni: &PeerNi) -> Option<&'a Ni> {
        let ni_of = |peer_ni: &PeerNi| self.nis.get(peer_ni.pinned?);
        let owner = self.peers.owner(peer_ni);
        let on = owner.and_then(|peer| peer.on_net(peer_ni.nid.net()));
        let Some(on) = on else { return ni_of(peer_ni) };
        let mut nis = on.nis.iter().filter_map(|&id| self.peers.get(id));
        nis.find_map(ni_of)
    }

    /// Transmit credits left of a peer NI; negative by the number of messages that wait.
    pub(crate) fn peer_credits(&self, nid: Nid) -> i64 {
        let limit = self.peer_limit(nid.net());
        let peer_ni = self.peers.by_nid(nid);
        peer_ni.map_or(i64::from(limit), |peer_ni| peer_ni.credits.left(limit))
    }

    /// Transmit credits of every peer NI on a net.
    fn peer_limit(&self, net: Net) -> u32 {
        let tunables = self.nis.net_tunables(net);
        tunables.map_or(0, |tunables| tunables.peer_credits)
    }

    fn nid_of(&self, id: PeerNiId) -> Nid {
        self.peers.get(id).map_or(Nid::ANY, |peer_ni| peer_ni.nid)
    }
}

impl Core {
    pub(crate) fn view(&self) -> View<'_> {
        View {
            nis: &self.nis,
            peers: &self.peers,
            routes: &self.routes,
            policies: &self.policies,
            globals: &self.config.globals,
        }
    }
}
