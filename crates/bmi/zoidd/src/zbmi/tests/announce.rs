//! Posts without an answer: results and cancels use the server's id, the only one that the server knows.

use std::time::Duration;

use super::rig::{EXPECTED, Rig, ms, post};
use crate::zbmi::Direction::{ToClient, ToServer};
use crate::zbmi::*;

const NOW: Duration = Duration::ZERO;

/// Tests for any completions. Returns the server's ids and the results.
fn collect(rig: &mut Rig) -> Vec<(BmiId, Result<u64, Errno>)> {
    let call = rig.server_test(Selection::Any(64), NOW);
    match rig.answer(call) {
        Some(Answer::Completions { completions, .. }) => completions
            .into_iter()
            .map(|done| (done.bmi, done.result))
            .collect(),
        other => panic!("{other:?}"),
    }
}

fn named(bmi: u64, post: Post) -> Post {
    Post {
        bmi: BmiId(bmi),
        ..post
    }
}

#[test]
fn r60_a_post_without_an_answer_meets_whoever_waits_and_completes_by_a_test() {
    let mut rig = Rig::new();
    let peer = rig.client();
    rig.send(peer, 5, 10, ms(1000));
    rig.announce(named(1, post(ToServer, peer, 5, 10)));
    assert!(rig.answers.is_empty());
    rig.arrived(rig.grants[0].grant);
    assert_eq!(collect(&mut rig), [(BmiId(1), Ok(10))]);
}

#[test]
fn r57_a_post_without_an_answer_and_one_with_an_answer_keep_their_order() {
    let mut rig = Rig::new();
    let peer = rig.client();
    rig.announce(named(1, post(ToServer, peer, 5, 10)));
    let second = rig.registered(ToServer, peer, 5, 20);
    rig.send(peer, 5, 10, NOW);
    rig.send(peer, 5, 20, NOW);
    assert_eq!(rig.grants[0].total, 10);
    rig.arrived(rig.grants[1].grant);
    assert_eq!(rig.collect(), [(second, Ok(20))]);
}

// [CTL-21]
#[test]
fn r61_a_recall_cancels_by_the_servers_name() {
    let mut rig = Rig::new();
    let peer = rig.client();
    rig.announce(named(1, post(ToClient, peer, 5, 10)));
    rig.announce(named(2, post(ToClient, peer, 5, 20)));
    rig.engine.recall(rig.now, rig.session, BmiId(2));
    rig.engine.recall(rig.now, rig.session, BmiId(9));
    rig.collect_outputs();
    assert_eq!(collect(&mut rig), [(BmiId(2), Err(Errno::Canceled))]);
    rig.recv(peer, 5, 10, NOW);
    assert_eq!(rig.delivers[0].total, 10);
}

#[test]
fn r61_a_recall_amid_the_transfer_is_ignored() {
    let mut rig = Rig::new();
    let peer = rig.client();
    rig.announce(named(1, post(ToServer, peer, 5, 10)));
    rig.send(peer, 5, 10, NOW);
    rig.engine.recall(rig.now, rig.session, BmiId(1));
    rig.arrived(rig.grants[0].grant);
    assert_eq!(collect(&mut rig), [(BmiId(1), Ok(10))]);
}

// [CTL-21]
#[test]
fn r68_what_is_wrong_with_a_post_without_an_answer_is_its_completion() {
    let mut rig = Rig::with(|config| config.limits.posts = 2);
    let peer = rig.client();
    let outside = Segment {
        offset: EXPECTED - 1,
        len: 10,
    };
    let wrong = Post {
        segments: vec![outside],
        ..post(ToServer, peer, 5, 10)
    };
    rig.announce(named(1, wrong));
    assert_eq!(collect(&mut rig), [(BmiId(1), Err(Errno::Invalid))]);
    for bmi in 2..=4 {
        rig.announce(named(bmi, post(ToServer, peer, 5, 10)));
    }
    assert_eq!(collect(&mut rig), [(BmiId(4), Err(Errno::NoMemory))]);
    rig.lose(peer);
    rig.announce(named(5, post(ToServer, peer, 5, 10)));
    let gone = |bmi| (BmiId(bmi), Err(Errno::ConnectionReset));
    assert_eq!(collect(&mut rig), [gone(2), gone(3), gone(5)]);
}

// [BOUND-8]
#[test]
fn refused_posts_without_an_answer_do_not_pile_up_without_a_limit() {
    let mut rig = Rig::with(|config| config.limits.posts = 2);
    let peer = rig.client();
    for bmi in 0..100 {
        rig.announce(named(bmi, post(ToServer, peer, 5, 10)));
    }
    // Two posts are registered, and four completions wait to be collected.
    assert_eq!(collect(&mut rig).len(), 4);
}

// [CTL-13]
#[test]
fn r50_a_post_of_another_session_is_not_taken_in() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let stranger = Session(rig.session.0 + 1);
    let stray = named(1, post(ToServer, peer, 5, 10));
    rig.engine.announce(rig.now, stranger, stray);
    rig.engine
        .reject_announced(stranger, BmiId(1), Errno::Invalid);
    rig.engine.recall(rig.now, stranger, BmiId(1));
    rig.collect_outputs();
    assert_eq!(rig.rejections(Rejection::UnknownSession), 2);
    assert_eq!(collect(&mut rig), []);
}
