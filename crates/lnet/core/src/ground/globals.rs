//! The parameters of the whole node, in one table.

use std::time::Duration;

use lnet_policy::Profile;

use crate::ground::config::{ConfigError, UsedPaths};
use crate::ground::health::Health;

/// A parameter that is a number in documents and module options: a number, a switch that is 0 or 1, or a time in
/// seconds.
trait Number: Sized {
    fn number(&self) -> Option<u32>;

    fn of(number: u32) -> Option<Self>;
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Number for $type {
            fn number(&self) -> Option<u32> {
                Some((*self).into())
            }

            fn of(number: u32) -> Option<Self> {
                number.try_into().ok()
            }
        }
    )*};
}

/// Parameters that are none of these.
macro_rules! words {
    ($($type:ty),*) => {$(
        impl Number for $type {
            fn number(&self) -> Option<u32> {
                None
            }

            fn of(_: u32) -> Option<Self> {
                None
            }
        }
    )*};
}

integers!(u32, u16, u8);

words!(Profile, UsedPaths);

impl Number for bool {
    fn number(&self) -> Option<u32> {
        Some((*self).into())
    }

    fn of(number: u32) -> Option<Self> {
        Some(number != 0)
    }
}

impl Number for Duration {
    fn number(&self) -> Option<u32> {
        self.as_secs().try_into().ok()
    }

    fn of(number: u32) -> Option<Self> {
        Some(Self::from_secs(number.into()))
    }
}

macro_rules! globals {
    ($(
        $(#[$attribute:meta])*
        $name:ident: $type:ty = $default:expr;
    )*) => {
        /// Parameters of the whole node. `docs/selection/configuration.md` has the values that they may have.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[cfg_attr(
            feature = "state-json",
            derive(serde::Serialize, serde::Deserialize),
            serde(deny_unknown_fields)
        )]
        pub struct Globals {
            $($(#[$attribute])* pub $name: $type,)*
        }

        impl Default for Globals {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        impl Globals {
            /// Returns the parameter with this name as documents have it: a number, a switch as 0 or 1, or a time in
            /// whole seconds; `None` if the core has none with this name, or if it is none of these.
            #[must_use]
            pub fn number(&self, name: &str) -> Option<u32> {
                match name {
                    $(stringify!($name) => self.$name.number(),)*
                    _ => None,
                }
            }

            /// Sets a parameter as [`Globals::number`] returns it. Ignores names and numbers that it cannot return.
            pub fn set_number(&mut self, name: &str, number: u32) {
                match name {
                    $(stringify!($name) => self.$name = Number::of(number).unwrap_or(self.$name),)*
                    _ => {}
                }
            }
        }

        #[cfg(feature = "record-file")]
        crate::record::file::codec::fields! {
            Globals { $($name),* }
        }
    };
}

globals! {
    /// How long this node waits for a response. Also how long a message may wait in the queues of this node.
    #[cfg_attr(feature = "state-json", serde(with = "crate::state::json::text::span"))]
    transaction_timeout: Duration = Duration::from_secs(150);
    /// The most resends of one message.
    retry_count: u32 = 2;
    /// Which responses are tracked: 0 none, 1 those to GETs, 2 those to PUTs with ACK, 3 both.
    response_tracking: u8 = 3;
    /// The time between two pings of a gateway; zero switches the router checker off.
    #[cfg_attr(feature = "state-json", serde(with = "crate::state::json::text::span"))]
    alive_router_check_interval: Duration = Duration::from_secs(60);
    /// How long a ping of the router checker may take. It is also part of the time after which a router calls a net
    /// quiet.
    #[cfg_attr(feature = "state-json", serde(with = "crate::state::json::text::span"))]
    router_ping_timeout: Duration = Duration::from_secs(50);
    /// True if a gateway counts as dead until it has answered its first ping.
    check_routers_before_use: bool = false;
    /// True if a single-hop route is down while the gateway's interfaces on the remote net are down.
    avoid_asym_router_failure: bool = true;
    /// True if a message is dropped that came through a gateway which this node would not use towards the message's
    /// source.
    drop_asym_route: bool = false;
    /// The behaviour that the node follows: that of the design, or that of shipping kernels.
    #[cfg_attr(feature = "state-json", serde(with = "crate::state::json::mirror::ProfileDef"))]
    profile: Profile = Profile::Design;
    /// The used paths that a resend avoids (`design` profile only).
    #[cfg_attr(feature = "state-json", serde(with = "crate::state::json::mirror::UsedPathsDef"))]
    used_paths: UsedPaths = UsedPaths::Pair;
    /// By how much a failure lowers health and a success raises health, 0 to 1000; 0 switches health off.
    health_sensitivity: u16 = 100;
    /// By how much a failure lowers the health of an interface of a gateway.
    gateway_sensitivity: u16 = 1;
    /// How long a silent peer interface is pinged for its recovery; zero: without a limit.
    #[cfg_attr(feature = "state-json", serde(with = "crate::state::json::text::span"))]
    recovery_limit: Duration = Duration::ZERO;
    /// The longest pause between two recovery pings.
    #[cfg_attr(feature = "state-json", serde(with = "crate::state::json::text::span"))]
    max_recovery_ping_interval: Duration = Duration::from_secs(900);
    /// The share of each router pool that messages for one next hop may hold, in percent, and at least one buffer. 100
    /// allows the whole pool, as in the `lustre` profile.
    #[cfg_attr(feature = "state-json", serde(default = "whole"))]
    next_hop_share: u8 = 75;
    /// The distance below which all distances count as equal.
    numa_range: u32 = 0;
    /// True if a peer is discovered before the first message to it, and if changes of this node's interfaces are pushed
    /// to peers.
    #[cfg_attr(feature = "state-json", serde(default))]
    discovery: bool = false;
    /// True if this node's own NIDs are at distance 0; otherwise they are at distance 1.
    local_nid_dist_zero: bool = true;
    /// True if messages to one of this node's own NIDs take the loopback interface. If false, they take the same path
    /// as messages to peers, and leave the node.
    own_nids_by_loopback: bool = true;
}

/// The value for states that were written before shares existed.
#[cfg(feature = "state-json")]
fn whole() -> u8 {
    100
}

impl Globals {
    /// Returns the parameters of a node to which these numbers and this profile are given. Without health there are no
    /// resends, unless a number of them is given.
    // [PATH-4]
    #[must_use]
    pub fn with(
        mut self,
        numbers: impl IntoIterator<Item = (&'static str, u32)> + Clone,
        profile: Option<Profile>,
    ) -> Self {
        if numbers
            .clone()
            .into_iter()
            .any(|given| given == ("health_sensitivity", 0))
        {
            self.retry_count = 0;
        }
        for (name, number) in numbers {
            self.set_number(name, number);
        }
        self.profile = profile.unwrap_or(self.profile);
        // Kernels treat their own NIDs as they treat NIDs of peers.
        self.own_nids_by_loopback = self.profile == Profile::Design;
        self
    }

    /// Returns how long an LND may take for one attempt: whole seconds, at least one.
    // [RESEND-30]
    #[must_use]
    pub fn lnd_timeout(&self) -> Duration {
        let attempts = u64::from(self.retry_count) + 1;
        let seconds = self.transaction_timeout.as_secs().saturating_sub(1) / attempts;
        Duration::from_secs(seconds.max(1))
    }

    /// Returns these parameters, if a node may begin with them: those to which a running node could be changed.
    ///
    /// # Errors
    ///
    /// [`ConfigError::SensitivityOutOfRange`], [`ConfigError::RetryWithoutHealth`], [`ConfigError::TooManyRetries`].
    pub fn checked(self) -> Result<Self, ConfigError> {
        self.checked_change_of(&self)
    }

    /// Returns these parameters, if an administrator may change `before` to them. A
    /// change that switches health off sets `retry_count` to 0.
    // [CONF-40] [CONF-41] [CONF-43]
    pub(crate) fn checked_change_of(mut self, before: &Self) -> Result<Self, ConfigError> {
        if self.health_sensitivity > Health::MAX.value() {
            return Err(ConfigError::SensitivityOutOfRange(self.health_sensitivity));
        }
        if self.health_sensitivity == 0 && before.health_sensitivity != 0 {
            self.retry_count = 0;
        }
        if self.health_sensitivity == 0 && self.retry_count > 0 {
            return Err(ConfigError::RetryWithoutHealth);
        }
        let timeout = self.transaction_timeout.as_secs();
        let retries = u64::from(self.retry_count);
        if retries > timeout {
            return Err(ConfigError::TooManyRetries(self.retry_count));
        }
        // A retry count that equals the timeout is accepted. A changed timeout must be longer than the retry count.
        if self.transaction_timeout != before.transaction_timeout && timeout <= retries {
            return Err(ConfigError::TimeoutTooShort(self.transaction_timeout));
        }
        Ok(self)
    }

    /// Returns how long a router calls a net alive after the last ping that it received there.
    pub(crate) fn quiet_window(&self) -> Duration {
        self.router_ping_timeout
            .saturating_add(self.alive_router_check_interval)
    }
}
