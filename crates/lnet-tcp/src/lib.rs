//! The socket LND: handshake, typed connections, framing, zero-copy acknowledgements.
