//! The faults that occur while the compute processes work: their kind, time and duration.

use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use nix::sys::signal::Signal;
use serde::Serialize;

use super::cast::{Cast, HEARTBEAT_MS, Service};
use super::plan::{IO_NODE, Plan};
use super::world::World;

/// The selection of faults for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Faults {
    /// None
    None,
    /// One of each kind, one after the other
    Standard,
    /// As many as fit into the time, chosen by the seed
    Storm,
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FaultKind {
    /// The cable of the busiest router's rail is cut, so the rail has no carrier.
    RailCut,
    /// The router that forwards most is killed, and started again later.
    RouterKilled,
    /// The router that forwards most is stopped with SIGSTOP, and continued later.
    RouterHung,
    /// A storage gateway is killed, and started again later.
    GatewayKilled,
    /// The daemon of the I/O node is killed, and started again at once.
    DaemonRestarted,
    /// A rule makes the node prefer the other rail.
    PolicyChanged,
}

impl FaultKind {
    /// Returns the name of the fault for readers.
    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::RailCut => "rail cut",
            Self::RouterKilled => "router killed",
            Self::RouterHung => "router hung (SIGSTOP)",
            Self::GatewayKilled => "gateway killed",
            Self::DaemonRestarted => "daemon killed and restarted",
            Self::PolicyChanged => "policy changed",
        }
    }

    /// Returns the goal: the longest time without progress that the fault may cause. `None` if there is no
    /// goal.
    pub(super) fn goal(self, lnd_timeout: Duration) -> Option<Duration> {
        match self {
            Self::RailCut => Some(Duration::from_secs(1)),
            Self::RouterKilled => Some(Duration::from_secs(2)),
            Self::RouterHung => Some((lnd_timeout * 2).min(NEVER_A_MINUTE)),
            Self::GatewayKilled => Some(Duration::from_secs(5)),
            Self::DaemonRestarted => Some(Duration::from_millis(3 * HEARTBEAT_MS)),
            Self::PolicyChanged => None,
        }
    }
}

/// The goal for a hung router is below a minute, whatever the timeout of the LND is.
const NEVER_A_MINUTE: Duration = Duration::from_secs(59);

/// A fault of the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) kind: FaultKind,
    /// The time of the fault since the work began.
    pub(super) at: Duration,
    /// The duration of the fault.
    pub(super) lasts: Duration,
}

/// Returns one fault of each kind, spread over the time `work`.
fn standard(work: Duration) -> Vec<Fault> {
    let kinds = [
        FaultKind::RailCut,
        FaultKind::RouterKilled,
        FaultKind::RouterHung,
        FaultKind::GatewayKilled,
        FaultKind::DaemonRestarted,
        FaultKind::PolicyChanged,
    ];
    let share = work / 7;
    let fault = |(index, kind): (u32, FaultKind)| Fault {
        kind,
        at: share * index + share / 2,
        lasts: share / 2,
    };
    (0..).zip(kinds).map(fault).collect()
}

/// Returns faults that a seed draws, one after the other, with pauses between them.
fn storm(work: Duration, seed: u64) -> Vec<Fault> {
    let kinds = [
        FaultKind::RailCut,
        FaultKind::RouterKilled,
        FaultKind::RouterHung,
        FaultKind::GatewayKilled,
        FaultKind::DaemonRestarted,
    ];
    let mut draws = blake3::Hasher::new_derive_key("finerail demo storm")
        .update(&seed.to_le_bytes())
        .finalize_xof();
    let mut draw = |below: u64| {
        let mut bytes = [0; 8];
        draws.fill(&mut bytes);
        u64::from_le_bytes(bytes) % below
    };
    let mut faults = Vec::new();
    let mut at = Duration::from_millis(500 + draw(1000));
    while at + Duration::from_secs(4) < work {
        let kind = kinds[draw(kinds.len() as u64) as usize];
        let lasts = Duration::from_millis(300 + draw(1700));
        faults.push(Fault { kind, at, lasts });
        at += lasts + Duration::from_millis(500 + draw(1500));
    }
    faults
}

impl Faults {
    /// Returns the faults of a run that lasts as long as `work`.
    pub(super) fn schedule(self, work: Duration, seed: u64) -> Vec<Fault> {
        match self {
            Self::None => Vec::new(),
            Self::Standard => standard(work),
            Self::Storm => storm(work, seed),
        }
    }
}

/// Causes faults and ends them.
pub(super) struct Striker<'a> {
    pub(super) plan: &'a Plan,
    pub(super) world: &'a World,
    pub(super) cast: &'a mut Cast,
    /// Runs a control command on the I/O node.
    pub(super) control: &'a dyn Fn(&[&str]) -> anyhow::Result<()>,
}

impl Striker<'_> {
    /// Causes a fault. `busiest` is the index of the router to hit, for those kinds that hit a router or its
    /// rail. Returns the part that was hit, for readers.
    pub(super) fn strike(&mut self, kind: FaultKind, busiest: usize) -> anyhow::Result<String> {
        match kind {
            FaultKind::RailCut => self.cut(busiest),
            FaultKind::RouterKilled => {
                let router = self.router(busiest)?;
                router.kill()?;
                Ok(router.name().to_owned())
            }
            FaultKind::RouterHung => {
                let router = self.router(busiest)?;
                router.signal(Signal::SIGSTOP)?;
                Ok(router.name().to_owned())
            }
            FaultKind::GatewayKilled => {
                let gateway = self
                    .cast
                    .gateways
                    .first_mut()
                    .context("there is no gateway")?;
                gateway.kill()?;
                Ok(gateway.name().to_owned())
            }
            FaultKind::DaemonRestarted => {
                self.cast.daemon.kill()?;
                self.cast.daemon.start(self.world)?;
                Ok("daemon".to_owned())
            }
            FaultKind::PolicyChanged => self.prefer_other_rail(busiest),
        }
    }

    /// Ends a fault.
    pub(super) fn mend(&mut self, kind: FaultKind, busiest: usize) -> anyhow::Result<()> {
        match kind {
            FaultKind::RailCut => self.repair(busiest),
            FaultKind::RouterKilled => {
                let world = self.world;
                self.router(busiest)?.start(world)
            }
            FaultKind::RouterHung => self.router(busiest)?.signal(Signal::SIGCONT),
            FaultKind::GatewayKilled => {
                let gateway = self.cast.gateways.first_mut();
                gateway.context("there is no gateway")?.start(self.world)
            }
            FaultKind::DaemonRestarted | FaultKind::PolicyChanged => Ok(()),
        }
    }

    fn router(&mut self, index: usize) -> anyhow::Result<&mut Service> {
        self.cast
            .routers
            .get_mut(index)
            .context("there is no such router")
    }

    /// Returns the interface of a router on its rail. The interface of the I/O node on that rail has the same
    /// name.
    fn rail(&self, router: usize) -> anyhow::Result<String> {
        let name = self
            .cast
            .routers
            .get(router)
            .context("there is no such router")?
            .name();
        let node = self.plan.nodes.iter().find(|node| node.name == name);
        let interface = node.and_then(|node| node.interfaces.first());
        let (interface, _) = interface.context("a router without an interface")?;
        Ok(interface.clone())
    }

    fn cut(&self, router: usize) -> anyhow::Result<String> {
        let interface = self.rail(router)?;
        if self.world.has_rails() {
            self.world.set_cable(IO_NODE, &interface, false)?;
        } else {
            let all = format!("*@{}", net_of(&interface));
            (self.control)(&["fault", "drop", "add", "-s", &all, "-d", "*", "-r", "1"])?;
            (self.control)(&["fault", "drop", "add", "-s", "*", "-d", &all, "-r", "1"])?;
        }
        Ok(format!("{IO_NODE}, {interface}"))
    }

    fn repair(&self, router: usize) -> anyhow::Result<()> {
        if self.world.has_rails() {
            let interface = self.rail(router)?;
            return self.world.set_cable(IO_NODE, &interface, true);
        }
        (self.control)(&["fault", "drop", "del", "--all"])
    }

    /// Adds a rule that prefers the rail of the less busy router.
    fn prefer_other_rail(&self, busiest: usize) -> anyhow::Result<String> {
        let other = match self.rail(busiest)?.as_str() {
            "hsn0" => "hsn1",
            _ => "hsn0",
        };
        let net = net_of(other);
        (self.control)(&["udsp", "add", "--src", net, "--priority", "0"])?;
        Ok(format!("{net} first"))
    }
}

/// Returns the net of a rail.
fn net_of(interface: &str) -> &'static str {
    match interface {
        "hsn0" => "tcp100",
        _ => "tcp200",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_over_before_the_work_ends_and_before_the_next_begins() {
        let work = Duration::from_secs(48);
        for faults in [
            Faults::Standard.schedule(work, 1),
            Faults::Storm.schedule(work, 7),
        ] {
            assert!(faults.len() >= 5);
            for pair in faults.windows(2) {
                assert!(pair[0].at + pair[0].lasts < pair[1].at, "{pair:?}");
            }
            let last = faults.last().unwrap();
            assert!(last.at + last.lasts < work);
        }
    }

    #[test]
    fn a_seed_draws_the_same_storm_again() {
        let work = Duration::from_secs(60);
        let storms = [3, 3, 4].map(|seed| Faults::Storm.schedule(work, seed));
        assert_eq!(storms[0], storms[1]);
        assert_ne!(storms[1], storms[2]);
    }
}
