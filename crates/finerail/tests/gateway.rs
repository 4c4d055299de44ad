//! The gateway as a process: killed at each step of each operation that must run once, stopped, without space for its
//! log, or with clients that do not receive. Each operation happens once, or its outcome is reported as unknown.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;
#[path = "gateway/hostile.rs"]
mod hostile;
#[path = "gateway/lab.rs"]
mod lab;
#[path = "gateway/operations.rs"]
mod operations;
#[path = "gateway/stranger.rs"]
mod stranger;

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use files::{Caller, Errno, FileSystem, Handle, OUTCOME_UNKNOWN, Place, RenameMode};
use files_lnet::files::RemoteFiles;
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::Signal;
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

use common::process::trace;
use common::{eventually, is_root, pattern, scaled};
use lab::Lab;
use operations::{OPERATIONS, Operation, Prepared};

const STEPS: [&str; 5] = [
    "before-intent",
    "after-intent",
    "after-operation",
    "after-reply",
    "before-answer",
];

/// Returns a generator of random numbers that are the same in each run.
fn random(seed: usize) -> TestRng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&(seed as u64).to_le_bytes());
    TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)
}

fn shuffled<T>(mut list: Vec<T>, random: &mut TestRng) -> Vec<T> {
    for at in (1..list.len()).rev() {
        list.swap(at, random.next_u32() as usize % (at + 1));
    }
    list
}

fn at(path: &str) -> Place {
    Place::from_root(path.as_bytes()).unwrap()
}

#[test]
fn killed_at_any_step_of_any_operation_the_gateway_knows_what_became_of_it() {
    let mut lab = Lab::new();
    let files = lab.client();
    for round in 0..scaled(1, 20) {
        let all = STEPS
            .iter()
            .flat_map(|&step| OPERATIONS.map(|operation| (step, operation)));
        for (step, operation) in shuffled(all.collect(), &mut random(round)) {
            lab.restart(&["--failpoint", &format!("{step}=kill")]);
            let prepared = operation.prepare(&lab.kept(), &files);
            let result = thread::scope(|scope| {
                let called = scope.spawn(|| prepared.call(&files));
                lab.start_again_after_the_kill();
                called.join().unwrap()
            });
            let case = format!("round {round}, {operation:?} killed {step}: {result:?}");
            assert_ne!(result, Err(OUTCOME_UNKNOWN), "{case}");
            prepared.check(&lab.kept(), result, &case);
        }
    }
    lab.end();
}

#[test]
fn many_operations_under_way_when_the_gateway_is_killed_happen_once_or_are_unknown() {
    let mut lab = Lab::new();
    let clients = [lab.client(), lab.client()];
    for round in 0..scaled(5, 100) {
        let mut random = random(1000 + round);
        let step = STEPS[random.next_u32() as usize % STEPS.len()];
        let time = 1 + random.next_u32() % 15;
        lab.restart(&["--failpoint", &format!("{step}=kill@{time}")]);
        let operations = shuffled([OPERATIONS, OPERATIONS].concat(), &mut random);
        let prepare = |(number, operation): (usize, Operation)| {
            let files = &clients[number % 2];
            (operation.prepare(&lab.kept(), files), files)
        };
        let prepared: Vec<(Prepared, _)> =
            operations.into_iter().enumerate().map(prepare).collect();
        let results = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for (prepared, files) in &prepared {
                let results = &results;
                scope.spawn(move || {
                    let result = prepared.call(*files);
                    results.lock().unwrap().push((prepared, result));
                });
            }
            lab.start_again_after_the_kill();
        });
        for (prepared, result) in results.into_inner().unwrap() {
            let case = format!("round {round}, {step}@{time}: {prepared:?}: {result:?}");
            prepared.check(&lab.kept(), result, &case);
        }
    }
    lab.end();
}

#[test]
fn without_a_log_an_operation_under_way_at_the_kill_is_unknown() {
    let mut lab = Lab::new();
    let files = lab.client();
    lab.start_without_a_log();
    files.null(&Caller::default()).unwrap();
    lab.stop_the_process();
    let result = thread::scope(|scope| {
        let called = scope.spawn(|| files.mkdir(&Caller::default(), at("d"), 0o755));
        lab.kill();
        lab.start_without_a_log();
        called.join().unwrap()
    });
    assert_eq!(result.unwrap_err(), OUTCOME_UNKNOWN);
    lab.end();
}

#[test]
fn a_gateway_that_shares_its_file_system_says_that_it_does_not_know() {
    let mut lab = Lab::new();
    let files = lab.client();
    lab.restart(&[
        "--coherent",
        "scratch",
        "--failpoint",
        "after-operation=kill",
    ]);
    let result = thread::scope(|scope| {
        let called = scope.spawn(|| files.mkdir(&Caller::default(), at("d"), 0o755));
        lab.died();
        lab.restart(&["--coherent", "scratch"]);
        called.join().unwrap()
    });
    assert_eq!(result.unwrap_err(), OUTCOME_UNKNOWN);
    assert!(lab.kept().join("d").is_dir());
    lab.end();
}

#[test]
fn without_coherent_what_is_there_after_a_restart_counts_as_the_gateway_s_work() {
    let mut lab = Lab::new();
    let files = lab.client();
    lab.restart(&["--failpoint", "after-intent=kill"]);
    let result = thread::scope(|scope| {
        let called = scope.spawn(|| files.mkdir(&Caller::default(), at("d"), 0o755));
        lab.died();
        fs::create_dir(lab.kept().join("d")).unwrap();
        lab.restart(&[]);
        called.join().unwrap()
    });
    result.unwrap();
    lab.end();
}

#[test]
fn the_log_is_on_the_disk_before_an_operation_begins() {
    let mut lab = Lab::new();
    lab.restart(&[]);
    let files = lab.client();
    files.null(&Caller::default()).unwrap();
    let calls = lab.state().join("calls");
    let Some(strace) = trace(lab.id(), "fdatasync,mkdirat", &calls) else {
        return;
    };
    files.mkdir(&Caller::default(), at("d"), 0o755).unwrap();
    lab.stop_clean();
    strace.wait();
    let calls = fs::read_to_string(calls).unwrap();
    let place = |call: &str| {
        calls
            .find(call)
            .unwrap_or_else(|| panic!("no {call}: {calls}"))
    };
    assert!(place("fdatasync(") < place("mkdirat("), "{calls}");
    lab.end();
}

#[test]
fn a_gateway_that_stands_still_ends_no_operation_twice() {
    let mut lab = Lab::new();
    lab.restart(&[]);
    let caller = Caller::default();
    let (patient, hasty) = (
        lab.client(),
        lab.client_with_patience(Duration::from_secs(1)),
    );
    patient.null(&caller).unwrap();
    hasty.null(&caller).unwrap();
    lab.stop_the_process();
    assert_eq!(hasty.getattr(&caller, Handle::ROOT), Err(Errno::ETIMEDOUT));
    let made = hasty.mkdir(&caller, at("hasty"), 0o755);
    assert_eq!(made.unwrap_err(), OUTCOME_UNKNOWN);
    thread::scope(|scope| {
        let called = scope.spawn(|| patient.mkdir(&caller, at("patient"), 0o755));
        lab.signal(Signal::SIGCONT);
        called.join().unwrap().unwrap();
    });
    assert!(lab.kept().join("patient").is_dir());
    lab.end();
}

#[test]
fn a_gateway_that_was_taken_over_executes_nothing_that_it_still_held() {
    let mut lab = Lab::new();
    lab.restart(&["--coherent", "scratch"]);
    lab.start_second("scratch");
    let files = lab.client_of_both();
    let prepare = |operation: Operation| operation.prepare(&lab.kept(), &files);
    let prepared: Vec<Prepared> = OPERATIONS.into_iter().map(prepare).collect();
    lab.stop_the_process();
    let (sender, results) = mpsc::channel();
    thread::scope(|scope| {
        for prepared in &prepared {
            let (files, sender) = (&files, sender.clone());
            scope.spawn(move || sender.send((prepared, prepared.call(files))));
        }
    });
    let mut taken_over = 0;
    for (prepared, result) in results.try_iter() {
        prepared.check(&lab.kept(), result, &format!("{prepared:?}: {result:?}"));
        if result.is_ok() {
            taken_over += 1;
            prepared.undo(&lab.kept(), &files);
        }
        assert_eq!(prepared.times(&lab.kept()), 0, "{prepared:?}: {result:?}");
    }
    assert!(taken_over >= 10, "{taken_over} were carried out");
    lab.signal(Signal::SIGCONT);
    // All requests arrived before this one, on the same connection.
    lab.client().null(&Caller::default()).unwrap();
    let said = lab.stop_and_hear();
    for prepared in &prepared {
        assert_eq!(prepared.times(&lab.kept()), 0, "{prepared:?}: {said}");
    }
    lab.end();
}

#[test]
fn a_gateway_that_was_taken_over_at_any_step_does_not_go_on_with_an_operation() {
    let mut lab = Lab::new();
    lab.restart(&["--coherent", "scratch"]);
    lab.start_second("scratch");
    let all =
        |round| OPERATIONS.map(|operation| (STEPS[(round + operation as usize) % 5], operation));
    let cases = (0..scaled(1, 5)).flat_map(all);
    for (step, operation) in cases {
        lab.restart(&[
            "--coherent",
            "scratch",
            "--failpoint",
            &format!("{step}=stop"),
        ]);
        let files = lab.client_of_both();
        let prepared = operation.prepare(&lab.kept(), &files);
        let result = thread::scope(|scope| {
            let called = scope.spawn(|| prepared.call(&files));
            lab.stood_still();
            called.join().unwrap()
        });
        let case = format!("{operation:?} stopped {step}: {result:?}");
        prepared.check(&lab.kept(), result, &case);
        if prepared.times(&lab.kept()) == 1 {
            prepared.undo(&lab.kept(), &files);
        }
        lab.signal(Signal::SIGCONT);
        let said = lab.stop_and_hear();
        assert_eq!(prepared.times(&lab.kept()), 0, "{case}: {said}");
    }
    lab.end();
}

#[test]
fn clients_that_never_read_their_replies_keep_nobody_else_out() {
    let mut lab = Lab::new();
    lab.restart(&[]);
    let caller = Caller::default();
    let good = lab.client();
    thread::scope(|scope| {
        for number in 0..8 {
            let deaf = lab.client_with_patience(Duration::from_millis(1));
            let caller = &caller;
            scope.spawn(move || {
                for call in 0..50 {
                    let place = at(&format!("deaf-{number}-{call}"));
                    let _given_up = deaf.mkdir(caller, place, 0o755);
                }
            });
        }
        for call in 0..50 {
            good.mkdir(&caller, at(&format!("good-{call}")), 0o755)
                .unwrap();
        }
    });
    lab.end();
}

/// Writes, reads, appends, renames and removes until `over` is set. Returns the number of rounds.
fn work(files: &RemoteFiles, number: usize, over: &AtomicBool) -> usize {
    let caller = Caller::default();
    let (first, second) = (at(&format!("{number}-a")), at(&format!("{number}-b")));
    let mut rounds = 0;
    while rounds == 0 || !over.load(Ordering::SeqCst) {
        let bytes = pattern([100, 4096, 70_000, 1 << 20, (5 << 20) + 5][(rounds + number) % 5]);
        let (made, _) = files.create(&caller, first.clone(), 0o644, true).unwrap();
        assert_eq!(
            files.write(&caller, made.handle, 0, &bytes),
            Ok(bytes.len())
        );
        let end = bytes.len() as u64;
        assert_eq!(files.append(&caller, made.handle, b"end"), Ok((end, 3)));
        let keep = RenameMode::Keep;
        files
            .rename(&caller, first.clone(), second.clone(), keep)
            .unwrap();
        let mut back = vec![0; bytes.len() + 3];
        assert_eq!(
            files.read(&caller, made.handle, 0, &mut back),
            Ok(back.len())
        );
        assert!(
            back == [&bytes[..], b"end"].concat(),
            "client {number}, round {rounds}"
        );
        files.remove(&caller, second.clone(), Some(false)).unwrap();
        rounds += 1;
    }
    rounds
}

#[test]
fn sixty_four_clients_lose_nothing_and_the_gateway_stays_within_its_buffers() {
    const CLIENTS: usize = 64;
    let mut lab = Lab::new();
    lab.restart(&[]);
    let clients: Vec<RemoteFiles> = (0..64).map(|_| lab.client()).collect();
    let before = lab.resident_kib();
    let over = AtomicBool::new(false);
    let (mut highest, mut rounds) = (before, 0);
    thread::scope(|scope| {
        let over = &over;
        let work = |(number, files)| scope.spawn(move || work(files, number, over));
        let workers: Vec<_> = clients.iter().enumerate().map(work).collect();
        for _ in 0..scaled(40, 600) {
            thread::park_timeout(Duration::from_millis(100));
            highest = highest.max(lab.resident_kib());
        }
        over.store(true, Ordering::SeqCst);
        for worker in workers {
            rounds += worker.join().unwrap();
        }
    });
    println!(
        "{rounds} rounds of {CLIENTS} clients; resident {before} KiB before, {highest} KiB at most"
    );
    assert!(rounds >= CLIENTS);
    // Eight workers, each with a window of four pieces of 1 MiB and data to append of 4 MiB. Twice this sum, because
    // the allocator keeps freed memory.
    assert!(
        highest - before < 2 * 8 * (4 + 4) * 1024,
        "{before} KiB, then {highest} KiB"
    );
    assert_eq!(fs::read_dir(lab.kept()).unwrap().count(), 0);
    lab.end();
}

#[test]
fn without_its_state_directory_the_gateway_refuses_what_it_could_not_remember() {
    let mut lab = Lab::new();
    lab.restart(&[]);
    let (files, caller) = (lab.client(), Caller::default());
    files.mkdir(&caller, at("before"), 0o755).unwrap();
    fs::rename(lab.state(), lab.state().with_extension("gone")).unwrap();
    let refused = files.mkdir(&caller, at("without"), 0o755);
    assert_eq!(refused.unwrap_err(), Errno::EIO);
    assert!(!lab.kept().join("without").exists());
    files.lookup(&caller, at("before")).unwrap();
    files
        .create(&caller, at("idempotent"), 0o644, false)
        .unwrap();
    fs::rename(lab.state().with_extension("gone"), lab.state()).unwrap();
    files.mkdir(&caller, at("behind"), 0o755).unwrap();
    lab.end();
}

#[test]
fn a_full_disk_below_the_log_refuses_and_harms_nothing() {
    if !is_root() {
        return testkit::absent("mount namespaces of threads need root");
    }
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    let mut lab = Lab::new();
    let state = lab.state();
    lab::done("mount", &["--make-rprivate", "/"]);
    lab::done(
        "mount",
        &[
            "-t",
            "tmpfs",
            "-o",
            "size=256k,mode=700",
            "none",
            state.to_str().unwrap(),
        ],
    );
    lab.restart(&[]);
    let (files, caller) = (lab.client(), Caller::default());
    let filler = state.join("filler");
    let made = |number: usize| {
        files
            .mkdir(&caller, at(&format!("d{number}")), 0o755)
            .map(drop)
    };
    assert_eq!(made(0), Ok(()));
    let full = fs::write(&filler, vec![0; 1 << 20]).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    // The last page of the log still has space for some operations.
    let refused = (1..200).map(made).take_while(Result::is_ok).count();
    assert!(refused < 199, "the log never filled its disk");
    assert_eq!(made(200), Err(Errno::EIO));
    assert!(!lab.kept().join("d200").exists());
    files.lookup(&caller, at("d0")).unwrap();
    fs::remove_file(&filler).unwrap();
    assert_eq!(made(201), Ok(()));
    lab.restart(&[]);
    assert_eq!(made(202), Ok(()));
    lab::done("umount", &["-l", state.to_str().unwrap()]);
    assert_eq!(
        made(203),
        Ok(()),
        "another log, in the directory below the mount"
    );
    lab.end();
}

#[test]
fn a_log_in_use_damaged_or_of_another_directory_is_refused_in_words() {
    let mut lab = Lab::new();
    lab.restart(&[]);
    let (files, caller) = (lab.client(), Caller::default());
    files.mkdir(&caller, at("d"), 0o755).unwrap();
    let second = lab.serve_and_fail(&[]);
    assert!(second.contains("is in use by another gateway"), "{second}");
    lab.stop_clean();
    let log = lab.state().join("replies.log");
    let good = fs::read(&log).unwrap();
    let mut bad = good.clone();
    bad[40] ^= 1;
    fs::write(&log, &bad).unwrap();
    let damaged = lab.serve_and_fail(&[]);
    assert!(damaged.contains("is damaged at byte 24"), "{damaged}");
    assert!(damaged.contains("Move it away"), "{damaged}");
    fs::write(&log, &good).unwrap();
    let inside = lab.serve_and_fail(&["--state", lab.kept().join("d").to_str().unwrap()]);
    assert!(inside.contains("where clients could change it"), "{inside}");
    lab.restart(&[]);
    eventually("the gateway answers", || files.null(&caller).ok());
    lab.end();
}

#[test]
fn a_state_directory_of_another_user_is_refused_and_its_links_are_not_followed() {
    if !is_root() {
        return testkit::absent("only root can act for another user");
    }
    let mut lab = Lab::new();
    let (state, victim) = (lab.state(), lab.state().with_extension("victim"));
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, state.join("replies.new")).unwrap();
    chown(&state, Some(1002), None).unwrap();
    let foreign = lab.serve_and_fail(&[]);
    assert!(foreign.contains("belongs to another user"), "{foreign}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    chown(&state, Some(0), None).unwrap();
    lab.restart(&[]);
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    lab.end();
}
