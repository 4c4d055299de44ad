//! The options of a client and of a forwarder.

use std::time::Duration;

/// Options of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// How long a call is retried after losses of the daemon and of the forwarder. Then the call completes with
    /// `ETIMEDOUT`, or with [`files::OUTCOME_UNKNOWN`] if it may have been executed and must not be repeated.
    pub deadline: Duration,
    /// The job of this process. The forwarder shares its time fairly among jobs.
    pub job: u32,
    /// Number of calls in flight at the same time, 1 to [`SLOTS_MAX`]. Further threads wait.
    pub slots: u16,
}

/// Limit of the calls of one client in flight at the same time. The zoid method can have two messages and an answer
/// of each of 16 calls in flight.
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

/// The order in which a forwarder executes the operations of one turn of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// In the order of arrival.
    Fifo,
    /// In the order of arrival, but adjacent reads of one file are executed as one read, and adjacent writes as one
    /// write.
    #[default]
    Merge,
}

/// Options of a forwarder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwarderOptions {
    /// Number of threads that execute operations.
    pub workers: usize,
    /// Limit of the buffers in use at the same time, in bytes. At least 8 MiB.
    pub memory: u64,
    /// Limit of the file data in one message, in bytes: 64 KiB to a quarter of `memory`.
    pub piece: u32,
    /// The order in which operations are executed.
    pub schedule: Schedule,
    /// Number of operations of one client that are executed before the turn of the next client.
    pub quantum: usize,
    /// Limit of the number of operations that are executed as one.
    pub batch: usize,
    /// Limit of the number of clients in memory. Beyond this limit, the forwarder forgets the client that was silent
    /// for longest.
    pub clients_max: usize,
    /// How long an exchange may make no progress before the forwarder cancels it.
    pub patience: Duration,
    /// How long a client that makes no progress may keep its buffers while others wait for memory.
    pub turn: Duration,
}

impl Default for ForwarderOptions {
    fn default() -> Self {
        Self {
            workers: 8,
            memory: 64 << 20,
            piece: 1 << 20,
            schedule: Schedule::default(),
            quantum: 8,
            batch: 16,
            clients_max: 4096,
            patience: Duration::from_secs(60),
            turn: Duration::from_millis(200),
        }
    }
}
