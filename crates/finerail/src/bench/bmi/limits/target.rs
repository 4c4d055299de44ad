//! The answering end of the limits.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use nix::mqueue::MQ_OFlag;
use sys::SharedMemory;

use super::{
    REQUEST_LEN, RING_BYTES, Request, Ring, Run, SLOTS, TINY, buffers, memory_name, open_queue,
    queue_names, read_stream, receive_from_queue, send_to_queue, socket_path,
};
use crate::bench::peer::ready;

/// Serves one bench, run by run.
pub(in crate::bench::bmi) fn serve(directory: &Path) -> anyhow::Result<()> {
    let listener = UnixListener::bind(socket_path(directory)).context("cannot listen")?;
    let tcp_listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen")?;
    let [there, back] = queue_names(directory);
    let there = open_queue(&there, MQ_OFlag::O_RDONLY)?;
    let back = open_queue(&back, MQ_OFlag::O_WRONLY)?;
    let memory = SharedMemory::create(&memory_name(directory), (SLOTS + RING_BYTES) as u64)?;
    let ring = Ring(memory.map(SLOTS + RING_BYTES)?);
    ring.0.prefault(&AtomicBool::new(false))?;
    ready(tcp_listener.local_addr()?.port())?;
    let (mut unix, _) = listener.accept().context("cannot accept a connection")?;
    let (mut tcp, _) = tcp_listener
        .accept()
        .context("cannot accept a connection")?;
    tcp.set_nodelay(true)?;
    let mut kept: Vec<Vec<u8>> = Vec::new();
    let mut bytes = [0; REQUEST_LEN];
    while unix.read_exact(&mut bytes).is_ok() {
        let request = Request::decode(&bytes)?;
        if kept.len() != request.slots || kept.first().is_some_and(|b| b.len() != request.bytes) {
            kept = buffers(request);
        }
        unix.write_all(&[0])?;
        match request.run {
            Run::Queue => {
                for _ in 0..request.count {
                    receive_from_queue(&there)?;
                    send_to_queue(&back)?;
                }
            }
            Run::UnixRoundTrip => round_trips(&mut unix, request.count)?,
            Run::TcpRoundTrip => round_trips(&mut tcp, request.count)?,
            Run::UnixStream => read_stream(&mut unix, request, &mut kept)?,
            Run::TcpStream => read_stream(&mut tcp, request, &mut kept)?,
            Run::Ring => ring.read(request)?,
            Run::Memcpy => {}
        }
        unix.write_all(&[0])?;
    }
    Ok(())
}

fn round_trips(stream: &mut (impl Read + Write), count: u64) -> anyhow::Result<()> {
    let mut message = [0; TINY];
    for _ in 0..count {
        stream.read_exact(&mut message)?;
        stream.write_all(&message)?;
    }
    Ok(())
}
