//! All problems of a document, and the values that are read nevertheless.

use proptest::prelude::*;

use super::strategies::{any_document, cases};
use crate::{Position, Problem, Step, parse, read, survey};

const BROKEN: &str = "\
net:
- net type: tcp
  local NI(s):
  - {nid: 10.0.0.300@tcp, tunables: {credits: many}}
  - {nid: 10.0.0.2@tcp, tunables: {peer_credits: -7}}
- net type: nosuch
  local NI(s): [{nid: 1@nosuch}]
route:
- {net: tcp1, gateway: 10.0.0.300@tcp}
- {net: tcp1, gateway: 10.0.0.9@tcp, hop: 0, priority: -1}
- {gateway: 10.0.0.9@tcp}
- {net: tcp, gateway: 10.0.0.9@tcp}
- {net: o2ib, gateway: 10.0.0.9@tcp, hop: 1}
- {net: o2ib, gateway: 10.0.0.9@tcp, hop: 1}
peer:
- {primary nid: 10.0.0.5, peer ni: [{nid: nonsense}]}
- {primary nid: 10.0.0.6@tcp, peer ni: [{nid: x}, {nid: 10.1.0.6@tcp1}]}
udsp:
- {idx: 0, src: tcp, priority: high}
- {idx: 1, src: tcp, action: {priority: 0}}
routing: {enable: maybe}
buffers: {tiny: -1, small: 512}
global: {retry_count: x, discovery: 1, discovery: 0, transaction_timeout: 0}
global: {retry_count: 9, transaction_timeout: 5}
";

#[test]
fn one_survey_finds_all_that_is_wrong() {
    let survey = survey(BROKEN).unwrap();
    let mut lines: Vec<usize> = survey.rejected.iter().map(|error| error.line()).collect();
    lines.sort_unstable();
    let expected = [
        4, 4, 5, 6, 9, 10, 10, 11, 12, 14, 16, 16, 17, 19, 21, 22, 23, 23, 23, 23, 24,
    ];
    assert_eq!(lines, expected);
    for section in ["net", "route", "peer", "udsp", "routing"] {
        assert!(survey.lacks(section), "{section}");
    }
    assert!(!survey.lacks("buffers") && !survey.lacks("global"));
    let document = &survey.document;
    assert_eq!(document.nets[0].nis.len(), 1);
    assert_eq!(document.routes.len(), 4);
    assert_eq!(document.peers[0].nis.len(), 1);
    assert_eq!(document.udsp.len(), 1);
    assert_eq!(document.buffers.small, Some(512));
    assert_eq!(document.globals.discovery, Some(true));
}

/// Items that are left out do not change the places of later items.
#[test]
fn what_was_read_is_found_behind_what_was_rejected() {
    let survey = survey(BROKEN).unwrap();
    let path = [Step::Key("route"), Step::Item(2), Step::Key("net")];
    // Two of the earlier entries are left out.
    let expected = Position {
        line: 13,
        column: 4,
    };
    assert_eq!(survey.places.find(&path), expected);
    let steps = [Step::Key("route"), Step::Item(4), Step::Key("net")];
    assert_eq!(survey.places.steps(&path), steps);
    assert_eq!(survey.places.text(&path), Some("o2ib"));
    let hop = [Step::Key("route"), Step::Item(0), Step::Key("hop")];
    assert!(survey.places.is_rejected(&hop) && survey.places.is_rejected(&hop[..2]));
    assert!(!survey.places.is_rejected(&path));
}

#[test]
fn a_complaint_has_its_way_as_the_text_counts() {
    let survey = survey(BROKEN).unwrap();
    let mut rejected = survey.rejected.iter();
    let error = rejected.find(|error| error.line() == 17).unwrap();
    let expected = [
        Step::Key("peer"),
        Step::Item(1),
        Step::Key("peer ni"),
        Step::Item(0),
        Step::Key("nid"),
    ];
    assert_eq!(survey.places.path(error), expected);
}

#[test]
fn complaints_are_limited_and_the_rest_is_counted() {
    let text = format!("route:\n{}", "- {net: tcp1, gateway: 1}\n".repeat(5000));
    let survey = survey(&text).unwrap();
    assert_eq!((survey.rejected.len(), survey.more_rejected), (100, 4900));
}

/// Problems that a survey leaves to the checkers of a document.
fn is_left(problem: &Problem) -> bool {
    matches!(
        problem,
        Problem::InvalidKey { .. }
            | Problem::NoConfiguration { .. }
            | Problem::GatewayNotLocal(_)
            | Problem::Rule(_)
    )
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn nothing_is_wrong_with_what_nodes_print(document in any_document()) {
        let text = document.to_yaml();
        let survey = survey(&text).unwrap();
        prop_assert_eq!(survey.rejected, []);
        prop_assert_eq!(survey.unknown, []);
        prop_assert_eq!(survey.document, document);
    }

    /// A survey finds every problem that stops an import, and reads as much as
    /// [`read`](crate::read).
    #[test]
    fn a_survey_finds_what_an_import_stops_at(
        document in any_document(),
        at in any::<prop::sample::Index>(),
        put in "[a-z0-9:{}\\[\\],&*!|>'\"%@`# \n\t-]|.",
    ) {
        let mut text = document.to_yaml();
        let at = at.index(text.len() + 1);
        let at = (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap();
        text.insert_str(at, &put);
        let Ok(survey) = survey(&text) else {
            prop_assert!(read(&text).is_err());
            return Ok(());
        };
        if let Err(error) = parse(&text) {
            let is_found = survey.rejected.contains(&error) || is_left(error.problem());
            prop_assert!(is_found, "{}\n{:#?}", error.render("text"), survey.rejected);
        }
        if let Ok(reading) = read(&text) {
            prop_assert_eq!(reading.document, survey.document);
        }
    }
}
