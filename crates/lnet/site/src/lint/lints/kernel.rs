//! What messages of kernel nodes mean: a log instead of a configuration.
//!
//! The kinds of messages and their meaning come from administrators' public reports.

use std::collections::BTreeMap;

use lnet_types::{LndType, Nid};

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

/// The kinds of messages. The first one that fits a line counts.
const KINDS: [Kind; 26] = [
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

/// The messages of one kind about one node.
struct Seen {
    line: usize,
    count: usize,
    errno: Option<u32>,
}

/// Reports each kind of message, once for each node that the messages name.
pub(super) fn kernel_message(node: &Node<'_>) -> Vec<Finding> {
    let mut seen: BTreeMap<(usize, Option<Nid>), Seen> = BTreeMap::new();
    for (text, line) in node.source.log().zip(1..) {
        let kind = KINDS.iter().position(|kind| text.contains(kind.has));
        let Some(kind) = kind.filter(|_| is_message(text)) else {
            continue;
        };
        let one = seen.entry((kind, nid_in(text))).or_insert(Seen {
            line,
            count: 0,
            errno: errno_in(text),
        });
        one.count += 1;
    }
    let told = seen.into_iter().filter_map(|((kind, nid), seen)| {
        let kind = KINDS.get(kind)?;
        let name = nid.map_or("a node that the message does not name".to_owned(), |nid| {
            nid.to_string()
        });
        let errno = seen.errno.map(errno_text).unwrap_or_default();
        let what = match (kind.has, seen.errno) {
            (RC, Some(errno)) => format!("{RC}{errno}"),
            (has, _) => has.to_owned(),
        };
        let times = match seen.count {
            1 => "once".to_owned(),
            count => format!("{count} times"),
        };
        let reason = format!("'{what}', {times}, of {name}: {}{errno}", kind.means);
        let fix = match nid {
            Some(nid) if nid.net().lnd == LndType::TCP => {
                kind.next.replace("NID", &nid.to_string())
            }
            Some(nid) => kind
                .next
                .replace(PING, "lnetctl ping NID")
                .replace("NID", &nid.to_string()),
            None => kind.next.to_owned(),
        };
        let made = node.finding(&KERNEL_MESSAGE, &[], reason, fix);
        Some(Finding {
            line: seen.line,
            column: 1,
            ..made
        })
    });
    told.collect()
}

fn errno_text(errno: u32) -> String {
    let known = ERRNOS.iter().find(|(number, _)| *number == errno);
    known.map_or(format!(" (-{errno})"), |(_, text)| {
        format!(" (-{errno} {text})")
    })
}

/// Returns the number behind `rc = -`, `rc -` or `error -`; `None` if the line has none.
fn errno_in(line: &str) -> Option<u32> {
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
    }
}
