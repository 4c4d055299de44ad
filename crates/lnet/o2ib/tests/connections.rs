//! How connections come to be, and do not: requests, rejections, races, restarts.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy knows only functions with #[test] as tests, not their helpers"
)]

mod common;

use std::time::Duration;

use lnet_o2ib::fabric::{Event, NI, World, address, nid};
use lnet_o2ib::{
    AddNiError, CloseReason, ConnectFailure, Device, DeviceEvent, Failure, LndNi, NiId, NiTuning,
    O2ibConfig, OtherVersion, PortState,
};
use lnet_wire::o2ib::{Body, Envelope, Message, Parameters, Rejection, RejectionReason};

use crate::common::{NODE, PARAMETERS, STRANGE, Stranger, bytes, envelope, strange};

fn one() -> (World, Stranger) {
    strange(O2ibConfig::default(), NiTuning::default())
}

fn tuned(peer_credits: u8) -> NiTuning {
    NiTuning {
        peer_credits,
        ..NiTuning::default()
    }
}

// [IB-1]
#[test]
fn an_interface_needs_an_o2ib_nid_with_an_ipv4_address_of_a_device() {
    let (mut world, _stranger) = one();
    let mut add = |ni: u32, nid: &str| {
        let ni = LndNi {
            ni: NiId(ni),
            nid: nid.parse().unwrap(),
            tuning: NiTuning::default(),
            incarnation: 1,
        };
        world.nodes[0].lnd.add_ni(ni)
    };
    assert!(matches!(
        add(2, "10.7.0.1@tcp"),
        Err(AddNiError::NotO2ib(_))
    ));
    assert!(matches!(
        add(2, "2001:db8::1@o2ib"),
        Err(AddNiError::NotIpv4(_))
    ));
    assert!(matches!(
        add(2, "10.7.0.1@o2ib"),
        Err(AddNiError::Duplicate(_))
    ));
    assert!(matches!(
        add(2, "10.7.0.9@o2ib"),
        Err(AddNiError::Listen(..))
    ));
    assert_eq!(
        add(2, "10.7.0.1@o2ib1"),
        Ok(()),
        "a second net on the same device"
    );
}

// [IB-2] [IB-11] [IB-18]
#[test]
fn a_request_has_the_parameters_of_the_net_and_nothing_unknown() {
    let (mut world, mut stranger) = one();
    world.put(0, 1, 10);
    let (_, data) = stranger.requested(&mut world);
    let message = Message::decode(&data).unwrap();
    assert_eq!(message.body, Body::Connreq(PARAMETERS));
    let expected = Envelope {
        credits: 0,
        source: nid(0),
        source_incarnation: NODE,
        destination: nid(1),
        destination_incarnation: 0,
    };
    assert_eq!(message.envelope, expected);
}

// [IB-3] [IB-16]
#[test]
fn each_wrong_request_is_rejected_with_its_reason_and_what_would_be_accepted() {
    use RejectionReason::{ConnStale, Fatal, MsgQueueSize, RdmaFrags};
    let (mut world, mut stranger) = one();
    let asked = |envelope, parameters| bytes(envelope, Body::Connreq(parameters));
    let fitting = envelope();
    let with = |change: &dyn Fn(&mut Parameters)| {
        let mut parameters = PARAMETERS;
        change(&mut parameters);
        asked(fitting, parameters)
    };
    let other_nid = Envelope {
        destination: "10.7.0.1@o2ib7".parse().unwrap(),
        ..fitting
    };
    let older = Envelope {
        destination_incarnation: NODE - 1,
        ..fitting
    };
    let ourselves = Envelope {
        source: nid(0),
        ..fitting
    };
    let as_ourselves = Envelope {
        source: nid(0),
        source_incarnation: NODE,
        ..fitting
    };
    let other_net = Envelope {
        source: "10.7.0.2@o2ib7".parse().unwrap(),
        ..fitting
    };
    let mut old_version = asked(fitting, PARAMETERS);
    old_version[4] = 0x11;
    let cases = [
        (Vec::new(), Fatal),
        (vec![0; 56], Fatal),
        (old_version, Fatal),
        (asked(other_nid, PARAMETERS), Fatal),
        (asked(ourselves, PARAMETERS), Fatal),
        (asked(as_ourselves, PARAMETERS), Fatal),
        (asked(other_net, PARAMETERS), Fatal),
        (asked(older, PARAMETERS), ConnStale),
        (bytes(fitting, Body::Connack(PARAMETERS)), Fatal),
        (bytes(fitting, Body::Noop), Fatal),
        (with(&|parameters| parameters.queue_depth = 9), MsgQueueSize),
        (with(&|parameters| parameters.queue_depth = 0), Fatal),
        (with(&|parameters| parameters.fragments = 258), RdmaFrags),
        (with(&|parameters| parameters.fragments = 0), Fatal),
        (with(&|parameters| parameters.message_size = 4097), Fatal),
    ];
    for (data, reason) in cases {
        let rejection = stranger.rejected(&mut world, &data);
        assert_eq!(rejection.reason, reason, "{data:x?}");
        assert_eq!((rejection.version, rejection.incarnation), (0x12, NODE));
        assert_eq!(rejection.parameters, PARAMETERS);
    }
    assert_eq!(world.nodes[0].lnd.connections().count(), 0);
}

// [IB-3] [IB-16]
#[test]
fn requests_of_other_versions_are_counted_apart_and_each_peer_is_told_once() {
    let (mut world, mut stranger) = one();
    for version in [0x11, 0x13, 0x11] {
        let mut request = bytes(envelope(), Body::Connreq(PARAMETERS));
        request[4] = version;
        let rejection = stranger.rejected(&mut world, &request);
        assert_eq!(
            (rejection.reason, rejection.version),
            (RejectionReason::Fatal, 0x12)
        );
    }
    let mut short = bytes(envelope(), Body::Connreq(PARAMETERS));
    short[4] = 0x11;
    stranger.rejected(&mut world, &short[..6]);
    let lnd = &mut world.nodes[0].lnd;
    let rejected = &lnd.stats().rejected;
    assert_eq!(rejected.of(RejectionReason::ConnUncompat), 4);
    assert_eq!(rejected.of(RejectionReason::Fatal), 0);
    let told = |peer| OtherVersion {
        peer,
        version: 0x11,
    };
    assert_eq!(lnd.next_other_version(), Some(told(Some(nid(1)))));
    assert_eq!(lnd.next_other_version(), Some(told(None)));
    assert_eq!(lnd.next_other_version(), None);
}

// [IB-12] [IB-17]
#[test]
fn a_peer_that_answers_in_another_version_is_told_once() {
    let (mut world, mut stranger) = one();
    world.put(0, 1, 10);
    let (request, _) = stranger.requested(&mut world);
    let mut rejection = Rejection::new(RejectionReason::Fatal, STRANGE, PARAMETERS);
    rejection.version = 0x11;
    stranger.device.reject(request, &rejection.to_bytes());
    world.settle();
    world.put(0, 1, 10);
    let (request, _) = stranger.requested(&mut world);
    let mut reply = bytes(envelope(), Body::Connack(PARAMETERS));
    reply[4] = 0x11;
    let shape = lnet_o2ib::Shape {
        receives: 64,
        messages: 64,
        sends: 64,
    };
    stranger
        .device
        .accept(request, lnet_o2ib::ConnId(9), shape, &reply)
        .unwrap();
    world.settle();
    let lnd = &mut world.nodes[0].lnd;
    assert_eq!(lnd.stats().rejections.of(RejectionReason::ConnUncompat), 1);
    assert_eq!(lnd.stats().closed.of(CloseReason::BadReply), 1);
    let told = OtherVersion {
        peer: Some(nid(1)),
        version: 0x11,
    };
    assert_eq!(lnd.next_other_version(), Some(told));
    assert_eq!(lnd.next_other_version(), None);
}

// [IB-3] [IB-16]
#[test]
fn a_request_to_an_address_without_an_interface_is_too_early() {
    let (mut world, mut stranger) = one();
    let mut device = world.fabric.device(0, address(8));
    device.listen(address(8)).unwrap();
    stranger
        .device
        .resolve(lnet_o2ib::ConnId(1), address(1), address(8))
        .unwrap();
    world.settle();
    let shape = lnet_o2ib::Shape {
        receives: 1,
        messages: 1,
        sends: 1,
    };
    world.foreign.clear();
    stranger
        .device
        .connect(
            lnet_o2ib::ConnId(1),
            shape,
            &bytes(envelope(), Body::Connreq(PARAMETERS)),
        )
        .unwrap();
    world.settle();
    let Some(Event::Failed(_, _, data)) = world.foreign.first() else {
        panic!("{:?}", world.foreign);
    };
    let rejection = Rejection::decode(data).unwrap();
    assert_eq!(rejection.reason, RejectionReason::Early);
}

#[test]
fn a_flood_of_requests_takes_a_limited_number_of_connections() {
    let mut config = O2ibConfig::default();
    config.limits.connections_max = 10;
    config.limits.connections_per_peer_max = 4;
    let (mut world, mut stranger) = strange(config, NiTuning::default());
    let mut accepted = 0;
    for peer in 0..50u8 {
        for _ in 0..6 {
            let envelope = Envelope {
                source: format!("10.9.0.{peer}@o2ib").parse().unwrap(),
                ..envelope()
            };
            let request = bytes(envelope, Body::Connreq(PARAMETERS));
            match stranger.dial(&mut world, &request) {
                Event::Established(..) => accepted += 1,
                Event::Failed(_, _, data) => {
                    let reason = Rejection::decode(&data).unwrap().reason;
                    assert_eq!(reason, RejectionReason::NoResources);
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(accepted, 10);
    let stats = world.nodes[0].lnd.stats();
    assert_eq!(stats.rejected.of(RejectionReason::NoResources), 290);
}

// [IB-10]
#[test]
fn of_two_nodes_that_dial_each_other_the_higher_nid_wins() {
    for seed in 0..200 {
        let mut world = World::new(seed, O2ibConfig::default(), &[NiTuning::default(); 2]);
        let there = world.put(0, 1, 5000);
        let back = world.put(1, 0, 5000);
        world.settle();
        world.pass(Duration::from_secs(3));
        for (node, tx) in [(0, there), (1, back)] {
            assert_eq!(
                world.nodes[node].program.sent.get(&tx),
                Some(&Ok(())),
                "seed {seed}"
            );
        }
        let races = |node: usize| {
            let stats = world.nodes[node].lnd.stats();
            stats.rejected.of(RejectionReason::ConnRace)
        };
        assert_eq!(races(0), 0, "the lower one rejects nothing");
        assert_eq!(world.end(), [] as [String; 0], "seed {seed}");
    }
}

// [IB-10]
#[test]
fn after_twenty_races_in_a_row_the_lower_nid_is_let_through() {
    let mut world = World::new(1, O2ibConfig::default(), &[NiTuning::default(); 2]);
    let node = world.nodes.swap_remove(0);
    drop(node);
    // Node 1 is now the only one; its peer 10.7.0.1 is the stranger.
    let mut device = world.fabric.device(5, address(0));
    device.listen(address(0)).unwrap();
    let (now, node) = (world.now, &mut world.nodes[0]);
    let header = lnet_wire::Header {
        dest_nid: nid(0),
        src_nid: nid(1),
        dest_pid: 12345,
        src_pid: 12345,
        payload_length: 0,
        body: lnet_wire::Body::Ack(lnet_wire::Ack {
            dst_wmd: lnet_wire::Handle::NONE,
            match_bits: 1,
            mlength: 0,
        }),
    };
    let message = lnet_o2ib::SendRequest {
        tx: lnet_o2ib::TxId(1),
        ni: NI,
        to: lnet_types::ProcessId::lustre(nid(0)),
        header,
        payload: None,
        deadline: now + Duration::from_secs(50),
    };
    node.lnd.send(message, now, &mut node.program);
    let mut reasons = Vec::new();
    let envelope = Envelope {
        source: nid(0),
        source_incarnation: STRANGE,
        destination: nid(1),
        destination_incarnation: 0,
        credits: 0,
    };
    let data = bytes(envelope, Body::Connreq(PARAMETERS));
    for attempt in 0..21 {
        let request = lnet_o2ib::RequestId(5000 + attempt);
        let event = lnet_o2ib::DeviceEvent::Requested {
            request,
            address: address(1),
            source_port: 1000,
            private_data: &data,
        };
        node.lnd.event(event, now, &mut node.program);
        reasons.push(node.lnd.stats().rejected.of(RejectionReason::ConnRace));
    }
    // The fabric does not know the requests, so that the last one is accepted in vain.
    assert_eq!(reasons.last(), Some(&20));
    assert_eq!(
        node.lnd.stats().rejected.of(RejectionReason::NoResources),
        1
    );
}

// [IB-26]
#[test]
fn more_sends_than_the_device_can_hold_are_as_many_as_it_can() {
    // As Omni-Path sites have it; 256 sends of 258 requests each are four times the device's queue.
    let tuning = NiTuning {
        peer_credits: 32,
        peer_credits_hiw: 16,
        concurrent_sends: 256,
        conns_per_peer: 4,
        ..NiTuning::default()
    };
    let mut world = World::new(2, O2ibConfig::default(), &[tuning; 2]);
    let all: Vec<_> = (0..200).map(|_| world.put(0, 1, 5000)).collect();
    world.settle();
    let sent = &world.nodes[0].program.sent;
    assert!(
        all.iter().all(|tx| sent.get(tx) == Some(&Ok(()))),
        "{sent:?}"
    );
    assert_eq!(world.end(), [] as [String; 0]);
}

// [IB-11]
#[test]
fn a_depth_above_that_of_the_acceptor_is_lowered_and_the_dialler_remembers() {
    let mut world = World::new(2, O2ibConfig::default(), &[tuned(32), tuned(8)]);
    let tx = world.put(0, 1, 5000);
    world.settle();
    assert_eq!(world.nodes[0].program.sent.get(&tx), Some(&Ok(())));
    let depths = world.nodes.iter().flat_map(|node| node.lnd.connections());
    assert_eq!(depths.map(|view| view.depth).collect::<Vec<_>>(), [8, 8]);
    let stats = world.nodes[0].lnd.stats();
    assert_eq!(
        (
            stats.rejections.of(RejectionReason::MsgQueueSize),
            stats.retries
        ),
        (1, 1)
    );
    // The other direction needs no second attempt.
    let mut world = World::new(2, O2ibConfig::default(), &[tuned(8), tuned(32)]);
    world.put(0, 1, 10);
    world.settle();
    let depths = world.nodes.iter().flat_map(|node| node.lnd.connections());
    assert_eq!(depths.map(|view| view.depth).collect::<Vec<_>>(), [8, 8]);
    assert_eq!(world.nodes[0].lnd.stats().retries, 0);
}

// [IB-12]
#[test]
fn a_reply_that_does_not_fit_the_request_closes_the_connection_at_once() {
    let fitting = envelope();
    let deeper = Parameters {
        queue_depth: 9,
        ..PARAMETERS
    };
    let longer = Parameters {
        message_size: 4097,
        ..PARAMETERS
    };
    let older = Envelope {
        destination_incarnation: NODE - 1,
        ..fitting
    };
    let other = Envelope {
        source: nid(2),
        ..fitting
    };
    for (envelope, body) in [
        (fitting, Body::Connack(deeper)),
        (fitting, Body::Connack(longer)),
        (fitting, Body::Connreq(PARAMETERS)),
        (older, Body::Connack(PARAMETERS)),
        (other, Body::Connack(PARAMETERS)),
    ] {
        let (mut world, mut stranger) = one();
        let tx = world.put(0, 1, 10);
        stranger.accept(&mut world, envelope, body);
        let node = &world.nodes[0];
        assert_eq!(node.lnd.stats().closed.of(CloseReason::BadReply), 1);
        assert_eq!(
            node.program.sent.get(&tx),
            Some(&Err(Failure::LocalDropped))
        );
    }
    let (mut world, mut stranger) = one();
    let tx = world.put(0, 1, 10);
    stranger.accept(&mut world, fitting, Body::Connack(PARAMETERS));
    assert_eq!(world.nodes[0].program.sent.get(&tx), Some(&Ok(())));
}

// [IB-13]
#[test]
fn a_message_that_arrives_before_the_connection_is_established_waits() {
    // The order of events is drawn, so that some of these worlds have it so.
    for seed in 0..100 {
        let mut world = World::new(seed, O2ibConfig::default(), &[NiTuning::default(); 2]);
        let all = [
            world.put(0, 1, 10),
            world.put(0, 1, 5000),
            world.put(0, 1, 20),
        ];
        world.settle();
        for tx in all {
            assert_eq!(
                world.nodes[0].program.sent.get(&tx),
                Some(&Ok(())),
                "seed {seed}"
            );
        }
    }
}

// [IB-36]
#[test]
fn a_node_reaches_itself() {
    for seed in 0..50 {
        let mut world = World::new(seed, O2ibConfig::default(), &[tuned(8)]);
        let all = [world.put(0, 0, 10), world.put(0, 0, 5000)];
        let get = world.get(0, 0, 5000);
        world.settle();
        for tx in all.into_iter().chain([get]) {
            let result = world.nodes[0].program.sent.get(&tx);
            assert_eq!(result, Some(&Ok(())), "seed {seed}");
        }
        assert_eq!(world.end(), [] as [String; 0]);
    }
}

// [IB-14] [IB-9]
#[test]
fn a_peer_that_restarted_is_rejected_once_and_its_old_connections_close() {
    let (mut world, mut stranger) = one();
    stranger.connect(&mut world);
    let reborn = Envelope {
        source_incarnation: STRANGE + 1,
        ..envelope()
    };
    let request = bytes(reborn, Body::Connreq(PARAMETERS));
    let rejection = stranger.rejected(&mut world, &request);
    assert_eq!(rejection.reason, RejectionReason::ConnStale);
    let stats = world.nodes[0].lnd.stats();
    assert_eq!(stats.closed.of(CloseReason::PeerRestarted), 1);
    let event = stranger.dial(&mut world, &request);
    assert!(matches!(event, Event::Established(..)), "{event:?}");
}

// [IB-15] [IB-17]
#[test]
fn rejections_that_allow_it_are_followed_by_another_attempt_and_ten_by_a_pause() {
    let (mut world, mut stranger) = one();
    let tx = world.put(0, 1, 10);
    let reject = |stranger: &mut Stranger, world: &mut World, reason| {
        let (request, _) = stranger.requested(world);
        let rejection = Rejection::new(reason, STRANGE, PARAMETERS);
        stranger.device.reject(request, &rejection.to_bytes());
        world.settle();
        world.tick_all();
        world.settle();
    };
    for _ in 0..11 {
        reject(&mut stranger, &mut world, RejectionReason::ConnStale);
    }
    assert!(
        world
            .foreign
            .iter()
            .all(|event| !matches!(event, Event::Requested(..)))
    );
    world.pass(Duration::from_secs(1));
    let (request, data) = stranger.requested(&mut world);
    let asked = Message::decode(&data).unwrap().envelope;
    assert_eq!(
        asked.destination_incarnation, STRANGE,
        "it has learned the incarnation"
    );
    let fatal = Rejection::new(RejectionReason::Fatal, STRANGE, PARAMETERS);
    stranger.device.reject(request, &fatal.to_bytes());
    world.settle();
    assert_eq!(
        world.nodes[0].program.sent.get(&tx),
        Some(&Err(Failure::RemoteDropped))
    );
    assert_eq!(world.nodes[0].lnd.stats().retries, 11);
}

// [IB-17]
#[test]
fn an_acceptor_that_wants_less_and_names_no_less_is_given_up() {
    for reason in [RejectionReason::MsgQueueSize, RejectionReason::RdmaFrags] {
        let (mut world, mut stranger) = one();
        let tx = world.put(0, 1, 10);
        let (request, _) = stranger.requested(&mut world);
        let rejection = Rejection::new(reason, STRANGE, PARAMETERS);
        stranger.device.reject(request, &rejection.to_bytes());
        world.settle();
        assert_eq!(
            world.nodes[0].program.sent.get(&tx),
            Some(&Err(Failure::RemoteDropped))
        );
    }
}

// [IB-33]
#[test]
fn a_peer_that_cannot_be_reached_fails_its_messages_with_the_class_of_the_reason() {
    let (mut world, mut stranger) = one();
    stranger.device.unlisten(address(1));
    let refused = world.put(0, 1, 10);
    let nowhere = world.put(0, 5, 10);
    world.settle();
    let sent = &world.nodes[0].program.sent;
    assert_eq!(sent.get(&refused), Some(&Err(Failure::NetworkTimeout)));
    assert_eq!(sent.get(&nowhere), Some(&Err(Failure::NetworkTimeout)));
    let mut peers = world.nodes[0].program.peers.clone();
    peers.sort_unstable();
    assert_eq!(peers, [(nid(1), false), (nid(5), false)]);
    let failed = &world.nodes[0].lnd.stats().failed;
    assert_eq!(failed.of(ConnectFailure::NobodyListens), 1);
    assert_eq!(failed.of(ConnectFailure::Unreachable), 1);
}

// [IB-32] [IB-33]
#[test]
fn an_acceptor_that_does_not_answer_is_given_up_in_time() {
    let (mut world, mut stranger) = one();
    let tx = world.put(0, 1, 10);
    let _unanswered = stranger.requested(&mut world);
    world.pass(Duration::from_secs(12));
    assert_eq!(world.nodes[0].program.sent.get(&tx), None);
    world.pass(Duration::from_secs(2));
    let node = &world.nodes[0];
    assert_eq!(
        node.program.sent.get(&tx),
        Some(&Err(Failure::NetworkTimeout))
    );
    assert_eq!(node.lnd.stats().closed.of(CloseReason::ConnectDeadline), 1);
    assert!(node.lnd.is_idle());
}

// [IB-34]
#[test]
fn a_port_without_a_link_makes_its_interfaces_fatal_until_it_is_back() {
    use lnet_o2ib::PortState::{Down, Removed, Up};
    let mut world = World::new(1, O2ibConfig::default(), &[NiTuning::default(); 2]);
    world.put(0, 1, 10);
    world.settle();
    for state in [Up, Down, Down, Up, Up] {
        world.fabric.port(0, address(0), state);
        world.fabric.port(0, address(7), state);
        world.settle();
    }
    assert_eq!(world.nodes[0].program.fatal, [true, false]);
    assert_eq!(
        world.nodes[0].lnd.connections().count(),
        1,
        "connections stay"
    );
    // Nobody answers at this address: the message waits for its connection.
    world.fabric.add_address(5, address(5));
    let waiting = world.put(0, 5, 10);
    world.fabric.port(0, address(0), Removed);
    world.settle();
    let failed = world.nodes[0].program.sent.get(&waiting);
    assert!(matches!(failed, Some(Err(_))), "{failed:?}");
    assert_eq!(world.nodes[0].program.fatal, [true, false, true]);
    assert_eq!(
        world.nodes[0].lnd.connections().count(),
        0,
        "the device is gone"
    );
    assert!(!world.fabric.is_listening(address(0)));
    world.fabric.port(0, address(0), Up);
    world.settle();
    assert_eq!(world.nodes[0].program.fatal, [true, false, true, false]);
    assert!(world.fabric.is_listening(address(0)), "the device is back");
    assert_eq!(world.end(), [] as [String; 0]);
}

// [IB-34]
#[test]
fn an_interface_listens_again_when_its_device_is_back_without_an_event() {
    let mut world = World::new(1, O2ibConfig::default(), &[NiTuning::default(); 2]);
    world.settle();
    // Another node's address stands for one that no device of this node has.
    world.fabric.add_address(1, address(0));
    world
        .fabric
        .port(0, address(0), lnet_o2ib::PortState::Removed);
    world.settle();
    world.pass(Duration::from_secs(25));
    assert_eq!(world.nodes[0].program.fatal, [true]);
    assert!(!world.fabric.is_listening(address(0)));
    world.fabric.add_address(0, address(0));
    world.pass(Duration::from_secs(10));
    world.settle();
    assert_eq!(world.nodes[0].program.fatal, [true, false]);
    assert!(world.fabric.is_listening(address(0)));
    let tx = world.put(1, 0, 10);
    world.settle();
    assert_eq!(world.nodes[1].program.sent.get(&tx), Some(&Ok(())));
    assert_eq!(world.end(), [] as [String; 0]);
}

// [IB-34]
#[test]
fn an_interface_on_a_port_that_is_down_begins_with_a_fatal_error() {
    use lnet_o2ib::PortState::{Down, Up};
    let mut world = World::new(1, O2ibConfig::default(), &[NiTuning::default()]);
    world.settle();
    world.fabric.add_address(0, address(6));
    world.fabric.port(0, address(6), Down);
    let add = |world: &mut World, ni: u32, nid: &str| {
        let ni = LndNi {
            ni: NiId(ni),
            nid: nid.parse().unwrap(),
            tuning: NiTuning::default(),
            incarnation: 1,
        };
        world.nodes[0].lnd.add_ni(ni).unwrap();
    };
    let first = nid(6).to_string();
    add(&mut world, 20, &first);
    add(&mut world, 21, &first.replace("o2ib", "o2ib1"));
    let fatal = |world: &World| [NI, NiId(20), NiId(21)].map(|ni| world.nodes[0].lnd.is_fatal(ni));
    assert_eq!(fatal(&world), [false, true, true]);
    world.fabric.port(0, address(6), Up);
    world.settle();
    assert_eq!(fatal(&world), [false; 3]);
    // The program was told of the first state by the answer, and of the second by an event.
    assert_eq!(world.nodes[0].program.fatal, [false, false]);
}

// [IB-37]
#[test]
fn an_address_that_moves_takes_its_listener_and_closes_its_connections() {
    let mut world = World::new(3, O2ibConfig::default(), &[NiTuning::default(); 2]);
    let first = world.put(0, 1, 5000);
    world.settle();
    world.fabric.move_address(1, address(1));
    world.fabric.move_address(1, address(9));
    world.settle();
    assert!(world.fabric.is_listening(address(1)));
    let closed = |world: &World| {
        world.nodes[1]
            .lnd
            .stats()
            .closed
            .of(CloseReason::AddressMoved)
    };
    assert_eq!(closed(&world), 1);
    // News of the port that the address has left come late.
    let (now, node) = (world.now, &mut world.nodes[1]);
    let late = DeviceEvent::Port(address(1), PortState::Down);
    node.lnd.event(late, now, &mut node.program);
    assert!(!node.lnd.is_fatal(NI));
    assert_eq!(world.nodes[1].program.fatal, [] as [bool; 0]);
    // A message that waits for a connection is sent by the next attempt.
    let second = world.put(1, 0, 5000);
    world.fabric.move_address(1, address(1));
    world.settle();
    world.pass(Duration::from_secs(3));
    for (node, tx) in [(0, first), (1, second)] {
        assert_eq!(world.nodes[node].program.sent.get(&tx), Some(&Ok(())));
    }
    // Nobody listens where the address has gone.
    world.fabric.add_address(0, address(1));
    world.fabric.move_address(1, address(1));
    world.settle();
    assert_eq!(world.nodes[1].program.fatal, [true]);
    assert_eq!(world.end(), [] as [String; 0]);
}
