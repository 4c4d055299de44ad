//! Answers to pings, and the buffers of the core that pings need.

pub(crate) mod buffers;
pub(crate) mod target;
