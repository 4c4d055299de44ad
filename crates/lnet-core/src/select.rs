//! Path selection: over which local interface, and to which next hop, a message goes.
//!
//! A function of the description of a send and of read access to interfaces, peers and routes; what
//! the choice changes (round-robin stamps, the pinned source of a peer) is done by [`Core::commit`]
//! afterwards. Three kinds of send:
//!
//! ```text
//! request   loopback ── own NID or 0@lo
//!           direct   ── destination's net is local to the source (or to us, if no source is given)
//!           routed   ── otherwise: the best live route
//! response  ── exactly back: the interface and the process that the request came from
//! forward   ── direct if the destination's net is local, else the best live route
//! ```

use std::cmp::Reverse;

use lnet_types::{Net, Nid, ProcessId, Time};

use crate::Core;
use crate::io::NiId;
use crate::ni::{Ni, Nis};
use crate::peer::Peers;
use crate::route::{RouteState, Routes};

/// What is to be sent, as selection sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Send {
    /// A PUT or GET of ours.
    Request {
        /// The interface to send from, if the caller wants a certain one.
        source: Option<Nid>,
        /// Its destination.
        target: ProcessId,
        /// Traffic of portal 0 neither uses nor sets the pinned source.
        reserved: bool,
    },
    /// The ACK or REPLY to a request.
    Response {
        /// Where the request came in.
        ni: NiId,
        /// The process that handed it to us.
        via: ProcessId,
    },
    /// Somebody else's message.
    Forward {
        /// Its destination.
        target: ProcessId,
    },
}

/// A chosen path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) ni: NiId,
    /// The process whose connections carry the message.
    pub(crate) next_hop: ProcessId,
    /// The net of the route it takes, when `next_hop` is a gateway from the route table.
    pub(crate) route: Option<Net>,
}

/// There is no way to the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoPath;

/// What selection may look at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) nis: &'a Nis,
    pub(crate) peers: &'a Peers,
    pub(crate) routes: &'a Routes,
}

impl View<'_> {
    /// Chooses the path of one message.
    pub(crate) fn path(&self, send: Send) -> Result<Path, NoPath> {
        match send {
            Send::Request {
                source,
                target,
                reserved,
            } => self.request(source, target, reserved),
            Send::Response { ni, via } => {
                self.nis.get(ni).ok_or(NoPath)?;
                Ok(Path {
                    ni,
                    next_hop: via,
                    route: None,
                })
            }
            Send::Forward { target } => self.forward(target),
        }
    }

    fn request(
        &self,
        source: Option<Nid>,
        target: ProcessId,
        reserved: bool,
    ) -> Result<Path, NoPath> {
        if self.nis.by_nid(target.nid).is_some() {
            return Ok(Path {
                ni: NiId::LOOPBACK,
                next_hop: target,
                route: None,
            });
        }
        let source = match source.filter(|nid| !nid.is_any()) {
            Some(nid) => Some(self.nis.by_nid(nid).ok_or(NoPath)?),
            None => None,
        };
        let pinned = if reserved {
            None
        } else {
            self.pinned(target.nid)
        };
        let net = target.nid.net();
        match source {
            Some(ni) if ni.nid.net() == net => Ok(Path {
                ni: ni.id,
                next_hop: target,
                route: None,
            }),
            None if self.nis.has_net(net) => self.direct(target, pinned),
            _ => self.routed(net, source, pinned),
        }
    }

    fn forward(&self, target: ProcessId) -> Result<Path, NoPath> {
        let net = target.nid.net();
        if self.nis.has_net(net) {
            self.direct(target, None)
        } else {
            self.routed(net, None, None)
        }
    }

    /// The interface that this peer has always seen as our address, while we have it.
    fn pinned(&self, nid: Nid) -> Option<&Ni> {
        self.nis.get(self.peers.by_nid(nid)?.pinned?)
    }

    fn direct(&self, target: ProcessId, pinned: Option<&Ni>) -> Result<Path, NoPath> {
        let ni = self.best_ni(target.nid.net(), pinned).ok_or(NoPath)?;
        Ok(Path {
            ni: ni.id,
            next_hop: target,
            route: None,
        })
    }

    fn routed(&self, net: Net, source: Option<&Ni>, pinned: Option<&Ni>) -> Result<Path, NoPath> {
        let usable = |state: &&RouteState| {
            let gateway_net = state.route.gateway.net();
            self.routes.is_alive(state)
                && match source {
                    Some(ni) => ni.nid.net() == gateway_net,
                    None => self.nis.has_net(gateway_net),
                }
        };
        // Of equals the later one wins, as the kernel's scan has it.
        let best = self.routes.to(net).iter().filter(usable).rev();
        let best = best
            .min_by_key(|state| self.route_rank(state))
            .ok_or(NoPath)?;
        let gateway = best.route.gateway;
        let ni = match source {
            Some(ni) => ni,
            None => self.best_ni(gateway.net(), pinned).ok_or(NoPath)?,
        };
        Ok(Path {
            ni: ni.id,
            next_hop: ProcessId::lustre(gateway),
            route: Some(net),
        })
    }

    /// Lower is better: priority, hops, queued bytes, transmit credits, last use.
    fn route_rank(&self, state: &RouteState) -> (u32, u8, u64, Reverse<i64>, u64) {
        let gateway = self.peers.by_nid(state.route.gateway);
        (
            state.route.priority,
            state.route.hops.unwrap_or(1),
            gateway.map_or(0, |peer_ni| peer_ni.queued_bytes),
            Reverse(self.peer_credits(state.route.gateway)),
            state.seq,
        )
    }

    /// Transmit credits left of a peer NI; negative by the number of messages that wait.
    pub(crate) fn peer_credits(&self, nid: Nid) -> i64 {
        let limit = self
            .nis
            .net_tunables(nid.net())
            .map_or(0, |tunables| tunables.peer_credits);
        let used = self.peers.by_nid(nid).map_or(0, |peer_ni| {
            i64::from(peer_ni.in_flight) + peer_ni.queue.len() as i64
        });
        i64::from(limit) - used
    }

    /// The pinned interface if it is on this net, else: no fatal error, more credits, longest unused.
    fn best_ni<'a>(&'a self, net: Net, pinned: Option<&'a Ni>) -> Option<&'a Ni> {
        pinned.filter(|ni| ni.nid.net() == net).or_else(|| {
            self.nis
                .on_net(net)
                .min_by_key(|ni| (ni.fatal, Reverse(ni.tx_credits()), ni.seq))
        })
    }
}

impl Core {
    pub(crate) fn view(&self) -> View<'_> {
        View {
            nis: &self.nis,
            peers: &self.peers,
            routes: &self.routes,
        }
    }

    /// Records that a path is used: round-robin stamps, and the source that a peer is to see from now
    /// on.
    pub(crate) fn commit(&mut self, send: Send, path: Path, now: Time) {
        if path.ni == NiId::LOOPBACK {
            return;
        }
        self.nis.stamp(path.ni);
        if let Some(net) = path.route {
            self.routes.stamp(net, path.next_hop.nid);
        }
        if let Send::Request {
            target,
            reserved: false,
            ..
        } = send
        {
            self.pin_source(target.nid, path.ni, now);
        }
    }

    fn pin_source(&mut self, destination: Nid, ni: NiId, now: Time) {
        let Some(id) = self.peers.find_or_create(destination, now) else {
            return;
        };
        let valid = self
            .peers
            .get(id)
            .and_then(|peer_ni| self.nis.get(peer_ni.pinned?))
            .is_some();
        if valid || self.peers.is_multi_rail(destination) {
            return;
        }
        if let Some(peer_ni) = self.peers.get_mut(id) {
            peer_ni.pinned = Some(ni);
        }
    }
}
