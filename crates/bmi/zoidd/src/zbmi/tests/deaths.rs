//! Death and restart of clients and servers.

use std::time::Duration;

use super::rig::{Rig, expects, ms, post};
use crate::zbmi::Direction::{ToClient, ToServer};
use crate::zbmi::*;

const NOW: Duration = Duration::ZERO;

// [DEATH-1]
#[test]
fn a_client_that_dies_idle_fails_the_posts_for_it_and_its_messages_stay() {
    let mut rig = Rig::new();
    let (dying, bystander) = (rig.client(), rig.client());
    let lost = rig.registered(ToServer, dying, 5, 100);
    let kept = rig.registered(ToServer, bystander, 5, 100);
    rig.message(dying, 300);
    rig.lose(dying);
    assert_eq!(rig.collect(), [(lost, Err(Errno::ConnectionReset))]);
    let message = rig.fetch()[0];
    assert_eq!((message.peer, message.size), (dying, 300));
    rig.free(message.offset);
    rig.send(bystander, 5, 1, NOW);
    rig.arrived(rig.grants[0].grant);
    assert_eq!(rig.collect(), [(kept, Ok(1))]);
    assert_eq!(
        rig.engine.gauges(),
        Gauges {
            clients: 1,
            ..Gauges::default()
        }
    );
}

#[test]
fn a_client_that_dies_while_it_waits_is_forgotten() {
    let mut rig = Rig::with(|config| config.unexpected_size = 8192);
    let peer = rig.client();
    rig.message(peer, 8192);
    rig.recv(peer, 5, 1, ms(100));
    rig.send(peer, 5, 1, ms(100));
    rig.unexpected(peer, 1, ms(100));
    rig.test(peer, &[expects(ToServer, 9, 1)], ms(100));
    rig.replies.clear();
    rig.lose(peer);
    rig.pass(ms(200));
    assert!(rig.replies.is_empty());
    assert_eq!(rig.engine.next_deadline(), None);
}

// [DEATH-2]
#[test]
fn a_client_that_dies_between_grant_and_last_byte_fails_the_receive() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let plugin = rig.registered(ToServer, peer, 5, 100);
    rig.send(peer, 5, 100, NOW);
    rig.unexpected(peer, 100, NOW);
    rig.message(peer, 200);
    let grant = rig.grants[0].grant;
    rig.lose(peer);
    assert_eq!(rig.stops.len(), 2);
    assert_eq!(rig.collect(), [(plugin, Err(Errno::ConnectionReset))]);
    let sizes: Vec<u64> = rig.fetch().iter().map(|message| message.size).collect();
    assert_eq!(sizes, [200], "only what was complete");
    rig.arrived(grant);
    assert_eq!(rig.rejections(Rejection::StaleReport), 1);
}

// [DEATH-2]
#[test]
fn a_client_that_dies_before_its_acknowledgement_fails_the_send() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let plugin = rig.registered(ToClient, peer, 5, 100);
    rig.recv(peer, 5, 100, NOW);
    rig.lose(peer);
    assert_eq!(rig.collect(), [(plugin, Err(Errno::ConnectionReset))]);
}

// [ZOID-34]
#[test]
fn a_client_that_dies_under_an_immediate_or_held_post_leaves_it_to_a_test() {
    let mut rig = Rig::with(|config| config.hold = ms(2));
    let peer = rig.client();
    rig.send(peer, 5, 100, ms(100));
    let immediate = rig.post_recv(peer, 5, 100);
    rig.test(peer, &[expects(ToClient, 6, 1)], ms(100));
    let held = rig.post_send(peer, 6, 100);
    rig.lose(peer);
    let failed = Err(Errno::ConnectionReset);
    let expected = [(rig.plugin(immediate), failed), (rig.plugin(held), failed)];
    assert_eq!(rig.collect(), expected);
}

// [DEATH-10]
#[test]
fn after_a_farewell_the_servers_work_vanishes_and_clients_wait_on() {
    let mut rig = Rig::new();
    let peer = rig.client();
    rig.registered(ToServer, peer, 5, 100);
    rig.message(peer, 10);
    rig.message(peer, 20);
    let call = rig.unexp_test(1, NOW);
    let asleep = rig.server_test(Selection::Ids(vec![PluginId(1)]), ms(9000));
    assert!(rig.answer(call).is_some());
    let waiting = rig.recv(peer, 6, 100, ms(1000));
    rig.engine
        .server_lost(rig.now, rig.session, Departure::Orderly);
    rig.collect_outputs();
    assert!(rig.answer(asleep).is_some());
    let gauges = rig.engine.gauges();
    assert_eq!(
        (
            gauges.posts,
            gauges.calls,
            gauges.unexpected,
            gauges.unexpected_ready
        ),
        (0, 0, 1, 1)
    );
    rig.session = rig.engine.server_attached().unwrap();
    assert_eq!(
        rig.fetch()[0].size,
        20,
        "what was not delivered is delivered to the next"
    );
    assert_eq!(rig.collect(), []);
    rig.post_send(peer, 6, 1);
    assert_eq!(rig.delivers[0].request, waiting);
}

// [DEATH-10]
#[test]
fn a_farewell_answers_what_sleeps_and_a_death_does_not() {
    for (how, expected) in [
        (Departure::Orderly, Some(Answer::Failed(Errno::NetDown))),
        (Departure::Broken, None),
    ] {
        let mut rig = Rig::new();
        let call = rig.server_test(Selection::Any(1), ms(9000));
        rig.engine.server_lost(rig.now, rig.session, how);
        rig.collect_outputs();
        rig.pass(ms(10_000));
        assert_eq!(rig.answer(call), expected);
        assert_eq!(rig.engine.next_deadline(), None);
    }
}

// [DEATH-13]
#[test]
fn transfers_of_a_dead_server_are_stopped_and_clients_told() {
    let mut rig = Rig::with(|config| config.bulk_slots = 1);
    let peer = rig.client();
    let large = BULK_MIN + 1;
    for tag in [5, 6] {
        rig.registered(ToServer, peer, tag, large);
    }
    rig.registered(ToClient, peer, 5, 100);
    let requests = [
        rig.send(peer, 5, large, NOW),
        rig.send(peer, 6, large, NOW),
        rig.recv(peer, 5, 100, NOW),
    ];
    let arriving = rig.unexpected(peer, 10, NOW);
    rig.engine
        .server_lost(rig.now, rig.session, Departure::Broken);
    rig.collect_outputs();
    for request in requests {
        assert_eq!(
            rig.reply(peer, request),
            Some(Reply::Failed(Errno::ConnectionReset))
        );
    }
    assert_eq!(rig.stops.len(), 2, "the one without a slot never began");
    assert_eq!(rig.grants.len(), 2);
    rig.arrived(rig.grants[1].grant);
    assert_eq!(
        rig.reply(peer, arriving),
        Some(Reply::Sent),
        "the daemon's own memory goes on"
    );
}

// [DEATH-3]
#[test]
fn a_new_client_never_has_the_pid_of_a_dead_one_whose_address_the_server_holds() {
    let mut rig = Rig::new();
    let dead = rig.client();
    rig.lose(dead);
    let other = rig.client();
    assert_ne!(other.pid, dead.pid);
    rig.engine.drop_peer(rig.session, dead.pid).unwrap();
    rig.engine.drop_peer(rig.session, other.pid).unwrap();
    let next = rig.client();
    assert_eq!(next.pid, dead.pid);
    assert_ne!(next, dead);
    let call = rig.post_with(post(ToClient, dead, 5, 10));
    assert_eq!(
        rig.answer(call),
        Some(Answer::Failed(Errno::ConnectionReset))
    );
}

// [DEATH-3]
#[test]
fn r69_a_dropped_pid_rests_while_a_message_of_its_client_is_to_be_fetched() {
    let mut rig = Rig::new();
    let dead = rig.client();
    rig.message(dead, 10);
    rig.lose(dead);
    rig.engine.drop_peer(rig.session, dead.pid).unwrap();
    assert_ne!(rig.client().pid, dead.pid);
}

#[test]
fn r69_three_hundred_clients_are_three_hundred_peers() {
    let mut rig = Rig::new();
    let peers: std::collections::BTreeSet<Pid> = (0..300).map(|_| rig.client().pid).collect();
    assert_eq!(peers.len(), 300);
}

// [FWD-12]
#[test]
fn a_full_table_of_clients_is_busy() {
    let mut rig = Rig::with(|config| config.limits.clients = 1);
    let peer = rig.client();
    let attach = Attach {
        uuid: [0; 16],
        job: JobId(0),
        previous: None,
    };
    assert_eq!(
        rig.engine.client_attached(rig.now, attach),
        Err(Errno::Busy)
    );
    rig.lose(peer);
    assert!(rig.engine.client_attached(rig.now, attach).is_ok());
}

const UUID: [u8; 16] = [9; 16];

fn attach_as(rig: &mut Rig, epoch: u64, previous: Option<Pid>) -> Attached {
    let previous = previous.map(|pid| PreviousStay { epoch, pid });
    let attach = Attach {
        uuid: UUID,
        job: JobId(0),
        previous,
    };
    let attached = rig.engine.client_attached(rig.now, attach).unwrap();
    rig.collect_outputs();
    attached
}

// [DEATH-4]
#[test]
fn a_client_that_comes_back_in_time_keeps_its_pid_and_the_posts_for_it() {
    let mut rig = Rig::with(|config| config.reattach = ms(1000));
    let peer = attach_as(&mut rig, 1, None).peer;
    let kept = rig.registered(ToServer, peer, 5, 100);
    let claimed = rig.registered(ToServer, peer, 6, 100);
    rig.send(peer, 6, 100, NOW);
    rig.lose(peer);
    assert_eq!(rig.collect(), [(claimed, Err(Errno::ConnectionReset))]);
    let early = rig.registered(ToServer, peer, 5, 100);
    let request = rig.send(peer, 5, 1, NOW);
    assert_eq!(rig.reply(peer, request), None, "nobody is there");
    rig.pass(ms(999));
    let back = attach_as(&mut rig, 1, Some(peer.pid));
    assert_eq!(
        back,
        Attached {
            peer,
            credits: 0,
            reattached: true
        }
    );
    rig.pass(ms(5000));
    for (plugin, size) in [(kept, 1), (early, 2)] {
        rig.send(peer, 5, size, NOW);
        let grant = rig.grants.pop().unwrap();
        rig.arrived(grant.grant);
        assert_eq!(rig.collect(), [(plugin, Ok(size))]);
    }
}

// [DEATH-4]
#[test]
fn a_client_that_comes_back_late_or_from_another_epoch_is_a_new_one() {
    let mut rig = Rig::with(|config| config.reattach = ms(1000));
    let peer = attach_as(&mut rig, 1, None).peer;
    let post = rig.registered(ToServer, peer, 5, 100);
    rig.lose(peer);
    assert!(!attach_as(&mut rig, 2, Some(peer.pid)).reattached);
    rig.pass(ms(1000));
    assert_eq!(rig.collect(), [(post, Err(Errno::ConnectionReset))]);
    let late = attach_as(&mut rig, 1, Some(peer.pid));
    assert!(!late.reattached);
    assert_ne!(late.peer, peer);
}

#[test]
fn a_client_may_come_back_before_its_old_link_is_known_to_be_dead() {
    let mut rig = Rig::with(|config| config.reattach = ms(1000));
    let peer = attach_as(&mut rig, 1, None).peer;
    let waiting = rig.recv(peer, 5, 100, ms(100));
    assert!(attach_as(&mut rig, 1, Some(peer.pid)).reattached);
    rig.pass(ms(5000));
    assert_eq!(rig.reply(peer, waiting), None);
    assert_eq!(rig.engine.gauges().clients, 1);
}

// [FWD-15]
#[test]
fn a_farewell_is_for_good() {
    let mut rig = Rig::with(|config| config.reattach = ms(1000));
    let peer = attach_as(&mut rig, 1, None).peer;
    rig.engine.client_lost(rig.now, peer, Departure::Orderly);
    assert!(!attach_as(&mut rig, 1, Some(peer.pid)).reattached);
}

// [DEATH-5]
#[test]
fn a_send_repeated_after_a_broken_link_is_answered_and_not_sent_twice() {
    let mut rig = Rig::with(|config| config.reattach = ms(1000));
    let peer = attach_as(&mut rig, 1, None).peer;
    let kind = SendKind::Expected;
    let send = SendRequest {
        kind,
        tag: Tag(5),
        total: 10,
        timeout: NOW,
        order: 42,
    };
    let first = rig.registered(ToServer, peer, 5, 100);
    rig.registered(ToServer, peer, 5, 100);
    rig.request(peer, send);
    rig.arrived(rig.grants[0].grant);
    rig.lose(peer);
    attach_as(&mut rig, 1, Some(peer.pid));
    let again = rig.request(peer, send);
    assert_eq!(rig.reply(peer, again), Some(Reply::Sent));
    assert_eq!(rig.collect(), [(first, Ok(10))]);
    assert_eq!(rig.engine.counters().repeated_sends, 1);
    let next = rig.request(peer, SendRequest { order: 43, ..send });
    assert_eq!(rig.grants[1].request, next);
}

// [DEATH-5]
#[test]
fn a_send_that_was_told_not_now_may_be_tried_again_under_its_number() {
    let mut rig = Rig::new();
    let peer = rig.client();
    let kind = SendKind::Expected;
    let send = SendRequest {
        kind,
        tag: Tag(5),
        total: 10,
        timeout: NOW,
        order: 42,
    };
    for _ in 0..3 {
        rig.request(peer, send);
    }
    let plugin = rig.registered(ToServer, peer, 5, 100);
    rig.request(peer, send);
    rig.arrived(rig.grants[0].grant);
    assert_eq!(rig.collect(), [(plugin, Ok(10))]);
}
