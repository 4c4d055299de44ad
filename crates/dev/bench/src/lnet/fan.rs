//! Senders with nodes and peers of their own: four that send at the same time, to one node or through a router, and
//! one that spins like its target.
//!
//! ```text
//!   127.0.0.20@tcp ─┐
//!   …               ├─▶ target 127.0.0.3@tcp,  or  router 127.0.0.4@tcp ─────▶ routed target
//!   127.0.0.23@tcp ─┘
//! ```
//!
//! Each sender has a thread of its own. A router here has threads of its own, like a router in production, and may
//! use the CPUs of both sides.

use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use lnet_node::{
    EventKind, EventQueue, MatchEntry, Md, MdHandle, MdOptions, Node, NodeOptions, Progress,
    PutRequest,
};
use lnet_ptlrpc::client::{Exchange, Export, Limits, Service, Start, Step};
use lnet_types::{ProcessId, Time};
use serde::Serialize;

use super::initiator::{LARGE_WINDOW, SILENCE_MAX_S, SMALL_WINDOW};
use super::{
    BULK_PORTAL, DATA_PORTAL, DONE_PORTAL, MATCH_BITS, Place, ROUTED_TARGET, SENDERS, TARGET,
    reserve_port,
};
use crate::child::{self, Peer, PeerSpec};
use crate::peer::Role;
use crate::placement::Placement;
use crate::workload::{LARGE, SMALL, TINY, Workload};

/// The pattern of the senders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// All senders put to one node.
    Direct,
    /// All senders put to one node through a router with so many I/O threads.
    Routed(u16),
    /// One sender puts through a router with two I/O threads, one for each direction.
    Through,
    /// The same with messages of Lustre. The router counts the RPCs, or it does not.
    Lustre { part: RpcPart, is_counting: bool },
    /// One sender puts and waits for the ACK. Both ends look for work for this time before they sleep.
    Spinning(Duration),
}

/// What messages of 4 KiB are to one who counts RPCs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RpcPart {
    /// Data of an RPC, of which only the header counts.
    Bulk,
    /// Requests, which are decoded.
    Request,
}

/// The senders, and the processes of the other nodes.
pub(crate) struct Fan {
    kind: Kind,
    senders: Vec<Sender>,
    target: ProcessId,
    peers: Vec<Peer>,
}

struct Sender {
    node: Node,
    queue: EventQueue,
    large: MdHandle,
    small: MdHandle,
    small_portal: u32,
    tiny: MdHandle,
}

impl RpcPart {
    /// Returns the portal and the 4 KiB of a message.
    fn message(self) -> anyhow::Result<(u32, Vec<u8>)> {
        if self == Self::Bulk {
            return Ok((BULK_PORTAL, vec![0x5A; SMALL]));
        }
        let start = Start {
            first_xid: 128,
            limits: Limits::within(Duration::from_secs(60)),
            now: Time::ZERO,
        };
        let export = Export::new(Service::Ost, "fs1-OST0000_UUID", "bench".to_owned(), 1);
        let Step::Send(mut request) = Exchange::knock(export, start).step(Time::ZERO) else {
            bail!("a conversation that begins with no request");
        };
        request.bytes.resize(SMALL, 0);
        Ok((request.portal, request.bytes))
    }
}

impl Kind {
    /// Returns the pattern of a workload; `None` if the workload does not need these senders.
    pub(super) const fn of(workload: Workload, spin: Duration) -> Option<Self> {
        match workload {
            Workload::RoundTripSpinning => Some(Self::Spinning(spin)),
            Workload::FanIn => Some(Self::Direct),
            Workload::FanInRouted => Some(Self::Routed(1)),
            Workload::FanInRoutedByTwo => Some(Self::Routed(2)),
            Workload::HopLarge | Workload::HopSmall | Workload::HopSmallBatched => {
                Some(Self::Through)
            }
            _ => None,
        }
    }
}

impl Fan {
    pub(crate) fn start(
        placement: &Placement,
        congestion: &str,
        kind: Kind,
    ) -> anyhow::Result<Self> {
        let reserved = reserve_port()?;
        let port = reserved.number();
        let peer = |role, more: &[&str]| {
            let cpu = placement.target_cpu;
            Peer::start_with(
                &PeerSpec {
                    role,
                    cpu,
                    congestion,
                    port,
                },
                more,
            )
        };
        let routed_by = |threads: u16, more: &[&str]| {
            let (threads, cpu) = (threads.to_string(), placement.initiator_cpu.to_string());
            let words = [&["--threads", &threads, "--cpu", &cpu], more].concat();
            let router = peer(Role::Router, &words)?;
            anyhow::Ok(vec![router, peer(Role::RoutedTarget, &[])?])
        };
        let routed = |threads| routed_by(threads, &[]);
        let (target, places, spin, peers) = match kind {
            Kind::Direct => {
                let peers = vec![peer(Role::Target, &[])?];
                (TARGET, &SENDERS[..], Duration::ZERO, peers)
            }
            Kind::Routed(threads) => (
                ROUTED_TARGET,
                &SENDERS[..],
                Duration::ZERO,
                routed(threads)?,
            ),
            Kind::Through => (ROUTED_TARGET, &SENDERS[..1], Duration::ZERO, routed(2)?),
            Kind::Lustre { is_counting, .. } => {
                let more: &[&str] = if is_counting { &["--rpc"] } else { &[] };
                let peers = routed_by(2, more)?;
                (ROUTED_TARGET, &SENDERS[..1], Duration::ZERO, peers)
            }
            Kind::Spinning(spin) => {
                let text = format!("{}us", spin.as_micros());
                let peers = vec![peer(Role::Target, &["--spin", &text])?];
                (TARGET, &SENDERS[..1], spin, peers)
            }
        };
        let options = NodeOptions {
            port,
            progress: Progress::Caller,
            congestion: Some(congestion.to_owned()),
            spin,
            ..NodeOptions::default()
        };
        let small = match kind {
            Kind::Lustre { part, .. } => part.message()?,
            _ => (DATA_PORTAL, vec![0x5A; SMALL]),
        };
        let senders = places
            .iter()
            .map(|place| Sender::start(place, options.clone(), small.clone()));
        Ok(Self {
            kind,
            senders: senders.collect::<Result<_, _>>()?,
            target: ProcessId::lustre(target.nid()?),
            peers,
        })
    }

    pub(super) const fn kind(&self) -> Kind {
        self.kind
    }

    /// Moves `count` messages in total, of the workload's length.
    pub(crate) fn run(&mut self, workload: Workload, count: u64) -> anyhow::Result<()> {
        let result = match self.kind {
            Kind::Spinning(_) => {
                let mut senders = self.senders.iter();
                senders.try_for_each(|sender| sender.round_trips(self.target, count))
            }
            _ => self.streams(workload, count),
        };
        if result.is_err() {
            child::blame(&mut self.peers)?;
        }
        result
    }

    /// Returns the CPU time that the router has used.
    pub(crate) fn router_time(&self) -> anyhow::Result<Duration> {
        let router = self.peers.first().context("senders without a router")?;
        child::cpu_time_of(router.pid())
    }

    fn streams(&self, workload: Workload, count: u64) -> anyhow::Result<()> {
        let target = self.target;
        let all = self.senders.len() as u64;
        thread::scope(|scope| {
            let streams = self.senders.iter().zip(0..).map(|(sender, index)| {
                let share = count / all + u64::from(index < count % all);
                scope.spawn(move || sender.stream(target, workload, share))
            });
            let streams: Vec<_> = streams.collect();
            let mut results = streams.into_iter().map(thread::ScopedJoinHandle::join);
            results.try_for_each(|result| match result {
                Ok(result) => result,
                Err(_) => bail!("a sender ended with a panic"),
            })
        })
    }
}

impl Sender {
    fn start(
        place: &Place,
        options: NodeOptions,
        (small_portal, small): (u32, Vec<u8>),
    ) -> anyhow::Result<Self> {
        let node = place.start_with(options)?.into_node();
        let queue = node.event_queue();
        let bind = |bytes: Vec<u8>| node.bind(&queue, Md::source(Bytes::from(bytes)));
        let (large, tiny) = (bind(vec![0x5A; LARGE])?, bind(vec![0x5A; TINY])?);
        let small = bind(small)?;
        let done = Md::sink(Vec::new()).options(MdOptions::OP_PUT);
        node.attach(&queue, MatchEntry::exact(DONE_PORTAL, MATCH_BITS), done)?;
        Ok(Self {
            node,
            queue,
            large,
            small,
            small_portal,
            tiny,
        })
    }

    /// Sends PUTs without ACK until the target reports that the last one has arrived.
    fn stream(&self, target: ProcessId, workload: Workload, count: u64) -> anyhow::Result<()> {
        let (md, window) = match workload.message_len() {
            SMALL => (self.small, SMALL_WINDOW),
            _ => (self.large, LARGE_WINDOW),
        };
        let (mut put, mut sent, mut arrived) = (0, 0, count == 0);
        while sent < count || !arrived {
            while put < count && put - sent < window {
                self.put(md, target, false, count)?;
                put += 1;
            }
            match self.next()? {
                EventKind::Send => sent += 1,
                EventKind::Put => arrived = true,
                other => bail!("an event {other:?} in a stream"),
            }
        }
        Ok(())
    }

    fn round_trips(&self, target: ProcessId, count: u64) -> anyhow::Result<()> {
        for _ in 0..count {
            self.put(self.tiny, target, true, 0)?;
            // The two events are SEND and ACK.
            self.next()?;
            self.next()?;
        }
        Ok(())
    }

    fn put(&self, md: MdHandle, target: ProcessId, ack: bool, hdr_data: u64) -> anyhow::Result<()> {
        let put = PutRequest {
            md,
            ack,
            source: None,
            target,
            portal: if md == self.small {
                self.small_portal
            } else {
                DATA_PORTAL
            },
            match_bits: MATCH_BITS,
            offset: 0,
            hdr_data,
        };
        self.node.put(put).context("a PUT was refused")
    }

    fn next(&self) -> anyhow::Result<EventKind> {
        let patience = Duration::from_secs(SILENCE_MAX_S.into());
        let event = match self.queue.try_next() {
            Some(event) => event,
            None => self.queue.wait(Some(patience))?,
        };
        match event.event.status {
            Ok(()) => Ok(event.event.kind),
            Err(errno) => bail!("{:?} failed with errno {}", event.event.kind, errno.0),
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.node.shutdown(Duration::ZERO);
    }
}
