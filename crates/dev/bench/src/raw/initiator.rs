//! The measuring end of the raw limit.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::fan::{Fan, Kind};
use super::{HEADER_LEN, Header, Link, Run, batch};
use crate::child::{self, Peer, PeerSpec, cpu_time};
use crate::measure::Side;
use crate::peer::Role;
use crate::placement::Placement;
use crate::workload::{COLD_BUFFERS, GETS_IN_FLIGHT, LARGE, SMALL_GETS_IN_FLIGHT, TINY, Workload};

/// The raw limit in one placement, with its processes.
pub(crate) struct Initiator {
    direct: Link,
    relayed: Link,
    buffer: Vec<u8>,
    cold: Vec<Vec<u8>>,
    peers: [Peer; 3],
    /// Started when they are first needed.
    fans: Vec<Fan>,
    placement: Placement,
    congestion: String,
}

impl Initiator {
    pub(crate) fn start(placement: &Placement, congestion: &str) -> anyhow::Result<Self> {
        let peer = |role, port| {
            let cpu = placement.target_cpu;
            Peer::start(&PeerSpec {
                role,
                cpu,
                congestion,
                port,
            })
        };
        let direct = peer(Role::RawTarget, 0)?;
        let behind_relay = peer(Role::RawTarget, 0)?;
        let relay = peer(Role::RawRelay, behind_relay.port())?;
        Ok(Self {
            direct: connect(direct.port(), congestion)?,
            relayed: connect(relay.port(), congestion)?,
            buffer: vec![0x5A; LARGE],
            cold: vec![vec![0x5A; LARGE]; COLD_BUFFERS],
            peers: [direct, relay, behind_relay],
            fans: Vec::new(),
            placement: placement.clone(),
            congestion: congestion.to_owned(),
        })
    }

    /// Starts the processes that only this workload needs.
    fn prepare(&mut self, workload: Workload) -> anyhow::Result<()> {
        if let Some(kind) = Kind::of(workload)
            && !self.fans.iter().any(|fan| fan.kind() == kind)
        {
            let fan = Fan::start(&self.placement, &self.congestion, kind)?;
            self.fans.push(fan);
        }
        Ok(())
    }

    fn measure(&mut self, workload: Workload, count: u64) -> anyhow::Result<Duration> {
        let Self {
            direct,
            relayed,
            buffer,
            cold,
            peers,
            fans,
            ..
        } = self;
        let payload = &mut buffer[..workload.message_len()];
        let begin = Instant::now();
        match workload {
            Workload::PutLarge | Workload::PutSmall | Workload::HopLarge | Workload::HopSmall => {
                stream(direct, payload, count)?
            }
            Workload::PutLargeCpu => {
                let before = cpu_time(&peers[..1])?;
                stream(direct, payload, count)?;
                return Ok(cpu_time(&peers[..1])?.saturating_sub(before));
            }
            Workload::PutCold => cold_stream(direct, cold, count)?,
            Workload::PutRouted => stream(relayed, payload, count)?,
            Workload::PutSmallBatched | Workload::PutTinyBatched | Workload::HopSmallBatched => {
                return batches(direct, payload, count);
            }
            Workload::RoundTrip => round_trips(direct, count)?,
            Workload::RoundTripSpinning => spinning_round_trips(direct, count)?,
            Workload::GetLarge => gets(direct, payload, count)?,
            Workload::GetSmall => gets_batched(direct, payload.len(), count)?,
            Workload::FanIn | Workload::FanInRouted | Workload::FanInRoutedByTwo => {
                let kind = Kind::of(workload);
                let fan = fans.iter_mut().find(|fan| Some(fan.kind()) == kind);
                fan.context("it was not prepared")?.run(payload, count)?;
            }
        }
        Ok(begin.elapsed())
    }
}

impl Side for Initiator {
    fn run(&mut self, workload: Workload, count: u64) -> anyhow::Result<Duration> {
        self.prepare(workload)?;
        let result = self.measure(workload, count);
        if result.is_err() {
            child::blame(&mut self.peers)?;
        }
        result.with_context(|| format!("the limit of '{}'", workload.label()))
    }
}

pub(super) fn connect(port: u16, congestion: &str) -> anyhow::Result<Link> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))
        .with_context(|| format!("cannot connect to port {port} of this machine"))?;
    Link::new(stream, congestion)
}

pub(super) fn announce(run: Run, payload: &[u8], count: u64) -> anyhow::Result<[u8; HEADER_LEN]> {
    let length = u32::try_from(payload.len())?;
    Ok(Header { run, length, count }.encode())
}

pub(super) fn stream(link: &mut Link, payload: &[u8], count: u64) -> anyhow::Result<()> {
    let header = announce(Run::Stream, payload, count)?;
    link.send(&header, &[])?;
    for _ in 0..count {
        link.send(&header, payload)?;
    }
    link.receive_header()?;
    Ok(())
}

fn cold_stream(link: &mut Link, buffers: &[Vec<u8>], count: u64) -> anyhow::Result<()> {
    let header = announce(Run::Cold, &buffers[0], count)?;
    link.send(&header, &[])?;
    for (_, payload) in (0..count).zip(buffers.iter().cycle()) {
        link.send(&header, payload)?;
    }
    link.receive_header()?;
    Ok(())
}

/// Sends whole batches: `count` is rounded up, and the time is scaled down to the time of `count` messages.
pub(super) fn batches(link: &mut Link, payload: &[u8], count: u64) -> anyhow::Result<Duration> {
    let in_batch = batch(payload.len());
    let rounded = count.next_multiple_of(in_batch as u64);
    let header = announce(Run::Batches, payload, rounded)?;
    let batch = [&header[..], payload].concat().repeat(in_batch);
    let begin = Instant::now();
    link.send(&header, &[])?;
    for _ in 0..rounded / in_batch as u64 {
        link.stream.write_all(&batch)?;
    }
    link.receive_header()?;
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    let share = count as f64 / rounded as f64;
    Ok(begin.elapsed().mul_f64(share))
}

fn round_trips(link: &mut Link, count: u64) -> anyhow::Result<()> {
    let payload = [0x5A; TINY];
    let header = announce(Run::RoundTrips, &payload, count)?;
    let message = [&header[..], &payload].concat();
    let mut answer = [0; HEADER_LEN];
    link.send(&header, &[])?;
    for _ in 0..count {
        link.stream.write_all(&message)?;
        link.stream.read_exact(&mut answer)?;
    }
    Ok(())
}

fn spinning_round_trips(link: &mut Link, count: u64) -> anyhow::Result<()> {
    let payload = [0x5A; TINY];
    let header = announce(Run::SpinningRoundTrips, &payload, count)?;
    let message = [&header[..], &payload].concat();
    let mut answer = [0; HEADER_LEN];
    link.send(&header, &[])?;
    link.stream.set_nonblocking(true)?;
    for _ in 0..count {
        // One small message in flight always fits into the socket.
        link.stream.write_all(&message)?;
        link.receive_spinning(&mut answer)?;
    }
    Ok(link.stream.set_nonblocking(false)?)
}

fn gets(link: &mut Link, buffer: &mut [u8], count: u64) -> anyhow::Result<()> {
    let request = announce(Run::Gets, buffer, count)?;
    link.send(&request, &[])?;
    let ahead = count.min(GETS_IN_FLIGHT);
    for _ in 0..ahead {
        link.send(&request, &[])?;
    }
    let mut requested = ahead;
    let mut header = [0; HEADER_LEN];
    link.stream.read_exact(&mut header)?;
    for received in 1..=count {
        let wanted = if received < count { HEADER_LEN } else { 0 };
        link.receive(buffer, &mut header[..wanted])?;
        if requested < count {
            link.send(&request, &[])?;
            requested += 1;
        }
    }
    Ok(())
}

/// Fetches messages. Each write contains one request for every answer of the last read.
fn gets_batched(link: &mut Link, length: usize, count: u64) -> anyhow::Result<()> {
    let most = usize::try_from(SMALL_GETS_IN_FLIGHT)?;
    let mut answers = vec![0; most * (HEADER_LEN + length)];
    let request = announce(Run::GetsBatched, &answers[..length], count)?;
    let requests = request.repeat(most);
    link.send(&request, &[])?;
    let frame = HEADER_LEN + length;
    let mut requested = count.min(SMALL_GETS_IN_FLIGHT);
    link.stream
        .write_all(&requests[..usize::try_from(requested)? * HEADER_LEN])?;
    let (mut left, mut filled) = (count, 0);
    while left > 0 {
        let read = link.stream.read(&mut answers[filled..])?;
        anyhow::ensure!(read > 0, "the answers ended {left} early");
        filled += read;
        let whole = filled / frame;
        left -= whole as u64;
        answers.copy_within(whole * frame..filled, 0);
        filled -= whole * frame;
        let more = (whole as u64).min(count - requested);
        requested += more;
        link.stream
            .write_all(&requests[..usize::try_from(more)? * HEADER_LEN])?;
    }
    Ok(())
}
