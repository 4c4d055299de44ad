//! The table of checks over RDMA.

use super::{Probe, messages, requests, transfers};
use crate::probe::{Check, Risk, Run, Stop};

type Function = fn(&mut Probe<'_>) -> Result<(), Stop>;

const fn safe(id: &'static str, rules: &'static str, title: &'static str, run: Function) -> Check {
    Check::new((id, rules, title), Risk::Safe, Run::O2ib(run))
}

const fn intrusive(
    id: &'static str,
    rules: &'static str,
    title: &'static str,
    run: Function,
) -> Check {
    Check::new((id, rules, title), Risk::Intrusive, Run::O2ib(run))
}

/// Every check of a node on an o2ib network, in the order of the protocol. What a node does as a dialler is not checked:
/// a checker that listens would need the place of a node.
#[rustfmt::skip]
pub static O2IB_CHECKS: &[Check] = &[
    // [IB-2]
    safe("connack-ends", "IB-2", "A CONNACK names the NID that was dialled, and the dialler with its incarnation", requests::ends),
    // [IB-11]
    safe("connack-parameters", "IB-11", "Queue depth and fragments of a CONNACK are at most those of the request", requests::parameters),
    // [IB-9]
    safe("connack-incarnation", "IB-9", "Every connection of an NI shows the same incarnation, which is not 0", requests::incarnation),
    // [IB-3]
    safe("connreq-known", "IB-3", "A request with the node's incarnation is accepted", requests::known),
    // [IB-3]
    intrusive("connreq-stale", "IB-3", "A request with another incarnation of the node is rejected with CONN_STALE", requests::stale),
    // [IB-3]
    intrusive("connreq-junk", "IB-3", "A request with a wrong magic number is rejected with FATAL", requests::junk),
    // [IB-3]
    intrusive("connreq-version", "IB-3", "A request of version 0x13 is rejected with FATAL and the node's version", requests::version),
    // [IB-3]
    intrusive("connreq-other-nid", "IB-3", "A request for a NID that the node does not have is rejected with FATAL", requests::other_nid),
    // [IB-3]
    intrusive("connreq-type", "IB-3", "A CONNACK in place of a CONNREQ is rejected with FATAL", requests::kind),
    // [IB-3]
    intrusive("connreq-depth", "IB-3", "A request for a queue depth of 65535 is rejected with MSG_QUEUE_SIZE", requests::depth),
    // [IB-3]
    intrusive("connreq-fragments", "IB-3", "A request for 258 fragments is rejected with RDMA_FRAGS", requests::fragments),
    // [IB-3]
    intrusive("connreq-size", "IB-3", "A request for messages of 4097 bytes is rejected with FATAL", requests::size),
    // [IB-3]
    intrusive("connreq-order", "IB-3", "The destination NID of a request is checked before its queue depth", requests::order),
    // [IB-16]
    intrusive("rejection-fields", "IB-16", "A rejection has version, incarnation and message size of the node", requests::rejection),
    // [IB-16]
    intrusive("rejection-offer", "IB-16", "What a rejection names is accepted", requests::offered),
    // [IB-14]
    intrusive("peer-restart", "IB-14", "Another incarnation of a peer closes its connections, and is rejected once with CONN_STALE", requests::restart),

    // [IB-9]
    safe("message-ends", "IB-9", "A message has the NIDs and incarnations of its connection", messages::ends),
    // [IB-8]
    safe("message-checksum", "IB-8", "A message with a checksum is accepted", messages::checksum),
    // [IB-21]
    safe("noop-free", "IB-21", "NOOPs are accepted and take no credit", messages::noop),
    // [IB-23]
    safe("credits-return", "IB-23", "Each credit comes back once", messages::credits_return),
    // [IB-24]
    intrusive("credits-noop", "IB-24", "Credits come back by a NOOP if the node has nothing to send", messages::credits_by_noop),
    // [IB-19]
    intrusive("credits-limit", "IB-19", "A node without credits waits for them", messages::credits_limit),
    // [IB-20]
    intrusive("credits-overrun", "IB-20", "More credits than were used close the connection", messages::credits_overrun),
    // [IB-7]
    intrusive("message-magic", "IB-7", "A wrong magic number closes the connection", messages::magic),
    // [IB-7]
    intrusive("message-version", "IB-7", "Another version closes the connection", messages::version),
    // [IB-7]
    intrusive("message-undefined", "IB-7", "A message of an undefined type closes the connection", messages::undefined),
    // [IB-7]
    intrusive("message-connreq", "IB-7", "A CONNREQ on a connection closes the connection", messages::connreq),
    // [IB-7]
    intrusive("message-cut", "IB-7", "A length above that of the message closes the connection", messages::cut),
    // [IB-7]
    intrusive("message-short", "IB-7", "A length below that of the type closes the connection", messages::short),
    // [IB-7] [IB-8]
    intrusive("message-bad-checksum", "IB-7, IB-8", "A wrong checksum closes the connection", messages::bad_checksum),
    // [IB-9]
    intrusive("message-source", "IB-9", "Another source NID closes the connection", messages::source),
    // [IB-9]
    intrusive("message-destination", "IB-9", "Another destination NID closes the connection", messages::destination),
    // [IB-9]
    intrusive("message-sender", "IB-9", "Another incarnation of the sender closes the connection", messages::source_incarnation),
    // [IB-9]
    intrusive("message-receiver", "IB-9", "Another incarnation of the receiver closes the connection", messages::destination_incarnation),

    // [IB-29]
    safe("get-done", "IB-29", "The reply to a GET_REQ is written, and GET_DONE has its length", transfers::done),
    // [IB-35]
    safe("get-fragments", "IB-35", "Writes fill the fragments of a descriptor one after the other", transfers::fragments),
    // [IB-29]
    intrusive("get-unmatched", "IB-29", "A GET_REQ that matches nothing is answered with a negative errno", transfers::unmatched),
    // [IB-28]
    intrusive("put-nak", "IB-28", "A PUT_REQ that matches nothing is answered with PUT_NAK", transfers::put_nak),
    // [IB-28]
    intrusive("put-ack", "IB-28", "A push of 4016 bytes gets a PUT_ACK with memory, and an ACK after PUT_DONE", transfers::put_ack),
    // [IB-30]
    intrusive("answer-unknown", "IB-30", "An answer with an unknown cookie closes the connection", transfers::answer_unknown),
    // [IB-6]
    intrusive("descriptor-empty", "IB-6", "A descriptor without fragments closes the connection", transfers::no_fragments),
    // [IB-6]
    intrusive("descriptor-258", "IB-6", "A descriptor of 258 fragments closes the connection", transfers::many_fragments),
];
