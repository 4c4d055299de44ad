//! Portals: match entries, memory descriptors, the operations that programs start, and the responses they wait for.

pub(crate) mod calls;
pub(crate) mod descriptor;
pub(crate) mod lazy;
pub(crate) mod lifecycle;
pub(crate) mod matching;
pub(crate) mod md;
pub(crate) mod put_get;
pub(crate) mod responders;
pub(crate) mod responses;
pub(crate) mod table;
pub(crate) mod wire_handle;
