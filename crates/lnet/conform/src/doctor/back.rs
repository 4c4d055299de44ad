//! Checks whether the node can connect to this machine.
//!
//! A node sends no messages on its BULK_IN. If a peer has no other connection, a ping
//! on it makes a node of Finerail dial the peer. A kernel node never dials a peer that it knows only
//! by connections of the peer, so silence proves nothing.

use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use lnet_types::{Nid, ProcessId};
use lnet_wire::{Connreq, Ctype, KsockHeader, PING_BUFFER_MIN};
use socket2::Socket;

use super::{Diagnosis, reason};
use crate::link::Link;
use crate::node::{LOOK, NodeUnderTest, listen};

/// The reaction to the ping.
enum Came {
    /// A connection that asks for this NID.
    Dialled(SocketAddr, Nid),
    /// The answer on the same connection.
    Answered,
    /// Nothing, or nothing readable, with the reason.
    Nothing(String),
}

pub(super) fn way_back(node: &NodeUnderTest, diagnosis: &mut Diagnosis) {
    let name = "way back";
    let subject = node.subject();
    let own = subject.own_address();
    let listener = match listen(own) {
        Ok(listener) => listener,
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            let why = format!("another program listens on {own} already: a node of this machine?");
            return diagnosis.untested(name, why);
        }
        Err(error) => return diagnosis.untested(name, format!("cannot listen on {own}: {error}")),
    };
    let mut probe = node.probe();
    // A node dials only peers with the process id of a node.
    probe.me.pid = ProcessId::LUSTRE_PID;
    let (header, _) = probe.ping_header(PING_BUFFER_MIN);
    let asked = probe.open(Ctype::BULK_OUT).and_then(|mut link| {
        link.send_message(KsockHeader::LNET, &header, &[])?;
        Ok(link)
    });
    let link = match asked {
        Ok(link) => link,
        Err(stop) => return diagnosis.untested(name, reason(stop)),
    };
    let deadline = Instant::now() + subject.timeout;
    match wait(&listener, &link, deadline) {
        Came::Dialled(from, target) => {
            diagnosis.saw(name, format!("the node connected from {from} to {target}"));
        }
        Came::Answered => diagnosis.untested(
            name,
            "the node answers on the existing connection: it treats this machine as a peer that it cannot dial",
        ),
        Came::Nothing(why) => diagnosis.untested(
            name,
            format!(
                "no connection of the node came to {own}: {why}. A kernel dials only peers that it was told to use: \
                 run `lnetctl ping` or `lnetctl discover` of a node at {own} there"
            ),
        ),
    }
}

fn wait(listener: &Socket, link: &Link, deadline: Instant) -> Came {
    while Instant::now() < deadline {
        match listener.accept() {
            Ok((socket, address)) => {
                let from = address.as_socket().unwrap_or(NOWHERE);
                return match target(socket.into(), deadline) {
                    Ok(target) => Came::Dialled(from, target),
                    Err(error) => {
                        Came::Nothing(format!("a connection from {from} names no NID: {error}"))
                    }
                };
            }
            Err(_) if link.is_ready() => return Came::Answered,
            Err(_) => {}
        }
    }
    Came::Nothing("none within the timeout".to_owned())
}

/// The address that stands for none in a report.
const NOWHERE: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);

/// The NID in the node's connection request.
fn target(mut stream: TcpStream, deadline: Instant) -> io::Result<Nid> {
    let mut bytes = Vec::new();
    loop {
        let needed = Connreq::needed(&bytes).map_err(io::Error::other)?;
        if needed <= bytes.len() {
            let request = Connreq::decode(&bytes).map_err(io::Error::other)?;
            return Ok(request.target);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        stream.set_read_timeout(Some(left.max(LOOK)))?;
        let mut more = vec![0; needed - bytes.len()];
        stream.read_exact(&mut more)?;
        bytes.extend(more);
    }
}
