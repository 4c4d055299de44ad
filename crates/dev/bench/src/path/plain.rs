//! The plain program for the same work: requests of 32 bytes over sockets, a relay that examines no data, and a
//! server that makes system calls.
//!
//! ```text
//!  request: operation 1, zero 3, file 4, offset 8, length 4, zero 12      reply: 64 bytes, or the data of a read
//! ```
//!
//! A client keeps as many requests in flight as it wants. The server processes all requests that have arrived
//! before it writes its replies, and syncs its log to the disk once for all of them. This is the minimum that
//! fulfils the promise of a gateway.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::Context;

use super::task::{BLOCK, Operation, PIECE, Task};
use crate::peer::ready;

const REQUEST: usize = 32;
const REPLY: usize = 64;
/// The bytes that a relay reads at once: they stay in a cache.
const RELAYED: usize = 256 << 10;
/// The number of waiting bytes at which the server writes its replies to the socket.
const REPLIES: usize = 256 << 10;

/// The kind of a request.
#[derive(Clone, Copy)]
enum Ask {
    Write = 1,
    Read = 2,
    Look = 3,
    Make = 4,
    Remove = 5,
}

struct Request {
    ask: Ask,
    file: u32,
    offset: u64,
    length: u32,
}

impl Request {
    fn encode(&self) -> [u8; REQUEST] {
        let mut bytes = [0; REQUEST];
        bytes[0] = self.ask as u8;
        bytes[4..8].copy_from_slice(&self.file.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; REQUEST]) -> Option<Self> {
        let ask = match bytes[0] {
            1 => Ask::Write,
            2 => Ask::Read,
            3 => Ask::Look,
            4 => Ask::Make,
            5 => Ask::Remove,
            _ => return None,
        };
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let length = word(16);
        (length as usize <= PIECE).then_some(Self {
            ask,
            file: word(4),
            offset: u64::from(word(8)) | u64::from(word(12)) << 32,
            length,
        })
    }

    /// Returns the bytes of the reply.
    fn reply(&self) -> usize {
        match self.ask {
            Ask::Read => self.length as usize,
            _ => REPLY,
        }
    }
}

/// A connection to a server, or to a relay in front of the server.
pub(super) struct Client {
    stream: TcpStream,
    replies: BufReader<TcpStream>,
    piece: Vec<u8>,
    /// The destination of a copy of each piece, in place of the copy through memory that is shared with an I/O
    /// node.
    copy: Vec<u8>,
}

impl Client {
    pub(super) fn connect(port: u16, congestion: &str) -> anyhow::Result<Self> {
        let stream = connect(port, congestion)?;
        let replies = BufReader::with_capacity(64 << 10, stream.try_clone()?);
        Ok(Self {
            stream,
            replies,
            piece: vec![0x5A; PIECE],
            copy: vec![0; PIECE],
        })
    }

    /// Runs a task.
    pub(super) fn run(&mut self, task: &Task) -> anyhow::Result<()> {
        let requests: Vec<Request> = requests(task).collect();
        let (mut sent, mut answered) = (0, 0);
        let mut batch = Vec::new();
        while answered < requests.len() {
            while sent < requests.len() && sent - answered < task.depth {
                let request = &requests[sent];
                batch.extend_from_slice(&request.encode());
                sent += 1;
                if let Ask::Write = request.ask {
                    let length = request.length as usize;
                    self.copy[..length].copy_from_slice(&self.piece[..length]);
                    self.stream.write_all(&batch)?;
                    self.stream.write_all(&self.copy[..length])?;
                    batch.clear();
                }
            }
            self.stream.write_all(&batch)?;
            batch.clear();
            // Reads all replies that have arrived, at least one.
            loop {
                let length = requests[answered].reply();
                self.replies.read_exact(&mut self.piece[..length])?;
                if length > BLOCK {
                    self.copy[..length].copy_from_slice(&self.piece[..length]);
                }
                answered += 1;
                if answered == sent || self.replies.buffer().len() < requests[answered].reply() {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Returns the requests of a task.
fn requests(task: &Task) -> Box<dyn Iterator<Item = Request> + '_> {
    let one = move |ask, file, offset, length: usize| Request {
        ask,
        file,
        offset,
        // The length is at most a piece.
        length: length as u32,
    };
    let (number, count) = (task.file, task.count);
    match task.operation {
        Operation::Write | Operation::Read => {
            let ask = match task.operation {
                Operation::Write => Ask::Write,
                _ => Ask::Read,
            };
            Box::new((0..count).map(move |index| one(ask, number, index * PIECE as u64, PIECE)))
        }
        Operation::Random => {
            Box::new((0..count).map(move |index| one(Ask::Read, number, task.block(index), BLOCK)))
        }
        Operation::Look => Box::new((0..count).map(move |_| one(Ask::Look, number, 0, 0))),
        Operation::Names => {
            // As many names exist at the same time as requests are in flight.
            let depth = (task.depth as u64).min(count).max(1);
            Box::new((0..2 * count.next_multiple_of(depth)).map(move |index| {
                let (turn, place) = (index / depth, index % depth);
                let ask = if turn % 2 == 0 {
                    Ask::Make
                } else {
                    Ask::Remove
                };
                one(ask, number << 16 | place as u32, 0, 0)
            }))
        }
    }
}

/// Serves `directory` until the process ends. The log is in `state`.
pub(super) fn serve(directory: &Path, state: &Path, congestion: &str) -> anyhow::Result<()> {
    let listener = listen(congestion)?;
    for (number, stream) in listener.incoming().enumerate() {
        let stream = stream?;
        stream.set_nodelay(true)?;
        let log = File::create(state.join(format!("plain-{number}")))?;
        let server = Server {
            directory: directory.to_owned(),
            log,
            logged: 0,
            files: Vec::new(),
        };
        thread::Builder::new().spawn(move || server.serve(&stream))?;
    }
    Ok(())
}

/// Replies that wait to be written. There is room for a piece in addition to [`REPLIES`] bytes, and for a reply to
/// each request that a buffer of requests holds.
struct Replies {
    bytes: Vec<u8>,
    filled: usize,
}

impl Replies {
    fn next(&mut self, length: usize) -> &mut [u8] {
        let from = self.filled;
        self.filled += length;
        &mut self.bytes[from..self.filled]
    }
}

struct Server {
    directory: PathBuf,
    log: File,
    logged: u64,
    files: Vec<(u32, File)>,
}

impl Server {
    fn serve(mut self, stream: &TcpStream) -> io::Result<()> {
        let mut requests = BufReader::with_capacity(64 << 10, stream);
        let mut piece = vec![0; PIECE];
        let mut replies = Replies {
            bytes: vec![0; REPLIES + PIECE],
            filled: 0,
        };
        // The requests that wait for the log.
        let mut names: Vec<Request> = Vec::new();
        loop {
            let mut head = [0; REQUEST];
            requests.read_exact(&mut head)?;
            let request = Request::decode(&head).ok_or(io::ErrorKind::InvalidData)?;
            let length = request.length as usize;
            match request.ask {
                Ask::Write => {
                    requests.read_exact(&mut piece[..length])?;
                    let file = self.file(request.file)?;
                    file.write_all_at(&piece[..length], request.offset)?;
                    replies.next(REPLY);
                }
                Ask::Read => {
                    let file = self.file(request.file)?;
                    file.read_exact_at(replies.next(length), request.offset)?;
                }
                Ask::Look => {
                    fs::metadata(self.path("f", request.file))?;
                    replies.next(REPLY);
                }
                Ask::Make | Ask::Remove => names.push(request),
            }
            let is_last = requests.buffer().len() < REQUEST;
            if is_last || replies.filled >= REPLIES {
                self.change(&mut names, &mut replies)?;
                (&*stream).write_all(&replies.bytes[..replies.filled])?;
                replies.filled = 0;
            }
        }
    }

    /// Writes all changes of names to the log, and then makes them.
    fn change(&mut self, names: &mut Vec<Request>, replies: &mut Replies) -> io::Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        let records: Vec<u8> = names.iter().flat_map(Request::encode).collect();
        self.log.write_all_at(&records, self.logged)?;
        self.logged += records.len() as u64;
        self.log.sync_data()?;
        for name in names.drain(..) {
            let path = self.path("n", name.file);
            match name.ask {
                Ask::Make => drop(File::create_new(path)?),
                _ => fs::remove_file(path)?,
            }
            replies.next(REPLY);
        }
        Ok(())
    }

    fn path(&self, kind: &str, number: u32) -> PathBuf {
        self.directory.join(format!("plain-{kind}{number}"))
    }

    fn file(&mut self, number: u32) -> io::Result<&File> {
        let at = match self.files.iter().position(|(known, _)| *known == number) {
            Some(at) => at,
            None => {
                let mut options = OpenOptions::new();
                options.read(true).write(true).create(true).truncate(false);
                let file = options.open(self.path("f", number))?;
                self.files.push((number, file));
                self.files.len() - 1
            }
        };
        Ok(&self.files[at].1)
    }
}

/// Passes everything on to `port`, in both directions, until the process ends.
pub(super) fn relay(port: u16, congestion: &str) -> anyhow::Result<()> {
    let listener = listen(congestion)?;
    for stream in listener.incoming() {
        let near = stream?;
        near.set_nodelay(true)?;
        let far = connect(port, congestion)?;
        let back = (far.try_clone()?, near.try_clone()?);
        thread::Builder::new().spawn(move || pass(near, far))?;
        thread::Builder::new().spawn(move || pass(back.0, back.1))?;
    }
    Ok(())
}

fn pass(mut from: TcpStream, mut to: TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; RELAYED];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            count => to.write_all(&buffer[..count])?,
        }
    }
}

fn listen(congestion: &str) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen")?;
    // Accepted connections inherit this setting from the listener.
    sys::set_congestion_control(&listener, congestion)?;
    ready(listener.local_addr()?.port())?;
    Ok(listener)
}

fn connect(port: u16, congestion: &str) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).context("cannot connect")?;
    stream.set_nodelay(true)?;
    sys::set_congestion_control(&stream, congestion)?;
    Ok(stream)
}
