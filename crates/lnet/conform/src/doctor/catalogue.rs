//! Every kind of finding: its name, severity, meaning and remedy.
//!
//! Names never change their meaning. `docs/doctor.md` has the same table.

use std::fmt;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It works, but not as expected or not for every user.
    Warning,
    /// It does not work.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// A kind of finding.
#[derive(Debug, PartialEq, Eq)]
pub struct FindingKind {
    /// Its name, in lower case with hyphens.
    pub name: &'static str,
    /// Its severity.
    pub severity: Severity,
    /// Its meaning, in one line.
    pub finds: &'static str,
    /// A remedy, in one line.
    pub helps: &'static str,
}

const fn error(name: &'static str, finds: &'static str, helps: &'static str) -> FindingKind {
    FindingKind {
        name,
        severity: Severity::Error,
        finds,
        helps,
    }
}

const fn warning(name: &'static str, finds: &'static str, helps: &'static str) -> FindingKind {
    FindingKind {
        severity: Severity::Warning,
        ..error(name, finds, helps)
    }
}

/// The name of a host has no address.
pub static NAME_UNKNOWN: FindingKind = error(
    "name-unknown",
    "the name has no address",
    "check /etc/hosts and the name servers, or give the NID with its address",
);

/// No route leads to the address.
pub static NO_WAY: FindingKind = error(
    "no-way",
    "this machine, or a router on the path, has no route to the address",
    "check `ip route get ADDRESS`, the link, and firewalls that reject with an ICMP message",
);

/// The document of the own node has no NI on the node's net, and no route there.
pub static OWN_NET_MISSING: FindingKind = error(
    "own-net-missing",
    "this machine's document has neither an NI on the node's network nor a route there",
    "add the network or a route (`lnetctl net add`, `lnetctl route add`), or use another NID of the node",
);

/// The document of the own node has an address that this machine does not have.
pub static OWN_ADDRESS_MISSING: FindingKind = error(
    "own-address-missing",
    "an NI of this machine's document has an address that this machine does not have",
    "compare `ip addr` with the NIDs and interfaces of the document",
);

/// The system reaches the node from another interface than the NI's.
pub static OWN_SOURCE_DIFFERS: FindingKind = warning(
    "own-source-differs",
    "this machine reaches the node from an address that no NI of its document has: an NI on another interface, a wrong subnet, or a missing route",
    "name the interface that leads to the node, correct its prefix, or route by source address (`finerail convert --for NID` prints both)",
);

pub(super) static FIREWALL_REJECTS: FindingKind = error(
    "firewall-rejects",
    "a filter rejects the attempt to connect with a message that no process and no closed port sends",
    "look at the filter of the machine that sends the message (`nft list ruleset`, `iptables -nvL`, ACLs of a router) and let the TCP port pass, from source ports below 1024 too",
);

pub(super) static PORT_REJECTED: FindingKind = error(
    "port-refused",
    "the host answers with a reset: no process listens on the port (or a filter there rejects in the same way)",
    "start LNet there (`lnetctl lnet configure`), check accept= and accept_port=, or give --port",
);

pub(super) static OTHER_PORT: FindingKind = error(
    "other-port",
    "the node answers on another port: accept_port must be the same on all nodes of a network",
    "set `options lnet accept_port=PORT` alike on both nodes, or give --port",
);

pub(super) static PORT_FILTERED: FindingKind = error(
    "port-filtered",
    "the attempt to connect gets no answer: a firewall drops it, or the host is down",
    "open the TCP port in firewalls and security groups, from source ports below 1024 too; ping the host",
);

pub(super) static PORT_SILENT: FindingKind = error(
    "port-silent",
    "the connection is accepted, but a correct handshake gets no answer",
    "check the node (stopped, hung, overloaded?); look for a proxy or firewall that accepts in its place",
);

pub(super) static UNPRIVILEGED_REJECTED: FindingKind = warning(
    "unprivileged-refused",
    "the acceptor closes connections from source ports above 1023 without reading: accept=secure, the default of kernels",
    "retry with --privileged (as root, or with CAP_NET_BIND_SERVICE), or set accept=all at the node",
);

pub(super) static PORT_CLOSES: FindingKind = error(
    "port-closes",
    "the port accepts the connection and closes it without a word: not an LNet node, or an acceptor that rejects this source",
    "look which program has the port there (`ss -ltnp`; a proxy without a server does this); for an LNet node, look in its log for the rejection of this address",
);

pub(super) static PRIVILEGED_REJECTED: FindingKind = error(
    "privileged-refused",
    "connections from a source port below 1024 are closed unread: address translation (NAT) on the path moves the source port above 1023, and accept=secure rejects that; or no LNet node has the port",
    "compare the source port that arrives there (`ss -tn`, `tcpdump port 988`) with 512 to 1023; exempt LNet from translation (masquerade, SNAT, a cloud's gateway), or set accept=all at the node",
);

pub(super) static TRANSLATED: FindingKind = warning(
    "translated",
    "the node sees this machine at another address or port: address translation (NAT) on the path",
    "exempt LNet from translation: the node cannot connect back, and takes several machines behind one address for one",
);

pub(super) static WRONG_NET: FindingKind = error(
    "wrong-net",
    "the node there has this address on another LNet network",
    "use the network of the node, here and in routes, or add this network at the node",
);

pub(super) static WRONG_NID: FindingKind = error(
    "wrong-nid",
    "the node closes the connection after it has read the requested NID: none of its interfaces has this NID",
    "check `lnetctl net show` there: another network, another address, address translation, or no LNet node",
);

pub(super) static OTHER_NID: FindingKind = error(
    "other-nid",
    "the node that answers says that it has another NID",
    "look for address translation and load balancers on the path, and for an outdated name",
);

pub(super) static VERSION_REJECTED: FindingKind = error(
    "version-refused",
    "the node does not read this version of the handshake: a large NID needs 2.16 or later",
    "use the node's IPv4 NID, or update the node",
);

pub(super) static HELLO_REJECTED: FindingKind = error(
    "hello-refused",
    "the node answers the handshake with a rejection",
    "check the node's log; the node may be shutting down or dialling at this moment",
);

pub(super) static OTHER_PROTOCOL: FindingKind = error(
    "other-protocol",
    "the program that answers on the port is not an LNet node",
    "find the program that has the port there (`ss -ltnp`), and give the node's port with --port",
);

pub(super) static FLOOD: FindingKind = error(
    "flood",
    "the peer sends data without end, and no answer",
    "find the program that has the port there; if it is an LNet node, check its log and stop the cause of its load",
);

/// This machine cannot dial over RDMA.
pub static NO_RDMA_DEVICE: FindingKind = error(
    "no-rdma-device",
    "this machine cannot dial over RDMA from the address that leads to the node",
    "load the adapter's driver and rdma_ucm, install rdma-core (libibverbs, librdmacm), and look for the interface in `rdma link show`",
);

/// The address does not answer over RDMA.
pub static RDMA_UNREACHABLE: FindingKind = error(
    "rdma-unreachable",
    "the address has no route over RDMA, or does not answer there",
    "check that both ports are active and of one fabric or VLAN (`rdma link show`, `ibstat`), and try `rping` between both machines",
);

/// The host has no LNet over RDMA.
pub static NO_LNET_SERVICE: FindingKind = error(
    "no-lnet-service",
    "the host answers over RDMA, and nothing listens at LNet's service number there",
    "configure an o2ib network on that interface of the node (`lnetctl net add --net o2ib --if IB`), and look in its log",
);

/// The node rejects the connection request.
pub static RDMA_REJECTED: FindingKind = error(
    "rdma-rejected",
    "the node rejects the connection request, with a reason",
    "compare `lnetctl net show -v 4` of both nodes: the number of the o2ib network, peer_credits, map_on_demand; look in the node's log",
);

/// The node speaks another version of the protocol.
pub static RDMA_VERSION: FindingKind = error(
    "rdma-version",
    "the node speaks another version of the o2ib protocol than this machine, and rejects the connection request",
    "update the node's LNet: each release since 1.8 speaks version 0x12",
);

/// This machine could not make the connection.
pub static RDMA_FAILED_HERE: FindingKind = error(
    "rdma-failed-here",
    "this machine's own device, or its limits, do not allow the connection",
    "raise the limit of locked memory (`ulimit -l unlimited`, LimitMEMLOCK=infinity), and look in the log (FINERAIL_LOG=debug)",
);

/// The connection is made, and the ping is not answered.
pub static PING_UNANSWERED: FindingKind = error(
    "ping-unanswered",
    "the handshake succeeds, but the ping gets no answer",
    "check the node's log and load; the node may be shutting down, or have no route back",
);

pub(super) static PING_MALFORMED: FindingKind = error(
    "ping-malformed",
    "the answer to the ping cannot be used",
    "`finerail conform` shows the bytes; look for defects of the node or of a proxy",
);

/// The node does not list the NID.
pub static NID_NOT_LISTED: FindingKind = warning(
    "nid-not-listed",
    "the node answers for the NID, but does not list it",
    "check `lnetctl net show` there; address translation may lead to another node",
);

/// The node says that its interface is down.
pub static NI_DOWN: FindingKind = warning(
    "ni-down",
    "the node says that its interface with this NID is down",
    "check its link and address there, and `lnetctl net show -v` for a fatal error",
);

pub(super) static NID_CLAIMED_TWICE: FindingKind = error(
    "nid-claimed-twice",
    "several nodes answer for one NID",
    "find the second node (`arping -D`, `ip neigh`, load balancers on the path), and give it another address",
);

pub(super) static RESTARTED: FindingKind = warning(
    "restarted",
    "the interface was restarted between two connections, or two nodes have the NID",
    "retry: if the finding reappears, look for a node that restarts repeatedly, or for a second node",
);

/// Some connections or pings fail, others succeed.
pub static UNSTEADY: FindingKind = warning(
    "unsteady",
    "some connections or pings fail, others succeed",
    "look for losses on the path, for an overloaded node, and for several hosts behind one address",
);

pub(super) static LARGE_STALLS: FindingKind = error(
    "large-stalls",
    "small messages arrive and large ones stall: the path loses large packets",
    "make the MTU the same on every link of the path; let ICMP \"fragmentation needed\" pass firewalls",
);

pub(super) static SEGMENTS_RESENT: FindingKind = warning(
    "segments-resent",
    "TCP had to retransmit segments: packets are lost on the path to the node",
    "check `ip -s link`, `ethtool -S` and switch counters along the path, and cables",
);

pub(super) static MTU_SHRINKS: FindingKind = warning(
    "mtu-shrinks",
    "the path has a smaller MTU than the local interface",
    "give all links of the path the same MTU, or give the interface the MTU of the path",
);

pub(super) static MTU_DIFFERS: FindingKind = warning(
    "mtu-differs",
    "the node's interface accepts smaller segments than the local one could send",
    "give both interfaces, and all switches between them, the same MTU",
);

pub(super) static TIMEOUT_SHORT: FindingKind = warning(
    "timeout-short",
    "the node's answers take longer than the timeout of a transfer: messages that were not lost are resent",
    "raise transaction_timeout or lower retry_count; find the cause of the slow node or path",
);

pub(super) static NOT_A_ROUTER: FindingKind = error(
    "not-a-router",
    "the gateway answers, but does not forward messages",
    "enable routing there (`lnetctl set routing 1`), or name another gateway",
);

pub(super) static FAR_SILENT: FindingKind = error(
    "far-silent",
    "the gateway forwards, but the node behind it does not answer",
    "check the node, the gateway's interface and routes towards it, and the node's route back to this network; examine the node from a machine on its own network",
);

/// All kinds of findings, in the order in which they are checked.
pub static FINDING_KINDS: [&FindingKind; 41] = [
    &NAME_UNKNOWN,
    &NO_WAY,
    &OWN_NET_MISSING,
    &OWN_ADDRESS_MISSING,
    &OWN_SOURCE_DIFFERS,
    &FIREWALL_REJECTS,
    &PORT_REJECTED,
    &OTHER_PORT,
    &PORT_FILTERED,
    &PORT_SILENT,
    &UNPRIVILEGED_REJECTED,
    &PORT_CLOSES,
    &PRIVILEGED_REJECTED,
    &WRONG_NET,
    &WRONG_NID,
    &OTHER_NID,
    &VERSION_REJECTED,
    &HELLO_REJECTED,
    &OTHER_PROTOCOL,
    &FLOOD,
    &TRANSLATED,
    &NO_RDMA_DEVICE,
    &RDMA_UNREACHABLE,
    &NO_LNET_SERVICE,
    &RDMA_REJECTED,
    &RDMA_VERSION,
    &RDMA_FAILED_HERE,
    &PING_UNANSWERED,
    &PING_MALFORMED,
    &NID_NOT_LISTED,
    &NI_DOWN,
    &TIMEOUT_SHORT,
    &NID_CLAIMED_TWICE,
    &RESTARTED,
    &UNSTEADY,
    &LARGE_STALLS,
    &SEGMENTS_RESENT,
    &MTU_SHRINKS,
    &MTU_DIFFERS,
    &NOT_A_ROUTER,
    &FAR_SILENT,
];
