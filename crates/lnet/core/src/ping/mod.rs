//! Pings: the answer of this node, the pings that the core sends, the information of other nodes, and their buffers.

pub(crate) mod ask;
pub(crate) mod buffers;
pub(crate) mod said;
pub(crate) mod target;
