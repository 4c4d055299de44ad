//! Measures how long a ping, and a request to show the node's interfaces, take while another node sends as fast as
//! it can.
//!
//! ```text
//!   bystander 127.0.0.8@tcp ── ping, every 10 ms ──▶ target 127.0.0.3@tcp
//!   this process ── net show, every 10 ms, over its control socket ──▶
//!   blaster   127.0.0.2@tcp ── 64-byte PUTs ───────▶
//! ```

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use lnet_dlc::Dlc;
use lnet_dlc::protocol::{Request, Section, Show};
use lnet_node::{Md, Node, Progress, PutRequest};
use lnet_types::ProcessId;
use serde::Serialize;

use super::{BYSTANDER, DATA_PORTAL, INITIATOR, MATCH_BITS, TARGET, reserve_port};
use crate::child::{Peer, PeerSpec};
use crate::peer::{self, PeerArgs, Role};
use crate::placement::Placement;
use crate::report::Summary;
use crate::workload::TINY;

/// The time from one ping, and one request, to the next.
const INTERVAL: Duration = Duration::from_millis(10);
/// The timeout of a ping.
const PATIENCE: Duration = Duration::from_secs(10);
/// The limit for 99.9 % of the pings, and of the requests, in milliseconds.
const TARGET_MS: f64 = 10.0;
/// The time for which the blaster sends before the first ping.
const WARM_UP: Duration = Duration::from_millis(300);

/// The round trips of a bystander's pings, and of requests to show the interfaces.
#[derive(Serialize)]
pub(crate) struct Bystander {
    alone: Percentiles,
    beside_a_blaster: Percentiles,
    net_show_alone: Percentiles,
    net_show_beside_a_blaster: Percentiles,
    target_p999_ms: f64,
    pub(crate) met: bool,
}

/// Percentiles of round trips, in milliseconds.
#[derive(Serialize)]
struct Percentiles {
    asked: usize,
    p50: f64,
    p99: f64,
    p999: f64,
    most: f64,
}

impl Bystander {
    /// Measures for this time without a blaster, and then beside a blaster.
    pub(crate) fn measure(
        placement: &Placement,
        congestion: &str,
        length: Duration,
    ) -> anyhow::Result<Self> {
        let reserved = reserve_port()?;
        let port = reserved.number();
        let peer = |role, cpu, more: &[&str]| {
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
        let directory = tempfile::tempdir().context("cannot make a directory for the socket")?;
        let socket = directory.path().join("control.sock");
        let path = socket.to_str().context("a path that is no text")?;
        let _target = peer(Role::Target, placement.target_cpu, &["--control", path])?;
        let mut dlc = Dlc::connect(&socket)?;
        let node = BYSTANDER.start(port, congestion, Progress::Thread)?;
        let mut ask = || ask(&node, &mut dlc, length);
        let [alone, net_show_alone] = ask()?;
        let mut blaster = peer(Role::Blaster, placement.initiator_cpu, &[])?;
        thread::sleep(WARM_UP);
        let [beside, net_show] = ask()?;
        blaster.check_alive()?;
        node.shutdown(Duration::ZERO);
        Ok(Self {
            met: beside.p999.max(net_show.p999) <= TARGET_MS,
            alone,
            beside_a_blaster: beside,
            net_show_alone,
            net_show_beside_a_blaster: net_show,
            target_p999_ms: TARGET_MS,
        })
    }

    pub(crate) fn text(&self) -> String {
        format!(
            "ping of a bystander alone: {}\n  beside a node that sends 64-byte PUTs without pause: {}\n\
             ctl net show alone: {}\n  beside the same: {}, target p99.9 of both <= {} ms",
            self.alone.text(),
            self.beside_a_blaster.text(),
            self.net_show_alone.text(),
            self.net_show_beside_a_blaster.text(),
            self.target_p999_ms
        )
    }
}

impl Percentiles {
    fn of(millis: &[f64]) -> Self {
        let mut sorted = millis.to_vec();
        sorted.sort_by(f64::total_cmp);
        // The smallest value that at least so many thousandths of the values do not exceed.
        let at = |thousandths: usize| {
            let rank = (sorted.len() * thousandths).div_ceil(1000);
            sorted
                .get(rank.saturating_sub(1))
                .copied()
                .unwrap_or_default()
        };
        Self {
            asked: sorted.len(),
            p50: at(500),
            p99: at(990),
            p999: at(999),
            most: Summary::of(sorted).max,
        }
    }

    fn text(&self) -> String {
        format!(
            "p50 {:.2} ms, p99 {:.2} ms, p99.9 {:.2} ms, most {:.2} ms of {}",
            self.p50, self.p99, self.p999, self.most, self.asked
        )
    }
}

/// Measures the round trips of pings and of requests to show the interfaces. A late response delays the next
/// requests by no more than its own time.
fn ask(node: &Node, dlc: &mut Dlc, length: Duration) -> anyhow::Result<[Percentiles; 2]> {
    let target = TARGET.nid()?;
    let show = Request::Show(Show::all(Section::Net, 0));
    let begin = Instant::now();
    let (mut pings, mut shows) = (Vec::new(), Vec::new());
    let mut next = begin;
    while begin.elapsed() < length {
        let asked = Instant::now();
        node.ping(target, None, PATIENCE)
            .context("a bystander's ping")?;
        pings.push(asked.elapsed().as_secs_f64() * 1e3);
        let asked = Instant::now();
        let mut bytes = 0;
        dlc.request_pieces(&show, |piece| bytes += piece.len())?;
        anyhow::ensure!(bytes > 0, "the node shows no interfaces");
        shows.push(asked.elapsed().as_secs_f64() * 1e3);
        next += INTERVAL;
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    Ok([Percentiles::of(&pings), Percentiles::of(&shows)])
}

/// The number of small PUTs to the target in flight at once.
const WINDOW: u64 = 64;

/// Sends small PUTs to the target until the process ends.
pub(crate) fn blast(args: &PeerArgs) -> anyhow::Result<()> {
    let node = INITIATOR.start(args.port, &args.congestion, Progress::Caller)?;
    let queue = node.event_queue();
    let md = node.bind(&queue, Md::source(vec![0x5A; TINY]))?;
    peer::ready(args.port)?;
    let mut left = WINDOW;
    loop {
        for _ in 0..left {
            node.put(PutRequest {
                md,
                ack: false,
                source: None,
                target: ProcessId::lustre(TARGET.nid()?),
                portal: DATA_PORTAL,
                match_bits: MATCH_BITS,
                offset: 0,
                hdr_data: 0,
            })?;
        }
        queue.wait(None)?;
        left = 1 + std::iter::from_fn(|| queue.try_next()).count() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let millis: Vec<f64> = (1..=1000).map(f64::from).collect();
        let found = Percentiles::of(&millis);
        assert_eq!(
            [found.p50, found.p99, found.p999, found.most],
            [500.0, 990.0, 999.0, 1000.0]
        );
        assert_eq!(Percentiles::of(&[7.0]).p50, 7.0);
    }
}
