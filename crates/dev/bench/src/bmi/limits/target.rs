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
    REQUEST_LEN, RING_BYTES, Request, Ring, Run, SLOTS, buffers, memory_name, open_queue,
    queue_names, queue_trips, read_stream, round_trips, socket_path, tuned,
};
use crate::peer::ready;

/// Serves one bench, run by run.
pub(in crate::bmi) fn serve(directory: &Path) -> anyhow::Result<()> {
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
        let tuning = request.tuning;
        match request.run {
            Run::Queue => queue_trips(&back, &there, request, false)?,
            Run::UnixRoundTrip => tuned(&mut unix, tuning, |stream| {
                Ok(round_trips(stream, request, false)?)
            })?,
            Run::TcpRoundTrip => tuned(&mut tcp, tuning, |stream| {
                Ok(round_trips(stream, request, false)?)
            })?,
            Run::UnixStream => tuned(&mut unix, tuning, |stream| {
                Ok(read_stream(stream, request, &mut kept)?)
            })?,
            Run::TcpStream => tuned(&mut tcp, tuning, |stream| {
                Ok(read_stream(stream, request, &mut kept)?)
            })?,
            Run::Ring => ring.read(request)?,
            Run::Memcpy => {}
        }
        unix.write_all(&[0])?;
    }
    Ok(())
}
