//! One connection to a node.

use std::io::{self, ErrorKind, Read, Write};
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lnet_control::{Code, Failure, Frame, Header, Reply, Request};
use lnet_policy::{RuleBlock, RuleType, lnet_sel_rule_deserialize};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::error::DlcError;

/// A connection to a node's control endpoint.
#[derive(Debug)]
pub struct Dlc {
    path: PathBuf,
    stream: UnixStream,
    sequence: u64,
    /// How long the node may say nothing.
    patience: Duration,
}

/// Which state of the node's rules was seen. It changes with every change of any rule, and from one life
/// of a node to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Generation(pub NonZeroU32);

/// In a frame: no generation.
const ANY: u32 = 0;

/// How long an answer may take. A ping of several peers that do not answer is the slowest request.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

impl Dlc {
    /// Connects to the node that is controlled at `path`.
    ///
    /// # Errors
    ///
    /// [`DlcError::Connect`].
    pub fn connect(path: impl AsRef<Path>) -> Result<Self, DlcError> {
        Self::connect_within(path, PATIENCE)
    }

    /// The same, to a node that may say nothing for at most so long: while it is connected to, and before and within
    /// each answer.
    ///
    /// # Errors
    ///
    /// [`DlcError::Connect`]; [`DlcError::Silent`] when the node does not take connections.
    pub fn connect_within(path: impl AsRef<Path>, patience: Duration) -> Result<Self, DlcError> {
        let path = path.as_ref().to_owned();
        Ok(Self {
            stream: connect(&path, patience)?,
            path,
            sequence: 0,
            patience,
        })
    }

    /// Changes how long the node may say nothing from now on.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub fn set_patience(&mut self, patience: Duration) -> Result<(), DlcError> {
        self.patience = patience;
        Ok(limit(&self.stream, patience)?)
    }

    /// The process that listens at the other end, where it is known.
    #[must_use]
    pub fn process(&self) -> Option<u32> {
        process(&self.stream)
    }

    /// Makes a request whose answer is a document, or nothing.
    ///
    /// # Errors
    ///
    /// [`DlcError::Rejected`] with what the node says; a broken connection.
    pub fn request(&mut self, request: &Request) -> Result<String, DlcError> {
        let mut text = String::new();
        self.request_pieces(request, |piece| text.push_str(piece))?;
        Ok(text)
    }

    /// Makes a request and takes the document piece by piece as it comes.
    ///
    /// # Errors
    ///
    /// As [`Dlc::request`]; pieces may have come before.
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

    /// Makes a request and takes pieces of the answer as long as `take` says that more is wanted. An answer that is not
    /// taken to its end leaves the connection unusable: drop it.
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

    /// `IOC_LIBCFS_ADD_RULES`: the block's rules replace those of its type, whatever they are.
    ///
    /// # Errors
    ///
    /// A block that cannot be written, or that the node rejects.
    pub fn add_rules(&mut self, block: &RuleBlock) -> Result<(), DlcError> {
        self.put_rules(block, ANY)
    }

    /// The same, only if the node's rules are still those of which `seen` is the generation.
    ///
    /// # Errors
    ///
    /// As [`Dlc::add_rules`]; an error that [`DlcError::is_stale`] when they are not.
    pub fn replace_rules(&mut self, block: &RuleBlock, seen: Generation) -> Result<(), DlcError> {
        self.put_rules(block, seen.0.get())
    }

    /// `IOC_LIBCFS_GET_RULES`: the node's rules of a type.
    ///
    /// # Errors
    ///
    /// The node has rules of this type that such a block cannot hold (−EOPNOTSUPP).
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
        self.revive()?;
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
            // A node that hangs up has said why, if it knew.
            Err(error) => Err(match self.receive(code, self.sequence) {
                Err(told @ DlcError::NotServed { .. }) => told,
                _ => self.broken(error),
            }),
        }
    }

    /// What an error of the socket means.
    fn broken(&self, error: io::Error) -> DlcError {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => DlcError::Silent {
                path: self.path.clone(),
                process: self.process(),
                after: self.patience,
            },
            _ => error.into(),
        }
    }

    /// A node hangs up on a client that was silent for half a minute, or has been started anew meanwhile, which
    /// is nobody's mistake.
    fn revive(&mut self) -> Result<(), DlcError> {
        self.stream.set_nonblocking(true)?;
        let seen = (&self.stream).read(&mut [0]);
        self.stream.set_nonblocking(false)?;
        match seen {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            _ => self.stream = connect(&self.path, self.patience)?,
        }
        Ok(())
    }

    fn body(&mut self, header: &Header) -> Result<Vec<u8>, DlcError> {
        let mut body = vec![0; header.length as usize];
        let read = self.stream.read_exact(&mut body);
        read.map_err(|error| self.broken(error))?;
        Ok(body)
    }

    /// The node's reason not to serve this connection.
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

/// A node that does not accept leaves connections in the queue of its socket, and the one after those waits for as long
/// as a write may.
fn connect(path: &Path, patience: Duration) -> Result<UnixStream, DlcError> {
    let connect = || -> io::Result<UnixStream> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_write_timeout(Some(patience))?;
        socket.connect(&SockAddr::unix(path)?)?;
        let stream = UnixStream::from(OwnedFd::from(socket));
        limit(&stream, patience)?;
        Ok(stream)
    };
    connect().map_err(|error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => DlcError::Silent {
            path: path.to_owned(),
            process: None,
            after: patience,
        },
        _ => DlcError::Connect {
            path: path.to_owned(),
            error,
        },
    })
}

fn limit(stream: &UnixStream, patience: Duration) -> io::Result<()> {
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))
}

fn process(stream: &UnixStream) -> Option<u32> {
    let credentials = sys::peer_credentials(stream).ok()?;
    Some(credentials.process).filter(|&process| process > 0)
}

/// An answer to a rule request: rejected if its status says so.
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
