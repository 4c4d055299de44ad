//! The document of a scenario. Unknown keys are rejected.

use serde::Deserialize;
use serde_saphyr::Spanned;

use super::error::ScenarioError;
use crate::cores::draw::Limits;
use crate::cores::lnd::LndKind;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    pub(super) name: String,
    pub(super) summary: String,
    #[serde(default)]
    pub(super) globals: GlobalsText,
    #[serde(default)]
    pub(super) fabric: FabricText,
    #[serde(default)]
    pub(super) link: LinkText,
    #[serde(default)]
    pub(super) nodes: Vec<GroupText>,
    #[serde(default)]
    pub(super) traffic: Vec<TrafficText>,
    #[serde(default)]
    pub(super) faults: Vec<FaultText>,
    pub(super) random_faults: Option<RandomFaults>,
    /// The limits if everything is drawn from the seed.
    pub(super) random: Option<Limits>,
}

/// The node-wide parameters; times in seconds. A parameter without a value has the node's default.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GlobalsText {
    pub(super) transaction_timeout: Option<Spanned<u32>>,
    pub(super) retry_count: Option<Spanned<u32>>,
    pub(super) health_sensitivity: Option<Spanned<u16>>,
    pub(super) max_recovery_ping_interval: Option<u32>,
    pub(super) alive_router_check_interval: Option<u32>,
    pub(super) router_ping_timeout: Option<u32>,
    pub(super) profile: Option<ProfileText>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ProfileText {
    Design,
    Lustre,
    #[serde(rename = "lustre-2.17")]
    Lustre217,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum FabricText {
    /// One switch for each net.
    #[default]
    Star,
    /// Groups of switches: all switches of a group are joined, and each pair of groups is joined by one link.
    Dragonfly { groups: u32, switches: u32 },
    /// Leaf switches, each joined to every spine. Interfaces are plugged into leaves.
    FatTree { leaves: u32, spines: u32 },
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct LinkText {
    pub(super) latency_ns: u32,
    pub(super) gigabytes_per_second: f64,
}

impl Default for LinkText {
    fn default() -> Self {
        Self {
            latency_ns: 500,
            gigabytes_per_second: 12.5,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GroupText {
    pub(super) name: Spanned<String>,
    #[serde(default = "one")]
    pub(super) count: u32,
    #[serde(default)]
    pub(super) routing: bool,
    pub(super) nis: Vec<NiText>,
    #[serde(default)]
    pub(super) routes: Vec<RouteText>,
    #[serde(default)]
    pub(super) rules: Vec<Spanned<RuleText>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NiText {
    pub(super) net: Spanned<String>,
    /// The driver; by default that of the net.
    pub(super) lnd: Option<LndKind>,
    /// The name under which its traffic is reported; by default the name of the net.
    pub(super) rail: Option<String>,
    /// The switches that the group's nodes are plugged into in turn.
    #[serde(default)]
    pub(super) switches: Vec<Spanned<u32>>,
    pub(super) link: Option<LinkText>,
    pub(super) credits: Option<u32>,
    pub(super) peer_credits: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RouteText {
    pub(super) net: Spanned<String>,
    /// A group of nodes that forward.
    pub(super) gateways: Spanned<String>,
    #[serde(default)]
    pub(super) priority: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleText {
    pub(super) src: Option<String>,
    pub(super) dst: Option<String>,
    pub(super) rte: Option<String>,
    pub(super) priority: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TrafficText {
    pub(super) from: Spanned<String>,
    pub(super) to: Spanned<String>,
    pub(super) kind: KindText,
    pub(super) size: Spanned<u32>,
    /// The microseconds between two operations of one node.
    pub(super) every_us: u64,
    /// The number of operations of each node.
    pub(super) count: u32,
    /// The time of the first operation, in seconds.
    #[serde(default)]
    pub(super) begin: f64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum KindText {
    Put,
    PutAck,
    Get,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FaultText {
    /// The time at which the fault begins, in seconds.
    pub(super) at: f64,
    /// The time at which the fault ends, in seconds.
    pub(super) until: Spanned<f64>,
    pub(super) what: TroubleText,
    /// The seconds between the beginnings of two repetitions.
    #[serde(default)]
    pub(super) every: f64,
    #[serde(default = "one")]
    pub(super) times: u32,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum TroubleText {
    /// The link between two switches: `0-1`.
    Link(Spanned<String>),
    /// The link of an interface: `server0/1`.
    Port(Spanned<String>),
    Device(Spanned<String>),
    Interrupt(Spanned<String>),
    LostCompletions(Spanned<String>),
    /// A node: `server0`.
    Crash(Spanned<String>),
    Reject(Spanned<String>),
    /// Nodes that exchange no messages with the others.
    Partition(Vec<Spanned<String>>),
    SlowLink {
        link: Spanned<String>,
        by: u32,
    },
    SlowPort {
        port: Spanned<String>,
        by: u32,
    },
    Loss {
        port: Spanned<String>,
        one_in: u32,
        #[serde(default)]
        types: Vec<Spanned<String>>,
    },
    Completion {
        port: Spanned<String>,
        error: CompletionText,
    },
    Rule {
        node: Spanned<String>,
        one_in: Spanned<u32>,
        #[serde(default)]
        types: Vec<Spanned<String>>,
        #[serde(default)]
        classes: Vec<Spanned<String>>,
    },
    Lie {
        port: Spanned<String>,
        class: Spanned<String>,
    },
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CompletionText {
    Local,
    Flushed,
    RetryExceeded,
    ReceiverNotReady,
    Remote,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RandomFaults {
    /// The limit on the faults.
    pub(super) count: u32,
    /// The seconds within which they happen.
    pub(super) within: u32,
}

fn one() -> u32 {
    1
}

pub(super) fn read(text: &str) -> Result<Document, ScenarioError> {
    serde_saphyr::from_str(text).map_err(|error| ScenarioError::of_yaml(&error))
}
