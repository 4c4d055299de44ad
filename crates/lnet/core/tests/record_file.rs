//! Every input of a core is written, read and replayed; any damage ends in an error.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test reads its seed, and shares what a recorder writes"
)]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use lnet_core::record_file::{BadLog, Log, Replay, Sink, Writer, input_name, places, with_checks};
use lnet_core::{
    Core, CoreConfig, DelayRule, DropRule, Entropy, FaultFilter, GetRequest, Globals, Health,
    InsertPosition, MdOptions, MdSpec, MeSpec, MessageStatus, NiConfig, NiDevice, NiId, NidFilter,
    Output, Pace, PeerState, PutRequest, Route, RouterBuffers, RxId, SendHints, Tunables, TxId,
    Verdict,
};
use lnet_policy::{Priority, Profile, Rule, RuleList, RuleText};
use lnet_types::{Net, Nid, ProcessId, Time};
use lnet_wire::{Body, Get, Handle, Header, Put};
use proptest::collection::vec;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use proptest::sample::Index;

type Bytes = Arc<Mutex<Vec<u8>>>;

#[derive(Debug)]
struct Memory(Bytes);

impl Sink for Memory {
    fn take(&mut self, items: &[u8], _inputs: u64) -> bool {
        self.0.lock().unwrap().extend_from_slice(items);
        true
    }
}

fn nid(text: &str) -> Nid {
    text.parse().unwrap()
}

fn now(seconds: u64) -> Time {
    Time::from_secs(seconds)
}

fn recorded_core(bytes: &Bytes) -> Core {
    let config = CoreConfig {
        entropy: Entropy::from_seed(1),
        seed: 1,
        globals: Globals::default(),
        buffers: RouterBuffers::default(),
        routing: false,
        pid: 12345,
    };
    let mut core = Core::new(config, now(1));
    let writer = Writer::new(Memory(Arc::clone(bytes)), "a test");
    core.record(Box::new(writer)).unwrap();
    core
}

const MD: MdSpec = MdSpec {
    length: 4096,
    threshold: Some(4),
    max_size: 0,
    options: MdOptions::empty(),
    unlink_when_exhausted: true,
    user: 42,
};

/// A record with every input.
fn every_input() -> Vec<u8> {
    let bytes = Bytes::default();
    let mut core = recorded_core(&bytes);
    configure(&mut core);
    traffic(&mut core);
    rules_and_faults(&mut core);
    take_down(&mut core);
    drop(core);
    Arc::try_unwrap(bytes).unwrap().into_inner().unwrap()
}

fn configure(core: &mut Core) {
    let mut add = |text: &str| {
        let config = NiConfig {
            nid: nid(text),
            tunables: Tunables::default(),
        };
        core.add_ni(config, now(2)).unwrap()
    };
    let first = add("10.0.0.1@tcp");
    add("2001:db8::1@tcp6");
    let device = NiDevice {
        rank: 1,
        distances: [10, 20].into_iter().collect(),
    };
    core.set_ni_device(first, device).unwrap();
    let timeout = Some(Duration::from_millis(1500));
    core.set_ni_lnd_timeout(first, timeout).unwrap();
    core.set_ni_fatal(first, true, now(3));
    core.set_ni_fatal(first, false, now(3));
    let route = Route {
        net: Net::tcp(7),
        gateway: nid("10.0.0.9@tcp"),
        hops: Some(2),
        priority: 1,
    };
    core.add_route(route, now(3)).unwrap();
    core.add_route(route, now(3)).unwrap_err();
    let primary = nid("10.0.0.2@tcp");
    core.add_peer(primary, &[nid("10.0.0.3@tcp")], true)
        .unwrap();
    core.set_peer_state(primary, PeerState::CONFIGURED).unwrap();
    let globals = Globals {
        discovery: false,
        retry_count: 3,
        ..*core.globals()
    };
    core.change_globals(globals, now(3)).unwrap();
    core.set_globals(globals, now(3));
    core.set_router_buffers(RouterBuffers::default(), now(3));
    core.start_routing(now(3));
    core.stop_routing(now(4));
    core.set_routing(true, now(4));
    let health = Health::new(900).unwrap();
    core.set_ni_health(first, health, now(4)).unwrap();
    core.set_peer_ni_health(primary, health, now(4)).unwrap();
    core.set_all_peer_health(Health::MAX, now(4));
    core.discover(primary, now(4)).unwrap_err();
}

fn traffic(core: &mut Core) {
    let target = ProcessId::lustre(nid("10.0.0.2@tcp"));
    let me = MeSpec {
        portal: 30,
        match_id: ProcessId::ANY,
        match_bits: 7,
        ignore_bits: 0,
        unlink_with_md: true,
        position: InsertPosition::After,
    };
    let entry = core.me_attach(me).unwrap();
    let sink = MdSpec {
        options: MdOptions::OP_PUT | MdOptions::OP_GET,
        ..MD
    };
    core.md_attach(entry, sink, now(5)).unwrap();
    let other = core.me_attach(me).unwrap();
    core.me_unlink(other, now(5)).unwrap();
    core.set_lazy(31).unwrap();
    core.clear_lazy(31, now(5)).unwrap();
    let put = PutRequest {
        md: core.md_bind(MD).unwrap(),
        ack: true,
        source: None,
        target,
        portal: 30,
        match_bits: 7,
        offset: 0,
        hdr_data: 1,
    };
    core.put(put, now(5)).unwrap();
    let get = GetRequest {
        md: core.md_bind(MD).unwrap(),
        source: Some(nid("10.0.0.1@tcp")),
        target,
        portal: 30,
        match_bits: 7,
        offset: 0,
    };
    core.hinted_get(get, SendHints::default(), now(5)).unwrap();
    let sent: Vec<TxId> = std::iter::from_fn(|| core.poll_output())
        .filter_map(|output| match output {
            Output::Transmit(transmit) => Some(transmit.tx),
            _ => None,
        })
        .collect();
    core.sent(sent[0], MessageStatus::Ok, now(6));
    core.sent_try_next(
        sent[1],
        MessageStatus::RemoteDropped,
        nid("10.0.0.3@tcp"),
        now(6),
    );
    core.sent_in_no_form(TxId(77), now(6));
    core.peer_notify(NiId(1), target.nid, false, now(6));
    arrivals(core, target);
    core.tick(now(400));
    core.md_cancel(put.md, now(400)).unwrap_err();
    let spare = core.md_bind(MD).unwrap();
    core.md_unlink(spare, now(400)).unwrap();
}

/// A PUT with a matching entry, and a push of discovery information.
fn arrivals(core: &mut Core, from: ProcessId) {
    let put = |portal, match_bits, payload_length| Header {
        dest_nid: nid("10.0.0.1@tcp"),
        src_nid: from.nid,
        dest_pid: 12345,
        src_pid: 12345,
        payload_length,
        body: Body::Put(Put {
            ack_wmd: Handle::NONE,
            match_bits,
            hdr_data: 0,
            ptl_index: portal,
            offset: 0,
        }),
    };
    let verdict = core.header(NiId(1), from, &put(30, 7, 100), now(7));
    let Verdict::Receive { rx, .. } = verdict else {
        unreachable!("{verdict:?}")
    };
    core.arrived(rx, Ok(()), now(7));
    core.arrived(RxId(99), Err(MessageStatus::RemoteError), now(7));
    let ping = Header {
        payload_length: 0,
        body: Body::Get(Get {
            return_wmd: Handle::NONE,
            match_bits: lnet_wire::PING_MATCH_BITS,
            ptl_index: 0,
            src_offset: 0,
            sink_length: 4096,
        }),
        ..put(0, 0, 0)
    };
    core.header(NiId(1), from, &ping, now(7));
    // The driver does the same with data that arrived for the core.
    core.core_buffer_mut(lnet_core::CoreBuffer(0));
    core.tick(now(300));
}

fn rules_and_faults(core: &mut Core) {
    let text = RuleText {
        src: Some("10.0.0.1@tcp"),
        dst: Some("10.0.0.[2-3]@tcp"),
        ..RuleText::default()
    };
    core.hold_rules();
    let pair = Rule::from_text(&text, Profile::Design).unwrap();
    core.add_rule(pair.clone(), None).unwrap();
    let net = Rule::local("tcp".parse().unwrap(), Priority::new(3).unwrap()).unwrap();
    core.add_rule(net, Some(0)).unwrap();
    core.release_rules();
    core.delete_rule(0).unwrap();
    let mut list = RuleList::new();
    list.add(pair.disabled(true), None).unwrap();
    core.hold_rules();
    core.set_rules(list);
    core.release_rules_in_steps();
    while core.apply_rules_step(1) {}
    core.clear_rules();
    let filter = FaultFilter {
        source: NidFilter::Net(Net::tcp(0)),
        ..FaultFilter::default()
    };
    let rule = DropRule {
        filter,
        pace: Pace::Rate(2),
        classes: vec![MessageStatus::LocalError],
        all: false,
    };
    core.add_drop_rule(rule).unwrap();
    let rule = DelayRule {
        filter,
        pace: Pace::Interval(Duration::from_secs(1)),
        latency: Duration::from_secs(1),
    };
    core.add_delay_rule(rule).unwrap();
    core.reset_fault_rules();
    core.delete_drop_rules(NidFilter::Any, NidFilter::Any);
    core.delete_delay_rules(NidFilter::Nid(nid("10.0.0.1@tcp")), NidFilter::Any);
}

fn take_down(core: &mut Core) {
    core.reset_stats();
    core.remove_route(Net::tcp(7), nid("10.0.0.9@tcp")).unwrap();
    core.remove_peer(nid("10.0.0.2@tcp")).unwrap();
    core.remove_ni(NiId(1), now(500)).unwrap();
}

/// The variants of `Input`.
const INPUTS: usize = 52;

#[test]
fn a_record_with_every_input_replays() {
    let record = every_input();
    let log = Log::open(record.as_slice()).unwrap();
    assert_eq!(log.begin().software, "a test");
    let mut replay = Replay::new(log);
    let mut names = BTreeSet::new();
    while let Some(step) = replay.step(true).unwrap() {
        assert_eq!(step.agrees, Some(true), "{step:?}");
        names.insert(input_name(&step.input));
    }
    assert_eq!(names.len(), INPUTS, "{names:?}");
}

/// The seed of the fuzz target. Later software must read this record as long as it supports the
/// version of its format. `FINERAIL_REWRITE=1` writes the seed again, with another version.
#[test]
fn a_record_that_was_kept_has_the_same_inputs_still() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/seeds/record/every_input");
    let fresh = every_input();
    if std::env::var_os("FINERAIL_REWRITE").is_some() {
        std::fs::write(&path, &fresh).unwrap();
    }
    let kept = std::fs::read(&path).unwrap();
    let inputs = |record: &[u8]| {
        let mut log = Log::open(record).unwrap();
        std::iter::from_fn(move || log.next_entry().unwrap())
            .map(|entry| entry.input)
            .collect::<Vec<_>>()
    };
    assert_eq!(inputs(&kept), inputs(&fresh));
}

#[test]
fn whatever_else_is_no_record() {
    let record = every_input();
    assert!(matches!(Log::open(&b""[..]), Err(BadLog::NotALog)));
    assert!(matches!(Log::open(&b"LNETREC\0"[..]), Err(BadLog::NotALog)));
    assert!(matches!(
        Log::open(&b"net:\n  - net type: tcp\n"[..]),
        Err(BadLog::NotALog)
    ));
    let mut other = record.clone();
    other[8] = 99;
    assert!(matches!(
        Log::open(other.as_slice()),
        Err(BadLog::Version(99))
    ));
    let mut long = record.get(..10).unwrap().to_vec();
    long.extend([0xFF; 20]);
    let rejected = Log::open(long.as_slice()).unwrap_err();
    assert!(
        matches!(rejected, BadLog::Damaged { event: 0, .. }),
        "{rejected}"
    );
}

/// What a reader makes of a record: how many events are decided as they were, and how reading ends.
fn outcome(record: &[u8]) -> Result<u64, BadLog> {
    let mut replay = Replay::new(Log::open(record)?);
    let mut last = 0;
    while let Some(step) = replay.step(false)? {
        assert_ne!(step.agrees, Some(false), "event {}", step.number);
        last = step.number;
    }
    Ok(last)
}

/// A small record, without its end.
fn small() -> Vec<u8> {
    let bytes = Bytes::default();
    let mut core = recorded_core(&bytes);
    configure(&mut core);
    drop(core);
    Arc::try_unwrap(bytes).unwrap().into_inner().unwrap()
}

#[test]
fn whatever_bit_is_changed_the_record_is_damaged_there_and_no_decision_is_called_another() {
    let record = small();
    let places = places(&record).unwrap();
    let begin = 0..places[0].1.start;
    let whole = places.last().unwrap().0;
    assert_eq!(outcome(&record).unwrap(), whole);
    for at in 0..record.len() {
        let place = places.iter().find(|(_, place)| place.contains(&at));
        for bit in 0..8 {
            let mut changed = record.clone();
            changed[at] ^= 1 << bit;
            match (outcome(&changed).unwrap_err(), place) {
                (BadLog::NotALog, None) => assert!(at < 8),
                (BadLog::Version(_), None) => assert!((8..10).contains(&at)),
                (
                    BadLog::Damaged {
                        event: 0, offset, ..
                    },
                    None,
                ) => {
                    assert!(begin.contains(&(offset as usize)));
                }
                (BadLog::Damaged { event, offset, .. }, Some((number, place))) => {
                    assert_eq!(event, *number, "byte {at} bit {bit}");
                    assert!((place.start..=at).contains(&(offset as usize)));
                }
                (error, _) => unreachable!("byte {at} bit {bit}: {error}"),
            }
        }
    }
}

proptest! {
    #[test]
    fn a_changed_bit_of_any_input_is_damage(at in any::<Index>(), bit in 0..8) {
        static RECORD: LazyLock<Vec<u8>> = LazyLock::new(every_input);
        let mut changed = RECORD.clone();
        let at = at.index(changed.len());
        changed[at] ^= 1_u8 << bit;
        prop_assert!(outcome(&changed).is_err(), "byte {at}");
    }

    /// Somebody who changes a record on purpose makes its checksums anew.
    #[test]
    fn changes_behind_the_checksums_end_in_an_error_or_another_decision(
        changes in vec((any::<Index>(), any::<u8>()), 1..4),
    ) {
        let mut changed = every_input();
        for (at, byte) in changes {
            let at = at.index(changed.len());
            changed[at] = byte;
        }
        let changed = with_checks(&changed);
        let Ok(log) = Log::open(changed.as_slice()) else {
            return Ok(());
        };
        let mut replay = Replay::new(log);
        let mut last = 0;
        while let Ok(Some(step)) = replay.step(true) {
            last += 1;
            prop_assert_eq!(step.number, last);
        }
    }
}

#[test]
fn a_change_behind_the_checksums_is_another_decision_or_another_damage() {
    let record = small();
    let at = record.len() - 5;
    let mut changed = record.clone();
    changed[at] ^= 1;
    assert_eq!(with_checks(&record), record);
    let mended = with_checks(&changed);
    let mut replay = Replay::new(Log::open(mended.as_slice()).unwrap());
    let steps = std::iter::from_fn(|| replay.step(false).unwrap());
    assert_eq!(steps.last().unwrap().agrees, Some(false));
}

#[test]
fn a_record_of_an_older_version_is_said_to_be_one() {
    let mut record = small();
    record[8] = 1;
    let told = Log::open(record.as_slice()).unwrap_err().to_string();
    let due = "the record has version 1: this finerail reads only version 2";
    assert!(told.starts_with(due), "{told}");
}

#[test]
fn recording_begins_with_the_core_or_not_at_all() {
    let bytes = Bytes::default();
    let mut core = recorded_core(&bytes);
    core.set_lazy(31).unwrap();
    core.end_record().unwrap();
    let late = core.record(Box::new(Writer::new(Memory(bytes), "too late")));
    assert!(late.is_err());
}
