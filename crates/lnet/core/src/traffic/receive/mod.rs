//! Messages being received: the checks of a header, the place for the payload, and the response.

pub(crate) mod header;
pub(in crate::traffic) mod respond;
pub(in crate::traffic) mod rx;
