//! The distribution of operations, failover, and proofs that these tests can fail.

#![expect(clippy::unwrap_used, reason = "test code")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::Duration;

use files::dir::LocalDirectory;
use files::reftest::{Subject, compare_in_trouble, steps};
use files::spread::{Mode, Options, Real, Server, Spread, SpreadError};
use files::{
    Caller, Data, Errno, Export, FileSystem, Handle, OUTCOME_UNKNOWN, Place, RenameMode, Reply,
    Request, Segment,
};
use proptest::prelude::*;
use proptest::test_runner::{TestError, TestRunner};
use tempfile::TempDir;

use crate::common::{Site, What, faults};

fn caller() -> Caller {
    Caller::default()
}

fn at(name: &str) -> Place {
    Place::from_root(name.as_bytes()).unwrap()
}

fn lose(is_done: bool) -> What {
    let errno = Errno::ETIMEDOUT;
    What::Lose { is_done, errno }
}

/// Returns the number of operations of each gateway, without probes.
fn operations(spread: &Spread) -> Vec<u64> {
    let report = spread.report();
    report.iter().map(|gateway| gateway.operations).collect()
}

#[test]
fn serial_asks_the_first_and_fails_over_in_order_and_back() {
    let site = Site::new(3, &[]);
    let spread = site.spread(Mode::Serial, 100);
    spread.null(&caller()).unwrap();
    assert_eq!(operations(&spread), [3, 0, 0]);
    site.gates[0].arm(
        0,
        What::Die {
            is_done: false,
            steps: usize::MAX,
        },
    );
    for _ in 0..5 {
        spread.null(&caller()).unwrap();
    }
    assert_eq!(operations(&spread), [4, 7, 0]);
    assert!(!spread.report()[0].is_up);
    assert_eq!(spread.report()[0].error, Some(Errno::ECONNREFUSED));
    assert_eq!(spread.report()[1].taken_over, 1);
    // The gateway recovers, and the client notices after the pause.
    files::reftest::Trouble::heal(&site);
    spread.null(&caller()).unwrap();
    spread.null(&caller()).unwrap();
    assert!(spread.report()[0].is_up);
    assert_eq!(operations(&spread)[1..], [8, 0]);
}

#[test]
fn a_gateway_that_stays_away_is_knocked_at_with_longer_and_longer_pauses() {
    let site = Site::new(2, &[]);
    let spread = site.spread(Mode::Serial, 100);
    site.gates[0].arm(
        0,
        What::Die {
            is_done: false,
            steps: usize::MAX,
        },
    );
    let mut knocks = Vec::new();
    for second in 0..70 {
        let before = operations(&spread)[0];
        spread.null(&caller()).unwrap();
        if operations(&spread)[0] > before {
            knocks.push(second);
        }
        site.clock.pass(Duration::from_secs(1));
    }
    // The pauses are 1, 2, 4, 8, 16 and 30 seconds.
    assert_eq!(knocks, [0, 1, 3, 7, 15, 31, 61]);
}

#[test]
fn cluster_gives_each_file_to_one_gateway_and_all_gateways_some() {
    let site = Site::new(3, &[]);
    let spread = site.spread(Mode::Cluster, 1000);
    let mut by_gateway = [0; 3];
    for number in 0..60 {
        let (entry, _) = spread
            .create(&caller(), at(&format!("f{number}")), 0o600, true)
            .unwrap();
        spread.write(&caller(), entry.handle, 0, b"x").unwrap();
        let before = operations(&spread);
        for _ in 0..4 {
            spread.write(&caller(), entry.handle, 0, b"x").unwrap();
        }
        let after = operations(&spread);
        let grown: Vec<usize> = (0..3).filter(|&at| after[at] > before[at]).collect();
        assert_eq!(grown.len(), 1, "file {number}");
        by_gateway[grown[0]] += 1;
    }
    assert!(by_gateway.iter().all(|&files| files >= 8), "{by_gateway:?}");
}

#[test]
fn stripe_gives_the_blocks_of_one_write_to_all_gateways_and_reads_them_back() {
    let site = Site::new(3, &[]);
    let spread = site.spread(Mode::Stripe, 100);
    let (entry, _) = spread.create(&caller(), at("a"), 0o600, true).unwrap();
    let bytes: Vec<u8> = (0..100_000_u32).map(|byte| (byte % 251) as u8).collect();
    assert_eq!(
        spread.write(&caller(), entry.handle, 10, &bytes),
        Ok(bytes.len())
    );
    let mut back = vec![0; bytes.len() + 20];
    assert_eq!(
        spread.read(&caller(), entry.handle, 10, &mut back),
        Ok(bytes.len())
    );
    assert_eq!(back[..bytes.len()], bytes);
    assert!(
        operations(&spread)
            .iter()
            .all(|&operations| operations >= 4)
    );
    assert_eq!(std::fs::read(site.path("a")).unwrap()[10..], bytes);
}

#[test]
fn loadbalance_changes_nothing_and_asks_all() {
    let site = Site::new(3, &[]);
    std::fs::write(site.path("a"), "abc").unwrap();
    let spread = site.spread(Mode::LoadBalance, 100);
    assert_eq!(spread.mkdir(&caller(), at("b"), 0o700), Err(Errno::EROFS));
    let entry = spread.lookup(&caller(), at("a")).unwrap();
    let mut bytes = [0; 3];
    for _ in 0..6 {
        spread.read(&caller(), entry.handle, 0, &mut bytes).unwrap();
    }
    assert!(
        operations(&spread)
            .iter()
            .all(|&operations| operations >= 4)
    );
}

#[test]
fn gateways_that_do_not_declare_one_coherent_file_system_are_refused() {
    let site = Site::new(2, &[]);
    for coherent in ["", "other"] {
        site.gates[1].declare(coherent.as_bytes());
        let spread = site.spread(Mode::Serial, 100);
        let refused = SpreadError::NotCoherent("gateway 1".to_owned());
        assert_eq!(spread.check(), Err(refused));
        // The gateway gets no operation even after the other gateway has died.
        site.gates[0].arm(
            0,
            What::Die {
                is_done: false,
                steps: 0,
            },
        );
        assert!(spread.mkdir(&caller(), at("b"), 0o700).is_err());
        files::reftest::Trouble::heal(&site);
    }
    assert!(!site.path("b").exists());
    site.gates[1].declare(b"scratch");
    assert_eq!(site.spread(Mode::Serial, 100).check(), Ok(()));
}

#[test]
fn gateways_that_all_declare_nothing_are_refused_in_every_mode() {
    for mode in [Mode::Serial, Mode::Cluster, Mode::Stripe, Mode::LoadBalance] {
        let site = Site::new(2, &[]);
        site.gates.iter().for_each(|gate| gate.declare(b""));
        let spread = site.spread(mode, 100);
        assert!(matches!(spread.check(), Err(SpreadError::NotCoherent(_))));
        assert!(spread.mkdir(&caller(), at("a"), 0o700).is_err());
        assert!(!site.path("a").exists());
    }
    // A single gateway needs no name of a coherent file system.
    let site = Site::new(1, &[]);
    site.gates[0].declare(b"");
    let spread = site.spread(Mode::Serial, 100);
    assert_eq!(spread.check(), Ok(()));
    spread.mkdir(&caller(), at("a"), 0o700).unwrap();
}

#[test]
fn a_gateway_that_lost_an_operation_is_down_and_one_that_answers_with_its_disk_s_error_is_not() {
    for (errno, is_up) in [
        (Errno::ETIMEDOUT, false),
        (Errno::ECONNRESET, false),
        (Errno::EHOSTUNREACH, false),
        (Errno::EIO, true),
    ] {
        let site = Site::new(2, &[]);
        let spread = site.spread(Mode::Serial, 100);
        spread.null(&caller()).unwrap();
        let is_done = false;
        site.gates[0].arm(0, What::Lose { is_done, errno });
        spread.null(&caller()).unwrap();
        let before = operations(&spread);
        assert_eq!(spread.report()[0].is_up, is_up, "{errno}");
        assert_eq!(spread.report()[0].lost, 1);
        spread.null(&caller()).unwrap();
        let asked = usize::from(!is_up);
        let mut after = before.clone();
        after[asked] += 1;
        assert_eq!(operations(&spread), after, "{errno}: before {before:?}");
    }
}

#[test]
fn a_gateway_that_shows_another_directory_is_refused() {
    let (one, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let servers = [&one, &other].map(|directory| Server {
        name: directory.path().display().to_string(),
        files: Arc::new(Declared(
            LocalDirectory::open(directory.path(), files::dir::Options::default()).unwrap(),
        )),
    });
    let spread = Spread::new(servers.to_vec(), Options::default(), Real::new()).unwrap();
    // The first gateway that answers defines the file system, whichever it is.
    assert!(matches!(spread.check(), Err(SpreadError::NotCoherent(_))));
    let refused = spread
        .report()
        .iter()
        .filter(|gateway| !gateway.is_up)
        .count();
    assert_eq!(refused, 1);
    let twice = vec![servers[0].clone(), servers[0].clone()];
    let twice = Spread::new(twice, Options::default(), Real::new());
    assert!(matches!(twice, Err(SpreadError::Twice(_))));
}

/// A directory that declares itself coherent.
struct Declared(LocalDirectory);

impl FileSystem for Declared {
    fn call(&self, caller: &Caller, request: &Request, data: Data<'_>) -> Result<Reply, Errno> {
        match request {
            Request::Identify => Ok(Reply::Export(Export {
                coherent: b"one".to_vec(),
                ..Export::default()
            })),
            _ => self.0.call(caller, request, data),
        }
    }
}

#[test]
fn a_lost_append_is_unknown_and_never_repeated() {
    for is_done in [false, true] {
        let site = Site::new(2, &[]);
        let spread = site.spread(Mode::Serial, 100);
        let (entry, _) = spread.create(&caller(), at("a"), 0o600, true).unwrap();
        site.gates[0].arm(0, lose(is_done));
        assert_eq!(
            spread.append(&caller(), entry.handle, b"abc"),
            Err(OUTCOME_UNKNOWN)
        );
        let expected: &[u8] = if is_done { b"abc" } else { b"" };
        assert_eq!(std::fs::read(site.path("a")).unwrap(), expected);
        assert_eq!(spread.report()[0].unknown, 1);
        assert_eq!(spread.append(&caller(), entry.handle, b"x").unwrap().1, 1);
    }
}

#[test]
fn a_lost_rename_link_or_removal_proves_itself() {
    for is_done in [false, true] {
        let site = Site::new(2, &[]);
        let spread = site.spread(Mode::Serial, 100);
        let (entry, _) = spread.create(&caller(), at("a"), 0o600, true).unwrap();
        site.gates[0].arm(0, lose(is_done));
        spread
            .rename(&caller(), at("a"), at("b"), RenameMode::Replace)
            .unwrap();
        site.clock.pass(Duration::from_secs(60));
        spread.null(&caller()).unwrap();
        site.gates[0].arm(0, lose(is_done));
        spread.link(&caller(), entry.handle, at("c")).unwrap();
        site.clock.pass(Duration::from_secs(60));
        spread.null(&caller()).unwrap();
        site.gates[0].arm(0, lose(is_done));
        spread.remove(&caller(), at("b"), None).unwrap();
        assert!(!site.path("a").exists() && !site.path("b").exists());
        assert_eq!(spread.getattr(&caller(), entry.handle).unwrap().links, 1);
        assert!(spread.report().iter().all(|gateway| gateway.unknown == 0));
    }
}

#[test]
fn a_new_name_that_is_not_there_is_made_by_the_next_gateway_and_one_that_is_there_is_unknown() {
    for is_done in [false, true] {
        let site = Site::new(2, &[]);
        let spread = site.spread(Mode::Serial, 100);
        site.gates[0].arm(2, lose(is_done));
        let made = spread
            .create(&caller(), at("a"), 0o600, true)
            .map(|(_, is_new)| is_new);
        assert_eq!(
            made,
            if is_done {
                Err(OUTCOME_UNKNOWN)
            } else {
                Ok(true)
            }
        );
    }
}

#[test]
fn a_name_that_was_there_before_is_refused_and_not_unknown() {
    let site = Site::new(2, &[]);
    let spread = site.spread(Mode::Serial, 100);
    spread.mkdir(&caller(), at("a"), 0o700).unwrap();
    site.gates[0].arm(0, lose(true));
    assert_eq!(spread.mkdir(&caller(), at("a"), 0o700), Err(Errno::EEXIST));
}

#[test]
fn another_object_at_the_old_path_is_stale_after_a_restart() {
    let site = Site::new(2, &[]);
    let spread = site.spread(Mode::Serial, 100);
    let (entry, _) = spread.create(&caller(), at("a"), 0o600, true).unwrap();
    std::fs::rename(site.path("a"), site.path("away")).unwrap();
    std::fs::write(site.path("a"), "another").unwrap();
    site.gates[0].arm(0, What::Restart);
    assert_eq!(
        spread.write(&caller(), entry.handle, 0, b"mine"),
        Err(Errno::ESTALE)
    );
    assert_eq!(std::fs::read(site.path("a")).unwrap(), b"another");
    std::fs::rename(site.path("away"), site.path("a")).unwrap();
    assert_eq!(spread.write(&caller(), entry.handle, 0, b"mine"), Ok(4));
}

#[test]
fn a_commit_reaches_every_gateway_that_took_a_write_or_fails() {
    let site = Site::new(3, &[]);
    let spread = site.spread(Mode::Stripe, 100);
    let (entry, _) = spread.create(&caller(), at("a"), 0o600, true).unwrap();
    spread
        .write(&caller(), entry.handle, 0, &[1; 3 * 4096])
        .unwrap();
    let before = operations(&spread);
    spread.commit(&caller(), entry.handle, true).unwrap();
    let after = operations(&spread);
    assert!(
        before
            .iter()
            .zip(&after)
            .all(|(before, after)| after > before),
        "{after:?}"
    );
    spread
        .write(&caller(), entry.handle, 0, &[1; 3 * 4096])
        .unwrap();
    site.gates[1].arm(
        0,
        What::Hang {
            is_done: false,
            steps: usize::MAX,
        },
    );
    assert_eq!(
        spread.commit(&caller(), entry.handle, true),
        Err(Errno::ETIMEDOUT)
    );
    files::reftest::Trouble::heal(&site);
    spread.commit(&caller(), entry.handle, true).unwrap();
}

#[test]
fn a_commit_fails_once_where_the_machine_of_a_write_was_started_again() {
    let site = Site::new(2, &[]);
    let spread = site.spread(Mode::Serial, 100);
    let (entry, _) = spread.create(&caller(), at("a"), 0o600, true).unwrap();
    spread.write(&caller(), entry.handle, 0, b"abc").unwrap();
    let die = What::Die {
        is_done: false,
        steps: 0,
    };
    site.gates[0].arm(0, die);
    spread.write(&caller(), entry.handle, 3, b"d").unwrap();
    files::reftest::Trouble::heal(&site);
    assert_eq!(
        spread.commit(&caller(), entry.handle, true),
        Err(Errno::EIO)
    );
    assert_eq!(spread.commit(&caller(), entry.handle, true), Ok(()));
    // A restart of the gateway without a reboot of its machine loses nothing.
    spread.write(&caller(), entry.handle, 0, b"abc").unwrap();
    site.gates[0].arm(0, What::Restart);
    assert_eq!(spread.commit(&caller(), entry.handle, true), Ok(()));
}

#[test]
fn a_commit_is_made_by_another_gateway_of_the_same_machine() {
    let site = Site::new(2, &[]);
    site.gates.iter().for_each(|gate| gate.runs_on(7));
    let spread = site.spread(Mode::Serial, 100);
    let (entry, _) = spread.create(&caller(), at("a"), 0o600, true).unwrap();
    spread.write(&caller(), entry.handle, 0, b"abc").unwrap();
    let die = What::Die {
        is_done: false,
        steps: usize::MAX,
    };
    site.gates[0].arm(0, die);
    spread.write(&caller(), entry.handle, 3, b"d").unwrap();
    assert_eq!(spread.commit(&caller(), entry.handle, true), Ok(()));
}

/// A gateway whose operations wait until the test releases them, and then fail as if the carrier had timed out.
struct Hung {
    files: Declared,
    gate: Mutex<Option<mpsc::Receiver<()>>>,
    waiting: mpsc::Sender<()>,
}

impl FileSystem for Hung {
    fn call(&self, caller: &Caller, request: &Request, data: Data<'_>) -> Result<Reply, Errno> {
        let held = self.gate.lock().unwrap().take();
        match held {
            Some(gate) if matches!(request, Request::GetXattr { .. }) => {
                self.waiting.send(()).unwrap();
                gate.recv().unwrap();
                Err(Errno::ETIMEDOUT)
            }
            held => {
                *self.gate.lock().unwrap() = held;
                self.files.call(caller, request, data)
            }
        }
    }
}

#[test]
fn no_operation_waits_for_one_that_hangs() {
    let directory = TempDir::new().unwrap();
    let open = || {
        Declared(LocalDirectory::open(directory.path(), files::dir::Options::default()).unwrap())
    };
    let (waiting, hangs) = mpsc::channel();
    let (go, gate) = mpsc::channel();
    let hung = Hung {
        files: open(),
        gate: Mutex::new(Some(gate)),
        waiting,
    };
    let server = |name: &str, files: Arc<dyn FileSystem>| Server {
        name: name.to_owned(),
        files,
    };
    let servers = vec![
        server("hung", Arc::new(hung)),
        server("well", Arc::new(open())),
    ];
    let spread = Spread::new(servers, Options::default(), Real::new()).unwrap();
    let (entry, _) = spread.create(&caller(), at("a"), 0o600, true).unwrap();
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| spread.getxattr(&caller(), entry.handle, b"user.x"));
        hangs.recv().unwrap();
        spread.write(&caller(), entry.handle, 0, b"abc").unwrap();
        spread.mkdir(&caller(), at("b"), 0o700).unwrap();
        go.send(()).unwrap();
        assert_eq!(slow.join().unwrap(), Err(Errno::ENODATA));
    });
    assert_eq!(spread.report()[1].taken_over, 1);
}

/// A gateway whose reads and writes complete only once as many are in flight as there are gateways.
struct Meeting(Declared, Arc<Barrier>, Arc<AtomicUsize>);

impl FileSystem for Meeting {
    fn call(&self, caller: &Caller, request: &Request, data: Data<'_>) -> Result<Reply, Errno> {
        if matches!(request, Request::Write { .. } | Request::Read { .. }) {
            self.1.wait();
            self.2.fetch_add(1, Ordering::Relaxed);
        }
        self.0.call(caller, request, data)
    }
}

#[test]
fn the_parts_of_one_write_and_read_are_under_way_at_the_same_time() {
    let directory = TempDir::new().unwrap();
    let (barrier, met) = (Arc::new(Barrier::new(3)), Arc::new(AtomicUsize::new(0)));
    let server = |number: usize| {
        let files = LocalDirectory::open(directory.path(), files::dir::Options::default()).unwrap();
        Server {
            name: number.to_string(),
            files: Arc::new(Meeting(
                Declared(files),
                Arc::clone(&barrier),
                Arc::clone(&met),
            )),
        }
    };
    let options = Options {
        mode: Mode::Stripe,
        block: 1000,
        ..Options::default()
    };
    let spread = Spread::new((0..3).map(server).collect(), options, Real::new()).unwrap();
    let (entry, _) = spread.create(&caller(), at("a"), 0o600, true).unwrap();
    let segments = vec![
        Segment {
            offset: 5,
            length: 2000,
        },
        Segment {
            offset: 9000,
            length: 700,
        },
    ];
    let bytes: Vec<u8> = (0..2700_u32).map(|byte| (byte % 251) as u8).collect();
    let memory = [
        std::io::IoSlice::new(&bytes[..11]),
        std::io::IoSlice::new(&bytes[11..]),
    ];
    let handle = entry.handle;
    let write = Request::Write {
        handle,
        segments: segments.clone(),
    };
    let reply = spread.call(&caller(), &write, Data::Write(&memory));
    assert_eq!(reply, Ok(Reply::Counts(vec![2000, 700])));
    let mut back = vec![0; 2700];
    let mut memory = [std::io::IoSliceMut::new(&mut back)];
    let read = Request::Read { handle, segments };
    let reply = spread.call(&caller(), &read, Data::Read(&mut memory));
    assert_eq!(reply, Ok(Reply::Counts(vec![2000, 700])));
    assert_eq!(back, bytes);
    assert_eq!(met.load(Ordering::Relaxed), 6);
}

/// A client whose behaviour `spoil` breaks.
struct Spoiled<F>(Spread, F);

impl<F> FileSystem for Spoiled<F>
where
    F: Fn(&Spread, &Caller, &Request, Data<'_>) -> Result<Reply, Errno> + Send + Sync,
{
    fn call(&self, caller: &Caller, request: &Request, data: Data<'_>) -> Result<Reply, Errno> {
        (self.1)(&self.0, caller, request, data)
    }
}

fn is_noticed(
    spoil: impl Fn(&Spread, &Caller, &Request, Data<'_>) -> Result<Reply, Errno> + Send + Sync + Copy,
) -> bool {
    let mut runner = TestRunner::deterministic();
    let drawn = (steps(50, 1), faults(50, 2));
    let result = runner.run(&drawn, |(steps, faults)| {
        let site = Site::new(2, &faults);
        let client = Spoiled(site.spread(Mode::Serial, 1000), spoil);
        let subject = Subject {
            clients: &[&client],
            readers: 0,
            truth: &site.truth,
            trouble: &site,
        };
        compare_in_trouble(&subject, &caller(), &steps)
            .map(|_| ())
            .map_err(|mismatch| TestCaseError::fail(mismatch.to_string()))
    });
    matches!(result, Err(TestError::Fail(..)))
}

#[test]
fn what_is_done_twice_or_not_at_all_is_noticed() {
    assert!(!is_noticed(
        |spread, caller, request, data| spread.call(caller, request, data)
    ));
    // An append with unknown outcome is sent once more.
    assert!(is_noticed(|spread, caller, request, data| {
        match (request, data) {
            (Request::Append { .. }, Data::Write(memory)) => {
                match spread.call(caller, request, Data::Write(memory)) {
                    Err(OUTCOME_UNKNOWN) => spread.call(caller, request, Data::Write(memory)),
                    result => result,
                }
            }
            (_, data) => spread.call(caller, request, data),
        }
    }));
    // A rename with unknown outcome returns a definite error, a removal success.
    assert!(is_noticed(|spread, caller, request, data| {
        match (request, spread.call(caller, request, data)) {
            (Request::Rename { .. } | Request::Mkdir { .. }, Err(OUTCOME_UNKNOWN)) => {
                Err(Errno::EEXIST)
            }
            (Request::Remove { .. }, Err(OUTCOME_UNKNOWN)) => Ok(Reply::Done),
            (_, result) => result,
        }
    }));
    // Every getattr except that of the root returns ESTALE.
    assert!(is_noticed(|spread, caller, request, data| match request {
        Request::GetAttr { handle } if *handle != Handle::ROOT => Err(Errno::ESTALE),
        _ => spread.call(caller, request, data),
    }));
}
