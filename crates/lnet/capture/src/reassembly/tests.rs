use proptest::prelude::*;

use super::*;

const NOW: Time = Time::from_secs(100);

/// All pieces that are delivered without the end, then those at the end.
fn collect(reassembler: &mut Reassembler, now: Time) -> Vec<Piece> {
    std::iter::from_fn(|| reassembler.next(now)).collect()
}

fn text(pieces: &[Piece]) -> String {
    let one = |piece: &Piece| match piece {
        Piece::Bytes(_, bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Piece::Lost(lost) => format!("<{lost}>"),
    };
    pieces.iter().map(one).collect()
}

#[test]
fn segments_out_of_order_are_put_in_order() {
    let mut stream = Reassembler::new(1000);
    stream.push(NOW, 1003, b"def", 0);
    assert_eq!(text(&collect(&mut stream, NOW)), "");
    stream.push(NOW, 1000, b"abc", 0);
    assert_eq!(text(&collect(&mut stream, NOW)), "abcdef");
    assert_eq!(stream.waiting(), 0);
}

#[test]
fn overlapping_bytes_are_delivered_once() {
    let mut stream = Reassembler::new(1000);
    stream.push(NOW, 1000, b"abcd", 0);
    stream.push(NOW, 1002, b"cdef", 0);
    stream.push(NOW, 1000, b"abcdefgh", 0);
    assert_eq!(text(&collect(&mut stream, NOW)), "abcdefgh");
}

#[test]
fn a_keepalive_probe_in_front_of_the_stream_delivers_nothing() {
    let mut stream = Reassembler::new(1000);
    stream.push(NOW, 999, b"x", 0);
    assert_eq!(text(&collect(&mut stream, NOW)), "");
}

#[test]
fn the_sequence_number_may_wrap() {
    let mut stream = Reassembler::new(u32::MAX - 1);
    stream.push(NOW, 1, b"de", 0);
    stream.push(NOW, u32::MAX - 1, b"abc", 0);
    assert_eq!(text(&collect(&mut stream, NOW)), "abcde");
}

#[test]
fn an_acknowledged_hole_is_given_up_after_the_reorder_limit() {
    let mut stream = Reassembler::new(0);
    stream.push(NOW, 3, b"def", 0);
    stream.acknowledge(6);
    assert_eq!(text(&collect(&mut stream, NOW + REORDER_MAX)), "");
    let later = NOW + REORDER_MAX + Duration::from_nanos(1);
    assert_eq!(text(&collect(&mut stream, later)), "<3>def");
}

#[test]
fn a_hole_nobody_acknowledged_is_waited_for() {
    let mut stream = Reassembler::new(0);
    stream.push(NOW, 3, b"def", 0);
    assert_eq!(
        text(&collect(&mut stream, NOW + Duration::from_secs(3600))),
        ""
    );
    assert_eq!(stream.drain(), Some(Piece::Lost(3)));
}

#[test]
fn too_many_bytes_behind_a_hole_give_it_up() {
    let mut stream = Reassembler::new(0);
    let big = vec![b'x'; EARLY_BYTES_MAX];
    stream.push(NOW, 3, &big, 0);
    assert_eq!(stream.next(NOW), None);
    stream.push(NOW, 3 + big.len() as u32, b"y", 0);
    assert_eq!(stream.next(NOW), Some(Piece::Lost(3)));
}

#[test]
fn what_the_snap_length_cut_is_lost_at_once() {
    let mut stream = Reassembler::new(0);
    stream.push(NOW, 0, b"abc", 4);
    stream.push(NOW, 7, b"hij", 0);
    assert_eq!(text(&collect(&mut stream, NOW)), "abc<4>hij");
}

#[test]
fn a_full_retransmission_of_a_cut_segment_fills_it() {
    let mut stream = Reassembler::new(0);
    stream.push(NOW, 3, b"d", 2);
    stream.push(NOW, 3, b"def", 0);
    stream.push(NOW, 0, b"abc", 0);
    assert_eq!(text(&collect(&mut stream, NOW)), "abcdef");
}

/// A stream, and pieces that together cover it: cut anywhere, some repeated, in any order.
fn shuffled() -> impl Strategy<Value = (Vec<u8>, Vec<(usize, usize)>)> {
    (1usize..400).prop_flat_map(|length| {
        let stream = proptest::collection::vec(any::<u8>(), length);
        let cuts = proptest::collection::vec((0..length, 1..length + 1), 0..40);
        let cover = proptest::collection::vec(1..20usize, 1..40);
        (stream, cuts, cover).prop_flat_map(move |(stream, cuts, cover)| {
            let mut pieces: Vec<_> = cuts
                .into_iter()
                .map(|(at, len)| (at, (at + len).min(length)))
                .collect();
            let mut at = 0;
            for step in cover.into_iter().cycle() {
                pieces.push((at, (at + step).min(length)));
                at += step;
                if at >= length {
                    break;
                }
            }
            (Just(stream), Just(pieces).prop_shuffle())
        })
    })
}

proptest! {
    #[test]
    fn any_segmentation_gives_the_same_stream((stream, pieces) in shuffled(), first: u32) {
        let mut reassembler = Reassembler::new(first);
        let mut out = Vec::new();
        for (from, to) in pieces {
            reassembler.push(NOW, first.wrapping_add(from as u32), &stream[from..to], 0);
            while let Some(piece) = reassembler.next(NOW) {
                let Piece::Bytes(_, bytes) = piece else {
                    return Err(TestCaseError::fail("nothing was lost"));
                };
                out.extend(bytes);
            }
        }
        prop_assert_eq!(out, stream);
        prop_assert_eq!(reassembler.waiting(), 0);
    }
}
