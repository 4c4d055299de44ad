//! Applies the fault rules to messages that leave and arrive.

use lnet_types::Time;

use crate::ground::io::{NiId, Output, RxId, TxId, Verdict};
use crate::ground::status::{DropReason, MessageStatus};
use crate::ground::timer::{Held, Timer};
use crate::traffic::Traffic;
use crate::traffic::fault::{
    Active, Beat, DelayRule, DropRule, FaultError, FaultStats, Faults, NidFilter, Sighting,
};
use crate::traffic::receive::rx::{Origin, ReceiveStage};

/// Limit of the rules of one kind. Each rule is checked for each message, so a long list slows the node down.
const RULES_MAX: usize = 1024;

impl Faults {
    /// Returns the drop rules with their counts, newest first.
    pub(crate) fn drop_rules(&self) -> impl Iterator<Item = (&DropRule, FaultStats)> {
        let active = self.drops.iter();
        active.map(|active| (&active.rule, active.stats))
    }

    /// Returns the delay rules with their counts, newest first.
    pub(crate) fn delay_rules(&self) -> impl Iterator<Item = (&DelayRule, FaultStats)> {
        let active = self.delays.iter();
        active.map(|active| (&active.rule, active.stats))
    }

    /// Returns the status with which a message being sent fails; `None` if no rule applies.
    fn failure(&mut self, sighting: &Sighting<'_>, now: Time) -> Option<MessageStatus> {
        for active in &mut self.drops {
            let on_send = active.rule.all || !active.rule.classes.is_empty();
            if !on_send || !active.rule.filter.matches(sighting) {
                continue;
            }
            active.stats.matched += 1;
            let pace = active.rule.pace;
            if active.rule.all || active.beat.strikes(pace, now, &mut self.draw) {
                active.stats.count_struck(sighting.message_type());
                let classes = &active.rule.classes;
                let drawn = self.draw.below(classes.len() as u64) as usize;
                let class = classes.get(drawn).copied();
                return Some(class.unwrap_or(MessageStatus::LocalDropped));
            }
        }
        None
    }

    /// Decides whether an arriving message is lost.
    fn is_lost(&mut self, sighting: &Sighting<'_>, now: Time) -> bool {
        for active in &mut self.drops {
            let on_receive = active.rule.all || active.rule.classes.is_empty();
            if !on_receive || !active.rule.filter.matches(sighting) {
                continue;
            }
            active.stats.matched += 1;
            let pace = active.rule.pace;
            if active.rule.all || active.beat.strikes(pace, now, &mut self.draw) {
                active.stats.count_struck(sighting.message_type());
                return true;
            }
        }
        false
    }

    /// Returns until when a message is delayed; `None` if no rule applies.
    fn delay(&mut self, sighting: &Sighting<'_>, now: Time) -> Option<Time> {
        for active in &mut self.delays {
            if !active.rule.filter.matches(sighting) {
                continue;
            }
            active.stats.matched += 1;
            if active.beat.strikes(active.rule.pace, now, &mut self.draw) {
                active.stats.count_struck(sighting.message_type());
                return Some(now + active.rule.latency);
            }
        }
        None
    }
}

fn add<R>(rules: &mut Vec<Active<R>>, rule: R) -> Result<(), FaultError> {
    if rules.len() >= RULES_MAX {
        return Err(FaultError::TooMany { max: RULES_MAX });
    }
    let active = Active {
        rule,
        beat: Beat::default(),
        stats: FaultStats::default(),
    };
    rules.insert(0, active);
    Ok(())
}

fn named(wanted: NidFilter, filter: NidFilter) -> bool {
    wanted == NidFilter::Any || wanted == filter
}

impl Traffic {
    pub(crate) fn add_drop_rule(&mut self, rule: DropRule) -> Result<(), FaultError> {
        rule.check()?;
        add(&mut self.faults.drops, rule)
    }

    pub(crate) fn add_delay_rule(&mut self, rule: DelayRule) -> Result<(), FaultError> {
        rule.check()?;
        add(&mut self.faults.delays, rule)
    }

    pub(crate) fn delete_drop_rules(&mut self, source: NidFilter, destination: NidFilter) -> usize {
        let rules = &mut self.faults.drops;
        let before = rules.len();
        rules.retain(|active| {
            let filter = &active.rule.filter;
            !named(source, filter.source) || !named(destination, filter.destination)
        });
        before - rules.len()
    }

    pub(crate) fn delete_delay_rules(
        &mut self,
        source: NidFilter,
        destination: NidFilter,
    ) -> usize {
        let rules = &mut self.faults.delays;
        let before = rules.len();
        rules.retain(|active| {
            let filter = &active.rule.filter;
            !named(source, filter.source) || !named(destination, filter.destination)
        });
        before - rules.len()
    }

    pub(crate) fn reset_fault_rules(&mut self) {
        for active in &mut self.faults.drops {
            (active.beat, active.stats) = (Beat::default(), FaultStats::default());
        }
        for active in &mut self.faults.delays {
            (active.beat, active.stats) = (Beat::default(), FaultStats::default());
        }
    }

    /// Applies the rules to a message that is about to go to the LND. Returns whether a rule holds it.
    // [FAULT-1] [FAULT-5]
    pub(in crate::traffic) fn fault_on_send(&mut self, id: TxId, now: Time) -> bool {
        if self.faults.are_none() {
            return false;
        }
        let Some(tx) = self.tx.get(id) else {
            return false;
        };
        let header = tx.header;
        let sighting = Sighting {
            header: &header,
            local: None,
        };
        if let Some(class) = self.faults.failure(&sighting, now) {
            self.faults.failing.insert(id, class);
            self.fabric
                .ground
                .timers
                .arm(now, Timer::Fault(Held::Failing(id)));
            return true;
        }
        let Some(until) = self.faults.delay(&sighting, now) else {
            return false;
        };
        self.fabric
            .ground
            .timers
            .arm(until, Timer::Fault(Held::Sending(id)));
        true
    }

    /// Applies the drop rules to a message that has arrived. Returns whether a rule drops it.
    pub(in crate::traffic) fn fault_on_receive(&mut self, origin: &Origin, now: Time) -> bool {
        if self.faults.are_none() || origin.ni == NiId::LOOPBACK {
            return false;
        }
        let sighting = Sighting {
            header: &origin.header,
            local: self.fabric.nis.get(origin.ni).map(|ni| ni.nid),
        };
        self.faults.is_lost(&sighting, now)
    }

    /// Applies the delay rules to a message for this node that has passed all checks. Returns a verdict if a rule
    /// delays it.
    // [FAULT-4]
    pub(in crate::traffic) fn delay_on_receive(
        &mut self,
        origin: &Origin,
        now: Time,
    ) -> Option<Verdict> {
        if self.faults.are_none() || origin.ni == NiId::LOOPBACK {
            return None;
        }
        let sighting = Sighting {
            header: &origin.header,
            local: None,
        };
        let until = self.faults.delay(&sighting, now)?;
        self.counters().begin_message();
        let rx = self
            .rx
            .insert(origin.clone().into_rx(ReceiveStage::HeldByFault));
        self.fabric
            .ground
            .timers
            .arm(until, Timer::Fault(Held::Receiving(rx)));
        Some(Verdict::Hold { rx })
    }

    /// Continues a message that a rule has held, or fails it.
    pub(crate) fn fault_is_over(&mut self, held: Held, now: Time) {
        match held {
            Held::Failing(tx) => {
                if let Some(status) = self.faults.failing.remove(&tx) {
                    self.sent(tx, status, now);
                }
            }
            Held::Sending(tx) => self.hand_over(tx, now),
            Held::Receiving(rx) => self.receive_delayed(rx),
        }
    }

    fn receive_delayed(&mut self, id: RxId) {
        let Some(rx) = self.rx.get(id) else { return };
        let origin = Origin {
            ni: rx.ni,
            from: rx.from,
            header: rx.header,
        };
        match self.place_of_message(&origin) {
            Ok((stage, landing)) => {
                if let Some(rx) = self.rx.get_mut(id) {
                    rx.stage = stage;
                }
                let landing = Some(landing);
                self.fabric
                    .ground
                    .outputs
                    .push_back(Output::Resume { rx: id, landing });
            }
            Err(DropReason::NoMatch) if self.hold_delayed_lazily(id, &origin) => {}
            Err(reason) => self.drop_waiting(id, reason),
        }
    }
}
