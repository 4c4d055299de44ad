//! The CPUs of the processes and the congestion control of their sockets. Both influence the results more than any
//! other setting, so both are chosen explicitly and printed.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context, bail};
use serde::Serialize;

/// The CPU of each process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Placement {
    pub(super) name: &'static str,
    /// The CPU of the initiator, which is this process.
    pub(super) initiator_cpu: usize,
    /// The CPU of the targets, the router and the raw relay.
    pub(super) target_cpu: usize,
}

impl Placement {
    /// Returns the placements that these CPUs allow.
    pub(super) fn all(cpus: &[usize]) -> Vec<Self> {
        let two = cpus.get(..2).map(|pair| Self {
            name: "two cores",
            initiator_cpu: pair[0],
            target_cpu: pair[1],
        });
        let one = cpus.first().map(|&cpu| Self {
            name: "one core",
            initiator_cpu: cpu,
            target_cpu: cpu,
        });
        two.into_iter().chain(one).collect()
    }

    pub(super) const fn is_one_core(&self) -> bool {
        self.initiator_cpu == self.target_cpu
    }

    pub(super) fn describe(&self) -> String {
        self.describe_roles("initiator", "target and router")
    }

    /// Describes the placement with other names for the processes on the initiator's CPU and on the target's CPU.
    pub(super) fn describe_roles(&self, initiator: &str, target: &str) -> String {
        let Self {
            name,
            initiator_cpu,
            target_cpu,
        } = self;
        match self.is_one_core() {
            true => format!("{name}: every process on CPU {initiator_cpu}"),
            false => {
                format!("{name}: {initiator} on CPU {initiator_cpu}, {target} on CPU {target_cpu}")
            }
        }
    }
}

/// Returns the placements of this machine. Call it before this thread is pinned to a CPU.
pub(super) fn placements() -> anyhow::Result<Vec<Placement>> {
    let cpus = sys::allowed_cpus().context("cannot ask which CPUs may be used")?;
    Ok(Placement::all(&cpus))
}

/// Returns the requested congestion control if it can be used. Without a request it returns cubic or reno: these
/// two do not pace what they send, unlike other algorithms, which pace even on loopback.
pub(super) fn congestion_control(asked: Option<&str>) -> anyhow::Result<String> {
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot open a socket")?;
    let choose = |name: &str| sys::set_congestion_control(&socket, name);
    if let Some(name) = asked {
        choose(name).with_context(|| {
            format!(
                "this process may not choose the congestion control '{name}'; `sysctl \
                 net.ipv4.tcp_allowed_congestion_control` lists those that it may"
            )
        })?;
        return Ok(name.to_owned());
    }
    match ["cubic", "reno"]
        .into_iter()
        .find(|name| choose(name).is_ok())
    {
        Some(name) => Ok(name.to_owned()),
        None => bail!("neither cubic nor reno can be chosen here; name one with --congestion"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_one_cpu_there_is_one_placement() {
        let names: Vec<_> = Placement::all(&[5]).iter().map(|p| p.name).collect();
        assert_eq!(names, ["one core"]);
    }

    #[test]
    fn two_cores_are_the_first_two_that_are_allowed() {
        let placements = Placement::all(&[3, 7, 8]);
        assert_eq!(
            (placements[0].initiator_cpu, placements[0].target_cpu),
            (3, 7)
        );
        assert_eq!(
            (placements[1].initiator_cpu, placements[1].target_cpu),
            (3, 3)
        );
    }

    #[test]
    fn an_unknown_congestion_control_is_refused_by_name() {
        let error = congestion_control(Some("nosuch")).unwrap_err();
        assert!(error.to_string().contains("'nosuch'"), "{error}");
    }
}
