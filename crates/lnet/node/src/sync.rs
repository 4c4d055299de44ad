//! The synchronization primitives of the protocol between callers and the driver. `tests/interleavings.rs`
//! compiles the same files with the primitives of a model checker.

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
