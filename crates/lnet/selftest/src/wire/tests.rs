//! Tests of the layouts against the tables of the description and against captured messages of kernels; round
//! trips; hostile bytes.

use proptest::prelude::*;

use super::*;

/// Makes a message of this type with these bytes as its body.
fn raw(kind: u32, features: u32, body: &[u8], order: Order) -> Vec<u8> {
    let word = |word: u32| match order {
        Order::Little => word.to_le_bytes(),
        Order::Big => word.to_be_bytes(),
    };
    let mut bytes = [MAGIC, VERSION, kind, 0, 0, features].map(word).concat();
    bytes.extend_from_slice(body);
    bytes.resize(MESSAGE_LEN, 0);
    bytes
}

/// The answer of the kernel node to a request for counters, from the captured ping test.
const CAPTURED_STAT: [u32; 40] = [
    0xEEB0_F00D,
    1,
    7,
    0,
    0,
    1,
    0,
    0x0A01_0001,
    0x0002_0000,
    0x0004_B745,
    0,
    0x2EC,
    0,
    0,
    0,
    0,
    0,
    0,
    8,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    2,
    0,
    10,
    11,
    0,
    0,
    0x4C0,
    0,
    0x530,
    0,
    0,
    0,
    0,
    0,
];

/// The captured request that adds a bulk test at its server: read, check full, 4096 bytes.
const CAPTURED_TEST: [u32; 40] = [
    0xEEB0_F00D,
    1,
    8,
    0,
    0,
    1,
    0x18,
    0x6152_0000,
    0,
    0,
    0x0A01_0001,
    0x0002_0000,
    0x0004_D732,
    0,
    4,
    0,
    11,
    1,
    1,
    0x0000_0100,
    0x0001_0000,
    0x1000_0003,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
];

fn bytes(words: [u32; 40]) -> Vec<u8> {
    words.map(u32::to_le_bytes).concat()
}

#[test]
fn captured_counters_are_read_where_they_stand() {
    let (message, order) = Message::decode(&bytes(CAPTURED_STAT)).unwrap();
    assert_eq!(order, Order::Little);
    let Body::StatReply(reply) = message.body else {
        panic!("{message:?}")
    };
    let session = SessionId {
        nid: "10.1.0.1@tcp".parse::<Nid>().unwrap().to_nid4().unwrap(),
        stamp: 309_061,
    };
    assert_eq!((reply.status, reply.session), (0, session));
    assert_eq!(reply.framework.running_ms, 748);
    assert_eq!((reply.rpc.sent, reply.rpc.received), (0, 8));
    let lnet = reply.lnet;
    assert_eq!(
        (lnet.msgs_max, lnet.send_count, lnet.recv_count),
        (2, 10, 11)
    );
    assert_eq!((lnet.send_length, lnet.recv_length), (0x4C0, 0x530));
    assert_eq!(message.encode().to_vec(), bytes(CAPTURED_STAT));
}

#[test]
fn a_captured_test_is_read_with_its_parameters() {
    let (message, _) = Message::decode(&bytes(CAPTURED_TEST)).unwrap();
    let Body::TestRequest(test) = message.body else {
        panic!("{message:?}")
    };
    assert_eq!((test.reply_id, test.bulk_id), (0x6152_0000_0000_0018, 0));
    assert_eq!((test.batch, test.service, test.repeat), (4, 11, 1));
    assert_eq!(
        (test.concurrency, test.is_client, test.stop_on_error),
        (1, 0, 1)
    );
    let params = Params::Bytes {
        operation: 1,
        flags: 3,
        len: 4096,
        offset: 0,
    };
    assert_eq!((test.destinations, test.params), (0, params));
    assert_eq!(message.encode().to_vec(), bytes(CAPTURED_TEST));
}

// [LST-7]
#[test]
fn every_message_comes_back_in_both_byte_orders() {
    for order in [Order::Little, Order::Big] {
        for kind in 0..18 {
            let body: Vec<u8> = (1..=136).collect();
            let (message, found) = Message::decode(&raw(kind, 1, &body, order)).unwrap();
            assert_eq!((found, message.body.message_type()), (order, kind));
            let again = Message::decode(&message.encode_in(order)).unwrap();
            assert_eq!(again, (message, order));
        }
    }
}

/// Lengths of bodies, from the ends of their fields.
const BODY_LENGTHS: [usize; 18] = [
    60, 56, 24, 20, 44, 28, 28, 136, 70, 20, 28, 60, 28, 4, 32, 12, 56, 56,
];

#[test]
fn bodies_are_as_long_as_their_tables() {
    for (kind, length) in (0..).zip(BODY_LENGTHS) {
        // A test of an unknown service has twelve bytes of parameters, too.
        let body = [0xAB; 136];
        let (message, _) = Message::decode(&raw(kind, 1, &body, Order::Little)).unwrap();
        let encoded = message.encode();
        let (said, rest) = encoded[24..].split_at(length);
        assert!(
            said.iter().all(|&byte| byte == 0xAB),
            "type {kind}: {said:02x?}"
        );
        assert!(
            rest.iter().all(|&byte| byte == 0),
            "type {kind}: {rest:02x?}"
        );
    }
}

#[test]
fn parameters_of_old_consoles_are_in_pages() {
    let mut body = vec![0; 40];
    body.extend(11_u32.to_le_bytes());
    body.resize(58, 0);
    body.extend([2_u32, 3, 1].map(u32::to_le_bytes).concat());
    let (message, _) = Message::decode(&raw(8, 0, &body, Order::Little)).unwrap();
    let Body::TestRequest(test) = message.body else {
        panic!("{message:?}")
    };
    let params = Params::Pages {
        operation: 2,
        pages: 3,
        flags: 1,
    };
    assert_eq!(test.params, params);
}

// [LST-4]
#[test]
fn what_is_no_message_is_refused_with_the_place() {
    let whole = bytes(CAPTURED_STAT);
    for length in [0, 159] {
        assert_eq!(
            Message::decode(&whole[..length]),
            Err(DecodeError::Length(length))
        );
    }
    let mut magic = whole.clone();
    magic[0] = 0;
    assert_eq!(
        Message::decode(&magic),
        Err(DecodeError::Magic(0xEEB0_F000))
    );
    let kind = raw(18, 1, &[], Order::Big);
    assert_eq!(Message::decode(&kind), Err(DecodeError::Type(18)));
}

#[test]
fn destinations_are_twelve_bytes_each_and_have_small_nids() {
    let process = |text: &str| ProcessId::lustre(text.parse().unwrap());
    let list = [process("10.1.0.2@tcp"), process("10.1.0.3@tcp1")];
    let bytes = encode_destinations(&list).unwrap();
    assert_eq!(bytes[..12], [2, 0, 1, 10, 0, 0, 2, 0, 0x39, 0x30, 0, 0]);
    assert_eq!(decode_destinations(&bytes, Order::Little).unwrap(), list);
    assert_eq!(decode_destinations(&bytes[1..], Order::Little), None);
    assert_eq!(decode_destinations(&[0xFF; 12], Order::Little), None);
    assert_eq!(encode_destinations(&[process("fd00::1@tcp")]), None);
}

#[test]
fn a_name_of_a_stranger_commands_no_terminal() {
    assert_eq!(Name::new("a\u{1b}[2Jb").unwrap().to_string(), "a?[2Jb");
    assert_eq!(Name::new(&"n".repeat(31)).unwrap().to_string().len(), 31);
    for wrong in [String::new(), "n".repeat(32), "a\0b".to_owned()] {
        assert_eq!(Name::new(&wrong), None);
    }
}

proptest! {
    #[test]
    fn what_was_decoded_is_what_is_encoded(
        kind in 0_u32..18,
        features in 0_u32..3,
        body in prop::collection::vec(any::<u8>(), 136),
        big in any::<bool>(),
    ) {
        let order = if big { Order::Big } else { Order::Little };
        let (message, _) = Message::decode(&raw(kind, features, &body, order)).unwrap();
        for order in [Order::Little, Order::Big] {
            prop_assert_eq!(Message::decode(&message.encode_in(order)), Ok((message, order)));
        }
    }
}
