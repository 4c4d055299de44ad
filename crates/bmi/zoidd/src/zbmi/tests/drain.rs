//! Draining.

use std::time::Duration;

use super::rig::{Rig, expects, ms};
use crate::zbmi::Direction::{ToClient, ToServer};
use crate::zbmi::*;

const NOW: Duration = Duration::ZERO;

// [DEATH-27]
#[test]
fn draining_answers_what_waits_and_refuses_what_is_new() {
    let mut rig = Rig::with(|config| config.hold = ms(2));
    let peer = rig.client();
    let send = rig.send(peer, 5, 1, ms(9000));
    let recv = rig.recv(peer, 5, 1, ms(9000));
    let test = rig.test(peer, &[expects(ToServer, 6, 1)], ms(9000));
    rig.registered(ToServer, peer, 7, 100);
    rig.send(peer, 7, 100, NOW);
    rig.engine.drain(rig.now);
    rig.collect_outputs();
    assert!(!rig.drained, "a transfer runs");
    assert_eq!(rig.reply(peer, send), Some(Reply::Failed(Errno::TryAgain)));
    assert_eq!(rig.reply(peer, recv), Some(Reply::NotNow));
    assert_eq!(rig.reply(peer, test), Some(Reply::Ready(vec![0])));
    let late = rig.send(peer, 5, 1, ms(9000));
    assert_eq!(rig.reply(peer, late), Some(Reply::Failed(Errno::TryAgain)));
    let late = rig.post_send(peer, 5, 1);
    assert_eq!(rig.answer(late), Some(Answer::Failed(Errno::NetDown)));
    let attach = Attach {
        uuid: [0; 16],
        job: JobId(0),
        previous: None,
    };
    assert_eq!(
        rig.engine.client_attached(rig.now, attach),
        Err(Errno::TryAgain)
    );
}

#[test]
fn draining_ends_with_the_last_transfer_and_answers_the_server() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let plugin = rig.registered(ToServer, peer, 7, 100);
    let request = rig.send(peer, 7, 100, NOW);
    rig.engine.drain(rig.now);
    rig.collect_outputs();
    let asleep = rig.unexp_test(1, ms(60_000));
    rig.arrived(rig.grants[0].grant);
    assert!(rig.drained);
    assert_eq!(rig.reply(peer, request), Some(Reply::Sent));
    assert_eq!(rig.answer(asleep), Some(Answer::Failed(Errno::NetDown)));
    assert_eq!(plugin, PluginId(1));
}

// [DEATH-27]
#[test]
fn draining_does_not_wait_for_ever() {
    let mut rig = Rig::with(|config| config.stall = ms(60_000));
    let peer = rig.client();
    rig.registered(ToClient, peer, 7, 100);
    rig.recv(peer, 7, 100, NOW);
    rig.engine.drain(rig.now);
    rig.pass(ms(9_999));
    assert!(!rig.drained);
    rig.pass(ms(1));
    assert!(rig.drained);
    assert_eq!(rig.stops.len(), 1);
}

#[test]
fn an_idle_engine_is_drained_at_once() {
    let mut rig = Rig::new();
    rig.engine.drain(rig.now);
    rig.collect_outputs();
    assert!(rig.drained);
}
