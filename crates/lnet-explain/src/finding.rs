//! Findings: causes of trouble by name, each with a stable code.

use std::fmt;

use serde::Serialize;

/// A cause of trouble.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Which cause.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    pub subject: String,
    /// What is the matter, with the facts.
    pub text: String,
    /// What would help.
    pub advice: String,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Works, but not as somebody may believe, or not for long.
    Warning,
    /// Does not work.
    Error,
}

/// The causes. Codes never change their meaning; new ones come at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Code {
    /// The chosen local NI reaches only peer NIs that are not well.
    RailMismatch,
    /// No local net and no route lead to the destination.
    NetNotReached,
    /// The peer is known by a primary NID that cannot be reached.
    PrimaryNotReached,
    /// Two NIs share a device of which one is down.
    SharedDeviceDown,
    /// A route is down; which test fails, and when the gateway is asked again.
    RouteDown,
    /// A gateway is not in full health, which takes no route down.
    GatewayHealth,
    /// Timeouts that do not fit into each other.
    TimeoutsMisaligned,
    /// Nets of different kinds lead to one peer, and no rule says which comes first.
    MixedFabrics,
    /// The configuration names an interface that the machine does not have.
    InterfaceMissing,
    /// The interface of an NI has no carrier.
    InterfaceDown,
    /// Several interfaces in one subnet.
    OneSubnet,
    /// An address pattern matched the machine, not the interface it configures.
    Ip2netsHostMatch,
    /// The peer has NIDs on nets that this node does not have.
    PeerNetsMissing,
    /// Failed tries were counted.
    FailuresCounted,
    /// A rule that no node acts on.
    RuleDead,
    /// A rule that does nothing here.
    RuleWithoutEffect,
    /// A pair rule whose source is not chosen.
    PairDoesNotAttract,
    /// Health is switched off.
    HealthOff,
    /// Discovery comes before the first message.
    DiscoveryFirst,
    /// There is no path.
    NoPath,
    /// A priority that the node shows is not what its rules say.
    RuleNotApplied,
    /// A local NI was printed as down or with a fatal error.
    NiDown,
    /// Messages to a peer NI wait for credits.
    CreditsExhausted,
    /// The source and the destination are in different subnets of one net with several rails.
    SubnetsApart,
    /// The way back leads by other gateways.
    AsymmetricRoute,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RailMismatch => "rail-mismatch",
            Self::NetNotReached => "net-not-reached",
            Self::PrimaryNotReached => "primary-not-reached",
            Self::SharedDeviceDown => "shared-device-down",
            Self::RouteDown => "route-down",
            Self::GatewayHealth => "gateway-health",
            Self::TimeoutsMisaligned => "timeouts-misaligned",
            Self::MixedFabrics => "mixed-fabrics",
            Self::InterfaceMissing => "interface-missing",
            Self::InterfaceDown => "interface-down",
            Self::OneSubnet => "one-subnet",
            Self::Ip2netsHostMatch => "ip2nets-host-match",
            Self::PeerNetsMissing => "peer-nets-missing",
            Self::FailuresCounted => "failures-counted",
            Self::RuleDead => "rule-dead",
            Self::RuleWithoutEffect => "rule-without-effect",
            Self::PairDoesNotAttract => "pair-does-not-attract",
            Self::HealthOff => "health-off",
            Self::DiscoveryFirst => "discovery-first",
            Self::NoPath => "no-path",
            Self::RuleNotApplied => "rule-not-applied",
            Self::NiDown => "ni-down",
            Self::CreditsExhausted => "credits-exhausted",
            Self::SubnetsApart => "subnets-apart",
            Self::AsymmetricRoute => "asymmetric-route",
        })
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}
