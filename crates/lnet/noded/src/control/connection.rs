//! Serves one control connection: reads request frames and writes answer frames.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use lnet_dlc::protocol::{Code, Failure, Frame, FrameError, Header, Reply};
use thiserror::Error;
use tracing::{debug, warn};

use super::{request, rules};
use crate::managed::ManagedNode;

/// The timeout of each read and write: for the parts of a frame that has begun, for an answer, and for the silence
/// between requests.
const PATIENCE: Duration = Duration::from_secs(30);

/// The answer to a request.
pub(super) struct Answer {
    pub(super) status: i32,
    /// The generation of the rule list if the request is about rules; else 0.
    pub(super) generation: u32,
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// Makes an answer that is not about rules.
    fn about(status: i32, body: Vec<u8>) -> Self {
        Self {
            status,
            generation: 0,
            body,
        }
    }
}

/// Accepts the pieces of an answer. An error means that the client no longer accepts any.
pub(super) type Pieces<'a> = &'a mut dyn FnMut(Reply) -> io::Result<()>;

#[derive(Debug, Error)]
enum Broken {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

const EPROTONOSUPPORT: i32 = 93;
const EOPNOTSUPP: i32 = 95;

/// Serves a connection until its client closes it, breaks the protocol or is cut off.
pub(super) fn serve(node: &ManagedNode, stream: &UnixStream) {
    match serve_frames(node, stream) {
        Ok(()) => {}
        Err(Broken::Io(error)) => debug!(%error, "control connection ended"),
        Err(error) => warn!(%error, "control connection closed"),
    }
}

fn serve_frames(node: &ManagedNode, stream: &UnixStream) -> Result<(), Broken> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    loop {
        match read_frame(stream) {
            Ok(Some((header, body))) => answer(node, stream, header, &body)?,
            Ok(None) => return Ok(()),
            Err(Broken::Frame(error @ FrameError::Version(_))) => {
                say_version(stream)?;
                return Err(error.into());
            }
            Err(error) => return Err(error),
        }
    }
}

/// Writes a frame of this side's version, so that a client of another version can name it.
fn say_version(mut stream: &UnixStream) -> io::Result<()> {
    let header = Header {
        more: false,
        code: Code::NOT_SERVED,
        length: 0,
        sequence: 0,
        status: -EPROTONOSUPPORT,
        generation: 0,
    };
    stream.write_all(&header.emit())
}

/// Reads a frame; `None` if the client has closed the connection between frames.
fn read_frame(mut stream: &UnixStream) -> Result<Option<(Header, Vec<u8>)>, Broken> {
    let mut bytes = [0; Header::LEN];
    match stream.read_exact(&mut bytes) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let header = Header::parse(&bytes)?;
    let mut body = Vec::new();
    // The buffer grows with the bytes that arrive, not with the length that a header announces.
    let wanted = u64::from(header.length);
    let got = stream.take(wanted).read_to_end(&mut body)?;
    if (got as u64) < wanted {
        return Err(io::Error::from(ErrorKind::UnexpectedEof).into());
    }
    Ok(Some((header, body)))
}

fn answer(
    node: &ManagedNode,
    stream: &UnixStream,
    asked: Header,
    body: &[u8],
) -> Result<(), Broken> {
    let answer = match asked.code {
        Code::IOC_LIBCFS_ADD_RULES => rules::add(node, asked.generation, body)?,
        Code::IOC_LIBCFS_GET_RULES => rules::list(node, body)?,
        Code::DOCUMENT => {
            let mut send = |reply: Reply| {
                let body = reply.to_body()?;
                write(stream, asked, true, Answer::about(0, body))
            };
            let last = request::carry_out(node, body, &mut send)?;
            Answer::about(request::status(&last), last.to_body()?)
        }
        Code(code) => {
            let refused = request::refusal(-EOPNOTSUPP, format!("unknown request code {code}"));
            Answer::about(-EOPNOTSUPP, refused.to_body()?)
        }
    };
    Ok(write(stream, asked, false, answer)?)
}

fn write(mut stream: &UnixStream, asked: Header, more: bool, answer: Answer) -> io::Result<()> {
    let frame = Frame {
        more,
        code: asked.code,
        sequence: asked.sequence,
        status: answer.status,
        generation: answer.generation,
        body: answer.body,
    };
    stream.write_all(&frame.to_bytes().map_err(io::Error::other)?)
}

/// Tells a client why its connection is not served, if it still reads. The frame fits into the empty buffer of a new
/// connection, so this never blocks.
pub(super) fn reject(mut stream: &UnixStream, errno: i32, why: String) {
    let reply = Reply::Failed(vec![Failure {
        verb: "connect".to_owned(),
        entity: "node".to_owned(),
        errno: -errno,
        descr: why,
        seq_no: None,
    }]);
    let told = reply.to_body().map_err(io::Error::from).and_then(|body| {
        let frame = Frame {
            more: false,
            code: Code::NOT_SERVED,
            sequence: 0,
            status: -errno,
            generation: 0,
            body,
        };
        stream.set_nonblocking(true)?;
        stream.write_all(&frame.to_bytes().map_err(io::Error::other)?)
    });
    if let Err(error) = told {
        debug!(%error, "cannot send a client the reason of its rejection");
    }
}
