//! Health: what a failure takes from it, what a success gives back, and which interfaces are to be pinged.

pub(crate) mod recovery;
pub(in crate::fabric) mod update;
