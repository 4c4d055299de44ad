//! Documents that are rejected, and what the user then sees: YAML, keys, node-wide parameters.

use super::rejection;
use crate::{MAX_BYTES, Problem, parse};

#[test]
fn unknown_section_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
foo: 1
"
        ),
        @r#"
    error: invalid key 'foo'
     --> lnet.conf:1:1
      |
    1 | foo: 1
      | ^^^ keys here are: net, ip2nets, route, peer, routing, buffers, global, numa, udsp
    "#
    );
}

#[test]
fn requests_are_no_configuration() {
    insta::assert_snapshot!(
        rejection(
            "\
global:
    retry_count: 2
ping:
    nids: {0: 10.0.0.1@tcp}
"
        ),
        @r#"
    error: 'ping' is not a section of a configuration
     --> lnet.conf:3:1
      |
    3 | ping:
      | ^^^^ remove the section
    "#
    );
}

#[test]
fn rule_without_effect_is_rejected_with_its_place() {
    insta::assert_snapshot!(
        rejection(
            "\
udsp:
    - src: tcp
    - rte: 10.0.0.3@tcp
      priority: 1
"
        ),
        @r#"
    error: rte needs dst: a gateway is preferred for something
     --> lnet.conf:3:7
      |
    3 |     - rte: 10.0.0.3@tcp
      |       ^ a rule has src, dst, src and dst, or dst and rte
    "#
    );
}

#[test]
fn rule_that_is_no_expression_is_rejected_at_the_value() {
    insta::assert_snapshot!(
        rejection(
            "\
udsp:
    - src: 10.0.0.[5-1]@tcp
      dst: tcp1
"
        ),
        @r#"
    error: failed to parse src parameter
     --> lnet.conf:2:12
      |
    2 |     - src: 10.0.0.[5-1]@tcp
      |            ^^^^^^^^^^^^^^^^ the range 5-1 runs backwards; write 1-5 (at character 9)
    "#
    );
}

#[test]
fn rule_given_twice_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
udsp:
    - src: tcp
      priority: 1
    - src: tcp
      action: {priority: 1}
"
        ),
        @r#"
    error: cannot add udsp: Operation already in progress
     --> lnet.conf:4:7
      |
    4 |     - src: tcp
      |       ^ it is the rule with idx 0; remove one
    "#
    );
}

#[test]
fn ip2nets_entry_that_begins_with_another_key_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
ip2nets:
    - interfaces: {0: eth0}
      net-spec: tcp
"
        ),
        @r#"
    error: Malformed input. Expect 'net-spec' found 'interfaces'
     --> lnet.conf:2:7
      |
    2 |     - interfaces: {0: eth0}
      |       ^^^^^^^^^^ begin the entry with 'net-spec:'
    "#
    );
}

#[test]
fn short_ip_pattern_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
ip2nets:
    - net-spec: tcp
      ip-range: {0: 10.0.0}
"
        ),
        @r#"
    error: invalid value '10.0.0' for key '0'
     --> lnet.conf:3:21
      |
    3 |       ip-range: {0: 10.0.0}
      |                     ^^^^^^ an address here has four elements; for every address write *.*.*.* (at character 1)
    "#
    );
}

#[test]
fn unknown_key_inside_an_entry_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
net:
- net type: tcp
  local NI(s):
  - interfaces: {0: eth0}
    speed: 10
"
        ),
        @r#"
    error: invalid key 'speed'
     --> lnet.conf:5:5
      |
    5 |     speed: 10
      |     ^^^^^ keys here are: nid, interfaces, tunables, lnd tunables, CPT
    "#
    );
}

#[test]
fn unknown_lnd_tunable_of_tcp_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
net:
- net type: tcp
  local NI(s):
  - interfaces: {0: eth0}
    lnd tunables:
        map_on_demand: 1
"
        ),
        @r#"
    error: invalid key 'map_on_demand'
     --> lnet.conf:6:9
      |
    6 |         map_on_demand: 1
      |         ^^^^^^^^^^^^^ keys here are: conns_per_peer, timeout, tos
    "#
    );
}

#[test]
fn statistics_are_no_route_keys() {
    insta::assert_snapshot!(
        rejection(
            "\
route:
- net: tcp5
  gateway: 10.0.0.3@tcp
  statistics: {}
"
        ),
        @r#"
    error: invalid key 'statistics'
     --> lnet.conf:4:3
      |
    4 |   statistics: {}
      |   ^^^^^^^^^^ keys here are: net, gateway, hop, priority
    "#
    );
}

#[test]
fn key_without_value_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
global:
    retry_count:
    discovery: 1
"
        ),
        @r#"
    error: no value specified for key 'retry_count'
     --> lnet.conf:2:5
      |
    2 |     retry_count:
      |     ^^^^^^^^^^^ write a value behind the colon
    "#
    );
}

#[test]
fn text_for_a_number_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
global:
    retry_count: many
"
        ),
        @r#"
    error: invalid value 'many' for key 'retry_count'
     --> lnet.conf:2:18
      |
    2 |     retry_count: many
      |                  ^^^^ retry_count is an integer from 0 to 2147483647
    "#
    );
}

#[test]
fn key_given_twice_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
global:
    retry_count: 1
    discovery: 1
    retry_count: 2
"
        ),
        @r#"
    error: 'retry_count' is given twice
     --> lnet.conf:4:5
      |
    4 |     retry_count: 2
      |     ^^^^^^^^^^^ remove one of them
    "#
    );
}

#[test]
fn parameter_given_by_two_names_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
numa:
    range: 1
global:
    numa_range: 2
"
        ),
        @r#"
    error: 'numa_range' is given twice
     --> lnet.conf:4:5
      |
    4 |     numa_range: 2
      |     ^^^^^^^^^^ remove one of them
    "#
    );
}

#[test]
fn scalar_for_a_list_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
net: tcp
"
        ),
        @r#"
    error: 'net' must be a list of entries that begin with '-'
     --> lnet.conf:1:6
      |
    1 | net: tcp
      |      ^^^ write a list of entries that begin with '-'
    "#
    );
}

#[test]
fn list_for_a_mapping_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
global:
    - retry_count
"
        ),
        @r#"
    error: 'global' must be a mapping of keys and values
     --> lnet.conf:2:5
      |
    2 |     - retry_count
      |     ^ write a mapping of keys and values
    "#
    );
}

#[test]
fn mapping_for_a_scalar_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
global:
    retry_count: {a: 1}
"
        ),
        @r#"
    error: 'retry_count' must be one value
     --> lnet.conf:2:18
      |
    2 |     retry_count: {a: 1}
      |                  ^ write one value
    "#
    );
}

#[test]
fn routing_other_than_0_and_1_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
routing:
    enable: 2
"
        ),
        @r#"
    error: invalid value '2' for key 'enable'
     --> lnet.conf:2:13
      |
    2 |     enable: 2
      |             ^ enable is an integer from 0 to 1
    "#
    );
}

#[test]
fn negative_buffers_are_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
buffers:
    tiny: -1
"
        ),
        @r#"
    error: invalid value '-1' for key 'tiny'
     --> lnet.conf:2:11
      |
    2 |     tiny: -1
      |           ^^ tiny is an integer from 0 to 2147483647
    "#
    );
}

#[test]
fn sensitivity_above_1000_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
global:
    health_sensitivity: 2000
"
        ),
        @r#"
    error: invalid value '2000' for key 'health_sensitivity'
     --> lnet.conf:2:25
      |
    2 |     health_sensitivity: 2000
      |                         ^^^^ health_sensitivity is an integer from 0 to 1000
    "#
    );
}

#[test]
fn resends_without_sensitivity_are_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
global:
    retry_count: 2
    health_sensitivity: 0
"
        ),
        @r#"
    error: 'retry_count' is 2, which 'health_sensitivity' forbids
     --> lnet.conf:2:18
      |
    2 |     retry_count: 2
      |                  ^ with a health sensitivity of 0 it must be 0
    "#
    );
}

#[test]
fn more_resends_than_seconds_are_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
transaction_timeout: 5
retry_count: 6
"
        ),
        @r#"
    error: 'retry_count' is 6, which 'transaction_timeout' forbids
     --> lnet.conf:2:14
      |
    2 | retry_count: 6
      |              ^ it is at most the transaction timeout
    "#
    );
}

#[test]
fn broken_yaml_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
net:
- net type: [tcp
"
        ),
        @r#"
    error: the text is not valid YAML: unclosed bracket '['
     --> lnet.conf:2:13
      |
    2 | - net type: [tcp
      |             ^ the parser stopped here
    "#
    );
}

#[test]
fn alias_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
net: &bomb [1, 2]
route: [*bomb, *bomb]
"
        ),
        @r#"
    error: YAML aliases are not supported
     --> lnet.conf:2:9
      |
    2 | route: [*bomb, *bomb]
      |         ^^^^^ write the value out
    "#
    );
}

#[test]
fn second_document_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
global:
    discovery: 1
---
global:
    discovery: 0
"
        ),
        @r#"
    error: a second YAML document begins here
     --> lnet.conf:3:1
      |
    3 | ---
      | ^^^ one file holds one document
    "#
    );
}

#[test]
fn key_that_is_a_list_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
? [a, b]
: 1
"
        ),
        @r#"
    error: a key must be plain text
     --> lnet.conf:1:3
      |
    1 | ? [a, b]
      |   ^ write KEY: VALUE
    "#
    );
}

#[test]
fn document_above_the_size_limit_is_rejected_unread() {
    let error = parse(&"#".repeat(MAX_BYTES + 1)).unwrap_err();
    assert_eq!(
        *error.problem(),
        Problem::TooLarge {
            bytes: MAX_BYTES + 1
        }
    );
    assert_eq!(parse(&"#".repeat(MAX_BYTES)), Ok(crate::Config::default()));
}

#[test]
fn nesting_is_limited() {
    for deep in [
        "[".repeat(100_000),
        "- ".repeat(100_000),
        "{a: ".repeat(100_000),
    ] {
        let error = parse(&deep).unwrap_err();
        assert!(matches!(error.problem(), Problem::NotYaml(_)), "{error}");
    }
}

#[test]
fn keys_and_values_are_limited() {
    let error = parse(&format!("[{}]", "a,".repeat(1_000_001))).unwrap_err();
    assert_eq!(*error.problem(), Problem::TooManyNodes { max: 1_000_000 });
}

#[test]
fn long_values_and_lines_are_shortened() {
    let source = format!(
        "global: {{numa_range: 1, {}: {}}}",
        "k".repeat(900),
        "v".repeat(9000)
    );
    let error = parse(&source).unwrap_err();
    assert!(error.to_string().len() < 600, "{error}");
    assert!(error.render("lnet.conf").len() < 1000);
    let source = format!("global: {{retry_count: {}}}", "v".repeat(9000));
    assert!(rejection(&source).len() < 600);
}

#[test]
fn control_characters_of_a_document_do_not_reach_the_terminal() {
    let rendered = rejection("global: {retry_count: \"\\e[31m\"}\n\u{7F}");
    assert!(!rendered.contains('\u{1B}'), "{rendered:?}");
    let rendered = rejection("retry_count: '\u{9B}31m'\n");
    assert!(!rendered.contains('\u{9B}'), "{rendered:?}");
}

#[test]
fn the_place_is_counted_in_lines_and_characters() {
    let error =
        parse("# \u{E4}\nglobal: {\"retry_count\": \"\u{E4}\", discovery: \u{E4}}\n").unwrap_err();
    assert_eq!((error.line(), error.column()), (2, 25));
    assert_eq!(
        error.to_string(),
        "line 2, column 25: invalid value '\u{E4}' for key 'retry_count'; \
         retry_count is an integer from 0 to 2147483647"
    );
}
