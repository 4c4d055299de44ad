//! RDMA between the machines of a world: the virtual fabric of the o2ib LND, in the world's time.
//!
//! The fabric decides what happens next; the world decides when. A device goes on while its machine's program stands
//! still, as hardware does.

use std::net::{IpAddr, Ipv4Addr};

use lnet_node::stack::{Landing, Payload, Rdma};
use lnet_o2ib::fabric::{Fabric, VirtualDevice};
use lnet_o2ib::{AddNiError, LndNi, NiTuning, O2ibConfig, PortState};
use lnet_types::{LndType, Nid};

use crate::stacks::plan::Plan;

/// A machine's RDMA device.
pub(crate) type Device = VirtualDevice<Payload, Landing>;

/// The RDMA network of a world.
pub(crate) struct RdmaNet {
    pub(crate) fabric: Fabric,
    /// The next move is planned.
    pub(crate) is_planned: bool,
    /// The number of faults that let nothing move.
    pub(crate) pauses: u32,
}

impl RdmaNet {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            fabric: Fabric::new(seed),
            is_planned: false,
            pauses: 0,
        }
    }

    /// Returns the o2ib LND of a machine, without interfaces; `None` if none of its NIDs is on an o2ib network.
    pub(crate) fn lnd(&self, plan: &Plan, machine: u32) -> Option<Rdma<Device>> {
        let own = addresses(plan, machine);
        if own.is_empty() {
            return None;
        }
        for address in own {
            self.fabric.add_address(machine as usize, address);
        }
        let config = O2ibConfig {
            timeout: plan.globals.lnd_timeout(),
            ..O2ibConfig::default()
        };
        Some(Rdma::new(config, self.fabric.device_for(machine as usize)))
    }

    /// Lets the ports of a machine lose their links, or have them again.
    pub(crate) fn link(&self, plan: &Plan, machine: u32, is_up: bool) {
        let state = if is_up {
            PortState::Up
        } else {
            PortState::Down
        };
        self.fabric.cut(machine as usize, !is_up);
        for address in addresses(plan, machine) {
            self.fabric.port(machine as usize, address, state);
        }
    }

    /// Returns a broken rule of the fabric.
    pub(crate) fn violation(&self) -> Option<String> {
        self.fabric.violations().into_iter().next()
    }

    /// Returns what is not at rest.
    pub(crate) fn unrest(&self) -> Option<String> {
        let left = self.fabric.registrations();
        if !self.fabric.is_idle() {
            return Some("RDMA is under way".to_owned());
        }
        (left > 0).then(|| format!("{left} registrations of memory are left"))
    }
}

/// Returns true if a NID is on a network of the o2ib LND.
pub(crate) fn is_o2ib(nid: Nid) -> bool {
    nid.net().lnd == LndType::O2IB
}

/// Adds an interface to the o2ib LND, with the incarnation of this life of the machine.
pub(crate) fn serve(
    lnd: &mut Rdma<Device>,
    ni: lnd::NiId,
    nid: Nid,
    plan: &Plan,
    life: u32,
) -> Result<(), AddNiError> {
    lnd.add_ni(LndNi {
        ni,
        nid,
        tuning: NiTuning {
            peer_credits: u8::try_from(plan.tunables.peer_credits).unwrap_or(u8::MAX),
            ..NiTuning::default()
        },
        incarnation: u64::from(life),
    })
}

fn addresses(plan: &Plan, machine: u32) -> Vec<Ipv4Addr> {
    let machine = plan.machines.get(machine as usize);
    let nids = machine.into_iter().flat_map(|machine| &machine.nids);
    let over_rdma = nids.filter(|nid| is_o2ib(**nid));
    let addresses = over_rdma.filter_map(|nid| match nid.ip()? {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    });
    addresses.collect()
}
