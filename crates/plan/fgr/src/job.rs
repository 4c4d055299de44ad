//! One job: the routers that it uses, its bandwidth, and better choices of nets or nodes.
//!
//! A job writes the same amount from each of its clients to each of its nets. Its busiest router
//! node, its hottest link and the adapters of its clients limit its bandwidth:
//!
//! ```text
//!   units = clients × nets
//!   routers:  units / units of the busiest router node, over all its nets × GB/s of a router
//!   links:    units / (units / GB/s) of the hottest link
//!   clients:  clients × GB/s that one client injects
//! ```
//!
//! Other jobs that share the routers and links are not considered.

use std::collections::BTreeMap;

use crate::evaluate::{Gateways, LinkLoads, Traffic, clients_of_routers};
use crate::machine::{Machine, Role};
use crate::plan::Plan;
use crate::topology::Link;

/// GB/s that a router is assumed to forward: a node of Titan's time.
pub const ROUTER_RATE: f64 = 2.6;

/// A job on a machine with a plan.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// Its plan.
    pub plan: &'a Plan,
    /// Indices of the job's clients, in ascending order.
    pub clients: &'a [usize],
    /// Indices of the nets to which the job writes. Only data nets count.
    pub nets: &'a [usize],
    /// GB/s that one router node forwards, if measured; otherwise the rate of the slower of its two
    /// sides, or [`ROUTER_RATE`] if its interfaces have no rates. No router forwards more than its
    /// slower side.
    pub router_rate: Option<f64>,
    /// GB/s that one client sends or receives, for clients whose interfaces have no rates.
    pub client_rate: f64,
}

/// A router that the job uses.
#[derive(Clone, Debug, PartialEq)]
pub struct RouterUse {
    /// The router, by index.
    pub router: u16,
    /// Clients of the job that write to the router. A client counts in parts if several routers
    /// share it.
    pub clients: f64,
}

/// What limits the bandwidth of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The busiest router.
    Router,
    /// The hottest link.
    Link,
    /// The adapters of the job's clients.
    Client,
}

/// Bandwidth in one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Bandwidth {
    /// GB/s of the whole job.
    pub rate: f64,
    /// What limits the rate.
    pub limit: Limit,
    /// The hottest links, hottest first, each with the units that the job puts on it and its GB/s.
    pub hottest: Vec<(Link, f64, f64)>,
}

/// Nets or nodes that give a higher rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Better<T> {
    /// Indices of the nets or of the clients.
    pub instead: Vec<T>,
    /// GB/s of the job's writes with these nets or clients.
    pub rate: f64,
}

/// The report on a job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobReport {
    /// The routers that the job uses, busiest first.
    pub routers: Vec<RouterUse>,
    /// Part of the bandwidth of all routers that the job can use on its worst net.
    pub efficiency: f64,
    /// Bandwidth of writes.
    pub write: Bandwidth,
    /// Bandwidth of reads.
    pub read: Bandwidth,
    /// Nets that give a higher rate, as many as the job uses, if any were found.
    pub better_nets: Option<Better<usize>>,
    /// Clients that give a higher rate, as many as the job has, if any were found. The candidates
    /// are clients in equal pieces of consecutive numbers.
    pub better_nodes: Option<Better<usize>>,
}

/// Number of links in the report.
const HOTTEST: usize = 5;

/// Number of starts that are tried for a job's clients, at equal distances.
const STARTS: usize = 48;

/// Numbers of pieces, at equal distances, into which a job is cut.
const PIECES: [usize; 4] = [1, 2, 4, 8];

impl Job<'_> {
    /// Returns the report on the job; `None` if it has no clients or no data nets.
    #[must_use]
    pub fn report(&self) -> Option<JobReport> {
        let nets: Vec<usize> = self
            .nets
            .iter()
            .copied()
            .filter(|&net| self.is_data(net))
            .collect();
        if self.clients.is_empty() || nets.is_empty() {
            return None;
        }
        let job = Job {
            nets: &nets,
            ..*self
        };
        let alone = self.plan.of_job(self.clients, &nets);
        let write = job.bandwidth(&alone, Traffic::Write);
        let classes = Classes::new(self.plan);
        let better_nets = job.better_nets(&classes, write.rate);
        let better_nodes = job.better_nodes(&classes, write.rate);
        Some(JobReport {
            routers: job.routers(&alone),
            efficiency: job.efficiency(&classes.count(self.plan, self.clients), &nets),
            read: job.bandwidth(&alone, Traffic::Read),
            write,
            better_nets,
            better_nodes,
        })
    }

    fn is_data(&self, net: usize) -> bool {
        net < self.machine.nets.len() && self.machine.role(net) == Role::Data
    }

    fn routers(&self, alone: &Plan) -> Vec<RouterUse> {
        let parts = alone.parts() as f64;
        let loads = clients_of_routers(self.machine, alone, Gateways::Primary);
        let used = (0_u16..).zip(loads).filter(|&(_, load)| load > 0);
        let mut used: Vec<RouterUse> = used
            .map(|(router, load)| RouterUse {
                router,
                clients: load as f64 / parts,
            })
            .collect();
        used.sort_by(|a, b| b.clients.total_cmp(&a.clients));
        used
    }

    fn bandwidth(&self, alone: &Plan, traffic: Traffic) -> Bandwidth {
        let units = (self.clients.len() * self.nets.len()) as f64;
        let loads = clients_of_routers(self.machine, alone, Gateways::Primary);
        let mut of_nodes = vec![0; loads.len()];
        for (node, load) in self.machine.nodes_of_routers().into_iter().zip(loads) {
            of_nodes[usize::from(node)] += load;
        }
        let parts = alone.parts() as f64;
        let by_node = of_nodes.into_iter().zip(&self.machine.routers);
        let by_node = by_node.filter(|&(load, _)| load > 0).map(|(load, router)| {
            let slower = self.machine.details.forwarding_rate(router.id);
            let rate = self.router_rate.or(slower).unwrap_or(ROUTER_RATE);
            let rate = rate.min(slower.unwrap_or(f64::INFINITY));
            units / (load as f64 / parts) * rate
        });
        let by_router = by_node.fold(f64::INFINITY, f64::min);
        let loads = LinkLoads::new(self.machine, alone, Gateways::Primary, traffic);
        let mut hottest: Vec<_> = loads.loaded(&self.machine.fabric).collect();
        // Equally hot links are in order of their numbers.
        let order = |a: &(Link, f64, f64), b: &(Link, f64, f64)| {
            (b.1 / b.2).total_cmp(&(a.1 / a.2)).then(a.0.0.cmp(&b.0.0))
        };
        if hottest.len() > HOTTEST {
            hottest.select_nth_unstable_by(HOTTEST, order);
            hottest.truncate(HOTTEST);
        }
        hottest.sort_by(order);
        let by_link = hottest
            .first()
            .map_or(f64::INFINITY, |link| units / (link.1 / link.2));
        let slowest = self
            .clients
            .iter()
            .map(|&client| self.rate_of_client(client));
        let by_clients = self.clients.len() as f64 * slowest.fold(f64::INFINITY, f64::min);
        let limits = [
            (Limit::Router, by_router),
            (Limit::Link, by_link),
            (Limit::Client, by_clients),
        ];
        // Of equal limits the first is named. There are three, so one is the lowest.
        let lowest = limits.into_iter().min_by(|a, b| a.1.total_cmp(&b.1));
        let (limit, rate) = lowest.unwrap_or((Limit::Router, by_router));
        Bandwidth {
            rate,
            limit,
            hottest,
        }
    }

    /// GB/s of the interfaces of a client.
    fn rate_of_client(&self, client: usize) -> f64 {
        let nics = self
            .machine
            .details
            .nics_of(self.machine.clients[client].id);
        let rates: Option<f64> = nics.iter().map(|nic| nic.rate).sum();
        rates
            .filter(|_| !nics.is_empty())
            .unwrap_or(self.client_rate)
    }

    /// Part of the routers' bandwidth that the job can use on the worst of these nets.
    fn efficiency(&self, rows: &[(usize, u64)], nets: &[usize]) -> f64 {
        let clients: u64 = rows.iter().map(|(_, count)| count).sum();
        let mut loads = vec![0_u64; self.machine.routers.len()];
        let mut sharing = Vec::new();
        let mut worst = f64::INFINITY;
        for &net in nets {
            let mut most = 0;
            for &(row, count) in rows {
                Gateways::Primary.fill(self.plan, row, net, &mut sharing);
                for &router in &sharing {
                    let load = &mut loads[usize::from(router)];
                    *load += count * self.plan.parts() / sharing.len() as u64;
                    most = most.max(*load);
                }
            }
            let routers = self.machine.nets[net].routers.len() as f64;
            let parts = (clients * self.plan.parts()) as f64;
            worst = worst.min(parts / routers / most.max(1) as f64);
            for &router in &self.machine.nets[net].routers {
                loads[usize::from(router)] = 0;
            }
        }
        worst
    }

    /// Returns the nets whose routers these clients share best, as many as the job has now.
    fn better_nets(&self, classes: &Classes, rate: f64) -> Option<Better<usize>> {
        let rows = classes.count(self.plan, self.clients);
        let mut nets: Vec<(usize, f64)> = self
            .machine
            .data_nets()
            .map(|net| {
                (
                    net,
                    self.efficiency(&rows, &[net]) * self.machine.nets[net].routers.len() as f64,
                )
            })
            .collect();
        nets.sort_by(|a, b| b.1.total_cmp(&a.1));
        nets.truncate(self.nets.len());
        let mut instead: Vec<usize> = nets.into_iter().map(|(net, _)| net).collect();
        instead.sort_unstable();
        let found = Job {
            nets: &instead,
            ..*self
        }
        .writes();
        (found > rate * BETTER).then_some(Better {
            instead,
            rate: found,
        })
    }

    /// GB/s of the job's writes.
    fn writes(&self) -> f64 {
        self.bandwidth(&self.plan.of_job(self.clients, self.nets), Traffic::Write)
            .rate
    }

    /// Returns other clients whose routers the job uses best, as many as the job has now.
    fn better_nodes(&self, classes: &Classes, rate: f64) -> Option<Better<usize>> {
        let (size, all) = (self.clients.len(), self.machine.clients.len());
        let mut best: Option<(f64, Vec<usize>)> = None;
        for pieces in PIECES.into_iter().filter(|&pieces| pieces <= size) {
            for start in 0..STARTS {
                let chosen = pieces_of(all, size, pieces, start * all / STARTS);
                // Pieces that overlap give fewer clients.
                if chosen.len() < size {
                    continue;
                }
                let counts = classes.count(self.plan, &chosen);
                let found = self.efficiency(&counts, self.nets);
                // Of equally good candidates the one with the fewest pieces wins; it comes first.
                if best
                    .as_ref()
                    .is_none_or(|(known, _)| found > known * BETTER)
                {
                    best = Some((found, chosen));
                }
            }
        }
        let (_, instead) = best?;
        let found = Job {
            clients: &instead,
            ..*self
        }
        .writes();
        (found > rate * BETTER).then_some(Better {
            instead,
            rate: found,
        })
    }
}

/// Factor by which a rate must be higher to count as better.
const BETTER: f64 = 1.01;

/// Returns `size` of `all` clients in `pieces` runs at equal distances, with the first run at
/// `start`, in ascending order. Returns fewer clients if runs overlap.
fn pieces_of(all: usize, size: usize, pieces: usize, start: usize) -> Vec<usize> {
    let each = (0..pieces).flat_map(|piece| {
        let length = (piece + 1) * size / pieces - piece * size / pieces;
        let first = start + piece * all / pieces;
        (first..first + length).map(|client| client % all)
    });
    let mut chosen: Vec<usize> = each.collect();
    // The input consists of a few ascending runs, which this sort merges.
    chosen.sort();
    chosen.dedup();
    chosen
}

/// Rows of a plan, grouped by table. Many clients share few tables.
struct Classes {
    /// The class of each row.
    of_row: Vec<usize>,
    /// One row of each class.
    rows: Vec<usize>,
}

impl Classes {
    fn new(plan: &Plan) -> Self {
        let mut known: BTreeMap<&[u16], usize> = BTreeMap::new();
        let mut classes = Self {
            of_row: Vec::with_capacity(plan.rows().len()),
            rows: Vec::new(),
        };
        for row in 0..plan.rows().len() {
            let table = plan.table(row);
            // Neighbouring rows mostly have the same table.
            let class = match classes.of_row.last() {
                Some(&last) if plan.table(classes.rows[last]) == table => last,
                _ => *known.entry(table).or_insert(classes.rows.len()),
            };
            if class == classes.rows.len() {
                classes.rows.push(row);
            }
            classes.of_row.push(class);
        }
        classes
    }

    /// Returns the number of these clients in each class, with one row of the class.
    fn count(&self, plan: &Plan, clients: &[usize]) -> Vec<(usize, u64)> {
        let mut counts = vec![0; self.rows.len()];
        for &client in clients {
            counts[self.of_row[plan.row_of(client)]] += 1;
        }
        let rows = self.rows.iter().copied();
        rows.zip(counts).filter(|&(_, count)| count > 0).collect()
    }
}
