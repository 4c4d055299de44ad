//! A proxy between clients and the daemon that drops frames.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// The length of a frame's header in bytes.
const HEADER: usize = 32;

/// The type of SEND_DONE.
const SEND_DONE: u8 = 7;

/// Forwards frames. On its first connection it drops the answer to send number `lost`, and closes the
/// connection.
pub(crate) struct Proxy {
    pub(crate) socket: PathBuf,
    _directory: TempDir,
}

impl Proxy {
    pub(crate) fn losing(daemon: &Path, lost: usize) -> Proxy {
        let directory = TempDir::new().unwrap();
        let socket = directory.path().join("proxy");
        let listener = UnixListener::bind(&socket).unwrap();
        let daemon = daemon.to_path_buf();
        std::thread::spawn(move || {
            let mut lost = Some(lost);
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), UnixStream::connect(&daemon).unwrap());
                let lost = lost.take();
                let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || {
                    let _ended = io::copy(&mut from, &mut to);
                    let _gone = to.shutdown(Shutdown::Both);
                });
                std::thread::spawn(move || pass_on(server, client, lost));
            }
        });
        Proxy {
            socket,
            _directory: directory,
        }
    }
}

/// Forwards the daemon's frames, except those to be dropped.
fn pass_on(mut from: UnixStream, mut to: UnixStream, mut lost: Option<usize>) {
    while let Ok(frame) = next_frame(&mut from) {
        if frame[5] == SEND_DONE {
            match &mut lost {
                Some(0) => break,
                Some(left) => *left -= 1,
                None => {}
            }
        }
        if to.write_all(&frame).is_err() {
            break;
        }
    }
    for stream in [from, to] {
        let _gone = stream.shutdown(Shutdown::Both);
    }
}

fn next_frame(from: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; HEADER];
    from.read_exact(&mut frame)?;
    let body = u32::from_le_bytes(frame[16..20].try_into().unwrap()) as usize;
    let payload = u64::from_le_bytes(frame[24..32].try_into().unwrap()) as usize;
    frame.resize(HEADER + body + payload, 0);
    from.read_exact(&mut frame[HEADER..])?;
    Ok(frame)
}
