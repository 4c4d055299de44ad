//! `setup-mrrouting` and `setup-sysctl`: the settings that Linux needs so that every interface answers and
//! sends only for its own address. The commands are printed and never executed, because the routes of a machine
//! are the responsibility of its administrator.
//!
//! With several interfaces in one subnet, Linux by default answers ARP for an address on any of them, and sends
//! everything through the first one. It drops a packet that arrives on another interface than the one it
//! would use to send to the packet's source.

use std::fmt::Write as _;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};

use lnet_dlc::protocol::Section;
use sys::InterfaceAddress;

use super::talk::{Failed, Talk};

/// The number of the routing table of the first interface. The other interfaces get the next numbers.
const FIRST_TABLE: usize = 101;

/// The settings of an interface: each key with the value that it needs.
const NEEDED: [(&str, &str); 3] = [
    ("rp_filter", "0"),
    ("arp_ignore", "1"),
    ("arp_announce", "2"),
];

/// An interface that LNet uses, and its address.
struct Rail {
    /// The name of the device, without the label of an address.
    device: String,
    address: IpAddr,
    prefix: u8,
    /// The gateway to everything beyond the subnet of this interface. `None`: there is no such gateway.
    gateway: Option<Ipv4Addr>,
}

/// Prints the commands that an administrator may run.
pub(super) fn mrrouting(talk: &mut Talk) -> Result<(), Failed> {
    let rails = rails(talk)?;
    super::local::print(&commands(&rails, &running))
}

/// Prints the settings as a file for sysctl.d.
pub(super) fn sysctl(talk: &mut Talk) -> Result<(), Failed> {
    let rails = rails(talk)?;
    super::local::print(&file(&rails))
}

fn rails(talk: &mut Talk) -> Result<Vec<Rail>, Failed> {
    let nets = talk.shown(Section::Net)?.nets;
    let used: Vec<IpAddr> = nets
        .iter()
        .flat_map(|net| &net.nis)
        .filter_map(|ni| ni.config.nid?.ip())
        .collect();
    let routes = fs::read_to_string("/proc/net/route").unwrap_or_default();
    let mut rails: Vec<Rail> = Vec::new();
    for own in sys::interface_addresses()? {
        let is_new = rails.iter().all(|rail| rail.address != own.address);
        if used.contains(&own.address) && !own.address.is_loopback() && is_new {
            rails.push(Rail::new(&own, &routes));
        }
    }
    Ok(rails)
}

impl Rail {
    fn new(own: &InterfaceAddress, routes: &str) -> Self {
        let device = own.name.split(':').next().unwrap_or(&own.name);
        Self {
            device: device.to_owned(),
            address: own.address,
            prefix: own.prefix,
            gateway: default_gateway(routes, device),
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

/// Returns the default gateway of this device, from the system's table of IPv4 routes.
fn default_gateway(routes: &str, device: &str) -> Option<Ipv4Addr> {
    routes.lines().skip(1).find_map(|line| {
        let mut fields = line.split_whitespace();
        let (name, to, by) = (fields.next()?, fields.next()?, fields.next()?);
        let by = u32::from_str_radix(by, 16).ok().filter(|&by| by != 0)?;
        // The table shows the bytes in the machine's order, with the first octet lowest.
        (name == device && to == "00000000").then(|| Ipv4Addr::from(by.to_le_bytes()))
    })
}

/// Returns the current value of a setting of an interface; `None` if it cannot be read.
fn running(device: &str, key: &str) -> Option<String> {
    let value = fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{device}/{key}"));
    value.ok().map(|value| value.trim().to_owned())
}

const ONE_RAIL: &str = "\
# fewer than two interfaces have addresses that LNet uses: Linux needs no more than it has
";

fn commands(rails: &[Rail], running: &dyn Fn(&str, &str) -> Option<String>) -> String {
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
    let _ = writeln!(
        text,
        "{ip} route replace {subnet}/{prefix} dev {device} src {address} table {table}"
    );
    if let Some(gateway) = gateway.filter(|_| address.is_ipv4()) {
        let _ = writeln!(
            text,
            "ip route replace default via {gateway} dev {device} table {table}"
        );
    }
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

fn file(rails: &[Rail]) -> String {
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
