//! The text output of `ip addr`, also with `-d` and with `-o`.
//!
//! ```text
//!   2: eth0@bond0: <UP,LOWER_UP> mtu 9000 …         ip addr, ip -d addr
//!       inet 10.0.0.1/24 … scope global eth0:1
//!   2: eth0    inet 10.0.0.1/24 … eth0\ …           ip -o addr: neither flags nor MTU
//!   link mlx5_0/1 state ACTIVE … netdev eth0        rdma link
//! ```

use super::{Address, Interface, interfaces_of};

/// The interfaces in the text; empty if it is not such an output.
///
/// `ip -o addr` does not show whether an interface is up; an interface with an address counts as
/// up.
pub(super) fn interfaces(text: &str) -> Vec<Interface> {
    let mut found: Vec<Interface> = Vec::new();
    for line in text.lines() {
        match line.trim_start().split_once(": ") {
            Some((number, rest)) if is_number(number) => begin(rest, &mut found),
            _ if line.trim_start().starts_with("link/infiniband ") => {
                if let Some(interface) = found.last_mut() {
                    interface.infiniband = true;
                }
            }
            _ => {
                let address = address(line);
                if let (Some(interface), Some(address)) = (found.last_mut(), address) {
                    interface.addresses.push(address);
                }
            }
        }
    }
    found
}

/// The network interfaces of RDMA devices; `None` if the text has no output of `rdma link` or an incomplete one.
pub(super) fn rdma_links(text: &str) -> Option<Vec<String>> {
    let mut links = text
        .lines()
        .filter(|line| line.starts_with("link "))
        .peekable();
    links.peek()?;
    interfaces_of(links.map(|link| {
        let interface = word_after(link, "netdev").map(str::to_owned);
        (interface, word_after(link, "lid").is_some())
    }))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Parses the text after an interface's number: a new interface, or another address of one.
fn begin(rest: &str, found: &mut Vec<Interface>) {
    let Some((name, rest)) = rest.split_once(char::is_whitespace) else {
        return;
    };
    let full = name.strip_suffix(':');
    let (name, parent) = match full.unwrap_or(name).split_once('@') {
        // The other end of a virtual pair has only a number if it is in another namespace.
        Some((name, other)) if other == "NONE" || is_other_end(other) => (name, None),
        Some((name, parent)) => (name, Some(parent.to_owned())),
        None => (full.unwrap_or(name), None),
    };
    let is_new = full.is_some() || found.last().is_none_or(|last| last.name != name);
    if is_new {
        let flags = rest.strip_prefix('<').and_then(|rest| rest.split_once('>'));
        if full.is_some() && flags.is_none() {
            return;
        }
        let has =
            |flag: &str| flags.is_none_or(|(flags, _)| flags.split(',').any(|one| one == flag));
        found.push(Interface {
            name: name.to_owned(),
            parent,
            master: word_after(rest, "master").map(str::to_owned),
            up: has("UP") && has("LOWER_UP"),
            mtu: word_after(rest, "mtu").and_then(|mtu| mtu.parse().ok()),
            infiniband: false,
            addresses: Vec::new(),
        });
    }
    if let (Some(interface), Some(address)) = (found.last_mut(), address(rest)) {
        interface.addresses.push(address);
    }
}

fn is_other_end(name: &str) -> bool {
    name.strip_prefix("if").is_some_and(is_number)
}

fn word_after<'t>(line: &'t str, key: &str) -> Option<&'t str> {
    let mut words = line.split_ascii_whitespace();
    words.find(|word| *word == key)?;
    words.next()
}

/// The address in a line that begins with `inet` or `inet6`.
fn address(line: &str) -> Option<Address> {
    let line = line.split('\\').next().unwrap_or(line);
    let mut words = line.split_ascii_whitespace();
    let family = words.next()?;
    if family != "inet" && family != "inet6" {
        return None;
    }
    let own = words.next()?;
    // With a peer address, the prefix follows the peer's address: `inet 10.0.0.1 peer 10.0.0.2/32`.
    let prefixed = word_after(line, "peer").unwrap_or(own);
    let ip = own.split('/').next()?.parse().ok()?;
    let prefix = prefixed
        .split_once('/')
        .and_then(|(_, bits)| bits.parse().ok());
    let label = words.last().filter(|_| family == "inet");
    Some(Address::new(ip, prefix, label.map(str::to_owned)))
}

#[cfg(test)]
mod tests {
    use super::super::Machine;

    const ADDR: &str = "\
1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN group default qlen 1000
    link/loopback 00:00:00:00:00:00 brd 00:00:00:00:00:00
    inet 127.0.0.1/8 scope host lo
       valid_lft forever preferred_lft forever
2: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc mq state UP group default qlen 1000
    link/ether 02:00:17:0a:4c:1e brd ff:ff:ff:ff:ff:ff
    inet 10.0.0.1/24 brd 10.0.0.255 scope global dynamic noprefixroute eth0
       valid_lft 71543sec preferred_lft 71543sec
    inet 10.0.5.1/24 scope global secondary eth0:1
       valid_lft forever preferred_lft forever
    inet6 fe80::17ff:fe0a:4c1e/64 scope link noprefixroute 
       valid_lft forever preferred_lft forever
3: eth1: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 1500 qdisc mq state DOWN group default qlen 1000
    link/ether 02:00:17:0a:4c:1f brd ff:ff:ff:ff:ff:ff
4: eth0.7@eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc noqueue state UP
5: veth1@if6: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc noqueue state UP
6: tun0: <POINTOPOINT,UP,LOWER_UP> mtu 1400 qdisc noqueue state UNKNOWN
    inet 10.9.0.1 peer 10.9.0.2/32 scope global tun0
";

    const ADDR_JSON: &str = r#"[
        {"ifname":"lo","mtu":65536,"flags":["LOOPBACK","UP","LOWER_UP"],
         "addr_info":[{"local":"127.0.0.1","prefixlen":8,"label":"lo"}]},
        {"ifname":"eth0","mtu":9000,"flags":["BROADCAST","MULTICAST","UP","LOWER_UP"],
         "addr_info":[{"local":"10.0.0.1","prefixlen":24,"label":"eth0"},
                      {"local":"10.0.5.1","prefixlen":24,"label":"eth0:1"},
                      {"local":"fe80::17ff:fe0a:4c1e","prefixlen":64}]},
        {"ifname":"eth1","mtu":1500,"flags":["NO-CARRIER","BROADCAST","MULTICAST","UP"],"addr_info":[]},
        {"ifname":"eth0.7","link":"eth0","mtu":9000,"flags":["UP","LOWER_UP"],"addr_info":[]},
        {"ifname":"veth1","link_index":6,"mtu":1500,"flags":["UP","LOWER_UP"],"addr_info":[]},
        {"ifname":"tun0","mtu":1400,"flags":["UP","LOWER_UP"],
         "addr_info":[{"local":"10.9.0.1","address":"10.9.0.2","prefixlen":32,"label":"tun0"}]}]"#;

    #[test]
    fn what_people_read_says_the_same_as_json() {
        assert_eq!(
            Machine::parse(ADDR).unwrap(),
            Machine::parse(ADDR_JSON).unwrap()
        );
    }

    #[test]
    fn one_line_an_address_says_which_addresses_there_are() {
        let text = "\
1: lo    inet 127.0.0.1/8 scope host lo\\       valid_lft forever preferred_lft forever
2: eth0    inet 10.0.0.1/24 brd 10.0.0.255 scope global eth0\\       valid_lft forever preferred_lft forever
2: eth0    inet 10.0.5.1/24 scope global secondary eth0:1\\       valid_lft forever preferred_lft forever
2: eth0    inet6 fe80::1/64 scope link \\       valid_lft forever preferred_lft forever
";
        let machine = Machine::parse(text).unwrap();
        assert_eq!(machine.interfaces.len(), 2);
        assert_eq!(machine.interfaces[1].addresses.len(), 3);
        assert_eq!(
            machine.address("eth0:1").unwrap().ip.to_string(),
            "10.0.5.1"
        );
        assert!(machine.interfaces[1].up);
        assert_eq!(machine.interfaces[1].mtu, None);
    }

    /// Lines behind [`ADDR`], and what `rdma link` says.
    const MORE: &str = "\
7: ib0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 2044 qdisc mq state UP
    link/infiniband 80:00:00:02 brd 00:ff:ff:ff
8: eth2: <BROADCAST,MULTICAST,SLAVE,UP,LOWER_UP> mtu 9000 qdisc mq master bond0 state UP
9: bond0: <BROADCAST,MULTICAST,MASTER,UP,LOWER_UP> mtu 9000 qdisc noqueue state UP
10: bond0.7@bond0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc noqueue state UP
";
    const LINKS: &str = "\
link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev eth0 netdev_index 2
link mlx5_bond_0/1 state ACTIVE physical_state LINK_UP netdev eth2 netdev_index 8
link mlx5_1/1 subnet_prefix fe80:0000 lid 13 sm_lid 49 lmc 0 state ACTIVE physical_state LINK_UP
";
    const MORE_JSON: &str = r#",
        {"ifname":"ib0","mtu":2044,"flags":["UP","LOWER_UP"],"link_type":"infiniband","addr_info":[]},
        {"ifname":"eth2","mtu":9000,"flags":["UP","LOWER_UP"],"master":"bond0","addr_info":[]},
        {"ifname":"bond0","mtu":9000,"flags":["UP","LOWER_UP"],"addr_info":[]},
        {"ifname":"bond0.7","link":"bond0","mtu":9000,"flags":["UP","LOWER_UP"],"addr_info":[]}]"#;
    const LINKS_JSON: &str = r#"[
        {"ifindex":0,"ifname":"mlx5_0","port":1,"state":"ACTIVE","netdev":"eth0","netdev_index":2},
        {"ifindex":1,"ifname":"mlx5_bond_0","port":1,"state":"ACTIVE","netdev":"eth2","netdev_index":8},
        {"ifindex":2,"ifname":"mlx5_1","port":1,"lid":13,"sm_lid":49,"lmc":0,"state":"ACTIVE"}]"#;

    #[test]
    fn devices_beside_the_interfaces_are_read_in_both_forms() {
        let machine = Machine::parse(&format!("{ADDR}{MORE}{LINKS}")).unwrap();
        let addresses = ADDR_JSON.trim_end_matches(']').to_owned() + MORE_JSON;
        for json in [
            format!("{addresses}{LINKS_JSON}"),
            format!("{LINKS_JSON}{addresses}"),
        ] {
            assert_eq!(machine, Machine::parse(&json).unwrap());
        }
        let all = machine.interfaces.iter().map(|one| one.name.as_str());
        let lacking = all.chain(["eth0:1", "none"]);
        let lacking = lacking.filter(|name| machine.lacks_rdma(name));
        assert_eq!(lacking.collect::<Vec<_>>(), ["lo", "eth1", "veth1", "tun0"]);
    }

    #[test]
    fn devices_that_are_not_known_are_not_taken_for_missing_ones() {
        assert!(!Machine::parse(ADDR).unwrap().lacks_rdma("eth1"));
        let elsewhere = "link mlx5_0/1 state ACTIVE physical_state LINK_UP\n";
        let machine = Machine::parse(&format!("{ADDR}{elsewhere}")).unwrap();
        assert!(!machine.lacks_rdma("eth1"));
        let none = Machine::parse(&format!("{ADDR_JSON}\n[]")).unwrap();
        assert!(none.lacks_rdma("eth0"));
        let circle = "1: a@b: <UP> mtu 1\n2: b@a: <UP> mtu 1\nlink x/1 netdev c\n";
        assert!(!Machine::parse(circle).unwrap().lacks_rdma("a"));
        for mixed in [
            format!("{ADDR}{LINKS_JSON}"),
            format!("{ADDR_JSON}\n{LINKS}"),
        ] {
            let error = Machine::parse(&mixed).unwrap_err().to_string();
            assert!(error.starts_with("JSON and text"), "{error}");
        }
        assert!(Machine::parse(&format!("{ADDR_JSON}[")).is_err());
    }

    #[test]
    fn other_text_is_rejected() {
        for text in [
            "",
            "net:\n- net type: tcp\n",
            "1: eth0:",
            "1: ",
            "[",
            "-1: x: <UP> mtu 1",
        ] {
            assert!(Machine::parse(text).is_err(), "{text}");
        }
    }
}
