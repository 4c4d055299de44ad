//! Requests and answers.

use serde::{Deserialize, Serialize};

/// What a node can be asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// A part of the configuration and state, as `lnetctl` prints it.
    Show(Show),
    /// The whole configuration, as `lnetctl export` prints it.
    Export {
        /// Only what an import needs.
        backup: bool,
    },
    /// Applies a document.
    Import {
        /// The document, as `lnetctl import` reads it.
        yaml: String,
        /// What is done with what it names.
        mode: ImportMode,
        /// Stop at the first error and keep what was done before, as kernels do; else all or nothing.
        partial: bool,
        /// Say what would be wrong and change nothing.
        dry_run: bool,
    },
    /// Makes a node ready for its configuration, which a running node is.
    Configure {
        /// From now on a name of a system interface means its IPv6 address, where there is one.
        large: bool,
        /// A node without a network gets networks and routes of the document with which it began, or that it has read
        /// since: what module parameters are to kernels.
        #[serde(default)]
        all: bool,
    },
    /// Removes every network, route, peer and rule; peers that only traffic has made, too.
    Unconfigure,
    /// Sets the health value of interfaces.
    SetHealth {
        /// Of which.
        target: HealthTarget,
        /// 0 to 1000.
        health: u16,
    },
    /// Sets and clears bits of a peer's state.
    SetPeerState {
        /// A NID of the peer.
        nid: String,
        /// Bits that are set.
        set: u32,
        /// Bits that are cleared.
        clear: u32,
    },
    /// Adds a selection rule, or removes some.
    Rule(RuleChange),
    /// Gives interfaces other settings while they are in use.
    Tune(Tune),
    /// Asks peers for their interfaces.
    Ping {
        /// Whom.
        nids: Vec<String>,
        /// From which interface.
        source: Option<String>,
        /// How long each may take, in seconds.
        timeout: u32,
        /// Remember what the peers say.
        discover: bool,
    },
    /// Zeroes the node's counters.
    ResetStatistics,
    /// Injected faults.
    Fault(Fault),
    /// Everything that the choice of a path depends on, as JSON.
    SelectionState,
    /// The connections of the socket LND; each piece of the answer is a [`crate::Part`] as JSON.
    Connections,
    /// The value of one of [`crate::PARAMETERS`], as `lctl get_param` prints it on kernel nodes.
    Parameter {
        /// Its name there.
        name: String,
    },
    /// Writes a line into the node's log.
    Mark {
        /// The line; longer ones than [`MARK_MAX`] are cut.
        text: String,
    },
    /// What the node counts; each piece of the answer is a [`crate::Part`] as JSON.
    Numbers,
    /// How the node's record is getting on, as YAML.
    RecordStatus,
    /// Ends the node's record; the answer is its last status.
    RecordStop,
    /// What happens in the node from now on, until the client leaves; each piece of the answer is a list of
    /// [`crate::Happening`] as JSON, an empty one at least once a second.
    Watch {
        /// Which events; none: all but [`crate::Happenings::Sends`].
        kinds: Vec<crate::Happenings>,
    },
}

/// What a node can be asked for by [`Request::Parameter`]: tables, then module parameters under their names in
/// kernels.
pub const PARAMETERS: [&str; 22] = [
    "buffers",
    "nis",
    "peers",
    "routers",
    "routes",
    "stats",
    "alive_router_check_interval",
    "avoid_asym_router_failure",
    "check_routers_before_use",
    "forwarding",
    "lnet_drop_asym_route",
    "lnet_health_sensitivity",
    "lnet_lnd_timeout",
    "lnet_max_recovery_ping_interval",
    "lnet_numa_range",
    "lnet_peer_discovery_disabled",
    "lnet_recovery_limit",
    "lnet_response_tracking",
    "lnet_retry_count",
    "lnet_transaction_timeout",
    "local_nid_dist_zero",
    "router_ping_timeout",
];

/// The longest mark, in bytes; kernels cut theirs at a page.
pub const MARK_MAX: usize = 1024;

/// What is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Show {
    /// Of what.
    pub section: Section,
    /// How much of it, 0 to 4.
    pub verbosity: u8,
    /// Only this net.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub net: Option<String>,
    /// Only the peer with this NID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nid: Option<String>,
    /// Only routes over this gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// Only routes with this hop count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hop: Option<u8>,
    /// Only routes with this priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// Only the rule at this place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idx: Option<u32>,
}

impl Show {
    /// All of a section.
    #[must_use]
    pub fn all(section: Section, verbosity: u8) -> Self {
        Self {
            section,
            verbosity,
            net: None,
            nid: None,
            gateway: None,
            hop: None,
            priority: None,
            idx: None,
        }
    }
}

/// What can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// Nets and their interfaces.
    Net,
    /// Peers.
    Peer,
    /// Primary NIDs only.
    PeerList,
    /// Routes.
    Route,
    /// Router buffers.
    Routing,
    /// Global parameters.
    Global,
    /// Selection rules.
    Udsp,
    /// Counters.
    Statistics,
    /// Local interfaces in recovery.
    LocalRecovery,
    /// Peer interfaces in recovery.
    PeerRecovery,
}

/// What an import does with what its document names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImportMode {
    /// Adds or sets it; what is there already is an error (-17), as in kernels.
    Add,
    /// Adds what is missing, and answers what was there already; what is there with other settings is an error (-17).
    Complete,
    /// Removes it.
    Del,
    /// Makes the node's configuration equal to it.
    Replace,
}

/// A change of the selection rules, made in one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RuleChange {
    /// One more rule; one with the same descriptors takes the new value.
    Add {
        /// The rule.
        rule: UdspRule,
        /// Before the rule that is here now; without, at the end.
        idx: Option<u32>,
    },
    /// A rule goes, or all of them.
    Del {
        /// Its index; without, all.
        idx: Option<u32>,
    },
}

/// A selection rule as it is typed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UdspRule {
    /// The local side.
    pub src: Option<String>,
    /// The remote side.
    pub dst: Option<String>,
    /// The gateway.
    pub rte: Option<String>,
    /// 0 is best.
    pub priority: Option<u32>,
}

/// Settings of local interfaces; of all of them, unless a NID or a net says which. What is not given
/// stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tune {
    /// Only of this interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nid: Option<String>,
    /// Only of the interfaces of this net.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub net: Option<String>,
    /// Connections of each type to one peer, 0 (the LND's choice) to 127.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conns_per_peer: Option<u8>,
    /// Seconds until a transmission fails; 0 for the node's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lnd_timeout: Option<u32>,
}

/// Whose health is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HealthTarget {
    /// A local interface.
    Ni(String),
    /// All local interfaces of a net.
    Net(String),
    /// All local interfaces.
    AllNis,
    /// An interface of a peer.
    PeerNi(String),
    /// All interfaces of all peers.
    AllPeerNis,
}

/// Injected faults (section 6.9 of lnet-selection).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// One more rule.
    Add(FaultRule),
    /// Takes rules away: those from `source` to `dest`, or all.
    Del {
        /// Drop rules, or delay rules.
        delay: bool,
        /// From where, with `dest`; neither: all.
        source: Option<String>,
        /// To where.
        dest: Option<String>,
    },
    /// Zeroes the rules' counters.
    Reset {
        /// Drop rules, or delay rules.
        delay: bool,
    },
    /// Lists the rules.
    Show {
        /// Drop rules, or delay rules.
        delay: bool,
    },
}

/// A rule that drops or delays messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultRule {
    /// From where: a NID, `*@NET` or `*`.
    pub source: String,
    /// To where.
    pub dest: String,
    /// Which messages of those.
    pub pace: FaultPace,
    /// The pace is drawn at random.
    pub random_interval: bool,
    /// Every message, whatever the pace.
    pub all: bool,
    /// `PUT`, `ACK`, `GET`, `REPLY`; empty: all.
    pub messages: Vec<String>,
    /// Only this portal.
    pub portal: Option<u32>,
    /// Only over this local interface.
    pub local_nid: Option<String>,
    /// Error classes on the side of the sender; empty: silent loss on the receiver's.
    pub errors: Vec<String>,
    /// How long a message is held back, in seconds; `None`: it is dropped.
    pub delay: Option<u32>,
}

/// How often a rule acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultPace {
    /// On one of so many messages.
    Rate(u32),
    /// Once in so many seconds.
    Interval(u32),
}

/// What a node answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// It is done.
    Done,
    /// A document, or a piece of one where more frames follow: pieces are put one behind another.
    Text(String),
    /// It is not done, or not all of it.
    Failed(Vec<Failure>),
}

/// One thing that went wrong, in the terms of `lnetctl`'s error documents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// `add`, `del`, `show`, `manage` …
    pub verb: String,
    /// `net`, `route`, `peer`, `ping` …
    pub entity: String,
    /// As printed, mostly negative.
    pub errno: i32,
    /// For people.
    pub descr: String,
    /// Of the request's entry, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq_no: Option<i64>,
}

impl Request {
    /// The request as a body.
    ///
    /// # Errors
    ///
    /// None that a value of this type can cause; the codec's own type says otherwise.
    pub fn to_body(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(self)
    }

    /// Reads a body.
    ///
    /// # Errors
    ///
    /// No JSON, no such request, unknown fields; with line and column.
    pub fn from_body(body: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(body)
    }
}

impl Reply {
    /// The answer as a body.
    ///
    /// # Errors
    ///
    /// None that a value of this type can cause; the codec's own type says otherwise.
    pub fn to_body(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(self)
    }

    /// Reads a body.
    ///
    /// # Errors
    ///
    /// No JSON, no such answer; with line and column.
    pub fn from_body(body: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show() -> Request {
        Request::Show(Show {
            nid: Some("10.0.0.1@tcp".into()),
            ..Show::all(Section::Peer, 4)
        })
    }

    #[test]
    fn a_request_reads_like_its_name() {
        let body = String::from_utf8(show().to_body().unwrap()).unwrap();
        let expected = r#"{"show":{"section":"peer","verbosity":4,"nid":"10.0.0.1@tcp"}}"#;
        assert_eq!(body, expected);
        assert_eq!(Request::from_body(body.as_bytes()).unwrap(), show());
    }

    #[test]
    fn an_unknown_field_is_rejected_and_not_ignored() {
        let body = br#"{"export":{"backup":true,"colour":1}}"#;
        let error = Request::from_body(body).unwrap_err().to_string();
        assert!(error.contains("colour"), "{error}");
    }

    #[test]
    fn deep_nesting_is_rejected() {
        let body = "[".repeat(100_000);
        assert!(Request::from_body(body.as_bytes()).is_err());
    }

    #[test]
    fn a_failure_comes_back_whole() {
        let failed = Reply::Failed(vec![Failure {
            verb: "add".into(),
            entity: "route".into(),
            errno: -17,
            descr: "exists".into(),
            seq_no: None,
        }]);
        assert_eq!(
            Reply::from_body(&failed.to_body().unwrap()).unwrap(),
            failed
        );
    }
}
