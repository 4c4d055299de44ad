//! The node that measures.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::Bytes;
use lnet_node::{
    Event, EventKind, EventQueue, GetRequest, MatchEntry, Md, MdHandle, MdOptions, Node, NodeEvent,
    Progress, PutRequest, WaitError,
};
use lnet_types::ProcessId;

use super::fan::{Fan, Kind};
use super::{
    COLD_PORTAL, DATA_PORTAL, DONE_PORTAL, INITIATOR, MATCH_BITS, ROUTED_TARGET, TARGET,
    reserve_port,
};
use crate::child::{self, Peer, PeerSpec, cpu_time};
use crate::measure::Side;
use crate::peer::Role;
use crate::placement::Placement;
use crate::workload::{
    COLD_BUFFERS, GETS_IN_FLIGHT, LARGE, SMALL, SMALL_GETS_IN_FLIGHT, TINY, Workload,
};

/// The number of large PUTs that are passed to the node before the first one is written: some in the socket, one
/// being written, one ready.
pub(super) const LARGE_WINDOW: u64 = 4;
/// The number of small PUTs that are passed to the node before the first one is written.
pub(super) const SMALL_WINDOW: u64 = 32;

/// The seconds without an event after which a run fails.
pub(super) const SILENCE_MAX_S: u32 = 20;

/// The node that measures in one placement, and the processes of the other nodes.
pub(crate) struct Initiator {
    node: Node,
    queue: EventQueue,
    sources: Sources,
    sinks: Sinks,
    target: ProcessId,
    routed_target: ProcessId,
    peers: [Peer; 3],
    /// Started when they are first needed.
    fans: Vec<Fan>,
    placement: Placement,
    congestion: String,
    spin: Duration,
}

/// Descriptors of the memory that PUTs send.
struct Sources {
    large: MdHandle,
    small: MdHandle,
    tiny: MdHandle,
    cold: Vec<MdHandle>,
}

/// Descriptors of the memory that GETs write to. Each is as long as the requested data.
struct Sinks {
    large: MdHandle,
    small: MdHandle,
}

/// The destination of PUTs.
#[derive(Clone, Copy)]
struct To {
    target: ProcessId,
    portal: u32,
    /// The number of buffers to which PUTs go in turn.
    buffers: usize,
}

impl Initiator {
    pub(crate) fn start(
        placement: &Placement,
        congestion: &str,
        spin: Duration,
    ) -> anyhow::Result<Self> {
        let reserved = reserve_port()?;
        let port = reserved.number();
        let peer = |role| {
            let cpu = placement.target_cpu;
            Peer::start(&PeerSpec {
                role,
                cpu,
                congestion,
                port,
            })
        };
        let peers = [
            peer(Role::Target)?,
            peer(Role::Router)?,
            peer(Role::RoutedTarget)?,
        ];
        let node = INITIATOR.start(port, congestion, Progress::Caller)?;
        let queue = node.event_queue();
        let source = |length| node.bind(&queue, Md::source(Bytes::from(vec![0x5A; length])));
        let sources = Sources {
            large: source(LARGE)?,
            small: source(SMALL)?,
            tiny: source(TINY)?,
            cold: (0..COLD_BUFFERS)
                .map(|_| source(LARGE))
                .collect::<Result<_, _>>()?,
        };
        let sink = |length| node.bind(&queue, Md::sink(vec![0; length]));
        let sinks = Sinks {
            large: sink(LARGE)?,
            small: sink(SMALL)?,
        };
        let done = Md::sink(Vec::new()).options(MdOptions::OP_PUT);
        node.attach(&queue, MatchEntry::exact(DONE_PORTAL, MATCH_BITS), done)?;
        Ok(Self {
            sources,
            sinks,
            target: ProcessId::lustre(TARGET.nid()?),
            routed_target: ProcessId::lustre(ROUTED_TARGET.nid()?),
            node,
            queue,
            peers,
            fans: Vec::new(),
            placement: placement.clone(),
            congestion: congestion.to_owned(),
            spin,
        })
    }

    /// Starts the processes that only this workload needs.
    fn prepare(&mut self, workload: Workload) -> anyhow::Result<()> {
        if let Some(kind) = Kind::of(workload, self.spin)
            && !self.fans.iter().any(|fan| fan.kind() == kind)
        {
            let fan = Fan::start(&self.placement, &self.congestion, kind)?;
            self.fans.push(fan);
        }
        Ok(())
    }

    fn measure(&mut self, workload: Workload, count: u64) -> anyhow::Result<()> {
        if let Some(kind) = Kind::of(workload, self.spin) {
            let mut fans = self.fans.iter_mut();
            let fan = fans.find(|fan| fan.kind() == kind);
            return fan.context("it was not prepared")?.run(workload, count);
        }
        let Sources {
            large, small, tiny, ..
        } = self.sources;
        let to = |target| To {
            target,
            portal: DATA_PORTAL,
            buffers: 1,
        };
        let (near, through) = (to(self.target), to(self.routed_target));
        match workload {
            Workload::PutLarge | Workload::PutLargeCpu => {
                self.stream(&[large], near, count, LARGE_WINDOW)
            }
            Workload::PutCold => {
                let cold = To {
                    portal: COLD_PORTAL,
                    buffers: COLD_BUFFERS,
                    ..near
                };
                let sources = self.sources.cold.clone();
                self.stream(&sources, cold, count, LARGE_WINDOW)
            }
            Workload::PutRouted => self.stream(&[large], through, count, LARGE_WINDOW),
            Workload::PutSmall | Workload::PutSmallBatched => {
                self.stream(&[small], near, count, SMALL_WINDOW)
            }
            Workload::PutTinyBatched => self.stream(&[tiny], near, count, SMALL_WINDOW),
            Workload::RoundTrip => self.round_trips(count),
            Workload::GetLarge => self.gets(self.sinks.large, GETS_IN_FLIGHT, count),
            Workload::GetSmall => self.gets(self.sinks.small, SMALL_GETS_IN_FLIGHT, count),
            Workload::RoundTripSpinning
            | Workload::FanIn
            | Workload::FanInRouted
            | Workload::FanInRoutedByTwo
            | Workload::HopLarge
            | Workload::HopSmall
            | Workload::HopSmallBatched => bail!("it has processes of its own"),
        }
    }

    /// Sends PUTs without ACK from these sources in turn until the target reports that the last one has arrived.
    fn stream(
        &mut self,
        sources: &[MdHandle],
        to: To,
        count: u64,
        window: u64,
    ) -> anyhow::Result<()> {
        let (mut put, mut sent, mut arrived) = (0, 0, false);
        let mut buffers = sources.iter().zip(0..to.buffers).cycle();
        while sent < count || !arrived {
            while put < count && put - sent < window {
                let (&md, buffer) = buffers.next().context("no buffer")?;
                let offset = u32::try_from(buffer * LARGE)?;
                self.put(md, to, offset, false, count)?;
                put += 1;
            }
            match self.next()?.kind {
                EventKind::Send => sent += 1,
                EventKind::Put => arrived = true,
                other => bail!("an event {other:?} in a stream"),
            }
        }
        Ok(())
    }

    fn round_trips(&mut self, count: u64) -> anyhow::Result<()> {
        let to = To {
            target: self.target,
            portal: DATA_PORTAL,
            buffers: 1,
        };
        for _ in 0..count {
            self.put(self.sources.tiny, to, 0, true, 0)?;
            // The two events are SEND and ACK.
            self.next()?;
            self.next()?;
        }
        Ok(())
    }

    /// Runs GETs. All GETs write to the same memory, because the raw limit reads into one buffer.
    fn gets(&mut self, sink: MdHandle, in_flight: u64, count: u64) -> anyhow::Result<()> {
        let (mut asked, mut sent, mut replied) = (0, 0, 0);
        while sent < count || replied < count {
            while asked < count && asked - replied < in_flight {
                self.get(sink)?;
                asked += 1;
            }
            match self.next()?.kind {
                EventKind::Send => sent += 1,
                EventKind::Reply => replied += 1,
                other => bail!("an event {other:?} among GETs"),
            }
        }
        Ok(())
    }

    fn put(
        &self,
        md: MdHandle,
        to: To,
        offset: u32,
        ack: bool,
        hdr_data: u64,
    ) -> anyhow::Result<()> {
        let put = PutRequest {
            md,
            ack,
            source: None,
            target: to.target,
            portal: to.portal,
            match_bits: MATCH_BITS,
            offset,
            hdr_data,
        };
        self.node.put(put).context("a PUT was refused")
    }

    fn get(&self, md: MdHandle) -> anyhow::Result<()> {
        let get = GetRequest {
            md,
            source: None,
            target: self.target,
            portal: DATA_PORTAL,
            match_bits: MATCH_BITS,
            offset: 0,
        };
        self.node.get(get).context("a GET was refused")
    }

    /// Returns the next event. A failed operation and a long silence are errors.
    fn next(&mut self) -> anyhow::Result<Event> {
        // If an event is already there, no system call reads the clock.
        let there = self.queue.try_next();
        let NodeEvent { event, .. } = there.map_or_else(|| self.wait(), Ok)?;
        if let Err(errno) = event.status {
            child::blame(&mut self.peers)?;
            bail!("{:?} failed with errno {}", event.kind, errno.0);
        }
        Ok(event)
    }

    fn wait(&mut self) -> anyhow::Result<NodeEvent> {
        for _ in 0..SILENCE_MAX_S {
            match self.queue.wait(Some(Duration::from_secs(1))) {
                Ok(event) => return Ok(event),
                Err(WaitError::TimedOut | WaitError::PathLost) => {}
                Err(ended @ WaitError::Closed) => return Err(ended.into()),
            }
            self.peers.iter_mut().try_for_each(Peer::check_alive)?;
        }
        bail!("nothing happened for {SILENCE_MAX_S} seconds")
    }
}

impl Side for Initiator {
    fn run(&mut self, workload: Workload, count: u64) -> anyhow::Result<Duration> {
        self.prepare(workload)?;
        let used = || match workload.takes_cpu_time() {
            true => cpu_time(&self.peers[..1]),
            false => Ok(Duration::ZERO),
        };
        let (used_before, begin) = (used()?, Instant::now());
        self.measure(workload, count)
            .with_context(|| format!("Finerail's '{}'", workload.label()))?;
        let elapsed = begin.elapsed();
        match workload.takes_cpu_time() {
            true => Ok(cpu_time(&self.peers[..1])?.saturating_sub(used_before)),
            false => Ok(elapsed),
        }
    }
}

impl Drop for Initiator {
    fn drop(&mut self) {
        self.node.shutdown(Duration::ZERO);
    }
}
