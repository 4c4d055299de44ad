//! Measures how long a node takes to discover many peers at once.

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use lnet_core::PeerState;
use lnet_node::{AcceptMode, Node, NodeOptions};
use lnet_types::{Net, Nid};
use serde::Serialize;

use crate::child::{Peer, PeerSpec};
use crate::lnet::{DISCOVERER, reserve_port};
use crate::peer::Role;
use crate::placement::Placement;
use crate::report::Summary;

/// The limit on the time of the discovery of all peers, in seconds.
const TARGET_S: f64 = 5.0;
/// The time after which the measurement fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// The number of peers that are examined, or whose discovery is begun, in one hold of the node's lock.
const AT_ONCE: usize = 100;
/// The time from one check to the next.
const LOOK: Duration = Duration::from_millis(1);
/// 127.1.0.1.
const FIRST_PEER: u32 = 0x7F01_0001;

/// The discovery of peers about which nothing was known.
#[derive(Serialize)]
pub(super) struct Discovery {
    peers: usize,
    seconds: Summary,
    target_seconds: f64,
    pub(super) met: bool,
}

impl Discovery {
    /// Lets new nodes discover the peers: once, or in several rounds.
    pub(super) fn measure(
        peers: usize,
        placement: &Placement,
        congestion: &str,
        is_short: bool,
    ) -> anyhow::Result<Self> {
        let rounds = if is_short { 1 } else { 5 };
        let seconds = (0..rounds).map(|_| once(peers, placement, congestion));
        let seconds = Summary::of(seconds.collect::<anyhow::Result<_>>()?);
        Ok(Self {
            peers,
            seconds,
            target_seconds: TARGET_S,
            met: seconds.median < TARGET_S,
        })
    }

    pub(super) fn text(&self) -> String {
        let Summary { median, min, max } = self.seconds;
        format!(
            "discovery of {} peers, with connections, ping and push: {median:.2} s ({min:.2}–{max:.2}), target < \
             {TARGET_S} s",
            self.peers
        )
    }
}

/// Returns the seconds until all peers are discovered.
fn once(peers: usize, placement: &Placement, congestion: &str) -> anyhow::Result<f64> {
    let reserved = reserve_port()?;
    let mut responder = Peer::start(&PeerSpec {
        role: Role::Responder,
        cpu: placement.target_cpu,
        congestion,
        port: reserved.number(),
    })?;
    let node = DISCOVERER.start_with(NodeOptions {
        port: responder.port(),
        // Peers never dial, and the responder already listens on this port.
        accept: Some(AcceptMode::None),
        congestion: Some(congestion.to_owned()),
        ..NodeOptions::default()
    });
    let node = node?.into_node();
    let nids: Vec<Nid> = (FIRST_PEER..)
        .take(peers)
        .map(|number| Nid::from_number(Net::tcp(0), number))
        .collect();
    let begun = Instant::now();
    let discovered = discover(&node, &nids);
    let seconds = begun.elapsed().as_secs_f64();
    node.shutdown(Duration::ZERO);
    if discovered.is_err() {
        responder.check_alive()?;
    }
    discovered.map(|()| seconds)
}

fn discover(node: &Node, nids: &[Nid]) -> anyhow::Result<()> {
    let begun = Instant::now();
    for some in nids.chunks(AT_ONCE) {
        let all = |nid: &Nid| node.with_engine(|engine, now| engine.core_mut().discover(*nid, now));
        let refused = some.iter().find_map(|nid| all(nid).err());
        if let Some(errno) = refused {
            bail!("a discovery is refused with errno {}", errno.0);
        }
    }
    for some in nids.chunks(AT_ONCE) {
        while !are_discovered(node, some)? {
            let left = PATIENCE.checked_sub(begun.elapsed());
            left.with_context(|| format!("not all peers were discovered in {PATIENCE:?}"))?;
            std::thread::sleep(LOOK);
        }
    }
    Ok(())
}

fn are_discovered(node: &Node, nids: &[Nid]) -> anyhow::Result<bool> {
    let views: Vec<_> = node.with_engine(|engine, _| {
        let views = nids.iter().map(|&nid| engine.core().discovery(nid));
        views.collect()
    });
    for (nid, view) in nids.iter().zip(views) {
        let view = view.with_context(|| format!("{nid} is not known"))?;
        if view.state.contains(PeerState::DISCOVERING) {
            return Ok(false);
        }
        ensure!(
            view.state.contains(PeerState::DISCOVERED) && view.failure.is_none(),
            "the discovery of {nid} has failed: {view:?}"
        );
    }
    Ok(true)
}
