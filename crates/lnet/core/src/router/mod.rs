//! The router: messages for other nodes, the buffers that hold them, the limits of buffers, and switching routing on
//! and off.

pub(crate) mod forward;
pub(crate) mod hops;
pub(crate) mod pool;
pub(crate) mod routing;
