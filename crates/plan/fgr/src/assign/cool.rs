//! Equal router loads with the lowest load on the hottest link, in either direction, that exchanges
//! of clients reach.
//!
//! ```text
//!   hot link ──carries──▶ clients of router a      c ∈ a, over the link     c' ∈ b
//!                                                    a ──c──▶ b    b ──c'──▶ a
//! ```
//!
//! The search starts from the cheapest assignment with equal loads (`balanced`). It exchanges two clients of
//! different routers of one net, the cheapest pair first, if one of them leaves a link that is too
//! hot and neither makes another link too hot. Exchanges keep the loads equal. If no pair is left,
//! the limit of the link cannot be reached by exchanges. Without a given limit the search lowers
//! the limits step by step until it cannot reach one.

use crate::assign::Context;
use crate::assign::optimal::{self, balanced_and_cool, plan};
use crate::costs::columns;
use crate::evaluate::Traffic;
use crate::plan::{Plan, PlanError, PlanWarning};
use crate::policy::{Metric, Policy};
use crate::topology::{Fabric, Link, Vertex};

/// Factor between one limit that is tried and the next.
const STEP: f64 = 0.99;

/// Most hot links that are cooled for one limit: many times those of a plan.
const LINKS_MAX: usize = 20_000;

/// Nets whose routers have the same vertices, and the router of each client, by slot.
#[derive(Clone)]
struct Share {
    own: optimal::Share,
    /// Vertices of the routers.
    routers: Vec<Vertex>,
    /// Costs, by router and site.
    costs: Vec<u32>,
}

/// A link for one direction of traffic.
type Hot = (Traffic, Link);

/// Highest load of a link, in units per GB/s, for writes and for reads.
type Limits = [f64; 2];

/// Returns a plan with equal loads whose links stay within `limits` for writes and reads. If both
/// limits are absent, the links are as cool as exchanges make them.
pub(super) fn cool(context: &Context<'_>, limits: [u32; 2]) -> Result<Plan, PlanError> {
    let [write, read] = limits;
    let policy = Policy::Cool { write, read };
    let own = balanced_and_cool(context, Metric::Cost, policy)?;
    let mut shares = shares(context, own, Metric::Cost);
    let mut state = State::new(context, &shares, i64::MAX);
    let start = (shares.clone(), state.loads.clone());
    let has_limit = limits != [0, 0];
    let wanted = limits.map(|limit| {
        if limit == 0 {
            f64::INFINITY
        } else {
            f64::from(limit)
        }
    });
    let is_reached = has_limit && state.reach(&mut shares, wanted);
    if !is_reached {
        (shares, state.loads) = start;
        state.descend(&mut shares);
    }
    let own: Vec<optimal::Share> = shares.into_iter().map(|share| share.own).collect();
    let mut plan = plan(context, &own, Metric::Cost, policy);
    if has_limit && !is_reached {
        let (times, (traffic, _)) = state.hottest(wanted);
        let limit = limits[usize::from(traffic == Traffic::Read)];
        // Tenths of units per GB/s: far below 2^32.
        let tenths = (times * f64::from(limit) * 10.0).round() as u32;
        plan.warnings.push(PlanWarning::Hot { limit, tenths });
    }
    Ok(plan)
}

/// Of the assignments with this total distance that exchanges reach, returns the one with the lowest load on the hottest
/// link. In a dragonfly many routers are at the same distance from a client, and the links differ.
pub(super) fn cool_ties(
    context: &Context<'_>,
    own: Vec<optimal::Share>,
    by: Metric,
) -> Vec<optimal::Share> {
    let mut shares = shares(context, own, by);
    State::new(context, &shares, 0).descend(&mut shares);
    shares.into_iter().map(|share| share.own).collect()
}

fn shares(context: &Context<'_>, own: Vec<optimal::Share>, by: Metric) -> Vec<Share> {
    let vertices: Vec<Vertex> = context.sites.iter().map(|site| site.vertex).collect();
    let of = |own: optimal::Share| {
        let routers = context.usable[own.nets[0]].iter();
        let routers: Vec<Vertex> = routers
            .map(|&router| context.machine.routers[usize::from(router)].vertex)
            .collect();
        Share {
            costs: columns(&context.machine.fabric, by, &routers, &vertices),
            routers,
            own,
        }
    };
    own.into_iter().map(of).collect()
}

struct State<'a> {
    context: &'a Context<'a>,
    /// The most that an exchange may add to the total distance.
    dearest: i64,
    /// Units by link, for writes and for reads.
    loads: [Vec<f64>; 2],
    /// The inverse of GB/s; 0 if there is no such link.
    scale: Vec<f64>,
}

impl<'a> State<'a> {
    fn new(context: &'a Context<'a>, shares: &[Share], dearest: i64) -> Self {
        let fabric = &context.machine.fabric;
        let slots = fabric.link_slots() as usize;
        let scale =
            (0..fabric.link_slots()).map(|l| fabric.capacity(Link(l)).map_or(0.0, |c| 1.0 / c));
        let mut state = Self {
            context,
            dearest,
            loads: [vec![0.0; slots], vec![0.0; slots]],
            scale: scale.collect(),
        };
        for share in shares {
            for (&slot, &site) in share.own.slots.iter().zip(&context.site_of) {
                state.carry(share, (site, slot.into()), 1.0);
            }
        }
        state
    }

    /// Adds the streams between a client's site and a router to the loads; a `sign` of -1 removes
    /// them.
    fn carry(&mut self, share: &Share, (site, sink): (u32, usize), sign: f64) {
        let (here, there) = (
            self.context.sites[site as usize].vertex,
            share.routers[sink],
        );
        let units = sign * share.own.nets.len() as f64;
        for (loads, (from, to)) in self.loads.iter_mut().zip([(here, there), (there, here)]) {
            let fabric = &self.context.machine.fabric;
            fabric.walk(from, to, &mut |link, part| {
                loads[link.0 as usize] += part * units
            });
        }
    }

    /// Returns the link with the highest load relative to its limit, and the ratio of the two.
    fn hottest(&self, limits: Limits) -> (f64, Hot) {
        let mut found = (0.0, (Traffic::Write, Link(0)));
        let traffics = [Traffic::Write, Traffic::Read].into_iter().zip(limits);
        for ((traffic, limit), loads) in traffics.zip(&self.loads) {
            for (link, (load, scale)) in (0..).map(Link).zip(loads.iter().zip(&self.scale)) {
                let heat = load * scale / limit;
                if heat > found.0 {
                    found = (heat, (traffic, link));
                }
            }
        }
        found
    }

    fn heat(&self, (traffic, link): Hot) -> f64 {
        let index = link.0 as usize;
        self.loads[usize::from(traffic == Traffic::Read)][index] * self.scale[index]
    }

    /// Returns whether any stream of a router can cross a link. With dimension-ordered routing, a
    /// written message that crosses the link already has the router's position in the earlier
    /// dimensions; a read message still has the router's position in the later dimensions.
    fn may_cross(&self, router: Vertex, (traffic, link): Hot) -> bool {
        let grid = match &self.context.machine.fabric {
            Fabric::Grid(grid, _) => grid,
            Fabric::Dragonfly(dragonfly, routing) => {
                let is_end = traffic == Traffic::Write;
                return dragonfly.may_touch(router, is_end, link, *routing);
            }
            Fabric::FatTree(_) => return true,
        };
        let link = grid.describe(link);
        let dimensions = match traffic {
            Traffic::Write => 0..link.dimension,
            Traffic::Read => link.dimension + 1..grid.dimensions().len(),
        };
        let mut dimensions = dimensions.into_iter();
        dimensions.all(|d| grid.position(router, d) == grid.position(link.from, d))
    }

    /// Returns the part of the stream between a client and a router that a link carries.
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
        // Most streams of a dragonfly are far from the link, and their paths need not be walked.
        if let Fabric::Dragonfly(dragonfly, routing) = fabric
            && !dragonfly.may_carry(from, to, hot, *routing)
        {
            return found;
        }
        fabric.walk(from, to, &mut |link, part| {
            if link == hot {
                found += part;
            }
        });
        found
    }

    /// Lowers the limits until one cannot be reached.
    fn descend(&mut self, shares: &mut Vec<Share>) {
        loop {
            let before = (shares.clone(), self.loads.clone());
            let tried = self.hottest([1.0; 2]).0 * STEP;
            if tried <= 0.0 || !self.reach(shares, [tried; 2]) {
                (*shares, self.loads) = before;
                return;
            }
        }
    }

    /// Cools every link to its limit. Returns whether all links are within their limits.
    fn reach(&mut self, shares: &mut [Share], limits: Limits) -> bool {
        for _ in 0..LINKS_MAX {
            let (heat, hot) = self.hottest(limits);
            if heat <= 1.0 {
                return true;
            }
            if !self.relieve(shares, hot, limits) {
                return false;
            }
        }
        false
    }

    /// Exchanges clients until a link is within the limit. Returns whether the link is within the
    /// limit.
    fn relieve(&mut self, shares: &mut [Share], hot: Hot, limits: Limits) -> bool {
        let limit = limits[usize::from(hot.0 == Traffic::Read)];
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
                moved |= self.exchange(&mut shares[index], (one, other), limits);
            }
            if !moved {
                return false;
            }
        }
        self.heat(hot) <= limit
    }

    /// Returns pairs of clients of one share whose exchange relieves a link and is not too dear, with the cost that the
    /// exchange adds. The cheapest pair of each two routers comes first; each client occurs once
    /// per router.
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
            let site = site_of[client] as usize;
            let cost = |slot: usize| i64::from(share.costs[slot * self.context.sites.len() + site]);
            cost(to) - cost(share.own.slots[client].into())
        };
        let may: Vec<bool> = (0..routers)
            .map(|sink| self.may_cross(share.routers[sink], hot))
            .collect();
        let crosses = |client: usize, sink: usize| {
            may[sink] && self.part(share, (site_of[client], sink), hot) > 0.0
        };
        let mut clients: Vec<Vec<usize>> = vec![Vec::new(); routers];
        for (client, &slot) in share.own.slots.iter().enumerate() {
            clients[usize::from(slot)].push(client);
        }
        let users = |slot: usize| {
            clients[slot]
                .iter()
                .copied()
                .filter(move |&c| crosses(c, slot))
        };
        for from in (0..routers).filter(|&from| may[from]) {
            let users: Vec<usize> = users(from).collect();
            if users.is_empty() {
                continue;
            }
            for to in (0..routers).filter(|&to| to != from) {
                let mut leaving: Vec<(i64, usize)> = users
                    .iter()
                    .filter(|&&c| !crosses(c, to))
                    .map(|&c| (dearer(c, to), c))
                    .collect();
                if leaving.is_empty() {
                    continue;
                }
                let others = clients[to].iter().copied();
                let mut coming: Vec<(i64, usize)> = others
                    .filter(|&c| !crosses(c, from))
                    .map(|c| (dearer(c, from), c))
                    .collect();
                // Of the many that may come only as many as leave are needed.
                if coming.len() > leaving.len() {
                    coming.select_nth_unstable(leaving.len());
                    coming.truncate(leaving.len());
                }
                leaving.sort_unstable();
                coming.sort_unstable();
                let both = leaving.iter().zip(&coming);
                let both = both.map(|(a, b)| (a.0 + b.0, index, a.1, b.1));
                pairs.extend(both.filter(|pair| pair.0 <= self.dearest));
            }
        }
    }

    /// Exchanges two clients unless that makes a link too hot. Returns whether it exchanged them.
    fn exchange(
        &mut self,
        share: &mut Share,
        (one, other): (usize, usize),
        limits: Limits,
    ) -> bool {
        let site = |client: usize| self.context.site_of[client];
        let slot = |client: usize| usize::from(share.own.slots[client]);
        let (a, b) = (slot(one), slot(other));
        let (here, there) = (site(one), site(other));
        let cost = |site: u32, slot: usize| {
            i64::from(share.costs[slot * self.context.sites.len() + site as usize])
        };
        // An earlier exchange of the list may have moved one of the two.
        let dearer = cost(here, b) - cost(here, a) + cost(there, a) - cost(there, b);
        if a == b || dearer > self.dearest {
            return false;
        }
        self.carry(share, (here, a), -1.0);
        self.carry(share, (there, b), -1.0);
        let is_cool = |state: &Self, stream| state.stays_cool(share, stream, limits);
        // Each stream alone, then both: they may share a link.
        let mut fits = is_cool(self, (here, b));
        self.carry(share, (here, b), 1.0);
        fits = fits && is_cool(self, (there, a));
        if fits {
            self.carry(share, (there, a), 1.0);
            share.own.slots.swap(one, other);
        } else {
            self.carry(share, (here, b), -1.0);
            self.carry(share, (there, b), 1.0);
            self.carry(share, (here, a), 1.0);
        }
        fits
    }

    /// Returns whether all links of a new stream stay within their limits.
    fn stays_cool(&self, share: &Share, (site, sink): (u32, usize), limits: Limits) -> bool {
        let (here, there) = (
            self.context.sites[site as usize].vertex,
            share.routers[sink],
        );
        let units = share.own.nets.len() as f64;
        let mut fits = true;
        let ways = [(here, there), (there, here)];
        for ((loads, (from, to)), limit) in self.loads.iter().zip(ways).zip(limits) {
            let fabric = &self.context.machine.fabric;
            fabric.walk(from, to, &mut |link, part| {
                let index = link.0 as usize;
                fits &= (loads[index] + part * units) * self.scale[index] <= limit;
            });
        }
        fits
    }
}
