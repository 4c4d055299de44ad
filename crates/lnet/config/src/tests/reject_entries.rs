//! Entries that are rejected, and what the user then sees: networks, routes, peers.

use super::rejection;

#[test]
fn bad_net_name_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
net:
- net type: tpc
  local NI(s):
  - interfaces: {0: eth0}
"
        ),
        @r#"
    error: invalid value 'tpc' for key 'net type'
     --> lnet.conf:2:13
      |
    2 | - net type: tpc
      |             ^^^ unknown network type 'tpc'; a network is a type and a number, such as tcp or o2ib3
    "#
    );
}

#[test]
fn missing_net_type_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
net:
- local NI(s):
  - interfaces: {0: eth0}
"
        ),
        @r#"
    error: 'net type' is missing
     --> lnet.conf:2:3
      |
    2 | - local NI(s):
      |   ^ add 'net type:' to this entry
    "#
    );
}

#[test]
fn net_without_interface_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
net:
- net type: tcp
"
        ),
        @r#"
    error: network tcp has neither an interface nor a NID
     --> lnet.conf:2:13
      |
    2 | - net type: tcp
      |             ^^^ name one, as in 'interfaces: {0: eth0}' or 'nid: 10.0.0.1@tcp'
    "#
    );
}

#[test]
fn interface_entry_without_name_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
net:
- net type: tcp
  local NI(s):
  - tunables:
      credits: 8
"
        ),
        @r#"
    error: network tcp has neither an interface nor a NID
     --> lnet.conf:4:5
      |
    4 |   - tunables:
      |     ^ name one, as in 'interfaces: {0: eth0}' or 'nid: 10.0.0.1@tcp'
    "#
    );
}

#[test]
fn net_given_twice_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
net:
- net type: tcp
  local NI(s):
  - interfaces: {0: eth0}
- net type: tcp0
  local NI(s):
  - interfaces: {0: eth1}
"
        ),
        @r#"
    error: network tcp is configured twice
     --> lnet.conf:5:13
      |
    5 | - net type: tcp0
      |             ^^^^ list its interfaces under one 'local NI(s)'
    "#
    );
}

#[test]
fn interface_given_twice_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
net:
- net type: tcp
  local NI(s):
  - interfaces: {0: eth0}
  - interfaces: {0: eth0}
"
        ),
        @r#"
    error: interface eth0 is configured twice on network tcp
     --> lnet.conf:5:5
      |
    5 |   - interfaces: {0: eth0}
      |     ^ remove one, or give each its 'nid'
    "#
    );
}

#[test]
fn nid_given_twice_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
net:
- net type: tcp
  local NI(s):
  - nid: 10.0.0.1@tcp
  - nid: 10.0.0.1@tcp
"
        ),
        @r#"
    error: 10.0.0.1@tcp is given twice
     --> lnet.conf:5:10
      |
    5 |   - nid: 10.0.0.1@tcp
      |          ^^^^^^^^^^^^ remove one of them
    "#
    );
}

#[test]
fn nid_of_another_net_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
net:
- net type: tcp
  local NI(s):
  - nid: 10.0.0.1@tcp1
"
        ),
        @r#"
    error: 10.0.0.1@tcp1 is not on network tcp
     --> lnet.conf:4:10
      |
    4 |   - nid: 10.0.0.1@tcp1
      |          ^^^^^^^^^^^^^ write a NID that ends in @tcp
    "#
    );
}

#[test]
fn nid_for_several_interfaces_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
net:
- net type: tcp
  local NI(s):
  - nid: 10.0.0.1@tcp
    interfaces: {0: eth0, 1: eth1}
"
        ),
        @r#"
    error: 10.0.0.1@tcp cannot be the NID of several interfaces
     --> lnet.conf:4:5
      |
    4 |   - nid: 10.0.0.1@tcp
      |     ^ name one interface for each NID
    "#
    );
}

#[test]
fn bad_nid_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
net:
- net type: tcp
  local NI(s):
  - nid: 10.0.0.256@tcp
"
        ),
        @r#"
    error: invalid value '10.0.0.256@tcp' for key 'nid'
     --> lnet.conf:4:10
      |
    4 |   - nid: 10.0.0.256@tcp
      |          ^^^^^^^^^^^^^^ '10.0.0.256' is not an address on a tcp network, which has IP addresses such as 10.0.0.1 or fd00::1
    "#
    );
}

#[test]
fn tunable_out_of_range_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
net:
- net type: tcp
  local NI(s):
  - nid: 10.0.0.1@tcp
    lnd tunables:
        conns_per_peer: 128
"
        ),
        @r#"
    error: invalid value '128' for key 'conns_per_peer'
     --> lnet.conf:6:25
      |
    6 |         conns_per_peer: 128
      |                         ^^^ conns_per_peer is 0 to 127, or -1 for the default
    "#
    );
}

#[test]
fn backwards_cpt_list_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
net:
- net type: tcp
  local NI(s):
  - nid: 10.0.0.1@tcp
    CPT: \"[1-0]\"
"
        ),
        @r#"
    error: invalid value '[1-0]' for key 'CPT'
     --> lnet.conf:5:10
      |
    5 |     CPT: "[1-0]"
      |          ^^^^^^^ the range 1-0 runs backwards; write 0-1 (at character 2)
    "#
    );
}

#[test]
fn empty_cpt_list_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
net:
- net type: tcp
  local NI(s):
  - nid: 10.0.0.1@tcp
    CPT: []
"
        ),
        @r#"
    error: invalid value '[]' for key 'CPT'
     --> lnet.conf:5:10
      |
    5 |     CPT: []
      |          ^ a number or '*' belongs here (at character 2)
    "#
    );
}

#[test]
fn route_without_gateway_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
route:
- net: tcp5
"
        ),
        @r#"
    error: 'gateway' is missing
     --> lnet.conf:2:3
      |
    2 | - net: tcp5
      |   ^ add 'gateway:' to this entry
    "#
    );
}

#[test]
fn hop_out_of_range_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
route:
- net: tcp5
  gateway: 10.0.0.3@tcp
  hop: 300
"
        ),
        @r#"
    error: invalid value '300' for key 'hop'
     --> lnet.conf:4:8
      |
    4 |   hop: 300
      |        ^^^ hop is 1 to 255, or -1 for the default
    "#
    );
}

#[test]
fn hop_zero_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
route:
- net: tcp5
  gateway: 10.0.0.3@tcp
  hop: 0
"
        ),
        @r#"
    error: invalid value '0' for key 'hop'
     --> lnet.conf:4:8
      |
    4 |   hop: 0
      |        ^ hop is 1 to 255, or -1 for the default
    "#
    );
}

#[test]
fn negative_priority_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
route:
- net: tcp5
  gateway: 10.0.0.3@tcp
  priority: -5
"
        ),
        @r#"
    error: invalid value '-5' for key 'priority'
     --> lnet.conf:4:13
      |
    4 |   priority: -5
      |             ^^ priority is an integer from 0 to 4294967295
    "#
    );
}

#[test]
fn bad_gateway_expression_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
route:
- net: tcp5
  gateway: 10.0.0.[9-3]@tcp
"
        ),
        @r#"
    error: invalid value '10.0.0.[9-3]@tcp' for key 'gateway'
     --> lnet.conf:3:12
      |
    3 |   gateway: 10.0.0.[9-3]@tcp
      |            ^^^^^^^^^^^^^^^^ the range 9-3 runs backwards; write 3-9 (at character 9)
    "#
    );
}

#[test]
fn too_many_gateways_are_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
route:
- net: tcp5
  gateway: 10.0.0.*@tcp
"
        ),
        @r#"
    error: invalid value '10.0.0.*@tcp' for key 'gateway'
     --> lnet.conf:3:12
      |
    3 |   gateway: 10.0.0.*@tcp
      |            ^^^^^^^^^^^^ 256 values, the limit is 128
    "#
    );
}

#[test]
fn route_to_a_local_net_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
net:
- net type: tcp
  local NI(s):
  - interfaces: {0: eth0}
route:
- net: tcp
  gateway: 10.0.0.3@o2ib
"
        ),
        @r#"
    error: network tcp is local, so there is no route to it
     --> lnet.conf:6:8
      |
    6 | - net: tcp
      |        ^^^ remove the route or the local network
    "#
    );
}

#[test]
fn route_to_loopback_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
route:
- net: lo
  gateway: 10.0.0.3@tcp
"
        ),
        @r#"
    error: lo cannot be routed to
     --> lnet.conf:2:8
      |
    2 | - net: lo
      |        ^^ write a remote network, such as o2ib1
    "#
    );
}

#[test]
fn gateway_on_the_remote_net_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
net:
- net type: tcp
  local NI(s):
  - interfaces: {0: eth0}
route:
- net: tcp5
  gateway: 10.0.0.3@tcp5
"
        ),
        @r#"
    error: gateway 10.0.0.3@tcp5 is on the remote network tcp5 itself
     --> lnet.conf:7:12
      |
    7 |   gateway: 10.0.0.3@tcp5
      |            ^^^^^^^^^^^^^ a gateway is named by its NID on a network under 'net'
    "#
    );
}

#[test]
fn gateway_on_no_local_net_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
net:
- net type: tcp
  local NI(s):
  - interfaces: {0: eth0}
route:
- net: tcp5
  gateway: 10.0.0.3@tcp1
"
        ),
        @r#"
    error: gateway 10.0.0.3@tcp1 is not on a local network
     --> lnet.conf:7:12
      |
    7 |   gateway: 10.0.0.3@tcp1
      |            ^^^^^^^^^^^^^ a gateway is named by its NID on a network under 'net'
    "#
    );
}

#[test]
fn own_nid_as_gateway_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
net:
- net type: tcp
  local NI(s):
  - nid: 10.0.0.1@tcp
route:
- net: tcp5
  gateway: 10.0.0.[1-3]@tcp
"
        ),
        @r#"
    error: gateway 10.0.0.1@tcp is this node itself
     --> lnet.conf:7:12
      |
    7 |   gateway: 10.0.0.[1-3]@tcp
      |            ^^^^^^^^^^^^^^^^ name the NID of another node
    "#
    );
}

#[test]
fn route_given_twice_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
route:
- net: tcp5
  gateway: 10.0.0.3@tcp
- net: tcp5
  gateway: 10.0.0.[3-4]@tcp
  hop: 2
"
        ),
        @r#"
    error: the route to tcp5 by 10.0.0.3@tcp is given twice
     --> lnet.conf:5:12
      |
    5 |   gateway: 10.0.0.[3-4]@tcp
      |            ^^^^^^^^^^^^^^^^ remove one of them
    "#
    );
}

#[test]
fn peer_without_primary_nid_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
peer:
- peer ni:
  - nid: 10.0.0.3@tcp
"
        ),
        @r#"
    error: 'primary nid' is missing
     --> lnet.conf:2:3
      |
    2 | - peer ni:
      |   ^ add 'primary nid:' to this entry
    "#
    );
}

#[test]
fn peer_nid_given_twice_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
peer:
- primary nid: 10.0.0.3@tcp
- primary nid: 10.0.0.4@tcp
  peer ni:
  - nid: 10.0.0.3@tcp
"
        ),
        @r#"
    error: 10.0.0.3@tcp is given twice
     --> lnet.conf:5:10
      |
    5 |   - nid: 10.0.0.3@tcp
      |          ^^^^^^^^^^^^ remove one of them
    "#
    );
}

#[test]
fn loopback_peer_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
peer:
- primary nid: 0@lo
"
        ),
        @r#"
    error: 0@lo cannot be a peer
     --> lnet.conf:2:16
      |
    2 | - primary nid: 0@lo
      |                ^^^^ write the NID of another node
    "#
    );
}

#[test]
fn bad_multi_rail_is_rejected() {
    insta::assert_snapshot!(
        rejection(
            "\
peer:
- primary nid: 10.0.0.3@tcp
  Multi-Rail: maybe
"
        ),
        @r#"
    error: invalid value 'maybe' for key 'Multi-Rail'
     --> lnet.conf:3:15
      |
    3 |   Multi-Rail: maybe
      |               ^^^^^ Multi-Rail is True or False
    "#
    );
}
