//! The soak: many clients, messages of all sizes, and every byte verified. Memory, segments and queues must not
//! grow.
//!
//! Clients and server derive the length and the content of a message from its number, so each verifies what it
//! receives: the server the messages of clients, a client the answers. A client or server that finds a wrong byte
//! ends with an error, and the soak ends, too.

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use zoid_proto::Instance;

use super::bed::{Bed, Party, WITH_DAEMON};
use super::rows::{size, task};
use super::task::{Method, Origin, Pattern, Task};

/// The methods that cover every path of large messages. Spinning uses the path of zoid, with a segment for small
/// messages.
const METHODS: [Method; 3] = [Method::Zoid, Method::ProcessCopy, Method::Tcp];

const CLIENTS: u64 = 8;
/// The bytes of the largest message.
const LARGEST: usize = 4 << 20;
/// The number of messages of a client between two checks of the memory.
const SLICE: u64 = 20;
/// The number of slices after which memory should not grow any more: by then allocators and buffers of every size
/// are warm.
const WARM: usize = 6;
/// The limit on a process's growth in bytes after that, for memory that allocators keep.
const GROWTH_MAX: u64 = 24 << 20;

/// The time limit for the cleanup after the last messages.
const PUT_AWAY: Duration = Duration::from_secs(10);

/// Runs for at least this time; returns a summary in words.
pub(super) fn run(duration: Duration) -> anyhow::Result<String> {
    let mut bed = Bed::start(None)?;
    let names = WITH_DAEMON.map(|method| bed.instance(method));
    let begun = Instant::now();
    let mut warm: Option<Standing> = None;
    let mut most_grown = [0; Party::ALL.len()];
    let mut slices = 0_usize;
    while begun.elapsed() < duration || warm.is_none() {
        for method in METHODS {
            slice(&mut bed, method, slices as u64)?;
        }
        slices += 1;
        if slices < WARM {
            continue;
        }
        let after = || format!("after {slices} slices");
        let standing = Standing::of(&mut bed).with_context(after)?;
        let before = warm.get_or_insert_with(|| standing.clone());
        standing
            .check(before, &mut most_grown)
            .with_context(after)?;
    }
    bed.check_alive()?;
    let kept = warm.map(|warm| warm.to_string()).unwrap_or_default();
    drop(bed);
    for name in names {
        check_gone(&name?)?;
    }
    let methods = METHODS.len() as u64;
    let messages = 2 * CLIENTS * SLICE * methods * slices as u64;
    let grown = Party::ALL.iter().zip(most_grown);
    let grown: Vec<String> = grown
        .map(|(party, bytes)| format!("{party} {} KiB", bytes / 1024))
        .collect();
    Ok(format!(
        "{CLIENTS} clients, {messages} messages of 1 B to {} in {:.0} s over zoid, process copy and tcp: \
         every byte right\n{kept}most growth of a process: {}\nno name is left\n",
        size(LARGEST),
        begun.elapsed().as_secs_f64(),
        grown.join(", "),
    ))
}

/// The state between two slices, when nothing is in flight.
#[derive(Clone)]
struct Standing {
    /// The state of each daemon and its server.
    daemons: Vec<DaemonStanding>,
    /// The resident bytes of every process.
    resident: Vec<(Party, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct DaemonStanding {
    method: Method,
    segment_bytes: u64,
    /// The part of the segment that the server uses. The server keeps its buffers from slice to slice.
    server_bytes: u64,
    reply_queues: u64,
}

/// Metrics of a daemon that are 0 when nothing is in flight.
const AT_REST: [&str; 6] = [
    "zoidd_requests",
    "zoidd_waiting",
    "zoidd_posts",
    "zoidd_transfers",
    "zoidd_unexpected_messages",
    "zoidd_unexpected_pool_used_bytes",
];

impl Standing {
    fn of(bed: &mut Bed) -> anyhow::Result<Self> {
        let begun = Instant::now();
        for method in WITH_DAEMON {
            for name in AT_REST {
                while bed.metric(method, name)? != 0.0 {
                    let waited = begun.elapsed();
                    ensure!(waited < PUT_AWAY, "{name} of {method} does not become 0");
                    std::thread::yield_now();
                }
            }
        }
        let daemons = WITH_DAEMON.map(|method| DaemonStanding::of(bed, method));
        Ok(Self {
            daemons: daemons.into_iter().collect::<anyhow::Result<_>>()?,
            resident: bed.resident_bytes()?,
        })
    }

    /// Returns an error if any value has grown since everything was warm.
    fn check(&self, warm: &Self, most_grown: &mut [u64; 3]) -> anyhow::Result<()> {
        for (now, before) in self.daemons.iter().zip(&warm.daemons) {
            ensure!(now == before, "it was {before:?}, and is {now:?}");
        }
        for ((party, now), (_, before)) in self.resident.iter().zip(&warm.resident) {
            let grown = now.saturating_sub(*before);
            let most = &mut most_grown[*party as usize];
            *most = (*most).max(grown);
            let most = size(usize::try_from(grown)?);
            ensure!(grown <= GROWTH_MAX, "a {party} has grown by {most}");
        }
        Ok(())
    }
}

impl std::fmt::Display for Standing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for daemon in &self.daemons {
            let DaemonStanding {
                method,
                segment_bytes,
                server_bytes,
                reply_queues,
            } = daemon;
            writeln!(
                f,
                "{method}: always {segment_bytes} bytes of segment, {server_bytes} of them with the \
                 server, {reply_queues} reply queues"
            )?;
        }
        Ok(())
    }
}

impl DaemonStanding {
    fn of(bed: &mut Bed, method: Method) -> anyhow::Result<Self> {
        let segment = sys::SharedMemory::open(&bed.instance(method)?.segment())?;
        let (server_bytes, reply_queues) = bed.server_holds(method)?;
        Ok(Self {
            method,
            segment_bytes: segment.size()?,
            server_bytes,
            reply_queues,
        })
    }
}

/// Returns an error if a daemon that has ended has left its names.
fn check_gone(instance: &Instance) -> anyhow::Result<()> {
    let segment = sys::SharedMemory::open(&instance.segment());
    ensure!(segment.is_err(), "the segment of {instance} is left");
    let queue = sys::MessageQueue::open(&instance.control_queue(), sys::QueueAccess::Send);
    ensure!(queue.is_err(), "the control queue of {instance} is left");
    Ok(())
}

fn slice(bed: &mut Bed, method: Method, number: u64) -> anyhow::Result<()> {
    // Expected messages alternate between memory of the segment and of the heap.
    let origin = if number.is_multiple_of(2) {
        Origin::Pre
    } else {
        Origin::Ext
    };
    let tasks: Vec<Task> = (0..CLIENTS)
        .map(|client| Task {
            count: SLICE,
            client: number * CLIENTS + client,
            ..task(Pattern::Verify, origin, LARGEST, 1)
        })
        .collect();
    let together = bed.together(method, &tasks);
    if let Err(error) = together {
        bed.check_alive()?;
        bail!("{method}: {error:#}");
    }
    Ok(())
}
