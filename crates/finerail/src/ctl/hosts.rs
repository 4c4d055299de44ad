//! Names of hosts in place of addresses: `lnetctl ping HOST@tcp`.

use std::net::{IpAddr, ToSocketAddrs};

use lnet_types::{LndType, Net, Nid};

/// The NIDs that are meant. What is no name, or one that nobody knows, stays as it is: the node says what
/// is wrong with it.
pub(super) fn resolved(nids: &[String]) -> Vec<String> {
    nids.iter().map(|text| nid_of(text)).collect()
}

/// The NID of a name's address; the text as it is where it has no name, or one that nobody knows.
pub(crate) fn nid_of(text: &str) -> String {
    match name_in(text).and_then(|(name, net)| Some((address_of(name)?, net))) {
        Some((address, net)) => format!("{address}@{net}"),
        None => text.to_owned(),
    }
}

/// The name of a host on a tcp net, and the net, where the text is that and no NID.
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

/// Letters, digits, hyphens and dots, and not only an address that is mistyped.
fn is_name(text: &str) -> bool {
    let of_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    text.chars().all(of_name) && text.contains(|c: char| c.is_ascii_alphabetic())
}

/// IPv4 first: most nodes have their NIDs there.
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
