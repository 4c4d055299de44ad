//! What messages name: nodes, machines, and error numbers.

use std::fmt;
use std::net::IpAddr;

use lnet_types::{Net, Nid};

use super::{errnos, messages};

/// The node that a message is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Named {
    Nid(Nid),
    /// An address, as messages of the socket LND name nodes whose NID is not known yet.
    Address(IpAddr),
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
                let nid = Nid::from_ip(Net::tcp(0), *address);
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

/// What stands before the NID that a message is about, although another NID follows: that of the sender.
const LED_TO: [&str; 2] = ["no route to ", "No route to "];

/// Returns the node that a message is about: the one that no route leads to, or the address behind ` from ` and in front
/// of a port or a space, or else the last NID.
fn node_in(line: &str) -> Option<Named> {
    let led_to = LED_TO.iter().find_map(|words| {
        let (_, text) = line.split_once(words)?;
        nids_in(text).next()
    });
    if let Some(nid) = led_to {
        return Some(Named::Nid(nid));
    }
    let from = line.match_indices(" from ").find_map(|(at, word)| {
        let text = line.get(at + word.len()..)?;
        let end = text.find(|one| !in_address(one));
        let (address, rest) = text.split_at(end.unwrap_or(text.len()));
        let without_port = || address.split(':').next()?.parse().ok();
        let address = address.parse().ok().or_else(without_port)?;
        (!rest.starts_with('@')).then_some(Named::Address(address))
    });
    from.or_else(|| nids_in(line).last().map(Named::Nid))
}

/// Returns true for the characters of addresses of both families.
fn in_address(one: char) -> bool {
    one.is_ascii_hexdigit() || one == '.' || one == ':'
}

/// Returns true if the source of a mount names a server by a NID, or by a host name with a net in front of a path.
pub(super) fn is_source(text: &str) -> bool {
    let is_host = || text.contains(":/") && host_in(text).is_some();
    nids_in(text).next().is_some() || is_host()
}

/// Returns the NIDs of a line; the last one is that of the node that a message is about. Names of targets contain NIDs,
/// too, such as `MGC10.0.0.1@tcp@10.0.0.1@tcp`.
fn nids_in(line: &str) -> impl Iterator<Item = Nid> {
    line.match_indices('@').filter_map(move |(at, _)| {
        let (before, after) = (line.get(..at)?, line.get(at + 1..)?);
        let net: Net = net_at(after)?.parse().ok()?;
        nid_of_six(before, net).or_else(|| nid_of_four(before, net))
    })
}

/// Returns the NID with the IPv6 address at the end of a text. The `C` of a name such as `MGCfd00::1@tcp` is no digit.
fn nid_of_six(text: &str, net: Net) -> Option<Nid> {
    let address = text.rsplit(|one| !in_address(one)).next()?;
    let before = text.strip_suffix(address)?;
    let shorter = match before.ends_with("MG") {
        true => address.strip_prefix('C'),
        false => address.strip_prefix(':'),
    };
    let is_part = before.ends_with('_');
    let is_six = address.matches(':').count() >= 2 && !is_part;
    let addresses = [Some(address), shorter].into_iter().flatten();
    let mut addresses = addresses.filter(|_| is_six);
    addresses.find_map(|address| format!("{address}@{net}").parse().ok())
}

/// Returns the NID with the IPv4 address or the number at the end of a text. What ends a name or a longer address is none.
fn nid_of_four(text: &str, net: Net) -> Option<Nid> {
    let is_address = |one: char| one.is_ascii_digit() || one == '.';
    let address = text.rsplit(|one| !is_address(one)).next()?;
    let before = text.strip_suffix(address)?;
    let ends_name = before.ends_with(|one: char| one.is_ascii_alphanumeric());
    let ends_address = before.ends_with(':') && colons_before(text) >= 2;
    let is_number = !address.contains('.');
    let is_part = before.ends_with('_') || is_number && (ends_name || ends_address);
    match is_part {
        true => None,
        false => format!("{address}@{net}").parse().ok(),
    }
}

/// Returns how many colons the word at the end of a text has: two and more stand in addresses only.
fn colons_before(text: &str) -> usize {
    let in_word = |one: char| in_name(one) || one == ':';
    let word = text.rsplit(|one| !in_word(one)).next();
    word.map_or(0, |word| word.matches(':').count())
}

/// Returns the name of the net at the beginning of a text.
fn net_at(text: &str) -> Option<&str> {
    text.split(|one: char| !one.is_ascii_alphanumeric()).next()
}

/// Returns true for the characters of host names.
fn in_name(one: char) -> bool {
    one.is_ascii_alphanumeric() || "._-".contains(one)
}

/// Returns the first host name with a net, such as `fs1.example.com@tcp`. What ends an address is no name.
fn host_in(line: &str) -> Option<&str> {
    line.match_indices('@').find_map(|(at, _)| {
        let (before, after) = (line.get(..at)?, line.get(at + 1..)?);
        let name = before.rsplit(|one| !in_name(one)).next()?;
        let is_zone = before.strip_suffix(name)?.ends_with('%');
        let net = net_at(after)?;
        net.parse::<Net>().ok()?;
        let has_letter = name.contains(|one: char| one.is_ascii_alphabetic());
        let whole = line.get(at - name.len()..=at + net.len())?;
        (has_letter && !is_zone && colons_before(before) < 2).then_some(whole)
    })
}

/// Returns the name of the machine in a line of a system's log: behind the time, and before the name of the program.
pub(super) fn machine_in(line: &str) -> Option<&str> {
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
/// of the line; `None` if the line has none, or one that no error has. Numbers that `lnetctl` prints without a text are its
/// own.
pub(super) fn errno_in(line: &str) -> Option<u32> {
    number_in(line).filter(|number| (1..=errnos::MAX).contains(number))
}

fn number_in(line: &str) -> Option<u32> {
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
        assert_eq!(of(sent), "of 10.2.0.2@tcp1");
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
    fn names_and_addresses_are_taken_whole_or_not_at_all() {
        let mount = |source: &str| {
            format!("mount.lustre: mount {source}:/fs at /mnt failed: Connection timed out")
        };
        for (source, named) in [
            ("fd00::ab@tcp", "of fd00::ab@tcp"),
            ("fd00::12@tcp", "of fd00::12@tcp"),
            ("10.0.0.1@tcp:fd00::ab@tcp", "of fd00::ab@tcp"),
            ("10.0.0.1@tcp:10.0.0.2@tcp", "of 10.0.0.2@tcp"),
            ("mgs1@tcp:mgs2@tcp", "of mgs1@tcp"),
            ("lustre_mgs@tcp", "of lustre_mgs@tcp"),
            ("mgs_1@tcp", "of mgs_1@tcp"),
            ("mgs_1@gni", "of mgs_1@gni"),
            ("mgs1@gni", "of mgs1@gni"),
            ("mgs_10.0.0.1@tcp", "of mgs_10.0.0.1@tcp"),
            ("17@gni:18@gni", "of 18@gni"),
            ("fe80::ab%eth0@tcp", "on this machine"),
            ("fd00::ab::cd@tcp", "on this machine"),
        ] {
            assert_eq!(of(&mount(source)), named, "{source}");
        }
        let refused = "LNetError: Refusing connection from";
        for (line, named) in [
            (
                "LNetError: o250->MGCfd00::1@tcp@fd00::2@tcp:26/25",
                "of fd00::2@tcp",
            ),
            ("LustreError: MGCfd00::1@tcp: failed", "of fd00::1@tcp"),
            (
                "LNet: No route to 12345-10.0.0.1@tcp via 10.0.0.2@tcp",
                "of 10.0.0.1@tcp",
            ),
            (&format!("{refused} fd00::9 for fd00::1@tcp"), "of fd00::9"),
            (
                &format!("{refused} 10.0.0.9:1023 for 10.0.0.1@tcp"),
                "of 10.0.0.9",
            ),
            ("LNetError: gone from 10.0.0.9@tcp", "of 10.0.0.9@tcp"),
        ] {
            assert_eq!(of(line), named, "{line}");
        }
    }

    #[test]
    fn the_number_of_a_request_is_that_of_its_text() {
        let block = "errno: -2 descr: \"cannot del network: No such device or address\"";
        assert_eq!(errno_in(block), Some(6));
        assert_eq!(errno_in("errno: -22 descr: \"wrong\""), Some(22));
        assert_eq!(errno_in("rc = -4095"), Some(4095));
        assert_eq!(errno_in("rc = -4096"), None);
        assert_eq!(errno_in("failed: -99999"), None);
    }
}
