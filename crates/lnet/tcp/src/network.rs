//! The network of byte streams that the LND runs on.
//!
//! [`crate::Sockets`] provides TCP sockets; tests and simulations provide streams in memory. The
//! LND gives a slot number to everything that it listens on or connects, and
//! [`crate::Socklnd::ready`] tells it which slots are ready.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use sys::{Gather, Pipe, Scatter};

use crate::config::SocklndConfig;
use crate::error::AddNiError;
use crate::stats::DialFailure;

/// One end of a connection. No call blocks: what cannot be done now fails with
/// [`io::ErrorKind::WouldBlock`].
///
/// One thread may read while another one writes; the LND runs at most one read and one write of a
/// stream at a time.
pub trait Stream: Send + Sync {
    /// Reads available bytes into `room`, in order. Returns 0 at the end of the stream. If fewer
    /// bytes come than fit, the stream is empty, and readiness is reported again when more arrive.
    ///
    /// # Errors
    ///
    /// The peer reset the connection, or the network failed.
    fn read(&self, room: &mut Scatter<'_>) -> io::Result<usize>;

    /// Takes the start of `bytes`. If the stream is full it takes fewer than all, and readiness is
    /// reported when there is room again. `more` says that further bytes follow at once, so that
    /// the stream may wait for them before it sends.
    ///
    /// # Errors
    ///
    /// As for [`Stream::read`].
    fn write(&self, bytes: &Gather<'_>, more: bool) -> io::Result<usize>;

    /// As [`Stream::read`], but moves up to `len` bytes into a pipe. Fewer come also if the pipe is
    /// full.
    ///
    /// # Errors
    ///
    /// As for [`Stream::read`]. A stream without a descriptor always fails, and nothing received
    /// from it goes to a pipe.
    fn fill(&self, _pipe: &Pipe, _len: usize) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// As [`Stream::write`], but takes up to `len` bytes out of a pipe.
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

    /// Returns how many bytes [`Stream::write`] took that the peer's side has not yet acknowledged.
    fn unacknowledged(&self) -> u64;

    /// Returns the address of this end.
    ///
    /// # Errors
    ///
    /// The connection is gone.
    fn local_address(&self) -> io::Result<SocketAddr>;

    /// Returns the sizes of the send and receive buffers in bytes; 0 if the stream does not know
    /// them.
    fn buffer_sizes(&self) -> (usize, usize) {
        (0, 0)
    }
}

/// Makes and accepts streams.
pub trait Network {
    /// One end of a connection.
    type Stream: Stream;
    /// A socket, or its equivalent, that listens on an address.
    type Listener;

    /// Listens on `address` and the port of `config`. Success also shows that the address is one of
    /// this machine.
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

    /// Checks that `address` is one of this machine, for an interface that does not listen.
    ///
    /// # Errors
    ///
    /// As for [`Network::listen`].
    fn probe(&mut self, address: IpAddr, config: &SocklndConfig) -> Result<(), AddNiError>;

    /// Accepts the next waiting connection, and returns the address that it comes from.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::WouldBlock`] if none waits; any other error says that the machine lacks a
    /// resource.
    fn accept(&mut self, listener: &Self::Listener) -> io::Result<(Self::Stream, SocketAddr)>;

    /// Begins to report the readiness of an accepted stream as that of `slot`.
    ///
    /// # Errors
    ///
    /// The machine lacks a resource.
    fn admit(&mut self, slot: usize, stream: &Self::Stream) -> io::Result<()>;

    /// Begins to connect; `slot` becomes ready when the attempt has ended.
    ///
    /// # Errors
    ///
    /// The attempt failed at once.
    fn dial(
        &mut self,
        slot: usize,
        local: IpAddr,
        remote: SocketAddr,
        tos: Option<u8>,
        config: &SocklndConfig,
    ) -> Result<Self::Stream, DialFailure>;

    /// Returns the result of connecting a stream; `None` while the attempt is in progress.
    fn connected(&self, stream: &Self::Stream) -> Option<Result<(), DialFailure>>;

    /// Sets the type of service of an accepted stream, if one is wanted.
    ///
    /// # Errors
    ///
    /// The network rejects the value.
    fn set_tos(&self, stream: &Self::Stream, tos: Option<u8>) -> io::Result<()>;

    /// Sets how long bytes of a connection may stay without acknowledgement. A network that does not limit the pauses
    /// between its own attempts to send them ends the connection after this time; any other may ignore it.
    ///
    /// # Errors
    ///
    /// The machine rejects the value.
    fn set_timeout(&self, _stream: &Self::Stream, _timeout: Duration) -> io::Result<()> {
        Ok(())
    }

    /// Stops reporting the readiness of a stream. The stream closes when its last handle is
    /// dropped, which may belong to a thread that moves bytes.
    fn forget(&mut self, stream: &Self::Stream);

    /// Stops listening.
    fn close(&mut self, listener: Self::Listener);
}

/// What can be done in a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// There may be something to read, or a connection to accept.
    pub readable: bool,
    /// Something may be written, or connecting has ended.
    pub writable: bool,
    /// The peer has closed its side, or the connection failed. Reported once.
    pub closed: bool,
}

/// Implements the standard library's `Read` for a stream.
pub(crate) struct Bytes<'a, S>(pub(crate) &'a S);

impl<S: Stream> io::Read for Bytes<'_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut room = Scatter::default();
        room.add(buffer);
        self.0.read(&mut room)
    }
}

/// Writes all of `bytes`; the caller makes sure that they fit into an empty stream.
pub(crate) fn send_whole(stream: &impl Stream, bytes: &[u8]) -> io::Result<()> {
    let mut parts = Gather::default();
    parts.add(bytes);
    match stream.write(&parts, false)? {
        count if count == bytes.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}
