//! TCP streams that are cut, repeated, out of order, incomplete, joined late, or unfinished.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use proptest::prelude::*;

use common::capture::{ACK, FIN, RST, SYN, Segment, pcap_of};
use common::talk::{DIALLER_SAYS, LISTENER_SAYS, Talk, conversation, ping, put};
use common::{Said, listen_to};

const DIALLER_SYN: u32 = u32::MAX - 200;
const LISTENER_SYN: u32 = 5000;

fn handshake() -> Vec<Segment> {
    let answer = Segment::from_listener(LISTENER_SYN, SYN, &[]);
    vec![
        Segment::from_dialler(DIALLER_SYN, SYN, &[]),
        answer.acknowledging(DIALLER_SYN.wrapping_add(1)),
    ]
}

fn dialler_segment(talk: &Talk, from: usize, to: usize) -> Segment {
    let sequence = DIALLER_SYN.wrapping_add(1 + from as u32);
    Segment::from_dialler(sequence, ACK, &talk.dialler[from..to])
}

fn listener_segment(talk: &Talk, from: usize, to: usize) -> Segment {
    Segment::from_listener(
        LISTENER_SYN + 1 + from as u32,
        ACK,
        &talk.listener[from..to],
    )
}

/// The whole conversation in two segments.
fn plain(talk: &Talk) -> Vec<Segment> {
    let mut segments = handshake();
    segments.push(dialler_segment(talk, 0, talk.dialler.len()));
    segments.push(listener_segment(talk, 0, talk.listener.len()));
    segments
}

/// Cuts `length` bytes into ranges that overlap, repeat, and come in any order.
fn cuts(length: usize) -> impl Strategy<Value = Vec<(usize, usize)>> {
    let steps = proptest::collection::vec((1..200usize, 0..40usize), 1..60);
    steps.prop_flat_map(move |steps| {
        let mut ranges = Vec::new();
        let mut at = 0usize;
        for (step, back) in steps.into_iter().cycle() {
            ranges.push((at.saturating_sub(back), (at + step).min(length)));
            at += step;
            if at >= length {
                break;
            }
        }
        Just(ranges).prop_shuffle()
    })
}

fn assert_is_whole(said: &Said) {
    assert_eq!(said.dialler, DIALLER_SAYS);
    assert_eq!(said.listener, LISTENER_SAYS);
    let talk = conversation();
    let all = (talk.dialler.len() + talk.listener.len()) as u64;
    assert_eq!(said.summary.bytes.decoded, all, "{:?}", said.summary);
}

#[test]
fn a_conversation_in_two_segments_is_decoded() {
    assert_is_whole(&listen_to(&pcap_of(&plain(&conversation()))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn any_segmentation_gives_the_same_messages(
        (dialler, listener) in {
            let talk = conversation();
            (cuts(talk.dialler.len()), cuts(talk.listener.len()))
        },
    ) {
        let talk = conversation();
        let mut segments = handshake();
        // The listener's bytes come first, so its REPLY precedes the ping and its payload stays
        // opaque.
        segments.extend(listener.into_iter().map(|(from, to)| listener_segment(&talk, from, to)));
        segments.extend(dialler.into_iter().map(|(from, to)| dialler_segment(&talk, from, to)));
        let said = listen_to(&pcap_of(&segments));
        prop_assert_eq!(&said.dialler, &DIALLER_SAYS);
        prop_assert_eq!(&said.listener, &LISTENER_SAYS);
        prop_assert!(said.summary.is_complete());
        prop_assert_eq!(said.summary.bytes.lost, 0);
    }

    /// The summary accounts for every byte that was not lost.
    #[test]
    fn any_loss_is_accounted_for(
        ranges in cuts(conversation().dialler.len()),
        lost in proptest::collection::vec(any::<prop::sample::Index>(), 1..4),
    ) {
        let talk = conversation();
        let mut ranges = ranges;
        for index in lost {
            if !ranges.is_empty() {
                ranges.remove(index.index(ranges.len()));
            }
        }
        let mut there = vec![false; talk.dialler.len()];
        ranges.iter().for_each(|&(from, to)| there[from..to].fill(true));
        let captured = there.iter().filter(|there| **there).count() as u64;
        let end = there.iter().rposition(|there| *there).map_or(0, |last| last + 1) as u64;
        let mut segments = handshake();
        segments.extend(ranges.into_iter().map(|(from, to)| dialler_segment(&talk, from, to)));
        let bytes = listen_to(&pcap_of(&segments)).summary.bytes;
        let accounted =
            bytes.decoded + bytes.undecoded + bytes.cut + bytes.before_join + bytes.unaccepted;
        prop_assert_eq!(accounted, captured, "{:?}", bytes);
        prop_assert!(bytes.lost >= end - captured, "{:?}", bytes);
    }
}

#[test]
fn a_gap_inside_a_payload_costs_only_the_payload() {
    let talk = conversation();
    let inside = talk.dialler.len() - 33 - 120 - 96 - 24 - 300;
    let mut segments = handshake();
    segments.push(dialler_segment(&talk, 0, inside));
    segments.push(dialler_segment(&talk, inside + 100, talk.dialler.len()));
    let said = listen_to(&pcap_of(&segments));
    assert_eq!(said.dialler, DIALLER_SAYS);
    assert_eq!(
        (said.summary.bytes.lost, said.summary.bytes.undecoded),
        (100, 0)
    );
}

#[test]
fn a_gap_in_a_header_resumes_at_the_next_frame() {
    let talk = conversation();
    let ping_at = 16 + 56;
    let mut segments = handshake();
    segments.push(dialler_segment(&talk, 0, ping_at + 10));
    segments.push(dialler_segment(&talk, ping_at + 50, talk.dialler.len()));
    let said = listen_to(&pcap_of(&segments));
    let expected = [
        "CONNREQ", "HELLO", "GAP", "RESUMED", "PUT", "PUT", "NOOP", "PUT",
    ];
    assert_eq!(said.dialler, expected);
    // Ten bytes before the gap, and the rest of the GET after it.
    assert_eq!(
        (said.summary.bytes.lost, said.summary.bytes.undecoded),
        (40, 10 + 46)
    );
}

#[test]
fn a_gap_that_was_acknowledged_is_reported_while_the_capture_goes_on() {
    let talk = conversation();
    let mut segments = handshake();
    segments.push(dialler_segment(&talk, 0, 80));
    segments.push(dialler_segment(&talk, 90, talk.dialler.len()));
    segments.push(listener_segment(&talk, 0, 56).acknowledging(DIALLER_SYN.wrapping_add(2000)));
    assert!(
        listen_to(&pcap_of(&segments))
            .dialler
            .contains(&"GAP".to_owned())
    );
}

#[test]
fn a_connection_that_began_earlier_is_joined_at_a_frame() {
    let tail = [0x55; 37];
    let stream = [tail.as_slice(), &put(64), &ping()].concat();
    let segments = [Segment::from_dialler(77, ACK, &stream)];
    let said = listen_to(&pcap_of(&segments));
    assert_eq!(said.dialler, ["JOINED", "PUT", "GET"]);
    assert_eq!(
        (said.summary.joined, said.summary.bytes.before_join),
        (1, 37)
    );
    assert!(said.summary.is_complete());
}

#[test]
fn a_connection_without_a_frame_is_passed_over() {
    let segments = [Segment::from_dialler(77, ACK, &[0x55; 500])];
    let said = listen_to(&pcap_of(&segments));
    assert_eq!(said.dialler, ["SKIPPED"]);
    assert_eq!(said.summary.bytes.before_join, 500);
}

#[test]
fn a_frame_cut_by_a_reset_is_no_damage() {
    let talk = conversation();
    let mut segments = plain(&talk);
    let at = DIALLER_SYN.wrapping_add(1 + talk.dialler.len() as u32);
    segments.push(Segment::from_dialler(at, ACK, &ping()[..30]));
    segments.push(Segment::from_dialler(at.wrapping_add(30), RST, &[]));
    let said = listen_to(&pcap_of(&segments));
    assert_eq!(said.dialler.last().map(String::as_str), Some("CUT"));
    assert_eq!(said.summary.bytes.cut, 30);
    assert!(said.summary.is_complete());
}

#[test]
fn junk_at_the_end_is_damage() {
    let talk = conversation();
    let mut segments = plain(&talk);
    let at = DIALLER_SYN.wrapping_add(1 + talk.dialler.len() as u32);
    segments.push(Segment::from_dialler(at, ACK | FIN, b"junk!"));
    let said = listen_to(&pcap_of(&segments));
    assert!(said.dialler.contains(&"BROKEN".to_owned()), "{said:?}");
    assert_eq!(said.summary.bytes.undecoded, 5);
}

#[test]
fn a_port_used_again_is_a_new_connection() {
    let talk = conversation();
    let mut segments = plain(&talk);
    let again = 999;
    segments.push(Segment::from_dialler(again, SYN, &[]));
    segments.push(Segment::from_dialler(again + 1, ACK, &talk.dialler));
    let said = listen_to(&pcap_of(&segments));
    assert_eq!(said.summary.connections, 2);
    assert_eq!(said.dialler, [DIALLER_SAYS, DIALLER_SAYS].concat());
}
