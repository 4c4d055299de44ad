//! The settings that Linux needs so that every interface answers and sends only for its own address, as text. Nothing
//! is executed, because the routes of a machine are the responsibility of its administrator.
//!
//! With several interfaces in one subnet, Linux by default answers ARP for an address on any of them, and sends
//! everything through the first one. It drops a packet that arrives on another interface than the one it
//! would use to send to the packet's source. With addresses of /32, as in clouds, everything leaves through the
//! interface of the default route.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};

use lnet_config::machine::share_subnet;
use sys::InterfaceAddress;

/// The number of the routing table of the first interface. The other interfaces get the next numbers.
const FIRST_TABLE: usize = 101;

/// The settings of an interface: each key with the value that it needs.
const NEEDED: [(&str, &str); 3] = [
    ("rp_filter", "0"),
    ("arp_ignore", "1"),
    ("arp_announce", "2"),
];

/// An interface that LNet uses, and its address.
pub(crate) struct Rail {
    /// The name of the device, without the label of an address.
    pub(crate) device: String,
    pub(crate) address: IpAddr,
    pub(crate) prefix: u8,
    /// A gateway to addresses beyond the subnet of this interface. `None`: no such gateway is known.
    pub(crate) gateway: Option<Ipv4Addr>,
}

/// Returns the rails with these addresses, each once.
pub(crate) fn of_addresses(used: &[IpAddr]) -> io::Result<Vec<Rail>> {
    let routes = fs::read_to_string("/proc/net/route").unwrap_or_default();
    let mut rails: Vec<Rail> = Vec::new();
    for own in sys::interface_addresses()? {
        let is_new = rails.iter().all(|rail| rail.address != own.address);
        if used.contains(&own.address) && !own.address.is_loopback() && is_new {
            rails.push(Rail::new(&own, &routes));
        }
    }
    share_gateways(&mut rails);
    Ok(rails)
}

/// Gives a rail without a gateway that of another rail in its subnet: often only the first interface of a subnet has a
/// default route.
fn share_gateways(rails: &mut [Rail]) {
    let known: Vec<(IpAddr, u8, Option<Ipv4Addr>)> = rails
        .iter()
        .map(|rail| (rail.address, rail.prefix, rail.gateway))
        .collect();
    for rail in rails.iter_mut().filter(|rail| rail.gateway.is_none()) {
        let same = |(address, prefix, _): &&(IpAddr, u8, Option<Ipv4Addr>)| {
            *prefix == rail.prefix && share_subnet(*address, rail.address, *prefix)
        };
        let mut others = known.iter().filter(same);
        rail.gateway = others.find_map(|(_, _, gateway)| *gateway);
    }
}

impl Rail {
    fn new(own: &InterfaceAddress, routes: &str) -> Self {
        let device = own.name.split(':').next().unwrap_or(&own.name);
        Self {
            device: device.to_owned(),
            address: own.address,
            prefix: own.prefix,
            gateway: gateway_of(routes, device),
        }
    }

    /// Returns the address of the interface's subnet.
    fn subnet(&self) -> IpAddr {
        match self.address {
            IpAddr::V4(own) => {
                let host = 32_u32.saturating_sub(self.prefix.into());
                let mask = u32::MAX.checked_shl(host).unwrap_or(0);
                IpAddr::V4((own.to_bits() & mask).into())
            }
            IpAddr::V6(own) => {
                let host = 128_u32.saturating_sub(self.prefix.into());
                let mask = u128::MAX.checked_shl(host).unwrap_or(0);
                IpAddr::V6((own.to_bits() & mask).into())
            }
        }
    }
}

/// Returns the gateway of this device, from the system's table of IPv4 routes: that of its default route, or of another
/// route. In clouds, an interface after the first one has routes by its gateway, but no default route.
fn gateway_of(routes: &str, device: &str) -> Option<Ipv4Addr> {
    let by_device = routes.lines().skip(1).filter_map(|line| {
        let mut fields = line.split_whitespace();
        let (name, to, by) = (fields.next()?, fields.next()?, fields.next()?);
        let by = u32::from_str_radix(by, 16).ok().filter(|&by| by != 0)?;
        // The table shows the bytes in the machine's order, with the first octet lowest.
        (name == device).then(|| (to == "00000000", Ipv4Addr::from(by.to_le_bytes())))
    });
    // The default route, or else the first route.
    let mut found: Vec<(bool, Ipv4Addr)> = by_device.collect();
    found.sort_by_key(|(is_default, _)| !is_default);
    found.first().map(|(_, by)| *by)
}

/// Returns the current value of a setting of an interface; `None` if it cannot be read.
pub(crate) fn running(device: &str, key: &str) -> Option<String> {
    let value = fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{device}/{key}"));
    value.ok().map(|value| value.trim().to_owned())
}

const ONE_RAIL: &str = "\
# fewer than two interfaces have addresses that LNet uses: Linux needs no more than it has
";

pub(crate) fn commands(rails: &[Rail], running: &dyn Fn(&str, &str) -> Option<String>) -> String {
    if rails.len() < 2 {
        return ONE_RAIL.to_owned();
    }
    let mut text = format!(
        "# Advice for {} interfaces; nothing was executed. Run it as root, at every boot, where the node runs.\n",
        rails.len()
    );
    // Linux uses the larger of the values for `all` and for the interface.
    setting(&mut text, "all", "rp_filter", "0", running);
    for (table, rail) in (FIRST_TABLE..).zip(rails) {
        of_rail(&mut text, rail, table, running);
    }
    text
}

fn of_rail(
    text: &mut String,
    rail: &Rail,
    table: usize,
    running: &dyn Fn(&str, &str) -> Option<String>,
) {
    let Rail {
        device,
        address,
        prefix,
        gateway,
    } = rail;
    let subnet = rail.subnet();
    let ip = if address.is_ipv4() { "ip" } else { "ip -6" };
    // Writing to a `String` cannot fail.
    let _ = writeln!(text, "# {device}: {address}/{prefix}");
    if address.is_ipv4() {
        for (key, value) in NEEDED {
            setting(text, device, key, value, running);
        }
    }
    let gateway = gateway.filter(|_| address.is_ipv4());
    let reached = match gateway {
        // An address without a subnet reaches its gateway first, and all others by the gateway.
        Some(gateway) if *prefix == 32 => format!("{gateway}/32"),
        _ => format!("{subnet}/{prefix}"),
    };
    let _ = writeln!(
        text,
        "{ip} route replace {reached} dev {device} src {address} table {table}"
    );
    let _ = match gateway {
        Some(gateway) => writeln!(
            text,
            "ip route replace default via {gateway} dev {device} table {table}"
        ),
        None => writeln!(
            text,
            "# No gateway of {device} is known. If nodes are beyond its subnet, add one, or they are reached over \
             another interface:\n# {ip} route replace default via GATEWAY dev {device} table {table}"
        ),
    };
    let _ = writeln!(text, "{ip} rule add from {address} lookup {table}");
}

fn setting(
    text: &mut String,
    device: &str,
    key: &str,
    needed: &str,
    running: &dyn Fn(&str, &str) -> Option<String>,
) {
    let is_so = running(device, key).is_some_and(|value| value == needed);
    let already = if is_so { "# already so: " } else { "" };
    // A dot in the name of a device would start a new level of the key.
    let device = device.replace('.', "/");
    let _ = writeln!(
        text,
        "{already}sysctl -w net.ipv4.conf.{device}.{key}={needed}"
    );
}

pub(crate) fn file(rails: &[Rail]) -> String {
    if rails.len() < 2 {
        return ONE_RAIL.to_owned();
    }
    let mut text = "# Advice for a file of /etc/sysctl.d; nothing was written.\n".to_owned();
    text += "net.ipv4.conf.all.rp_filter = 0\n";
    let mut devices: Vec<&str> = rails
        .iter()
        .filter(|rail| rail.address.is_ipv4())
        .map(|rail| rail.device.as_str())
        .collect();
    devices.dedup();
    for device in devices {
        let device = device.replace('.', "/");
        for (key, value) in NEEDED {
            let _ = writeln!(text, "net.ipv4.conf.{device}.{key} = {value}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTES: &str = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth1\t00000000\tFE00020A\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t0000010A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
";

    fn rail(name: &str, address: &str, prefix: u8) -> Rail {
        let own = InterfaceAddress {
            name: name.to_owned(),
            address: address.parse().unwrap(),
            prefix,
            up: true,
        };
        Rail::new(&own, ROUTES)
    }

    #[test]
    fn each_interface_gets_its_settings_a_table_and_a_rule() {
        let rails = [rail("eth0", "10.1.0.1", 24), rail("eth1:2", "10.2.0.1", 16)];
        let running = |device: &str, key: &str| {
            (device == "eth0" && key == "arp_ignore").then(|| "1".to_owned())
        };
        let expected = "\
# Advice for 2 interfaces; nothing was executed. Run it as root, at every boot, where the node runs.
sysctl -w net.ipv4.conf.all.rp_filter=0
# eth0: 10.1.0.1/24
sysctl -w net.ipv4.conf.eth0.rp_filter=0
# already so: sysctl -w net.ipv4.conf.eth0.arp_ignore=1
sysctl -w net.ipv4.conf.eth0.arp_announce=2
ip route replace 10.1.0.0/24 dev eth0 src 10.1.0.1 table 101
# No gateway of eth0 is known. If nodes are beyond its subnet, add one, or they are reached over another interface:
# ip route replace default via GATEWAY dev eth0 table 101
ip rule add from 10.1.0.1 lookup 101
# eth1: 10.2.0.1/16
sysctl -w net.ipv4.conf.eth1.rp_filter=0
sysctl -w net.ipv4.conf.eth1.arp_ignore=1
sysctl -w net.ipv4.conf.eth1.arp_announce=2
ip route replace 10.2.0.0/16 dev eth1 src 10.2.0.1 table 102
ip route replace default via 10.2.0.254 dev eth1 table 102
ip rule add from 10.2.0.1 lookup 102
";
        assert_eq!(commands(&rails, &running), expected);
    }

    #[test]
    fn an_address_without_a_subnet_gets_its_gateway_from_any_route_of_its_device() {
        let routes = "\
Iface\tDestination\tGateway \tFlags
eth0\t00000000\t0100000A\t0003
eth1\t0000010A\t0100010A\t0003
";
        let rail = |name: &str, address: &str| {
            let own = InterfaceAddress {
                name: name.to_owned(),
                address: address.parse().unwrap(),
                prefix: 32,
                up: true,
            };
            Rail::new(&own, routes)
        };
        let rails = [rail("eth0", "10.0.0.5"), rail("eth1", "10.1.0.5")];
        let text = commands(&rails, &|_, _| None);
        for line in [
            "ip route replace 10.0.0.1/32 dev eth0 src 10.0.0.5 table 101\n",
            "ip route replace 10.1.0.1/32 dev eth1 src 10.1.0.5 table 102\n",
            "ip route replace default via 10.1.0.1 dev eth1 table 102\n",
        ] {
            assert!(text.contains(line), "no {line} in {text}");
        }
    }

    #[test]
    fn a_second_interface_of_a_subnet_shares_the_gateway_of_the_first() {
        let mut rails = [rail("eth0", "10.2.0.9", 16), rail("eth1", "10.2.0.1", 16)];
        share_gateways(&mut rails);
        assert_eq!(rails[0].gateway, rails[1].gateway);
        assert_eq!(rails[0].gateway.unwrap().to_string(), "10.2.0.254");
    }

    #[test]
    fn ipv6_needs_routes_and_no_arp() {
        let rails = [
            rail("eth0.7", "fd00:a::1", 64),
            rail("eth1", "fd00:b::1", 64),
        ];
        let text = commands(&rails, &|_, _| None);
        assert!(!text.contains("arp_ignore"), "{text}");
        let route = "ip -6 route replace fd00:a::/64 dev eth0.7 src fd00:a::1 table 101";
        assert!(text.contains(route), "{text}");
    }

    #[test]
    fn one_interface_needs_nothing() {
        let rails = [rail("eth0", "10.1.0.1", 24)];
        assert_eq!(commands(&rails, &|_, _| None), ONE_RAIL);
        assert_eq!(file(&rails), ONE_RAIL);
    }

    #[test]
    fn a_file_of_sysctl_has_each_device_once() {
        let rails = [
            rail("eth0.7", "10.1.0.1", 24),
            rail("eth0.7", "10.1.0.2", 24),
        ];
        let text = file(&rails);
        assert_eq!(text.matches("eth0/7.rp_filter").count(), 1, "{text}");
    }
}
