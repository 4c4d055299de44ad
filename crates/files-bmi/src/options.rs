//! What a client and a forwarder can be told.

use std::time::Duration;

/// How a client calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// How long a call is tried, over losses of the daemon and of the forwarder. Then it ends with `ETIMEDOUT`, or with
    /// [`files::OUTCOME_UNKNOWN`] where it may have been carried out and must not be repeated.
    pub deadline: Duration,
    /// The job that this process belongs to, for fairness between jobs.
    pub job: u32,
    /// Calls under way at the same time, 1 to [`SLOTS_MAX`]; further threads wait.
    pub slots: u16,
}

/// Most calls of one client that are under way at the same time. With two messages and an answer each they fit
/// into what the zoid method sends side by side.
pub const SLOTS_MAX: u16 = 16;

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(60),
            job: 0,
            slots: SLOTS_MAX,
        }
    }
}

/// In which order a forwarder carries operations out, within the turns that jobs and clients take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// As they came.
    Fifo,
    /// Reads, and writes, of one file that continue one another are carried out as one.
    #[default]
    Merge,
}

/// How a forwarder serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwarderOptions {
    /// Threads that carry operations out.
    pub workers: usize,
    /// Bytes of buffers that may be in use at the same time. At least 8 MiB.
    pub memory: u64,
    /// Most bytes of one message of file data, 64 KiB to a quarter of the memory.
    pub piece: u32,
    /// The order.
    pub schedule: Schedule,
    /// Operations of one client that are carried out before the next client's turn.
    pub quantum: usize,
    /// Most operations that are carried out as one.
    pub batch: usize,
    /// Clients that are remembered; those that were not heard for longest are forgotten.
    pub clients_max: usize,
    /// How long an exchange may stand still before it is given up.
    pub patience: Duration,
    /// How long a client that does not move keeps a buffer that others wait for.
    pub turn: Duration,
}

impl Default for ForwarderOptions {
    fn default() -> Self {
        Self {
            workers: 8,
            memory: 64 << 20,
            piece: 1 << 20,
            schedule: Schedule::default(),
            // Both are what the specification names, section 6.2.
            quantum: 8,
            batch: 16,
            clients_max: 4096,
            patience: Duration::from_secs(60),
            turn: Duration::from_millis(200),
        }
    }
}
