//! Assignments with the lowest total distance under limits on the loads of routers.

use std::collections::BTreeMap;

use rayon::prelude::*;

use crate::assign::cool::cool_ties;
use crate::assign::nearest::{Best, router_costs};
use crate::assign::{Context, MAX_PAIRS};
use crate::costs::{Costs, columns};
use crate::plan::{Part, Plan, PlanError, Row};
use crate::policy::{Metric, Policy};
use crate::topology::{Crossing, Direction, Fabric, Grid, Tie, Vertex};
use crate::transport::phases::{self, Large};
use crate::transport::{Piece, Sides, Transport, solve, solve_near};

/// Most pairs of places and routers for which links decide between assignments of the same distance. Frontier has a third,
/// which takes three seconds.
const COOL_PAIRS: usize = 1 << 20;

/// Nets whose routers have the same vertices slot by slot, and the slot of each client.
#[derive(Clone)]
pub(super) struct Share {
    pub(super) nets: Vec<usize>,
    pub(super) slots: Vec<u16>,
}

/// Returns the assignment with the lowest total distance in which router nodes are loaded equally: the
/// loads of a net's routers differ by at most one client, unless some of them also serve other nets.
pub(super) fn balanced(context: &Context<'_>, by: Metric) -> Result<Plan, PlanError> {
    let policy = Policy::Balanced { by };
    let shares = balanced_and_cool(context, by, policy)?;
    Ok(plan(context, &shares, by, policy))
}

/// Returns the balanced assignment of each set of nets, in a dragonfly with links as cool as its total distance allows.
pub(super) fn balanced_and_cool(
    context: &Context<'_>,
    by: Metric,
    policy: Policy,
) -> Result<Vec<Share>, PlanError> {
    let shares = balanced_shares(context, by, policy)?;
    let pairs = |share: &Share| context.sites.len() * context.usable[share.nets[0]].len();
    let is_small = shares.iter().map(pairs).sum::<usize>() <= COOL_PAIRS;
    if is_small && matches!(context.machine.fabric, Fabric::Dragonfly(..)) {
        return Ok(cool_ties(context, shares, by));
    }
    Ok(shares)
}

/// Returns the balanced assignment of each set of nets. Nets of one group start from the rents of
/// the previous nets of the group.
fn balanced_shares(
    context: &Context<'_>,
    by: Metric,
    policy: Policy,
) -> Result<Vec<Share>, PlanError> {
    let mut by_group: BTreeMap<u16, Vec<Vec<usize>>> = BTreeMap::new();
    for nets in nets_by_places(context) {
        let routers = context.usable[nets[0]].len();
        if !is_large(policy, context.sites.len(), routers) {
            check_size(context.sites.len(), routers, policy)?;
        }
        by_group
            .entry(context.machine.nets[nets[0]].group)
            .or_default()
            .push(nets);
    }
    let places = Places::new(context);
    let groups: Vec<Vec<Vec<usize>>> = by_group.into_values().collect();
    let shares = groups.into_par_iter().flat_map_iter(|group| {
        let mut rents = Vec::new();
        let of = |nets: Vec<usize>| {
            let routers = context.usable[nets[0]].len();
            let slots = if is_large(policy, places.vertices.len(), routers) {
                large_slots(context, nets[0], by, &places).ok_or(PlanError::TooLarge {
                    policy: policy.name(),
                    places: places.vertices.len(),
                    routers,
                })?
            } else {
                balanced_slots(context, nets[0], by, (&places, &mut rents))
            };
            Ok(Share { nets, slots })
        };
        group.into_iter().map(of).collect::<Vec<_>>()
    });
    shares.collect()
}

/// Returns whether the optimum is calculated without a table of costs.
fn is_large(policy: Policy, places: usize, routers: usize) -> bool {
    /// Every pair is examined in each of some tens of phases, which takes minutes at most.
    const LARGE_MAX: usize = 1 << 30;
    let pairs = places.saturating_mul(routers);
    matches!(policy, Policy::Balanced { .. }) && pairs > MAX_PAIRS && pairs <= LARGE_MAX
}

/// Does the same as [`balanced_slots`] for more pairs of sites and routers than fit in a table.
fn large_slots(context: &Context<'_>, net: usize, by: Metric, places: &Places) -> Option<Vec<u16>> {
    let supplies: Vec<u32> = context.sites.iter().map(|site| site.clients).collect();
    let base = &context.rooms[net];
    let problem = Large {
        supplies: &supplies,
        base,
        extra: extra(context, net),
    };
    let costs = router_costs(context, net, by);
    let rows = |sites: std::ops::Range<usize>, visit: &mut dyn FnMut(usize, &[u32])| {
        let mut costs = costs.clone();
        for site in sites {
            visit(site, costs.row(places.vertices[site]));
        }
    };
    Some(places.hand_out(&phases::solve(&problem, &rows)?))
}

/// Returns sets of nets whose routers have the same vertices and rooms and share failure domains in the
/// same way, slot by slot. The best assignment for one net of a set is the best for all of the set.
pub(super) fn nets_by_places(context: &Context<'_>) -> Vec<Vec<usize>> {
    let mut found: BTreeMap<Vec<(u32, usize, u32)>, Vec<usize>> = BTreeMap::new();
    for net in context.data_nets() {
        let domains = context.usable[net]
            .iter()
            .map(|&r| context.domains[usize::from(r)]);
        let domains: Vec<u16> = domains.collect();
        let place = |(slot, &router): (usize, &u16)| {
            let vertex = context.machine.routers[usize::from(router)].vertex;
            let first = domains.iter().position(|&domain| domain == domains[slot]);
            (vertex.0, first.unwrap_or(slot), context.rooms[net][slot])
        };
        let key = context.usable[net].iter().enumerate().map(place).collect();
        found.entry(key).or_default().push(net);
    }
    let mut nets: Vec<Vec<usize>> = found.into_values().collect();
    nets.sort_unstable();
    nets
}

fn balanced_slots(
    context: &Context<'_>,
    net: usize,
    by: Metric,
    (places, rents): (&Places, &mut Vec<i32>),
) -> Vec<u16> {
    let problem = equal_loads(context, net, by, &places.vertices);
    // The capacities add up to the number of clients, so a solution exists.
    let pieces = solve_near(&problem, rents);
    debug_assert!(pieces.is_some(), "no way to share clients equally");
    places.hand_out(&pieces.unwrap_or_default())
}

/// The problem whose solution gives each client a router, with equal loads of router nodes.
fn equal_loads(context: &Context<'_>, net: usize, by: Metric, vertices: &[Vertex]) -> Transport {
    let routers = router_vertices(context, net);
    let fabric = &context.machine.fabric;
    let mut costs = columns(fabric, by, &routers, vertices);
    if !matches!(fabric, Fabric::Grid(..)) {
        // Clients are numbered in 32 bits.
        let clients = context.site_of.len() as u32;
        break_ties(&mut costs, (&routers, vertices), clients);
    }
    Transport {
        supplies: context.sites.iter().map(|site| site.clients).collect(),
        costs,
        base: context.rooms[net].clone(),
        extra: extra(context, net),
        sides: None,
    }
}

/// Clients beyond the rooms of a net's routers, fewer than routers.
fn extra(context: &Context<'_>, net: usize) -> u32 {
    let rooms: u32 = context.rooms[net].iter().sum();
    // Clients are numbered in 32 bits, and no rooms exceed them.
    (context.site_of.len() as u32).saturating_sub(rooms)
}

/// Scales the costs and adds a number below [`TIES`] to each, which spreads clients over routers at
/// the same distance. Otherwise all clients of a group of a dragonfly would use the links to the group
/// of one router. The sum of what is added is below one unit of cost, so that the total distance
/// stays the lowest. Costs that would not fit stay as they are.
fn break_ties(costs: &mut [u32], (routers, sites): (&[Vertex], &[Vertex]), clients: u32) {
    /// Numbers that are added: enough to tell the routers of a net apart.
    const TIES: u64 = 64;
    /// Sums of two costs stay within 31 bits.
    const COST_MAX: u64 = 1 << 30;
    let scale = u64::from(clients) * TIES;
    let highest = costs.iter().copied().max().unwrap_or(0);
    if (u64::from(highest) + 1) * scale > COST_MAX {
        return;
    }
    let pairs = routers
        .iter()
        .flat_map(|router| sites.iter().map(move |site| (router, site)));
    for (cost, (router, site)) in costs.iter_mut().zip(pairs) {
        let tie = mixed(u64::from(router.0) << 32 | u64::from(site.0)) % TIES;
        // Checked above against 2^30.
        *cost = (u64::from(*cost) * scale + tie) as u32;
    }
}

/// Mixes the bits of a number (the finalizer of SplitMix64).
const fn mixed(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ number >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ number >> 31
}

fn router_vertices(context: &Context<'_>, net: usize) -> Vec<Vertex> {
    let vertex = |&router: &u16| context.machine.routers[usize::from(router)].vertex;
    context.usable[net].iter().map(vertex).collect()
}

/// Returns the assignment with the lowest total distance, with equal loads, in which no router
/// serves more than `side` clients on either side of the router in the first dimension. Messages
/// from a router cross that dimension first, so `side` limits the hottest link when clients read.
/// Clients half-way round a ring whose messages take both directions count for neither side.
pub(super) fn sided(context: &Context<'_>, by: Metric, side: u32) -> Result<Plan, PlanError> {
    let policy = Policy::Sided { by, side };
    let Fabric::Grid(grid, tie) = &context.machine.fabric else {
        return Err(PlanError::NeedsGrid("balanced --side"));
    };
    let places = Places::new(context);
    let nets = nets_by_places(context);
    let shares = nets.into_par_iter().map(|nets| {
        check_size(context.sites.len(), context.usable[nets[0]].len(), policy)?;
        let mut problem = equal_loads(context, nets[0], by, &places.vertices);
        let routers = router_vertices(context, nets[0]);
        problem.sides = Some(Sides {
            of: sides((grid, *tie), &routers, &places.vertices),
            limit: side,
        });
        let pieces = solve(&problem).ok_or(PlanError::Side(side))?;
        let slots = places.hand_out(&pieces);
        Ok(Share { nets, slots })
    });
    let shares: Result<Vec<Share>, PlanError> = shares.collect();
    Ok(plan(context, &shares?, by, policy))
}

/// Returns the side of each router on which each site lies.
fn sides((grid, tie): (&Grid, Tie), routers: &[Vertex], sites: &[Vertex]) -> Vec<u8> {
    let pairs = routers
        .iter()
        .flat_map(|&router| sites.iter().map(move |&site| (router, site)));
    let side = |(router, site)| {
        let [from, to] = [router, site].map(|vertex| grid.position(vertex, 0));
        match grid.crossing(0, from, to, tie) {
            Crossing::Same | Crossing::Both => 0,
            Crossing::One(Direction::Plus) => 1,
            Crossing::One(Direction::Minus) => 2,
        }
    };
    pairs.map(side).collect()
}

fn check_size(places: usize, routers: usize, policy: Policy) -> Result<(), PlanError> {
    if places.saturating_mul(routers) > MAX_PAIRS {
        let policy = policy.name();
        return Err(PlanError::TooLarge {
            policy,
            places,
            routers,
        });
    }
    Ok(())
}

/// The sites with their clients.
struct Places {
    vertices: Vec<Vertex>,
    /// The clients of one site after the other; those of one site in order of number.
    clients: Vec<u32>,
}

impl Places {
    fn new(context: &Context<'_>) -> Self {
        let mut ends = Vec::with_capacity(context.sites.len());
        let mut sum = 0;
        for site in &context.sites {
            ends.push(sum);
            sum += site.clients;
        }
        let mut clients = vec![0; context.site_of.len()];
        for (client, &site) in (0_u32..).zip(&context.site_of) {
            let end = &mut ends[site as usize];
            clients[*end as usize] = client;
            *end += 1;
        }
        Self {
            vertices: context.sites.iter().map(|site| site.vertex).collect(),
            clients,
        }
    }

    /// Assigns the routers of each site, in order of slot, to the clients of the site, in order of
    /// number.
    fn hand_out(&self, pieces: &[Piece]) -> Vec<u16> {
        // Routers are numbered in 16 bits.
        let slot = |piece: &Piece| std::iter::repeat_n(piece.sink as u16, piece.units as usize);
        let mut slots = vec![0; self.clients.len()];
        for (&client, slot) in self.clients.iter().zip(pieces.iter().flat_map(slot)) {
            slots[client as usize] = slot;
        }
        slots
    }
}

/// Returns the assignment with the lowest total distance in which no router serves more of a block
/// of consecutive clients than the efficiency allows.
pub(super) fn spread(
    context: &Context<'_>,
    block: u32,
    efficiency: u32,
) -> Result<Plan, PlanError> {
    if block == 0 || efficiency == 0 || efficiency > 100 {
        return Err(PlanError::Spread);
    }
    let policy = Policy::Spread { block, efficiency };
    let mut shares = Vec::new();
    for nets in nets_by_places(context) {
        let routers = context.usable[nets[0]].len();
        check_size(context.site_of.len().min(block as usize), routers, policy)?;
        let slots = spread_slots(context, nets[0], block, efficiency);
        shares.push(Share { nets, slots });
    }
    Ok(plan(context, &shares, Metric::Cost, policy))
}

fn spread_slots(context: &Context<'_>, net: usize, block: u32, efficiency: u32) -> Vec<u16> {
    let routers = context.usable[net].len();
    let costs = router_costs(context, net, Metric::Cost);
    let blocks = context.site_of.par_chunks(block as usize);
    let slots = blocks.map_init(
        || costs.clone(),
        |costs, sites| spread_block(context, sites, costs, (routers, efficiency)),
    );
    slots.collect::<Vec<_>>().concat()
}

/// Returns the slots of the clients of one block from their sites.
fn spread_block(
    context: &Context<'_>,
    sites: &[u32],
    costs: &mut Costs<'_>,
    (routers, efficiency): (usize, u32),
) -> Vec<u16> {
    let mut columns = vec![0; sites.len() * routers];
    for (client, &site) in sites.iter().enumerate() {
        let row = costs.row(context.sites[site as usize].vertex);
        for (router, &cost) in row.iter().enumerate() {
            columns[router * sites.len() + client] = cost;
        }
    }
    // Calculated in 64 bits: a block is below 2^32, the number of routers below 2^16.
    let limit = (sites.len() as u64 * 100).div_ceil(routers as u64 * u64::from(efficiency));
    let problem = Transport {
        supplies: vec![1; sites.len()],
        costs: columns,
        base: vec![u32::try_from(limit).unwrap_or(u32::MAX); routers],
        extra: 0,
        sides: None,
    };
    // The limits add up to at least the block, so a solution exists. Each client is one unit and
    // has exactly one piece.
    let pieces = solve(&problem);
    debug_assert!(pieces.is_some(), "no way to share a block");
    let pieces = pieces.unwrap_or_default();
    pieces.iter().map(|piece| piece.sink as u16).collect()
}

/// Makes the plan of these shares, with the nearest other routers as backups. Clients at one vertex
/// with the same routers share a row.
pub(super) fn plan(context: &Context<'_>, shares: &[Share], by: Metric, policy: Policy) -> Plan {
    let Rows { first, row_of } = Rows::new(context, shares);
    let of_row = |&(client, clients): &(usize, u32)| Row {
        vertex: context.sites[context.site_of[client] as usize].vertex,
        clients,
    };
    let entries = first.iter().map(of_row).collect();
    let mut plan = Plan::new(context.machine, policy, context.choices, entries, row_of);
    let costs = shares
        .iter()
        .map(|share| router_costs(context, share.nets[0], by));
    let costs: Vec<Costs<'_>> = costs.collect();
    plan.fill_in_parts().for_each(|mut part| {
        for (share, costs) in shares.iter().zip(&costs) {
            let first = first[part.first..].iter().map(|&(client, _)| client);
            choose(context, share, costs, first, &mut part);
        }
    });
    plan
}

/// Writes the routers of a share for some rows, given the first client of each row: the assigned
/// router, then the nearest routers of other domains.
fn choose(
    context: &Context<'_>,
    share: &Share,
    costs: &Costs<'_>,
    clients: impl Iterator<Item = usize>,
    part: &mut Part<'_>,
) {
    let rows = (0..part.rows.len()).zip(clients);
    if context.choices == 1 {
        for (row, client) in rows {
            let slot = usize::from(share.slots[client]);
            for &net in &share.nets {
                part.set(row, net, &context.usable[net][slot..=slot]);
            }
        }
        return;
    }
    let routers = &context.usable[share.nets[0]];
    let domain = |slot: u16| context.domains[usize::from(routers[usize::from(slot)])];
    let mut best = Best::new(context, routers, costs);
    let (mut slots, mut chosen) = (Vec::new(), Vec::with_capacity(context.choices));
    for (row, client) in rows {
        let slot = share.slots[client];
        slots.clear();
        slots.push(slot);
        // At most one of the nearest routers is in the domain of the assigned router.
        let others = best.slots(part.rows[row].vertex);
        let others = others.filter(|&other| domain(other) != domain(slot));
        slots.extend(others.take(context.choices - 1));
        for &net in &share.nets {
            let usable = &context.usable[net];
            chosen.clear();
            chosen.extend(slots.iter().map(|&slot| usable[usize::from(slot)]));
            part.set(row, net, &chosen);
        }
    }
}

/// Clients at one vertex with the same slots in every share.
struct Rows {
    /// First client and number of clients of each row.
    first: Vec<(usize, u32)>,
    row_of: Vec<u32>,
}

impl Rows {
    fn new(context: &Context<'_>, shares: &[Share]) -> Self {
        let mut rows = Self {
            first: Vec::with_capacity(context.sites.len()),
            row_of: Vec::with_capacity(context.site_of.len()),
        };
        // The last row of each site, and the previous row of the same site for each row.
        let mut last = vec![u32::MAX; context.sites.len()];
        let mut previous: Vec<u32> = Vec::with_capacity(context.sites.len());
        for (client, &site) in context.site_of.iter().enumerate() {
            let mut row = last[site as usize];
            while let Some(&(other, _)) = rows.first.get(row as usize) {
                if shares
                    .iter()
                    .all(|share| share.slots[other] == share.slots[client])
                {
                    break;
                }
                row = previous[row as usize];
            }
            if row == u32::MAX {
                // There are no more rows than clients.
                row = rows.first.len() as u32;
                rows.first.push((client, 0));
                previous.push(std::mem::replace(&mut last[site as usize], row));
            }
            rows.first[row as usize].1 += 1;
            rows.row_of.push(row);
        }
        rows
    }
}
