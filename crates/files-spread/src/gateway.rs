//! One gateway: who it is, how it is, what it has done.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use files::{
    Attributes, Caller, Data, Errno, Export, FileSystem, Handle, OUTCOME_UNKNOWN, Reply, Request,
};

use crate::health::{Health, Pauses, State};

/// A server of the file system.
#[derive(Clone)]
pub struct Server {
    /// Its name, for people: an address.
    pub name: String,
    /// The way to it. Each call must end: with `ETIMEDOUT` where the server does not answer in time.
    pub files: Arc<dyn FileSystem>,
}

/// What became of the operations of one gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayReport {
    /// Its name.
    pub name: String,
    /// Whether it gets operations: it answered, and nothing was lost since.
    pub is_up: bool,
    /// Why it gets none.
    pub error: Option<Errno>,
    /// Operations that were sent to it, those among them that look objects up again.
    pub operations: u64,
    /// Operations that it did not answer.
    pub lost: u64,
    /// Operations that it carried out after another gateway did not answer.
    pub taken_over: u64,
    /// Operations that may have been carried out by it, with [`files::OUTCOME_UNKNOWN`] for the caller.
    pub unknown: u64,
    /// Handles that it did not know any longer.
    pub stale: u64,
}

/// What a gateway said when it was asked who it is.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    /// The number of the root's file system there.
    filesystem: u64,
    /// Which start of its machine it is.
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

    /// Sends an operation. No lock is held meanwhile.
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
            // That word is for what may not be repeated.
            Err(OUTCOME_UNKNOWN) if request.is_idempotent() => Err(Errno::ETIMEDOUT),
            reply => reply,
        }
    }

    /// Asks who it is and what its root is.
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

    /// Notes what it said.
    pub(crate) fn said(&self, filesystem: u64, boot: u64) {
        *lock(&self.said) = Said { filesystem, boot };
    }

    /// The number of the root's file system there.
    pub(crate) fn filesystem(&self) -> u64 {
        lock(&self.said).filesystem
    }

    /// Which start of its machine the gateway runs on.
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

    /// Notes that it does not answer, and gets no operations for a while.
    pub(crate) fn failed(&self, epoch: u64, now: Duration, errno: Errno) {
        *lock(&self.error) = Some(errno);
        lock(&self.health).failed(epoch, now);
    }

    pub(crate) fn answered(&self) {
        *lock(&self.error) = None;
        lock(&self.health).answered();
    }

    pub(crate) fn take_knock(&self, now: Duration) -> bool {
        lock(&self.health).take_knock(now)
    }

    pub(crate) fn knocked(&self) {
        lock(&self.health).knocked();
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

/// Whether an error says that the gateway was not reached, or that nobody knows what it did.
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

/// Whether an error may come from a gateway that is well: from its disk, or from its carrier.
pub(crate) fn is_unclear(errno: Errno) -> bool {
    matches!(errno, Errno::EIO | Errno::EPROTO | OUTCOME_UNKNOWN)
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
