//! What the LND asks of a network of byte streams.
//!
//! TCP sockets are one ([`crate::Sockets`]); a simulated network, or one in memory, is another. The LND
//! names everything that it listens on or connects by a slot, and is told by [`crate::Socklnd::ready`]
//! when something may be done there.

use std::io;
use std::net::{IpAddr, SocketAddr};

use sys::{Gather, Pipe, Scatter};

use crate::config::SocklndConfig;
use crate::error::AddNiError;
use crate::stats::DialFailure;

/// One end of a connection. Nothing blocks: what cannot be done now fails with
/// [`io::ErrorKind::WouldBlock`].
///
/// One thread may read while another one writes; the LND lets no two read, or two write, at once.
pub trait Stream: Send + Sync {
    /// Reads what there is into `room`, in order. 0 is the end of the stream. When less comes than there
    /// is room for, nothing is left, and readiness is told anew when more comes.
    ///
    /// # Errors
    ///
    /// The peer reset the connection, or the network failed.
    fn read(&self, room: &mut Scatter<'_>) -> io::Result<usize>;

    /// Takes the start of `bytes`; less than all when it is full, and readiness is told when it is not
    /// any more. With `more`, others follow at once that are worth waiting for.
    ///
    /// # Errors
    ///
    /// As for [`Stream::read`].
    fn write(&self, bytes: &Gather<'_>, more: bool) -> io::Result<usize>;

    /// As [`Stream::read`], up to `len` bytes into a pipe. Less comes also when the pipe is full.
    ///
    /// # Errors
    ///
    /// As for [`Stream::read`]. A stream without a descriptor cannot; nothing that is received from one goes to a pipe.
    fn fill(&self, _pipe: &Pipe, _len: usize) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// As [`Stream::write`], up to `len` bytes out of a pipe.
    ///
    /// # Errors
    ///
    /// As for [`Stream::fill`].
    fn drain(&self, _pipe: &Pipe, _len: usize) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Tells the peer that nothing more will be written.
    ///
    /// # Errors
    ///
    /// The connection is gone.
    fn end_writing(&self) -> io::Result<()>;

    /// Bytes that were taken by [`Stream::write`] and not yet acknowledged by the peer's side.
    fn unacknowledged(&self) -> u64;

    /// The address of this end.
    ///
    /// # Errors
    ///
    /// The connection is gone.
    fn local_address(&self) -> io::Result<SocketAddr>;

    /// The sizes of the send and receive buffers in bytes; 0 where a stream has none that it knows.
    fn buffer_sizes(&self) -> (usize, usize) {
        (0, 0)
    }
}

/// Makes and accepts streams.
pub trait Network {
    /// One end of a connection.
    type Stream: Stream;
    /// What listens on an address.
    type Listener;

    /// Listens on `address` and the port of `config`, which shows too that the address is one of this
    /// machine.
    ///
    /// # Errors
    ///
    /// What is wrong with the address, the port or the configuration.
    fn listen(
        &mut self,
        slot: usize,
        address: IpAddr,
        config: &SocklndConfig,
    ) -> Result<Self::Listener, AddNiError>;

    /// Shows that `address` is one of this machine, for an interface that does not listen.
    ///
    /// # Errors
    ///
    /// As for [`Network::listen`].
    fn probe(&mut self, address: IpAddr, config: &SocklndConfig) -> Result<(), AddNiError>;

    /// The next connection that waits, and where it comes from.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::WouldBlock`] when none waits; else the machine is short of something.
    fn accept(&mut self, listener: &Self::Listener) -> io::Result<(Self::Stream, SocketAddr)>;

    /// Begins to tell the readiness of an accepted stream as that of `slot`.
    ///
    /// # Errors
    ///
    /// The machine is short of something.
    fn admit(&mut self, slot: usize, stream: &Self::Stream) -> io::Result<()>;

    /// Begins to connect; `slot` is ready when that has ended.
    ///
    /// # Errors
    ///
    /// It is clear already that there will be no connection.
    fn dial(
        &mut self,
        slot: usize,
        local: IpAddr,
        remote: SocketAddr,
        tos: Option<u8>,
        config: &SocklndConfig,
    ) -> Result<Self::Stream, DialFailure>;

    /// Whether a stream that was being connected is: `None` while it still is.
    fn connected(&self, stream: &Self::Stream) -> Option<Result<(), DialFailure>>;

    /// Sets the type of service of an accepted stream, if one is wanted.
    ///
    /// # Errors
    ///
    /// The network refuses.
    fn set_tos(&self, stream: &Self::Stream, tos: Option<u8>) -> io::Result<()>;

    /// Tells no readiness of a stream any more. It closes when the last handle is dropped, which may be
    /// that of a thread that moves bytes.
    fn forget(&mut self, stream: &Self::Stream);

    /// Stops listening.
    fn close(&mut self, listener: Self::Listener);
}

/// What may be done where the network has news.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// There may be something to read, or a connection to accept.
    pub readable: bool,
    /// Something may be written, or connecting has ended.
    pub writable: bool,
    /// The peer has closed its side, or the connection failed. Told once.
    pub closed: bool,
}

/// Reads a stream as the standard library does.
pub(crate) struct Bytes<'a, S>(pub(crate) &'a S);

impl<S: Stream> io::Read for Bytes<'_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut room = Scatter::default();
        room.add(buffer);
        self.0.read(&mut room)
    }
}

/// Writes `bytes` as a whole, which is less than an empty stream always takes.
pub(crate) fn send_whole(stream: &impl Stream, bytes: &[u8]) -> io::Result<()> {
    let mut parts = Gather::default();
    parts.add(bytes);
    match stream.write(&parts, false)? {
        count if count == bytes.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}
