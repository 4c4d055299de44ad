//! Assignments of least total length under limits on the routers' loads.

use std::collections::BTreeMap;

use crate::assign::nearest::{Best, router_costs};
use crate::assign::{Context, MAX_PAIRS};
use crate::plan::{Plan, PlanError};
use crate::policy::{Metric, Policy};
use crate::transport::{Transport, solve};

/// The shortest assignment in which router loads differ by at most one client.
pub(super) fn balanced(context: &Context<'_>, by: Metric) -> Result<Plan, PlanError> {
    let policy = Policy::Balanced { by };
    let mut plan = context.plan_by_client(policy);
    let mut solved: BTreeMap<Vec<u32>, Vec<usize>> = BTreeMap::new();
    for net in context.data_nets() {
        let key = places(context, net);
        if !solved.contains_key(&key) {
            let sinks = balanced_sinks(context, net, by, policy)?;
            solved.insert(key.clone(), sinks);
        }
        write(context, &mut plan, net, by, &solved[&key]);
    }
    Ok(plan)
}

/// Where the routers of a net are: nets with equal places have equal optima.
pub(super) fn places(context: &Context<'_>, net: usize) -> Vec<u32> {
    let vertex = |&router: &u16| context.machine.routers[usize::from(router)].vertex.0;
    context.usable[net].iter().map(vertex).collect()
}

/// The router, by slot, of each client.
pub(super) fn balanced_sinks(
    context: &Context<'_>,
    net: usize,
    by: Metric,
    policy: Policy,
) -> Result<Vec<usize>, PlanError> {
    let routers = context.usable[net].len();
    check_size(context.sites.len(), routers, policy)?;
    let mut costs = router_costs(context, net, by);
    let rows = context.sites.iter();
    let costs = rows
        .flat_map(|site| costs.row(site.vertex).to_vec())
        .collect();
    // Clients are numbered in 32 bits and routers in 16.
    let (clients, count) = (context.site_of.len() as u32, routers as u32);
    let problem = Transport {
        supplies: context.sites.iter().map(|site| site.clients).collect(),
        costs,
        base: vec![clients / count; routers],
        extra: clients % count,
    };
    // The capacities add up to the number of clients, so there is a solution.
    let flow = solve(&problem).unwrap_or_default();
    Ok(hand_out(context, flow, routers))
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

/// Gives the clients of each place, in order of number, the routers of that place in order of slot.
fn hand_out(context: &Context<'_>, mut flow: Vec<u32>, routers: usize) -> Vec<usize> {
    let take = |&site: &u32| {
        let first = site as usize * routers;
        let units = flow.get_mut(first..first + routers).unwrap_or_default();
        let slot = units.iter().position(|&units| units > 0).unwrap_or(0);
        if let Some(units) = units.get_mut(slot) {
            *units = units.saturating_sub(1);
        }
        slot
    };
    context.site_of.iter().map(take).collect()
}

/// The shortest assignment in which no router serves more of a block of consecutive clients than
/// the efficiency allows.
pub(super) fn spread(
    context: &Context<'_>,
    block: u32,
    efficiency: u32,
) -> Result<Plan, PlanError> {
    if block == 0 || efficiency == 0 || efficiency > 100 {
        return Err(PlanError::Spread);
    }
    let policy = Policy::Spread { block, efficiency };
    let mut plan = context.plan_by_client(policy);
    let mut solved: BTreeMap<Vec<u32>, Vec<usize>> = BTreeMap::new();
    for net in context.data_nets() {
        let key = places(context, net);
        if !solved.contains_key(&key) {
            check_size(
                context.site_of.len().min(block as usize),
                context.usable[net].len(),
                policy,
            )?;
            let sinks = spread_sinks(context, net, block, efficiency);
            solved.insert(key.clone(), sinks);
        }
        write(context, &mut plan, net, Metric::Cost, &solved[&key]);
    }
    Ok(plan)
}

fn spread_sinks(context: &Context<'_>, net: usize, block: u32, efficiency: u32) -> Vec<usize> {
    let routers = context.usable[net].len();
    let mut costs = router_costs(context, net, Metric::Cost);
    let mut sinks = Vec::with_capacity(context.site_of.len());
    for clients in context.site_of.chunks(block as usize) {
        let vertex = |&site: &u32| context.sites[site as usize].vertex;
        let rows = clients.iter().map(vertex);
        let costs = rows.flat_map(|vertex| costs.row(vertex).to_vec()).collect();
        // In 64 bits: a block is below 2^32 and routers below 2^16.
        let limit = (clients.len() as u64 * 100).div_ceil(routers as u64 * u64::from(efficiency));
        let problem = Transport {
            supplies: vec![1; clients.len()],
            costs,
            base: vec![u32::try_from(limit).unwrap_or(u32::MAX); routers],
            extra: 0,
        };
        // All limits together are at least the block, so there is a solution.
        let flow = solve(&problem).unwrap_or_default();
        let chosen = |units: &[u32]| units.iter().position(|&units| units > 0).unwrap_or(0);
        sinks.extend(flow.chunks(routers).map(chosen));
    }
    sinks
}

/// Writes the routers that were found, with the nearest others as backups.
pub(super) fn write(
    context: &Context<'_>,
    plan: &mut Plan,
    net: usize,
    by: Metric,
    sinks: &[usize],
) {
    let routers = &context.usable[net];
    let mut costs = router_costs(context, net, by);
    let mut by_site = Vec::with_capacity(context.sites.len());
    let mut best = Best::new(context, routers);
    for site in &context.sites {
        let mut nearest = Vec::with_capacity(context.choices);
        best.of(costs.row(site.vertex), &mut nearest);
        by_site.push(nearest);
    }
    let mut chosen = Vec::with_capacity(context.choices);
    for (row, (&sink, &site)) in sinks.iter().zip(&context.site_of).enumerate() {
        let nearest = by_site[site as usize].iter().copied();
        chosen.clear();
        context.choose(std::iter::once(routers[sink]).chain(nearest), &mut chosen);
        plan.set(row, net, &chosen);
    }
}
