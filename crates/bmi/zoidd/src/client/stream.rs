//! The two carriers of frames: Unix-domain sockets and TCP.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use mio::event::Source;
use mio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use mio::{Interest, Registry, Token};
use socket2::{SockRef, TcpKeepalive};
use zoid_proto::fwd::SEND_BUFFER;

/// A client's connection, non-blocking.
#[derive(Debug)]
pub(crate) enum Stream {
    /// A client on this machine.
    Unix(UnixStream),
    /// A client on another machine.
    Tcp(TcpStream),
}

impl Stream {
    /// Returns whether the client is on this machine.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Self::Unix(_))
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }
}

impl Source for Stream {
    fn register(&mut self, to: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.register(to, token, interest),
            Self::Tcp(stream) => stream.register(to, token, interest),
        }
    }

    fn reregister(&mut self, to: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.reregister(to, token, interest),
            Self::Tcp(stream) => stream.reregister(to, token, interest),
        }
    }

    fn deregister(&mut self, from: &Registry) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.deregister(from),
            Self::Tcp(stream) => stream.deregister(from),
        }
    }
}

/// A listening socket for clients.
#[derive(Debug)]
pub(crate) enum Listener {
    /// For clients on this machine.
    Unix(UnixListener),
    /// For clients on other machines.
    Tcp(TcpListener),
}

impl Listener {
    pub(crate) fn unix(path: &Path) -> io::Result<Self> {
        UnixListener::bind(path).map(Self::Unix)
    }

    pub(crate) fn tcp(address: SocketAddr) -> io::Result<Self> {
        TcpListener::bind(address).map(Self::Tcp)
    }

    /// Returns the address of a TCP listener.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Unix(_) => None,
            Self::Tcp(listener) => listener.local_addr().ok(),
        }
    }

    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Self::Unix(listener) => registry.register(listener, token, Interest::READABLE),
            Self::Tcp(listener) => registry.register(listener, token, Interest::READABLE),
        }
    }

    /// Accepts the next connection; `WouldBlock` if there is none.
    pub(crate) fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER)?;
                Ok(Stream::Unix(stream))
            }
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                // Frames are written completely, so waiting for more data would only delay them.
                stream.set_nodelay(true)?;
                let keepalive = TcpKeepalive::new().with_time(KEEPALIVE);
                SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
                Ok(Stream::Tcp(stream))
            }
        }
    }
}

/// The idle time before the system probes a TCP connection, in case both sides are silent.
const KEEPALIVE: Duration = Duration::from_secs(30);
