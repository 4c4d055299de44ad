//! Follows a message from router to router until a router is on the net of the receiver.
//!
//! ```text
//!   gateway ─ its best routes, not back to where the message came from ─▶ next router ─ … ─▶ receiver's net
//! ```
//!
//! Each router chooses by what it believes to be down, and the message then meets what is down. All
//! paths that equal routes allow are followed; each router once, or once for each predecessor to which
//! it could give the message back.

use std::collections::{BTreeMap, BTreeSet};

use lnet_types::Net;

use crate::check::Loss;
use crate::check::index::{Index, Party, State};

/// Most routers that a message is followed through. LNet does not count hops.
const HOPS_MAX: usize = 16;

/// Where a message goes, and what is down.
#[derive(Clone, Copy)]
pub(super) struct Trip<'a> {
    /// The receiver.
    pub(super) to: &'a Party<'a>,
    /// The net of the sender.
    pub(super) origin: Net,
    /// The net of the receiver.
    pub(super) target: Net,
    /// What the routers believe to be down.
    pub(super) view: &'a State,
    /// What is down.
    pub(super) real: &'a State,
}

/// The routers of all paths of a message.
#[derive(Debug, Default)]
pub(super) struct Journey {
    /// Every router on a path.
    pub(super) crossed: BTreeSet<usize>,
    /// The last routers: those that hand the message to the receiver.
    pub(super) last: BTreeSet<usize>,
    /// Why the message is lost on at least one of the paths.
    pub(super) loss: Option<Loss>,
}

impl Journey {
    /// Follows a message that has arrived at any of these routers.
    pub(super) fn follow(
        index: &Index<'_>,
        trip: Trip<'_>,
        routers: impl IntoIterator<Item = usize>,
    ) -> Self {
        let mut walk = Walk {
            index,
            trip,
            journey: Self::default(),
            path: Vec::new(),
            next: BTreeMap::new(),
            known: BTreeSet::new(),
        };
        for router in routers {
            walk.at(router, None);
        }
        walk.journey
    }
}

struct Walk<'a> {
    index: &'a Index<'a>,
    trip: Trip<'a>,
    journey: Journey,
    path: Vec<usize>,
    /// The routers by which a router has routes.
    next: BTreeMap<usize, BTreeSet<usize>>,
    /// Routers, each with the router that the message came from, that were followed already.
    known: BTreeSet<(usize, Option<usize>)>,
}

impl Walk<'_> {
    /// Follows the message from a router; at most [`HOPS_MAX`] calls deep.
    fn at(&mut self, number: usize, from: Option<usize>) {
        let router = self.index.numbered(number);
        let name = || router.name.to_owned();
        if self.path.contains(&number) || self.path.len() >= HOPS_MAX {
            return self.lose(Loss::Circle { router: name() });
        }
        // Where the message came from counts only if the router could give it back.
        let next = self.next.entry(number);
        let next = next.or_insert_with(|| self.index.next(&router.party, self.trip.target));
        let from = from.filter(|from| next.contains(from));
        if !self.known.insert((number, from)) {
            return;
        }
        self.journey.crossed.insert(number);
        let Trip {
            to,
            origin,
            target,
            view,
            real,
        } = self.trip;
        if !router.forwards() || real.dead.contains(&number) {
            return self.lose(Loss::NotForwarded { router: name() });
        }
        if router.nid_on(target).is_some() {
            match self.index.is_router_on(number, target, real) {
                true => drop(self.journey.last.insert(number)),
                false => self.lose(Loss::NotForwarded { router: name() }),
            }
            return;
        }
        let (index, party) = (self.index, &router.party);
        let preferences = index.preferences(party, to, target);
        let best = |preferred: &Vec<_>| index.best(party, target, None, from, preferred, view);
        let gateways: BTreeSet<_> = preferences.iter().flat_map(best).collect();
        if gateways.is_empty() {
            let router = name();
            return self.lose(Loss::NoWayOn {
                router,
                net: target,
            });
        }
        self.path.push(number);
        for gateway in gateways {
            let next = index.router(gateway);
            if gateway.net() == origin {
                self.lose(Loss::Turned {
                    router: name(),
                    net: origin,
                });
            } else if !index.is_router_on(number, gateway.net(), real) {
                self.lose(Loss::NotForwarded { router: name() });
            } else if let Some(next) = next {
                match index.takes(party.class, gateway, real) {
                    true => self.at(next.number, Some(number)),
                    false => self.lose(Loss::NotForwarded {
                        router: next.name.to_owned(),
                    }),
                }
            }
        }
        self.path.pop();
    }

    fn lose(&mut self, loss: Loss) {
        self.journey.loss.get_or_insert(loss);
    }
}
