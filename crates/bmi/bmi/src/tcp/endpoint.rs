//! Endpoints and their sockets: TCP, or Unix-domain for processes of one machine.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv6Addr, Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use mio::event::Source;
use mio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use mio::{Interest, Registry, Token};
use socket2::{Domain, SockAddr, SockRef, Type};

use crate::error::Error;

/// The address on which a process listens, or from which its connection comes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Endpoint {
    Inet(SocketAddr),
    /// The path of a socket; empty if the process does not listen.
    Unix(PathBuf),
}

/// A connection.
#[derive(Debug)]
pub(crate) enum Socket {
    Inet(TcpStream),
    Unix(UnixStream),
}

/// A listening socket.
#[derive(Debug)]
pub(crate) enum Listener {
    Inet(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Endpoint {
    /// Returns the IP address of the host, if there is one.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Inet(address) => Some(address.ip()),
            Self::Unix(_) => None,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(address) => write!(f, "tcp://{address}"),
            Self::Unix(path) => write!(f, "tcp://unix:{}", path.display()),
        }
    }
}

impl Socket {
    /// Begins to connect, after `prepare` has set the options of the socket.
    ///
    /// # Errors
    ///
    /// Immediate errors of `socket(2)` and `connect(2)`. [`Error::ConnRefused`]: the path does not exist, as if
    /// nobody listened there any more.
    // [TCP-33]
    pub(crate) fn connect(
        to: &Endpoint,
        prepare: impl FnOnce(&SockRef<'_>),
    ) -> Result<Socket, Error> {
        Self::dial(to, prepare).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::ConnRefused,
            _ => error.into(),
        })
    }

    fn dial(to: &Endpoint, prepare: impl FnOnce(&SockRef<'_>)) -> io::Result<Socket> {
        let address = match to {
            Endpoint::Inet(address) => SockAddr::from(*address),
            Endpoint::Unix(path) => SockAddr::unix(path)?,
        };
        let socket = socket2::Socket::new(address.domain(), Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        prepare(&SockRef::from(&socket));
        match socket.connect(&address) {
            Err(error) if error.raw_os_error() != Some(EINPROGRESS) => return Err(error),
            _ => {}
        }
        Ok(match to {
            Endpoint::Inet(_) => Self::Inet(TcpStream::from_std(socket.into())),
            Endpoint::Unix(_) => Self::Unix(UnixStream::from_std(socket.into())),
        })
    }

    /// Checks whether the connection is established. `NotConnected`: still in progress.
    pub(crate) fn check_connected(&self) -> io::Result<()> {
        let error = match self {
            Self::Inet(socket) => socket.take_error(),
            Self::Unix(socket) => socket.take_error(),
        };
        if let Ok(Some(error)) | Err(error) = error {
            return Err(error);
        }
        match self {
            Self::Inet(socket) => socket.peer_addr().map(drop),
            Self::Unix(socket) => socket.peer_addr().map(drop),
        }
    }

    /// Closes the sending direction.
    pub(crate) fn end_writing(&self) {
        // Shutting down a connection that is already gone fails, which does no harm.
        let _gone = match self {
            Self::Inet(socket) => socket.shutdown(Shutdown::Write),
            Self::Unix(socket) => socket.shutdown(Shutdown::Write),
        };
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Inet(socket) => socket.as_fd(),
            Self::Unix(socket) => socket.as_fd(),
        }
    }
}

impl Source for Socket {
    fn register(&mut self, to: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        match self {
            Self::Inet(socket) => socket.register(to, token, interest),
            Self::Unix(socket) => socket.register(to, token, interest),
        }
    }

    fn reregister(&mut self, to: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        match self {
            Self::Inet(socket) => socket.reregister(to, token, interest),
            Self::Unix(socket) => socket.reregister(to, token, interest),
        }
    }

    fn deregister(&mut self, from: &Registry) -> io::Result<()> {
        match self {
            Self::Inet(socket) => socket.deregister(from),
            Self::Unix(socket) => socket.deregister(from),
        }
    }
}

impl Listener {
    /// Listens. Replaces the socket file of a process that no longer listens.
    pub(crate) fn bind(at: &Endpoint, registry: &Registry, token: Token) -> io::Result<Listener> {
        match at {
            Endpoint::Inet(address) => {
                let mut listener = listen(*address)?;
                registry.register(&mut listener, token, Interest::READABLE)?;
                Ok(Self::Inet(listener))
            }
            Endpoint::Unix(path) => {
                remove_stale(path)?;
                let mut listener = UnixListener::bind(path)?;
                registry.register(&mut listener, token, Interest::READABLE)?;
                Ok(Self::Unix(listener, path.clone()))
            }
        }
    }

    /// Accepts the next connection and returns its origin; `WouldBlock` if there is none.
    pub(crate) fn accept(&self) -> io::Result<(Socket, Endpoint)> {
        match self {
            Self::Inet(listener) => {
                let (socket, mut from) = listener.accept()?;
                // A listener of version 6 has peers of version 4, too, which are known by their own address.
                from.set_ip(from.ip().to_canonical());
                Ok((Socket::Inet(socket), Endpoint::Inet(from)))
            }
            Self::Unix(listener, _) => {
                let (socket, _) = listener.accept()?;
                Ok((Socket::Unix(socket), Endpoint::Unix(PathBuf::new())))
            }
        }
    }

    /// Returns the port; 0 if there is none.
    pub(crate) fn port(&self) -> u16 {
        match self {
            Self::Inet(listener) => listener.local_addr().map_or(0, |address| address.port()),
            Self::Unix(..) => 0,
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            // If this fails, the next process that listens there removes the file.
            let _gone = std::fs::remove_file(path);
        }
    }
}

/// `EINPROGRESS` on Linux: the connection is being made.
const EINPROGRESS: i32 = 115;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// Listens; on all addresses of version 6 also for peers of version 4, whatever the system's default.
fn listen(at: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket2::Socket::new(Domain::for_address(at), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if at.ip() == Ipv6Addr::UNSPECIFIED {
        socket.set_only_v6(false)?;
    }
    socket.bind(&at.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(TcpListener::from_std(socket.into()))
}

/// Removes a socket file that a killed process left. Any other file stays, and `bind` then fails.
// [ADDR-23]
fn remove_stale(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    let is_socket =
        std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == ErrorKind::ConnectionRefused;
    if is_socket && std::os::unix::net::UnixStream::connect(path).is_err_and(refused) {
        std::fs::remove_file(path)?;
    }
    Ok(())
}
