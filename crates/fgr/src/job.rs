//! One job: which routers it uses, how fast they let it be, and what would do better.
//!
//! A job writes equally much from each of its clients to each of its nets. It is as fast as its busiest
//! router and its hottest link let it be:
//!
//! ```text
//!   units = clients × nets
//!   routers:  units / clients of the busiest router × GB/s of a router
//!   links:    units / (units / GB/s) of the hottest link
//! ```
//!
//! Other jobs share routers and links with it; they are not looked at.

use std::collections::BTreeMap;

use topology::{Direction, Fabric, Link};

use crate::evaluate::{Gateways, LinkLoads, Traffic, clients_of_routers};
use crate::machine::{Machine, Role};
use crate::plan::Plan;

/// What is asked about: a job on a machine with a plan.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// Its plan.
    pub plan: &'a Plan,
    /// Clients of the job, by index, ascending.
    pub clients: &'a [usize],
    /// Nets that it writes to, by index. Only data nets count.
    pub nets: &'a [usize],
    /// GB/s that one router forwards.
    pub router_rate: f64,
}

/// A router that the job uses.
#[derive(Clone, Debug, PartialEq)]
pub struct RouterUse {
    /// The router, by index.
    pub router: u16,
    /// Clients of the job that write to it; parts of them where routers share.
    pub clients: f64,
}

/// What ends the growth of a job's bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Its busiest router.
    Router,
    /// Its hottest link.
    Link,
}

/// Bandwidth in one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Bandwidth {
    /// GB/s of the whole job.
    pub rate: f64,
    /// What limits it.
    pub limit: Limit,
    /// The hottest links, hottest first, with the units that the job puts on them and their GB/s.
    pub hottest: Vec<(Link, f64, f64)>,
}

/// Nets or nodes that would do better.
#[derive(Clone, Debug, PartialEq)]
pub struct Better<T> {
    /// The nets, by index, or the clients, by index.
    pub instead: Vec<T>,
    /// GB/s of the job's writes with them.
    pub rate: f64,
}

/// What is said of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobReport {
    /// Its routers, busiest first.
    pub routers: Vec<RouterUse>,
    /// Share of the bandwidth of all routers of its worst net that it can use.
    pub efficiency: f64,
    /// Writes.
    pub write: Bandwidth,
    /// Reads.
    pub read: Bandwidth,
    /// As many nets with a higher rate, if some were found.
    pub better_nets: Option<Better<usize>>,
    /// As many clients with a higher rate, if some were found: one of the equal pieces of consecutive
    /// clients that were tried.
    pub better_nodes: Option<Better<usize>>,
}

/// Links that are named.
const HOTTEST: usize = 5;

/// Starts that are tried for a job's clients, at equal distances.
const STARTS: usize = 48;

/// Pieces into which a job is cut, which lie at equal distances.
const PIECES: [usize; 4] = [1, 2, 4, 8];

impl Job<'_> {
    /// What the job gets, and what would do better; `None` without clients or data nets.
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
        let busiest = clients_of_routers(self.machine, alone, Gateways::Primary)
            .into_iter()
            .max();
        let busiest = busiest.unwrap_or(0).max(1) as f64 / alone.parts() as f64;
        let by_router = units / busiest * self.router_rate;
        let loads = LinkLoads::new(self.machine, alone, Gateways::Primary, traffic);
        let mut hottest: Vec<_> = loads.loaded(&self.machine.fabric).collect();
        // Equal ones in order of their numbers.
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
        let limit = if by_link < by_router {
            Limit::Link
        } else {
            Limit::Router
        };
        Bandwidth {
            rate: by_link.min(by_router),
            limit,
            hottest,
        }
    }

    /// The share of the routers' bandwidth on the worst of these nets.
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

    /// The nets whose routers these clients share best, as many as now.
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

    /// The GB/s of the job's writes.
    fn writes(&self) -> f64 {
        self.bandwidth(&self.plan.of_job(self.clients, self.nets), Traffic::Write)
            .rate
    }

    /// As many clients elsewhere whose routers are used best.
    fn better_nodes(&self, classes: &Classes, rate: f64) -> Option<Better<usize>> {
        let (size, all) = (self.clients.len(), self.machine.clients.len());
        let mut best: Option<(f64, Vec<usize>)> = None;
        for pieces in PIECES.into_iter().filter(|&pieces| pieces <= size) {
            for start in 0..STARTS {
                let chosen = pieces_of(all, size, pieces, start * all / STARTS);
                // Pieces that overlap are fewer clients.
                if chosen.len() < size {
                    continue;
                }
                let counts = classes.count(self.plan, &chosen);
                let found = self.efficiency(&counts, self.nets);
                // Of equal ones that of fewest pieces, which comes first.
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

/// What is no better than by a hundredth is not called better.
const BETTER: f64 = 1.01;

/// `size` of `all` clients in `pieces` runs at equal distances, the first at `start`, ascending; fewer
/// where runs overlap.
fn pieces_of(all: usize, size: usize, pieces: usize, start: usize) -> Vec<usize> {
    let each = (0..pieces).flat_map(|piece| {
        let length = (piece + 1) * size / pieces - piece * size / pieces;
        let first = start + piece * all / pieces;
        (first..first + length).map(|client| client % all)
    });
    let mut chosen: Vec<usize> = each.collect();
    // A few ascending runs, which this sort merges.
    chosen.sort();
    chosen.dedup();
    chosen
}

/// Rows of a plan by their tables: many clients have few of them.
struct Classes {
    /// The class of each row.
    of_row: Vec<usize>,
    /// A row of each class.
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
            // Neighbours mostly have one table.
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

    /// How many of these clients each class has, by a row of it.
    fn count(&self, plan: &Plan, clients: &[usize]) -> Vec<(usize, u64)> {
        let mut counts = vec![0; self.rows.len()];
        for &client in clients {
            counts[self.of_row[plan.row_of(client)]] += 1;
        }
        let rows = self.rows.iter().copied();
        rows.zip(counts).filter(|&(_, count)| count > 0).collect()
    }
}

/// A link in words: where it begins and where it leads; its number where the fabric has no coordinates.
#[must_use]
pub fn link_name(fabric: &Fabric, link: Link) -> String {
    let Fabric::Grid(grid, _) = fabric else {
        return format!("link {}", link.0);
    };
    let at = grid.describe(link);
    let position: Vec<String> = grid
        .coordinates(at.from)
        .iter()
        .map(u16::to_string)
        .collect();
    let sign = match at.direction {
        Direction::Plus => '+',
        Direction::Minus => '-',
    };
    let name = grid.dimensions()[at.dimension].name.to_uppercase();
    format!("({}) {name}{sign}", position.join(","))
}
