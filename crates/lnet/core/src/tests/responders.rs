//! Tests of the senders whose responses are accepted: only the node that was asked, by any path.

use lnet_types::ProcessId;
use lnet_wire::{Body, Handle, Header, Reply};

use super::net::{any_me, open_md};
use super::{Net, nid};
use crate::*;

/// A REPLY of four bytes to this operation of node 0.
struct Answer<'a> {
    md: MdHandle,
    /// The source in the header.
    source: &'a str,
    /// The process whose connection carries the message, and the index of the node's interface.
    via: &'a str,
    ni: usize,
}

fn offer(net: &mut Net, answer: &Answer<'_>) -> Verdict {
    let dst_wmd = net.core(0).traffic().wire_handles.of(answer.md);
    let (ni, own) = net.nodes[0].nis[answer.ni];
    let header = Header {
        dest_nid: own,
        src_nid: nid(answer.source),
        dest_pid: 12345,
        src_pid: 12345,
        payload_length: 4,
        body: Body::Reply(Reply { dst_wmd }),
    };
    let now = net.now;
    net.core(0)
        .header(ni, ProcessId::lustre(nid(answer.via)), &header, now)
}

fn is_taken(verdict: Verdict) -> bool {
    match verdict {
        Verdict::Receive { .. } => true,
        Verdict::Drop(DropReason::WrongResponder | DropReason::BadSource) => false,
        other => panic!("{other:?}"),
    }
}

/// Starts a GET of node 0 that stays unanswered.
fn unanswered_get(net: &mut Net, to: &str) -> MdHandle {
    net.keep_answers = true;
    let md = net.get(0, 4, to);
    net.run();
    md
}

// [DATA-10]
#[test]
fn a_third_party_cannot_answer_a_get() {
    let mut net = Net::pair();
    let md = unanswered_get(&mut net, "10.0.0.2@tcp");
    let forgeries = [
        ("10.0.0.3@tcp", "10.0.0.3@tcp"),
        ("10.0.0.2@tcp", "10.0.0.3@tcp"),
        ("10.0.0.3@tcp", "10.0.0.2@tcp"),
        ("10.1.0.3@tcp1", "10.0.0.3@tcp"),
        ("10.1.0.3@tcp1", "10.0.0.2@tcp"),
    ];
    for (source, via) in forgeries {
        let answer = Answer {
            md,
            source,
            via,
            ni: 0,
        };
        assert!(!is_taken(offer(&mut net, &answer)), "{source} via {via}");
    }
    let counters = net.core(0).counters();
    let dropped =
        [DropReason::WrongResponder, DropReason::BadSource].map(|reason| counters.dropped(reason));
    assert_eq!(
        dropped,
        [3, 2],
        "two name a source that is not at the connection"
    );

    let answer = Answer {
        md,
        source: "10.0.0.2@tcp",
        via: "10.0.0.2@tcp",
        ni: 0,
    };
    assert!(
        is_taken(offer(&mut net, &answer)),
        "the operation still waits"
    );
}

// [TYPE-8] [DATA-8]
#[test]
fn a_guessed_handle_finds_nothing() {
    let mut net = Net::pair();
    unanswered_get(&mut net, "10.0.0.2@tcp");
    let (ni, dest_nid) = net.nodes[0].nis[0];
    let handle = net.core(0).traffic().wire_handles.of(MdHandle(1));
    for object in (0..1000).chain([handle.object + 1, handle.object - 1]) {
        let header = Header {
            dest_nid,
            src_nid: nid("10.0.0.2@tcp"),
            dest_pid: 12345,
            src_pid: 12345,
            payload_length: 4,
            body: Body::Reply(Reply {
                dst_wmd: Handle { object, ..handle },
            }),
        };
        let (now, from) = (net.now, ProcessId::lustre(nid("10.0.0.2@tcp")));
        let verdict = net.core(0).header(ni, from, &header, now);
        assert_eq!(verdict, Verdict::Drop(DropReason::UnknownHandle));
    }
}

/// Creates a node with two gateways to tcp1, and a third router that is not a gateway of it.
fn behind_routers() -> Net {
    let mut net = Net::new();
    net.add(&["10.0.0.1@tcp"]);
    for gateway in ["10.0.0.8@tcp", "10.0.0.9@tcp"] {
        net.route(0, "tcp1", gateway);
    }
    net
}

// [DATA-7]
#[test]
fn an_answer_may_come_through_another_router_than_the_request() {
    for via in ["10.0.0.8@tcp", "10.0.0.9@tcp", "10.0.0.7@tcp"] {
        let mut net = behind_routers();
        let md = unanswered_get(&mut net, "10.1.0.2@tcp1");
        let answer = Answer {
            md,
            source: "10.1.0.2@tcp1",
            via,
            ni: 0,
        };
        assert!(is_taken(offer(&mut net, &answer)), "{via}");
    }
}

#[test]
fn a_router_that_diverts_the_request_brings_the_answer_of_an_interface_that_we_do_not_know() {
    for (via, taken) in [("10.0.0.8@tcp", true), ("10.0.0.7@tcp", false)] {
        let mut net = behind_routers();
        let md = unanswered_get(&mut net, "10.1.0.2@tcp1");
        let answer = Answer {
            md,
            source: "10.2.0.2@tcp2",
            via,
            ni: 0,
        };
        assert_eq!(is_taken(offer(&mut net, &answer)), taken, "{via}");
    }
}

#[test]
fn whoever_is_behind_a_router_cannot_answer_what_was_asked_of_a_neighbour() {
    let mut net = behind_routers();
    net.add(&["10.0.0.2@tcp"]);
    let md = unanswered_get(&mut net, "10.0.0.2@tcp");
    let answer = Answer {
        md,
        source: "10.1.0.3@tcp1",
        via: "10.0.0.8@tcp",
        ni: 0,
    };
    assert!(!is_taken(offer(&mut net, &answer)));
}

// [DATA-7]
#[test]
fn every_interface_of_a_multi_rail_peer_may_answer() {
    let mut net = Net::new();
    net.add(&["10.0.0.1@tcp", "10.1.0.1@tcp1"]);
    let (primary, other) = ("10.0.0.2@tcp", "10.1.0.2@tcp1");
    let nids = [nid(primary), nid(other)];
    net.core(0).add_peer(nids[0], &nids, true).unwrap();
    for (ni, nid) in [(0, primary), (1, other)] {
        let md = unanswered_get(&mut net, primary);
        let answer = Answer {
            md,
            source: nid,
            via: nid,
            ni,
        };
        assert!(is_taken(offer(&mut net, &answer)), "{nid}");
    }
    // A peer that is removed while a response is awaited may still respond from the NID that was asked.
    let md = unanswered_get(&mut net, primary);
    let asked = net.trace.last().unwrap().1.dest_nid;
    net.core(0).remove_peer(nids[0]).unwrap();
    let ni = usize::from(asked == nids[1]);
    let asked = asked.to_string();
    let answer = Answer {
        md,
        source: &asked,
        via: &asked,
        ni,
    };
    assert!(is_taken(offer(&mut net, &answer)));
}

#[test]
fn one_descriptor_that_asks_two_nodes_takes_one_answer_of_each() {
    let mut net = Net::pair();
    net.add(&["10.0.0.3@tcp"]);
    net.attach(1, any_me(), open_md(16));
    net.keep_answers = true;
    let md = MdSpec {
        options: MdOptions::empty(),
        ..open_md(4)
    };
    let md = net.core(0).md_bind(md).unwrap();
    for target in ["10.0.0.2@tcp", "10.0.0.3@tcp"] {
        let get = GetRequest {
            md,
            source: None,
            target: ProcessId::lustre(nid(target)),
            portal: 30,
            match_bits: 7,
            offset: 0,
        };
        let now = net.now;
        net.core(0).get(get, now).unwrap();
    }
    let mut take = |nid| {
        let answer = Answer {
            md,
            source: nid,
            via: nid,
            ni: 0,
        };
        is_taken(offer(&mut net, &answer))
    };
    assert!(take("10.0.0.3@tcp"));
    assert!(!take("10.0.0.3@tcp"));
    assert!(take("10.0.0.2@tcp"));
}
