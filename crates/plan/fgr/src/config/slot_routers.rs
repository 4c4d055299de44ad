//! Which routers forward between a net behind the routers and the client net of a slot.
//!
//! ```text
//!   plan: clients whose primary to o2ib201 is the router of slot 3, backups 1 or 2
//!                     │
//!                     ▼
//!   (o2ib201, slot 3): routers 3, 1, 2         each has an interface on slot 3's net,
//!                                              each is a route of servers to slot 3's net
//! ```
//!
//! A backup replaces a primary on the slot net of the primary: the client's source NID stays the
//! same, so messages that servers start still reach the client. A router
//! therefore has its own slot and the slots of the primaries that it backs up.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::scheme::Form;
use crate::machine::Machine;
use crate::plan::Plan;

/// The routers of each net and slot that a plan uses.
pub(super) struct SlotRouters {
    /// By index of net and slot: the primary first, then its backups, in descending order of
    /// clients.
    by_net: BTreeMap<(usize, usize), Vec<u16>>,
    /// The slot of each router, from 0.
    slot_of: Vec<usize>,
}

impl SlotRouters {
    pub(super) fn new(machine: &Machine, plan: &Plan, form: Form) -> Self {
        let mut by_slot = Self {
            by_net: BTreeMap::new(),
            slot_of: slots(machine, form),
        };
        let mut weights: BTreeMap<(usize, usize), BTreeMap<u16, u64>> = BTreeMap::new();
        for (row, entry) in plan.rows().iter().enumerate() {
            for net in 0..machine.nets.len() {
                let routers = plan.routers(row, net);
                let Some(slot) = by_slot.slot(routers) else {
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
            let is_own = |router: u16| by_slot.slot_of[usize::from(router)] == slot;
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
            by_slot.by_net.insert((net, slot), routers);
        }
        by_slot
    }

    /// Returns the slot on which a cell's routers are used: the slot of the primary.
    pub(super) fn slot(&self, routers: &[u16]) -> Option<usize> {
        let primary = routers.first()?;
        Some(self.slot_of[usize::from(*primary)])
    }

    /// Returns the routers of a net for a slot; empty if no client has its primary there.
    pub(super) fn routers(&self, net: usize, slot: usize) -> &[u16] {
        self.by_net.get(&(net, slot)).map_or(&[], Vec::as_slice)
    }

    /// Returns the slots on whose nets a router is: its own slot and the slots on which it is used.
    pub(super) fn slots_of(&self, router: u16) -> BTreeSet<usize> {
        let entries = self.by_net.iter();
        let used = entries.filter(|(_, routers)| routers.contains(&router));
        let used = used.map(|(&(_, slot), _)| slot);
        used.chain([self.slot_of[usize::from(router)]]).collect()
    }
}

/// The slot of each router is its position among the routers of its net. The Multi-Rail form has
/// only one slot.
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
