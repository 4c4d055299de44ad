//! Messages being received: the checks of a header, the place for the payload, and the response.

pub(crate) mod header;
pub(crate) mod respond;
pub(crate) mod rx;
