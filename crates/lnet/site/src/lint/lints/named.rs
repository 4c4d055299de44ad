//! What messages name: nodes, machines, and error numbers.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use lnet_types::{Net, Nid};

use super::{errnos, messages};

/// The node that a message is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Named {
    Nid(Nid),
    /// An address, as messages of the socket LND name nodes whose NID is not known yet.
    Address(Ipv4Addr),
    /// A host name in place of the address of a NID.
    Host(String),
    /// The machine that wrote the message.
    Machine(String),
    /// The machine of the log, of which the message has no name.
    ThisMachine,
    /// A node that the message does not name.
    Unnamed,
}

impl Named {
    /// Returns what a message is about.
    pub(super) fn all_in(line: &str) -> Vec<Self> {
        if let Some((_, list)) = line.split_once(LISTED) {
            let all: Vec<Self> = nids_in(list).map(Self::Nid).collect();
            if !all.is_empty() {
                return all;
            }
        }
        vec![Self::of(line)]
    }

    fn of(line: &str) -> Self {
        if let Some(node) = node_in(line) {
            return node;
        }
        let host = messages::is_of_mount(line).then(|| host_in(line)).flatten();
        let of_host = host.map(|host| Self::Host(host.to_owned()));
        let machine = || machine_in(line).map(|name| Self::Machine(name.to_owned()));
        let unnamed = match messages::is_of_kernel(line) {
            true => Self::Unnamed,
            false => Self::ThisMachine,
        };
        of_host.or_else(machine).unwrap_or(unnamed)
    }

    /// Returns the NID, which is made up for an address, or the name that stands for it; `None` for a machine.
    pub(super) fn target(&self) -> Option<String> {
        match self {
            Self::Nid(nid) => Some(nid.to_string()),
            Self::Address(address) => {
                let nid = Nid::from_ip(Net::tcp(0), IpAddr::V4(*address));
                Some(nid.to_string())
            }
            Self::Host(name) => Some(name.clone()),
            Self::Machine(_) | Self::ThisMachine | Self::Unnamed => None,
        }
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nid(nid) => write!(f, "of {nid}"),
            Self::Address(address) => write!(f, "of {address}"),
            Self::Host(name) => write!(f, "of {name}"),
            Self::Machine(name) => write!(f, "on {name}"),
            Self::ThisMachine => write!(f, "on this machine"),
            Self::Unnamed => write!(f, "of a node that the message does not name"),
        }
    }
}

/// What stands before a list of NIDs, all of which the message is about.
const LISTED: &str = "NIs in recovery (showing";

/// Returns the node that a message is about: the address behind ` from ` and in front of a port or a space, or else the
/// last NID.
fn node_in(line: &str) -> Option<Named> {
    let from = line.match_indices(" from ").find_map(|(at, word)| {
        let text = line.get(at + word.len()..)?;
        let end = text.find(|one: char| !one.is_ascii_digit() && one != '.');
        let (address, rest) = text.split_at(end.unwrap_or(text.len()));
        let is_nid = rest.starts_with('@');
        address.parse().ok().filter(|_| !is_nid)
    });
    from.map(Named::Address)
        .or_else(|| nids_in(line).last().map(Named::Nid))
}

/// Returns the NIDs of a line; the last one is that of the node that a message is about. Names of targets contain NIDs,
/// too, such as `MGC10.0.0.1@tcp@10.0.0.1@tcp`.
fn nids_in(line: &str) -> impl Iterator<Item = Nid> {
    let is_address = |one: char| one.is_ascii_digit() || one == '.';
    line.match_indices('@').filter_map(move |(at, _)| {
        let (before, after) = (line.get(..at)?, line.get(at + 1..)?);
        let address = before.rsplit(|one| !is_address(one)).next()?;
        let net = net_at(after)?;
        format!("{address}@{net}").parse().ok()
    })
}

/// Returns the name of the net at the beginning of a text.
fn net_at(text: &str) -> Option<&str> {
    text.split(|one: char| !one.is_ascii_alphanumeric()).next()
}

/// Returns the first host name with a net, such as `fs1.example.com@tcp`.
fn host_in(line: &str) -> Option<&str> {
    let is_name = |one: char| one.is_ascii_alphanumeric() || one == '.' || one == '-';
    line.match_indices('@').find_map(|(at, _)| {
        let (before, after) = (line.get(..at)?, line.get(at + 1..)?);
        let name = before.rsplit(|one| !is_name(one)).next()?;
        let net = net_at(after)?;
        net.parse::<Net>().ok()?;
        let has_letter = name.contains(|one: char| one.is_ascii_alphabetic());
        let whole = line.get(at - name.len()..=at + net.len())?;
        has_letter.then_some(whole)
    })
}

/// Returns the name of the machine in a line of a system's log: behind the time, and before the name of the program.
fn machine_in(line: &str) -> Option<&str> {
    let words: Vec<&str> = line.split_whitespace().take(5).collect();
    let of_time = |one: char| one.is_ascii_digit() || ":-+.TZ".contains(one);
    let is_time = |word: &str| {
        word.matches(':').count() >= 2 && word.chars().all(of_time) && !word.ends_with(':')
    };
    let time = words.iter().take(3).position(|word| is_time(word))?;
    let (machine, program) = (words.get(time + 1)?, words.get(time + 2)?);
    let is_name = !machine.contains([':', '[', ']', '@', '=']);
    (is_name && program.ends_with(':')).then_some(machine)
}

/// Returns the number behind `rc = -`, `rc -`, `error -` or, at the end of the line, `: -`, or that of the text at the end
/// of the line; `None` if the line has none. Numbers that `lnetctl` prints without a text are its own.
pub(super) fn errno_in(line: &str) -> Option<u32> {
    if let Some((_, last)) = line.trim_end().rsplit_once(": -")
        && let Ok(errno) = last.parse()
    {
        return Some(errno);
    }
    let by_text = || errnos::at_end(line);
    if messages::is_block(line)
        && let Some(errno) = by_text()
    {
        return Some(errno);
    }
    let before = [
        messages::RC,
        "rc -",
        "rc: -",
        "rror -",
        "MGS -",
        "err -",
        "errno: -",
    ];
    let number = before.iter().find_map(|before| {
        let (_, at) = line.split_once(before)?;
        let digits = at.split(|one: char| !one.is_ascii_digit()).next()?;
        digits.parse().ok()
    });
    number.or_else(by_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> String {
        Named::of(line).to_string()
    }

    #[test]
    fn the_node_and_the_number_of_a_message_are_found() {
        let line = "LNetError: 11-0: req@ffff880eb14da700 o250->MGC10.0.0.1@tcp@10.0.0.2@tcp1:26/25 rc = -107 e 0";
        assert_eq!(of(line), "of 10.0.0.2@tcp1");
        assert_eq!(errno_in(line), Some(107));
        let nowhere = "of a node that the message does not name";
        assert_eq!(of("LNet: no node@nowhere"), nowhere);
        assert_eq!(errno_in("rc = 0"), None);
        let refused =
            "LNetError: Refusing connection from 10.1.0.100 for 1.2.3.4@tcp: No matching NI";
        assert_eq!(of(refused), "of 10.1.0.100");
        let sent = "no route to 10.2.0.2@tcp1 from 10.1.0.1@tcp";
        assert_eq!(of(sent), "of 10.1.0.1@tcp");
        assert_eq!(
            errno_in("Error sending GET to 12345-10.2.0.2@tcp1: -113"),
            Some(113)
        );
    }

    #[test]
    fn hosts_and_machines_are_named() {
        let mount =
            "mount.lustre: mount fs-1.example.com@tcp:/fs at /mnt failed: Input/output error";
        assert_eq!(of(mount), "of fs-1.example.com@tcp");
        assert_eq!(errno_in(mount), Some(5));
        for (line, machine) in [
            ("Nov 22 07:26:53 c1 kernel: lnet: Unknown symbol a", "on c1"),
            (
                "2024-05-31T00:54:28+00:00 c2 kernel: lnet: Unknown symbol a",
                "on c2",
            ),
            (
                "[Fri May 31 00:54:28 2024] lnet: Unknown symbol a",
                "on this machine",
            ),
            (
                "modprobe: ERROR: could not insert 'lnet': Exec format error",
                "on this machine",
            ),
        ] {
            assert_eq!(of(line), machine, "{line}");
        }
    }

    #[test]
    fn the_number_of_a_request_is_that_of_its_text() {
        let block = "errno: -2 descr: \"cannot del network: No such device or address\"";
        assert_eq!(errno_in(block), Some(6));
        assert_eq!(errno_in("errno: -22 descr: \"wrong\""), Some(22));
    }
}
