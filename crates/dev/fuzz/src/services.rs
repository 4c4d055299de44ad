//! The decoders of calls, of file operations over LNet and BMI, of a gateway's log, and of selftest messages.

use lnet_rpc::proto::{decode_reply, decode_request, encode_reply, encode_request};
use lnet_selftest::wire::{Message, Order, decode_destinations, encode_destinations};

/// A request or a reply: rejected, or equal bytes after decoding and encoding.
pub fn rpc_message(data: &[u8]) {
    if let Ok((header, body)) = decode_request(data) {
        assert_eq!(encode_request(&header, body), data);
    }
    if let Ok((header, body)) = decode_reply(data) {
        assert_eq!(encode_reply(&header, body), data);
    }
}

/// A request for a file operation, or the reply to one.
pub fn file_message(data: &[u8]) {
    files::wire::fuzz_messages(data);
}

/// The head of a call or of an answer of file operations over BMI.
pub fn file_head(data: &[u8]) {
    files_bmi::fuzz_heads(data);
}

/// A gateway's log of replies, as a crash may leave it.
pub fn reply_log(data: &[u8]) {
    files_lnet::files::fuzz_log(data);
}

/// A selftest message in either byte order, or a list of destinations.
pub fn selftest_message(data: &[u8]) {
    if let Ok((message, order)) = Message::decode(data) {
        for order in [order, Order::Little, Order::Big] {
            let encoded = message.encode_in(order);
            assert_eq!(Message::decode(&encoded), Ok((message, order)));
        }
    }
    if let Some(list) = decode_destinations(data, Order::Little)
        && let Some(encoded) = encode_destinations(&list)
    {
        assert_eq!(encoded, data);
    }
}
