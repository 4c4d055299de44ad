//! Names of hosts instead of addresses: `lnetctl ping HOST@tcp`.

use std::net::{IpAddr, ToSocketAddrs};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use lnet_config::machine::is_by_ip;
use lnet_types::{LndType, Net, Nid};

/// The longest wait for the addresses of a host name.
const WAIT: Duration = Duration::from_secs(5);

/// Returns the NIDs for NIDs or host names. A text that is not a host name, or has no address, is returned
/// unchanged: the node then reports the error.
pub(super) fn resolved(nids: &[String]) -> Vec<String> {
    nids.iter().map(|text| nid_of(text)).collect()
}

/// Returns the NID for the address of a host name. Any other text is returned unchanged.
pub(crate) fn nid_of(text: &str) -> String {
    match name_in(text).and_then(|(name, net)| Some((address_of(name)?, net))) {
        Some((address, net)) => format!("{address}@{net}"),
        None => text.to_owned(),
    }
}

/// Returns the NID that a text is, or the NIDs for all addresses of a host name, IPv4 first.
///
/// # Errors
///
/// The text is neither a NID nor a host name on a net of tcp or o2ib, or the name has no address, or no name server
/// answers in time.
pub(crate) fn nids_of(text: &str) -> anyhow::Result<Vec<Nid>> {
    let Some((name, net)) = name_on(text, is_by_ip) else {
        return Ok(vec![text.parse()?]);
    };
    let addresses = addresses_of(name)?.into_iter();
    Ok(addresses
        .map(|address| Nid::from_ip(net, address))
        .collect())
}

/// Splits a text into a host name and a tcp net. Returns `None` if the text is a NID, or not a host name on a
/// tcp net.
pub(crate) fn name_in(text: &str) -> Option<(&str, Net)> {
    name_on(text, |net| net.lnd == LndType::TCP)
}

fn name_on(text: &str, is_net: impl Fn(Net) -> bool) -> Option<(&str, Net)> {
    if text.parse::<Nid>().is_ok() {
        return None;
    }
    let (name, net) = text.split_once('@').unwrap_or((text, "tcp"));
    let net = net.parse().ok().filter(|net: &Net| is_net(*net))?;
    is_name(name).then_some((name, net))
}

/// Decides whether a text can be a host name: it has only letters, digits, hyphens and dots, and at least one
/// letter, so that a mistyped address does not count.
fn is_name(text: &str) -> bool {
    let of_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    text.chars().all(of_name) && text.contains(|c: char| c.is_ascii_alphabetic())
}

/// Returns an address of a host name. IPv4 comes first, because most nodes have IPv4 NIDs.
fn address_of(name: &str) -> Option<IpAddr> {
    addresses_of(name).ok()?.first().copied()
}

/// Returns the addresses of a host name, IPv4 first. There is at least one.
fn addresses_of(name: &str) -> anyhow::Result<Vec<IpAddr>> {
    let (sender, receiver) = mpsc::channel();
    let asked = name.to_owned();
    let any_port = 0;
    // The resolver has no timeout that can be chosen, so it runs in a thread of its own. A late answer finds no receiver.
    thread::spawn(move || {
        let found = (asked.as_str(), any_port).to_socket_addrs();
        sender.send(found.map(|all| all.map(|one| one.ip()).collect::<Vec<IpAddr>>()))
    });
    let Ok(found) = receiver.recv_timeout(WAIT) else {
        let seconds = WAIT.as_secs();
        bail!("no name server returned the address of {name} within {seconds} s");
    };
    let mut addresses = found.with_context(|| format!("{name} has no address"))?;
    addresses.sort();
    addresses.dedup();
    if addresses.is_empty() {
        bail!("{name} has no address");
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> String {
        nid_of(text)
    }

    #[test]
    fn a_name_becomes_the_nid_of_its_address() {
        assert_eq!(one("localhost@tcp3"), "127.0.0.1@tcp3");
        assert_eq!(one("localhost"), "127.0.0.1@tcp");
    }

    #[test]
    fn a_name_becomes_the_nids_of_all_its_addresses() {
        let nids = |text: &str| {
            let found = nids_of(text).unwrap();
            let texts: Vec<String> = found.iter().map(Nid::to_string).collect();
            texts
        };
        for (text, first) in [
            ("localhost@o2ib1", "127.0.0.1@o2ib1"),
            ("localhost@tcp", "127.0.0.1@tcp"),
            ("10.0.0.9@o2ib", "10.0.0.9@o2ib"),
        ] {
            assert_eq!(nids(text)[0], first);
        }
        // Without a name server that answers, the wait ends.
        let error = nids_of("no-such-host.invalid@tcp").unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("no-such-host.invalid has no address")
                || text.contains("address of no-such-host.invalid within 5 s"),
            "{text}"
        );
        for text in ["mgs1@gni", "a b@tcp", "10.0.0@tcp"] {
            assert!(nids_of(text).is_err(), "{text}");
        }
    }

    #[test]
    fn nids_lists_and_what_is_neither_stay_as_they_are() {
        for text in [
            "10.1.0.1@tcp",
            "10.1.0.[1-4]@tcp",
            "10.1.0@tcp",
            "localhost@o2ib",
            "localhost@nonsense",
            "a b@tcp",
            "",
        ] {
            assert_eq!(one(text), text);
        }
    }
}
