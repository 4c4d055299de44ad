//! What frames acknowledge, and their checksum.

use lnet_wire::{ByteOrder, FrameChecksum, FrameType, KsockHeader, ZcAck};
use proptest::prelude::*;

use crate::strategies;

fn noop(cookies: [u64; 2]) -> KsockHeader {
    KsockHeader {
        frame_type: FrameType::Noop,
        csum: 0,
        cookies,
    }
}

fn lnet(cookies: [u64; 2]) -> KsockHeader {
    KsockHeader {
        frame_type: FrameType::Lnet,
        csum: 0,
        cookies,
    }
}

// [ZC-4]
#[test]
fn noop_with_one_word_acknowledges_one_cookie() {
    assert_eq!(noop([0, 42]).zc_ack(), Ok(ZcAck::One(42)));
}

#[test]
fn noop_with_falling_words_acknowledges_both() {
    assert_eq!(noop([9, 7]).zc_ack(), Ok(ZcAck::Pair(9, 7)));
}

#[test]
fn noop_with_rising_words_acknowledges_the_range() {
    let ack = noop([7, 9]).zc_ack().unwrap();
    assert_eq!(ack, ZcAck::Range { first: 7, last: 9 });
    assert_eq!(
        (6..11)
            .filter(|&cookie| ack.contains(cookie))
            .collect::<Vec<_>>(),
        [7, 8, 9]
    );
    assert_eq!(ack.count(), 3);
}

#[test]
fn noop_with_equal_words_acknowledges_one_cookie() {
    assert_eq!(noop([7, 7]).zc_ack(), Ok(ZcAck::One(7)));
}

// [KEEP-3]
#[test]
fn keepalive_acknowledges_nothing() {
    assert_eq!(noop([0, 1]).zc_ack(), Ok(ZcAck::Keepalive));
    assert_eq!(noop([0, 0]).zc_ack(), Ok(ZcAck::None));
}

// [ZC-7]
#[test]
fn keepalive_with_another_cookie_is_a_protocol_error() {
    assert_eq!(noop([5, 1]).zc_ack().unwrap_err().offset, 16);
    assert_eq!(noop([1, 5]).zc_ack().unwrap_err().offset, 8);
}

// [ZC-1]
#[test]
fn message_frame_asks_with_word_0_and_acknowledges_with_word_1() {
    let frame = lnet([7, 9]);
    assert_eq!(
        (frame.zc_request(), frame.zc_ack()),
        (Some(7), Ok(ZcAck::One(9)))
    );
    assert_eq!(lnet([0, 0]).zc_request(), None);
    assert_eq!(noop([7, 9]).zc_request(), None);
}

// [FRAME-12]
#[test]
fn checksum_is_the_well_known_one_without_its_final_inversion() {
    // The reference: the checksum of the same bytes, computed bit by bit from its definition.
    let mut checksum = FrameChecksum::new(&[0; 24]);
    checksum.update(b"123456789");
    let mut crc = u32::MAX;
    for byte in [0; 24].iter().chain(b"123456789") {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 {
                crc >> 1 ^ 0xEDB8_8320
            } else {
                crc >> 1
            };
        }
    }
    assert_eq!(checksum.finish(), crc);
}

proptest! {
    // [FRAME-12]
    #[test]
    fn checksum_leaves_its_own_field_out(header in strategies::ksock_header(), csum: u32) {
        let other = KsockHeader { csum, ..header };
        let [one, two] = [header, other].map(|header| FrameChecksum::new(&header.to_bytes()));
        prop_assert_eq!(one, two);
    }

    #[test]
    fn checksum_does_not_depend_on_the_pieces(payload: Vec<u8>, cut: usize) {
        let start = FrameChecksum::new(&KsockHeader::LNET.to_bytes());
        let (mut whole, mut pieces) = (start, start);
        let (left, right) = payload.split_at(cut.min(payload.len()));
        whole.update(&payload);
        pieces.update(left);
        pieces.update(right);
        prop_assert_eq!(whole, pieces);
    }

    #[test]
    fn count_is_the_number_of_cookies_contained(a in 2u64..40, b in 2u64..40) {
        let ack = noop([a, b]).zc_ack().unwrap();
        prop_assert_eq!((0..50).filter(|&cookie| ack.contains(cookie)).count() as u64, ack.count());
    }

    #[test]
    fn every_cookie_pair_is_understood_or_rejected(header in strategies::ksock_header()) {
        let decoded = KsockHeader::decode(ByteOrder::Little, &header.to_bytes()).unwrap();
        prop_assert_eq!(decoded.zc_ack(), header.zc_ack());
        if let Ok(ack) = header.zc_ack() {
            prop_assert!(!ack.contains(0) && !ack.contains(1));
        }
    }
}
