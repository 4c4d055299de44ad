//! Portals: match entries, memory descriptors, the operations that programs start, and the responses they wait for.

pub(crate) mod calls;
pub(crate) mod descriptor;
pub(in crate::traffic) mod lazy;
pub(crate) mod lifecycle;
pub(in crate::traffic) mod matching;
pub(crate) mod put_get;
pub(in crate::traffic) mod responders;
pub(in crate::traffic) mod responses;
pub(crate) mod table;
pub(crate) mod wire_handle;
