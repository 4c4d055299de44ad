//! Configuration logs that tests make: groups, failover nodes, lengths that lie.

#![allow(
    clippy::expect_used,
    reason = "a test fails by panicking, in its helpers too"
)]

use lnet_ptlrpc::{FileSystem, LogError, Records};
use proptest::prelude::*;

/// Makes a command.
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

fn record(index: u32, data: &[u8]) -> Vec<u8> {
    let len = data.len() as u32 + 24;
    let head = [len, index, 0x1062_0000, 0].map(u32::to_le_bytes).concat();
    [
        head,
        data.to_vec(),
        [len, index].map(u32::to_le_bytes).concat(),
    ]
    .concat()
}

fn marker(flags: u32) -> Vec<u8> {
    let mut marker = [0; 160];
    marker[4..8].copy_from_slice(&flags.to_le_bytes());
    marker[32..36].copy_from_slice(b"fs-a");
    command(0xc_f010, 0, &[&[], &marker])
}

fn read(commands: &[Vec<u8>]) -> FileSystem {
    let records = commands.iter().enumerate();
    let mut block: Vec<u8> = records
        .flat_map(|(index, data)| record(index as u32 + 1, data))
        .collect();
    block.resize(8192, 0);
    let mut system = FileSystem::default();
    for record in Records::new(&block) {
        let record = record.expect("a record");
        system.take(&record.command().expect("a command"));
    }
    system
}

const NODE: u64 = 0x0002_0000_c0a8_010a;

fn osc(name: &str) -> Vec<Vec<u8>> {
    let uuid = format!("{name}_UUID\0");
    let device = format!("{name}-osc\0");
    vec![
        command(0xc_f005, NODE, &[b"", b"192.168.1.10@tcp\0"]),
        command(
            0xc_f003,
            0,
            &[device.as_bytes(), uuid.as_bytes(), b"192.168.1.10@tcp\0"],
        ),
        command(0xc_f005, NODE + 1, &[b"", b"192.168.1.11@tcp\0"]),
        command(0xc_f00b, 0, &[device.as_bytes(), b"192.168.1.11@tcp\0"]),
        command(
            0xc_f00d,
            0,
            &[b"fs-clilov\0", uuid.as_bytes(), b"0\0", b"1\0"],
        ),
    ]
}

#[test]
fn target_has_the_nids_of_its_node_and_of_the_node_that_takes_over() {
    let system = read(&[vec![marker(1)], osc("fs-OST000a"), vec![marker(2)]].concat());
    let target = &system.targets["fs-OST000a"];
    assert_eq!(
        (target.index, &target.nids[..]),
        (Some(10), &["192.168.1.10@tcp".to_owned()][..])
    );
    assert_eq!(target.failover, [["192.168.1.11@tcp"]]);
    assert!(system.problems.is_empty(), "{:?}", system.problems);
}

// [PTLRPC-19]
#[test]
fn commands_outside_of_groups_and_in_skipped_ones_do_not_count() {
    assert!(read(&osc("fs-OST0000")).targets.is_empty());
    let skipped = [vec![marker(5)], osc("fs-OST0000"), vec![marker(6)]].concat();
    assert!(read(&skipped).targets.is_empty());
}

#[test]
fn target_can_be_switched_off_and_an_unknown_required_command_is_a_problem() {
    let off = command(0xc_f00f, 0, &[b"fs-OST0000-osc\0", b"osc.active=0\0"]);
    let unknown = command(0xc_ff77, 0, &[]);
    let optional = command(0xc_ef77, 0, &[]);
    let system = read(
        &[
            vec![marker(1)],
            osc("fs-OST0000"),
            vec![off, unknown, optional],
        ]
        .concat(),
    );
    assert!(system.targets["fs-OST0000"].is_inactive);
    let [problem] = &system.problems[..] else {
        panic!("{:?}", system.problems);
    };
    assert!(problem.contains("0xcff77"), "{problem}");
}

#[test]
fn node_or_failover_node_that_was_deleted_does_not_count() {
    let after = |last: Vec<Vec<u8>>| {
        let records = [vec![marker(1)], osc("fs-OST0000"), last, vec![marker(2)]].concat();
        read(&records).targets["fs-OST0000"].clone()
    };
    let (device, node) = (&b"fs-OST0000-osc\0"[..], &b"192.168.1.11@tcp\0"[..]);
    let del_conn = || command(0xc_f00c, 0, &[device, node]);
    let del_uuid = || command(0xc_f006, 0, &[b"", node]);
    assert_eq!(after(Vec::new()).failover.len(), 1);
    assert!(after(vec![del_conn()]).failover.is_empty());
    // The node of this name has other NIDs from now on.
    let again = vec![
        del_conn(),
        del_uuid(),
        command(0xc_f005, NODE + 2, &[b"", node]),
        command(0xc_f00b, 0, &[device, node]),
    ];
    assert_eq!(after(again).failover, [["192.168.1.12@tcp"]]);
}

// [PTLRPC-17]
#[test]
fn record_that_lies_about_its_length_ends_the_block() {
    let good = record(1, &command(0xc_f001, 0, &[b"a\0"]));
    let fail = |block: &[u8]| Records::new(block).find_map(Result::err);
    assert_eq!(fail(&good), None);
    for len in [0u32, 16, 25, 8200, u32::MAX] {
        let mut bad = good.clone();
        bad[0..4].copy_from_slice(&len.to_le_bytes());
        let block = bad.len();
        assert_eq!(fail(&bad), Some(LogError::Length { at: 0, len, block }));
    }
    let mut bad = good;
    let end = bad.len() - 1;
    bad[end] = 1;
    assert_eq!(fail(&bad), Some(LogError::Tail { at: 0 }));
}

proptest! {
    #[test]
    fn any_bytes_are_records_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..400), at in 0usize..100, len in 0u32..400) {
        let mut block = record(1, &command(0xc_f005, NODE, &[b"", b"node\0"]));
        block.extend(&bytes);
        let at = at.min(block.len() - 4);
        block[at..at + 4].copy_from_slice(&len.to_le_bytes());
        let mut system = FileSystem::default();
        for record in Records::new(&block).flatten() {
            if let Some(command) = record.command() {
                let _line = command.to_string();
                system.take(&command);
            }
        }
    }
}
