//! The faults of a world: how each begins, strikes and ends.

use std::net::IpAddr;

use lnet_types::{Net, Nid};

use super::World;
use crate::stacks::plan::{Fault, Trouble};

impl World {
    pub(super) fn fault_begins(&mut self, index: u32) {
        let Some(fault) = self.plan.faults.get(index as usize).copied() else {
            return;
        };
        self.note(format_args!("begins: {fault}"));
        let at = fault.machine as usize;
        if let Trouble::Kill | Trouble::PowerOff = fault.what {
            return self.fall(fault);
        }
        if fault.what == Trouble::Standstill
            && let Some(machine) = self.machines.get_mut(at)
        {
            machine.stands += 1;
        }
        self.rdma.pauses += u32::from(fault.what == Trouble::Pause);
        let address = self.cut_address(&fault);
        let mut fabric = self.fabric.lock();
        if let Trouble::Reset(one_in) = fault.what {
            fabric.reset_some(fault.machine, one_in.into());
            self.rdma.fabric.break_some(at, one_in.into());
        }
        if let Some(plug) = fabric.plugs.get_mut(at) {
            plug.cuts += u32::from(fault.what == Trouble::Cut);
            plug.rejects += u32::from(fault.what == Trouble::Reject);
            if plug.cuts > 0 {
                self.rdma.fabric.cut(at, true);
            }
            match fault.what {
                Trouble::PortDown => {
                    plug.ports_down += 1;
                    self.rdma.link(&self.plan, fault.machine, false);
                }
                Trouble::Slow(times) => plug.slow = plug.slow.max(times),
                Trouble::CutLink(_) => plug.cut_links.extend(address),
                Trouble::ResetAt(end, byte) => plug.breaks = Some((end, byte)),
                _ => {}
            }
            if let Some(end) = fault.what.strikes() {
                plug.trap = Some((end, index));
            }
        }
    }

    /// Returns the address of a machine on the net whose link a fault cuts.
    fn cut_address(&self, fault: &Fault) -> Option<IpAddr> {
        let Trouble::CutLink(net) = fault.what else {
            return None;
        };
        let machine = self.plan.machines.get(fault.machine as usize)?;
        let on_net = |nid: &&Nid| nid.net() == Net::tcp(net);
        machine.nids.iter().find(on_net)?.ip()
    }

    /// Starts a fault that a handshake has triggered.
    pub(super) fn falls(&mut self, index: u32) {
        let fault = self.plan.faults.get(index as usize).copied();
        let now = self.now();
        if let Some(fault) = fault.filter(|fault| fault.until > now) {
            self.note(format_args!("in a handshake: {fault}"));
            self.fell.insert(index);
            self.fall(fault);
        }
    }

    /// Kills a program, or switches off the power of its machine.
    fn fall(&mut self, fault: Fault) {
        let at = fault.machine as usize;
        if fault.what.cuts_power() {
            let mut fabric = self.fabric.lock();
            fabric.power_off(fault.machine);
            if let Some(plug) = fabric.plugs.get_mut(at) {
                plug.off += 1;
            }
            self.rdma.fabric.cut(at, true);
        }
        self.rdma.fabric.vanish(at, !fault.what.cuts_power());
        if let Some(machine) = self.machines.get_mut(at) {
            machine.off += 1;
        }
        self.switch_off(fault.machine);
    }

    pub(super) fn fault_ends(&mut self, index: u32) {
        let Some(fault) = self.plan.faults.get(index as usize).copied() else {
            return;
        };
        self.note(format_args!("ends: {fault}"));
        self.faults_left -= 1;
        self.calm_since = self.now();
        self.rdma.pauses -= u32::from(fault.what == Trouble::Pause);
        let at = fault.machine as usize;
        let fell =
            matches!(fault.what, Trouble::Kill | Trouble::PowerOff) || self.fell.remove(&index);
        let address = self.cut_address(&fault);
        {
            let mut fabric = self.fabric.lock();
            if let Some(plug) = fabric.plugs.get_mut(at) {
                plug.cuts -= u32::from(fault.what == Trouble::Cut);
                plug.rejects -= u32::from(fault.what == Trouble::Reject);
                plug.off -= u32::from(fell && fault.what.cuts_power());
                match fault.what {
                    Trouble::PortDown => {
                        plug.ports_down -= 1;
                        if plug.ports_down == 0 {
                            self.rdma.link(&self.plan, fault.machine, true);
                        }
                    }
                    Trouble::Slow(_) => plug.slow = 1,
                    Trouble::ResetAt(..) => plug.breaks = None,
                    _ => {}
                }
                plug.trap.take_if(|(_, trap)| *trap == index);
                let cut = plug.cut_links.iter().position(|cut| Some(*cut) == address);
                if let Some(cut) = cut {
                    plug.cut_links.swap_remove(cut);
                }
                let is_cut = plug.cuts > 0 || plug.off > 0 || plug.ports_down > 0;
                self.rdma.fabric.cut(at, is_cut);
            }
            if let Trouble::Cut | Trouble::CutLink(_) = fault.what {
                fabric.heal();
            }
        }
        let Some(machine) = self.machines.get_mut(at) else {
            return;
        };
        match fault.what {
            Trouble::Standstill => {
                machine.stands -= 1;
                let now = self.now();
                self.fabric.lock().wake(fault.machine, now + 1);
            }
            _ if fell => {
                machine.off -= 1;
                if machine.off == 0 {
                    self.boot(fault.machine);
                }
            }
            _ => {}
        }
    }
}
