//! The checklist of the design documents of LNet Health: each work item and each patch by name. Cases of the
//! catalogue refine most of them; the tests here follow the sentence of the design itself.

use std::time::Duration;

use super::bench::Step;
use super::*;

const N1: &str = "10.0.0.1@tcp";
const N2: &str = "10.0.0.2@tcp";
const P1: &str = "10.0.1.1@tcp";
const P2: &str = "10.0.1.2@tcp";

#[test]
fn w1_health_is_demerited_by_failures_and_restored_by_successes() {
    let mut bench = Bench::two_by_two();
    let transmit = bench.send(P1);
    bench.failed(&transmit, MessageStatus::NetworkTimeout);
    assert_eq!((bench.health(N1), bench.health(P1)), (900, 900));
    bench.hear(P1, N1);
    assert_eq!((bench.health(N1), bench.health(P1)), (1000, 1000));
}

#[test]
fn w2_selection_looks_at_health_and_a_resend_never_revisits_an_interface() {
    let mut bench = Bench::two_by_two().with(LITERAL);
    // A decrement of one leaves n1 and p1 the best ones.
    bench.set_health(N2, 1000);
    bench.set(|globals| globals.health_sensitivity = 1);
    let first = bench.send(P1);
    let second = bench.retried(&first, MessageStatus::LocalDropped);
    let (before, after) = (bench.pair(&first), bench.pair(&second));
    assert!(before.0 != after.0 && before.1 != after.1);
}

#[test]
fn w5_the_transaction_timeout_cancels_a_resend() {
    let mut net = Net::new();
    net.add(&[N1, N2]);
    let now = net.now;
    let peer = [nid(P1), nid(P2)];
    net.core(0).add_peer(peer[0], &peer, true).unwrap();
    net.keep_answers = true;
    net.get(0, 4, P1);
    net.run();
    let transmit = net.nodes[0].kept.pop_front().unwrap();
    // The resend gets no credit until the transaction times out.
    let other = net.core(0).fabric_mut().peers.by_nid_mut(peer[1]).unwrap();
    other.credits.set_held(8);
    net.core(0)
        .sent(transmit.tx, MessageStatus::LocalDropped, now);
    net.advance(Duration::from_secs(149));
    assert_eq!(net.core(0).counters().resend_count, 1);
    assert_eq!(net.take_events(0), []);
    net.advance(Duration::from_secs(1));
    let ends: Vec<_> = net
        .take_events(0)
        .iter()
        .map(|e| (e.kind, e.status, e.unlinked))
        .collect();
    let timeout = (EventKind::Timeout, Err(Errno::ETIMEDOUT), false);
    let cancelled = (EventKind::Send, Err(Errno::ECANCELED), true);
    assert_eq!(ends, [timeout, cancelled]);
    let other = net.core(0).fabric_mut().peers.by_nid_mut(peer[1]).unwrap();
    other.credits.set_held(0);
    net.advance(Duration::from_secs(1));
    assert!(
        net.nodes[0]
            .kept
            .iter()
            .all(|transmit| transmit.to.nid != peer[1])
    );
}

#[test]
fn w5_one_deadline_holds_for_all_attempts() {
    let mut bench = Bench::two_by_two();
    let first = bench.send(P1);
    bench.now = bench.now + Duration::from_secs(100);
    let second = bench.retried(&first, MessageStatus::LocalDropped);
    assert_eq!(second.deadline, first.deadline);
    let mut lustre = Bench::two_by_two().with(LUSTRE);
    let first = lustre.send(P1);
    lustre.now = lustre.now + Duration::from_secs(100);
    let second = lustre.retried(&first, MessageStatus::LocalDropped);
    assert!(second.deadline > first.deadline, "kernels give a fresh one");
}

/// Returns the events of a PUT whose ACK never arrives.
fn without_ack() -> Vec<Event> {
    let mut net = Net::pair();
    net.put(0, b"x", true, "10.0.0.2@tcp");
    net.advance(Duration::from_secs(150));
    net.take_events(0)
}

#[test]
fn w6_the_upper_layer_gets_its_memory_back_after_a_timeout() {
    let events = without_ack();
    assert!(events.last().is_some_and(|event| event.unlinked));
}

#[test]
fn p1_a_local_interface_has_health() {
    let bench = Bench::two_by_two();
    assert!(
        bench
            .core
            .nis()
            .skip(1)
            .all(|ni| ni.health.health == Health::MAX)
    );
}

#[test]
fn p2_selection_uses_the_health_of_local_interfaces() {
    let mut bench = Bench::two_by_two();
    bench.set_health(N1, 999);
    assert_eq!(bench.sources(2, P1), [N2; 2]);
}

#[test]
fn p3_a_resend_fails_without_a_local_interface_in_optimal_health() {
    let mut bench = Bench::two_by_two();
    bench.set_health(N2, 999);
    let transmit = bench.send(P1);
    assert_eq!(bench.pair(&transmit).0, N1);
    bench.failed(&transmit, MessageStatus::LocalDropped);
}

#[test]
fn p4_a_port_that_goes_down_is_used_last_until_it_is_up() {
    let mut bench = Bench::two_by_two();
    let ni = bench.ni(N1).id;
    bench.core.set_ni_fatal(ni, true, bench.now);
    assert_eq!(bench.sources(2, P1), [N2; 2]);
    bench.core.set_ni_fatal(ni, false, bench.now);
    assert!(bench.sources(2, P1).iter().any(|source| source == N1));
}

#[test]
fn p5_a_local_failure_costs_health_and_the_message_is_sent_again() {
    let mut bench = Bench::two_by_two();
    let first = bench.send(P1);
    let second = bench.retried(&first, MessageStatus::LocalInterrupt);
    assert_eq!(bench.health(N1), 900);
    assert_eq!(bench.pair(&second).0, N2);
    assert_eq!(
        bench.answer(&second, MessageStatus::Ok),
        Step::Ended(Ok(()))
    );
}

#[test]
fn p6_a_peer_interface_has_health() {
    let bench = Bench::two_by_two();
    let mut nis = bench.core.peers().flat_map(|peer| peer.nis);
    assert!(nis.all(|peer_ni| peer_ni.health.health == Health::MAX));
}

#[test]
fn p7_a_resend_fails_without_a_peer_interface_in_optimal_health() {
    let mut bench = Bench::two_by_two();
    bench.set_health(P2, 999);
    let transmit = bench.send(P1);
    assert_eq!(bench.pair(&transmit).1, P1);
    bench.failed(&transmit, MessageStatus::RemoteDropped);
}

#[test]
fn p8_a_remote_failure_costs_health_and_what_was_not_received_is_sent_again() {
    let mut bench = Bench::two_by_two();
    let first = bench.send(P1);
    let second = bench.retried(&first, MessageStatus::RemoteDropped);
    assert_eq!(bench.health(P1), 900);
    assert_eq!(bench.pair(&second).1, P2);
}

#[test]
fn p9_selection_uses_the_health_of_peer_interfaces() {
    let mut bench = Bench::two_by_two();
    bench.set_health(P1, 999);
    assert_eq!(bench.hops(2, P1), [P2; 2]);
}

#[test]
fn p10_a_message_stuck_in_a_queue_of_the_lnd_is_sent_again() {
    let mut bench = Bench::two_by_two();
    let first = bench.send(P1);
    bench.retried(&first, MessageStatus::LocalTimeout);
}

#[test]
fn p11_a_rejection_is_sent_again_unless_the_peer_may_have_acted() {
    let mut bench = Bench::two_by_two();
    let first = bench.send(P1);
    let second = bench.retried(&first, MessageStatus::RemoteDropped);
    bench.failed(&second, MessageStatus::RemoteError);
}

#[test]
fn p12_a_message_without_completion_is_not_sent_again() {
    for status in [MessageStatus::RemoteTimeout, MessageStatus::NetworkTimeout] {
        let mut bench = Bench::two_by_two();
        let transmit = bench.send(P1);
        assert_eq!(bench.failed(&transmit, status), Errno::ETIMEDOUT);
    }
}

#[test]
fn p13_a_response_that_does_not_come_is_an_event_of_its_own() {
    let kinds: Vec<EventKind> = without_ack().iter().map(|event| event.kind).collect();
    assert_eq!(
        kinds,
        [EventKind::Send, EventKind::Timeout, EventKind::Unlink]
    );
}

#[test]
fn p14_the_timeout_says_so_and_what_it_waited_for() {
    let events = without_ack();
    let timeout = &events[1];
    assert_eq!(timeout.status, Err(Errno::ETIMEDOUT));
    assert_eq!(timeout.message_type, Some(lnet_wire::MessageType::Put));
    assert_eq!(timeout.sender, nid("10.0.0.2@tcp"), "the next hop");
}
