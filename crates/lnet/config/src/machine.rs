//! The interfaces of a machine: the output of `ip -j addr`, or of `ip addr`. The output of `rdma link` may follow, which
//! says which of them have an RDMA device, and the limits of a process, such as `/proc/PID/limits`.
//!
//! Unlike LNet's own outputs, this output of a node shows whether an interface exists, has a
//! carrier, or shares a subnet with another interface.

use std::net::IpAddr;

use lnet_types::{LndType, Net, Nid};
use serde::Deserialize;
use thiserror::Error;

use crate::{Config, Ip2Nets};

mod json;
mod limits;
mod text;

/// The interfaces of a machine, in the order of the system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// The interfaces.
    pub interfaces: Vec<Interface>,
    /// The network interfaces of RDMA devices, without those of InfiniBand ports; `None` if the output of `rdma link` does
    /// not follow, or names no interface for a device.
    pub rdma: Option<Vec<String>>,
    /// The bytes that the process of a node may lock (`RLIMIT_MEMLOCK`); `None` if the text states no limit.
    pub locked_memory: Option<u64>,
}

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// The parent interface, for a VLAN and the like.
    pub parent: Option<String>,
    /// The bond or bridge that the interface is a part of.
    pub master: Option<String>,
    /// True if the interface is up and has a carrier.
    pub up: bool,
    /// Bytes of its largest packet.
    pub mtu: Option<u32>,
    /// True if the interface is that of an InfiniBand or Omni-Path port.
    pub infiniband: bool,
    /// Its addresses.
    pub addresses: Vec<Address>,
}

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// Bits of its subnet's prefix.
    pub prefix: u8,
    /// The alias of the address, such as `eth0:1`.
    pub label: Option<String>,
}

/// What an interface lacks that an NI needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// The machine does not have the interface.
    Interface,
    /// The interface is down, or has no carrier.
    Link,
    /// The interface has no address of the family of the NID, which is IPv4 if the NID is not known.
    Address,
}

/// Why a text is not an output of `ip`.
#[derive(Debug, Error)]
pub enum MachineError {
    /// JSON that is not an output of `ip -j addr`; the source has the place and the reason.
    #[error("not the output of `ip -j addr`")]
    Json(#[from] serde_json::Error),
    /// One output is JSON and one is text.
    #[error("JSON and text: give `ip -j addr` and `rdma -j link`, or `ip addr` and `rdma link`")]
    Mixed,
    /// Text that shows no interface.
    #[error("neither the output of `ip -j addr` nor that of `ip addr`: it shows no interface")]
    NoInterface,
}

#[derive(Deserialize)]
struct Link {
    ifname: Option<String>,
    link: Option<String>,
    mtu: Option<u32>,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default)]
    addr_info: Vec<AddressInfo>,
    link_type: Option<String>,
    master: Option<String>,
    /// Only devices of RDMA have ports.
    port: Option<u32>,
    /// The network interface of an RDMA device.
    netdev: Option<String>,
    /// Only InfiniBand ports have a local identifier.
    lid: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct AddressInfo {
    local: Option<IpAddr>,
    prefixlen: Option<u8>,
    label: Option<String>,
}

impl Machine {
    /// Reads the output of `ip -j addr`, or of `ip addr`, also with `-d` or `-o`. The output of `rdma -j link`, or of
    /// `rdma link`, may follow, and lines with the limit of locked memory: `/proc/PID/limits`, a unit of systemd,
    /// `limits.conf` or `ulimit -a`.
    ///
    /// # Errors
    ///
    /// Text that is not such an output. For JSON, the source of the error has the place.
    pub fn parse(text: &str) -> Result<Self, MachineError> {
        let is_link = |line: &&str| line.starts_with("link ");
        let locked_memory = limits::locked_memory(text);
        if !text.trim_start().starts_with('[') {
            if text.lines().any(json::begins) {
                return Err(MachineError::Mixed);
            }
            let interfaces = text::interfaces(text);
            let rdma = text::rdma_links(text);
            return match interfaces.is_empty() {
                true => Err(MachineError::NoInterface),
                false => Ok(Self {
                    interfaces,
                    rdma,
                    locked_memory,
                }),
            };
        }
        if text.lines().any(|line| is_link(&line)) {
            return Err(MachineError::Mixed);
        }
        let mut machine = Self {
            locked_memory,
            ..Self::default()
        };
        let mut has_interfaces = false;
        let json = json::without_others(text);
        for links in serde_json::Deserializer::from_str(&json).into_iter::<Vec<Link>>() {
            let links = links?;
            let is_rdma = links.iter().any(|link| link.port.is_some());
            if is_rdma || links.is_empty() && has_interfaces {
                let devices = links
                    .into_iter()
                    .map(|link| (link.netdev, link.lid.is_some()));
                machine.rdma = interfaces_of(devices);
            } else {
                has_interfaces = true;
                machine
                    .interfaces
                    .extend(links.into_iter().filter_map(Interface::of));
            }
        }
        Ok(machine)
    }

    /// The first interface that is up and not loopback, which a network without an interface uses.
    #[must_use]
    pub fn first(&self) -> Option<&str> {
        let mut up = self
            .interfaces
            .iter()
            .filter(|one| one.up && one.name != "lo");
        up.next().map(|one| one.name.as_str())
    }

    /// Every address with the name of its interface.
    pub fn named_addresses(&self) -> impl Iterator<Item = (&str, IpAddr)> {
        self.interfaces.iter().flat_map(|one| {
            let addresses = one.addresses.iter();
            addresses.map(move |address| (one.name.as_str(), address.ip))
        })
    }

    /// Gives a configuration that names its networks by rules of `ip2nets` alone the networks that the module makes of
    /// them on this machine. A document takes fewer interfaces by its rules than the module does. If no rule applies, there
    /// are no networks, which is said where the configuration is used.
    // [CONF-55]
    pub fn resolve_as_module(&self, config: &mut Config) {
        if config.nets.is_empty() {
            let local: Vec<_> = self.named_addresses().collect();
            config.nets = Ip2Nets::nets_of_module(&config.ip2nets, &local).unwrap_or_default();
        }
    }

    /// The interface with this name, which may be the name of an alias.
    #[must_use]
    pub fn interface(&self, name: &str) -> Option<&Interface> {
        let by_name = self.interfaces.iter().find(|one| one.name == name);
        by_name.or_else(|| {
            let has = |one: &&Interface| one.addresses.iter().any(|a| a.is_called(name));
            self.interfaces.iter().find(has)
        })
    }

    /// The address of an NI on this interface: the alias's address, or the first address.
    #[must_use]
    pub fn address(&self, name: &str) -> Option<&Address> {
        let addresses = &self.interface(name)?.addresses;
        let of_alias = addresses.iter().find(|address| address.is_called(name));
        of_alias.or_else(|| addresses.iter().find(|address| address.ip.is_ipv4()))
    }

    /// What the interface under an NI lacks; `None` if the NI can work, and for networks other than tcp and o2ib, whose
    /// interfaces do not stand in the output of `ip`.
    #[must_use]
    pub fn lack(&self, net: Net, nid: Option<Nid>, name: &str) -> Option<Lack> {
        if !is_by_ip(net) {
            return None;
        }
        let Some(interface) = self.interface(name) else {
            return Some(Lack::Interface);
        };
        let has_address = match nid.and_then(Nid::ip) {
            Some(IpAddr::V6(_)) => interface.addresses.iter().any(|one| one.ip.is_ipv6()),
            _ => self.address(name).is_some(),
        };
        match (interface.up, has_address) {
            (false, _) => Some(Lack::Link),
            (true, false) => Some(Lack::Address),
            (true, true) => None,
        }
    }

    /// Returns true if an interface has no RDMA device: neither itself, nor a part of it, nor what it is on top of. False if
    /// that is not known.
    #[must_use]
    pub fn lacks_rdma(&self, name: &str) -> bool {
        let Some(rdma) = &self.rdma else {
            return false;
        };
        let has = |one: &Interface| one.infiniband || rdma.contains(&one.name);
        let mut next = self.interface(name);
        // No more steps than interfaces: a text may go in circles.
        for _ in &self.interfaces {
            let Some(interface) = next else {
                return false;
            };
            let is_part = |one: &&Interface| one.master.as_ref() == Some(&interface.name);
            if has(interface) || self.interfaces.iter().filter(is_part).any(has) {
                return false;
            }
            let Some(parent) = &interface.parent else {
                return true;
            };
            next = self.interface(parent);
        }
        false
    }

    /// What an administrator can do about an interface that lacks what an NI needs.
    #[must_use]
    pub fn advice_for(&self, lack: Lack, name: &str) -> String {
        match lack {
            Lack::Interface => self.advice_for_missing(name),
            Lack::Link => format!("ip link set {name} up, and check its cable"),
            Lack::Address => format!(
                "give {name} an address (`ip addr add`, or its DHCP client), and start LNet after it has one"
            ),
        }
    }

    /// What an administrator can do about a configured interface that the machine does not have. An address in the
    /// place of a name does not appear by waiting.
    fn advice_for_missing(&self, name: &str) -> String {
        let present: Vec<&str> = self
            .interfaces
            .iter()
            .map(|one| one.name.as_str())
            .collect();
        let present = present.join(", ");
        let address = name.split(['/', '@']).next().unwrap_or(name);
        let Ok(address) = address.parse::<IpAddr>() else {
            return format!(
                "wait for {name} before LNet is configured (boot order), or name one of: {present}"
            );
        };
        match self.named_addresses().find(|(_, ip)| *ip == address) {
            Some((interface, _)) => format!(
                "{address} is an address: name its interface instead, {interface}, because LNet finds interfaces by \
                 name"
            ),
            None => format!(
                "{address} is an address, and no interface has it: LNet finds interfaces by name, so name one of: \
                 {present}"
            ),
        }
    }

    /// The prefix length of the subnet of one of the machine's addresses.
    #[must_use]
    pub fn prefix_of(&self, ip: IpAddr) -> Option<u8> {
        let mut addresses = self.interfaces.iter().flat_map(|one| &one.addresses);
        addresses
            .find(|address| address.ip == ip)
            .map(|address| address.prefix)
    }
}

/// Returns the interfaces of RDMA devices, each of which has an interface or is an InfiniBand port; `None` if one is neither,
/// as of devices in another namespace.
fn interfaces_of(devices: impl Iterator<Item = (Option<String>, bool)>) -> Option<Vec<String>> {
    let mut named = Vec::new();
    for (interface, is_infiniband) in devices {
        match interface {
            Some(interface) => named.push(interface),
            None if is_infiniband => {}
            None => return None,
        }
    }
    Some(named)
}

impl Interface {
    fn of(link: Link) -> Option<Self> {
        let has = |flag: &str| link.flags.iter().any(|one| one == flag);
        let up = has("UP") && has("LOWER_UP");
        let addresses = link
            .addr_info
            .into_iter()
            .filter_map(|info| Some(Address::new(info.local?, info.prefixlen, info.label)));
        Some(Self {
            name: link.ifname?,
            parent: link.link,
            master: link.master,
            up,
            mtu: link.mtu,
            infiniband: link.link_type.as_deref() == Some("infiniband"),
            addresses: addresses.collect(),
        })
    }
}

impl Address {
    fn new(ip: IpAddr, prefix: Option<u8>, label: Option<String>) -> Self {
        let most = if ip.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.unwrap_or(most).min(most);
        Self { ip, prefix, label }
    }

    fn is_called(&self, name: &str) -> bool {
        self.label.as_deref() == Some(name)
    }
}

/// Returns true if the NIDs of a net are the addresses of interfaces that `ip addr` shows.
#[must_use]
pub const fn is_by_ip(net: Net) -> bool {
    matches!(net.lnd, LndType::TCP | LndType::O2IB)
}

/// Returns true if two addresses are in one subnet with this prefix length.
pub fn share_subnet(a: IpAddr, b: IpAddr, prefix: u8) -> bool {
    let bits = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => u128::from(ip.to_bits()) << 96,
        IpAddr::V6(ip) => ip.to_bits(),
    };
    let mask = u128::MAX
        .checked_shl(128 - u32::from(prefix))
        .unwrap_or_default();
    a.is_ipv4() == b.is_ipv4() && (bits(a) ^ bits(b)) & mask == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subnets_are_compared_by_their_prefix() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(share_subnet(ip("10.0.1.1"), ip("10.0.1.200"), 24));
        assert!(!share_subnet(ip("10.0.1.1"), ip("10.0.2.1"), 24));
        assert!(share_subnet(ip("10.0.1.1"), ip("10.0.2.1"), 16));
        assert!(share_subnet(ip("10.0.1.1"), ip("192.0.2.1"), 0));
        assert!(!share_subnet(ip("10.0.1.1"), ip("::1"), 0));
    }

    #[test]
    fn an_alias_is_found_with_its_own_address() {
        let text = r#"[{"ifname":"eth0","flags":["UP","LOWER_UP"],"addr_info":[
            {"local":"10.0.0.1","prefixlen":24,"label":"eth0"},
            {"local":"10.0.5.1","prefixlen":24,"label":"eth0:1"}]}]"#;
        let machine = Machine::parse(text).unwrap();
        assert_eq!(
            machine.address("eth0:1").unwrap().ip.to_string(),
            "10.0.5.1"
        );
        assert_eq!(machine.interface("eth0:1").unwrap().name, "eth0");
        assert!(machine.interface("eth1").is_none());
    }
}
