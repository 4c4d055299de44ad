//! The addresses of this machine's network interfaces.

use std::io;
use std::net::IpAddr;

use nix::ifaddrs::{self, getifaddrs};
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::SockaddrStorage;

/// One IP address of one network interface.
///
/// An interface with several addresses has one entry per address. An interface without an IP
/// address has none.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InterfaceAddress {
    /// Name of the interface (`eth0`), or the label of an IPv4 address if it has one (`eth0:1`).
    pub name: String,
    /// The address, without the scope that a link-local IPv6 address requires.
    pub address: IpAddr,
    /// Length of the network part in bits: 0 to 32 for IPv4, 0 to 128 for IPv6.
    pub prefix: u8,
    /// Whether the interface is up and has a carrier.
    pub up: bool,
}

impl InterfaceAddress {
    /// Returns whether `address` is in the network of this interface address.
    ///
    /// A Linux machine owns the whole loopback network: `127.0.0.7` is in the network of `lo`'s
    /// `127.0.0.1/8` although no interface lists it. In all other networks a machine owns only the
    /// listed addresses.
    ///
    /// ```
    /// use sys::InterfaceAddress;
    ///
    /// let lo = InterfaceAddress {
    ///     name: "lo".into(),
    ///     address: [127, 0, 0, 1].into(),
    ///     prefix: 8,
    ///     up: true,
    /// };
    /// assert!(lo.network_contains([127, 0, 0, 7].into()));
    /// assert!(!lo.network_contains([10, 0, 0, 7].into()));
    /// ```
    #[must_use]
    pub fn network_contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differing = (own.to_bits() ^ other.to_bits()).leading_zeros();
                differing >= u32::from(self.prefix)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differing = (own.to_bits() ^ other.to_bits()).leading_zeros();
                differing >= u32::from(self.prefix)
            }
            _ => false,
        }
    }
}

/// Returns every IPv4 and IPv6 address of this network namespace in the kernel's order: by family,
/// by interface index, then in the order of configuration.
///
/// # Errors
///
/// Errors of `getifaddrs(3)`: no memory, no netlink socket.
pub fn interface_addresses() -> io::Result<Vec<InterfaceAddress>> {
    Ok(getifaddrs()?.filter_map(ip_entry).collect())
}

/// Converts an IP entry of the list. Link-layer addresses give `None`.
fn ip_entry(entry: ifaddrs::InterfaceAddress) -> Option<InterfaceAddress> {
    let up = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING;
    Some(InterfaceAddress {
        address: ip_address(entry.address.as_ref()?)?,
        prefix: prefix_length(entry.netmask.as_ref().and_then(ip_address)),
        up: entry.flags.contains(up),
        name: entry.interface_name,
    })
}

fn ip_address(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
}

/// Returns the number of leading ones. The C library leaves out a mask of length 0.
fn prefix_length(mask: Option<IpAddr>) -> u8 {
    let bits = match mask {
        Some(IpAddr::V4(mask)) => mask.to_bits().leading_ones(),
        Some(IpAddr::V6(mask)) => mask.to_bits().leading_ones(),
        None => 0,
    };
    u8::try_from(bits).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    #[test]
    fn the_loopback_interface_is_listed_with_its_network() {
        let found = interface_addresses().unwrap();
        let lo = found.iter().find(|a| a.address == Ipv4Addr::LOCALHOST);
        let expected = InterfaceAddress {
            name: "lo".into(),
            address: Ipv4Addr::LOCALHOST.into(),
            prefix: 8,
            up: true,
        };
        assert_eq!(lo, Some(&expected), "in {found:#?}");
    }

    #[test]
    fn every_listed_address_lies_in_its_own_network() {
        for entry in interface_addresses().unwrap() {
            assert!(entry.network_contains(entry.address), "{entry:?}");
        }
    }

    #[test]
    fn an_address_outside_the_prefix_is_not_in_the_network() {
        let entry = |address: IpAddr, prefix| InterfaceAddress {
            name: "eth0".into(),
            address,
            prefix,
            up: true,
        };
        let v4 = Ipv4Addr::new(192, 0, 2, 129);
        assert!(entry(v4.into(), 25).network_contains([192, 0, 2, 254].into()));
        assert!(!entry(v4.into(), 25).network_contains([192, 0, 2, 126].into()));
        assert!(!entry(v4.into(), 32).network_contains([192, 0, 2, 128].into()));
        assert!(entry(v4.into(), 0).network_contains([10, 0, 0, 1].into()));
        let v6: Ipv6Addr = "2001:db8:0:1::5".parse().unwrap();
        assert!(entry(v6.into(), 64).network_contains("2001:db8:0:1::6".parse().unwrap()));
        assert!(!entry(v6.into(), 64).network_contains("2001:db8:0:2::5".parse().unwrap()));
        assert!(!entry(v6.into(), 0).network_contains([10, 0, 0, 1].into()));
    }
}
