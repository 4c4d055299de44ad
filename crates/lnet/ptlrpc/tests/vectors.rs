//! Small vectors, and bytes that lie.

mod common;

use lnet_ptlrpc::{
    Body, Evidence, Fid, Message, MessageError, NAME_MAX, OPCODES, ObjectId, Opened, Release,
    Status, Text, Type, View, early_checksum, errno_name, fields, not_seen, opcode_name, opcode_of,
    open, subject,
};
use lnet_wire::ByteOrder;
use proptest::prelude::*;

use crate::common::{body, message};

/// The connect of an MGS client, 520 bytes: the vector of docs/protocol/ptlrpc.md.
fn mgs_connect() -> Vec<u8> {
    let mut head = body(4711, 250);
    head[12..16].copy_from_slice(&0x0001_0003u32.to_le_bytes());
    head[60..64].copy_from_slice(&0x20u32.to_le_bytes());
    head[64..68].copy_from_slice(&1u32.to_le_bytes());
    head[68..72].copy_from_slice(&5u32.to_le_bytes());
    let mut target = [0; 39];
    target[..3].copy_from_slice(b"MGS");
    let mut ours = [0; 39];
    ours[..36].copy_from_slice(b"d1fc5a72-0d0e-4cb6-9da1-e3f1d2c45ba6");
    let mut data = [0; 192];
    data[..8].copy_from_slice(&0x0110_0000_0020u64.to_le_bytes());
    data[8..12].copy_from_slice(&0x0211_0000u32.to_le_bytes());
    let handle = 0x1122_3344_5566_7788u64.to_le_bytes();
    message(0x0300_0000, &[&head, &target, &ours, &handle, &data, &[]])
}

// [PTLRPC-1]
#[test]
fn connect_to_an_mgs_has_its_fields_where_the_vector_has_them() {
    let bytes = mgs_connect();
    assert_eq!(bytes.len(), 520);
    assert_eq!(bytes[0x74..0x80], [0x20, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0]);
    assert_eq!(bytes[0xf0..0xf4], *b"MGS\0");
    assert_eq!(bytes[0x140..0x148], 0x1122_3344_5566_7788u64.to_le_bytes());
    let Ok(Opened::Clear(message, 0)) = open(&bytes, bytes.len()) else {
        panic!("not readable");
    };
    let body = Body::of(&message).expect("a body");
    assert_eq!(
        (body.kind, body.opc(), body.conn_cnt(), body.timeout()),
        (Type::Request, 250, 1, 5)
    );
    assert_eq!(message.flavor().sender(), Some("MGC"));
    assert_eq!(message.flavor().to_string(), "null");
    assert_eq!(subject(&message), "MGS");
    let mut printed = Vec::new();
    fields(&message, None, &mut |field| {
        printed.push(format!("{} {} {field}", field.part, field.name))
    });
    let has = |line: &str| {
        assert!(
            printed.iter().any(|found| found == line),
            "{line}: {printed:#?}"
        )
    };
    has("connect_data version 2.17.0");
    has("connect_data flags 0x11000000020 version|full20|imp_recov");
    has("buffer client_uuid d1fc5a72-0d0e-4cb6-9da1-e3f1d2c45ba6");
    has("ptlrpc_body op_flags 0x20 initial");
    has("ptlrpc_body pid 0");
    assert!(
        !printed
            .iter()
            .any(|line| line.starts_with("ptlrpc_body status"))
    );
}

/// Each thing that no capture has is marked where a message has it, and the field alone.
#[test]
fn what_was_never_seen_is_only_read_though_its_field_is_known() {
    let marked = |bytes: &[u8]| {
        let message = Message::parse(bytes).expect("a message");
        let mut found = Vec::new();
        fields(&message, None, &mut |field| {
            if let Some(fact) = not_seen(&field, Body::of(&message).as_ref()) {
                assert_eq!(field.evidence, Evidence::Read);
                found.push((fact.what, field.name));
            }
        });
        found
    };
    // A message of the connect's bytes, with these changed.
    let changed = |at: usize, new: &[u8]| {
        let mut bytes = mgs_connect();
        bytes[at..at + new.len()].copy_from_slice(new);
        marked(&bytes)
    };
    let (head, data) = (0x38, 0x148);
    assert_eq!(changed(0, &[]), []);
    assert_eq!(changed(16, &[1]), [("early replies", "cksum")]);
    assert_eq!(changed(4, &[2]), [("gss", "secflvr")]);
    assert_eq!(changed(head + 56, &[2]), [("resend", "flags")]);
    assert_eq!(changed(head + 57, &[2]), []);
    assert_eq!(changed(head + 120, &[0x83]), [("multi-part bulk", "mbits")]);
    assert_eq!(changed(head + 120, &[0x80]), []);
    for (at, bits) in [(56, 4), (56, 0x40), (56, 0x80), (60, 1), (60, 2), (61, 1)] {
        let found = changed(head + at, &[bits]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, "recovery", "{at} {bits}");
    }
    assert_eq!(changed(data + 40, &[1]), [("recovery", "transno")]);
    assert_eq!(changed(data + 6, &[1]), [("LIGHTWEIGHT", "flags")]);
    let refused = |opc: u32, status: i32| {
        let mut reply = body(4713, opc);
        reply[20..24].copy_from_slice(&status.to_le_bytes());
        marked(&message(0, &[&reply]))
    };
    assert_eq!(refused(250, -13), [("errors in connects", "status")]);
    assert_eq!(refused(250, 0), []);
    assert_eq!(refused(501, -2), []);
    // A pid is no error.
    assert_eq!(changed(head + 20, &[0xff; 4]), []);
}

#[test]
fn evidence_is_of_the_field_and_not_of_the_structure() {
    let bytes = mgs_connect();
    let message = Message::parse(&bytes).expect("a message");
    let mut found = Vec::new();
    fields(&message, None, &mut |field| {
        found.push((field.part, field.name, field.evidence));
    });
    for expected in [
        ("ptlrpc_body", "handle", Evidence::Live),
        ("ptlrpc_body", "jobid", Evidence::Checked),
        ("connect_data", "version", Evidence::Live),
        ("connect_data", "compr_type", Evidence::Checked),
        ("buffer", "client_uuid", Evidence::Live),
    ] {
        assert!(found.contains(&expected), "{expected:?}: {found:?}");
    }
}

// [PTLRPC-2]
#[test]
fn message_of_a_big_endian_sender_is_read_in_its_order() {
    let mut bytes = message(0, &[&body(4711, 400)]);
    for at in (0..36).step_by(4) {
        bytes[at..at + 4].reverse();
    }
    for at in [8, 12, 16, 20] {
        bytes[40 + at..44 + at].reverse();
    }
    let message = Message::parse(&bytes).expect("a message");
    assert_eq!(message.view().order(), ByteOrder::Big);
    assert_eq!(Body::of(&message).map(|body| body.opc()), Some(400));
}

// [PTLRPC-8]
#[test]
fn checksum_of_an_early_reply_is_the_crc_without_its_last_inversion() {
    let mut reply = body(4713, 4);
    reply[64..68].copy_from_slice(&1u32.to_le_bytes());
    reply[68..72].copy_from_slice(&60u32.to_le_bytes());
    reply[72..76].copy_from_slice(&30u32.to_le_bytes());
    assert_eq!(early_checksum(&reply), 0xe8c1_b6d1);
    // zlib's check value of "123456789", inverted.
    assert_eq!(early_checksum(b"123456789"), !0xcbf4_3926);
}

#[test]
fn lengths_that_lie_are_errors_with_the_numbers() {
    let good = message(0, &[&body(4711, 400), &[1, 2, 3]]);
    assert_eq!(
        Message::parse(&good[..31]).err(),
        Some(MessageError::Short(31))
    );
    let mut huge = good.clone();
    huge[36..40].copy_from_slice(&u32::MAX.to_le_bytes());
    let error = Message::parse(&huge).expect_err("too long");
    assert!(
        matches!(error, MessageError::Truncated { present: 232, .. }),
        "{error}"
    );
    let mut many = good.clone();
    many[0..4].copy_from_slice(&33u32.to_le_bytes());
    assert_eq!(Message::parse(&many).err(), Some(MessageError::Buffers(33)));
    let mut none = good.clone();
    none[0..4].fill(0);
    assert_eq!(Message::parse(&none).err(), Some(MessageError::Buffers(0)));
    let mut other = good;
    other[8] = 0;
    assert_eq!(
        Message::parse(&other).err(),
        Some(MessageError::Magic(0x0bd0_0b00))
    );
}

// [PTLRPC-10]
#[test]
fn message_in_a_plain_wrapper_is_read_and_an_encrypted_one_is_named() {
    let inner = message(0, &[&body(4711, 400)]);
    let plain = message(0x2_1001, &[&[0; 8], &inner, &[], &[]]);
    let Ok(Opened::Clear(opened, at)) = open(&plain, plain.len()) else {
        panic!("not readable");
    };
    assert_eq!(at, 56);
    assert_eq!(Body::of(&opened).map(|body| body.opc()), Some(400));
    let private = message(0x3_0312, &[&[0; 36], &inner]);
    match open(&private, private.len()) {
        Ok(Opened::Encrypted(flavor)) => assert_eq!(flavor.to_string(), "krb5p"),
        other => panic!("{other:?}"),
    }
}

// [PTLRPC-9]
#[test]
fn identifiers_of_objects_have_three_readings() {
    let read = |first: u64, second: u64| {
        let bytes = [first.to_le_bytes(), second.to_le_bytes()].concat();
        ObjectId::read(View::little(&bytes), 0).expect("16 bytes")
    };
    assert_eq!(read(77, 0), ObjectId::Old(77));
    let indexed = ObjectId::Indexed {
        ost: 3,
        object: 2 << 32 | 9,
    };
    assert_eq!(read(0x1_0003_0002, 9), indexed);
    let fid = Fid {
        seq: 0x2_8000_0400,
        oid: 0x121,
        ver: 0,
    };
    assert_eq!(read(0x2_8000_0400, 0x121), ObjectId::Fid(fid));
    assert_eq!(fid.to_string(), "[0x280000400:0x121:0x0]");
}

// [PTLRPC-11]
#[test]
fn user_and_group_count_only_with_their_flag() {
    let mut request = body(4711, 4);
    request[144..152].copy_from_slice(&[1, 0, 0, 0, 2, 0, 0, 0]);
    let ids = |bytes: &[u8]| {
        Body::of(&Message::parse(bytes).expect("a message")).and_then(|body| body.ids())
    };
    assert_eq!(ids(&message(0, &[&request])), None);
    request[57] = 2;
    assert_eq!(ids(&message(0, &[&request])), Some((1, 2)));
}

// [PTLRPC-15]
#[test]
fn touching_extents_are_one() {
    let object = [
        0x2_8000_0400u64.to_le_bytes(),
        0x121u64.to_le_bytes(),
        [0, 0, 3, 0, 3, 0, 0, 0],
    ]
    .concat();
    let extent =
        |offset: u64, len: u32| [&offset.to_le_bytes()[..], &len.to_le_bytes(), &[0; 4]].concat();
    let list = [extent(0, 4096), extent(4096, 4096), extent(1 << 20, 10)].concat();
    let bytes = message(0, &[&body(4711, 4), &[0; 208], &object, &list]);
    let message = Message::parse(&bytes).expect("a message");
    assert_eq!(
        subject(&message),
        "[0x280000400:0x121:0x0] [0,+8192] [1048576,+10]"
    );
    assert_eq!(lnet_ptlrpc::bytes_asked(&message), 8202);
}

// [PTLRPC-16]
#[test]
fn resource_of_a_plain_lock_is_a_name() {
    let mut lock = [0; 104];
    lock[8] = 10;
    lock[16..20].copy_from_slice(b"scra");
    lock[48] = 16;
    let bytes = message(0, &[&body(4711, 101), &lock]);
    assert_eq!(
        subject(&Message::parse(&bytes).expect("a message")),
        "CR plain scra:0"
    );
}

#[test]
fn names_are_capped_and_escaped() {
    assert_eq!(
        Text::new(b"a\x1b[31m\nb\0tail").to_string(),
        "a\\u{1b}[31m\\nb"
    );
    assert_eq!(
        Text::new(b"\xff\xe2\x80\xae\\").to_string(),
        "\\xff\\u{202e}\\\\"
    );
    let long = [b'x'; 64 << 10];
    let shown = Text::new(&long).to_string();
    assert_eq!(shown.chars().count(), NAME_MAX + 1);
    assert!(shown.ends_with('…'));
}

#[test]
fn numbers_have_names() {
    assert_eq!(Status(-107).to_string(), "ENOTCONN");
    assert_eq!(Status(301).to_string(), "301");
    assert_eq!(errno_name(-53), Some("EBADR"));
    assert_eq!(Release(0x0211_3900).to_string(), "2.17.57");
    assert!(OPCODES.is_sorted_by_key(|(opc, _)| *opc));
    for (opc, name) in OPCODES {
        assert_eq!(opcode_of(name), Some(*opc));
        assert_eq!(opcode_name(*opc), Some(*name));
    }
}

proptest! {
    /// Whatever the lengths, the fields cover exactly the bytes at hand, in order.
    #[test]
    fn fields_cover_the_bytes_in_order(
        opc in prop::sample::select(OPCODES.iter().map(|(opc, _)| *opc).collect::<Vec<_>>()),
        kind in prop::sample::select(vec![4711u32, 4712, 4713]),
        intent in prop::option::of(prop::sample::select(vec![1u64, 2, 3, 8, 0x80, 0x400, 0x800, 0x4000])),
        lengths in prop::collection::vec(0usize..600, 0..12),
        fill in any::<u8>(),
        cut in 0usize..2000,
    ) {
        let first = body(kind, opc);
        let rest: Vec<Vec<u8>> = lengths.iter().map(|len| vec![fill; *len]).collect();
        let mut buffers = vec![&first[..]];
        buffers.extend(rest.iter().map(Vec::as_slice));
        let bytes = message(0, &buffers);
        let head = &bytes[..bytes.len() - cut.min(bytes.len())];
        if let Ok(message) = Message::parse_head(head, bytes.len()) {
            let mut at = 0;
            fields(&message, intent, &mut |field| {
                assert_eq!(field.at, at);
                at += field.bytes.len();
                let _printed = field.to_string();
            });
            prop_assert_eq!(at, head.len());
            let _line = subject(&message);
        }
    }
}
