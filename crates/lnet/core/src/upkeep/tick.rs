//! Timers that are due.

use lnet_types::Time;

use crate::ground::timer::Timer;
use crate::upkeep::Upkeep;

impl Upkeep {
    pub(crate) fn tick(&mut self, now: Time) {
        self.note_time(now);
        while let Some(timer) = self.traffic.fabric.ground.timers.pop(now) {
            match timer {
                Timer::Response(md) => self.traffic.response_overdue(md, now),
                Timer::Parked(tx) => self.traffic.queued_too_long(tx, now),
                Timer::Queue(queue) => self.traffic.check_queue(queue, now),
                Timer::Check(gateway) => self.check_gateway(gateway, now),
                Timer::Quiet(net) => self.net_is_quiet(net, now),
                Timer::Resend => self.traffic.resend_all(now),
                Timer::Routing => self.routing_due(now),
                Timer::Recover(target) => self.recover(target, now),
                Timer::Fault(held) => self.traffic.fault_is_over(held, now),
                Timer::Push(from) => self.push_step(from, now),
            }
            self.settle();
        }
    }
}
