//! Answers and pushes of a peer that pass each other on their way.

use std::time::Duration;

use lnet_wire::MessageType;

use super::discovery::{B, rails, state_of};
use super::net::{Net, nid};
use crate::*;

#[test]
fn an_answer_that_a_push_has_overtaken_is_not_believed() {
    let mut net = rails();
    net.put(0, b"hello", true, B[0]);
    net.advance(Duration::from_secs(1));
    let theirs = net.nodes[1].nis[1].0;
    let now = net.now;
    net.core(1).set_ni_fatal(theirs, true, now);
    net.advance(Duration::from_secs(1));
    let is_up = |net: &mut Net| net.core(0).peer_with(nid(B[0])).unwrap().nis[1].advertised_up;
    assert!(!is_up(&mut net));
    net.keep_answers = true;
    let now = net.now;
    net.core(0).discover(nid(B[0]), now).unwrap();
    net.run();
    let asked = net.answer(0, MessageStatus::Ok).unwrap();
    assert_eq!(asked.body.message_type(), MessageType::Get);
    net.keep_answers = false;
    net.core(1).set_ni_fatal(theirs, false, now);
    net.advance(Duration::from_secs(1));
    assert!(is_up(&mut net), "the push has come");
    let answer = net.answer(1, MessageStatus::Ok).unwrap();
    assert_eq!(answer.body.message_type(), MessageType::Reply);
    assert!(is_up(&mut net), "the answer is older than the push");
    net.advance(Duration::from_secs(400));
    assert_eq!(state_of(&mut net, 0, B[0]).bits(), 273);
    net.assert_at_rest();
}
