//! The rounds: limit and method in turns, then many clients beside one, then the counted figures.

use std::time::{Duration, Instant};

use anyhow::Context;

use super::bed::Bed;
use super::limits::Limit;
use super::machine;
use super::plain::Plain;
use super::report::{Counted, Group, Measured, PlacementReport, Row};
use super::rows::{Subject, bandwidth, task};
use super::task::{Method, Origin, Pattern, Task};
use crate::foreign::{Program, Rival};
use crate::measure::calibrate;
use crate::placement::{Placement, placements};

/// The extent of a measurement.
#[derive(Clone, Debug)]
pub(super) struct Effort {
    pub(super) short: bool,
    pub(super) rounds: u16,
    /// The time that one measurement should take.
    pub(super) measurement: Duration,
    /// The time in a placement after which no further round begins. It takes effect on a machine that is too busy
    /// for all rounds.
    pub(super) placement_max: Duration,
    /// Words that a row's name must contain. If they are set, only rows are measured.
    pub(super) only: Option<String>,
    /// Other programs that run in the same rounds.
    pub(super) peers: Vec<Program>,
}

const MIB: usize = 1 << 20;

/// Measures everything in every placement.
pub(super) fn everything(effort: &Effort) -> anyhow::Result<Measured> {
    let mut reports = Vec::new();
    let mut congestion = String::new();
    let mut counted = Vec::new();
    for placement in placements()? {
        let (here, there) = (placement.initiator_cpu, placement.target_cpu);
        sys::pin_to_cpu(here).with_context(|| format!("cannot stay on CPU {here}"))?;
        let mut bed = Bed::start(Some((here, there)))?;
        congestion = bed.limits().congestion_control()?;
        let report = in_placement(&mut bed, placement, effort);
        // The process that ended explains more than the one that noticed it.
        let report = report.or_else(|error| bed.check_alive().and(Err(error)))?;
        reports.push(report);
        if counted.is_empty() && effort.only.is_none() {
            counted = count(&mut bed)?;
        }
    }
    Ok(Measured {
        congestion,
        rounds: effort.rounds,
        placements: reports,
        counted,
    })
}

fn in_placement(
    bed: &mut Bed,
    placement: Placement,
    effort: &Effort,
) -> anyhow::Result<PlacementReport> {
    let begun = Instant::now();
    let bare = match effort.only {
        Some(_) => Vec::new(),
        None => machine::measure(bed, effort)?,
    };
    let mut rows = Vec::new();
    let wanted = |subject: &Subject| {
        let only = effort.only.as_ref();
        only.is_none_or(|words| subject.label().contains(words.as_str()))
    };
    for subject in Subject::all(effort.short, bed.is_one_core())
        .into_iter()
        .filter(wanted)
    {
        let mut row = calibrated(bed, subject, effort.measurement)?;
        row.rivals = rivals(&row.subject, &placement, effort)?;
        rows.push(row);
    }
    for round in 0..effort.rounds {
        if round > 0 && begun.elapsed() > effort.placement_max {
            break;
        }
        for row in &mut rows {
            one_round(bed, row, round)?;
            row.rivals_round(&placement)?;
        }
    }
    let mut groups = Vec::new();
    let crowds = match effort.only {
        Some(_) => Vec::new(),
        None => crowds(effort.short),
    };
    for row in &mut rows {
        row.settle(bed, 2 * effort.rounds.max(3))?;
    }
    for (method, bytes, clients) in crowds {
        groups.push(crowd(bed, method, bytes, clients, effort)?);
    }
    Ok(PlacementReport::new(placement, bare, rows, groups))
}

/// Returns the other programs that can run a row's test.
fn rivals(subject: &Subject, place: &Placement, effort: &Effort) -> anyhow::Result<Vec<Rival>> {
    let Some((carriers, test)) = subject.test() else {
        return Ok(Vec::new());
    };
    let programs = effort.peers.iter().copied();
    let programs: Vec<Program> = programs
        .filter(|program| carriers.contains(program))
        .collect();
    let label = subject.label();
    let what = (label.as_str(), subject.unit().name(), test);
    Rival::all(&programs, what, place, effort.measurement)
}

/// Returns the number of messages in the first trial: enough for a warm result, without seconds of large messages.
pub(super) const fn first(bytes: usize) -> u64 {
    match bytes {
        0..=65_536 => 64,
        65_537..=1_048_576 => 16,
        _ => 2,
    }
}

fn calibrated(bed: &mut Bed, subject: Subject, wanted: Duration) -> anyhow::Result<Row> {
    let Subject { method, task, .. } = subject;
    let Task {
        bytes, in_flight, ..
    } = task;
    let mut plain = |limit| Plain::tune(bed, (limit, subject.unit()), (bytes, in_flight), wanted);
    let (limit, physical) = (plain(subject.limit)?, plain(subject.physical())?);
    let count = calibrate(first(bytes), wanted, |count| {
        let done = bed.run(method, &Task { count, ..task })?;
        Ok(Duration::from_nanos(done.nanoseconds))
    })?;
    Ok(Row::new(subject, limit, physical, count))
}

/// Measures both sides. The side that comes first changes from round to round, so that neither profits from caches
/// that the other has filled.
fn one_round(bed: &mut Bed, row: &mut Row, round: u16) -> anyhow::Result<()> {
    if round.is_multiple_of(2) {
        row.measure_limits(bed)?;
    }
    let task = Task {
        count: row.count,
        ..row.subject.task
    };
    let done = bed.run(row.subject.method, &task)?;
    row.push(done);
    if !round.is_multiple_of(2) {
        row.measure_limits(bed)?;
    }
    Ok(())
}

/// Returns the methods, message sizes and numbers of clients for the comparison of many clients with one.
fn crowds(short: bool) -> Vec<(Method, usize, usize)> {
    if short {
        return vec![(Method::Zoid, MIB, 64), (Method::ProcessCopy, MIB, 64)];
    }
    let methods = [Method::Zoid, Method::ProcessCopy, Method::Tcp];
    let sizes = [8, 8192, 65_536, MIB];
    let each = |method| {
        sizes
            .into_iter()
            .flat_map(move |bytes| [8, 64].map(|clients| (method, bytes, clients)))
    };
    methods.into_iter().flat_map(each).collect()
}

/// The number of messages that a client of a crowd has in flight.
const CROWD_IN_FLIGHT: u32 = 2;

fn crowd(
    bed: &mut Bed,
    method: Method,
    bytes: usize,
    clients: usize,
    effort: &Effort,
) -> anyhow::Result<Group> {
    let begun = Instant::now();
    let task = task(Pattern::Stream, Origin::Pre, bytes, CROWD_IN_FLIGHT);
    let alone = calibrate(first(bytes), effort.measurement, |count| {
        let done = bed.run(method, &Task { count, ..task })?;
        Ok(Duration::from_nanos(done.nanoseconds))
    })?;
    // Each share is long enough to overlap with all others.
    let share = (2 * alone).div_ceil(clients as u64).max(8);
    // The memory of all clients together exceeds the caches that the memory of one client fits. A single client
    // therefore also runs with as much memory as all of them.
    let roomy = Task {
        buffers: CROWD_IN_FLIGHT * u32::try_from(clients)?,
        ..task
    };
    let mut group = Group::new(method, bytes, clients);
    let together: Vec<Task> = vec![
        Task {
            count: share,
            ..task
        };
        clients
    ];
    // Creates the connections and the buffers.
    bed.together(method, &vec![Task { count: 2, ..task }; clients])?;
    bed.run(method, &Task { count: 2, ..roomy })?;
    for round in 0..effort.rounds {
        if round > 0 && begun.elapsed() > effort.placement_max / 4 {
            break;
        }
        let mut one = |task| -> anyhow::Result<f64> {
            let count = alone;
            let done = bed.run(method, &Task { count, ..task })?;
            Ok(bandwidth(
                bytes,
                alone,
                Duration::from_nanos(done.nanoseconds),
            ))
        };
        let (one, roomy) = (one(task)?, one(roomy)?);
        let all = bed.together(method, &together)?;
        let aggregate = bandwidth(bytes, share * clients as u64, all.took);
        group.push(one, roomy, aggregate, &all.each);
    }
    Ok(group)
}

/// Returns figures that do not depend on the machine's speed.
fn count(bed: &mut Bed) -> anyhow::Result<Vec<Counted>> {
    const SENDS: u64 = 100;
    const EXCHANGES: u64 = 200;
    const TESTS: u64 = 3;
    let refused = task(Pattern::Refused, Origin::Ext, 128 * MIB, 1);
    let refused = bed.run(
        Method::Zoid,
        &Task {
            count: SENDS,
            ..refused
        },
    )?;
    let mut counted = vec![Counted::at_most(
        "bytes that a refused send of 128 MiB moves",
        refused.bytes_sent,
        SENDS,
        255.0,
    )];
    // The frames: SEND_REQ, GRANT, DATA, SEND_DONE; RECV_REQ, RECV_REPLY, DATA, RECV_ACK.
    let exchange = Task {
        count: EXCHANGES,
        ..task(Pattern::Exchange, Origin::Pre, 8, 1)
    };
    let done = bed.run(Method::Zoid, &exchange)?;
    let what = "frames of an exchange, post timeout on";
    counted.push(Counted::at_most(what, done.frames, EXCHANGES, 8.0));
    let what = "calls forwarded for an exchange, post timeout on";
    counted.push(Counted::at_most(what, done.exchanges, EXCHANGES, 2.0));
    let silence = task(Pattern::Silence, Origin::Ext, 8, 1);
    let silence = bed.run(
        Method::Zoid,
        &Task {
            count: TESTS,
            ..silence
        },
    )?;
    // The post itself sent one request.
    let tests = silence.exchanges.saturating_sub(1);
    counted.push(Counted::at_most(
        "calls forwarded for a test of 500 ms without a result",
        tests,
        TESTS,
        1.0,
    ));
    Ok(counted)
}

/// Returns the description of a limit, for the table's legend.
pub(super) const fn describe(limit: Limit) -> &'static str {
    match limit {
        Limit::Queue => "a message queue round trip",
        Limit::UnixRoundTrip => "a Unix socket round trip",
        Limit::QueueAndSocket => "a message queue round trip and a Unix socket round trip",
        Limit::TcpRoundTrip => "a TCP round trip",
        Limit::UnixStream => "a Unix socket stream",
        Limit::TcpStream => "a TCP stream",
        Limit::Ring => "a shared-memory ring, one copy",
        Limit::Memcpy => "copies into memory that two processes map",
    }
}
