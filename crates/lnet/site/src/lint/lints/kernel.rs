//! What messages of kernel nodes mean: a log instead of a configuration.
//!
//! The kinds of messages and their meaning come from administrators' public reports.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use lnet_types::{LndType, Net, Nid};

use crate::lint::catalogue::KERNEL_MESSAGE;
use crate::lint::finding::Finding;
use crate::lint::node::Node;

/// A kind of message.
struct Kind {
    /// What a line of this kind contains.
    has: &'static str,
    /// What the message means.
    means: &'static str,
    /// The next command; `NID` stands for the node in the message.
    next: &'static str,
}

/// What stands before the number of an error.
const RC: &str = "rc = -";

const PING: &str = "lnetctl ping NID; then `finerail doctor NID` from this machine";
const OTHERWISE: &str =
    "what came is not what this end's LNet expects: another program, or an incompatible release";

/// The beginnings of messages that report an error.
const ERRORS: [&str; 2] = ["LNetError: ", "LustreError: "];

/// Parts of messages that report no trouble of their own: repetitions, and routes that are up again.
const NO_TROUBLE: [&str; 2] = ["previous similar message", "has gone from down to up"];

/// The most kinds of errors that are reported beside those of the list.
const OTHERS_MAX: usize = 100;

/// The kinds of messages. The first one that fits a line counts.
const KINDS: [Kind; 39] = [
    kind(
        "couldn't query intf",
        "LNet was configured before the interface was there, or the interface has another name",
        "ip addr; then start LNet after the network (`After=network-online.target`), or `finerail node --wait 60s`",
    ),
    kind(
        "interfaces found",
        "an interface of the configuration is absent, down, or has no address",
        "ip addr; `finerail lint FILE --interfaces` compares the configuration with it",
    ),
    kind(
        "starting up LNI",
        "LNet could not start on a network, and is not there at all",
        "ip addr; `finerail lint FILE --interfaces` compares the configuration with it",
    ),
    kind(
        "Can't load LND",
        "the module of this type of network cannot be loaded: it is not installed, or was built for other drivers",
        "modprobe -v the module; dmesg shows which symbols differ: install the modules that were built for this kernel \
         and these drivers",
    ),
    kind(
        "failed: No such device",
        "the client's modules are not loaded on this machine",
        "modprobe lustre; lsmod | grep lnet; are the modules built for the running kernel (uname -r)?",
    ),
    kind(
        "failed: File exists",
        "the file system is mounted there already, or another mount of it is under way",
        "grep lustre /proc/mounts; mount one at a time",
    ),
    kind(
        "endpoint shutdown",
        "the server or this client stops, or their connection was ended meanwhile",
        PING,
    ),
    kind(
        "Is the MGS running?",
        "no answer of the MGS: not started, not reached, another accept_port or network, or a firewall",
        PING,
    ),
    kind(
        "failed: Input/output error",
        "no answer of the MGS: not started, not reached, another accept_port or network, or a firewall",
        PING,
    ),
    kind(
        "Timed out tx",
        "messages to it left this node and were not answered within the LND's timeout: it is overloaded or down, or its fabric is",
        PING,
    ),
    kind(
        "timed out for slow reply",
        "a request waited for its reply too long: the server is overloaded, or a request or reply was lost",
        PING,
    ),
    kind(
        "timed out for sent delay",
        "a request waited in this node's own queue: credits are exhausted, or the LND makes no progress",
        "lnetctl net show -v; lnetctl peer show --nid NID -v: look at the minimum of tx credits",
    ),
    kind(
        "failed due to network error",
        "the LND could not deliver a request",
        PING,
    ),
    kind(
        "was evicted by",
        "a server has dropped this client, which did not answer a callback in time",
        "look at the server's log at that time; then the network between the two",
    ),
    kind(
        "was lost; in progress operations",
        "the connection to a service is gone; the client tries the next server of the service",
        PING,
    ),
    kind(
        "was refused",
        "no LNet listens there: not started, another accept_port, or a firewall that rejects",
        PING,
    ),
    kind(
        "No matching NI",
        "that node dialled this one for a NID that this one does not have: a wrong peer, gateway or number of a net there",
        "lnetctl net show here; lnetctl peer show and lnetctl route show there",
    ),
    kind(
        "insecure port",
        "that node dialled from a port of 1024 or above, which `accept=secure` refuses",
        "let that node dial from a privileged port, or `options lnet accept=all` here",
    ),
    kind(
        "has gone from up to down",
        "the gateway of a route counts as dead: it does not answer, or says that its other side is down",
        "lnetctl route show -v; lnetctl ping NID; on the gateway: lnetctl net show",
    ),
    kind(
        "NIs in recovery",
        "an interface lost health by failures, and LNet pings it until it is well",
        "lnetctl peer show --nid NID -v 3; lnetctl net show -v 3: the health, and what failed",
    ),
    kind(
        "failed to find interface",
        "the configuration names an interface that this machine does not have",
        "ip addr; `finerail lint FILE --interfaces` compares the configuration with it",
    ),
    kind(
        "has no available nets",
        "no local net and no route leads to the net of this NID",
        "lnetctl net show; lnetctl route show",
    ),
    kind(
        "Error sending",
        "LNet could not send a message",
        "lnetctl route show -v; lnetctl net show",
    ),
    kind(
        "was reset: is it running a compatible version",
        "the other end reset the connection: it does not know this node's net, or stopped",
        PING,
    ),
    kind("Protocol error", OTHERWISE, PING),
    kind("Unknown message type", OTHERWISE, PING),
    kind("Unexpected type", OTHERWISE, PING),
    kind("Mismatched types", OTHERWISE, PING),
    kind(
        "Timed out RDMA with",
        "the connection's transfers were not completed within the LND's timeout: that node or the fabric stands still",
        PING,
    ),
    kind(
        "Can't start acceptor",
        "the port of LNet is taken on this machine",
        "ss -ltnp 'sport = :988'",
    ),
    kind("Can't connect to", "no connection could be made", PING),
    kind(
        "Error -104",
        "the other end reset the connection: it does not know this node's net, or stopped",
        PING,
    ),
    kind(
        "Unexpected error",
        "a connection failed while it was made",
        PING,
    ),
    kind(
        "No route to",
        "no local net and no live route leads there",
        "lnetctl route show -v; lnetctl net show",
    ),
    kind(
        "no route to",
        "no local net and no live route leads there",
        "lnetctl route show -v; lnetctl net show",
    ),
    kind(
        "too fragmented",
        "the peer's map_on_demand or the number of its fragments differs",
        "lnetctl net show -v 4 on both: compare map_on_demand and peer_credits",
    ),
    kind(
        "Dropping PUT",
        "a message came for a service that is not there",
        "lctl dl on this node: is the target mounted?",
    ),
    kind(
        "Dropping GET",
        "a message came for a service that is not there",
        "lctl dl on this node: is the target mounted?",
    ),
    kind(RC, "an operation failed", PING),
];

const fn kind(has: &'static str, means: &'static str, next: &'static str) -> Kind {
    Kind { has, means, next }
}

/// The names of error numbers in kernel messages, with their meaning for LNet.
const ERRNOS: [(u32, &str); 20] = [
    (2, "ENOENT: the name is not known there"),
    (5, "EIO: the transfer failed"),
    (11, "EAGAIN: try again"),
    (12, "ENOMEM: no memory, or none that may be pinned"),
    (13, "EACCES: not allowed"),
    (16, "EBUSY: in use"),
    (19, "ENODEV: the device or target is not there"),
    (22, "EINVAL: an invalid value"),
    (28, "ENOSPC: no space"),
    (30, "EROFS: read-only"),
    (71, "EPROTO: the other end speaks otherwise"),
    (95, "EOPNOTSUPP: not supported there"),
    (98, "EADDRINUSE: the port is taken"),
    (99, "EADDRNOTAVAIL: the address is not this machine's"),
    (104, "ECONNRESET: the other end closed"),
    (
        107,
        "ENOTCONN: not connected; the server does not know this client any more",
    ),
    (108, "ESHUTDOWN: the other end or this one stops"),
    (110, "ETIMEDOUT: no answer in time"),
    (111, "ECONNREFUSED: nothing listens there"),
    (113, "EHOSTUNREACH: no path"),
];

/// Returns true for lines of the kernel's modules, and of the tools that mount and configure.
pub(in crate::lint) fn is_message(line: &str) -> bool {
    const PROGRAMS: [&str; 6] = [
        "LNet: ",
        "LNetError: ",
        "Lustre: ",
        "LustreError: ",
        "mount.lustre: ",
        "couldn't query intf",
    ];
    let is_mount = line.contains("mount: mounting ") && nid_in(line).is_some();
    is_mount || PROGRAMS.iter().any(|program| line.contains(program))
}

/// What a message is: one of the list, or an error that is not in the list.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// The place in the list.
    Known(usize),
    /// The text, with `#` for each number.
    Other(String),
}

impl What {
    /// Returns what a line of a log is; `None` if it tells of no trouble.
    fn of(line: &str) -> Option<Self> {
        let is_quiet = NO_TROUBLE.iter().any(|quiet| line.contains(quiet));
        if is_quiet || !is_message(line) {
            return None;
        }
        let known = KINDS.iter().position(|kind| line.contains(kind.has));
        known
            .map(Self::Known)
            .or_else(|| Some(Self::Other(shape(error_in(line)?))))
    }
}

/// The messages of one kind about one node.
struct Seen<'s> {
    line: usize,
    count: usize,
    errno: Option<u32>,
    /// The first of them.
    text: &'s str,
}

/// Reports each kind of message, once for each node that the messages name.
pub(super) fn kernel_message(node: &Node<'_>) -> Vec<Finding> {
    let mut seen: BTreeMap<(What, Option<Named>), Seen<'_>> = BTreeMap::new();
    let mut others = 0;
    let mut left_out = 0;
    for (text, line) in node.source.log().zip(1..) {
        let Some(what) = What::of(text) else { continue };
        let is_other = matches!(what, What::Other(_));
        let key = (what, named_in(text));
        if is_other && !seen.contains_key(&key) {
            if others == OTHERS_MAX {
                left_out += 1;
                continue;
            }
            others += 1;
        }
        let one = seen.entry(key).or_insert(Seen {
            line,
            count: 0,
            errno: errno_in(text),
            text,
        });
        one.count += 1;
    }
    let told = seen.into_iter().map(|((what, named), seen)| {
        let (reason, fix) = match what {
            What::Known(kind) => of_kind(KINDS.get(kind), named, &seen),
            What::Other(_) => of_other(named, &seen),
        };
        let made = node.finding(&KERNEL_MESSAGE, &[], reason, fix);
        Finding {
            line: seen.line,
            column: 1,
            ..made
        }
    });
    let mut told: Vec<Finding> = told.collect();
    if left_out > 0 {
        let reason = format!("{left_out} more errors of other kinds");
        let fix = "lint parts of the log".to_owned();
        told.push(node.finding(&KERNEL_MESSAGE, &[], reason, fix));
    }
    told
}

/// Returns what messages of a kind mean, and the next command.
fn of_kind(kind: Option<&Kind>, named: Option<Named>, seen: &Seen<'_>) -> (String, String) {
    let Some(kind) = kind else {
        return of_other(named, seen);
    };
    let what = match (kind.has, seen.errno) {
        (RC, Some(errno)) => format!("{RC}{errno}"),
        (has, _) => has.to_owned(),
    };
    let reason = format!(
        "'{what}', {}: {}{}",
        seen.of(named),
        kind.means,
        seen.errno()
    );
    let fix = match named.map(Named::nid) {
        Some(nid) if nid.net().lnd == LndType::TCP => kind.next.replace("NID", &nid.to_string()),
        Some(nid) => kind
            .next
            .replace(PING, "lnetctl ping NID")
            .replace("NID", &nid.to_string()),
        None => kind.next.to_owned(),
    };
    (reason, fix)
}

/// Returns what is known of an error that is not in the list, and the next command.
fn of_other(named: Option<Named>, seen: &Seen<'_>) -> (String, String) {
    let text = error_in(seen.text).unwrap_or(seen.text);
    let text: String = text.trim().chars().take(160).collect();
    let reason = format!("{}: {text}{}", seen.of(named), seen.errno());
    let fix = named.map_or_else(
        || "look at what the log has before it".to_owned(),
        |named| format!("lnetctl ping {}", named.nid()),
    );
    (reason, fix)
}

impl Seen<'_> {
    /// Returns how often the message came, and of which node.
    fn of(&self, named: Option<Named>) -> String {
        let times = match self.count {
            1 => "once".to_owned(),
            count => format!("{count} times"),
        };
        let name = named.map_or_else(
            || "a node that the message does not name".to_owned(),
            |named| named.to_string(),
        );
        format!("{times}, of {name}")
    }

    fn errno(&self) -> String {
        self.errno.map(errno_text).unwrap_or_default()
    }
}

/// The node that a message is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Named {
    Nid(Nid),
    /// An address, as messages of the socket LND name nodes whose NID is not known yet.
    Address(Ipv4Addr),
}

impl Named {
    /// The NID, which is made up for an address.
    fn nid(self) -> Nid {
        match self {
            Self::Nid(nid) => nid,
            Self::Address(address) => Nid::from_ip(Net::tcp(0), IpAddr::V4(address)),
        }
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nid(nid) => nid.fmt(f),
            Self::Address(address) => address.fmt(f),
        }
    }
}

/// Returns the node that a message is about: the address behind ` from ` and in front of a port or a space, or else the
/// last NID.
fn named_in(line: &str) -> Option<Named> {
    let from = line.match_indices(" from ").find_map(|(at, word)| {
        let text = line.get(at + word.len()..)?;
        let end = text.find(|one: char| !one.is_ascii_digit() && one != '.');
        let (address, rest) = text.split_at(end.unwrap_or(text.len()));
        let is_nid = rest.starts_with('@');
        address.parse().ok().filter(|_| !is_nid)
    });
    from.map(Named::Address)
        .or_else(|| nid_in(line).map(Named::Nid))
}

/// Returns the error that a line reports, without the time, the process and the place in the code, such as
/// `8374:0:(acceptor.c:425:lnet_acceptor()) `; `None` if the line reports none.
fn error_in(line: &str) -> Option<&str> {
    let (_, text) = ERRORS.iter().find_map(|error| line.split_once(error))?;
    let after = text.split_once("()) ").map(|(_, after)| after);
    Some(after.unwrap_or(text))
}

/// Returns a text with `#` for each number, so that messages of one kind are one.
fn shape(text: &str) -> String {
    let mut shape = String::new();
    for one in text.chars() {
        if !one.is_ascii_digit() {
            shape.push(one);
        } else if !shape.ends_with('#') {
            shape.push('#');
        }
    }
    shape
}

fn errno_text(errno: u32) -> String {
    let known = ERRNOS.iter().find(|(number, _)| *number == errno);
    known.map_or(format!(" (-{errno})"), |(_, text)| {
        format!(" (-{errno} {text})")
    })
}

/// Returns the number behind `rc = -`, `rc -`, `error -` or, at the end of the line, `: -`; `None` if the line has none.
fn errno_in(line: &str) -> Option<u32> {
    if let Some((_, last)) = line.trim_end().rsplit_once(": -")
        && let Ok(errno) = last.parse()
    {
        return Some(errno);
    }
    let at = [RC, "rc -", "rc: -", "rror -"].iter().find_map(|before| {
        let at = line.find(before)? + before.len();
        line.get(at..)
    })?;
    let digits = at.split(|one: char| !one.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Returns the last NID of a line: the node that a message is about. Names of targets contain NIDs, too, such as
/// `MGC10.0.0.1@tcp@10.0.0.1@tcp`.
fn nid_in(line: &str) -> Option<Nid> {
    let is_address = |one: char| one.is_ascii_digit() || one == '.';
    let mut nids = line.match_indices('@').filter_map(|(at, _)| {
        let (before, after) = (line.get(..at)?, line.get(at + 1..)?);
        let address = before.rsplit(|one| !is_address(one)).next()?;
        let net = after
            .split(|one: char| !one.is_ascii_alphanumeric())
            .next()?;
        format!("{address}@{net}").parse().ok()
    });
    nids.next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_and_the_number_of_a_message_are_found() {
        let line = "LNetError: 11-0: req@ffff880eb14da700 o250->MGC10.0.0.1@tcp@10.0.0.2@tcp1:26/25 rc = -107 e 0";
        assert_eq!(nid_in(line).unwrap().to_string(), "10.0.0.2@tcp1");
        assert_eq!(errno_in(line), Some(107));
        assert_eq!(
            (nid_in("LNet: no node@nowhere"), errno_in("rc = 0")),
            (None, None)
        );
        let refused =
            "LNetError: Refusing connection from 10.1.0.100 for 1.2.3.4@tcp: No matching NI";
        assert_eq!(named_in(refused).unwrap().to_string(), "10.1.0.100");
        let sent = "no route to 10.2.0.2@tcp1 from 10.1.0.1@tcp";
        assert_eq!(named_in(sent).unwrap().to_string(), "10.1.0.1@tcp");
        assert_eq!(
            errno_in("Error sending GET to 12345-10.2.0.2@tcp1: -113"),
            Some(113)
        );
    }
}
