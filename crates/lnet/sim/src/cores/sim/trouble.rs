//! The beginning and the end of faults.

use lnet_core::DropRule;
use lnet_types::Nid;

use super::Sim;
use crate::cores::lnd::LndEvent;
use crate::cores::plan::{PortId, Trouble};

impl Sim {
    pub(super) fn fault_begins(&mut self, index: u32) {
        let plan = std::rc::Rc::clone(&self.plan);
        let Some(fault) = plan.faults.get(index as usize) else {
            return;
        };
        self.trace
            .fault(self.now, &plan.world, "begins", &fault.what);
        let number = index as usize;
        match &fault.what {
            Trouble::Link(link) => drop(self.fabric.begin_down(*link, self.now)),
            Trouble::Port(port) => self.port_down(*port),
            Trouble::Device(port) => self.device_fails(*port),
            Trouble::Interrupt(port) => self.tell_and_settle(*port, LndEvent::Interrupted),
            Trouble::Crash(node) => self.crash(*node),
            Trouble::Partition(nodes) => {
                let mut side = vec![false; self.nodes.len()];
                for &node in nodes {
                    if let Some(inside) = side.get_mut(node as usize) {
                        *inside = true;
                    }
                }
                self.partitions.push((number, side));
            }
            Trouble::SlowLink(link, by) => self.fabric.begin_slow(*link, *by),
            Trouble::SlowPort(port, by) => {
                if let Some(link) = self.link_of(*port) {
                    self.fabric.begin_slow(link, *by);
                }
            }
            Trouble::Loss(port, types, rate) => {
                if let Some(link) = self.link_of(*port) {
                    self.fabric.begin_loss(link, number, *types, *rate);
                }
            }
            Trouble::LostCompletions(port) => {
                if let Some(at) = self.port_mut(*port) {
                    at.completion_lost += 1;
                }
            }
            Trouble::Completion(port, error) => {
                if let Some(at) = self.port_mut(*port) {
                    at.completion_error.push((number, *error));
                }
            }
            Trouble::Reject(node) => {
                if let Some(node) = self.nodes.get_mut(*node as usize) {
                    node.rejects += 1;
                }
            }
            Trouble::Rule(node, rule) => self.rule_begins(*node, rule),
            Trouble::Lie(port, class) => {
                if let Some(at) = self.port_mut(*port) {
                    at.lies.push((number, *class));
                }
            }
        }
    }

    pub(super) fn fault_ends(&mut self, index: u32) {
        let plan = std::rc::Rc::clone(&self.plan);
        let Some(fault) = plan.faults.get(index as usize) else {
            return;
        };
        self.trace.fault(self.now, &plan.world, "ends", &fault.what);
        self.faults_left = self.faults_left.saturating_sub(1);
        self.calm_since = self.now;
        let number = index as usize;
        match &fault.what {
            Trouble::Link(link) => drop(self.fabric.end_down(*link)),
            Trouble::Port(port) => self.port_up(*port),
            Trouble::Device(port) => self.device_works(*port),
            Trouble::Interrupt(_) => {}
            Trouble::Crash(node) => self.restart(*node),
            Trouble::Partition(_) => self.partitions.retain(|(of, _)| *of != number),
            Trouble::SlowLink(link, by) => self.fabric.end_slow(*link, *by, self.now),
            Trouble::SlowPort(port, by) => {
                if let Some(link) = self.link_of(*port) {
                    self.fabric.end_slow(link, *by, self.now);
                }
            }
            Trouble::Loss(port, ..) => {
                if let Some(link) = self.link_of(*port) {
                    self.fabric.end_loss(link, number);
                }
            }
            Trouble::LostCompletions(port) => {
                if let Some(at) = self.port_mut(*port) {
                    at.completion_lost = at.completion_lost.saturating_sub(1);
                }
            }
            Trouble::Completion(port, _) => {
                if let Some(at) = self.port_mut(*port) {
                    at.completion_error.retain(|(of, _)| *of != number);
                }
            }
            Trouble::Reject(node) => {
                if let Some(node) = self.nodes.get_mut(*node as usize) {
                    node.rejects = node.rejects.saturating_sub(1);
                }
            }
            Trouble::Rule(node, rule) => self.rule_ends(*node, rule),
            Trouble::Lie(port, _) => {
                if let Some(at) = self.port_mut(*port) {
                    at.lies.retain(|(of, _)| *of != number);
                }
            }
        }
    }

    fn tell_and_settle(&mut self, port: PortId, event: LndEvent) {
        self.tell(port, event);
        self.settle(port.node);
    }

    fn link_of(&self, port: PortId) -> Option<u32> {
        self.port(port).map(|port| port.plug.link)
    }

    fn port_down(&mut self, port: PortId) {
        let now = self.now;
        if let Some(link) = self.link_of(port)
            && self.fabric.begin_down(link, now)
        {
            if let Some(at) = self.port_mut(port) {
                at.link_up = false;
            }
            self.tell_and_settle(port, LndEvent::PortDown);
        }
    }

    fn port_up(&mut self, port: PortId) {
        if let Some(link) = self.link_of(port)
            && self.fabric.end_down(link)
        {
            if let Some(at) = self.port_mut(port) {
                at.link_up = true;
            }
            self.tell_and_settle(port, LndEvent::PortUp);
        }
    }

    fn device_fails(&mut self, port: PortId) {
        let Some(at) = self.port_mut(port) else {
            return;
        };
        at.device_faults += 1;
        if at.device_faults > 1 {
            return;
        }
        self.drop_all_held(port);
        self.tell_and_settle(port, LndEvent::DeviceFatal);
    }

    fn device_works(&mut self, port: PortId) {
        let Some(at) = self.port_mut(port) else {
            return;
        };
        at.device_faults = at.device_faults.saturating_sub(1);
        if at.device_faults == 0 {
            self.tell_and_settle(port, LndEvent::DeviceReady);
        }
    }

    fn drop_all_held(&mut self, port: PortId) {
        let Some(node) = self.nodes.get(port.node as usize) else {
            return;
        };
        let on_port = node.held.keys().filter(|(ni, _)| *ni == port.ni);
        let senders: Vec<Nid> = on_port.map(|&(_, nid)| nid).collect();
        for sender in senders {
            self.drop_held(port, sender);
        }
    }

    fn crash(&mut self, index: u32) {
        let Some(node) = self.nodes.get_mut(index as usize) else {
            return;
        };
        node.crashes += 1;
        if let Some(core) = node.core.take() {
            self.tally.add_counters(&core);
        }
        node.held.clear();
        node.router_bytes.clear();
        node.cancellable.clear();
        node.sink = None;
        let plan = std::rc::Rc::clone(&self.plan);
        self.checker.crashed(index, plan.operations_from(index));
    }

    fn restart(&mut self, index: u32) {
        let Some(node) = self.nodes.get_mut(index as usize) else {
            return;
        };
        node.crashes = node.crashes.saturating_sub(1);
        if node.crashes == 0 && node.core.is_none() {
            self.boot(index);
        }
    }

    fn rule_begins(&mut self, node: u32, rule: &DropRule) {
        let core = self
            .nodes
            .get_mut(node as usize)
            .and_then(|node| node.core.as_deref_mut());
        if let Some(core) = core {
            // Scenarios and draws make only well-formed rules.
            let _checked = core.add_drop_rule(rule.clone());
        }
        self.settle(node);
    }

    fn rule_ends(&mut self, node: u32, rule: &DropRule) {
        let core = self
            .nodes
            .get_mut(node as usize)
            .and_then(|node| node.core.as_deref_mut());
        if let Some(core) = core {
            core.delete_drop_rules(rule.filter.source, rule.filter.destination);
        }
        self.settle(node);
    }
}
