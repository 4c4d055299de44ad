//! One connection to a node.

use std::io::{self, ErrorKind, Read, Write};
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lnet_policy::{RuleBlock, RuleType, lnet_sel_rule_deserialize};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::error::DlcError;
use crate::protocol::{Code, Failure, Frame, Header, Reply, Request};

/// A connection to a node's control endpoint.
#[derive(Debug)]
pub struct Dlc {
    path: PathBuf,
    stream: UnixStream,
    sequence: u64,
    /// How long to wait for the node's next byte.
    timeout: Duration,
}

/// The version of the node's rules that was read. It changes with every change of a rule and with
/// every restart of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Generation(pub NonZeroU32);

/// The value in a frame for no generation.
const ANY: u32 = 0;

/// The default timeout. The slowest request is a ping of several peers that do not answer.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);

impl Dlc {
    /// Connects to the node whose control socket is `path`.
    ///
    /// # Errors
    ///
    /// [`DlcError::Connect`].
    pub fn connect(path: impl AsRef<Path>) -> Result<Self, DlcError> {
        Self::connect_within(path, DEFAULT_TIMEOUT)
    }

    /// The same with a timeout. It applies to connecting and to each pause before and within an
    /// answer.
    ///
    /// # Errors
    ///
    /// [`DlcError::Connect`]; [`DlcError::Silent`] if the node does not accept connections.
    pub fn connect_within(path: impl AsRef<Path>, timeout: Duration) -> Result<Self, DlcError> {
        let path = path.as_ref().to_owned();
        Ok(Self {
            stream: connect(&path, timeout)?,
            path,
            sequence: 0,
            timeout,
        })
    }

    /// Changes the timeout.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    pub fn set_timeout(&mut self, timeout: Duration) -> Result<(), DlcError> {
        self.timeout = timeout;
        Ok(limit(&self.stream, timeout)?)
    }

    /// The process that listens on the socket, if known.
    #[must_use]
    pub fn process(&self) -> Option<u32> {
        process(&self.stream)
    }

    /// Sends a request whose answer is a document or empty.
    ///
    /// # Errors
    ///
    /// [`DlcError::Rejected`] with the node's errors; a broken connection.
    pub fn request(&mut self, request: &Request) -> Result<String, DlcError> {
        let mut text = String::new();
        self.request_pieces(request, |piece| text.push_str(piece))?;
        Ok(text)
    }

    /// Sends a request and passes each piece of the document to the caller when it arrives.
    ///
    /// # Errors
    ///
    /// As [`Dlc::request`]; some pieces may have arrived before.
    pub fn request_pieces(
        &mut self,
        request: &Request,
        mut take: impl FnMut(&str),
    ) -> Result<(), DlcError> {
        self.request_while(request, |piece| {
            take(piece);
            true
        })
    }

    /// Sends a request and passes pieces of the answer to `take` until it returns that no more are
    /// needed. After an answer that was not read to its end, the connection cannot be used: drop
    /// it.
    ///
    /// # Errors
    ///
    /// As [`Dlc::request_pieces`].
    pub fn request_while(
        &mut self,
        request: &Request,
        mut take: impl FnMut(&str) -> bool,
    ) -> Result<(), DlcError> {
        let body = request.to_body().map_err(malformed)?;
        let sequence = self.send(Code::DOCUMENT, ANY, body)?;
        loop {
            let frame = self.receive(Code::DOCUMENT, sequence)?;
            match Reply::from_body(&frame.body).map_err(malformed)? {
                Reply::Text(piece) if take(&piece) => {}
                Reply::Text(_) => return Ok(()),
                Reply::Done => {}
                Reply::Failed(failures) => return Err(DlcError::Rejected(failures)),
            }
            if !frame.more {
                return Ok(());
            }
        }
    }

    /// `IOC_LIBCFS_ADD_RULES`: the block's rules replace those of its type unconditionally.
    ///
    /// # Errors
    ///
    /// A block that cannot be written, or that the node rejects.
    pub fn add_rules(&mut self, block: &RuleBlock) -> Result<(), DlcError> {
        self.put_rules(block, ANY)
    }

    /// The same, if the node's rules still have the generation `seen`.
    ///
    /// # Errors
    ///
    /// As [`Dlc::add_rules`]; an error for which [`DlcError::is_stale`] is true if they have not.
    pub fn replace_rules(&mut self, block: &RuleBlock, seen: Generation) -> Result<(), DlcError> {
        self.put_rules(block, seen.0.get())
    }

    /// `IOC_LIBCFS_GET_RULES`: the node's rules of a type.
    ///
    /// # Errors
    ///
    /// Rules of this type that the block cannot express (−EOPNOTSUPP).
    pub fn rules(&mut self, rule_type: RuleType) -> Result<RuleBlock, DlcError> {
        Ok(self.rules_seen(rule_type)?.0)
    }

    /// The same, with the generation of the whole list.
    ///
    /// # Errors
    ///
    /// As [`Dlc::rules`].
    pub fn rules_seen(&mut self, rule_type: RuleType) -> Result<(RuleBlock, Generation), DlcError> {
        let wanted = (rule_type as u32).to_le_bytes().to_vec();
        let sequence = self.send(Code::IOC_LIBCFS_GET_RULES, ANY, wanted)?;
        let frame = self.receive(Code::IOC_LIBCFS_GET_RULES, sequence)?;
        accepted(&frame)?;
        let generation = NonZeroU32::new(frame.generation)
            .ok_or_else(|| DlcError::Answer("it has no generation".to_owned()))?;
        let block = lnet_sel_rule_deserialize(&frame.body)?;
        Ok((block, Generation(generation)))
    }

    fn put_rules(&mut self, block: &RuleBlock, generation: u32) -> Result<(), DlcError> {
        let sequence = self.send(Code::IOC_LIBCFS_ADD_RULES, generation, block.encode()?)?;
        let frame = self.receive(Code::IOC_LIBCFS_ADD_RULES, sequence)?;
        accepted(&frame)
    }

    fn send(&mut self, code: Code, generation: u32, body: Vec<u8>) -> Result<u64, DlcError> {
        self.reconnect_if_closed()?;
        self.sequence += 1;
        let frame = Frame {
            more: false,
            code,
            sequence: self.sequence,
            status: 0,
            generation,
            body,
        };
        let bytes = frame.to_bytes().map_err(DlcError::Request)?;
        match self.stream.write_all(&bytes) {
            Ok(()) => Ok(self.sequence),
            // A node that closes the connection may have sent the reason before.
            Err(error) => Err(match self.receive(code, self.sequence) {
                Err(told @ DlcError::NotServed { .. }) => told,
                _ => self.broken(error),
            }),
        }
    }

    /// Translates an error of the socket.
    fn broken(&self, error: io::Error) -> DlcError {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => DlcError::Silent {
                path: self.path.clone(),
                process: self.process(),
                after: self.timeout,
            },
            kind @ (ErrorKind::UnexpectedEof
            | ErrorKind::ConnectionReset
            | ErrorKind::BrokenPipe) => {
                let path = self.path.display();
                let what = format!("the node at {path} has ended, or has closed it");
                io::Error::new(kind, what).into()
            }
            _ => error.into(),
        }
    }

    /// Reconnects if the node has closed the connection. A node does so after half a minute without
    /// a request, or because of a restart; neither is an error of the caller.
    fn reconnect_if_closed(&mut self) -> Result<(), DlcError> {
        self.stream.set_nonblocking(true)?;
        let seen = (&self.stream).read(&mut [0]);
        self.stream.set_nonblocking(false)?;
        match seen {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            _ => self.stream = connect(&self.path, self.timeout)?,
        }
        Ok(())
    }

    fn body(&mut self, header: &Header) -> Result<Vec<u8>, DlcError> {
        let mut body = vec![0; header.length as usize];
        let read = self.stream.read_exact(&mut body);
        read.map_err(|error| self.broken(error))?;
        Ok(body)
    }

    /// The reason why the node does not serve this connection.
    fn not_served(&mut self, header: &Header) -> DlcError {
        let body = self.body(header).unwrap_or_default();
        let why = match Reply::from_body(&body) {
            Ok(Reply::Failed(failures)) => {
                let texts: Vec<String> = failures.into_iter().map(|one| one.descr).collect();
                texts.join("; ")
            }
            _ => io::Error::from_raw_os_error(header.status.saturating_neg()).to_string(),
        };
        DlcError::NotServed {
            path: self.path.clone(),
            errno: header.status,
            why,
        }
    }

    fn receive(&mut self, code: Code, sequence: u64) -> Result<Frame, DlcError> {
        let mut bytes = [0; Header::LEN];
        let read = self.stream.read_exact(&mut bytes);
        read.map_err(|error| self.broken(error))?;
        let header = Header::parse(&bytes)?;
        if header.code == Code::NOT_SERVED && header.status != 0 {
            return Err(self.not_served(&header));
        }
        if (header.code, header.sequence) != (code, sequence) {
            let (code, sequence) = (header.code, header.sequence);
            let what = format!("it is for request {sequence} with {code:?}");
            return Err(DlcError::Answer(what));
        }
        let body = self.body(&header)?;
        Ok(Frame {
            more: header.more,
            code: header.code,
            sequence: header.sequence,
            status: header.status,
            generation: header.generation,
            body,
        })
    }
}

/// If a node does not accept connections, they fill the queue of its socket; the next connection
/// then waits as long as the write timeout.
fn connect(path: &Path, timeout: Duration) -> Result<UnixStream, DlcError> {
    let connect = || -> io::Result<UnixStream> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_write_timeout(Some(timeout))?;
        socket.connect(&SockAddr::unix(path)?)?;
        let stream = UnixStream::from(OwnedFd::from(socket));
        limit(&stream, timeout)?;
        Ok(stream)
    };
    connect().map_err(|error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => DlcError::Silent {
            path: path.to_owned(),
            process: None,
            after: timeout,
        },
        _ => DlcError::Connect {
            path: path.to_owned(),
            error,
        },
    })
}

fn limit(stream: &UnixStream, timeout: Duration) -> io::Result<()> {
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))
}

fn process(stream: &UnixStream) -> Option<u32> {
    let credentials = sys::peer_credentials(stream).ok()?;
    Some(credentials.process).filter(|&process| process > 0)
}

/// Checks the status of the answer to a rule request.
fn accepted(frame: &Frame) -> Result<(), DlcError> {
    if frame.status == 0 {
        return Ok(());
    }
    match Reply::from_body(&frame.body) {
        Ok(Reply::Failed(failures)) => Err(DlcError::Rejected(failures)),
        _ => Err(DlcError::Rejected(vec![Failure {
            verb: "manage".to_owned(),
            entity: "rules".to_owned(),
            errno: frame.status,
            descr: format!("rejected with errno {}", frame.status),
            seq_no: None,
        }])),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn malformed(error: serde_json::Error) -> DlcError {
    DlcError::Answer(error.to_string())
}
