//! Programs that test file systems, run in a mount: `fio`, the POSIX test suite `pjdfstest`, and `fsx`.
//!
//! The last two are built from source: `cargo install --locked pjdfstest fsx`. Their tests run if both are in the
//! PATH. With `FINERAIL_LONG=1` they must be there.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::lab::{Lab, script};
use common::process::{Process, run};
use common::{PATIENCE, can_run, scaled};

/// Returns whether a program is there that must be built from source.
fn has(judge: &str) -> bool {
    let is_there = can_run(judge, &["--version"]);
    if !is_there && scaled(0, 1) == 1 {
        testkit::absent(format_args!(
            "there is no {judge}: cargo install --locked {judge}"
        ));
    } else if !is_there {
        eprintln!("skipped: {judge} is not installed");
    }
    is_there
}

fn fio(lab: &Lab, options: &str) {
    let job = format!(
        "fio --name=judge --directory=seen --verify=crc32c --verify_fatal=1 --verify_state_save=0 --randseed=1 {options}"
    );
    script(lab.directory.path(), &job);
}

#[test]
fn fio_reads_back_what_it_wrote() {
    if !testkit::require("fio") {
        return;
    }
    let Some(lab) = Lab::new("rw") else { return };
    let size = scaled(16, 256);
    fio(
        &lab,
        &format!(
            "--size={size}m --bsrange=4k-128k --rw=randrw --numjobs=2 --ioengine=psync --end_fsync=1"
        ),
    );
    fio(
        &lab,
        &format!("--size={size}m --bs=4k --rw=randwrite --ioengine=mmap"),
    );
    fio(
        &lab,
        "--size=8m --bs=16k --rw=write --ioengine=libaio --iodepth=16 --direct=1",
    );
}

#[test]
fn fio_notices_a_byte_that_changed_behind_the_mount() {
    if !testkit::require("fio") {
        return;
    }
    let Some(lab) = Lab::new("rw") else { return };
    fio(&lab, "--size=1m --bs=4k --rw=write --do_verify=0");
    let file = lab.kept("judge.0.0");
    let mut bytes = fs::read(&file).unwrap();
    bytes[500_000] ^= 1;
    fs::write(&file, bytes).unwrap();
    let mut command = Command::new("fio");
    command.args([
        "--name=judge",
        "--size=1m",
        "--bs=4k",
        "--rw=read",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--verify_state_save=0",
    ]);
    command.arg("--directory").arg(lab.seen(""));
    assert!(!run(command).status.success());
}

/// Returns whether a test is about devices. A mount rejects devices, which every such test makes first.
fn is_of_devices(test: &str) -> bool {
    test.ends_with("::char") || test.ends_with("::block")
}

#[test]
fn the_posix_test_suite_passes_but_for_devices() {
    if has("pjdfstest")
        && let Some(lab) = Lab::new("allow_other,actimeo=0")
    {
        posix_test_suite(&lab);
    }
}

#[test]
fn the_posix_test_suite_passes_through_an_io_node_but_for_devices() {
    if has("pjdfstest")
        && let Some(lab) = Lab::over_zoid("allow_other,actimeo=0")
    {
        posix_test_suite(&lab);
    }
}

fn posix_test_suite(lab: &Lab) {
    let configuration = lab.directory.path().join("pjdfstest.toml");
    // These users exist in every Debian.
    let text = "\
        [features]\n posix_fallocate = {}\n rename_ctime = {}\n utimensat = {}\n utime_now = {}\n\
        [settings]\n naptime = 0.01\n allow_remount = false\n\
        [dummy_auth]\n entries = [[\"nobody\", \"nogroup\"], [\"daemon\", \"daemon\"], [\"games\", \"games\"]]\n";
    fs::write(&configuration, text).unwrap();
    let mut command = Command::new("pjdfstest");
    command
        .arg("-c")
        .arg(&configuration)
        .arg("-p")
        .arg(lab.seen(""));
    command.arg("-s").arg(lab.directory.path().join("other"));
    // Some ten thousand operations, each of which waits for several processes.
    let out = Process::start(command).wait_within(5 * PATIENCE).out;
    let ended = |how: &str| -> Vec<&str> {
        let lines = out.lines().filter(|line| line.ends_with(how));
        lines
            .filter_map(|line| line.split_whitespace().next())
            .collect()
    };
    let failed = ended("FAILED")
        .into_iter()
        .filter(|test| !is_of_devices(test));
    assert_eq!(failed.collect::<Vec<_>>(), [""; 0], "{out}");
    assert!(ended(" ok").len() >= 290, "{out}");
}

fn fsx(lab: &Lab, seed: u64, operations: usize) {
    let configuration = lab.directory.path().join("fsx.toml");
    let text = "\
        flen = 1048576\n[opsize]\nmax = 131072\nmin = 0\n[weights]\nclose_open = 1\ninvalidate = 1\n\
        mapread = 10\nmapwrite = 10\nread = 10\nwrite = 10\ntruncate = 5\nfsync = 1\nfdatasync = 1\n\
        posix_fallocate = 2\npunch_hole = 2\nsendfile = 1\nposix_fadvise = 1\ncopy_file_range = 2\n";
    fs::write(&configuration, text).unwrap();
    let mut command = Command::new("fsx");
    command
        .arg("-f")
        .arg(&configuration)
        .arg("-P")
        .arg(lab.directory.path());
    command.args(["-S", &seed.to_string(), "-N", &operations.to_string()]);
    let file: &Path = &lab.seen("fsx");
    command.arg(file);
    run(command).expect_code(0);
}

#[test]
fn fsx_finds_no_wrong_byte_through_an_io_node() {
    if !has("fsx") {
        return;
    }
    let Some(lab) = Lab::over_zoid("actimeo=1") else {
        return;
    };
    for seed in 1..=scaled(2, 20) as u64 {
        fsx(&lab, seed, scaled(1000, 20_000));
    }
}

#[test]
fn fsx_finds_no_wrong_byte() {
    if !has("fsx") {
        return;
    }
    let Some(lab) = Lab::new("actimeo=1") else {
        return;
    };
    for seed in 1..=scaled(3, 20) as u64 {
        fsx(&lab, seed, scaled(3000, 20_000));
    }
}
