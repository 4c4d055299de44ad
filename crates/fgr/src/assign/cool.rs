//! Equal loads whose hottest link, in either direction, is as cool as exchanges make it.
//!
//! ```text
//!   hot link ──carries──▶ clients of router a      c ∈ a, over the link     c' ∈ b
//!                                                    a ──c──▶ b    b ──c'──▶ a
//! ```
//!
//! The start is the cheapest assignment with equal loads. Then two clients of different routers of one
//! net change places, the cheapest pair first, where the one leaves a link that is too hot and neither
//! makes another too hot: loads stay equal. When no pair is left the limit of that link cannot be
//! reached so; with no limit given, limits are tried downwards until one cannot be reached.

use std::collections::BTreeMap;

use topology::{Fabric, Link, Vertex};

use crate::assign::Context;
use crate::assign::nearest::router_costs;
use crate::assign::optimal::{balanced_sinks, places, write};
use crate::evaluate::Traffic;
use crate::plan::{Plan, PlanError, PlanWarning};
use crate::policy::{Metric, Policy};

/// How much lower each limit is that is tried.
const STEP: f64 = 0.99;

/// Hot links that are cooled for one limit at most: many times those of a plan.
const LINKS_MAX: usize = 20_000;

/// Nets whose routers stand at the same places, and the router, by slot, of each client.
#[derive(Clone)]
struct Share {
    nets: Vec<usize>,
    /// Places of the routers.
    routers: Vec<Vertex>,
    /// Cost by site and router.
    costs: Vec<u32>,
    sinks: Vec<usize>,
}

/// A link in one direction of traffic.
type Hot = (Traffic, Link);

/// Equal loads with links at most this hot, or as cool as can be for 0.
pub(super) fn cool(context: &Context<'_>, limit: u32) -> Result<Plan, PlanError> {
    let policy = Policy::Cool { limit };
    let mut shares = shares(context, policy)?;
    let mut state = State::new(context, &shares);
    let start = (shares.clone(), state.loads.clone());
    let is_reached = limit > 0 && state.reach(&mut shares, f64::from(limit));
    if !is_reached {
        (shares, state.loads) = start;
        state.descend(&mut shares);
    }
    let mut plan = context.plan_by_client(policy);
    if limit > 0 && !is_reached {
        // Tenths of units per GB/s, far below 2^32.
        let tenths = (state.hottest().0 * 10.0).round() as u32;
        plan.warnings.push(PlanWarning::Hot { limit, tenths });
    }
    for share in &shares {
        for &net in &share.nets {
            write(context, &mut plan, net, Metric::Cost, &share.sinks);
        }
    }
    Ok(plan)
}

fn shares(context: &Context<'_>, policy: Policy) -> Result<Vec<Share>, PlanError> {
    let mut by_places: BTreeMap<Vec<u32>, Vec<usize>> = BTreeMap::new();
    for net in context.data_nets() {
        by_places.entry(places(context, net)).or_default().push(net);
    }
    let of = |(at, nets): (Vec<u32>, Vec<usize>)| {
        let sinks = balanced_sinks(context, nets[0], Metric::Cost, policy)?;
        let mut costs = router_costs(context, nets[0], Metric::Cost);
        let rows = context.sites.iter();
        Ok(Share {
            costs: rows
                .flat_map(|site| costs.row(site.vertex).to_vec())
                .collect(),
            routers: at.into_iter().map(Vertex).collect(),
            nets,
            sinks,
        })
    };
    by_places.into_iter().map(of).collect()
}

struct State<'a> {
    context: &'a Context<'a>,
    /// Units by link, of writes and of reads.
    loads: [Vec<f64>; 2],
    /// One over GB/s; 0 where there is no link.
    scale: Vec<f64>,
}

impl<'a> State<'a> {
    fn new(context: &'a Context<'a>, shares: &[Share]) -> Self {
        let fabric = &context.machine.fabric;
        let slots = fabric.link_slots() as usize;
        let scale =
            (0..fabric.link_slots()).map(|l| fabric.capacity(Link(l)).map_or(0.0, |c| 1.0 / c));
        let mut state = Self {
            context,
            loads: [vec![0.0; slots], vec![0.0; slots]],
            scale: scale.collect(),
        };
        for share in shares {
            for (&sink, &site) in share.sinks.iter().zip(&context.site_of) {
                state.carry(share, (site, sink), 1.0);
            }
        }
        state
    }

    /// Adds the streams of a client of a site to a router, or takes them off.
    fn carry(&mut self, share: &Share, (site, sink): (u32, usize), sign: f64) {
        let (here, there) = (
            self.context.sites[site as usize].vertex,
            share.routers[sink],
        );
        let units = sign * share.nets.len() as f64;
        for (loads, (from, to)) in self.loads.iter_mut().zip([(here, there), (there, here)]) {
            let fabric = &self.context.machine.fabric;
            fabric.walk(from, to, &mut |link, part| {
                loads[link.0 as usize] += part * units
            });
        }
    }

    fn hottest(&self) -> (f64, Hot) {
        let mut found = (0.0, (Traffic::Write, Link(0)));
        for (traffic, loads) in [Traffic::Write, Traffic::Read].into_iter().zip(&self.loads) {
            for (link, (load, scale)) in (0..).map(Link).zip(loads.iter().zip(&self.scale)) {
                if load * scale > found.0 {
                    found = (load * scale, (traffic, link));
                }
            }
        }
        found
    }

    fn heat(&self, (traffic, link): Hot) -> f64 {
        let index = link.0 as usize;
        self.loads[usize::from(traffic == Traffic::Read)][index] * self.scale[index]
    }

    /// Whether any stream of a router can cross a link: with dimension-ordered routing one that writes
    /// has its position in the earlier dimensions already, and one that reads in the later ones still.
    fn may_cross(&self, router: Vertex, (traffic, link): Hot) -> bool {
        let Fabric::Grid(grid, _) = &self.context.machine.fabric else {
            return true;
        };
        let link = grid.describe(link);
        let dimensions = match traffic {
            Traffic::Write => 0..link.dimension,
            Traffic::Read => link.dimension + 1..grid.dimensions().len(),
        };
        let mut dimensions = dimensions.into_iter();
        dimensions.all(|d| grid.position(router, d) == grid.position(link.from, d))
    }

    /// The part of a client's stream to a router that a link carries.
    fn part(&self, share: &Share, (site, sink): (u32, usize), (traffic, hot): Hot) -> f64 {
        let (here, there) = (
            self.context.sites[site as usize].vertex,
            share.routers[sink],
        );
        let (from, to) = match traffic {
            Traffic::Write => (here, there),
            Traffic::Read => (there, here),
        };
        let mut found = 0.0;
        let fabric = &self.context.machine.fabric;
        fabric.walk(from, to, &mut |link, part| {
            if link == hot {
                found += part;
            }
        });
        found
    }

    /// Tries lower and lower limits until one cannot be reached.
    fn descend(&mut self, shares: &mut Vec<Share>) {
        loop {
            let before = (shares.clone(), self.loads.clone());
            let tried = self.hottest().0 * STEP;
            if tried <= 0.0 || !self.reach(shares, tried) {
                (*shares, self.loads) = before;
                return;
            }
        }
    }

    /// Cools every link to the limit; whether that was reached.
    fn reach(&mut self, shares: &mut [Share], limit: f64) -> bool {
        for _ in 0..LINKS_MAX {
            let (heat, hot) = self.hottest();
            if heat <= limit {
                return true;
            }
            if !self.relieve(shares, hot, limit) {
                return false;
            }
        }
        false
    }

    /// Exchanges clients until a link is within the limit; whether it is.
    fn relieve(&mut self, shares: &mut [Share], hot: Hot, limit: f64) -> bool {
        for _ in 0..shares.len() {
            let mut pairs = Vec::new();
            for (index, share) in shares.iter().enumerate() {
                self.pairs(index, share, hot, &mut pairs);
            }
            pairs.sort_unstable();
            let mut moved = false;
            for &(_, index, one, other) in &pairs {
                if self.heat(hot) <= limit {
                    return true;
                }
                moved |= self.exchange(&mut shares[index], (one, other), limit);
            }
            if !moved {
                return false;
            }
        }
        self.heat(hot) <= limit
    }

    /// Pairs of clients of one share that relieve a link by changing places, with what they add to
    /// the cost: the cheapest of each two routers first, each client once for each router.
    fn pairs(
        &self,
        index: usize,
        share: &Share,
        hot: Hot,
        pairs: &mut Vec<(i64, usize, usize, usize)>,
    ) {
        let routers = share.routers.len();
        let site_of = &self.context.site_of;
        let dearer = |client: usize, to: usize| {
            let row = site_of[client] as usize * routers;
            i64::from(share.costs[row + to]) - i64::from(share.costs[row + share.sinks[client]])
        };
        let may: Vec<bool> = (0..routers)
            .map(|sink| self.may_cross(share.routers[sink], hot))
            .collect();
        let crosses = |client: usize, sink: usize| {
            may[sink] && self.part(share, (site_of[client], sink), hot) > 0.0
        };
        let mut users: Vec<Vec<usize>> = vec![Vec::new(); routers];
        for (client, &sink) in share.sinks.iter().enumerate() {
            if crosses(client, sink) {
                users[sink].push(client);
            }
        }
        for (from, users) in users
            .iter()
            .enumerate()
            .filter(|(_, users)| !users.is_empty())
        {
            for to in (0..routers).filter(|&to| to != from) {
                let mut leaving: Vec<(i64, usize)> = users
                    .iter()
                    .filter(|&&c| !crosses(c, to))
                    .map(|&c| (dearer(c, to), c))
                    .collect();
                if leaving.is_empty() {
                    continue;
                }
                let others = (0..share.sinks.len()).filter(|&c| share.sinks[c] == to);
                let mut coming: Vec<(i64, usize)> = others
                    .filter(|&c| !crosses(c, from))
                    .map(|c| (dearer(c, from), c))
                    .collect();
                leaving.sort_unstable();
                coming.sort_unstable();
                let both = leaving.iter().zip(&coming);
                pairs.extend(both.map(|(a, b)| (a.0 + b.0, index, a.1, b.1)));
            }
        }
    }

    /// Lets two clients change places unless that makes a link too hot; whether they did.
    fn exchange(&mut self, share: &mut Share, (one, other): (usize, usize), limit: f64) -> bool {
        let site = |client: usize| self.context.site_of[client];
        let (a, b) = (share.sinks[one], share.sinks[other]);
        let (here, there) = (site(one), site(other));
        if a == b {
            return false;
        }
        self.carry(share, (here, a), -1.0);
        self.carry(share, (there, b), -1.0);
        let is_cool = |state: &Self, stream| state.stays_cool(share, stream, limit);
        // Each alone and then both: they may meet on a link.
        let mut fits = is_cool(self, (here, b));
        self.carry(share, (here, b), 1.0);
        fits = fits && is_cool(self, (there, a));
        if fits {
            self.carry(share, (there, a), 1.0);
            (share.sinks[one], share.sinks[other]) = (b, a);
        } else {
            self.carry(share, (here, b), -1.0);
            self.carry(share, (there, b), 1.0);
            self.carry(share, (here, a), 1.0);
        }
        fits
    }

    /// Whether no link of a new stream gets hotter than the limit.
    fn stays_cool(&self, share: &Share, (site, sink): (u32, usize), limit: f64) -> bool {
        let (here, there) = (
            self.context.sites[site as usize].vertex,
            share.routers[sink],
        );
        let units = share.nets.len() as f64;
        let mut fits = true;
        for (loads, (from, to)) in self.loads.iter().zip([(here, there), (there, here)]) {
            let fabric = &self.context.machine.fabric;
            fabric.walk(from, to, &mut |link, part| {
                let index = link.0 as usize;
                fits &= (loads[index] + part * units) * self.scale[index] <= limit;
            });
        }
        fits
    }
}
