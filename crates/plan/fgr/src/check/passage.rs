//! The fate of a message between a client and a server, given what is down and what the sender
//! knows to be down.
//!
//! ```text
//!   sender ──route──▶ gateway's NI │ NI on the receiver's net ──▶ receiver
//!     │                 works?     │        works?                  │ accepts it from this NI?
//!     └ takes the best of the routes that it believes usable        └ answers the same way back
//! ```
//!
//! The response takes the last router of the request. If that router is also the first, the response
//! arrives if the request arrived: the interfaces are the same, and the sender has the route. In a
//! chain of routers, the last router chooses the way back like any sender.

use std::collections::{BTreeMap, BTreeSet};

use lnet_types::{Net, Nid};

use crate::check::index::{Index, Party, Router, State, discovers};
use crate::check::onward::{Journey, Trip};
use crate::check::{Direction, Loss};

/// The gateways that messages of one direction may take.
pub(super) struct Passages {
    /// The gateways; empty if the sender knows no usable route.
    pub(super) gateways: Vec<Nid>,
    /// Net of a usable gateway that the sender does not take because it is not on the net of the
    /// source NID.
    pub(super) elsewhere: Option<Net>,
}

/// A client and a server, and the NIDs with which they communicate.
pub(super) struct Conversation<'a> {
    pub(super) client: &'a Party<'a>,
    pub(super) server: &'a Party<'a>,
    /// The server's net.
    pub(super) net: Net,
    /// Net of the client's source NID, by which the server knows the client.
    pub(super) session: Net,
    /// Gateways that the client's rules prefer.
    pub(super) by_client: &'a [Nid],
    /// Gateways that the server's rules prefer.
    pub(super) by_server: &'a [Nid],
}

impl Conversation<'_> {
    /// Returns sender, receiver, the receiver's net, the sender's net, and the gateways that the
    /// sender prefers.
    fn ends(&self, direction: Direction) -> (&Party<'_>, &Party<'_>, Net, Net, &[Nid]) {
        let (client, server) = (self.client, self.server);
        match direction {
            Direction::Requests => (client, server, self.net, self.session, self.by_client),
            Direction::ServerStarted => (server, client, self.session, self.net, self.by_server),
        }
    }

    /// Returns the gateways of messages if the sender believes `state` to be down.
    pub(super) fn passages(
        &self,
        index: &Index<'_>,
        direction: Direction,
        view: &State,
    ) -> Passages {
        let (from, _, target, source, preferred) = self.ends(direction);
        let best = |source| index.best(from, target, source, None, preferred, view);
        let mut passages = Passages {
            gateways: best(Some(source)),
            elsewhere: None,
        };
        // Messages that a server starts always come from the NID to which the client sent its
        // request.
        if passages.gateways.is_empty() && direction == Direction::Requests {
            let others = best(None);
            match discovers(from.class) {
                true => passages.gateways = others,
                false => passages.elsewhere = others.first().map(|gateway| gateway.net()),
            }
        }
        passages
    }

    /// Returns why messages by at least some of the gateways are lost if `real` is down and routers
    /// believe `view` to be down.
    pub(super) fn loss(
        &self,
        index: &Index<'_>,
        direction: Direction,
        passages: &Passages,
        view: &State,
        real: &State,
    ) -> Option<Loss> {
        let (from, to, target, session, _) = self.ends(direction);
        if passages.gateways.is_empty() {
            return Some(match passages.elsewhere {
                Some(other) => Loss::SourceKept { session, other },
                None => Loss::NoRoute,
            });
        }
        let trip = Trip {
            to,
            origin: session,
            target,
            view,
            real,
        };
        let mut chained: BTreeMap<Net, BTreeSet<usize>> = BTreeMap::new();
        for &gateway in &passages.gateways {
            let Some(router) = index.router(gateway) else {
                continue;
            };
            if !index.takes(from.class, gateway, real) {
                let router = router.name.to_owned();
                return Some(Loss::NotForwarded { router });
            }
            if router.nid_on(target).is_none() {
                chained
                    .entry(gateway.net())
                    .or_default()
                    .insert(router.number);
            } else if let Some(loss) = delivered(index, router, trip, gateway.net()) {
                return Some(loss);
            }
        }
        let mut chained = chained.into_iter();
        chained.find_map(|(origin, firsts)| onward(index, firsts, origin, (from, trip)))
    }

    /// Returns the routers that messages cross if nothing has failed.
    pub(super) fn crossed(
        &self,
        index: &Index<'_>,
        direction: Direction,
        passages: &Passages,
    ) -> BTreeSet<usize> {
        let (_, to, target, origin, _) = self.ends(direction);
        let calm = State::default();
        let trip = Trip {
            to,
            origin,
            target,
            view: &calm,
            real: &calm,
        };
        let gateways = passages.gateways.iter();
        let first = gateways.filter_map(|&gateway| index.router(gateway));
        let crossed = first.flat_map(|router| match router.nid_on(target) {
            Some(_) => BTreeSet::from([router.number]),
            None => Journey::follow(index, trip, [router.number]).crossed,
        });
        crossed.collect()
    }
}

/// Returns why messages from `origin` that have arrived at these routers of chains are lost, or their responses.
fn onward(
    index: &Index<'_>,
    firsts: BTreeSet<usize>,
    origin: Net,
    (from, trip): (&Party<'_>, Trip<'_>),
) -> Option<Loss> {
    let trip = Trip { origin, ..trip };
    let there = Journey::follow(index, trip, firsts);
    let mut last = there.last.iter().map(|&last| index.numbered(last));
    let undelivered = || last.find_map(|last| delivered(index, last, trip, origin));
    let back = Trip {
        to: from,
        origin: trip.target,
        target: origin,
        ..trip
    };
    let loss = there.loss.or_else(undelivered);
    loss.or_else(|| answer(index, there.last, back, trip.target))
}

/// Returns why a receiver does not get messages from `origin` by this last router.
fn delivered(index: &Index<'_>, last: &Router<'_>, trip: Trip<'_>, origin: Net) -> Option<Loss> {
    let router = || last.name.to_owned();
    let nids = last.nids.iter().copied();
    let mut senders = nids.filter(|nid| nid.net() == trip.target && index.works(*nid, trip.real));
    let Some(sender) = senders.next() else {
        return Some(Loss::NotForwarded { router: router() });
    };
    match index.accepts(trip.to, origin, sender) {
        true => None,
        false => Some(Loss::Dropped {
            by: trip.to.class.name.clone(),
            router: router(),
            sender,
        }),
    }
}

/// Returns why responses that the last routers of requests get are lost on their way back.
fn answer(index: &Index<'_>, lasts: BTreeSet<usize>, back: Trip<'_>, origin: Net) -> Option<Loss> {
    let journey = Journey::follow(index, back, lasts);
    let firsts = journey.last.iter().map(|&first| index.numbered(first));
    let mut ends = firsts.filter_map(|first| delivered(index, first, back, origin));
    let loss = journey.loss.or_else(|| ends.next())?;
    Some(Loss::Answer(Box::new(loss)))
}
