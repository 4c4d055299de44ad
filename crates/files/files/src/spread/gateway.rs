//! One gateway: its identity, its health, its counters.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::spread::health::{Health, Pauses, State};
use crate::{
    Attributes, Caller, Data, Errno, Export, FileSystem, Handle, OUTCOME_UNKNOWN, Reply, Request,
};

/// A server of the file system.
#[derive(Clone)]
pub struct Server {
    /// Name for people: an address.
    pub name: String,
    /// The client of the server. Each call must end, with `ETIMEDOUT` if the server does not answer in time.
    pub files: Arc<dyn FileSystem>,
}

/// The counters of one gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayReport {
    /// Name of the gateway.
    pub name: String,
    /// Whether the gateway gets operations: it answered, and no operation was lost since.
    pub is_up: bool,
    /// Why the gateway gets no operations; `None` if it does or was not asked yet.
    pub error: Option<Errno>,
    /// Number of operations sent to the gateway, including those that look objects up once more.
    pub operations: u64,
    /// Number of operations that the gateway did not answer.
    pub lost: u64,
    /// Number of operations that the gateway executed after another gateway did not answer.
    pub taken_over: u64,
    /// Number of operations that the gateway may have executed. Their callers got [`OUTCOME_UNKNOWN`](crate::OUTCOME_UNKNOWN).
    pub unknown: u64,
    /// Number of operations with handles that the gateway no longer knew.
    pub stale: u64,
}

/// The last answer of a gateway to a probe.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    /// The number that this gateway gives the root's file system.
    filesystem: u64,
    /// The boot of its machine.
    boot: u64,
}

pub(crate) struct Gateway {
    pub(crate) name: String,
    files: Arc<dyn FileSystem>,
    health: Mutex<Health>,
    said: Mutex<Said>,
    error: Mutex<Option<Errno>>,
    under_way: AtomicUsize,
    operations: AtomicU64,
    lost: AtomicU64,
    pub(crate) taken_over: AtomicU64,
    pub(crate) unknown: AtomicU64,
    pub(crate) stale: AtomicU64,
}

impl Gateway {
    pub(crate) fn new(server: Server, pauses: Pauses) -> Self {
        Self {
            name: server.name,
            files: server.files,
            health: Mutex::new(Health::new(pauses)),
            said: Mutex::default(),
            error: Mutex::default(),
            under_way: AtomicUsize::new(0),
            operations: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            taken_over: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
            stale: AtomicU64::new(0),
        }
    }

    /// Sends an operation. Holds no lock during the call.
    pub(crate) fn call(
        &self,
        caller: &Caller,
        request: &Request,
        data: Data<'_>,
    ) -> Result<Reply, Errno> {
        self.operations.fetch_add(1, Ordering::Relaxed);
        self.under_way.fetch_add(1, Ordering::Relaxed);
        let reply = self.files.call(caller, request, data);
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        match reply {
            // `OUTCOME_UNKNOWN` is only for operations that must not be repeated.
            Err(OUTCOME_UNKNOWN) if request.is_idempotent() => Err(Errno::ETIMEDOUT),
            reply => reply,
        }
    }

    /// Asks the gateway for its export and the attributes of its root.
    pub(crate) fn introduce(&self) -> Result<(Export, Attributes), Errno> {
        let caller = Caller::default();
        let Reply::Export(export) = self.call(&caller, &Request::Identify, Data::None)? else {
            return Err(Errno::EPROTO);
        };
        let handle = Handle::ROOT;
        match self.call(&caller, &Request::GetAttr { handle }, Data::None)? {
            Reply::Attributes(root) => Ok((export, root)),
            _ => Err(Errno::EPROTO),
        }
    }

    /// Records the answer to a probe.
    pub(crate) fn said(&self, filesystem: u64, boot: u64) {
        *lock(&self.said) = Said { filesystem, boot };
    }

    /// Returns the number that this gateway gives the root's file system.
    pub(crate) fn filesystem(&self) -> u64 {
        lock(&self.said).filesystem
    }

    /// Returns the boot of the gateway's machine.
    pub(crate) fn boot(&self) -> u64 {
        lock(&self.said).boot
    }

    pub(crate) fn state(&self) -> State {
        lock(&self.health).state
    }

    pub(crate) fn epoch(&self) -> u64 {
        lock(&self.health).epoch
    }

    pub(crate) fn under_way(&self) -> usize {
        self.under_way.load(Ordering::Relaxed)
    }

    /// Records that the gateway does not answer. It gets no operations until its pause is over.
    pub(crate) fn failed(&self, epoch: u64, now: Duration, errno: Errno) {
        *lock(&self.error) = Some(errno);
        lock(&self.health).failed(epoch, now);
    }

    pub(crate) fn answered(&self) {
        *lock(&self.error) = None;
        lock(&self.health).answered();
    }

    pub(crate) fn take_probe(&self, now: Duration) -> bool {
        lock(&self.health).take_probe(now)
    }

    pub(crate) fn probed(&self) {
        lock(&self.health).probed();
    }

    pub(crate) fn count_lost(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn report(&self) -> GatewayReport {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        GatewayReport {
            name: self.name.clone(),
            is_up: self.state() == State::Up,
            error: *lock(&self.error),
            operations: load(&self.operations),
            lost: load(&self.lost),
            taken_over: load(&self.taken_over),
            unknown: load(&self.unknown),
            stale: load(&self.stale),
        }
    }
}

/// Returns whether an error means that the gateway was not reached, or that the effect of the operation is unknown.
pub(crate) fn is_lost(errno: Errno) -> bool {
    is_unclear(errno)
        || matches!(
            errno,
            Errno::ETIMEDOUT
                | Errno::ESHUTDOWN
                | Errno::ECONNREFUSED
                | Errno::ECONNRESET
                | Errno::ECONNABORTED
                | Errno::ENOTCONN
                | Errno::EPIPE
                | Errno::EHOSTUNREACH
                | Errno::EHOSTDOWN
                | Errno::ENETUNREACH
                | Errno::ENETDOWN
                | Errno::ENETRESET
                | Errno::ECOMM
                | Errno::ENOLINK
        )
}

/// Returns whether an error may come from a healthy gateway: from its disk or from its carrier.
pub(crate) fn is_unclear(errno: Errno) -> bool {
    matches!(errno, Errno::EIO | Errno::EPROTO | OUTCOME_UNKNOWN)
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
