//! Rules of `docs/selection` that no case of the catalogue tests.

use lnet_types::ProcessId;
use lnet_wire::{Body, Handle, Header, Put};

use super::bench::Step;
use super::*;

const N1: &str = "10.0.0.1@tcp";
const N2: &str = "10.0.0.2@tcp";
const P1: &str = "10.0.1.1@tcp";

// [HEALTH-19]
#[test]
fn a_failure_at_a_gateway_costs_one_and_at_another_peer_the_sensitivity() {
    let mut bench = Bench::two_by_two();
    bench.route("tcp9", "10.0.2.1@tcp", None, 0);
    let routed = bench.send("10.9.0.1@tcp9");
    bench.failed(&routed, MessageStatus::RemoteError);
    assert_eq!(bench.health("10.0.2.1@tcp"), 999);
    let direct = bench.send(P1);
    let (_, hop) = bench.pair(&direct);
    bench.failed(&direct, MessageStatus::RemoteError);
    assert_eq!(bench.health(&hop), 900);
}

/// Fails a message whose interface has lost its link meanwhile, and returns the health of the interface.
fn health_after_a_failure_without_link(profile: fn(&mut Globals)) -> u16 {
    let mut bench = Bench::two_by_two().with(profile);
    let sent = bench.send(P1);
    bench.core.set_ni_fatal(sent.ni, true, bench.now);
    bench.failed(&sent, MessageStatus::LocalError);
    let (ni, _) = bench.pair(&sent);
    bench.health(&ni)
}

// [HEALTH-33]
#[test]
fn a_failure_without_link_costs_no_health_but_in_kernels_up_to_2_16() {
    assert_eq!(health_after_a_failure_without_link(DESIGN), 1000);
    assert_eq!(health_after_a_failure_without_link(LUSTRE_217), 1000);
    assert_eq!(health_after_a_failure_without_link(LUSTRE), 900);
}

/// Starts a GET to portal 0, completes it, and returns the interface that sent it.
fn ask(bench: &mut Bench, to: &str) -> String {
    let spec = MdSpec {
        options: MdOptions::empty(),
        threshold: Some(2),
        ..open_md(8)
    };
    let get = GetRequest {
        md: bench.core.md_bind(spec).unwrap(),
        source: None,
        target: ProcessId::lustre(nid(to)),
        portal: 0,
        match_bits: 99,
        offset: 0,
    };
    bench.core.get(get, bench.now).unwrap();
    let Step::Sent(sent) = bench.step() else {
        panic!("no path")
    };
    bench.core.sent(sent.tx, MessageStatus::Ok, bench.now);
    bench.pair(&sent).0
}

// [PATH-52]
#[test]
fn messages_of_portal_0_take_turns_and_pin_an_interface_for_others() {
    let mut bench = Bench::new(&[N1, N2]);
    assert_eq!([ask(&mut bench, P1), ask(&mut bench, P1)], [N1, N2]);
    let first = bench.ni(N1).id;
    assert_eq!(bench.peer_ni(nid(P1)).pinned, Some(first));
    assert_eq!(bench.carry(P1).0, N1);
    assert_eq!(ask(&mut bench, P1), N2, "the pinned one is not used");
    assert_eq!(bench.sources(2, P1), [N1; 2]);
}

// [PATH-52]
#[test]
fn messages_of_portal_0_that_pass_a_gateway_use_the_pinned_interface() {
    const FAR: &str = "10.5.0.1@tcp5";
    let mut bench = Bench::new(&[N1, N2]);
    bench.route("tcp5", "10.0.0.9@tcp", None, 0);
    bench.ping_from(N2, FAR);
    assert_eq!([(); 4].map(|()| ask(&mut bench, FAR)), [N2; 4]);
}

/// Delivers a PUT that wants an ACK, fails the ACK, and returns whether the ACK is sent again.
fn ack_is_sent_again(profile: fn(&mut Globals)) -> bool {
    let mut bench = Bench::two_by_two().with(profile);
    let me = bench.core.me_attach(any_me()).unwrap();
    bench.core.md_attach(me, open_md(8), bench.now).unwrap();
    let header = Header {
        dest_nid: nid(N1),
        src_nid: nid(P1),
        dest_pid: 12345,
        src_pid: 12345,
        payload_length: 0,
        body: Body::Put(Put {
            ack_wmd: Handle {
                interface: 7,
                object: 7,
            },
            match_bits: any_me().match_bits,
            hdr_data: 0,
            ptl_index: any_me().portal,
            offset: 0,
        }),
    };
    let ni = bench.ni(N1).id;
    let from = ProcessId::lustre(nid(P1));
    let verdict = bench.core.header(ni, from, &header, bench.now);
    let Verdict::Receive { rx, .. } = verdict else {
        panic!("{verdict:?}")
    };
    bench.core.arrived(rx, Ok(()), bench.now);
    let Step::Sent(ack) = bench.step() else {
        panic!("no ACK")
    };
    bench
        .core
        .sent(ack.tx, MessageStatus::LocalDropped, bench.now);
    matches!(bench.step(), Step::Sent(_))
}

// [RESEND-7]
#[test]
fn an_ack_is_sent_again_in_kernels_only() {
    assert!(!ack_is_sent_again(DESIGN));
    assert!(ack_is_sent_again(LUSTRE));
}

// [RECOV-9]
#[test]
fn a_message_received_shortens_later_pauses_and_not_the_present_one() {
    let mut bench = Bench::two_by_two();
    let half = Health::new(500).unwrap();
    bench
        .core
        .set_peer_ni_health(nid(P1), half, bench.now)
        .unwrap();
    let pinged = |sent: Vec<(u64, String)>| -> Vec<u64> {
        let to_it = sent.into_iter().filter(|(_, to)| to == P1);
        to_it.map(|(second, _)| second).collect()
    };
    let before = bench.wait(4, MessageStatus::RemoteDropped);
    assert_eq!(pinged(before), [1, 3]);
    bench.hear(P1, N1);
    let after = bench.wait(6, MessageStatus::RemoteDropped);
    assert_eq!(pinged(after), [3, 5], "seconds 7 and 9 of all");
}
