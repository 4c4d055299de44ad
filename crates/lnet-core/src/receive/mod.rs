//! Messages being received: what a header asks for, where the payload goes, what is answered.

pub(crate) mod header;
pub(crate) mod respond;
pub(crate) mod rx;
