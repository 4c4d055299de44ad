//! Tests of changes of the configuration: which are rejected, and which messages end when something is removed.

use super::net::{any_me, config, open_md};
use super::{Net, nid};
use crate::*;

fn core() -> Core {
    let mut net = Net::pair();
    net.nodes.remove(0).core
}

fn now() -> lnet_types::Time {
    lnet_types::Time::from_secs(1000)
}

fn ni(text: &str) -> NiConfig {
    NiConfig {
        nid: nid(text),
        tunables: Tunables::default(),
    }
}

fn route(net: &str, gateway: &str) -> Route {
    Route {
        net: net.parse().unwrap(),
        gateway: nid(gateway),
        hops: None,
        priority: 0,
    }
}

#[test]
fn interfaces_that_cannot_be_are_refused() {
    let mut core = core();
    core.add_route(route("tcp1", "10.0.0.9@tcp"), now())
        .unwrap();
    for (config, errno) in [
        (ni("0@lo"), Errno::EINVAL),
        (ni("*"), Errno::EINVAL),
        (ni("10.0.0.1@tcp"), Errno::EEXIST),
        (ni("10.1.0.1@tcp1"), Errno::EUSERS),
    ] {
        assert_eq!(
            core.add_ni(config, now()).unwrap_err().errno(),
            errno,
            "{}",
            config.nid
        );
    }
    let tunables = Tunables {
        credits: 0,
        ..Tunables::default()
    };
    let none = NiConfig {
        tunables,
        ..ni("10.0.0.7@tcp")
    };
    assert_eq!(core.add_ni(none, now()), Err(ConfigError::NoCredits));
    assert_eq!(
        core.remove_ni(NiId::LOOPBACK, now()),
        Err(ConfigError::UnknownNi)
    );
}

#[test]
fn routes_that_cannot_be_are_refused() {
    let mut core = core();
    core.add_route(route("tcp1", "10.0.0.9@tcp"), now())
        .unwrap();
    let no_hops = Route {
        hops: Some(0),
        ..route("tcp2", "10.0.0.9@tcp")
    };
    for (route, errno) in [
        (route("tcp1", "10.0.0.9@tcp"), Errno::EEXIST),
        (route("tcp", "10.0.0.9@tcp"), Errno::EEXIST),
        (route("tcp2", "10.0.0.1@tcp"), Errno::EINVAL),
        (route("tcp2", "0@lo"), Errno::EINVAL),
        (route("tcp2", "10.3.0.1@tcp3"), Errno::EHOSTUNREACH),
        (no_hops, Errno::EINVAL),
    ] {
        assert_eq!(
            core.add_route(route, now()).unwrap_err().errno(),
            errno,
            "{route:?}"
        );
    }
    let (net, gateway) = ("tcp9".parse().unwrap(), nid("10.0.0.9@tcp"));
    let unknown = ConfigError::UnknownRoute { net, gateway };
    assert_eq!(core.remove_route(net, gateway), Err(unknown));
}

// [PEER-11]
#[test]
fn a_nid_belongs_to_one_configured_peer() {
    let mut core = core();
    let (first, second) = (nid("10.0.0.2@tcp"), nid("10.0.0.3@tcp"));
    core.add_peer(first, &[second], true).unwrap();
    assert_eq!(
        core.add_peer(second, &[], true),
        Err(ConfigError::NidOfAnotherPeer(second))
    );
    core.remove_peer(first).unwrap();
    assert_eq!(
        core.remove_peer(first),
        Err(ConfigError::UnknownPeer(first))
    );
    core.add_peer(second, &[], true).unwrap();
}

/// Backups list such peers, too, and an import of a backup with `--del` removes the listed peers.
#[test]
fn what_a_route_leaves_of_its_gateway_can_be_removed_as_a_peer() {
    let mut core = core();
    let gateway = nid("10.0.0.9@tcp");
    core.add_route(route("tcp1", "10.0.0.9@tcp"), now())
        .unwrap();
    let refused = ConfigError::PeerIsGateway(gateway);
    assert_eq!(core.remove_peer(gateway), Err(refused));
    core.remove_route("tcp1".parse().unwrap(), gateway).unwrap();
    core.remove_peer(gateway).unwrap();
    let unknown = ConfigError::UnknownPeer(gateway);
    assert_eq!(core.remove_peer(gateway), Err(unknown));
}

#[test]
fn a_gateway_cannot_be_removed_as_a_peer() {
    let mut core = core();
    let gateway = nid("10.0.0.9@tcp");
    core.add_peer(gateway, &[], false).unwrap();
    core.add_route(route("tcp1", "10.0.0.9@tcp"), now())
        .unwrap();
    assert_eq!(
        core.remove_peer(gateway),
        Err(ConfigError::PeerIsGateway(gateway))
    );
    core.remove_route("tcp1".parse().unwrap(), gateway).unwrap();
    core.remove_peer(gateway).unwrap();
}

#[test]
fn removing_an_interface_ends_what_is_queued_for_it() {
    let mut net = Net::pair();
    net.keep_answers = true;
    for _ in 0..10 {
        net.put(0, b"x", false, "10.0.0.2@tcp");
    }
    net.run();
    let (ni, now) = (net.nodes[0].nis[0].0, net.now);
    net.core(0).remove_ni(ni, now).unwrap();
    net.run();
    let events = net.take_events(0);
    assert_eq!(events.len(), 2, "eight are with the LND");
    assert!(
        events
            .iter()
            .all(|event| event.status == Err(Errno::ENODEV) && event.unlinked)
    );
    while net.answer(0, MessageStatus::LocalAborted).is_some() {}
    assert_eq!(net.take_events(0).len(), 8);
    assert!(net.core(0).is_idle());
    assert!(net.nodes[0].memory.is_empty());
}

#[test]
fn removing_a_peer_ends_what_is_queued_for_it() {
    let mut net = Net::pair();
    let peer = nid("10.0.0.2@tcp");
    net.core(0).add_peer(peer, &[], false).unwrap();
    net.keep_answers = true;
    for _ in 0..10 {
        net.put(0, b"x", false, "10.0.0.2@tcp");
    }
    net.run();
    net.core(0).remove_peer(peer).unwrap();
    net.run();
    assert_eq!(net.take_events(0).len(), 2);
    while net.answer(0, MessageStatus::Ok).is_some() {}
    net.assert_at_rest();
}

#[test]
fn descriptors_that_cannot_be_are_refused() {
    let mut core = core();
    let me = core.me_attach(any_me()).unwrap();
    let md = open_md(8);
    let neither = MdSpec {
        options: MdOptions::TRUNCATE,
        ..md
    };
    let too_large = MdSpec {
        options: md.options | MdOptions::MAX_SIZE,
        max_size: 9,
        ..md
    };
    assert_eq!(
        core.md_attach(me, neither, now()),
        Err(PortalError::InvalidOptions)
    );
    assert_eq!(
        core.md_attach(me, too_large, now()),
        Err(PortalError::InvalidMaxSize)
    );
    core.md_attach(me, md, now()).unwrap();
    assert_eq!(core.md_attach(me, md, now()), Err(PortalError::EntryInUse));
    assert_eq!(core.md_bind(md), Err(PortalError::InvalidOptions));
    let long = MdSpec {
        options: MdOptions::empty(),
        length: (1 << 20) + 1,
        ..md
    };
    assert_eq!(core.md_bind(long), Err(PortalError::TooLong((1 << 20) + 1)));
    for portal in [0, 64, u32::MAX] {
        let error = Err(PortalError::InvalidPortal(portal));
        assert_eq!(core.me_attach(MeSpec { portal, ..any_me() }), error);
        assert_eq!(
            core.set_lazy(portal),
            Err(PortalError::InvalidPortal(portal))
        );
    }
}

#[test]
fn a_descriptor_without_operations_left_starts_nothing() {
    let mut core = core();
    let md = MdSpec {
        options: MdOptions::empty(),
        threshold: Some(0),
        ..open_md(8)
    };
    let md = core.md_bind(md).unwrap();
    let get = GetRequest {
        md,
        source: None,
        target: lnet_types::ProcessId::lustre(nid("10.0.0.2@tcp")),
        portal: 30,
        match_bits: 7,
        offset: 0,
    };
    assert_eq!(core.get(get, now()), Err(PortalError::Exhausted));
    let unknown = GetRequest {
        md: MdHandle(77),
        ..get
    };
    assert_eq!(core.get(unknown, now()), Err(PortalError::UnknownHandle));
}

#[test]
fn a_node_without_interfaces_talks_to_itself_only() {
    let mut net = Net::new();
    net.add_configured(config(1), &[]);
    net.attach(0, any_me(), open_md(8));
    net.put(0, b"x", true, "0@lo");
    net.run();
    assert_eq!(
        net.kinds(0),
        [EventKind::Send, EventKind::Put, EventKind::Ack]
    );
    assert_eq!(net.core(0).primary_nid(), None);
    net.assert_at_rest();
}

#[test]
fn changes_that_are_held_together_end_where_single_ones_end() {
    let change = |core: &mut Core| {
        core.add_ni(ni("10.0.5.1@tcp"), now()).unwrap();
        core.add_route(route("tcp7", "10.0.0.9@tcp"), now())
            .unwrap();
        let peer = nid("10.0.0.77@tcp");
        core.add_peer(peer, &[peer], true).unwrap();
        for text in ["--dst 10.0.0.77@tcp --priority 3", "--dst tcp --priority 1"] {
            core.add_rule(rule(text), None).unwrap();
        }
    };
    let (mut single, mut together) = (core(), core());
    change(&mut single);
    together.hold_rules();
    change(&mut together);
    together.release_rules();
    assert!(single.peers().eq(together.peers()));
    assert!(single.nis().eq(together.nis()));
}

fn rule(text: &str) -> lnet_policy::Rule {
    use lnet_policy::{Action, Priority, Profile, Rule, RuleText};
    let words: Vec<&str> = text.split(' ').collect();
    let text = RuleText {
        dst: Some(words[1]),
        action: Some(Action::Priority(
            Priority::new(words[3].parse().unwrap()).unwrap(),
        )),
        ..RuleText::default()
    };
    Rule::from_text(&text, Profile::Design).unwrap()
}
