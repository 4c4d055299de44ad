//! The rounds: hops, plain program, path and mount in turns.

use std::time::{Duration, Instant};

use anyhow::Context;
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};

use super::chain::{Chain, Places};
use super::hops::Hops;
use super::peer::Role;
use super::report::{HopReport, Processes, Row, Unit};
use super::task::{Operation, Side, Task};
use crate::child::{Peer, blame};

/// The number of clients at the same time.
const CLIENTS: usize = 16;
/// The number of operations in progress with one client of the tools.
const JOBS: usize = 8;
/// The number of operations in progress if there is more than one.
const OUTSTANDING: usize = 16;
/// The time for which each hop is measured in a round.
const HOP: Duration = Duration::from_millis(100);

/// The extent of a measurement.
struct Effort {
    rounds: usize,
    /// The number of pieces of all large files together.
    pieces: u64,
    blocks: u64,
    looks: u64,
    names: u64,
}

const WHOLE: Effort = Effort {
    rounds: 7,
    pieces: 256,
    blocks: 4000,
    looks: 4000,
    names: 400,
};
const SHORT: Effort = Effort {
    rounds: 1,
    pieces: 64,
    blocks: 128,
    looks: 128,
    names: 32,
};

/// The clients and the plain programs.
pub(super) struct Bed {
    effort: &'static Effort,
    congestion: String,
    clients: Vec<Peer>,
    /// The relays and the server of the plain program. They end after the clients.
    plain: Vec<Peer>,
}

impl Bed {
    /// Starts all processes.
    pub(super) fn start(places: &Places, congestion: &str, is_short: bool) -> anyhow::Result<Self> {
        let (local, mount) = (places.local(), places.mount());
        let (local, mount) = (local.to_string_lossy(), mount.to_string_lossy());
        let state = places.state().to_string_lossy();
        let (socket, instance) = (places.socket(), places.instance());
        let socket = socket.to_string_lossy();
        let launch = |role: Role, other: &str, more: &[&str]| {
            let value = role.to_possible_value().context("a role has a name")?;
            let name = value.get_name();
            let words = ["path-peer", name, "--congestion", congestion];
            let directories = ["--directory", &local, "--other", other];
            Peer::launch(name, words.iter().chain(&directories).chain(more))
        };
        let server = launch(Role::PlainServer, &state, &[])?;
        let relay = |port: u16| launch(Role::PlainRelay, &state, &["--port", &port.to_string()]);
        let router = relay(server.port())?;
        let io_node = relay(router.port())?;
        let ports = [io_node.port(), router.port()].map(|port| port.to_string());
        let of_client = [
            "--port",
            &ports[0],
            "--port",
            &ports[1],
            "--socket",
            &socket,
            "--instance",
            &instance,
        ];
        let clients = (0..CLIENTS).map(|_| launch(Role::Client, &mount, &of_client));
        Ok(Self {
            effort: if is_short { &SHORT } else { &WHOLE },
            congestion: congestion.to_owned(),
            clients: clients.collect::<anyhow::Result<_>>()?,
            plain: vec![io_node, router, server],
        })
    }

    /// Measures every row, round by round.
    pub(super) fn measure(&mut self, chain: &Chain) -> anyhow::Result<(HopReport, Vec<Row>)> {
        let mut subjects = subjects(self.effort, chain.mount.is_ok());
        let bar = progress(subjects.len() * (self.effort.rounds + 1));
        for subject in &subjects {
            // The first round makes the files, touches the memory and sets up the connections.
            self.round(chain, subject, None)?;
            bar.inc(1);
        }
        let mut hops = HopReport::default();
        for _ in 0..self.effort.rounds {
            let single = Hops::measure(&self.congestion, HOP)?;
            hops.push(single);
            for subject in &mut subjects {
                let figures = self.round(chain, subject, Some(single))?;
                subject.push(figures, &mut hops);
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        Ok((
            hops,
            subjects
                .into_iter()
                .flat_map(|subject| subject.rows)
                .collect(),
        ))
    }

    /// Measures one subject once, on each of its sides.
    fn round(
        &mut self,
        chain: &Chain,
        subject: &Subject,
        hops: Option<Hops>,
    ) -> anyhow::Result<Figures> {
        let mut run = |side| self.run(chain, subject, side);
        let is_large = subject.is_large();
        let (path, processes) = run(Side::Path)?;
        let (plain, _) = run(if is_large {
            Side::PlainRouted
        } else {
            Side::Plain
        })?;
        let local = if is_large {
            Some(run(Side::Local)?.0)
        } else {
            None
        };
        let mount = match subject.has_mount {
            true => Some(run(Side::Mount)?.0),
            false => None,
        };
        let slowest = local
            .zip(hops)
            .map(|(local, hops)| hops.tcp.min(hops.memory).min(local));
        Ok(Figures {
            path,
            plain,
            local,
            mount,
            slowest,
            processes,
        })
    }

    /// Returns the figure of one side, and the CPU time that the processes of the path used for it.
    fn run(
        &mut self,
        chain: &Chain,
        subject: &Subject,
        side: Side,
    ) -> anyhow::Result<(f64, Processes)> {
        let services = chain.services();
        let before: Vec<Duration> = services
            .iter()
            .map(|service| service.cpu_time())
            .collect::<anyhow::Result<_>>()?;
        let took = self.together(subject, side);
        if took.is_err() {
            blame(&mut self.plain)?;
        }
        let took = took?;
        let mut processes = Processes::default();
        for (service, before) in services.iter().zip(before) {
            let cpu = service.cpu_time()?.saturating_sub(before);
            processes.add(service.name, cpu.as_secs_f64() * 1e6 / subject.operations());
        }
        Ok((subject.unit.figure(subject.operations(), took), processes))
    }

    /// Lets all clients of a subject run its task at the same time.
    fn together(&mut self, subject: &Subject, side: Side) -> anyhow::Result<Duration> {
        let depth = match side {
            Side::Local | Side::Mount if subject.is_large() => 1,
            _ => subject.depth,
        };
        let begun = Instant::now();
        for (file, client) in (0..).zip(self.clients.iter_mut().take(subject.clients)) {
            let task = Task {
                side,
                operation: subject.operation,
                count: subject.count,
                depth,
                file,
            };
            client.tell(&task.to_string())?;
        }
        for client in self.clients.iter_mut().take(subject.clients) {
            client.hear()?;
        }
        Ok(begun.elapsed())
    }
}

/// A subject that is measured on several sides.
struct Subject {
    operation: Operation,
    unit: Unit,
    clients: usize,
    /// The number of operations of each client in progress at the same time.
    depth: usize,
    /// The number of operations of each client.
    count: u64,
    has_mount: bool,
    rows: Vec<Row>,
}

/// The figures of one round of a subject.
struct Figures {
    path: f64,
    plain: f64,
    local: Option<f64>,
    mount: Option<f64>,
    slowest: Option<f64>,
    processes: Processes,
}

/// The lowest acceptable ratio of the path to its slowest hop, and of the mount to the tools.
const OF_HOP: f64 = 0.7;
const OF_TOOLS: f64 = 0.8;

impl Subject {
    fn is_large(&self) -> bool {
        matches!(self.operation, Operation::Write | Operation::Read)
    }

    /// Returns the number of operations of all clients: pieces, reads or round trips.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    fn operations(&self) -> f64 {
        let of_pair = if self.operation == Operation::Names {
            2
        } else {
            1
        };
        (self.count * self.clients as u64 * of_pair) as f64
    }

    fn push(&mut self, figures: Figures, hops: &mut HopReport) {
        let mut rows = self.rows.iter_mut();
        let mut push = |limit: f64, figure: f64| {
            if let Some(row) = rows.next() {
                row.push(limit, figure);
            }
        };
        if let Some(slowest) = figures.slowest {
            push(slowest, figures.path);
        }
        push(figures.plain, figures.path);
        if let (Some(mount), Some(local)) = (figures.mount, figures.local) {
            push(figures.path, mount);
            push(local, mount);
        }
        if let Some(local) = figures.local {
            hops.push_local(self.operation == Operation::Write, local);
        }
        if let Some(row) = self.rows.first_mut() {
            row.processes.push(figures.processes);
        }
    }
}

fn subjects(effort: &Effort, has_mount: bool) -> Vec<Subject> {
    let clients = |count: usize| match count {
        1 => "1 client".to_owned(),
        count => format!("{count} clients"),
    };
    let large = |(operation, name): (Operation, &str), count: usize| {
        let what = format!("{name}, {}", clients(count));
        let mut rows = vec![
            Row::new(&what, "slowest hop", Unit::Bandwidth, Some(OF_HOP)),
            Row::new(&what, "plain program", Unit::Bandwidth, None),
        ];
        if has_mount {
            let what = format!("{what}, mount");
            rows.push(Row::new(&what, "tools", Unit::Bandwidth, Some(OF_TOOLS)));
            rows.push(Row::new(&what, "directory", Unit::Bandwidth, None));
        }
        Subject {
            operation,
            unit: Unit::Bandwidth,
            clients: count,
            depth: if count == 1 { JOBS } else { 1 },
            count: effort.pieces / count as u64,
            has_mount,
            rows,
        }
    };
    let small = |(operation, name): (Operation, &str), count: u64, depth: usize| Subject {
        operation,
        unit: Unit::Rate,
        clients: 1,
        depth,
        count,
        has_mount: false,
        rows: vec![Row::new(
            &format!("{name}, {depth} in flight"),
            "plain program",
            Unit::Rate,
            None,
        )],
    };
    let mut all = Vec::new();
    for count in [1, CLIENTS] {
        all.extend(
            [(Operation::Write, "write"), (Operation::Read, "read")].map(|what| large(what, count)),
        );
    }
    for depth in [1, OUTSTANDING] {
        let more = if depth == 1 { 1 } else { 4 };
        all.push(small(
            (Operation::Random, "random reads of 4 KiB"),
            effort.blocks * more,
            depth,
        ));
        all.push(small(
            (Operation::Look, "look-ups"),
            effort.looks * more,
            depth,
        ));
        all.push(small(
            (Operation::Names, "names made and removed"),
            effort.names * more,
            depth,
        ));
    }
    all
}

fn progress(steps: usize) -> ProgressBar {
    let bar = ProgressBar::new(steps as u64);
    // The template is a constant and valid; without it the bar would only look different.
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} {eta}") {
        bar.set_style(style);
    }
    bar
}
