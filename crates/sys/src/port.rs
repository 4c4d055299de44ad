//! A reserved TCP port, on which other sockets of the same machine can listen later.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

use socket2::{Domain, Socket, Type};

/// A TCP port that the system assigns to no other socket while this value lives, not even as a
/// source port.
///
/// A program that asks for a free port, closes the socket and starts a listener later may lose the
/// port in between. A reserved port keeps a bound socket that does not listen. Sockets with
/// `SO_REUSEADDR` may then bind the same port and listen; all listeners of this workspace and of
/// `std` have it. The system itself chooses no port to which a socket is bound.
#[derive(Debug)]
pub struct ReservedPort {
    _bound: Socket,
    number: u16,
}

impl ReservedPort {
    /// Reserves a port of the system's choice on an address, or on all addresses with `0.0.0.0`.
    ///
    /// # Errors
    ///
    /// The system has no free port, or no such address.
    pub fn on(address: Ipv4Addr) -> io::Result<Self> {
        let bound = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        bound.bind(&SocketAddrV4::new(address, 0).into())?;
        // Set after binding: the system chooses a port that no socket uses, whatever options those
        // sockets have.
        bound.set_reuse_address(true)?;
        let number = match bound.local_addr()?.as_socket() {
            Some(local) => local.port(),
            None => return Err(io::ErrorKind::InvalidData.into()),
        };
        Ok(Self {
            _bound: bound,
            number,
        })
    }

    /// The number of the port.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn others_listen_on_a_reserved_port_at_each_address() {
        let port = ReservedPort::on(Ipv4Addr::UNSPECIFIED).unwrap();
        let listen = |host| TcpListener::bind((Ipv4Addr::new(127, 0, 0, host), port.number()));
        let (first, second) = (listen(1).unwrap(), listen(2).unwrap());
        for listener in [&first, &second] {
            TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        }
        assert!(listen(1).is_err(), "one listener an address");
    }

    #[test]
    fn a_reserved_port_is_assigned_to_no_other_socket() {
        let reserved = ReservedPort::on(Ipv4Addr::UNSPECIFIED).unwrap();
        let other = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let listeners: Vec<_> = (0..200).map(|_| other()).collect();
        let ports: BTreeSet<_> = listeners
            .iter()
            .map(|listener| listener.local_addr().unwrap().port())
            .collect();
        assert!(!ports.contains(&reserved.number()));
    }

    #[test]
    fn a_port_that_is_only_reserved_accepts_no_connection() {
        let port = ReservedPort::on(Ipv4Addr::UNSPECIFIED).unwrap();
        let refused = TcpStream::connect((Ipv4Addr::LOCALHOST, port.number())).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}
