//! The network of TCP sockets: listens, dials, and sets the options of every connection.
//!
//! This file uses the operating system and knows nothing of the protocol.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

use mio::event::Event;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use sys::{Gather, Pipe, Scatter};

use crate::config::{SocklndConfig, SourcePorts};
use crate::error::AddNiError;
use crate::network::{Network, Readiness, Stream};
use crate::stats::DialFailure;

/// The source ports that peers with `accept=secure` accept, tried from the highest down.
// [CONN-2]
const PRIVILEGED_SOURCE_PORTS: std::ops::RangeInclusive<u16> = 512..=1023;

/// The TCP keepalive of every connection.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_COUNT: u32 = 5;

/// The longest pause between two attempts of TCP to send the same bytes: a peer that returns after an interruption is
/// reached within this time, if its connection still stands. Kernel nodes have the limit of TCP, two minutes.
const RESEND_PAUSE: Duration = Duration::from_secs(2);

/// TCP itself ends a connection only after this time: it counts attempts, of which there are more with short pauses.
/// The LND's own timeout is shorter.
const LAST_ATTEMPT: Duration = Duration::from_secs(150);

/// Sockets whose readiness one [`mio::Poll`] reports.
#[derive(Debug)]
pub struct Sockets {
    registry: Registry,
    first_token: usize,
}

impl Sockets {
    /// Makes a network that registers its sockets with `registry`, under tokens from `first_token` upwards.
    #[must_use]
    pub const fn new(registry: Registry, first_token: usize) -> Self {
        Self {
            registry,
            first_token,
        }
    }

    /// Returns the slot and the readiness of an event, for [`crate::Socklnd::ready`]; `None` if its token is below
    /// the first one.
    #[must_use]
    pub fn readiness(event: &Event, first_token: usize) -> Option<(usize, Readiness)> {
        let slot = event.token().0.checked_sub(first_token)?;
        let closed = event.is_read_closed() || event.is_error();
        let readiness = Readiness {
            readable: event.is_readable() || closed,
            writable: event.is_writable(),
            closed,
        };
        Some((slot, readiness))
    }

    fn register(&self, slot: usize, socket: &impl AsRawFd, interest: Interest) -> io::Result<()> {
        let token = Token(self.first_token + slot);
        self.registry
            .register(&mut SourceFd(&socket.as_raw_fd()), token, interest)
    }

    fn deregister(&self, socket: &impl AsRawFd) {
        // A socket that cannot be deregistered is closed a moment later, which has the same effect.
        let _ = self.registry.deregister(&mut SourceFd(&socket.as_raw_fd()));
    }
}

impl Network for Sockets {
    type Stream = TcpStream;
    type Listener = TcpListener;

    fn listen(
        &mut self,
        slot: usize,
        address: IpAddr,
        config: &SocklndConfig,
    ) -> Result<TcpListener, AddNiError> {
        let listener = listen(address, config)?;
        self.register(slot, &listener, Interest::READABLE)
            .map_err(|source| AddNiError::Listen {
                address,
                port: config.port,
                source,
            })?;
        Ok(listener)
    }

    fn probe(&mut self, address: IpAddr, config: &SocklndConfig) -> Result<(), AddNiError> {
        probe(address, config)
    }

    fn accept(&mut self, listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, remote) = listener.accept()?;
        stream.set_nonblocking(true)?;
        Ok((stream, remote))
    }

    fn admit(&mut self, slot: usize, stream: &TcpStream) -> io::Result<()> {
        set_options(stream)?;
        self.register(slot, stream, Interest::READABLE | Interest::WRITABLE)
    }

    fn dial(
        &mut self,
        slot: usize,
        local: IpAddr,
        remote: SocketAddr,
        tos: Option<u8>,
        config: &SocklndConfig,
    ) -> Result<TcpStream, DialFailure> {
        let stream = dial(local, remote, tos, config)?;
        self.register(slot, &stream, Interest::READABLE | Interest::WRITABLE)
            .map_err(|_| DialFailure::System)?;
        Ok(stream)
    }

    fn connected(&self, stream: &TcpStream) -> Option<Result<(), DialFailure>> {
        let state = connected(stream)?;
        Some(state.and_then(|()| set_options(stream).map_err(|_| DialFailure::System)))
    }

    fn set_tos(&self, stream: &TcpStream, tos: Option<u8>) -> io::Result<()> {
        set_tos(stream, tos)
    }

    fn set_timeout(&self, stream: &TcpStream, timeout: Duration) -> io::Result<()> {
        let limited = sys::limit_resend_pause(stream, RESEND_PAUSE);
        set_timeout(stream, timeout, limited)
    }

    fn forget(&mut self, stream: &TcpStream) {
        self.deregister(stream);
    }

    fn close(&mut self, listener: TcpListener) {
        self.deregister(&listener);
    }
}

impl Stream for TcpStream {
    fn read(&self, room: &mut Scatter<'_>) -> io::Result<usize> {
        room.receive(self)
    }

    fn write(&self, bytes: &Gather<'_>, more: bool) -> io::Result<usize> {
        bytes.send(self, more)
    }

    fn fill(&self, pipe: &Pipe, len: usize) -> io::Result<usize> {
        pipe.fill(self, len)
    }

    fn drain(&self, pipe: &Pipe, len: usize) -> io::Result<usize> {
        pipe.drain(self, len)
    }

    fn end_writing(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }

    fn unacknowledged(&self) -> u64 {
        // On an error, return 0: the next read or write of this socket will show the failure.
        sys::bytes_unacked(self).unwrap_or(0) as u64
    }

    fn local_address(&self) -> io::Result<SocketAddr> {
        self.local_addr()
    }

    fn buffer_sizes(&self) -> (usize, usize) {
        // On an error, return 0: the next read or write of this socket will show the failure.
        let socket = SockRef::from(self);
        let send = socket.send_buffer_size().unwrap_or(0);
        (send, socket.recv_buffer_size().unwrap_or(0))
    }
}

/// Listens on `address`. Success also shows that the address is one of this machine's.
fn listen(address: IpAddr, config: &SocklndConfig) -> Result<TcpListener, AddNiError> {
    let port = config.port;
    let explain = |source: io::Error| match source.kind() {
        ErrorKind::AddrNotAvailable => AddNiError::AddressNotHere(address),
        ErrorKind::AddrInUse => AddNiError::PortInUse { address, port },
        ErrorKind::PermissionDenied => AddNiError::PortPrivilege { port },
        _ => AddNiError::Listen {
            address,
            port,
            source,
        },
    };
    let socket = bound(SocketAddr::new(address, port)).map_err(explain)?;
    check_congestion(&socket, config)?;
    socket.listen(config.limits.backlog).map_err(explain)?;
    Ok(socket.into())
}

/// Checks that `address` is one of this machine's, for an interface that does not listen.
fn probe(address: IpAddr, config: &SocklndConfig) -> Result<(), AddNiError> {
    let socket = bound(SocketAddr::new(address, 0)).map_err(|source| match source.kind() {
        ErrorKind::AddrNotAvailable => AddNiError::AddressNotHere(address),
        _ => AddNiError::Listen {
            address,
            port: 0,
            source,
        },
    })?;
    check_congestion(&socket, config)
}

fn check_congestion(socket: &Socket, config: &SocklndConfig) -> Result<(), AddNiError> {
    let Some(name) = &config.congestion else {
        return Ok(());
    };
    sys::set_congestion_control(socket, name).map_err(|source| AddNiError::Congestion {
        name: name.clone(),
        source,
    })
}

/// Returns a nonblocking socket that is bound to `local`.
///
/// With `SO_REUSEADDR` a restarted node can listen again at once, and the 512 privileged ports serve any number of
/// peers: only the address pair of a connection must be unique.
fn bound(local: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(local),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    if local.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&local.into())?;
    Ok(socket)
}

/// Begins to connect from `local` to `remote`. The stream becomes writable once the attempt has succeeded or failed.
fn dial(
    local: IpAddr,
    remote: SocketAddr,
    tos: Option<u8>,
    config: &SocklndConfig,
) -> Result<TcpStream, DialFailure> {
    match config.source_ports {
        SourcePorts::Any => dial_from(SocketAddr::new(local, 0), remote, tos, config)
            .map_err(|error| DialFailure::of(error.kind())),
        SourcePorts::Privileged => dial_privileged(local, remote, tos, config),
    }
}

// [CONN-2]
fn dial_privileged(
    local: IpAddr,
    remote: SocketAddr,
    tos: Option<u8>,
    config: &SocklndConfig,
) -> Result<TcpStream, DialFailure> {
    for port in PRIVILEGED_SOURCE_PORTS.rev() {
        match dial_from(SocketAddr::new(local, port), remote, tos, config).map_err(|e| e.kind()) {
            Ok(stream) => return Ok(stream),
            // The address pair is in use, or was until a moment ago: the next port gives another pair.
            Err(ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable) => {}
            Err(ErrorKind::PermissionDenied) => return Err(DialFailure::SourcePortPrivilege),
            Err(kind) => return Err(DialFailure::of(kind)),
        }
    }
    Err(DialFailure::NoSourcePort)
}

fn dial_from(
    local: SocketAddr,
    remote: SocketAddr,
    tos: Option<u8>,
    config: &SocklndConfig,
) -> io::Result<TcpStream> {
    let socket = bound(local)?;
    if let Some(tos) = tos {
        choose_tos(&SockRef::from(&socket), local.is_ipv4(), tos)?;
    }
    if let Some(name) = &config.congestion {
        sys::set_congestion_control(&socket, name)?;
    }
    match socket.connect(&remote.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(EINPROGRESS) => {}
        Err(error) => return Err(error),
    }
    Ok(socket.into())
}

/// The errno of a connection attempt that is in progress; `ErrorKind::InProgress` is not stable.
const EINPROGRESS: i32 = 115;

/// Returns the result of a connection attempt; `None` while it is in progress.
fn connected(stream: &TcpStream) -> Option<Result<(), DialFailure>> {
    match stream.take_error() {
        Ok(None) => {}
        Ok(Some(error)) | Err(error) => return Some(Err(DialFailure::of(error.kind()))),
    }
    match stream.peer_addr() {
        Ok(_) => Some(Ok(())),
        Err(error) if error.kind() == ErrorKind::NotConnected => None,
        Err(error) => Some(Err(DialFailure::of(error.kind()))),
    }
}

/// Sets the type of service of an accepted connection, if one is configured.
fn set_tos(stream: &TcpStream, tos: Option<u8>) -> io::Result<()> {
    let Some(tos) = tos else {
        return Ok(());
    };
    let is_ipv4 = stream.local_addr()?.is_ipv4();
    choose_tos(&SockRef::from(stream), is_ipv4, tos)
}

fn choose_tos(socket: &SockRef<'_>, is_ipv4: bool, tos: u8) -> io::Result<()> {
    if is_ipv4 {
        socket.set_tos_v4(tos.into())
    } else {
        socket.set_tclass_v6(tos.into())
    }
}

/// Sets the options of an established connection. Linger is off in new sockets. Kernels also set
/// `TCP_LINGER2`, but that only decides how long a closed socket waits for the peer's FIN.
// [CONN-9]
fn set_options(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_COUNT);
    socket.set_tcp_keepalive(&keepalive)?;
    Ok(())
}

/// Limits the pauses of TCP between two attempts. Linux before 6.15 cannot: there TCP ends a connection whose bytes are
/// not acknowledged when the LND would, so that a new one is made, and no pause is longer.
fn set_timeout(stream: &TcpStream, timeout: Duration, limited: io::Result<()>) -> io::Result<()> {
    let last = limited.map_or(timeout, |()| LAST_ATTEMPT);
    SockRef::from(stream).set_tcp_user_timeout(Some(last))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    // [CONN-9]
    #[test]
    fn the_type_of_service_is_that_of_both_ends_of_a_connection() {
        for address in [
            IpAddr::from(Ipv4Addr::LOCALHOST),
            Ipv6Addr::LOCALHOST.into(),
        ] {
            let Ok(listener) = TcpListener::bind((address, 0)) else {
                println!("skipped: this machine has no {address}");
                continue;
            };
            let remote = listener.local_addr().unwrap();
            let config = SocklndConfig::default();
            let config = SocklndConfig {
                source_ports: SourcePorts::Any,
                ..config
            };
            let tos = |stream: &TcpStream| {
                let socket = SockRef::from(stream);
                let of_v4 = || socket.tos_v4();
                if address.is_ipv4() {
                    of_v4()
                } else {
                    socket.tclass_v6()
                }
            };
            let dialled = dial(address, remote, Some(104), &config).unwrap();
            assert_eq!(tos(&dialled).unwrap(), 104);
            let accepted = listener.accept().unwrap().0;
            accepted.set_nonblocking(true).unwrap();
            set_tos(&accepted, None).unwrap();
            assert_eq!(tos(&accepted).unwrap(), 0);
            set_tos(&accepted, Some(104)).unwrap();
            assert_eq!(tos(&accepted).unwrap(), 104);
        }
    }

    #[test]
    fn bytes_without_acknowledgement_end_a_connection_with_the_lnd_where_pauses_have_no_limit() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let limit = Duration::from_secs(9);
        let user_timeout = || SockRef::from(&stream).tcp_user_timeout().unwrap();
        let too_old = io::Error::from(ErrorKind::Unsupported);
        set_timeout(&stream, limit, Err(too_old)).unwrap();
        assert_eq!(user_timeout(), Some(limit));
        set_timeout(&stream, limit, Ok(())).unwrap();
        assert_eq!(user_timeout(), Some(LAST_ATTEMPT));
    }
}
