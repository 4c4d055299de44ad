//! Requests and answers.

use serde::{Deserialize, Serialize};

/// A request to a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// A part of the configuration and state, as `lnetctl` prints it.
    Show(Show),
    /// The whole configuration, as `lnetctl export` prints it.
    Export {
        /// Only the part that an import needs.
        backup: bool,
    },
    /// Applies a document.
    Import {
        /// The document, as `lnetctl import` reads it.
        yaml: String,
        /// How the objects in the document are applied.
        mode: ImportMode,
        /// Stop at the first error and keep the earlier changes, as kernels do; otherwise apply all
        /// changes or none.
        partial: bool,
        /// Report errors and change nothing.
        dry_run: bool,
    },
    /// Prepares a node for its configuration; a running node is always prepared.
    Configure {
        /// From now on, the name of a system interface means its IPv6 address, if it has one.
        large: bool,
        /// If the node has no network, apply the networks and routes of its initial document or of
        /// the last one read, which correspond to the module parameters of kernels.
        #[serde(default)]
        all: bool,
    },
    /// Removes every network, route, peer and rule, including peers that only messages created.
    Unconfigure,
    /// Sets the health value of interfaces.
    SetHealth {
        /// The interfaces.
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
    /// Adds a selection rule, or removes rules.
    Rule(RuleChange),
    /// Changes settings of interfaces in use.
    Tune(Tune),
    /// Asks peers for their interfaces.
    Ping {
        /// The peers.
        nids: Vec<String>,
        /// The local interface to ping from.
        source: Option<String>,
        /// Timeout of each ping, in seconds.
        timeout: u32,
        /// Keep the peers' answers, as discovery does.
        discover: bool,
    },
    /// Zeroes the node's counters.
    ResetStatistics,
    /// Adds, removes or lists injected faults.
    Fault(Fault),
    /// The whole state of path selection as JSON.
    SelectionState,
    /// The connections of the socket LND; each piece of the answer is a [`crate::protocol::Part`] as JSON.
    Connections,
    /// The value of one of [`crate::protocol::parameters`], as `lctl get_param` prints it on kernel nodes.
    Parameter {
        /// Its name in kernels.
        name: String,
    },
    /// Writes a line into the node's log.
    Mark {
        /// The line; lines longer than [`MARK_MAX`] are truncated.
        text: String,
    },
    /// The node's counters; each piece of the answer is a [`crate::protocol::Part`] as JSON.
    Numbers,
    /// The state of the node's record, as YAML.
    RecordStatus,
    /// Ends the node's record; the answer is its last state.
    RecordStop,
    /// Events of the node from now on, until the client closes the connection. Each piece of the
    /// answer is a list of [`crate::protocol::Happening`] as JSON, and an empty list at least once a second.
    Watch {
        /// The kinds of events; empty for all except [`crate::protocol::Happenings::Sends`].
        kinds: Vec<crate::protocol::Happenings>,
    },
    /// What the node counts of Lustre's RPCs, as [`crate::protocol::RpcNumbers`] in JSON.
    RpcNumbers,
    /// Lustre's RPCs that the node sees end from now on, until the client closes the connection, in pieces like those of
    /// [`Request::Watch`].
    WatchRpcs(crate::protocol::RpcFilter),
    /// A command of `lst`, for the console of LNet selftest on the node. Each piece of the answer is a
    /// [`crate::protocol::Said`] as JSON.
    Lst {
        /// The session that the command belongs to: see [`crate::protocol::is_lst_key`].
        key: String,
        /// The command and its arguments, as they were typed after `lst`.
        words: Vec<String>,
    },
}

/// Returns the names for [`Request::Parameter`]: tables, then module parameters under their names in kernels.
pub fn parameters() -> impl Iterator<Item = &'static str> {
    let tables = ["buffers", "nis", "peers", "routers", "routes", "stats"];
    let others = [
        "accept_port",
        "accept_port_bulk",
        "cpu_partition_table",
        "forwarding",
        "health_check",
        "lnet_lnd_timeout",
        "local_nid_dist_zero",
        "version",
    ];
    let options = lnet_config::PARAMETERS
        .iter()
        .filter_map(|parameter| parameter.option);
    let mut names: Vec<_> = options.chain(others).collect();
    names.sort_unstable();
    tables.into_iter().chain(names)
}

/// The longest mark, in bytes; kernels truncate marks at a page.
pub const MARK_MAX: usize = 1024;

/// What to show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Show {
    /// The section.
    pub section: Section,
    /// Verbosity, 0 to 4.
    pub verbosity: u8,
    /// Only this net.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub net: Option<String>,
    /// Only the peer with this NID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nid: Option<String>,
    /// Only routes through this gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// Only routes with this hop count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hop: Option<u8>,
    /// Only routes with this priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// Only the rule with this index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idx: Option<u32>,
}

impl Show {
    /// A request for all entries of a section.
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

/// A section to show.
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

/// How an import applies the objects in its document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImportMode {
    /// Add or set them; an existing object is an error (-17), as in kernels.
    Add,
    /// Add missing objects and list existing ones in the answer; an existing object with other
    /// settings is an error (-17).
    Complete,
    /// Remove them.
    Del,
    /// Make the node's configuration equal to the document.
    Replace,
}

/// A change of the selection rules in one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RuleChange {
    /// Add a rule; a rule with the same descriptors gets the new value.
    Add {
        /// The rule.
        rule: UdspRule,
        /// The index of the rule before which it is inserted; `None` for the end.
        idx: Option<u32>,
    },
    /// Remove one rule or all.
    Del {
        /// The index of the rule; `None` for all.
        idx: Option<u32>,
    },
}

/// A selection rule in the form of a command line.
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

/// Settings of all local interfaces, or of those that a NID or a net selects. `None` leaves a
/// setting unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tune {
    /// Only of this interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nid: Option<String>,
    /// Only of the interfaces of this net.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub net: Option<String>,
    /// Connections of each type to one peer, 0 (the LND's default) to 127.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conns_per_peer: Option<u8>,
    /// Seconds until a transmission fails; 0 for the node's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lnd_timeout: Option<u32>,
}

/// The interfaces whose health is set.
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

/// Injected faults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Add a rule.
    Add(FaultRule),
    /// Remove rules: those from `source` to `dest`, or all.
    Del {
        /// Drop rules, or delay rules.
        delay: bool,
        /// The source; `None` for both, source and destination, removes all.
        source: Option<String>,
        /// The destination.
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
    /// The source: a NID, `*@NET` or `*`.
    pub source: String,
    /// The destination.
    pub dest: String,
    /// How often the rule acts.
    pub pace: FaultPace,
    /// True if the pace is drawn at random.
    pub random_interval: bool,
    /// True if the rule acts on every message, whatever the pace is.
    pub all: bool,
    /// `PUT`, `ACK`, `GET`, `REPLY`; empty for all.
    pub messages: Vec<String>,
    /// Only this portal.
    pub portal: Option<u32>,
    /// Only messages over this local interface.
    pub local_nid: Option<String>,
    /// Error classes that the sender reports; empty for silent loss at the receiver.
    pub errors: Vec<String>,
    /// Seconds for which a message is held back; `None` drops the message.
    pub delay: Option<u32>,
}

/// How often a rule acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultPace {
    /// One of so many messages.
    Rate(u32),
    /// Once in so many seconds.
    Interval(u32),
}

/// The answer of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The request succeeded.
    Done,
    /// A document, or a piece of one if more frames follow; the pieces are concatenated.
    Text(String),
    /// The request failed, at least in part.
    Failed(Vec<Failure>),
}

/// One error, with the fields of `lnetctl`'s error documents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// `add`, `del`, `show`, `manage` …
    pub verb: String,
    /// `net`, `route`, `peer`, `ping` …
    pub entity: String,
    /// The errno as printed, mostly negative.
    pub errno: i32,
    /// A text for users.
    pub descr: String,
    /// Number of the request's entry, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq_no: Option<i64>,
}

impl Request {
    /// Encodes the request as a body.
    ///
    /// # Errors
    ///
    /// None for values of this type; the error is that of the JSON encoder's interface.
    pub fn to_body(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(self)
    }

    /// Reads a body.
    ///
    /// # Errors
    ///
    /// Text that is not JSON, an unknown request, unknown fields; with line and column.
    pub fn from_body(body: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(body)
    }
}

impl Reply {
    /// Encodes the answer as a body.
    ///
    /// # Errors
    ///
    /// None for values of this type; the error is that of the JSON encoder's interface.
    pub fn to_body(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(self)
    }

    /// Reads a body.
    ///
    /// # Errors
    ///
    /// Text that is not JSON, or an unknown answer; with line and column.
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
