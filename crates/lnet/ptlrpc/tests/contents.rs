//! The records of a log's block, a log's header, and tables of an MGS, as `finerail dump` shows them.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use lnet_ptlrpc::{ConfigRead, Contents, ENTRIES_MAX, Entries, Message};
use proptest::prelude::*;

use crate::common::{body, message};

const CONFIG: u32 = 0x1062_0000;

fn record(index: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let len = data.len() as u32 + 24;
    let words = |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|w| w.to_le_bytes()).collect() };
    [
        words(&[len, index, kind, 0]),
        data.to_vec(),
        words(&[len, index]),
    ]
    .concat()
}

fn command(code: u32, nid: u64, buffers: &[&[u8]]) -> Vec<u8> {
    let mut bytes = vec![0; 32];
    bytes[0..4].copy_from_slice(&0x1cf6_0001u32.to_le_bytes());
    bytes[4..8].copy_from_slice(&code.to_le_bytes());
    bytes[16..24].copy_from_slice(&nid.to_le_bytes());
    bytes[28..32].copy_from_slice(&(buffers.len() as u32).to_le_bytes());
    for buffer in buffers {
        bytes.extend((buffer.len() as u32).to_le_bytes());
    }
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    for buffer in buffers {
        bytes.extend(*buffer);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    bytes
}

fn reply_with(opc: u32, buffers: &[&[u8]]) -> Vec<u8> {
    let body = body(4713, opc);
    let all: Vec<&[u8]> = [body.as_slice()]
        .into_iter()
        .chain(buffers.iter().copied())
        .collect();
    message(0, &all)
}

fn of(reply: &[u8], present: usize) -> Contents {
    let message = Message::parse_head(&reply[..present], reply.len()).unwrap();
    Contents::of_log(&message).unwrap()
}

/// The contents of a reply with this block.
fn block(records: &[Vec<u8>]) -> Contents {
    let mut block = records.concat();
    block.resize(block.len().max(8192), 0);
    let reply = reply_with(502, &[&[0; 48], &block]);
    of(&reply, reply.len())
}

fn lines(contents: &Contents) -> Vec<String> {
    let lines = contents.lines().into_iter();
    lines
        .map(|line| format!("{} {}: {}", line.part, line.name, line.text))
        .collect()
}

#[test]
fn records_of_a_block_are_shown_with_their_commands() {
    let mut marker = [0; 160];
    marker[4] = 5;
    marker[32..36].copy_from_slice(b"fs-a");
    marker[96..99].copy_from_slice(b"add");
    let long = vec![b'n'; 300];
    let mut lying = command(0xc_f00d, 0, &[b"fs-clilov\0", b"7\0"]);
    lying[36] = 200;
    let commands = [
        command(0xc_f010, 0, &[&[], &marker]),
        command(
            0xc_f005,
            0x0002_0000_c0a8_010a,
            &[b"", b"192.168.1.10@tcp\0"],
        ),
        command(0xc_f003, 0, &[b"fs-clilov\0", &[0xd0, 0, 0, 1, 0, 0, 9, 0]]),
        command(
            0xc_f00f,
            0,
            &[b"a\x1b[2J\0", "ü\u{202e}\0".as_bytes(), &long],
        ),
        command(0xc_f0ff, 0, &[]),
        lying,
        vec![0; 32],
    ];
    let mut records: Vec<_> = (1..)
        .zip(&commands)
        .map(|(at, data)| record(at, CONFIG, data))
        .collect();
    records.push(record(8, 0x1060_0000, &[0; 16]));
    records.push(record(9, 0x1063_0000, &[0; 16]));
    let shown = lines(&block(&records));
    let long = "n".repeat(255);
    let expected = [
        "record 1: marker start fs-a add (skipped)",
        "record 2: add_uuid 192.168.1.10@tcp - 192.168.1.10@tcp",
        "record 3: setup fs-clilov (8 bytes)",
        &format!(r"record 4: param a\u{{1b}}[2J ü\u{{202e}} {long}…"),
        "record 5: 0xcf0ff",
        "record 6: add_ost fs-clilov 7  (the arguments leave the record)",
        "record 7: another layout of commands: not decoded",
        "record 8: pad",
        "record 9: type 0x10630000: not decoded",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn what_cannot_be_read_of_a_block_is_said() {
    let good = record(1, CONFIG, &command(0xc_e011, 0, &[]));
    let mut bad = good.clone();
    bad[0] = 0xff;
    assert_eq!(
        lines(&block(&[good.clone(), bad])),
        [
            "record 1: log_start",
            "log_block problem: not decoded any further: a record of 255 bytes at offset 56 of a block of 8192"
        ]
    );
    let other = block(&[
        record(1, 0x1064_0000, &[0; 16]),
        record(2, 0x1060_0000, &[]),
    ]);
    assert_eq!(
        lines(&other),
        ["log_block problem: the block is of another kind of log, type 0x10640000: not decoded"]
    );
    let mut bytes = good.repeat(2);
    bytes.resize(8192, 0);
    let reply = reply_with(502, &[&[0; 48], &bytes]);
    let cut = of(&reply, reply.len() - 8192 + 60);
    assert_eq!(
        lines(&cut),
        [
            "record 1: log_start",
            "log_block problem: only the first 60 of 8192 bytes are at hand"
        ]
    );
}

#[test]
fn long_blocks_are_cut_and_say_by_how_much() {
    let records: Vec<_> = (1..=100)
        .map(|index| record(index, CONFIG, &command(0xc_e011, 0, &[])))
        .collect();
    let shown = block(&records);
    assert_eq!(
        (shown.more, shown.problem.as_ref()),
        (100 - ENTRIES_MAX, None)
    );
    let shown = lines(&shown);
    assert_eq!(shown.len(), ENTRIES_MAX + 1);
    assert_eq!(
        shown.last().unwrap(),
        "log_block and: 36 more are not shown"
    );
}

/// A header whose records of these numbers are in use.
fn header(alive: &[usize]) -> Vec<u8> {
    let mut bytes = vec![0; 8192];
    for (at, word) in [(0, 8192u32), (8, 0x1064_5539), (28, 88), (8184, 8192)] {
        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    for record in alive {
        bytes[88 + record / 8] |= 1 << (record % 8);
    }
    bytes
}

#[test]
fn header_of_a_log_says_which_records_are_in_use() {
    let shown = |bytes: &[u8]| {
        let reply = reply_with(503, &[bytes]);
        of(&reply, reply.len())
    };
    let of_some = shown(&header(&[0, 1, 2, 3, 7, 64_767]));
    assert_eq!(
        of_some.entries,
        Entries::InUse(vec![(1, 3), (7, 7), (64_767, 64_767)])
    );
    assert_eq!(lines(&of_some), ["records in use: 1-3, 7, 64767"]);
    assert_eq!(lines(&shown(&header(&[0]))), ["records in use: none"]);
    let many: Vec<usize> = (0..200).step_by(2).collect();
    assert_eq!(shown(&header(&many)).more, 99 - ENTRIES_MAX);
    for (at, value) in [(0, 0), (1, 0xff), (28, 0), (8, 0)] {
        let mut bytes = header(&[0, 1]);
        bytes[at] = value;
        bytes[at + 1] ^= 1;
        let shown = lines(&shown(&bytes));
        assert!(
            shown[0] == "records in use: not known" && shown.len() == 2,
            "{shown:?}"
        );
    }
    assert!(shown(&[1; 3]).problem.is_some());
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic_or_print_much(
        opc in prop::sample::select(vec![502, 503, 508]),
        at in 0usize..400,
        byte: u8,
        noise in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let commands = [command(0xc_f005, 1, &[b"", b"name\0"]), command(0xc_f010, 0, &[&[], &[1; 160]])];
        let records = [record(1, CONFIG, &commands[0]), record(2, CONFIG, &commands[1]), noise];
        let mut bytes = records.concat();
        if let Some(place) = bytes.get_mut(at) {
            *place = byte;
        }
        let reply = reply_with(opc, &[&bytes, &bytes]);
        let shown = lines(&of(&reply, reply.len()));
        prop_assert!(shown.len() <= ENTRIES_MAX + 2);
    }
}

/// The request for a table of this type.
fn config_read(kind: u8) -> Vec<u8> {
    let mut asked = [0; 80];
    asked[72] = kind;
    message(0, &[&body(4711, 256), &asked])
}

fn entry(kind: u8, index: u8, nids: &[[u8; 4]]) -> Vec<u8> {
    let len = 24 + 20 * nids.len() as u8;
    let mut bytes = vec![0; 24];
    (bytes[0], bytes[8], bytes[12], bytes[16]) = (3, 7, index, len);
    bytes[20..24].copy_from_slice(&[kind, 1, 20, nids.len() as u8]);
    for nid in nids {
        bytes.extend([0, 2, 0, 2]);
        bytes.extend(nid);
        bytes.resize(bytes.len() + 12, 0);
    }
    bytes
}

fn table(kind: u8, bytes: &[u8], whole: usize) -> Vec<String> {
    let request = config_read(kind);
    let read = ConfigRead::of(&Message::parse(&request).unwrap()).unwrap();
    lines(&Contents::of_table(read, bytes, whole))
}

#[test]
fn table_of_an_mgs_is_shown_with_its_targets() {
    let bytes = [
        entry(1, 0, &[[10, 12, 0, 1]]),
        entry(2, 31, &[[10, 12, 0, 2]; 11]),
    ];
    assert_eq!(
        table(2, &bytes.concat(), 288),
        [
            "target MDT0000: version 3, instance 7: 10.12.0.1@tcp2".to_owned(),
            format!(
                "target OST001f: version 3, instance 7: {}and 3 more",
                "10.12.0.2@tcp2, ".repeat(8)
            ),
        ]
    );
    assert_eq!(table(2, &[], 0), ["targets in table: none"]);
}

#[test]
fn table_that_is_not_at_hand_or_another_one_is_not_decoded() {
    let bytes = entry(1, 0, &[[10, 12, 0, 1]]);
    let cut = "targets problem: only the first 44 of 132 bytes are at hand: not decoded";
    assert_eq!(table(2, &bytes, 132), [cut]);
    let other = "targets problem: a table of type 4: not decoded";
    assert_eq!(table(4, &bytes, 44), [other]);
    let mut lying = [bytes.clone(), bytes.clone()].concat();
    lying[44 + 16] = 200;
    let shown = table(2, &lying, 88);
    assert_eq!(
        shown[0],
        "target MDT0000: version 3, instance 7: 10.12.0.1@tcp2"
    );
    assert_eq!(
        shown[1],
        "targets problem: the table of where the targets are cannot be read behind byte 44"
    );
    assert_eq!(
        table(2, &bytes.repeat(100), 4400).last().unwrap(),
        "targets and: 36 more are not shown"
    );
    let reply = reply_with(256, &[&[0; 80]]);
    assert!(ConfigRead::of(&Message::parse(&reply).unwrap()).is_none());
}

proptest! {
    #[test]
    fn no_table_makes_it_panic_or_print_much(
        count in 0usize..100,
        at in 0usize..200,
        byte: u8,
        noise in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut bytes = [entry(2, 1, &[[10, 0, 0, 1]; 9]).repeat(count), noise].concat();
        if let Some(place) = bytes.get_mut(at) {
            *place = byte;
        }
        let shown = table(2, &bytes, bytes.len());
        prop_assert!(shown.len() <= ENTRIES_MAX + 2);
        prop_assert!(shown.iter().all(|line| line.len() < 1000));
    }
}
