//! The router: messages for other nodes, the buffers that hold them, the limits of buffers, and switching routing on
//! and off.

pub(in crate::traffic) mod forward;
pub(in crate::traffic) mod hops;
pub(in crate::traffic) mod pool;
