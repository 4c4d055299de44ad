//! A router: messages for other nodes, the buffers that hold them, who may hold how many, and switching all of that on and off.

pub(crate) mod forward;
pub(crate) mod hops;
pub(crate) mod pool;
pub(crate) mod routing;
