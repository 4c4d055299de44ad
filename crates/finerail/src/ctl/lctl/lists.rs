//! `conn_list`, `peer_list`, `show_route`: lists in the format of `lctl` on kernel nodes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};

use lnet_dlc::protocol::{ConnectionNumbers, Part, Request, Section};
use lnet_types::{Net, Nid};
use sys::interface_addresses;

use super::{INVALID, line};
use crate::ctl::talk::{Failed, Talk};

/// The port of an acceptor. `peer_list` prints it for peers without a connection.
const ACCEPTOR_PORT: u16 = 988;

pub(super) fn connections(net: Option<Net>, talk: &mut Talk) -> Result<(), Failed> {
    let net = named("conn_list", net)?;
    let mut text = String::new();
    for open in open_on(net, talk)? {
        let id = format!("{}-{}", open.pid, open.peer);
        let (local, remote) = (address(&open.local), &open.remote);
        let (send, receive) = (open.send_buffer, open.receive_buffer);
        let letter = letter(open.ctype);
        // `[0]` is the CPU partition of the connection: a node here has only one partition.
        let _done = writeln!(
            text,
            "{id:<20} {letter}[0]{local}->{remote} {send}/{receive} nonagle"
        );
    }
    if text.is_empty() {
        "<no connections>\n".clone_into(&mut text);
    }
    Ok(io::stdout().write_all(text.as_bytes())?)
}

pub(super) fn peers(net: Option<Net>, talk: &mut Talk) -> Result<(), Failed> {
    let net = named("peer_list", net)?;
    let mut known: BTreeMap<Nid, Vec<ConnectionNumbers>> = BTreeMap::new();
    for open in open_on(net, talk)? {
        if let Ok(peer) = open.peer.parse() {
            known.entry(peer).or_default().push(open);
        }
    }
    for part in parts(&Request::Numbers, talk)? {
        let Part::PeerNis(nis) = part else { continue };
        let nids = nis.iter().filter_map(|ni| ni.nid.parse::<Nid>().ok());
        for nid in nids.filter(|nid| nid.net() == net) {
            known.entry(nid).or_default();
        }
    }
    let mut text = String::new();
    for (nid, open) in known {
        let id = format!("12345-{nid}");
        // If only the peer dialled, `lctl` prints no addresses.
        let dialled = open.iter().find(|open| open.dialled);
        let (dialled, way) = match (dialled, open.first()) {
            (Some(open), _) => (1, format!("{}->{}", address(&open.local), open.remote)),
            (None, Some(_)) => (0, "0.0.0.0->0.0.0.0:0".to_owned()),
            (None, None) => (1, format!("0.0.0.0->{}:{ACCEPTOR_PORT}", host(&nid))),
        };
        let ours = open.iter().filter(|open| open.dialled).count();
        let _done = writeln!(text, "{id:<20} [{dialled}]{way} #{ours}");
    }
    if text.is_empty() {
        "<no peers>\n".clone_into(&mut text);
    }
    Ok(io::stdout().write_all(text.as_bytes())?)
}

/// Prints the address of each interface of a network with its netmask, the number of the peers that it talks to, and
/// that of the routes through its network.
pub(super) fn interfaces(net: Option<Net>, talk: &mut Talk) -> Result<(), Failed> {
    let net = named("interface_list", net)?;
    let nets = talk.shown(Section::Net)?.nets;
    let routes = talk.shown(Section::Route)?.routes;
    let routes = routes.iter().filter(|route| route.gateway.net() == net);
    let routes = routes.count();
    let open = open_on(net, talk)?;
    let nis = nets
        .iter()
        .filter(|one| one.net == net)
        .flat_map(|net| &net.nis);
    let mut text = String::new();
    for nid in nis.filter_map(|ni| ni.config.nid) {
        let host = host(&nid);
        let mask = host
            .parse()
            .ok()
            .and_then(netmask)
            .unwrap_or(Ipv4Addr::BROADCAST);
        let mut peers: Vec<&str> = open
            .iter()
            .filter(|open| address(&open.local) == host)
            .map(|open| open.peer.as_str())
            .collect();
        peers.sort_unstable();
        peers.dedup();
        let peers = peers.len();
        let _done = writeln!(
            text,
            "{host}: ({host}/{mask}) npeer {peers} nroute {routes}"
        );
    }
    if text.is_empty() {
        "<no interfaces>\n".clone_into(&mut text);
    }
    Ok(io::stdout().write_all(text.as_bytes())?)
}

/// Returns the netmask of the IPv4 interface that has this address.
fn netmask(address: Ipv4Addr) -> Option<Ipv4Addr> {
    let own = interface_addresses().ok()?;
    let own = own.into_iter().find(|own| own.address == address)?;
    let host_bits = 32_u32.saturating_sub(own.prefix.into());
    Some(u32::MAX.checked_shl(host_bits).unwrap_or(0).into())
}

pub(super) fn routes(talk: &mut Talk) -> Result<(), Failed> {
    let mut text = String::new();
    for part in parts(&Request::Numbers, talk)? {
        let Part::Routes(routes) = part else { continue };
        for route in routes {
            let (net, gateway, priority) = (route.net, route.gateway, route.priority);
            // Kernels print undefined hops as the largest number.
            let hops = route.hops.unwrap_or(u32::MAX);
            let state = if route.up { "up" } else { "down" };
            let _done = writeln!(
                text,
                "net {net:>18} hops {hops} gw {gateway:>32} {state} pri {priority}"
            );
        }
    }
    Ok(io::stdout().write_all(text.as_bytes())?)
}

pub(super) fn named(command: &str, net: Option<Net>) -> Result<Net, Failed> {
    net.ok_or_else(|| {
        line(
            format!("{command} needs a network: lctl --net tcp {command}"),
            INVALID,
        )
    })
}

fn open_on(net: Net, talk: &mut Talk) -> Result<Vec<ConnectionNumbers>, Failed> {
    let mut open = Vec::new();
    for part in parts(&Request::Connections, talk)? {
        if let Part::Connections(page) = part {
            open.extend(page);
        }
    }
    open.retain(|open| open.peer.parse::<Nid>().is_ok_and(|nid| nid.net() == net));
    open.sort_by(|one, other| (&one.peer, &one.remote).cmp(&(&other.peer, &other.remote)));
    Ok(open)
}

fn parts(request: &Request, talk: &mut Talk) -> Result<Vec<Part>, Failed> {
    let mut parts = Vec::new();
    talk.dlc()?
        .request_pieces(request, |piece| parts.push(Part::from_text(piece)))?;
    let read: Result<Vec<Part>, _> = parts.into_iter().collect();
    read.map_err(|error| Failed::plain(&format!("the node's answer cannot be read: {error}")))
}

/// Returns the part of a NID before the `@`.
fn host(nid: &Nid) -> String {
    let text = nid.to_string();
    text.split_once('@')
        .map_or(text.clone(), |(host, _)| host.to_owned())
}

/// Returns the address of one end of a connection, without the port.
fn address(end: &str) -> String {
    let parsed: Result<SocketAddr, _> = end.parse();
    parsed.map_or_else(|_| end.to_owned(), |end| end.ip().to_string())
}

/// Returns the letter of the connection's type: control, bulk in, bulk out, or any.
const fn letter(ctype: u32) -> char {
    match ctype {
        1 => 'C',
        2 => 'I',
        3 => 'O',
        _ => 'A',
    }
}
