//! The socket LND: handshake, typed connections, framing, zero-copy acknowledgements.

mod upper;

pub use upper::{Disposition, Failure, NiKey, RxToken, SendRequest, TxToken, Upper};
