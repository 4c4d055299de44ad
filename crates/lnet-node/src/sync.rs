//! The primitives that the protocol between callers and the driver is written with. `tests/interleavings.rs`
//! compiles the same files with those of a model checker.

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
