//! The state that kernels print beside the configuration, and the findings that follow from it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use lnet_explain::{
    Code, Explanation, Finding, Node, Question, Settings, Severity, Source, explain, import,
    reverse,
};

fn node(text: &str) -> Node {
    let source = Source { name: "node", text };
    import(&[source], &Settings::default()).unwrap().node
}

fn ask(to: &str) -> Question {
    Question {
        to: to.parse().unwrap(),
        from: None,
        size: 0,
        sends: 4,
    }
}

fn explained(text: &str, to: &str) -> Explanation {
    explain(&node(text), &ask(to)).unwrap()
}

#[track_caller]
fn named(one: &Explanation, code: Code) -> &Finding {
    let found = one.findings.iter().find(|finding| finding.code == code);
    found.unwrap_or_else(|| panic!("{code} is not among {:#?}", one.findings))
}

#[track_caller]
fn silent(one: &Explanation, code: Code) {
    let found = one.findings.iter().find(|finding| finding.code == code);
    assert_eq!(found, None);
}

/// Returns a node with two rails; `state` holds the YAML fields of the second.
fn rails(state: &str) -> String {
    format!(
        "net:\n- net type: tcp\n  local NI(s):\n  - {{nid: 10.0.0.1@tcp, status: up, interfaces: {{0: eth0}}}}\n  \
         - {{nid: 10.0.0.2@tcp, interfaces: {{0: eth1}}, {state}}}\n"
    )
}

#[test]
fn an_ni_that_is_printed_as_down_is_named() {
    for (state, printed) in [
        ("status: down", "status down"),
        (
            "health stats: {fatal_error: 1, health value: 1000}",
            "fatal_error 1",
        ),
        (
            "status: down, health stats: {fatal_error: 0, health value: 1000}",
            "status down",
        ),
    ] {
        let one = explained(&rails(state), "10.0.0.7@tcp");
        let text = &named(&one, Code::NiDown).text;
        assert!(
            text.contains(printed) && text.contains("10.0.0.2@tcp (eth1)"),
            "{text}"
        );
    }
    silent(
        &explained(&rails("status: up"), "10.0.0.7@tcp"),
        Code::NiDown,
    );
}

/// Returns a node with one rail, followed by the YAML in `more`.
fn with(more: &str) -> String {
    format!("net: [{{net type: tcp, local NI(s): [{{nid: 10.0.0.1@tcp}}]}}]\n{more}\n")
}

#[test]
fn messages_that_wait_for_credits_are_named_beside_the_least() {
    let peer = |left: i64, queued: u64, least: i64| {
        let text = with(&format!(
            "peer: [{{primary nid: 10.0.0.7@tcp, Multi-Rail: true, peer ni: [{{nid: 10.0.0.7@tcp, max_ni_tx_credits: 8, \
             available_tx_credits: {left}, min_tx_credits: {least}, tx_q_num_of_buf: {queued}}}]}}]"
        ));
        explained(&text, "10.0.0.7@tcp")
    };
    let one = peer(-310, 1_269_760, -512);
    let found = named(&one, Code::CreditsExhausted);
    assert_eq!(found.severity, Severity::Warning);
    assert!(
        found.text.contains("-310 of 8") && found.text.contains("-512"),
        "{found:?}"
    );
    assert_eq!(
        named(&peer(8, 0, -512), Code::CreditsExhausted).severity,
        Severity::Note
    );
    silent(&peer(7, 0, -8), Code::CreditsExhausted);
}

#[test]
fn a_peer_that_is_listed_without_multi_rail_is_no_stranger() {
    let text = with(
        "peer: [{primary nid: 10.0.0.7@tcp, Multi-Rail: False, peer ni: [{nid: 10.0.0.7@tcp}]}]",
    );
    let kind = explained(&text, "10.0.0.7@tcp")
        .classification
        .unwrap()
        .kind;
    assert_eq!(
        kind,
        "D, not Multi-Rail: peer 10.0.0.7@tcp is listed with Multi-Rail: False"
    );
    let stranger = explained(&text, "10.0.0.8@tcp")
        .classification
        .unwrap()
        .kind;
    assert!(stranger.contains("not among the known peers"), "{stranger}");
}

/// Returns the explanation for a node with two nets, the given peer and a rule.
fn ruled(peer: &str, rule: &str, discovery: u8) -> Explanation {
    let text = format!(
        "net: [{{net type: tcp, local NI(s): [{{nid: 10.0.0.1@tcp}}]}}, {{net type: tcp1, local NI(s): \
         [{{nid: 10.1.0.1@tcp1}}]}}]\npeer: [{peer}]\nglobal: {{discovery: {discovery}}}\nudsp: [{{idx: 0, {rule}, \
         action: {{priority: 0}}}}]\n"
    );
    explained(&text, "10.0.0.7@tcp")
}

#[test]
fn a_rule_that_decides_nothing_says_why() {
    let single = "{primary nid: 10.0.0.7@tcp, Multi-Rail: false}";
    let narrow = "{primary nid: 10.0.0.7@tcp, Multi-Rail: true, peer ni: [{nid: 10.0.0.7@tcp}]}";
    let wide = "{primary nid: 10.0.0.7@tcp, Multi-Rail: true, peer ni: [{nid: 10.0.0.7@tcp}, {nid: 10.1.0.7@tcp1}]}";
    for (peer, rule, discovery, why) in [
        (single, "src: tcp", 1, "is not Multi-Rail: messages go to"),
        (single, "src: tcp", 0, "discovery is off"),
        (narrow, "src: tcp1", 1, "the peer has no NID on tcp1"),
        (
            narrow,
            "src: 10.1.0.1@tcp1",
            1,
            "the peer has no NID on tcp1",
        ),
        (single, "dst: 10.0.0.7@tcp", 1, "is not Multi-Rail"),
        (
            narrow,
            "dst: 9.9.9.9@tcp9",
            0,
            "discovery is off, so that peers have only",
        ),
    ] {
        let one = ruled(peer, rule, discovery);
        let text = &named(&one, Code::RuleWithoutEffect).text;
        assert!(text.contains(why), "{rule}: {text}");
    }
    for rule in ["src: tcp1", "src: 10.1.0.1@tcp1", "dst: 10.1.0.7@tcp1"] {
        silent(&ruled(wide, rule, 1), Code::RuleWithoutEffect);
    }
}

#[test]
fn rails_of_one_net_in_two_subnets_are_named_where_a_message_crosses() {
    let text = |second: &str| {
        format!(
            "net: [{{net type: tcp, local NI(s): [{{nid: 10.0.1.1@tcp}}, {{nid: {second}}}]}}]\n\
             peer: [{{primary nid: 10.0.2.7@tcp, Multi-Rail: true, peer ni: [{{nid: 10.0.2.7@tcp}}]}}]\n"
        )
    };
    let one = explained(&text("10.0.2.1@tcp"), "10.0.2.7@tcp");
    let found = named(&one, Code::SubnetsApart);
    assert!(
        found.text.contains("10.0.1.1@tcp sends to 10.0.2.7@tcp"),
        "{found:?}"
    );
    // No local NI is nearer, so an IP router is expected.
    silent(
        &explained(&text("10.0.1.2@tcp"), "10.0.2.7@tcp"),
        Code::SubnetsApart,
    );
}

/// Returns the findings about what the peer does with messages that arrive by 10.0.0.8@tcp, if the peer's own route
/// leads by another gateway.
fn way_back(route: &str, gateway: &str, drops: u8) -> Vec<Finding> {
    let here = node(&with(&format!(
        "route: [{{net: tcp1, gateway: 10.0.0.8@tcp, hop: 1}}]\n{gateway}"
    )));
    let there = node(&format!(
        "net: [{{net type: tcp1, local NI(s): [{{nid: 10.1.0.7@tcp1}}]}}]\n\
         route: [{{net: tcp, gateway: {route}, hop: 1}}]\nglobal: {{drop_asym_route: {drops}}}\n"
    ));
    let question = ask("10.1.0.7@tcp1");
    let forward = explain(&here, &question).unwrap();
    let back = reverse(&here, &there, &forward, &question)
        .unwrap()
        .unwrap();
    let findings = back.explanation.findings.into_iter();
    findings
        .filter(|one| one.code == Code::AsymmetricRoute)
        .collect()
}

#[test]
fn a_peer_that_drops_what_comes_by_another_gateway_is_named() {
    let known =
        "peer: [{primary nid: 10.0.0.8@tcp, peer ni: [{nid: 10.0.0.8@tcp}, {nid: 10.1.0.8@tcp1}]}]";
    let found = way_back("10.1.0.9@tcp1", known, 1);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].severity, Severity::Error);
    assert!(
        found[0]
            .text
            .contains("drops messages that arrive by 10.0.0.8@tcp"),
        "{found:?}"
    );
    assert_eq!(way_back("10.1.0.8@tcp1", known, 1), []);
    assert_eq!(way_back("10.1.0.9@tcp1", known, 0), []);
    let unsure = way_back("10.1.0.9@tcp1", "", 1);
    assert_eq!(unsure[0].severity, Severity::Warning);
}

/// Returns the findings about what two ends on one net agree on.
fn agreed(net: &str, here: &str, there: &str) -> Vec<Finding> {
    let end = |number: u8, tunables: &str| {
        node(&format!(
            "net: [{{net type: {net}, local NI(s): [{{nid: 10.0.0.{number}@{net}, {tunables}}}]}}]\n"
        ))
    };
    let (here, there) = (end(1, here), end(2, there));
    let question = ask(&format!("10.0.0.2@{net}"));
    let forward = explain(&here, &question).unwrap();
    let back = reverse(&here, &there, &forward, &question);
    let findings = back.unwrap().unwrap().explanation.findings.into_iter();
    let of_ends = [Code::QueueDepthDiffers, Code::MapOnDemandDiffers];
    findings.filter(|one| of_ends.contains(&one.code)).collect()
}

// [IB-11] [IB-17]
#[test]
fn what_two_ends_over_o2ib_agree_on_is_said_where_their_settings_differ() {
    let deep = "tunables: {peer_credits: 32}, lnd tunables: {map_on_demand: 256}";
    let flat = "tunables: {peer_credits: 8}, lnd tunables: {map_on_demand: 32}";
    let found = agreed("o2ib", deep, flat);
    let texts: Vec<&str> = found.iter().map(|one| one.text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "10.0.0.1@o2ib has peer_credits 32 and 10.0.0.2@o2ib has 8: the end with more is rejected once when it connects, \
             and their connections then have a queue of 8 messages",
            "10.0.0.1@o2ib has map_on_demand 256 and 10.0.0.2@o2ib has 32: the end with more fragments is rejected once when \
             it connects, and their connections then have 32 fragments",
        ]
    );
    assert!(found.iter().all(|one| one.severity == Severity::Warning));
    assert_eq!(agreed("o2ib", deep, deep), []);
    assert_eq!(
        agreed(
            "tcp",
            "tunables: {peer_credits: 32}",
            "tunables: {peer_credits: 8}"
        ),
        []
    );
    let unknown = agreed(
        "o2ib",
        "lnd tunables: {map_on_demand: 1}",
        "lnd tunables: {}",
    );
    assert_eq!(unknown, [], "the other end does not say its own");
}

#[test]
fn nobody_is_advised_to_rank_gateways_by_priority() {
    let advice = |second: &str| {
        let text = with(&format!(
            "route: [{{net: tcp1, gateway: 10.0.0.8@tcp, hop: 1, priority: 0, state: up}}{second}]\n\
             peer: [{{primary nid: 10.0.0.8@tcp, Multi-Rail: true, peer ni: [{{nid: 10.0.0.8@tcp, health stats: \
             {{health value: 0}}}}]}}]"
        ));
        let one = explained(&text, "10.1.0.7@tcp1");
        named(&one, Code::GatewayHealth).advice.clone()
    };
    let second = |priority: u32| {
        format!(", {{net: tcp1, gateway: 10.0.0.9@tcp, hop: 1, priority: {priority}, state: up}}")
    };
    assert!(advice(&second(1)).contains("the same priority and hops"));
    assert!(advice(&second(0)).contains("automatically"));
    assert!(advice("").contains("add a second one"));
}
