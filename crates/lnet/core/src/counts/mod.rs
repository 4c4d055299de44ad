//! What a node counts: messages, drops, latencies, memory.

pub(crate) mod census;
pub(crate) mod counters;
pub(crate) mod histogram;
pub(crate) mod latency;
