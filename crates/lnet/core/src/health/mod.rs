//! Health: values, what a failure does to them, and the pings that restore them.

pub(crate) mod recovery;
pub(crate) mod update;
pub(crate) mod value;
