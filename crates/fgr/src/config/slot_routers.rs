//! Which routers lead between a net behind the routers and a slot's net of clients.
//!
//! ```text
//!   plan: clients whose primary to o2ib201 is the router of slot 3, backups 1 or 2
//!                     │
//!                     ▼
//!   way (o2ib201, slot 3): routers 3, 1, 2     each has an interface on slot 3's net,
//!                                              each is a route of servers to slot 3's net
//! ```
//!
//! A backup stands in for a primary on the primary's slot net: the client's source NID stays the same,
//! so what servers start still reaches it (planning, section 3.1). The slots of a router are therefore
//! its own one and those of the primaries that it backs up.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::scheme::Form;
use crate::machine::Machine;
use crate::plan::Plan;

/// The ways that a plan uses.
pub(super) struct Ways {
    /// By index of net and slot, the primary first, then its backups, those of most clients first.
    by_net: BTreeMap<(usize, usize), Vec<u16>>,
    /// The slot of each router, from 0.
    slot_of: Vec<usize>,
}

impl Ways {
    pub(super) fn new(machine: &Machine, plan: &Plan, form: Form) -> Self {
        let mut ways = Self {
            by_net: BTreeMap::new(),
            slot_of: slots(machine, form),
        };
        let mut weights: BTreeMap<(usize, usize), BTreeMap<u16, u64>> = BTreeMap::new();
        for (row, entry) in plan.rows().iter().enumerate() {
            for net in 0..machine.nets.len() {
                let routers = plan.routers(row, net);
                let Some(slot) = ways.slot(routers) else {
                    continue;
                };
                let weights = weights.entry((net, slot)).or_default();
                for (choice, &router) in routers.iter().enumerate() {
                    let worth = (plan.choices() - choice) as u64;
                    *weights.entry(router).or_default() += u64::from(entry.clients) * worth;
                }
            }
        }
        for ((net, slot), weights) in weights {
            let is_own = |router: u16| ways.slot_of[usize::from(router)] == slot;
            let mut routers: Vec<u16> = match form {
                Form::SlotNets => weights.keys().copied().collect(),
                Form::MultiRail => {
                    let all = machine.nets[net].routers.iter().copied();
                    all.filter(|router| !plan.dead.contains(router)).collect()
                }
            };
            let weight = |router: &u16| weights.get(router).copied().unwrap_or(0);
            routers.sort_by_key(|router| {
                (!is_own(*router), std::cmp::Reverse(weight(router)), *router)
            });
            ways.by_net.insert((net, slot), routers);
        }
        ways
    }

    /// The slot that a cell's routers are used on: that of its primary.
    pub(super) fn slot(&self, routers: &[u16]) -> Option<usize> {
        let primary = routers.first()?;
        Some(self.slot_of[usize::from(*primary)])
    }

    /// The routers of a net for a slot; none where no client has its primary there.
    pub(super) fn routers(&self, net: usize, slot: usize) -> &[u16] {
        self.by_net.get(&(net, slot)).map_or(&[], Vec::as_slice)
    }

    /// The slots on whose nets a router is: its own one and those that it is used on.
    pub(super) fn slots_of(&self, router: u16) -> BTreeSet<usize> {
        let ways = self.by_net.iter();
        let used = ways.filter(|(_, routers)| routers.contains(&router));
        let used = used.map(|(&(_, slot), _)| slot);
        used.chain([self.slot_of[usize::from(router)]]).collect()
    }
}

/// The slot of each router is its place among the routers of its net; in the Multi-Rail form there is
/// one.
fn slots(machine: &Machine, form: Form) -> Vec<usize> {
    let mut slots = vec![0; machine.routers.len()];
    if form == Form::SlotNets {
        for net in &machine.nets {
            for (slot, &router) in net.routers.iter().enumerate() {
                slots[usize::from(router)] = slot;
            }
        }
    }
    slots
}
