//! The readers of calls, and of what the storage service finds in them.

use lnet_rpc::proto::{decode_reply, decode_request, encode_reply, encode_request};

/// A request or a reply: refused, or the same bytes again.
pub fn rpc_message(data: &[u8]) {
    if let Ok((header, body)) = decode_request(data) {
        assert_eq!(encode_request(&header, body), data);
    }
    if let Ok((header, body)) = decode_reply(data) {
        assert_eq!(encode_reply(&header, body), data);
    }
}

/// The body of a storage request or reply.
pub fn store_body(data: &[u8]) {
    lnet_store::proto::fuzz_bodies(data);
}
