//! Making sockets: listening ones, dialling ones, and the options that every connection has.
//!
//! This file knows the operating system and nothing of the protocol.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use crate::config::{SocklndConfig, SourcePorts};
use crate::error::AddNiError;
use crate::stats::DialFailure;

/// Ports that peers with `accept=secure` listen to, tried from the highest down (section 2.2).
const PRIVILEGED_SOURCE_PORTS: std::ops::RangeInclusive<u16> = 512..=1023;

/// TCP keepalive of every connection (section 2.10).
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_COUNT: u32 = 5;

/// Listens on `address`, which shows too that the address is one of this machine.
pub(crate) fn listen(address: IpAddr, config: &SocklndConfig) -> Result<TcpListener, AddNiError> {
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
    Ok(TcpListener::from_std(socket.into()))
}

/// Shows that `address` is one of this machine, for an interface that does not listen.
pub(crate) fn probe(address: IpAddr, config: &SocklndConfig) -> Result<(), AddNiError> {
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

/// A socket that does not block, bound to `local`.
///
/// With `SO_REUSEADDR` a restarted node can listen again at once, and the 512 privileged ports serve
/// any number of peers: only the whole address pair of a connection is unique.
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

/// Begins to connect from `local` to `remote`; the stream is writable when that has ended.
pub(crate) fn dial(
    local: IpAddr,
    remote: SocketAddr,
    tos: Option<u8>,
    config: &SocklndConfig,
) -> Result<TcpStream, DialFailure> {
    match config.source_ports {
        SourcePorts::Any => dial_from(SocketAddr::new(local, 0), remote, tos, config)
            .map_err(|error| dial_failure(error.kind())),
        SourcePorts::Privileged => dial_privileged(local, remote, tos, config),
    }
}

fn dial_privileged(
    local: IpAddr,
    remote: SocketAddr,
    tos: Option<u8>,
    config: &SocklndConfig,
) -> Result<TcpStream, DialFailure> {
    for port in PRIVILEGED_SOURCE_PORTS.rev() {
        match dial_from(SocketAddr::new(local, port), remote, tos, config).map_err(|e| e.kind()) {
            Ok(stream) => return Ok(stream),
            // The address pair is in use, or was until a moment ago: the next port makes another.
            Err(ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable) => {}
            Err(ErrorKind::PermissionDenied) => return Err(DialFailure::SourcePortPrivilege),
            Err(kind) => return Err(dial_failure(kind)),
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
    Ok(TcpStream::from_std(socket.into()))
}

/// `ErrorKind::InProgress` is not stable.
const EINPROGRESS: i32 = 115;

/// What a failed connection attempt means.
pub(crate) fn dial_failure(kind: ErrorKind) -> DialFailure {
    match kind {
        ErrorKind::ConnectionRefused => DialFailure::Refused,
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown => {
            DialFailure::Unreachable
        }
        ErrorKind::TimedOut => DialFailure::TimedOut,
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => {
            DialFailure::Disconnected
        }
        _ => DialFailure::System,
    }
}

/// Whether a connection that was being made is there: `None` while it is still being made.
pub(crate) fn connected(stream: &TcpStream) -> Option<Result<(), DialFailure>> {
    match stream.take_error() {
        Ok(None) => {}
        Ok(Some(error)) | Err(error) => return Some(Err(dial_failure(error.kind()))),
    }
    match stream.peer_addr() {
        Ok(_) => Some(Ok(())),
        Err(error) if error.kind() == ErrorKind::NotConnected => None,
        Err(error) => Some(Err(dial_failure(error.kind()))),
    }
}

/// Sets the type of service of an accepted connection, if one is wanted.
pub(crate) fn set_tos(stream: &TcpStream, tos: Option<u8>) -> io::Result<()> {
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

/// Sets the options of an established connection (section 2.10). Linger is off as sockets are made; what
/// kernels set beyond it, `TCP_LINGER2`, only decides how long a closed socket waits for the peer's FIN.
pub(crate) fn set_options(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_COUNT);
    socket.set_tcp_keepalive(&keepalive)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, TcpListener as StdListener};

    use super::*;

    #[test]
    fn the_type_of_service_is_that_of_both_ends_of_a_connection() {
        for address in [
            IpAddr::from(Ipv4Addr::LOCALHOST),
            Ipv6Addr::LOCALHOST.into(),
        ] {
            let Ok(listener) = StdListener::bind((address, 0)) else {
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
            let accepted = TcpStream::from_std(accepted);
            set_tos(&accepted, None).unwrap();
            assert_eq!(tos(&accepted).unwrap(), 0);
            set_tos(&accepted, Some(104)).unwrap();
            assert_eq!(tos(&accepted).unwrap(), 104);
        }
    }
}
