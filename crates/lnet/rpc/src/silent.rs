//! The gateway that was silent most recently, which further messages avoid for 30 seconds.
//!
//! LNet selects gateways without regard to single calls, and updates the health of a gateway over many
//! messages. A call knows sooner that a gateway may be silent, because the attempt that got no answer went
//! through it. Without this module each call would have to find out by itself, and lose the time of one attempt.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lnet_node::SendHints;
use lnet_types::{Nid, Time};

/// How long messages avoid a silent gateway. Afterwards LNet's own health says whether the gateway is used.
const WHILE: Duration = Duration::from_secs(30);

/// The last gateway that was silent, shared by all calls of a client or of a server.
#[derive(Debug, Default)]
pub(crate) struct SilentGateway(Mutex<Option<(Nid, Time)>>);

impl SilentGateway {
    /// Notes that a message to `target` with the next hop `hop` got no answer.
    pub(crate) fn note(&self, hop: Nid, target: Nid, now: Time) {
        // Without a gateway the next hop is the target.
        if hop != target {
            *self.last() = Some((hop, now));
        }
    }

    /// Returns the hints for a message that is sent at `now`.
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
