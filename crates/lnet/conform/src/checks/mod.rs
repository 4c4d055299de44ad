//! The table of checks.

mod crossing;
mod frames;
mod handshake;
mod messages;
mod ping;
mod push;
mod rejections;
mod siblings;

use crate::probe::{Check, Probe, Risk, Run, Stop};

type Function = fn(&mut Probe<'_>) -> Result<(), Stop>;

const fn safe(id: &'static str, rules: &'static str, title: &'static str, run: Function) -> Check {
    Check::new((id, rules, title), Risk::Safe, Run::Tcp(run))
}

const fn intrusive(
    id: &'static str,
    rules: &'static str,
    title: &'static str,
    run: Function,
) -> Check {
    Check::new((id, rules, title), Risk::Intrusive, Run::Tcp(run))
}

/// Every check of a node on a tcp network, in the order of the protocol; checks that wait for the node's own timers come last.
#[rustfmt::skip]
pub static CHECKS: &[Check] = &[
    // [HELLO-2]
    safe("hello-version", "HELLO-2", "A HELLO is answered in its own version", handshake::version),
    // [HELLO-3]
    safe("hello-order", "HELLO-3", "The HELLO of the node is little-endian", handshake::order),
    // [HELLO-5]
    safe("hello-source", "HELLO-5", "The HELLO names the NID that was dialled, and process 12345", handshake::source),
    // [HELLO-6]
    safe("hello-echo", "HELLO-6", "Destination process and incarnation of a HELLO are returned unchanged", handshake::echo),
    // [HELLO-7]
    safe("hello-destination", "HELLO-7", "The destination in a HELLO is not checked", handshake::destination),
    // [HELLO-2]
    safe("hello-v2", "HELLO-2", "A HELLO of version 2 is accepted and answered in version 2", handshake::version_2),
    // [HELLO-12]
    safe("hello-addresses", "HELLO-12", "Up to 16 addresses behind a HELLO are read and ignored", handshake::addresses),
    // [CONN-8]
    safe("hello-pieces", "CONN-8", "A handshake that comes in small pieces is accepted", handshake::pieces),
    // [HELLO-9]
    safe("type-control", "HELLO-9", "CONTROL is answered with CONTROL", handshake::control),
    // [HELLO-9]
    safe("type-bulk-in", "HELLO-9", "BULK_IN is answered with BULK_OUT", handshake::bulk_in),
    // [HELLO-9]
    safe("type-bulk-out", "HELLO-9", "BULK_OUT is answered with BULK_IN", handshake::bulk_out),
    // [HELLO-18]
    safe("incarnation", "HELLO-18", "Every connection of an NI shows the same incarnation, which is not 0", handshake::incarnation),
    // [LARGE-9]
    intrusive("request-v2", "LARGE-9", "A connection request of version 2 is accepted for an 8-byte NID", handshake::request_2),
    // [HELLO-4] [MSG-1]
    intrusive("hello-big-endian", "HELLO-4, MSG-1", "A big-endian HELLO turns the frame headers behind it, and no LNet header", handshake::big_endian),

    // [REQ-5]
    intrusive("request-junk", "REQ-5", "A wrong magic number in the first word closes the connection without a reply", rejections::request_junk),
    // [REQ-6]
    intrusive("request-lnet-magic", "REQ-6", "LNet's magic in place of a request is answered with 16 bytes and a close", rejections::request_lnet_magic),
    // [REQ-6]
    intrusive("request-version", "REQ-6", "A request of an unknown version is answered with 16 bytes and a close", rejections::request_version),
    // [REQ-7]
    intrusive("request-other-nid", "REQ-7", "A request for a NID that the node does not have closes the connection without a reply", rejections::request_other_nid),
    // [REQ-7]
    intrusive("request-loopback", "REQ-7", "A request for 0@lo closes the connection without a reply", rejections::request_loopback),
    // [HELLO-15]
    intrusive("hello-magic", "HELLO-15", "A HELLO with a wrong magic number closes the connection without a reply", rejections::hello_magic),
    // [HELLO-16]
    intrusive("hello-version-unknown", "HELLO-16", "A HELLO of an unknown version is answered with a HELLO of type NONE and a close", rejections::hello_version),
    // [HELLO-13]
    intrusive("hello-17-addresses", "HELLO-13", "A HELLO with more than 16 addresses closes the connection without a reply", rejections::hello_17_addresses),
    // [HELLO-13]
    intrusive("hello-zero-address", "HELLO-13", "A HELLO with a zero address closes the connection without a reply", rejections::hello_zero_address),
    // [HELLO-14]
    intrusive("hello-any", "HELLO-14", "A HELLO from the wildcard NID closes the connection without a reply", rejections::hello_any),
    // [HELLO-11]
    intrusive("hello-type", "HELLO-11", "A HELLO of an undefined type closes the connection without a reply", rejections::hello_type),

    // [FRAME-3]
    safe("frame-fields", "FRAME-3", "A frame has checksum 0 and acknowledges nothing that did not ask", frames::fields),
    // [KEEP-3]
    safe("frame-noop", "KEEP-3", "Keepalives and empty NOOP frames are accepted", frames::noop),
    // [FRAME-2]
    intrusive("frame-type", "FRAME-2", "A frame of an undefined type closes the connection", frames::undefined),
    // [FRAME-4]
    intrusive("frame-checksum", "FRAME-4", "A NOOP with a wrong checksum closes the connection (version 2)", frames::checksum),
    // [ZC-6]
    intrusive("frame-ack-unknown", "ZC-6", "An acknowledgement without a request closes the connection", frames::ack_unknown),
    // [ZC-7]
    intrusive("frame-ack-keepalive", "ZC-7", "The keepalive cookie with another one closes the connection", frames::ack_keepalive),
    // [FRAME-10]
    intrusive("frame-cut", "FRAME-10", "An end inside a frame closes the connection", frames::cut),
    // [ZC-1] [ZC-2]
    intrusive("zero-copy", "ZC-1, ZC-2", "Every zero-copy request is acknowledged once, of dropped messages too", frames::zero_copy),

    // [TYPE-6] [DATA-3]
    safe("reply-handle", "TYPE-6, DATA-3", "A REPLY carries the handle of its GET, bit for bit", messages::reply_handle),
    // [DATA-4]
    safe("reply-addresses", "DATA-4", "A REPLY goes from the NID that was asked to the process that asked", messages::reply_addresses),
    // [MSG-6]
    safe("reply-reserved", "MSG-6", "Unused bytes of a REPLY's header are zero", messages::reply_reserved),
    // [DATA-3]
    safe("reply-once", "DATA-3", "There is one REPLY for each GET", messages::reply_once),
    // [MSG-3]
    intrusive("message-type", "MSG-3", "A message of an undefined type closes the connection", messages::undefined),
    // [MSG-3]
    intrusive("message-hello", "MSG-3", "A HELLO as a message closes the connection", messages::hello),
    // [MSG-4]
    intrusive("message-get-payload", "MSG-4", "A GET with payload closes the connection", messages::payload_of_get),
    // [MSG-5]
    intrusive("message-too-long", "MSG-5", "A PUT above 1 MiB closes the connection", messages::too_long),
    // [MSG-9]
    intrusive("destination-same-net", "MSG-9", "A message for another NID of this net closes the connection", messages::same_net),
    // [MSG-10]
    intrusive("destination-foreign-net", "MSG-10", "A node that is not a router drops a message for a foreign net", messages::foreign_net),
    // [MSG-12]
    intrusive("put-no-match", "MSG-12", "A PUT that matches nothing is dropped without an answer", messages::put_no_match),
    // [TYPE-9]
    intrusive("put-portal", "TYPE-9", "A PUT to portal 64 is dropped without an answer", messages::put_portal),
    // [TYPE-9]
    intrusive("get-portal", "TYPE-9", "A GET from portal 64 is dropped without an answer", messages::portal_of_get),
    // [DATA-8]
    intrusive("ack-unknown", "DATA-8", "An ACK with an unknown handle is dropped", messages::ack_unknown),
    // [DATA-8]
    intrusive("reply-unknown", "DATA-8", "A REPLY with an unknown handle is dropped", messages::reply_unknown),

    // [PING-1] [SET-4]
    safe("ping-reply", "PING-1, SET-4", "A lone CONTROL connection gets its ping answered", ping::reply),
    // [PING-5] [PING-6]
    safe("ping-valid", "PING-5, PING-6", "Ping info has its magic, NI_STATUS, 1 to 4096 entries, and 0@lo first", ping::valid),
    // [PING-10]
    safe("ping-size", "PING-10", "A REPLY to a ping is as long as its ping info says", ping::size),
    // [PING-8]
    safe("ping-nid", "PING-8", "The NID that is pinged is in the list", ping::contains_nid),
    // [TYPE-5]
    safe("ping-pid", "TYPE-5", "Ping info names process 12345", ping::pid),
    safe("ping-status", "PING-5", "The status of an interface is up, down or unknown", ping::status),
    safe("ping-features", "PING-5", "Feature bits go together as they do in every release", ping::features),
    // [PING-2]
    safe("ping-cut", "PING-2", "A ping with little room gets the first bytes, and no more than it has room for", ping::cut),
    // [PING-9]
    safe("ping-sequence", "PING-9", "The sequence number begins at 1 and never falls", ping::sequence),
    // [PING-4]
    intrusive("ping-bits", "PING-4", "A GET from portal 0 with other match bits gets no answer", ping::other_bits),

    // [PUSH-1] [DATA-2]
    intrusive("push-ack", "PUSH-1, DATA-2", "A push is acknowledged: handle and match bits copied, its length accepted", push::acknowledged),
    // [DATA-1]
    intrusive("push-no-ack", "DATA-1", "A push that wants no ACK gets none", push::unacknowledged),
    // [PUSH-1]
    intrusive("push-again", "PUSH-1", "A second push is acknowledged too", push::again),
    // [PUSH-6]
    intrusive("push-malformed", "PUSH-6", "A malformed push is acknowledged, and the connection kept", push::malformed),

    // [FRAME-14]
    safe("reply-connection", "FRAME-14", "The node sends no message on its BULK_IN", siblings::reply_connection),
    // [SET-10]
    intrusive("siblings-error", "SET-10", "A protocol error closes every connection of the peer", siblings::error),
    // [SET-10]
    intrusive("siblings-end", "SET-10", "The end of one connection closes every connection of the peer", siblings::end),
    // [SET-14] [SET-15]
    intrusive("dial-crossing", "SET-14, SET-15", "A connection that crosses one that the node has just dialled is answered with NONE", crossing::dials),
    // [SET-9]
    intrusive("restart", "SET-9", "A HELLO of another incarnation ends the connections of the one before", siblings::restart),

    // [CONN-5]
    intrusive("request-silent", "CONN-5", "The connection of a silent client is closed in time", rejections::silent),
    // [CONN-5]
    intrusive("hello-short", "CONN-5", "A client that stops inside its HELLO is closed in time", rejections::hello_short),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_of_checks_are_unique() {
        let names: BTreeSet<_> = CHECKS.iter().map(|check| check.id).collect();
        assert_eq!(names.len(), CHECKS.len());
    }
}
