//! Names of hosts instead of addresses: `lnetctl ping HOST@tcp`.

use std::net::{IpAddr, ToSocketAddrs};

use lnet_types::{LndType, Net, Nid};

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

/// Splits a text into a host name and a tcp net. Returns `None` if the text is a NID, or not a host name on a
/// tcp net.
pub(crate) fn name_in(text: &str) -> Option<(&str, Net)> {
    if text.parse::<Nid>().is_ok() {
        return None;
    }
    let (name, net) = text.split_once('@').unwrap_or((text, "tcp"));
    let net = net
        .parse()
        .ok()
        .filter(|net: &Net| net.lnd == LndType::TCP)?;
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
    let any_port = 0;
    let found = (name, any_port).to_socket_addrs().ok()?;
    let mut addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    addresses.sort();
    addresses.first().copied()
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
