//! Many threads of several clients at the same time, with real threads for the parts, while gateways fail: every
//! operation is executed once at most.

#![expect(clippy::unwrap_used, reason = "test code")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use files::reftest::Trouble;
use files::spread::{Later, Mode, Options, Part, Real, Spread, Surroundings};
use files::{Caller, Errno, FileSystem, OUTCOME_UNKNOWN, Place, RenameMode};

use crate::common::{Site, What};

const CLIENTS: usize = 2;
const THREADS: usize = 4;
const ROUNDS: usize = 40;

/// The clock of the test with real threads.
struct Threads(Arc<crate::common::Clock>, Arc<Real>);

impl Surroundings for Threads {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn together(&self, parts: Vec<Part<'_>>) {
        self.1.together(parts);
    }

    fn later(&self, work: Later) {
        self.1.later(work);
    }
}

fn at(name: &str) -> Place {
    Place::from_root(name.as_bytes()).unwrap()
}

/// The results of the operations of one thread.
#[derive(Default)]
struct Seen {
    appends: BTreeMap<String, Result<(u64, u64), Errno>>,
    creates: Vec<(usize, Result<bool, Errno>)>,
    renames: Vec<(String, Result<(), Errno>)>,
}

fn work(spread: &Spread, name: &str) -> Seen {
    let (caller, mut seen) = (Caller::default(), Seen::default());
    for round in 0..ROUNDS {
        let record = format!("{name}-{round:03}\n");
        let appended = spread
            .lookup(&caller, at("log"))
            .and_then(|log| spread.append(&caller, log.handle, record.as_bytes()));
        seen.appends.insert(record.clone(), appended);
        let made = spread.create(&caller, at(&format!("lock{round}")), 0o600, true);
        seen.creates.push((round, made.map(|(_, is_new)| is_new)));
        let (from, to) = (format!("{name}-{round}-a"), format!("{name}-{round}-b"));
        if let Ok((entry, _)) = spread.create(&caller, at(&from), 0o600, false) {
            let text = record.repeat(1000);
            let written = spread.write(&caller, entry.handle, 0, text.as_bytes());
            let moved = spread.rename(&caller, at(&from), at(&to), RenameMode::Replace);
            if written == Ok(text.len()) {
                seen.renames.push((format!("{name}-{round}"), moved));
            }
        }
    }
    seen
}

/// Causes faults at one gateway after the other while threads are at work.
fn trouble(site: &Site, at_work: &AtomicUsize) {
    let mut round = 0;
    while at_work.load(Ordering::Acquire) > 0 {
        let is_done = round % 2 == 0;
        let errno = [Errno::ETIMEDOUT, Errno::ECONNRESET][round / 2 % 2];
        let what = match round % 5 {
            0 | 1 => What::Lose { is_done, errno },
            2 => What::Restart,
            3 => What::Die { is_done, steps: 2 },
            _ => What::Hang { is_done, steps: 2 },
        };
        site.gates[round % 3].arm(round % 7, what);
        site.before(usize::MAX);
        std::thread::yield_now();
        round += 1;
    }
}

fn check(site: &Site, seen: &[Seen]) {
    let log = std::fs::read_to_string(site.path("log")).unwrap();
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    log.split_inclusive('\n')
        .for_each(|record| *times.entry(record).or_default() += 1);
    for (record, appended) in seen.iter().flat_map(|seen| &seen.appends) {
        let times = times.get(record.as_str()).copied().unwrap_or(0);
        match appended {
            Ok((offset, length)) => {
                assert_eq!(times, 1, "{record}");
                assert_eq!(&log[*offset as usize..(*offset + *length) as usize], record);
            }
            Err(OUTCOME_UNKNOWN) => assert!(times <= 1, "{record}"),
            Err(errno) => assert_eq!(times, 0, "{record}: {errno}"),
        }
    }
    for round in 0..ROUNDS {
        let ended = |wanted: Result<bool, Errno>| {
            let creates = seen.iter().flat_map(|seen| &seen.creates);
            creates.filter(|made| **made == (round, wanted)).count()
        };
        assert!(ended(Ok(true)) <= 1, "lock {round} is held twice");
        let is_there = site.path(&format!("lock{round}")).exists();
        let is_explained = ended(Ok(true)) == 1 || ended(Err(OUTCOME_UNKNOWN)) > 0;
        assert!(is_explained || !is_there, "nobody made lock {round}");
    }
    for (name, moved) in seen.iter().flat_map(|seen| &seen.renames) {
        let (from, to) = (
            site.path(&format!("{name}-a")),
            site.path(&format!("{name}-b")),
        );
        assert!(from.exists() != to.exists(), "{name}: {moved:?}");
        if moved.is_ok() {
            assert!(to.exists(), "{name}");
        }
        let kept = std::fs::read(if to.exists() { to } else { from }).unwrap();
        assert_eq!(kept.len() % 1000, 0, "{name}");
        assert!(!kept.is_empty(), "{name}");
    }
}

#[test]
fn threads_of_two_clients_do_each_operation_once_while_gateways_fail() {
    for mode in [Mode::Serial, Mode::Cluster, Mode::Stripe] {
        let site = Site::new(3, &[]);
        std::fs::write(site.path("log"), "").unwrap();
        let options = Options {
            mode,
            block: 4096,
            ..Options::default()
        };
        let spread = |_| {
            let threads = Threads(Arc::clone(&site.clock), Real::new());
            Spread::new(site.servers(), options, Arc::new(threads)).unwrap()
        };
        let clients: Vec<Spread> = (0..CLIENTS).map(spread).collect();
        let at_work = AtomicUsize::new(CLIENTS * THREADS);
        let seen: Vec<Seen> = std::thread::scope(|scope| {
            scope.spawn(|| trouble(&site, &at_work));
            let (clients, at_work) = (&clients, &at_work);
            let start = |number: usize| {
                scope.spawn(move || {
                    let seen = work(&clients[number % CLIENTS], &format!("t{number}"));
                    at_work.fetch_sub(1, Ordering::Release);
                    seen
                })
            };
            let workers: Vec<_> = (0..CLIENTS * THREADS).map(start).collect();
            workers
                .into_iter()
                .map(|worker| worker.join().unwrap())
                .collect()
        });
        site.heal();
        check(&site, &seen);
    }
}
