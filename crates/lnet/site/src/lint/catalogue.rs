//! The table of all lints: code, severity, what the lint finds, and the advice.
//!
//! A code never changes its meaning. If `lnet-explain` has a code of the same name, the code means the same cause
//! there. `docs/lints.md` and `finerail lint --list` are generated from this table.

use std::fmt;

use serde::Serialize;

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

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// A lint: a search for one cause of trouble.
#[derive(Debug, PartialEq, Eq)]
pub struct Lint {
    /// The code, in lower case with hyphens.
    pub code: &'static str,
    /// The usual severity of its findings.
    pub severity: Severity,
    /// What the lint finds, in one line.
    pub finds: &'static str,
    /// The advice, in one line.
    pub helps: &'static str,
}

const fn error(code: &'static str, finds: &'static str, helps: &'static str) -> Lint {
    Lint {
        code,
        severity: Severity::Error,
        finds,
        helps,
    }
}

const fn warning(code: &'static str, finds: &'static str, helps: &'static str) -> Lint {
    Lint {
        code,
        severity: Severity::Warning,
        finds,
        helps,
    }
}

const fn note(code: &'static str, finds: &'static str, helps: &'static str) -> Lint {
    Lint {
        code,
        severity: Severity::Note,
        finds,
        helps,
    }
}

pub(crate) static UNREADABLE: Lint = error(
    "unreadable",
    "a text that is neither YAML nor options of the kernel module",
    "correct the text at this place; the rest was not checked",
);
pub(crate) static IMPORT_REFUSED: Lint = error(
    "import-refused",
    "an import stops at an invalid entry",
    "correct the entry at this place; the import is all or nothing",
);
pub(crate) static UNKNOWN_KEY: Lint = warning(
    "unknown-key",
    "an unknown key, which kernels ignore without a message",
    "correct its spelling or remove it",
);
pub(crate) static FIRST_INTERFACE: Lint = warning(
    "first-interface",
    "a network of the module without interface: it takes the first found",
    "name the interface, as in tcp(eth0)",
);
pub(crate) static INTERFACE_MISSING: Lint = error(
    "interface-missing",
    "the machine does not have the interface; an import stops at it",
    "configure LNet after the interface exists, or name another one",
);
pub(crate) static INTERFACE_DOWN: Lint = error(
    "interface-down",
    "the interface has no carrier or no IPv4 address",
    "bring it up, check its cable and its address",
);
pub(crate) static RDMA_DEVICE_MISSING: Lint = error(
    "rdma-device-missing",
    "an o2ib NI on an interface without an RDMA device",
    "name the interface of a device: `rdma link` shows them",
);
pub(crate) static SHARED_DEVICE_DOWN: Lint = warning(
    "shared-device-down",
    "an NI counts as up and shares its device with one that is down",
    "remove it while the device is down",
);
pub(crate) static NI_DOWN: Lint = warning(
    "ni-down",
    "an NI was down, or had a fatal error, when the document was written",
    "check its link and its address; the NI is up again when it has both",
);
pub(crate) static LOOPBACK_INTERFACE: Lint = warning(
    "loopback-interface",
    "an NI on the loopback interface: no other machine reaches it",
    "name the interface that leads to the other machines",
);
pub(crate) static VIRTUAL_INTERFACE: Lint = warning(
    "virtual-interface",
    "an NI on a bridge or link of containers or virtual machines",
    "name the interface that leads to the other machines, or the NID of its address",
);
pub(crate) static NID_NOT_OF_INTERFACE: Lint = error(
    "nid-not-of-interface",
    "the NI's interface does not have the address of the NI's NID",
    "name the interface that has the address, or correct the NID",
);
pub(crate) static WRONG_INTERFACE: Lint = warning(
    "wrong-interface",
    "the others of the net are in another interface's subnet",
    "name the interface in whose subnet the others are",
);
pub(crate) static OUTSIDE_SUBNET: Lint = note(
    "outside-subnet",
    "none of the other NIDs of the net is in the NI's subnet",
    "correct the prefix of the address, or check that IP routes lead there",
);
pub(crate) static INTERFACE_SHARED: Lint = note(
    "interface-shared",
    "several NIs share one device, and are not separate rails",
    "give each rail its own device, or count them as one rail",
);
pub(crate) static HOST_PREFIXES: Lint = warning(
    "host-prefixes",
    "several NIs with addresses of /32: only one interface sends",
    "route by source: a table for each address with its gateway, as `finerail convert --for NID` prints",
);
pub(crate) static ONE_SUBNET: Lint = warning(
    "one-subnet",
    "several NIs in one subnet (a note if the prefix is a guess)",
    "route by source: one table and rule per address, arp_ignore=1, arp_announce=2, rp_filter=0, as `lnetctl setup-mrrouting` of Finerail prints",
);
pub(crate) static SUBNETS_APART: Lint = warning(
    "subnets-apart",
    "rails of one net in several IP subnets (a note for guessed prefixes)",
    "give each subnet its own net number, or route between the subnets",
);
pub(crate) static IP2NETS_HOST_MATCH: Lint = warning(
    "ip2nets-host-match",
    "a pattern matches the host, not the interface (a note if unknown)",
    "name the interface in a net section",
);
pub(crate) static IP2NETS_PASSED_OVER: Lint = warning(
    "ip2nets-passed-over",
    "an earlier rule has the network, so this rule adds no rail",
    "name all interfaces of a network in one rule, as in tcp(eth0,eth1)",
);
pub(crate) static CREDITS_TOO_FEW: Lint = warning(
    "credits-too-few",
    "peer_credits above credits: one peer can take them all",
    "set credits to at least peer_credits, or lower peer_credits",
);
pub(crate) static ROUTE_PASSED_OVER: Lint = warning(
    "route-passed-over",
    "a route of the module that has no effect (an error if it stops LNet)",
    "correct the route or remove it: an import of YAML rejects it",
);
pub(crate) static OPTION_MISTAKEN: Lint = warning(
    "option-mistaken",
    "an option that the module does not take (an error if it stops LNet)",
    "correct the name or the value: `modinfo -p MODULE` lists the options",
);
pub(crate) static MTU_DIFFERS: Lint = warning(
    "mtu-differs",
    "interfaces of one network have different MTUs",
    "give all of them the same MTU, switches included",
);
pub(crate) static WATERMARK_REPLACED: Lint = warning(
    "watermark-replaced",
    "peercredits_hiw does not fit peer_credits, and the LND takes another",
    "set peercredits_hiw between half of peer_credits and one below",
);
pub(crate) static MEMLOCK: Lint = warning(
    "memlock",
    "o2ib nets use more memory than the stated limit of a process allows",
    "raise the limit: LimitMEMLOCK=infinity in the unit, or `ulimit -l unlimited`",
);
pub(crate) static QUEUE_DEPTH_DIFFERS: Lint = warning(
    "queue-depth-differs",
    "nodes of one o2ib network have different peer_credits",
    "give all nodes of the network the same peer_credits",
);
pub(crate) static MAP_ON_DEMAND_DIFFERS: Lint = warning(
    "map-on-demand-differs",
    "nodes of one o2ib network have different map_on_demand",
    "give all nodes of the network the same map_on_demand",
);
pub(crate) static CPT_EXCLUDES_DEVICE: Lint = warning(
    "cpt-excludes-device",
    "the CPT set of an NI leaves out the CPT of its device",
    "add the device's CPT to the set, or leave the set out",
);
pub(crate) static MIXED_TUNABLES: Lint = warning(
    "mixed-tunables",
    "NIs of one network have different tunables; the first NI's win",
    "set them once, for the network",
);
pub(crate) static MIXED_FABRICS: Lint = warning(
    "mixed-fabrics",
    "networks of different kinds, and no rule gives one precedence",
    "configure only the wanted network, or give its net a priority",
);
pub(crate) static HOP_UNDEFINED: Lint = warning(
    "hop-undefined",
    "a route without a hop count, which avoid_asym_router_failure needs",
    "set the hops: 1 for a gateway on the remote network",
);
pub(crate) static GATEWAY_NOT_LOCAL: Lint = error(
    "gateway-not-local",
    "a gateway's network is not local",
    "name the gateway by its NID on a local network, or add the network",
);
pub(crate) static ROUTE_DOWN: Lint = warning(
    "route-down",
    "a route was down when the document was written",
    "ping the gateway; a message through it restores the route",
);
pub(crate) static GATEWAY_HEALTH: Lint = note(
    "gateway-health",
    "a gateway without full health; its routes stay up nevertheless",
    "give the gateways equal priority and hops, so that health decides",
);
pub(crate) static DISCOVERY_OFF: Lint = note(
    "discovery-off",
    "routes without discovery: other interfaces of gateways stay unused",
    "switch discovery on",
);
pub(crate) static NET_NOT_REACHED: Lint = error(
    "net-not-reached",
    "all NIDs of a peer are on nets that are neither local nor routed",
    "add an NI on one of them or a route there",
);
pub(crate) static PRIMARY_NOT_REACHED: Lint = warning(
    "primary-not-reached",
    "a peer's primary NID cannot be reached, but others can",
    "configure the peer with a reachable NID as its primary NID",
);
pub(crate) static PRIMARY_NOT_LOCAL: Lint = note(
    "primary-not-local",
    "a peer's primary NID is behind a route, another one on a local network",
    "configure the peer with a NID on a local network first, as clients after 2.17 do",
);
pub(crate) static PEER_NETS_MISSING: Lint = note(
    "peer-nets-missing",
    "a peer has NIDs on networks that this node does not share",
    "add an NI there, or remove the NIDs",
);
pub(crate) static RAIL_MISMATCH: Lint = warning(
    "rail-mismatch",
    "a local rail stays in use, but its end at the peer is unhealthy",
    "give each subnet its own net number, or add a pair rule for each rail",
);
pub(crate) static HEALTH_ZERO: Lint = warning(
    "health-zero",
    "an interface has health 0: it is unused while there is another",
    "check the interface, its cable and the path; pings restore its health",
);
pub(crate) static FAILURES_COUNTED: Lint = note(
    "failures-counted",
    "failed attempts were counted",
    "check the interface, its cable and the path to the peer",
);
pub(crate) static CREDITS_EXHAUSTED: Lint = warning(
    "credits-exhausted",
    "messages to a peer NI wait for credits (a note if they did before)",
    "find the reason why that node is slow; raise peer_credits on both sides",
);
pub(crate) static FAILURES_RISE: Lint = warning(
    "failures-rise",
    "failures between two readings of a node's counters",
    "`lnetctl peer show -v 3` twice names the peers whose counters rise; ping them, and look at their logs",
);
pub(crate) static MESSAGES_FAILED: Lint = warning(
    "messages-failed",
    "messages failed since the node started (a note if few did)",
    "lnetctl stats show twice with a pause: what rises fails now",
);
pub(crate) static KERNEL_MESSAGE: Lint = warning(
    "kernel-message",
    "messages of the kernel and of programs in a log",
    "see the finding: each kind has its next command",
);
pub(crate) static RULE_DEAD: Lint = warning(
    "rule-dead",
    "a selection rule that can have no effect anywhere",
    "delete it, or name interfaces and gateways by NIDs",
);
pub(crate) static RULE_WITHOUT_EFFECT: Lint = warning(
    "rule-without-effect",
    "a selection rule that matches nothing here, or is hidden by another",
    "delete it, or correct its expressions",
);
pub(crate) static PAIR_DOES_NOT_ATTRACT: Lint = note(
    "pair-does-not-attract",
    "a pair rule attracts nothing to its source (warning if it never wins)",
    "give the source a priority",
);
pub(crate) static PRIORITIES_CONFLICT: Lint = warning(
    "priorities-conflict",
    "src rules and dst rules rank two networks in opposite order",
    "rank networks on one side only",
);
pub(crate) static RULE_IMPORT: Lint = note(
    "rule-import",
    "kernel nodes do not import the rule as it is written (Q-21 to Q-24)",
    "on kernel nodes add the rule with `lnetctl udsp add`",
);
pub(crate) static HEALTH_OFF: Lint = warning(
    "health-off",
    "health is switched off, but there is a choice of paths",
    "lnetctl set health_sensitivity 100; lnetctl set retry_count 2",
);
pub(crate) static SENSITIVITY_DRAINS: Lint = warning(
    "sensitivity-drains",
    "one failure takes all health and moves all traffic",
    "set the default sensitivity of 100, with which ten failures do so",
);
pub(crate) static TIMEOUTS_MISALIGNED: Lint = warning(
    "timeouts-misaligned",
    "timeouts that contradict each other",
    "raise transaction_timeout or lower retry_count",
);
pub(crate) static RECOVERY_LIMIT_SHORT: Lint = warning(
    "recovery-limit-short",
    "recovery ends before the next ping of a gateway",
    "set recovery_limit to 0 (no limit) or well above 60",
);
pub(crate) static NID_CLAIMED_TWICE: Lint = error(
    "nid-claimed-twice",
    "two nodes have one NID",
    "give one of them another address",
);
pub(crate) static NET_ALONE: Lint = error(
    "net-alone",
    "no other node has a net of this node, and no route leads there",
    "correct the net, or add a route",
);
pub(crate) static ROUTE_NET_MISSING: Lint = warning(
    "route-net-missing",
    "a route leads to a net that no node of the files has",
    "correct the net, or remove the route",
);
pub(crate) static PEER_MISSING: Lint = warning(
    "peer-missing",
    "no node of the files has a NID of a configured peer",
    "correct the NID, remove the peer, or add the node's file",
);
pub(crate) static PORT_DIFFERS: Lint = error(
    "port-differs",
    "nodes of one net with different ports do not reach each other",
    "give all nodes of a net the same accept_port and accept_port_bulk",
);
pub(crate) static PREFIX_DIFFERS: Lint = warning(
    "prefix-differs",
    "a prefix of another length than the others' of the net",
    "give the address the prefix length of the others",
);
pub(crate) static ROUTES_DIFFER: Lint = warning(
    "routes-differ",
    "nearly all nodes of the kind have other gateways or hops",
    "give all nodes of a kind the same routes",
);
pub(crate) static GATEWAY_MISSING: Lint = warning(
    "gateway-missing",
    "no node of the files has the gateway's NID",
    "correct the NID, or add the gateway's file",
);
pub(crate) static GATEWAY_NOT_ROUTING: Lint = error(
    "gateway-not-routing",
    "a node is a gateway of others, but does not forward",
    "routing: {enable: 1} on the gateway",
);
pub(crate) static GATEWAY_LACKS_NET: Lint = error(
    "gateway-lacks-net",
    "a gateway has neither the remote network nor a route to it",
    "add the network or a route at the gateway, or use another one",
);
pub(crate) static ONE_SIDED_ROUTE: Lint = error(
    "one-sided-route",
    "messages arrive by a route, but no route leads back",
    "add the route back",
);
pub(crate) static ASYMMETRIC_ROUTE: Lint = warning(
    "asymmetric-route",
    "responses take other gateways (an error with drop_asym_route)",
    "name the same gateways on both sides",
);
pub(crate) static ROUTER_LOOP: Lint = error(
    "router-loop",
    "routers forward messages in a circle, never to their network",
    "let the routes of each router lead towards the network",
);
pub(crate) static PARAMETERS_DIFFER: Lint = warning(
    "parameters-differ",
    "a parameter differs from that of most nodes of its kind",
    "give all nodes of a kind the same parameters",
);

/// All lints: first those of one document, then those of several.
pub static LINTS: [&Lint; 70] = [
    &UNREADABLE,
    &IMPORT_REFUSED,
    &UNKNOWN_KEY,
    &FIRST_INTERFACE,
    &INTERFACE_MISSING,
    &INTERFACE_DOWN,
    &RDMA_DEVICE_MISSING,
    &SHARED_DEVICE_DOWN,
    &NI_DOWN,
    &LOOPBACK_INTERFACE,
    &VIRTUAL_INTERFACE,
    &NID_NOT_OF_INTERFACE,
    &WRONG_INTERFACE,
    &OUTSIDE_SUBNET,
    &INTERFACE_SHARED,
    &ONE_SUBNET,
    &HOST_PREFIXES,
    &SUBNETS_APART,
    &IP2NETS_HOST_MATCH,
    &IP2NETS_PASSED_OVER,
    &CREDITS_TOO_FEW,
    &ROUTE_PASSED_OVER,
    &OPTION_MISTAKEN,
    &MTU_DIFFERS,
    &WATERMARK_REPLACED,
    &MEMLOCK,
    &QUEUE_DEPTH_DIFFERS,
    &MAP_ON_DEMAND_DIFFERS,
    &CPT_EXCLUDES_DEVICE,
    &MIXED_TUNABLES,
    &MIXED_FABRICS,
    &HOP_UNDEFINED,
    &GATEWAY_NOT_LOCAL,
    &ROUTE_DOWN,
    &GATEWAY_HEALTH,
    &DISCOVERY_OFF,
    &NET_NOT_REACHED,
    &PRIMARY_NOT_REACHED,
    &PRIMARY_NOT_LOCAL,
    &PEER_NETS_MISSING,
    &RAIL_MISMATCH,
    &HEALTH_ZERO,
    &FAILURES_COUNTED,
    &CREDITS_EXHAUSTED,
    &FAILURES_RISE,
    &MESSAGES_FAILED,
    &KERNEL_MESSAGE,
    &RULE_DEAD,
    &RULE_WITHOUT_EFFECT,
    &PAIR_DOES_NOT_ATTRACT,
    &PRIORITIES_CONFLICT,
    &RULE_IMPORT,
    &HEALTH_OFF,
    &SENSITIVITY_DRAINS,
    &TIMEOUTS_MISALIGNED,
    &RECOVERY_LIMIT_SHORT,
    &NID_CLAIMED_TWICE,
    &NET_ALONE,
    &ROUTE_NET_MISSING,
    &PEER_MISSING,
    &PORT_DIFFERS,
    &PREFIX_DIFFERS,
    &ROUTES_DIFFER,
    &GATEWAY_MISSING,
    &GATEWAY_NOT_ROUTING,
    &GATEWAY_LACKS_NET,
    &ONE_SIDED_ROUTE,
    &ASYMMETRIC_ROUTE,
    &ROUTER_LOOP,
    &PARAMETERS_DIFFER,
];

/// Returns the list of lints for a terminal, one line for each lint.
#[must_use]
pub fn list() -> String {
    let lines = LINTS.iter().map(|lint| {
        let severity = lint.severity.to_string();
        format!("{:<21} {severity:<7} {}\n", lint.code, lint.finds)
    });
    lines.collect()
}

/// Returns the rows of the table of lints in the documentation.
#[must_use]
pub fn markdown() -> String {
    let rows = LINTS.iter().map(|lint| {
        let Lint {
            code,
            severity,
            finds,
            helps,
        } = lint;
        format!("| `{code}` | {severity} | {finds} | {helps} |\n")
    });
    rows.collect()
}
