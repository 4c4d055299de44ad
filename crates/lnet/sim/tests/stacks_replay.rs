//! Tests that records of a mesh with faults replay to the same bytes of every decision, and that a change of a
//! record is noticed at its place.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::cell::RefCell;
use std::sync::{Arc, Mutex};

use lnet_core::record_file::{BadLog, End, Log, Replay, Sink, Step, Writer, end_item};
use lnet_core::{Answer, CoreConfig, Input, Output, Recorder};
use lnet_sim::stacks::{Defect, Options, World, mesh};
use lnet_types::Time;

/// The number of seeds in an ordinary run, and with `FINERAIL_LONG=1`.
const SEEDS: u64 = 5;
const SEEDS_LONG: u64 = 500;

fn seeds() -> u64 {
    let is_long = std::env::var_os("FINERAIL_LONG").is_some_and(|value| value == "1");
    if is_long { SEEDS_LONG } else { SEEDS }
}

/// A decision of a node: its answer and its outputs.
type Decision = (Answer, Vec<Output>);

/// One life of a node: its record, and the decisions themselves.
#[derive(Debug, Default)]
struct Life {
    machine: u32,
    number: u32,
    record: Vec<u8>,
    decisions: Vec<Decision>,
}

type Shared = Arc<Mutex<Life>>;

thread_local! {
    static LIVES: RefCell<Vec<Shared>> = const { RefCell::new(Vec::new()) };
}

#[derive(Debug)]
struct Memory(Shared);

impl Sink for Memory {
    fn take(&mut self, items: &[u8], _inputs: u64) -> bool {
        self.0.lock().unwrap().record.extend_from_slice(items);
        true
    }
}

/// A recorder that writes a record and also keeps the decisions themselves.
#[derive(Debug)]
struct Witness {
    writer: Writer<Memory>,
    life: Shared,
}

impl Recorder for Witness {
    fn begins(&mut self, config: &CoreConfig, at: Time) {
        self.writer.begins(config, at);
    }

    fn input(&mut self, input: &Input, latest: Time) {
        self.writer.input(input, latest);
    }

    fn decided(&mut self, answer: &Answer, outputs: &mut dyn Iterator<Item = &Output>) {
        let outputs: Vec<Output> = outputs.cloned().collect();
        self.writer.decided(answer, &mut outputs.iter());
        let decision = (answer.clone(), outputs);
        self.life.lock().unwrap().decisions.push(decision);
    }
}

fn recorder(machine: u32, number: u32) -> Box<dyn Recorder> {
    let life = Shared::new(Mutex::new(Life {
        machine,
        number,
        ..Life::default()
    }));
    LIVES.with_borrow_mut(|lives| lives.push(Arc::clone(&life)));
    Box::new(Witness {
        writer: Writer::new(Memory(Arc::clone(&life)), "a test"),
        life,
    })
}

/// Returns every life of every node of a mesh.
fn recorded(seed: u64, defect: Option<Defect>) -> Vec<Life> {
    let options = Options {
        record: Some(recorder),
        defect,
        ..Options::default()
    };
    let outcome = World::run(mesh(seed), options);
    assert!(defect.is_some() || outcome.violation.is_none());
    drop(outcome);
    let lives = LIVES.with_borrow_mut(std::mem::take);
    lives
        .into_iter()
        .map(|life| std::mem::take(&mut *life.lock().unwrap()))
        .collect()
}

fn replay(record: &[u8]) -> Replay<&[u8]> {
    Replay::new(Log::open(record).unwrap())
}

/// Returns the number of the first event that differs from the record, or of the event at which the record cannot
/// be read further.
fn first_difference(record: &[u8]) -> Option<u64> {
    let log = match Log::open(record) {
        Ok(log) => log,
        Err(_) => return Some(0),
    };
    let mut replay = Replay::new(log);
    loop {
        match replay.step(false) {
            Ok(Some(Step {
                number,
                agrees: Some(false) | None,
                ..
            })) => return Some(number),
            Ok(Some(_)) => {}
            Ok(None) => return None,
            Err(BadLog::Damaged { event, .. }) => return Some(event),
            Err(_) => return Some(0),
        }
    }
}

#[test]
fn a_recorded_mesh_with_faults_replays_to_the_same_decisions() {
    let (mut events, mut bytes, mut lives_seen) = (0, 0, 0);
    for seed in 1..=seeds() {
        for life in recorded(seed, None) {
            let name = format!("seed {seed} machine {} life {}", life.machine, life.number);
            let mut replay = replay(&life.record);
            let mut decisions = life.decisions.iter();
            while let Some(step) = replay.step(false).unwrap() {
                let number = step.number;
                assert_eq!(step.agrees, Some(true), "{name} event {number}");
                let again = (step.answer, step.outputs);
                assert_eq!(Some(&again), decisions.next(), "{name} event {number}");
                events += 1;
            }
            assert_eq!(decisions.next(), None, "{name}");
            assert_eq!(replay.core().counters().invariants_broken, 0, "{name}");
            assert_eq!(replay.log().ended().unwrap().why, End::CutOff);
            bytes += life.record.len();
            lives_seen += 1;
        }
    }
    println!("{events} events of {lives_seen} lives in {bytes} bytes");
    assert!(events > 10_000 && lives_seen > 10 * seeds());
}

#[test]
fn looking_at_selections_changes_no_decision() {
    let lives = recorded(1, None);
    let (mut selections, mut resends) = (0, 0);
    for life in &lives {
        let mut replay = replay(&life.record);
        while let Some(step) = replay.step(true).unwrap() {
            assert_eq!(step.agrees, Some(true));
            selections += step.selections.len();
            resends += step.selections.iter().filter(|one| one.again).count();
        }
    }
    println!("{selections} selections, {resends} of them of resends");
    assert!(selections > 100);
}

/// Returns a long record, and the place of each of its events.
fn busy() -> (Vec<u8>, Vec<(u64, std::ops::Range<usize>)>) {
    let lives = recorded(2, None);
    let life = lives.into_iter().max_by_key(|life| life.record.len());
    let record = life.unwrap().record;
    let places = lnet_core::record_file::places(&record).unwrap();
    (record, places)
}

#[test]
fn a_changed_bit_is_noticed_at_its_event() {
    let (record, places) = busy();
    assert_eq!(first_difference(&record), None);
    for (number, place) in places.iter().step_by(17) {
        for at in [place.start, (place.start + place.end) / 2, place.end - 1] {
            let mut changed = record.clone();
            changed[at] ^= 1 << (number % 8);
            assert_eq!(first_difference(&changed), Some(*number), "byte {at}");
        }
    }
}

#[test]
fn a_changed_bit_of_the_beginning_is_noticed() {
    let (record, places) = busy();
    for at in 0..places[0].1.start {
        let mut changed = record.clone();
        changed[at] ^= 4;
        let found = first_difference(&changed);
        assert!(matches!(found, Some(0 | 1)), "byte {at}: {found:?}");
    }
}

#[test]
fn an_event_that_is_left_out_is_noticed_behind_its_place() {
    let (record, places) = busy();
    for (number, place) in places.iter().skip(1).step_by(41) {
        let mut changed = record.clone();
        changed.drain(place.clone());
        if *number == places.len() as u64 {
            continue;
        }
        assert_eq!(first_difference(&changed), Some(*number));
    }
}

#[test]
fn a_record_that_is_cut_off_anywhere_replays_up_to_there() {
    let (record, places) = busy();
    for cut in (0..record.len()).step_by(1 + record.len() / 200) {
        let Ok(log) = Log::open(record.get(..cut).unwrap()) else {
            assert!(cut < places[0].1.start);
            continue;
        };
        let mut replay = Replay::new(log);
        let mut last = None;
        while let Some(step) = replay.step(false).unwrap() {
            assert_ne!(step.agrees, Some(false));
            last = Some(step.number);
        }
        let whole = places.iter().filter(|(_, place)| place.end <= cut).count() as u64;
        let last = last.unwrap_or(0);
        assert!(last == whole || last == whole + 1, "{last} of {whole}");
        assert_eq!(replay.log().ended().unwrap().why, End::CutOff);
    }
}

#[test]
fn a_gap_is_told_and_nothing_behind_it_is_read() {
    let (mut record, places) = busy();
    record.truncate(places[50].1.end);
    record.extend(end_item(&lnet_core::record_file::Ended {
        why: End::TooSlow,
        missing: 7,
    }));
    record.extend_from_slice(b"whatever comes later");
    let mut replay = replay(&record);
    let mut last = 0;
    while let Some(step) = replay.step(false).unwrap() {
        last = step.number;
    }
    assert_eq!(last, 51);
    let ended = replay.log().ended().unwrap();
    assert_eq!((&ended.why, ended.missing), (&End::TooSlow, 7));
}

/// A core that accepts forged responses stands for a core with other rules: a correct core replays its record up to
/// the first forged response, and the other way round.
#[test]
fn a_core_with_another_rule_is_noticed_at_the_event_where_the_rule_matters() {
    let mut noticed = 0;
    for seed in 1..=seeds().max(12) {
        let options = Options {
            record: Some(recorder),
            defect: Some(Defect::BelieveAnybody),
            ..Options::default()
        };
        drop(World::run(lnet_sim::stacks::draw(seed), options));
        for life in LIVES.with_borrow_mut(std::mem::take) {
            let life = life.lock().unwrap();
            let Some(number) = first_difference(&life.record) else {
                continue;
            };
            noticed += 1;
            let mut replay = replay(&life.record);
            let mut decisions = life.decisions.iter();
            while let Some(step) = replay.step(false).unwrap() {
                let same = decisions.next() == Some(&(step.answer, step.outputs));
                assert_eq!(same, step.number != number, "event {}", step.number);
                if !same {
                    assert!(matches!(step.input, Input::Header { .. }));
                    break;
                }
            }
        }
    }
    assert!(noticed > 0);
}
