//! Measures the cost of peers that are connected and silent.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use lnet_types::Nid;
use lnet_wire::{Connreq, Ctype, Hello, HelloVersion};
use serde::Serialize;

use super::{IDLE, reserve_port, resident};
use crate::child::{Peer, PeerSpec, cpu_time_of};
use crate::peer::{self, PeerArgs, Role};

/// The sizes of crowds. A size is left out if this process may not open so many sockets.
const SIZES: [usize; 2] = [1_000, 10_000];
/// The limit on the share of one core that an idle crowd uses.
const CPU_TARGET: f64 = 0.01;
/// The limit on the resident memory for each peer, in KiB.
const KIB_TARGET: f64 = 40.0;
/// The time after which the node has finished its work for a new crowd.
const CALM: Duration = Duration::from_secs(1);
/// The number of descriptors that a process needs in addition to the crowd's.
const OTHER_DESCRIPTORS: u64 = 100;

/// A crowd of idle peers.
#[derive(Serialize)]
pub(crate) struct Crowd {
    peers: usize,
    /// The share of one core that the node uses.
    cpu: f64,
    kib_per_peer: f64,
    pub(crate) met: bool,
}

impl Crowd {
    /// Measures the crowds that the limit of open files allows, each for this time.
    pub(crate) fn measure_all(congestion: &str, length: Duration) -> anyhow::Result<Vec<Self>> {
        let (limit, _) = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE)
            .context("cannot ask how many files may be open")?;
        let may_open = |size: &usize| *size as u64 + OTHER_DESCRIPTORS <= limit;
        let sizes = SIZES.into_iter().filter(may_open);
        sizes
            .map(|size| Self::measure(size, congestion, length))
            .collect()
    }

    /// Measures one crowd of this size for this time.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub(crate) fn measure(
        peers: usize,
        congestion: &str,
        length: Duration,
    ) -> anyhow::Result<Self> {
        let cpu = *sys::allowed_cpus()
            .context("cannot ask which CPUs may be used")?
            .first()
            .context("no CPU may be used")?;
        let reserved = reserve_port()?;
        let port = reserved.number();
        let node = Peer::start(&PeerSpec {
            role: Role::Idle,
            cpu,
            congestion,
            port,
        })?;
        let before = resident(&node)?;
        let [cpu, port, peers_arg] = [cpu.to_string(), port.to_string(), peers.to_string()];
        let mut crowd = Peer::launch(
            "crowd",
            &[
                "peer",
                "crowd",
                "--cpu",
                &cpu,
                "--port",
                &port,
                "--congestion",
                congestion,
                "--peers",
                &peers_arg,
            ],
        )?;
        thread::sleep(CALM);
        let (used, begin) = (cpu_time_of(node.pid())?, Instant::now());
        thread::sleep(length);
        let used = cpu_time_of(node.pid())?.saturating_sub(used);
        let cpu = used.as_secs_f64() / begin.elapsed().as_secs_f64();
        let kib_per_peer = resident(&node)?.saturating_sub(before) as f64 / 1024.0 / peers as f64;
        crowd.check_alive()?;
        let open = descriptors(&node)?;
        ensure!(
            open > peers,
            "the node has {open} descriptors left for {peers} connected peers"
        );
        Ok(Self {
            peers,
            cpu,
            kib_per_peer,
            met: cpu < CPU_TARGET && kib_per_peer < KIB_TARGET,
        })
    }

    pub(crate) fn text(&self) -> String {
        format!(
            "{} connected silent peers: {:.2} % of a core, {:.1} KiB each, \
             target < {:.0} % and < {KIB_TARGET:.0} KiB",
            self.peers,
            self.cpu * 100.0,
            self.kib_per_peer,
            CPU_TARGET * 100.0
        )
    }
}

/// Returns the number of open files and sockets of a peer's process.
fn descriptors(peer: &Peer) -> anyhow::Result<usize> {
    let path = format!("/proc/{}/fd", peer.pid());
    let open = fs::read_dir(&path).with_context(|| format!("cannot read {path}"))?;
    Ok(open.count())
}

/// Connects to the node at the port as so many peers, and keeps the connections until the process ends.
pub(crate) fn join(args: &PeerArgs) -> anyhow::Result<()> {
    let node = IDLE.nid()?;
    let connect = |number| connect(args.port, node, number);
    let _connections: Vec<TcpStream> = (0..args.peers)
        .map(connect)
        .collect::<anyhow::Result<_>>()?;
    peer::ready(args.port)?;
    loop {
        thread::park();
    }
}

fn connect(port: u16, node: Nid, number: u32) -> anyhow::Result<TcpStream> {
    let [_, b, c, d] = (number + 1).to_be_bytes();
    let own: Nid = format!("10.{b}.{c}.{d}@tcp").parse()?;
    let mut stream = TcpStream::connect((Ipv4Addr::new(127, 0, 0, 7), port))
        .with_context(|| format!("cannot connect peer {number}"))?;
    let mut bytes = [0; Hello::MAX_LEN];
    let length = Connreq::to(node).encode(&mut bytes)?;
    stream.write_all(&bytes[..length])?;
    let length = Hello::dial(own, node, 1, Ctype::CONTROL).encode(&mut bytes)?;
    stream.write_all(&bytes[..length])?;
    stream
        .read_exact(&mut bytes[..HelloVersion::V3.base_len()])
        .with_context(|| format!("the node rejects peer {number}"))?;
    Ok(stream)
}
