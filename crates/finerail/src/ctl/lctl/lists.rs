//! `conn_list`, `peer_list`, `show_route`: lists in the format of `lctl` on kernel nodes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::SocketAddr;

use lnet_dlc::protocol::{ConnectionNumbers, Part, Request};
use lnet_types::{Net, Nid};

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

fn named(command: &str, net: Option<Net>) -> Result<Net, Failed> {
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
