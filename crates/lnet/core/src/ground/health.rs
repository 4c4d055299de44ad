//! Health values of interfaces and peer interfaces. The rules are in `docs/selection/health.md`.
//!
//! ```text
//!  0 ────────────────────────────────────────────── 1000
//!  DOWN is advertised        − sensitivity: a failure        UP is advertised, in full health:
//!  (local interfaces)        + sensitivity: a success        "optimal" for a resend
//! ```

use lnet_policy::Effective;

use crate::ground::status::MessageStatus;

/// The health of an interface or a peer interface: 0 to 1000.
///
/// ```
/// use lnet_core::Health;
///
/// assert!(Health::new(900).unwrap() < Health::MAX);
/// assert_eq!(Health::new(1001), None);
/// ```
// [HEALTH-1]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Health(u16);

impl Health {
    /// Full health.
    pub const MAX: Self = Self(1000);
    /// The lowest health.
    pub const ZERO: Self = Self(0);

    /// Returns this health value; `None` above 1000.
    #[must_use]
    pub const fn new(value: u16) -> Option<Self> {
        if value > Self::MAX.0 {
            return None;
        }
        Some(Self(value))
    }

    /// Returns the number.
    #[must_use]
    pub const fn value(self) -> u16 {
        self.0
    }

    /// Returns whether the value is [`Self::MAX`].
    #[must_use]
    pub const fn is_full(self) -> bool {
        self.0 == Self::MAX.0
    }

    /// Returns the health after a failure.
    // [HEALTH-2]
    pub(crate) const fn lowered(self, by: u16) -> Self {
        Self(self.0.saturating_sub(by))
    }

    /// Returns the health after a success.
    // [HEALTH-3]
    pub(crate) fn raised(self, by: u16) -> Self {
        Self(self.0.saturating_add(by)).min(Self::MAX)
    }
}

impl Default for Health {
    fn default() -> Self {
        Self::MAX
    }
}

/// `health stats` of a local interface: failed attempts by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NiHealthStats {
    /// [`MessageStatus::LocalInterrupt`].
    pub interrupts: u64,
    /// [`MessageStatus::LocalDropped`].
    pub dropped: u64,
    /// [`MessageStatus::LocalAborted`].
    pub aborted: u64,
    /// [`MessageStatus::LocalNoRoute`].
    pub no_route: u64,
    /// [`MessageStatus::LocalTimeout`].
    pub timeouts: u64,
    /// [`MessageStatus::LocalError`].
    pub error: u64,
}

impl NiHealthStats {
    /// Returns all counts.
    pub(crate) fn counts(&self) -> [u64; 6] {
        [
            self.interrupts,
            self.dropped,
            self.aborted,
            self.no_route,
            self.timeouts,
            self.error,
        ]
    }

    pub(crate) fn count(&mut self, status: MessageStatus) {
        match status {
            MessageStatus::LocalInterrupt => self.interrupts += 1,
            MessageStatus::LocalDropped => self.dropped += 1,
            MessageStatus::LocalAborted => self.aborted += 1,
            MessageStatus::LocalNoRoute => self.no_route += 1,
            MessageStatus::LocalTimeout => self.timeouts += 1,
            MessageStatus::LocalError => self.error += 1,
            _ => {}
        }
    }
}

/// `health stats` of a peer interface: failed attempts by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerHealthStats {
    /// [`MessageStatus::RemoteDropped`].
    pub dropped: u64,
    /// [`MessageStatus::RemoteTimeout`].
    pub timeout: u64,
    /// [`MessageStatus::RemoteError`].
    pub error: u64,
    /// [`MessageStatus::NetworkTimeout`].
    pub network_timeout: u64,
}

impl PeerHealthStats {
    /// Returns all counts.
    pub(crate) fn counts(&self) -> [u64; 4] {
        [self.dropped, self.timeout, self.error, self.network_timeout]
    }

    pub(crate) fn count(&mut self, status: MessageStatus) {
        match status {
            MessageStatus::RemoteDropped => self.dropped += 1,
            MessageStatus::RemoteTimeout => self.timeout += 1,
            MessageStatus::RemoteError => self.error += 1,
            MessageStatus::NetworkTimeout => self.network_timeout += 1,
            _ => {}
        }
    }
}

/// The values besides load that selection uses for an interface or a peer interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthView {
    /// The health.
    pub health: Health,
    /// Recovery pings since the last message was received; the exponent of the back-off.
    pub ping_count: u32,
    /// When the next recovery ping is due; `None` if the interface is not in recovery.
    pub next_ping: Option<lnet_types::Time>,
    /// The time for which a recovery ping was last planned, also after the recovery. Kernels print it as `next_ping`.
    pub last_planned: Option<lnet_types::Time>,
    /// True if the interface is in recovery.
    pub in_recovery: bool,
    /// True if the last recovery ping failed.
    pub ping_failed: bool,
    /// The effective priority by the rules, and the rule that sets it.
    pub priority: Effective,
}
