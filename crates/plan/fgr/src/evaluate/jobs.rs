//! The part of the routers' bandwidth that one job can use.
//!
//! A job of `n` clients that writes to a net with `r` routers is as fast as the router with the
//! most of its clients: its efficiency is `(n / r) / max`. This is 1 if the clients are spread
//! evenly, and `1 / r` if all have the same primary. The efficiency of a job is that of its worst
//! net, because a job that writes to all nets waits for the slowest one.

use lnet_types::SplitMix64;

use crate::evaluate::Gateways;
use crate::evaluate::loads::parts_of;
use crate::machine::Machine;
use crate::plan::Plan;
use crate::random::draw;

/// Efficiency of jobs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JobEfficiency {
    /// Mean over the jobs.
    pub mean: f64,
    /// Lowest efficiency of the jobs.
    pub worst: f64,
    /// Mean number of routers of a net in use, over jobs and nets.
    pub routers: f64,
}

impl JobEfficiency {
    fn of(jobs: impl Iterator<Item = Self>) -> Self {
        let mut total = Self {
            mean: 0.0,
            worst: f64::INFINITY,
            routers: 0.0,
        };
        let mut count = 0.0_f64;
        for job in jobs {
            total.mean += job.mean;
            total.routers += job.routers;
            total.worst = total.worst.min(job.worst);
            count += 1.0;
        }
        total.mean /= count.max(1.0);
        total.routers /= count.max(1.0);
        total
    }
}

/// Returns the efficiency of one job; `clients` holds the indices of its clients.
#[must_use]
pub fn job_efficiency(machine: &Machine, plan: &Plan, clients: &[usize]) -> JobEfficiency {
    let nets: Vec<usize> = machine.data_nets().collect();
    let (mut efficiency, mut used) = (f64::INFINITY, 0_usize);
    let mut loads = vec![0_u64; machine.routers.len()];
    let mut sharing = Vec::new();
    for &net in &nets {
        let routers = &machine.nets[net].routers;
        for &client in clients {
            Gateways::Primary.fill(plan, plan.row_of(client), net, &mut sharing);
            let parts = parts_of(plan, 1, sharing.len());
            for &router in &sharing {
                loads[usize::from(router)] += parts;
            }
        }
        let of_net = || routers.iter().map(|&router| loads[usize::from(router)]);
        let most = of_net().max().unwrap_or(0).max(1);
        used += of_net().filter(|&load| load > 0).count();
        let parts = clients.len() as f64 * plan.parts() as f64;
        let of_this = parts / routers.len() as f64 / most as f64;
        efficiency = efficiency.min(of_this);
        for &router in routers {
            loads[usize::from(router)] = 0;
        }
    }
    JobEfficiency {
        mean: efficiency,
        worst: efficiency,
        routers: used as f64 / nets.len().max(1) as f64,
    }
}

/// Returns the efficiency of compact jobs of `size` clients with consecutive numbers. One job
/// starts at every `step`-th client from the first, as far as jobs fit.
#[must_use]
pub fn compact_jobs(machine: &Machine, plan: &Plan, size: usize, step: usize) -> JobEfficiency {
    let clients: Vec<usize> = (0..machine.clients.len()).collect();
    let size = size.clamp(1, clients.len().max(1));
    let jobs = clients.windows(size).step_by(step.max(1));
    JobEfficiency::of(jobs.map(|job| job_efficiency(machine, plan, job)))
}

/// Returns the efficiency of `jobs` jobs of `size` clients, drawn at random without replacement
/// from all clients. Equal seeds give equal jobs.
#[must_use]
pub fn scattered_jobs(
    machine: &Machine,
    plan: &Plan,
    size: usize,
    jobs: usize,
    seed: u64,
) -> JobEfficiency {
    let mut clients: Vec<usize> = (0..machine.clients.len()).collect();
    let size = size.min(clients.len());
    let mut random = SplitMix64::new(seed);
    JobEfficiency::of((0..jobs).map(|_| {
        draw(&mut random, &mut clients, size);
        job_efficiency(machine, plan, &clients[..size])
    }))
}
