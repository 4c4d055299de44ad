//! Documents with rejected parts: every rejected part is reported, and nothing is concluded from what is absent.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use lnet_site::lint::{Finding, Input, lint};

fn input<'a>(name: &'a str, text: &'a str) -> Input<'a> {
    Input {
        name,
        text,
        interfaces: None,
        port: None,
    }
}

fn findings(texts: &[&str]) -> Vec<Finding> {
    let names = ["a", "b", "c"];
    let inputs = names.iter().zip(texts);
    let inputs: Vec<Input<'_>> = inputs.map(|(name, text)| input(name, text)).collect();
    lint(&inputs).unwrap().findings
}

/// Returns the code, the line and the key of each finding.
fn told(found: &[Finding]) -> Vec<(&str, usize, &str)> {
    let all = found.iter();
    all.map(|one| (one.code, one.line, one.key.as_str()))
        .collect()
}

#[test]
fn all_refused_values_and_what_other_lints_find_come_in_one_run() {
    let text = "\
net:
- net type: tcp
  local NI(s):
  - {nid: 10.0.0.1@tcp, tunables: {credits: many}}
route:
- {net: tcp1, gateway: 10.0.0.300@tcp, hop: 1}
- {net: tcp2, gateway: 10.0.0.9@tcp, hop: 0}
- {net: tcp3, gateway: 10.7.0.9@tcp7, hop: 1, prio: 3}
global: {health_sensitivity: 2000, recovery_limit: 5}
udsp:
- {idx: 0, src: tcp9}
";
    let expected = [
        (
            "import-refused",
            4,
            "net[0].local NI(s)[0].tunables.credits",
        ),
        ("import-refused", 6, "route[0].gateway"),
        ("import-refused", 7, "route[1].hop"),
        // Entries after one that is left out keep their right places, and a rejected value causes no second
        // finding.
        ("gateway-not-local", 8, "route[2].gateway"),
        ("unknown-key", 8, "route[2].prio"),
        ("import-refused", 9, "global.health_sensitivity"),
        ("recovery-limit-short", 9, "global.recovery_limit"),
        ("rule-import", 11, "udsp[0]"),
    ];
    let found = findings(&[text]);
    assert_eq!(told(&found), expected, "{found:#?}");
}

/// In each document the rejected part may hold what a lint would otherwise report as missing.
#[test]
fn nothing_follows_from_the_silence_of_what_is_refused() {
    let cases = [
        // The gateway and the peer may be on the net that cannot be read.
        "net: [{net type: tcp, local NI(s): [{nid: 10.0.0.1@tcp}]}, {net type: nosuch, local NI(s): [{nid: 1@x}]}]\n\
         route: [{net: tcp1, gateway: 10.2.0.9@tcp2, hop: 1}]\npeer: [{primary nid: 10.3.0.1@tcp3}]\n",
        // The peer may be behind the rejected route.
        "net: [{net type: tcp, local NI(s): [{nid: 10.0.0.1@tcp}]}]\n\
         route: [{net: tcp1, gateway: 10.0.0.300@tcp, hop: 1}]\npeer: [{primary nid: 10.3.0.1@tcp1}]\n",
        // The rejected rule may rank the nets.
        "net: [{net type: tcp, local NI(s): [{nid: 10.0.0.1@tcp}]}, {net type: o2ib, local NI(s): [{nid: 10.1.0.1@o2ib}]}]\n\
         udsp: [{idx: 0, src: o2ib, priority: high}]\n",
        // Defaults must not replace rejected values.
        "global: {transaction_timeout: x, retry_count: 60}\n",
        "net: [{net type: tcp, tunables: {credits: x}, local NI(s): [{nid: 10.0.0.1@tcp}]}]\n",
        "route: [{net: tcp1, gateway: 10.0.0.9@tcp, hop: x}]\n",
    ];
    for text in cases {
        let found = findings(&[text]);
        let others: Vec<_> = found
            .iter()
            .filter(|f| f.code != "import-refused")
            .collect();
        assert_eq!(found.len() - others.len(), 1, "{text}\n{found:#?}");
        assert_eq!(others, [&found[0]; 0], "{text}");
    }
}

const CLIENT: &str = "net: [{net type: tcp, local NI(s): [{nid: 10.0.0.1@tcp}]}]\n\
                      route: [{net: tcp1, gateway: 10.0.0.8@tcp, hop: 1}]\n";
const ROUTER: &str = "net: [{net type: tcp, local NI(s): [{nid: 10.0.0.8@tcp}]}, {net type: tcp1, local NI(s): \
                      [{nid: 10.1.0.8@tcp1}]}]\nrouting: {enable: 1}\n";
const SERVER: &str = "net: [{net type: tcp1, local NI(s): [{nid: 10.1.0.7@tcp1}]}]\n\
                      route: [{net: tcp, gateway: 10.1.0.8@tcp1, hop: 1}]\n";

#[test]
fn nothing_follows_across_nodes_from_the_silence_of_what_is_refused() {
    assert_eq!(findings(&[CLIENT, ROUTER, SERVER]), []);
    let no_route = SERVER.replace("10.1.0.8@tcp1, hop", "10.1.0.800@tcp1, hop");
    let no_net = ROUTER.replace("10.1.0.8@tcp1", "10.1.0.800@tcp1");
    let no_role = ROUTER.replace("enable: 1", "enable: yes");
    let broken = format!("{SERVER} [");
    for (client, router, server) in [
        (CLIENT, ROUTER, no_route.as_str()),
        (CLIENT, no_net.as_str(), SERVER),
        (CLIENT, no_role.as_str(), SERVER),
        (CLIENT, ROUTER, broken.as_str()),
    ] {
        let found = findings(&[client, router, server]);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(["import-refused", "unreadable"].contains(&found[0].code));
    }
}

#[test]
fn all_options_of_the_module_that_are_refused_come_in_one_run() {
    let text = "\
options lnet networks=\"tcp(eth0),o2ib(ib0\" lnet_retry_count=many routes=\"o2ib1 10.0.0.500@tcp\"
options lnet forwarding=maybe lnet_health_sensitivity=1000
options lnet tiny_router_buffers
options lnet lnet_recovery_limit=5
";
    let expected = [
        ("import-refused", 1, ""),
        ("import-refused", 1, ""),
        ("import-refused", 1, ""),
        ("import-refused", 2, ""),
        ("sensitivity-drains", 2, "global.health_sensitivity"),
        ("import-refused", 3, ""),
        ("recovery-limit-short", 4, "global.recovery_limit"),
    ];
    let found = findings(&[text]);
    assert_eq!(told(&found), expected, "{found:#?}");
}

#[test]
fn a_rule_that_cannot_be_read_is_one_finding_at_what_cannot_be_read() {
    let found = findings(&["udsp: [{idx: 0, src: tcp, priority: 1}, {idx: 1, dst: nonsense99}]\n"]);
    assert_eq!(told(&found), [("rule-dead", 1, "udsp[1].dst")]);
    assert!(
        found[0].fix.contains("nonsense99") || found[0].fix.contains("at character"),
        "{found:?}"
    );
}

/// A mistake in one file does not prevent the comparison with the other files.
#[test]
fn other_nodes_are_still_compared() {
    let broken = SERVER.replace("hop: 1", "hop: 0");
    let twice = CLIENT.replace("10.0.0.1@tcp", "10.0.0.8@tcp");
    let found = findings(&[&twice, ROUTER, &broken]);
    assert!(found.iter().any(|one| one.code == "nid-claimed-twice"));
}

#[test]
fn the_last_of_many_says_how_many_more_there_are() {
    let text = format!("route:\n{}", "- {net: tcp1, gateway: 1}\n".repeat(250));
    let found = findings(&[&text]);
    assert_eq!(found.len(), 100);
    assert!(
        found[99]
            .reason
            .ends_with("; 150 more like this are not shown")
    );
}

#[test]
fn mistakes_among_ten_thousand_routes_are_found() {
    let net = "net: [{net type: tcp, local NI(s): [{nid: 10.0.0.1@tcp}]}]\nroute:\n";
    let routes = (1..=10_000).map(|at| {
        let hop = if at % 500 == 0 { "x" } else { "-1" };
        let gateway = if at % 700 == 0 { 300 } else { 9 };
        format!("- {{net: tcp{at}, gateway: 10.0.0.{gateway}@tcp, hop: {hop}}}\n")
    });
    let text = net.to_owned() + &routes.collect::<String>();
    let found = findings(&[&text]);
    assert_eq!(found.len(), 20 + 14 + 1);
}
