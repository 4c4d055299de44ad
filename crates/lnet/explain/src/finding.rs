//! Findings: causes of trouble, each with a stable code.

use std::fmt;

use serde::Serialize;

/// A finding: a cause of trouble that the state of a node shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The code of the cause.
    pub code: Code,
    /// The severity of the problem.
    pub severity: Severity,
    /// The subject of the finding, such as a NID or a rule.
    pub subject: String,
    /// The problem, with the facts that show it.
    pub text: String,
    /// The advice: what an administrator can do about it.
    pub advice: String,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A fact that is good to know; nothing is wrong.
    Note,
    /// The node works, but not as its configuration suggests, or not for long.
    Warning,
    /// Something does not work.
    Error,
}

/// The causes of trouble. A code never changes its meaning; new codes are added at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Code {
    /// The chosen local NI reaches only peer NIs that are not in full health or not up.
    RailMismatch,
    /// No local net and no route lead to the destination.
    NetNotReached,
    /// The peer is known by a primary NID that this node cannot reach.
    PrimaryNotReached,
    /// Two NIs share a device, and only one of the two NIs is down.
    SharedDeviceDown,
    /// A route is down. The text names the test that fails and the time of the next ping of the gateway.
    RouteDown,
    /// A gateway is not in full health. This takes no route down.
    GatewayHealth,
    /// The timeouts of the tries and of the transaction do not fit together.
    TimeoutsMisaligned,
    /// Nets of different LNDs lead to one peer, and no rule prefers one of the nets.
    MixedFabrics,
    /// The configuration names an interface that the machine does not have.
    InterfaceMissing,
    /// The interface of an NI has no carrier.
    InterfaceDown,
    /// Several local NIs are in one subnet.
    OneSubnet,
    /// An address pattern matches the machine's addresses, not only the interface that it configures.
    Ip2netsHostMatch,
    /// The peer has NIDs on nets that this node does not have and has no route to.
    PeerNetsMissing,
    /// Counters show failed tries.
    FailuresCounted,
    /// A rule that is in the node's list but that no node applies.
    RuleDead,
    /// A rule that has no effect here.
    RuleWithoutEffect,
    /// A pair rule prefers a source other than the chosen local NI.
    PairDoesNotAttract,
    /// Health is switched off.
    HealthOff,
    /// The node discovers the peer before it sends the first message.
    DiscoveryFirst,
    /// There is no path to the destination.
    NoPath,
    /// A priority that the node shows differs from the priority that its rules set.
    RuleNotApplied,
    /// The node prints a local NI as down or with a fatal error.
    NiDown,
    /// Messages to a peer NI wait for credits.
    CreditsExhausted,
    /// The source and the destination are in different subnets, and the net has several rails.
    SubnetsApart,
    /// Messages from the peer return by other gateways than messages to the peer take.
    AsymmetricRoute,
    /// No node of the files has the destination.
    PeerMissing,
    /// The two ends of a connection over o2ib have different `peer_credits`.
    QueueDepthDiffers,
    /// The two ends of a connection over o2ib have different `map_on_demand`.
    MapOnDemandDiffers,
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
            Self::PeerMissing => "peer-missing",
            Self::QueueDepthDiffers => "queue-depth-differs",
            Self::MapOnDemandDiffers => "map-on-demand-differs",
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
