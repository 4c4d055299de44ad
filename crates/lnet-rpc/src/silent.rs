//! The gateway that kept a message to itself, which what is sent next leaves alone for a while.
//!
//! LNet chooses gateways without memory of single calls, and judges one by many messages. Here it is known
//! sooner: an attempt that nobody answered went through it. Without this every call would find out anew,
//! and each would lose an attempt's time.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lnet_node::SendHints;
use lnet_types::{Nid, Time};

/// How long a gateway is left alone. When it answers again, LNet knows that by itself.
const WHILE: Duration = Duration::from_secs(30);

/// The last gateway that was silent, for all calls of a client or of a server.
#[derive(Debug, Default)]
pub(crate) struct SilentGateway(Mutex<Option<(Nid, Time)>>);

impl SilentGateway {
    /// A message to `target` whose next hop was `hop` came to nothing.
    pub(crate) fn note(&self, hop: Nid, target: Nid, now: Time) {
        // Without a gateway the next hop is the target.
        if hop != target {
            *self.last() = Some((hop, now));
        }
    }

    /// The hints for a message that is sent now.
    pub(crate) fn hints(&self, now: Time) -> SendHints {
        let recent = self
            .last()
            .filter(|&(_, noted)| now.saturating_since(noted) < WHILE);
        SendHints {
            avoid: recent.map(|(gateway, _)| gateway),
            ..SendHints::default()
        }
    }

    fn last(&self) -> MutexGuard<'_, Option<(Nid, Time)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_gateway_is_avoided_for_a_while_and_a_silent_target_is_not() {
        let silent = SilentGateway::default();
        let at = Time::from_secs;
        let (gateway, target): (Nid, Nid) = (
            "10.0.0.1@tcp".parse().unwrap(),
            "10.1.0.1@tcp1".parse().unwrap(),
        );
        silent.note(target, target, at(1));
        assert_eq!(silent.hints(at(1)).avoid, None);
        silent.note(gateway, target, at(2));
        assert_eq!(silent.hints(at(31)).avoid, Some(gateway));
        assert_eq!(silent.hints(at(32)).avoid, None);
    }
}
