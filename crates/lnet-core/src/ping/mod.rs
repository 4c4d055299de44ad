//! Pings: the answer of this node, the pings that the core sends, and the buffers of both.

pub(crate) mod ask;
pub(crate) mod buffers;
pub(crate) mod target;
