//! Checks that no counter decreases, and that no counter reports an error of a core.

use lnet_core::{Counters, DropReason, MessageStatus};

/// A node's counters at the last check.
#[derive(Clone, Debug, Default)]
pub(super) struct Counted(Option<Box<Counters>>);

impl Counted {
    /// Compares the counters with those of the last check, and stores them.
    pub(super) fn check(&mut self, now: &Counters) -> Result<(), String> {
        if let Some(what) = now.last_broken_invariant {
            return Err(format!("a core has broken an invariant of its own: {what}"));
        }
        let before = self.0.replace(Box::new(now.clone()));
        let Some(before) = before else {
            return Ok(());
        };
        let pairs = rising(&before).into_iter().zip(rising(now));
        for ((name, was), (_, is)) in pairs {
            fell(name, was, is)?;
        }
        for reason in DropReason::ALL {
            fell(
                "a drop counter",
                before.dropped(reason),
                now.dropped(reason),
            )?;
        }
        for status in MessageStatus::ALL {
            fell("a status counter", before.ended(status), now.ended(status))?;
        }
        Ok(())
    }
}

fn fell(name: &str, was: u64, is: u64) -> Result<(), String> {
    if is < was {
        return Err(format!("{name} fell from {was} to {is}"));
    }
    Ok(())
}

/// Returns all counters that never decrease. `msgs_alloc` and `rst_alloc` are levels and are not included.
fn rising(counters: &Counters) -> [(&'static str, u64); 18] {
    let c = counters;
    [
        ("msgs_max", c.msgs_max),
        ("errors", c.errors),
        ("send_count", c.send_count),
        ("send_length", c.send_length),
        ("recv_count", c.recv_count),
        ("recv_length", c.recv_length),
        ("route_count", c.route_count),
        ("route_length", c.route_length),
        ("drop_count", c.drop_count),
        ("drop_length", c.drop_length),
        ("response_timeout_count", c.response_timeout_count),
        ("resend_count", c.resend_count),
        ("successful_resends", c.successful_resends),
        ("failed_resends", c.failed_resends),
        ("late_count", c.late_count),
        ("late_nanoseconds", c.late_nanoseconds),
        ("stale_answers", c.stale_answers),
        ("refused", c.refused),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_falls_is_found() {
        let mut counted = Counted::default();
        let mut counters = Counters::default();
        counters.resend_count = 2;
        assert_eq!(counted.check(&counters), Ok(()));
        counters.resend_count = 3;
        assert_eq!(counted.check(&counters), Ok(()));
        counters.resend_count = 1;
        let fell = Err("resend_count fell from 3 to 1".to_owned());
        assert_eq!(counted.check(&counters), fell);
    }
}
