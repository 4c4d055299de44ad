//! The node-wide parameters, in one table.
//!
//! Documents, module options, `lnetctl set`, `lctl get_param` and lints take names, values and defaults from here. A new
//! parameter is a new line.

use std::ops::RangeInclusive;

use lnet_policy::Profile;

/// The largest value without another limit; kernels hold the values as signed 32-bit numbers.
const MAX: u32 = i32::MAX as u32;

/// A node-wide parameter that is a number or a switch. A switch that is on is 1.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// The name in documents, and for `lnetctl set`.
    pub name: &'static str,
    /// What the parameter is, in sentences that begin with a space.
    pub meaning: &'static str,
    /// The name among the module's options; `None` if no kernel has the parameter.
    pub option: Option<&'static str>,
    /// True if the option is 1 where the parameter is 0.
    pub is_opposite: bool,
    /// True if kernels' `lnetctl` prints the parameter.
    pub is_printed: bool,
    /// The values that a document may give.
    pub values: RangeInclusive<u32>,
    /// The value of a kernel node since 2.16 that was given none.
    pub default: u32,
    get: fn(&Globals) -> Option<u32>,
    set: fn(&mut Globals, u32),
}

impl Parameter {
    /// Returns the parameter with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        PARAMETERS.iter().find(|parameter| parameter.name == name)
    }

    /// Returns the parameter with this name among the module's options.
    #[must_use]
    pub fn of_option(option: &str) -> Option<&'static Self> {
        PARAMETERS
            .iter()
            .find(|parameter| parameter.option == Some(option))
    }

    /// Returns the values that the parameter takes, in words.
    #[must_use]
    pub fn range_text(&self) -> String {
        let (least, most) = (self.values.start(), self.values.end());
        match *most {
            MAX => format!("{least} or more"),
            _ => format!("{least} to {most}"),
        }
    }

    /// Returns the value; `None` if it is not set.
    #[must_use]
    pub fn get(&self, globals: &Globals) -> Option<u32> {
        (self.get)(globals)
    }

    /// Sets the value. A switch is on for every number except 0.
    pub fn set(&self, globals: &mut Globals, value: u32) {
        (self.set)(globals, value);
    }

    /// Returns the value of the module's option for a value of the parameter, and the other way round.
    #[must_use]
    pub fn option_value(&self, value: u32) -> u32 {
        if self.is_opposite {
            u32::from(value == 0)
        } else {
            value
        }
    }
}

macro_rules! field {
    (number) => {
        u32
    };
    ($switch:ident) => {
        bool
    };
}

macro_rules! value {
    (number, $value:ident) => {
        $value
    };
    ($switch:ident, $value:ident) => {
        $value != 0
    };
}

macro_rules! option {
    () => {
        None
    };
    ($option:literal) => {
        Some($option)
    };
}

macro_rules! parameters {
    ($(
        $(#[doc = $doc:literal])*
        $kind:ident $name:ident $(as $option:literal)?, $values:expr, default $default:expr $(, $unprinted:ident)?;
    )*) => {
        /// Node-wide parameters. A document may contain `recovery_interval` and
        /// `lnd_timeout`; they have no effect and are not among these.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Globals {
            $($(#[doc = $doc])* pub $name: Option<field!($kind)>,)*
            /// The profile of path selection. No kernel has this parameter.
            pub profile: Option<Profile>,
        }

        impl Globals {
            /// These parameters, overridden by those that `other` sets.
            #[must_use]
            pub fn with(self, other: &Self) -> Self {
                Self {
                    $($name: other.$name.or(self.$name),)*
                    profile: other.profile.or(self.profile),
                }
            }

            /// Returns the numbers and switches that are set, by name.
            pub fn numbers(&self) -> impl Iterator<Item = (&'static str, u32)> + Clone + '_ {
                let of = |parameter: &Parameter| Some((parameter.name, parameter.get(self)?));
                PARAMETERS.iter().filter_map(of)
            }

            /// These parameters, restricted to those that `other` sets.
            #[must_use]
            pub fn only(self, other: &Self) -> Self {
                Self {
                    $($name: other.$name.and(self.$name),)*
                    profile: other.profile.and(self.profile),
                }
            }
        }

        /// All parameters that are numbers or switches, in the order in which `lnetctl` prints them.
        pub const PARAMETERS: &[Parameter] = &[
            $(Parameter {
                name: stringify!($name),
                meaning: concat!($($doc),*),
                option: option!($($option)?),
                is_opposite: matches!(stringify!($kind).as_bytes(), b"opposite"),
                is_printed: true $(&& !matches!(stringify!($unprinted).as_bytes(), b"unprinted"))?,
                values: $values,
                default: $default,
                get: |globals| globals.$name.map(u32::from),
                set: |globals, value| globals.$name = Some(value!($kind, value)),
            },)*
        ];
    };
}

// [CONF-40] [CONF-42]
parameters! {
    /// Distances up to this one count as equal in the selection of an interface.
    number numa_range as "lnet_numa_range", 0..=MAX, default 0;
    /// The most interfaces in the ping information of a node; below 16 means the default.
    number max_interfaces as "lnet_interfaces_max", 0..=MAX, default 200;
    /// Whether peers are discovered. As in kernels, every number except 0 means 1.
    opposite discovery as "lnet_peer_discovery_disabled", 0..=MAX, default 1;
    /// Whether a message from a gateway is dropped if no route back leads through that gateway.
    switch drop_asym_route as "lnet_drop_asym_route", 0..=1, default 0;
    /// Resends of one message; at most `transaction_timeout`, and 0 when `health_sensitivity` is 0.
    number retry_count as "lnet_retry_count", 0..=MAX, default 2;
    /// Seconds until a message or its response expires; at least 1.
    number transaction_timeout as "lnet_transaction_timeout", 1..=MAX, default 150;
    /// The health that one failure takes, 0 to 1000.
    number health_sensitivity as "lnet_health_sensitivity", 0..=1000, default 100;
    /// Percent, 0 to 100. Deprecated: read and printed, without effect.
    number router_sensitivity as "router_sensitivity_percentage", 0..=100, default 100;
    /// Messages with tracked responses: 0 only LNet's own, 1 GET, 2 PUT, 3 both.
    number response_tracking as "lnet_response_tracking", 0..=3, default 3;
    /// Seconds after which recovery of a silent peer interface ends; 0 for never.
    number recovery_limit as "lnet_recovery_limit", 0..=MAX, default 0;
    /// The most seconds between recovery pings; at least 1.
    number max_recovery_ping_interval as "lnet_max_recovery_ping_interval", 1..=MAX, default 900;
    /// Seconds between two pings of a gateway; 0 for none.
    number alive_router_check_interval as "alive_router_check_interval", 0..=MAX, default 60, unprinted;
    /// Seconds until a ping of a gateway expires; at least 1.
    number router_ping_timeout as "router_ping_timeout", 1..=MAX, default 50, unprinted;
    /// Whether a gateway counts as dead until it has answered a ping.
    switch check_routers_before_use as "check_routers_before_use", 0..=1, default 0, unprinted;
    /// Whether a single-hop route is down while the gateway's interface on the remote network is.
    switch avoid_asym_router_failure as "avoid_asym_router_failure", 0..=1, default 1, unprinted;
    /// Whether a peer is accepted only if it connects from the address of its NID. No kernel has
    /// this parameter.
    switch match_addresses, 0..=1, default 0, unprinted;
}
