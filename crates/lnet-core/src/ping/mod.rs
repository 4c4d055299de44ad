//! Pings: the answer of this node, the pings that the core sends, what others say of themselves, and buffers for these.

pub(crate) mod ask;
pub(crate) mod buffers;
pub(crate) mod said;
pub(crate) mod target;
