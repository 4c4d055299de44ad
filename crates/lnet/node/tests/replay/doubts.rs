//! Tests that the comparison notices differences: each kind of difference is made once and must be reported.

use std::time::Duration;

use crate::compare::{Allowed, Comparator, MAY_DIFFER};
use crate::layout::Message;
use crate::player::play;
use crate::script::{Captured, Party, Script, Step};
use crate::stage::{Casting, on_loopback};
use crate::{DISCOVERY, FIRST_PING, HIGHER, only_life};

/// Returns the first ping, with our node as the node that answers.
fn answering() -> Script {
    Script::new(&only_life(FIRST_PING), HIGHER)
}

/// Replays on loopback and returns the problems found, one per line.
fn problems(script: &Script, casting: &Casting) -> String {
    on_loopback(script, casting, play).problems.join("\n")
}

fn messages() -> impl Iterator<Item = Message> {
    [FIRST_PING, DISCOVERY]
        .into_iter()
        .flat_map(only_life)
        .map(|Captured { message, .. }| message)
}

fn rule_for(message: &Message, at: usize) -> Option<Allowed> {
    let field = message
        .fields()
        .into_iter()
        .find(|field| field.range.contains(&at))
        .unwrap_or_else(|| panic!("byte {at} of {} is in no field", message.name()));
    MAY_DIFFER
        .iter()
        .find(|rule| rule.message == message.name() && rule.field == field.name)
        .map(|rule| rule.allowed)
}

#[test]
fn every_byte_that_must_be_equal_is_compared() {
    for message in messages() {
        for at in 0..message.0.len() {
            let mut changed = message.clone();
            changed.0[at] ^= 0x40;
            let is_noticed = !Comparator::default().compare(&message, &changed).is_empty();
            let must_be = rule_for(&message, at).is_none();
            assert!(
                is_noticed || !must_be,
                "byte {at} of {} is not compared",
                message.name()
            );
        }
    }
}

#[test]
fn every_rule_is_about_a_field_that_exists_and_says_why() {
    for rule in MAY_DIFFER {
        let has_it = |message: &Message| {
            let fields = message.fields();
            message.name() == rule.message && fields.iter().any(|field| field.name == rule.field)
        };
        assert!(messages().any(|message| has_it(&message)), "{}", rule.field);
        assert!(!rule.reason.is_empty());
    }
}

#[test]
fn a_shorter_or_longer_answer_is_a_difference() {
    for message in messages() {
        let mut longer = message.clone();
        longer.0.push(0);
        let mut shorter = message.clone();
        shorter.0.pop();
        for other in [longer, shorter] {
            let found = Comparator::default().compare(&message, &other);
            assert!(
                found.iter().any(|doubt| doubt.field == "length"),
                "{found:?}"
            );
        }
    }
}

#[test]
fn an_incarnation_that_changes_is_a_difference() {
    let hello = messages()
        .find(|message| message.name() == "HELLO")
        .unwrap();
    let mut other = hello.clone();
    other.0[32] ^= 1;
    let mut comparator = Comparator::default();
    assert_eq!(comparator.compare(&hello, &other), []);
    assert_eq!(comparator.compare(&hello, &other), []);
    let found = comparator.compare(&hello, &hello);
    assert_eq!(found[0].field, "source incarnation");
}

#[test]
fn a_handle_that_is_used_again_is_a_difference() {
    let get = messages().find(|message| message.name() == "GET").unwrap();
    let mut comparator = Comparator::default();
    assert_eq!(comparator.compare(&get, &get), []);
    assert_eq!(comparator.compare(&get, &get)[0].field, "handle object");
}

#[test]
fn another_pid_is_told_apart() {
    let mut script = answering();
    for step in &mut script.steps {
        if step.party == Party::Node && step.message.name() == "HELLO" {
            step.message.0[24] ^= 1;
        }
    }
    let found = problems(&script, &Casting::default());
    assert!(found.contains("HELLO, source pid"), "{found}");
}

#[test]
fn a_node_with_another_interface_is_told_apart() {
    let casting = Casting {
        more_nids: &["127.0.0.3@tcp1"],
        ..Casting::default()
    };
    let found = problems(&answering(), &casting);
    assert!(found.contains("REPLY, info entries"), "{found}");
    assert!(found.contains("REPLY, length"), "{found}");
}

#[test]
fn a_node_with_another_nid_is_told_apart() {
    let mut script = answering();
    let request = &mut script.steps[0].message;
    assert_eq!(request.name(), "CONNREQ");
    request.0[8] = 77;
    let found = problems(&script, &Casting::default());
    assert!(found.contains("the node closed the connection"), "{found}");
    assert!(found.contains("no_such_ni"), "{found}");
}

#[test]
fn a_missing_answer_is_told() {
    let mut script = answering();
    let answer = script
        .steps
        .iter()
        .find(|step| step.message.name() == "REPLY");
    let again = answer.unwrap().clone();
    script.steps.push(again);
    let casting = Casting {
        patience: Duration::from_millis(200),
        ..Casting::default()
    };
    let found = problems(&script, &casting);
    assert!(found.contains("REPLY: the node says nothing"), "{found}");
}

#[test]
fn an_answer_too_many_is_told() {
    let mut script = answering();
    let is_answer = |step: &Step| step.party == Party::Node && step.message.name() == "REPLY";
    let last = script.steps.iter().rposition(is_answer).unwrap();
    script.steps.truncate(last);
    let found = problems(&script, &Casting::default());
    assert!(found.contains("more than the kernel said"), "{found}");
}
