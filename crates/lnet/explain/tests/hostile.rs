//! States that no node sent: each number of a valid state is replaced by extreme numbers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use lnet_explain::{Node, explain};
use serde_json::Value;

use common::{ask, node};

const TO: &str = "10.9.0.7@tcp9";

/// A node with every kind of object that a state can contain.
const NODE: &str = "\
net:
- net type: tcp
  local NI(s):
  - {nid: 10.0.0.1@tcp, health stats: {health value: 500, ping_count: 2}}
  - {nid: 10.0.0.2@tcp}
peer:
- primary nid: 10.9.0.7@tcp9
  Multi-Rail: true
  peer ni:
  - {nid: 10.9.0.7@tcp9, health stats: {health value: 0, ping_count: 3}}
  - {nid: 10.0.0.7@tcp, health stats: {health value: 900}}
route:
- {net: tcp9, gateway: 10.0.0.9@tcp, hop: 2, priority: 1, state: up}
udsp:
- {idx: 0, src: tcp, action: {priority: 3}}
- {idx: 1, src: 10.0.0.1@tcp, dst: 10.0.0.7@tcp}
";

/// Collects the JSON pointers of all numbers and nulls.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Number(_) | Value::Null => found.push(at.to_owned()),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                places(item, &format!("{at}/{index}"), found);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                places(field, &format!("{at}/{name}"), found);
            }
        }
        _ => {}
    }
}

#[test]
fn no_number_in_a_state_makes_explain_panic_or_hang() {
    let sound = node(NODE);
    let text = lnet_core::state_json::to_json(sound.state, sound.now).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    let mut found = Vec::new();
    places(&document, "", &mut found);
    let (mut explained, mut refused) = (0, 0);
    for place in &found {
        for number in [0, u64::from(u32::MAX), 1 << 62, u64::MAX] {
            let mut changed = document.clone();
            *changed.pointer_mut(place).unwrap() = Value::from(number);
            let Ok(node) = Node::from_json(&changed.to_string()) else {
                refused += 1;
                continue;
            };
            match explain(&node, &ask(TO)) {
                Ok(_) => explained += 1,
                Err(_) => refused += 1,
            }
        }
    }
    assert!(explained > 100, "{explained} explained, {refused} refused");
    assert!(refused > 10, "{explained} explained, {refused} refused");
}
