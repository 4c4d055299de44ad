//! A TCP port that is kept for those who will listen on it.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

use socket2::{Domain, Socket, Type};

/// A TCP port that the system gives to nobody else while this lives, as a source port neither.
///
/// Whoever asks for a free port, closes the socket and lets somebody listen later has lost it meanwhile.
/// This keeps a socket bound that does not listen: one that has `SO_REUSEADDR` may then be bound to the same
/// port and listen, which every listener here has, and those of `std`. The system itself chooses no port
/// that a socket is bound to.
#[derive(Debug)]
pub struct ReservedPort {
    _bound: Socket,
    number: u16,
}

impl ReservedPort {
    /// Reserves a port of the system's choice on an address, or on all with `0.0.0.0`.
    ///
    /// # Errors
    ///
    /// The system has no port left, or no such address.
    pub fn on(address: Ipv4Addr) -> io::Result<Self> {
        let bound = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        bound.bind(&SocketAddrV4::new(address, 0).into())?;
        // Only now: the choice of a port takes one that no socket has, whatever that one permits.
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

    /// The port.
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
    fn a_reserved_port_is_given_to_nobody_else() {
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
    fn nobody_answers_on_a_port_that_is_only_reserved() {
        let port = ReservedPort::on(Ipv4Addr::UNSPECIFIED).unwrap();
        let refused = TcpStream::connect((Ipv4Addr::LOCALHOST, port.number())).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}
