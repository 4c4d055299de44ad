//! The measuring end of the raw limit.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::{BATCH, HEADER_LEN, Header, Link, Run};
use crate::bench::child::{self, Peer, PeerSpec};
use crate::bench::measure::Side;
use crate::bench::peer::Role;
use crate::bench::placement::Placement;
use crate::bench::workload::{GETS_IN_FLIGHT, LARGE, TINY, Workload};

/// The raw limit in one placement, with its processes.
pub(in crate::bench) struct Initiator {
    direct: Link,
    relayed: Link,
    buffer: Vec<u8>,
    peers: [Peer; 3],
}

impl Initiator {
    pub(in crate::bench) fn start(placement: &Placement, congestion: &str) -> anyhow::Result<Self> {
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
            peers: [direct, relay, behind_relay],
        })
    }

    fn measure(&mut self, workload: Workload, count: u64) -> anyhow::Result<Duration> {
        let Self {
            direct,
            relayed,
            buffer,
            ..
        } = self;
        let payload = &mut buffer[..workload.message_len()];
        let begin = Instant::now();
        match workload {
            Workload::PutLarge | Workload::PutSmall => stream(direct, payload, count)?,
            Workload::PutRouted => stream(relayed, payload, count)?,
            Workload::PutSmallBatched => return batches(direct, payload, count),
            Workload::RoundTrip => round_trips(direct, count)?,
            Workload::GetLarge => gets(direct, payload, count)?,
        }
        Ok(begin.elapsed())
    }
}

impl Side for Initiator {
    fn run(&mut self, workload: Workload, count: u64) -> anyhow::Result<Duration> {
        let result = self.measure(workload, count);
        if result.is_err() {
            child::blame(&mut self.peers)?;
        }
        result.with_context(|| format!("the limit of '{}'", workload.label()))
    }
}

fn connect(port: u16, congestion: &str) -> anyhow::Result<Link> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))
        .with_context(|| format!("cannot connect to port {port} of this machine"))?;
    Link::new(stream, congestion)
}

fn announce(run: Run, payload: &[u8], count: u64) -> anyhow::Result<[u8; HEADER_LEN]> {
    let length = u32::try_from(payload.len())?;
    Ok(Header { run, length, count }.encode())
}

fn stream(link: &mut Link, payload: &[u8], count: u64) -> anyhow::Result<()> {
    let header = announce(Run::Stream, payload, count)?;
    link.send(&header, &[])?;
    for _ in 0..count {
        link.send(&header, payload)?;
    }
    link.receive_header()?;
    Ok(())
}

/// `count` is rounded up to whole batches, and the time down to what `count` messages took.
fn batches(link: &mut Link, payload: &[u8], count: u64) -> anyhow::Result<Duration> {
    let rounded = count.next_multiple_of(BATCH as u64);
    let header = announce(Run::Batches, payload, rounded)?;
    let batch = [&header[..], payload].concat().repeat(BATCH);
    let begin = Instant::now();
    link.send(&header, &[])?;
    for _ in 0..rounded / BATCH as u64 {
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
