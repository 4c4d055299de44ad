//! Several senders at the same time: to one target, and through a relay of one thread or of several.
//!
//! ```text
//!   sender ──▶ ┐                      ┌ ──▶ ┐
//!   sender ──▶ ├ target,  or    relay ├ ──▶ ├ target
//!   sender ──▶ ┘                      └ ──▶ ┘
//! ```
//!
//! Each sender has a thread and a connection of its own. A receiver's thread takes one message from each of its
//! connections in turn, without polling for readable ones, because all senders send as much as they can. A relay
//! has a separate connection to the target for each sender.

use std::net::{Ipv4Addr, TcpListener};
use std::thread::{self, ScopedJoinHandle};

use anyhow::{Context, bail};

use super::initiator::{announce, connect};
use super::target::next_run;
use super::{HEADER_LEN, Header, Link, Run};
use crate::child::{self, Peer, PeerSpec};
use crate::peer::{self, PeerArgs, Role};
use crate::placement::Placement;
use crate::workload::{LARGE, SENDERS, Workload};

/// The receiver of the senders' messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One target.
    Direct,
    /// A relay with so many threads.
    Relayed(u16),
}

/// The senders' connections, and the processes of the other ends.
pub(super) struct Fan {
    kind: Kind,
    links: Vec<Link>,
    peers: Vec<Peer>,
}

impl Kind {
    /// Returns the pattern of a workload; `None` if the workload does not need several senders.
    pub(super) const fn of(workload: Workload) -> Option<Self> {
        match workload {
            Workload::FanIn => Some(Self::Direct),
            Workload::FanInRouted => Some(Self::Relayed(1)),
            Workload::FanInRoutedByTwo => Some(Self::Relayed(2)),
            _ => None,
        }
    }
}

impl Fan {
    pub(super) fn start(
        placement: &Placement,
        congestion: &str,
        kind: Kind,
    ) -> anyhow::Result<Self> {
        let peer = |port, more: &[&str]| {
            let spec = PeerSpec {
                role: Role::RawFan,
                cpu: placement.target_cpu,
                congestion,
                port,
            };
            Peer::start_with(&spec, more)
        };
        let mut peers = vec![peer(0, &[])?];
        if let Kind::Relayed(threads) = kind {
            let (threads, cpu) = (threads.to_string(), placement.initiator_cpu.to_string());
            peers.insert(
                0,
                peer(peers[0].port(), &["--threads", &threads, "--cpu", &cpu])?,
            );
        }
        let links = (0..SENDERS).map(|_| connect(peers[0].port(), congestion));
        Ok(Self {
            kind,
            links: links.collect::<Result<_, _>>()?,
            peers,
        })
    }

    pub(super) const fn kind(&self) -> Kind {
        self.kind
    }

    /// Sends `count` messages in total.
    pub(super) fn run(&mut self, payload: &[u8], count: u64) -> anyhow::Result<()> {
        let all = self.links.len() as u64;
        let sent = thread::scope(|scope| {
            let streams = self.links.iter_mut().zip(0..).map(|(link, index)| {
                let share = count / all + u64::from(index < count % all);
                scope.spawn(move || send(link, payload, share))
            });
            let streams: Vec<_> = streams.collect();
            all_of(streams)
        });
        if sent.is_err() {
            child::blame(&mut self.peers)?;
        }
        sent
    }
}

fn send(link: &mut Link, payload: &[u8], count: u64) -> anyhow::Result<()> {
    let header = announce(Run::Stream, payload, count)?;
    link.send(&header, &[])?;
    for _ in 0..count {
        link.send(&header, payload)?;
    }
    link.receive_header()?;
    Ok(())
}

/// A sender's connection, and the connection to which its messages are passed on.
struct Passage {
    link: Link,
    onward: Option<Link>,
    announced: Header,
    left: u64,
}

/// Receives the senders' messages, or passes them on to the target on the port that the arguments name.
pub(crate) fn serve(args: &PeerArgs) -> anyhow::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen")?;
    peer::ready(listener.local_addr()?.port())?;
    let mut passages = Vec::new();
    for _ in 0..SENDERS {
        let (stream, _) = listener.accept().context("cannot accept a connection")?;
        passages.push(Passage {
            link: Link::new(stream, &args.congestion)?,
            onward: match args.port {
                0 => None,
                port => Some(connect(port, &args.congestion)?),
            },
            announced: Header {
                run: Run::Stream,
                length: 0,
                count: 0,
            },
            left: 0,
        });
    }
    let threads = usize::from(args.threads.max(1));
    thread::scope(|scope| {
        let shares = passages.chunks_mut(SENDERS.div_ceil(threads));
        all_of(shares.map(|share| scope.spawn(|| pass(share))).collect())
    })
}

/// Serves one run after another until the senders close.
fn pass(passages: &mut [Passage]) -> anyhow::Result<()> {
    let mut buffer = vec![0; LARGE];
    loop {
        for passage in &mut *passages {
            if !passage.begin()? {
                return Ok(());
            }
        }
        while passages.iter().any(|passage| passage.left > 0) {
            for passage in passages.iter_mut().filter(|passage| passage.left > 0) {
                passage.take(&mut buffer)?;
            }
        }
        for passage in &mut *passages {
            passage.end()?;
        }
    }
}

impl Passage {
    /// Begins a run; returns false when the sender has closed.
    fn begin(&mut self) -> anyhow::Result<bool> {
        let Some(announced) = next_run(&mut self.link)? else {
            return Ok(false);
        };
        (self.announced, self.left) = (announced, announced.count);
        if let Some(onward) = &mut self.onward {
            onward.send(&announced.encode(), &[])?;
        }
        Ok(true)
    }

    /// Takes one message, with one `readv` if the whole message is there.
    fn take(&mut self, buffer: &mut [u8]) -> anyhow::Result<()> {
        let Some(payload) = buffer.get_mut(..self.announced.length as usize) else {
            bail!("a raw frame of {} bytes", self.announced.length);
        };
        let mut header = [0; HEADER_LEN];
        self.link.receive(&mut header, payload)?;
        if let Some(onward) = &mut self.onward {
            onward.send(&header, payload)?;
        }
        self.left -= 1;
        Ok(())
    }

    fn end(&mut self) -> anyhow::Result<()> {
        if let Some(onward) = &mut self.onward {
            onward.receive_header()?;
        }
        Ok(self.link.send(&self.announced.encode(), &[])?)
    }
}

fn all_of(threads: Vec<ScopedJoinHandle<'_, anyhow::Result<()>>>) -> anyhow::Result<()> {
    let mut ends = threads.into_iter().map(ScopedJoinHandle::join);
    ends.try_for_each(|end| match end {
        Ok(result) => result,
        Err(_) => bail!("a thread ended with a panic"),
    })
}
