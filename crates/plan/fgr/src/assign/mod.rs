//! Makes a plan from a machine and a policy.

mod cool;
mod nearest;
mod optimal;
mod rooms;
mod slices;
mod strict;

use std::collections::BTreeMap;

use crate::machine::Machine;
use crate::plan::{Plan, PlanError, Row};
use crate::policy::{Disjoint, Options, Policy};
use crate::topology::Vertex;

/// Assigns a primary router and backups to every client for every net. Under every policy, nets of
/// metadata groups use the cheapest module. Nodes of one module on one net take turns.
///
/// # Errors
///
/// [`PlanError`]: a window policy on a fabric that is not a grid, a net whose routers are all dead,
/// parameters out of range, a machine that is too large for an exact optimum.
pub fn assign(machine: &Machine, policy: Policy, options: &Options) -> Result<Plan, PlanError> {
    let context = Context::new(machine, options)?;
    let mut plan = match policy {
        Policy::Printed { wrap } => strict::printed(&context, wrap)?,
        Policy::Strict { tie } => strict::strict(&context, tie)?,
        Policy::Nearest { by } => nearest::nearest(&context, by),
        Policy::Flat => nearest::flat(&context),
        Policy::Balanced { by } => optimal::balanced(&context, by)?,
        Policy::Sided { by, side } => optimal::sided(&context, by, side)?,
        Policy::Spread { block, efficiency } => optimal::spread(&context, block, efficiency)?,
        Policy::Slices { cut } => slices::slices(&context, cut)?,
        Policy::Cool { write, read } => cool::cool(&context, [write, read])?,
    };
    nearest::metadata(&context, &mut plan);
    plan.dead.clone_from(&options.dead);
    if !plan.is_shared() {
        plan.warn_of_few_backups(machine);
    }
    Ok(plan)
}

/// Most pairs of sites and routers of one net for an exact optimum: 256 MiB of costs.
pub(crate) const MAX_PAIRS: usize = 1 << 26;

/// What every policy needs of a machine and the options.
struct Context<'a> {
    machine: &'a Machine,
    choices: usize,
    /// The failure domain of each router. The routers of a client are in different domains.
    domains: Vec<u16>,
    /// Usable routers of each net, in order of slot.
    usable: Vec<Vec<u16>>,
    /// Clients of each usable router of each net if all router nodes are loaded equally, rounded down.
    rooms: Vec<Vec<u32>>,
    /// Usable routers of each module, with their nets.
    on_net: Vec<Vec<(u16, u16)>>,
    /// Vertices with clients.
    sites: Vec<Row>,
    site_of: Vec<u32>,
}

impl<'a> Context<'a> {
    fn new(machine: &'a Machine, options: &Options) -> Result<Self, PlanError> {
        let is_usable = |router: &u16| !options.dead.contains(router);
        let usable: Vec<Vec<u16>> = machine
            .nets
            .iter()
            .map(|net| net.routers.iter().copied().filter(is_usable).collect())
            .collect();
        if let Some(net) = usable.iter().position(Vec::is_empty) {
            return Err(PlanError::NoRouter(machine.nets[net].net.to_string()));
        }
        let of_module = |range: std::ops::Range<u16>| {
            let routers = range.filter(is_usable);
            routers
                .map(|r| (machine.routers[usize::from(r)].net, r))
                .collect()
        };
        let modules = machine.modules.iter();
        let (sites, site_of) = sites(machine);
        Ok(Self {
            machine,
            choices: usize::from(options.backups) + 1,
            domains: domains(machine, options.disjoint),
            on_net: modules
                .map(|module| of_module(module.routers.clone()))
                .collect(),
            rooms: rooms::rooms(machine, &usable),
            usable,
            sites,
            site_of,
        })
    }

    /// The nets that the policy decides on.
    fn data_nets(&self) -> impl Iterator<Item = usize> + '_ {
        self.machine.data_nets()
    }

    /// Returns an empty plan with a row for each site.
    fn plan_by_site(&self, policy: Policy, choices: usize) -> Plan {
        let (rows, row_of) = (self.sites.clone(), self.site_of.clone());
        Plan::new(self.machine, policy, choices, rows, row_of)
    }

    /// Returns the router of a module on a net. Nodes of one module on one net take turns.
    fn router_on(&self, module: u16, net: usize, turn: usize) -> Option<u16> {
        let here = &self.on_net[usize::from(module)];
        let matching = || here.iter().filter(|(on, _)| usize::from(*on) == net);
        let count = matching().count();
        matching()
            .nth(turn % count.max(1))
            .map(|&(_, router)| router)
    }

    /// Takes routers from `candidates`, best first, until there are enough. Each router is in a
    /// failure domain of its own.
    fn choose(&self, candidates: impl Iterator<Item = u16>, chosen: &mut Vec<u16>) {
        for router in candidates {
            let domain = self.domains[usize::from(router)];
            let is_new = |&other: &u16| self.domains[usize::from(other)] != domain;
            if chosen.len() < self.choices && chosen.iter().all(is_new) {
                chosen.push(router);
            }
        }
    }
}

/// Returns the vertices with clients, in ascending order, and the index of each client's vertex.
pub(crate) fn sites(machine: &Machine) -> (Vec<Row>, Vec<u32>) {
    let mut clients = vec![0_u32; machine.fabric.vertices() as usize];
    for client in &machine.clients {
        clients[client.vertex.0 as usize] += 1;
    }
    let mut number_of = vec![0; clients.len()];
    let mut sites = Vec::new();
    for ((vertex, &clients), number) in (0..).map(Vertex).zip(&clients).zip(&mut number_of) {
        if clients > 0 {
            // There are fewer vertices than MAX_VERTICES.
            *number = sites.len() as u32;
            sites.push(Row { vertex, clients });
        }
    }
    let site_of = machine
        .clients
        .iter()
        .map(|client| number_of[client.vertex.0 as usize]);
    (sites, site_of.collect())
}

/// Returns a number for what each router must not share with its backups.
fn domains(machine: &Machine, disjoint: Disjoint) -> Vec<u16> {
    let mut names: BTreeMap<(&str, u16, u16), u16> = BTreeMap::new();
    let mut domains = Vec::with_capacity(machine.routers.len());
    for (index, router) in (0_u16..).zip(&machine.routers) {
        let module = &machine.modules[usize::from(router.module)];
        let key = match disjoint {
            Disjoint::Node => ("", index, 0),
            Disjoint::Blade => ("", router.module, 0),
            Disjoint::Cabinet => (module.cabinet.as_str(), 0, 0),
            Disjoint::SubGroup => ("", module.group, module.sub_group),
        };
        // There are no more names than routers.
        let next = names.len() as u16;
        domains.push(*names.entry(key).or_insert(next));
    }
    domains
}
