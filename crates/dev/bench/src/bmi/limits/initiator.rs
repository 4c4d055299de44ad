//! The measuring end of the limits.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::mqueue::{MQ_OFlag, MqdT};
use sys::SharedMemory;
use sys::span::Span;

use super::{
    Limit, RING_BYTES, Request, Ring, Run, SLOTS, Tuning, buffers, memory_name, open_queue,
    queue_names, queue_trips, round_trips, socket_path, tuned, write_stream,
};

/// The end that is connected to a target.
pub(crate) struct Initiator {
    unix: UnixStream,
    tcp: TcpStream,
    there: MqdT,
    back: MqdT,
    ring: Ring,
    /// The sources of the ring's messages. They are kept because fresh pages cost time.
    sources: Vec<Span>,
}

impl Initiator {
    /// Connects to the target of a directory, and removes the names that only served to find the target.
    pub(crate) fn connect(directory: &Path, port: u16) -> anyhow::Result<Self> {
        let memory = memory_name(directory);
        let object = SharedMemory::open(&memory)?;
        sys::unlink_shared_memory(&memory)?;
        let names = queue_names(directory);
        let there = open_queue(&names[0], MQ_OFlag::O_WRONLY)?;
        let back = open_queue(&names[1], MQ_OFlag::O_RDONLY)?;
        for name in &names {
            sys::unlink_queue(name)?;
        }
        let ring = Ring(object.map(SLOTS + RING_BYTES)?);
        ring.0.prefault(&AtomicBool::new(false))?;
        let tcp = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        tcp.set_nodelay(true)?;
        Ok(Self {
            unix: UnixStream::connect(socket_path(directory))?,
            tcp,
            there,
            back,
            ring,
            sources: Vec::new(),
        })
    }

    /// Returns the congestion control of sockets that do not choose one.
    pub(in crate::bmi) fn congestion_control(&self) -> anyhow::Result<String> {
        Ok(sys::congestion_control(&self.tcp)?)
    }

    /// Runs `count` round trips or messages of `bytes` bytes, with `in_flight` of them at a time.
    pub(crate) fn run(
        &mut self,
        limit: Limit,
        bytes: usize,
        in_flight: u32,
        tuning: Tuning,
        count: u64,
    ) -> anyhow::Result<Duration> {
        let request = |run| Request {
            run,
            bytes,
            count,
            slots: in_flight as usize,
            tuning,
        };
        match limit {
            Limit::QueueAndSocket => {
                Ok(self.one(request(Run::Queue))? + self.one(request(Run::UnixRoundTrip))?)
            }
            Limit::Queue => self.one(request(Run::Queue)),
            Limit::UnixRoundTrip => self.one(request(Run::UnixRoundTrip)),
            Limit::TcpRoundTrip => self.one(request(Run::TcpRoundTrip)),
            Limit::UnixStream => self.one(request(Run::UnixStream)),
            Limit::TcpStream => self.one(request(Run::TcpStream)),
            Limit::Ring => self.one(request(Run::Ring)),
            Limit::Memcpy => self.one(request(Run::Memcpy)),
        }
    }

    fn one(&mut self, request: Request) -> anyhow::Result<Duration> {
        self.prepare(request);
        self.unix.write_all(&request.encode())?;
        self.await_byte()?;
        let begin = Instant::now();
        let (tuning, sources) = (request.tuning, &self.sources);
        match request.run {
            Run::Queue => queue_trips(&self.there, &self.back, request, true)?,
            Run::UnixRoundTrip => tuned(&mut self.unix, tuning, |stream| {
                Ok(round_trips(stream, request, true)?)
            })?,
            Run::TcpRoundTrip => tuned(&mut self.tcp, tuning, |stream| {
                Ok(round_trips(stream, request, true)?)
            })?,
            Run::UnixStream => tuned(&mut self.unix, tuning, |stream| {
                Ok(write_stream(stream, request, sources)?)
            })?,
            Run::TcpStream => tuned(&mut self.tcp, tuning, |stream| {
                Ok(write_stream(stream, request, sources)?)
            })?,
            Run::Ring => self.ring.write(request, sources)?,
            Run::Memcpy => self.ring.fill(request, sources)?,
        }
        self.await_byte()?;
        Ok(begin.elapsed())
    }

    fn await_byte(&mut self) -> anyhow::Result<()> {
        let byte = self.unix.read_exact(&mut [0]);
        byte.context("the target of the limits is gone")
    }

    fn prepare(&mut self, request: Request) {
        let fits = self.sources.len() == request.slots
            && self.sources.iter().all(|span| span.len() == request.bytes);
        if !fits {
            self.sources = buffers(request).into_iter().map(Span::from).collect();
        }
        self.ring.reset();
    }
}
