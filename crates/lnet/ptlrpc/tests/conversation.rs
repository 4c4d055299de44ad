//! The conversations of a mount check with a server that has planted troubles, in virtual time.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::time::Duration;

use lnet_ptlrpc::client::{
    Ending, Exchange, Export, Failure, Granted, Limits, Outgoing, Service, Start, Step,
};
use lnet_ptlrpc::mount::{Facts, Mgs, check};
use lnet_ptlrpc::opc;
use lnet_ptlrpc::server::{Answer, LogWriter, Served, Server, Trouble};
use lnet_types::Time;
use proptest::prelude::*;

const UUID: &str = "d1fc5a72-0d0e-4cb6-9da1-e3f1d2c45ba6";
const NODE: u64 = 0x0002_0000_c0a8_010a;

/// The time of a whole conversation, in seconds.
const TOTAL: u64 = 120;

fn start() -> Start {
    within(TOTAL)
}

fn within(seconds: u64) -> Start {
    Start {
        first_xid: 0x0006_536c_f000_0000,
        limits: Limits::within(Duration::from_secs(seconds)),
        now: Time::from_secs(1),
    }
}

fn export(service: Service, target: &str) -> Export {
    Export::new(service, target, UUID.to_owned(), 0x1122_3344_5566_7788)
}

fn reading() -> Exchange {
    reading_within(TOTAL)
}

fn reading_within(seconds: u64) -> Exchange {
    Exchange::read_log(export(Service::Mgs, "MGS"), "fs1", within(seconds))
}

fn log() -> LogWriter {
    let here: &[&[(u64, &str)]] = &[
        &[(NODE, "192.168.1.10@tcp")],
        &[(NODE + 1, "192.168.1.11@tcp"), (0, "fd00::11@tcp")],
    ];
    LogWriter::of_targets(&[
        ("fs1-MDT0000", here),
        ("fs1-OST0000", here),
        ("fs1-OST0001", here),
    ])
}

fn mgs() -> Served {
    Served::new(Service::Mgs, "MGS").log("fs1-client", log())
}

/// Gives the answers to a request to the conversation.
fn give(exchange: &mut Exchange, answers: Vec<Answer>, request: &Outgoing, now: Time) {
    for answer in answers {
        match &request.bulk {
            Some(bulk) if bulk.portal == answer.portal => {
                exchange.bulk(answer.match_bits, &answer.bytes);
            }
            _ => {
                assert_eq!(answer.portal, request.reply_portal);
                exchange.answer(answer.match_bits, &answer.bytes, answer.bytes.len(), now);
            }
        }
    }
}

/// Runs a conversation to its end, or interrupts it before the step of this number. Returns the time at the end.
fn run(exchange: &mut Exchange, server: &mut Server, interrupt: Option<usize>) -> Time {
    let mut now = Time::from_secs(1);
    let mut late: Vec<(Time, Answer, Outgoing)> = Vec::new();
    for step in 0..10_000 {
        if interrupt == Some(step) {
            exchange.stop(now);
        }
        match exchange.step(now) {
            Step::Send(request) => {
                server.at(now.saturating_since(Time::from_secs(1)));
                let answers = server.request(request.portal, request.match_bits, &request.bytes);
                now = now + Duration::from_millis(1);
                let (soon, slow): (Vec<_>, Vec<_>) = answers
                    .into_iter()
                    .partition(|answer| answer.after == Duration::ZERO);
                let slow = slow.into_iter();
                late.extend(slow.map(|answer| (now + answer.after, answer, request.clone())));
                give(exchange, soon, &request, now);
            }
            Step::Wait(until) => {
                assert!(until > now, "a wait that ends at once");
                let next = late.iter().map(|(due, ..)| *due).min();
                now = next.map_or(until, |due| due.min(until)).max(now);
                for (_, answer, request) in late.extract_if(.., |(due, ..)| *due <= now) {
                    give(exchange, vec![answer], &request, now);
                }
            }
            Step::Over => return now,
        }
    }
    panic!("the conversation does not end");
}

/// Whatever the server has of this client is named.
fn expect_nothing_hidden(exchange: &Exchange, server: &Server) {
    match exchange.ending() {
        Ending::Clean => assert_eq!(server.connected(), [], "{exchange:?}"),
        Ending::Left(left) => assert_eq!(left.uuid, UUID),
    }
    assert_eq!(server.harm(), [] as [String; 0]);
}

// [PTLRPC-20] [PTLRPC-22]
#[test]
fn log_of_a_healthy_mgs_is_read_and_the_connection_ended() {
    let mut server = Server::new(vec![mgs()]);
    let mut exchange = reading();
    run(&mut exchange, &mut server, None);
    assert_eq!(exchange.failure(), None);
    assert_eq!(*exchange.ending(), Ending::Clean);
    expect_nothing_hidden(&exchange, &server);
    let (system, rules) = exchange.log().unwrap();
    let names: Vec<&String> = system.targets.keys().collect();
    assert_eq!(names, ["fs1-MDT0000", "fs1-OST0000", "fs1-OST0001"]);
    let target = &system.targets["fs1-OST0001"];
    assert_eq!(target.nids, ["192.168.1.10@tcp"]);
    assert_eq!(target.failover, [["192.168.1.11@tcp", "fd00::11@tcp"]]);
    assert!(rules.texts().is_empty() && system.problems.is_empty());
    let connect = [opc::MGS_CONNECT, opc::LLOG_CREATE, opc::LLOG_READ_HEADER];
    assert_eq!(server.asked[..3], connect);
    assert_eq!(server.asked.last(), Some(&opc::MGS_DISCONNECT));
}

// [PTLRPC-22]
#[test]
fn log_of_many_blocks_is_read_whole_without_its_dead_records() {
    let names: Vec<String> = (0..2000)
        .map(|index| format!("fs1-OST{index:04x}"))
        .collect();
    let node: &[&[(u64, &str)]] = &[&[(NODE, "192.168.1.10@tcp")]];
    let targets: Vec<(&str, _)> = names.iter().map(|name| (name.as_str(), node)).collect();
    let mut log = LogWriter::of_targets(&targets);
    log.record(b"no command, and dead", false);
    assert!(log.last() > 10_000);
    let mut server = Server::new(vec![
        Served::new(Service::Mgs, "MGS").log("fs1-client", log),
    ]);
    let mut exchange = reading();
    run(&mut exchange, &mut server, None);
    assert_eq!(exchange.failure(), None);
    assert_eq!(exchange.log().unwrap().0.targets.len(), 2000);
    expect_nothing_hidden(&exchange, &server);
}

/// Records of some lengths leave a rest of their block in which no record has room.
#[test]
fn log_is_read_whole_whatever_the_lengths_of_its_records() {
    for len in 0..64 {
        let mut log = LogWriter::default();
        let text = "x".repeat(len);
        (0..300).for_each(|_| log.command(0xc_f00f, 0, &["fs1", &text]));
        log.target("fs1-MDT0000", &[&[(NODE, "192.168.1.10@tcp")]]);
        let served = Served::new(Service::Mgs, "MGS").log("fs1-client", log);
        let mut server = Server::new(vec![served]);
        let mut exchange = reading();
        run(&mut exchange, &mut server, None);
        assert_eq!(exchange.failure(), None, "{len} characters");
        assert_eq!(exchange.log().unwrap().0.targets.len(), 1);
    }
}

#[test]
fn rules_of_security_are_read_from_their_own_log() {
    let mut rules = LogWriter::default();
    let mut rule = |flags, text| {
        rules.marker(flags, "fs1", "srpc.flavor");
        rules.command(0xc_e016, 0, &["fs1", text]);
        rules.marker(flags + 1, "fs1", "srpc.flavor");
    };
    // The first rule was replaced.
    rule(5, "default=ska");
    rule(1, "default=krb5i");
    rules.command(0xc_e016, 0, &["fs1", "tcp=krb5p"]);
    let served = mgs().log("fs1-sptlrpc", rules);
    let mut server = Server::new(vec![served]);
    let mut exchange = reading();
    run(&mut exchange, &mut server, None);
    assert_eq!(exchange.log().unwrap().1.texts(), ["default=krb5i"]);
    expect_nothing_hidden(&exchange, &server);
}

// [PTLRPC-24]
#[test]
fn table_of_whereabouts_is_read_in_parts() {
    let served = mgs()
        .ost_is_at(2, 0, &[NODE + 1])
        .ost_is_at(5, 1, &[NODE, NODE + 9])
        .ost_is_at(5, 7, &[NODE]);
    let mut server = Server::new(vec![served]);
    let mut exchange = reading();
    run(&mut exchange, &mut server, None);
    assert_eq!(exchange.failure(), None);
    expect_nothing_hidden(&exchange, &server);
    let (system, _) = exchange.log().unwrap();
    let now = |name: &str| system.targets[name].now.clone();
    assert_eq!(now("fs1-MDT0000"), [] as [String; 0]);
    assert_eq!(now("fs1-OST0000"), ["192.168.1.11@tcp"]);
    assert_eq!(now("fs1-OST0001"), ["192.168.1.10@tcp", "192.168.1.19@tcp"]);
    assert_eq!(
        system.targets.len(),
        3,
        "what the log does not have is no target"
    );
    let asked = server.asked.iter();
    assert_eq!(asked.filter(|opc| **opc == opc::MGS_CONFIG_READ).count(), 2);
}

#[test]
fn table_that_is_not_there_or_lies_fails_no_check() {
    for trouble in [
        Trouble::Status(-22),
        Trouble::Status(-95),
        Trouble::Short,
        Trouble::Ones,
    ] {
        let served = mgs().ost_is_at(1, 0, &[NODE]);
        let mut server = Server::new(vec![served.with(opc::MGS_CONFIG_READ, trouble)]);
        let mut exchange = reading();
        run(&mut exchange, &mut server, None);
        assert_eq!(exchange.failure(), None, "{trouble:?}");
        let (system, _) = exchange.log().unwrap();
        let problems = usize::from(trouble == Trouble::Ones);
        assert_eq!(system.problems.len(), problems, "{:?}", system.problems);
        expect_nothing_hidden(&exchange, &server);
    }
}

#[test]
fn bulk_that_nobody_awaits_is_none() {
    let mut exchange = reading();
    let Step::Send(request) = exchange.step(Time::from_secs(1)) else {
        panic!("nothing is sent");
    };
    exchange.bulk(request.match_bits + 1, &[7; 64]);
    assert_eq!(exchange.strays(), 1);
}

// [PTLRPC-24]
#[test]
fn server_sees_harm_in_the_sizes_of_a_table() {
    let mut server = Server::new(vec![mgs()]);
    let mut exchange = reading();
    let now = Time::from_secs(1);
    let request = loop {
        let Step::Send(request) = exchange.step(now) else {
            panic!("no table is asked for");
        };
        if request.bulk.is_some() {
            break request;
        }
        let answers = server.request(request.portal, request.match_bits, &request.bytes);
        give(&mut exchange, answers, &request, now);
    };
    server.request(request.portal, request.match_bits, &request.bytes);
    assert_eq!(server.harm(), [] as [String; 0]);
    // The length of the room, its unit, the kind of table and of NIDs, the version, the name.
    let body = request.bytes.len() - 80;
    for (at, byte) in [
        (76, 1),
        (77, 2),
        (75, 13),
        (72, 4),
        (74, 0),
        (64, 0),
        (0, b'x'),
    ] {
        let mut bytes = request.bytes.clone();
        bytes[body + at] = byte;
        let before = server.harm().len();
        server.request(
            request.portal,
            request.match_bits + 128 * (at as u64 + 1),
            &bytes,
        );
        assert_eq!(server.harm().len(), before + 1, "byte {at}");
    }
}

// [PTLRPC-21]
#[test]
fn target_is_asked_for_ping_and_space_and_let_go() {
    for (service, name, trouble) in [
        (Service::Mdt, "fs1-MDT0000_UUID", None),
        (Service::Ost, "fs1-OST0000_UUID", Some(Trouble::State(2))),
    ] {
        let mut served = Served::new(service, name);
        if let Some(trouble) = trouble {
            served = served.with(opc::OST_STATFS, trouble);
        }
        let mut server = Server::new(vec![served]);
        let mut exchange = Exchange::knock(export(service, name), start());
        run(&mut exchange, &mut server, None);
        assert_eq!(exchange.failure(), None);
        let state = exchange.statfs().map(|statfs| statfs.state);
        assert_eq!(state, Some(if trouble.is_some() { 2 } else { 0 }));
        assert_eq!(server.asked.len(), 4);
        expect_nothing_hidden(&exchange, &server);
    }
}

// [PTLRPC-21]
#[test]
fn target_in_recovery_takes_only_a_client_that_it_does_not_wait_for() {
    for (service, name, statfs) in [
        (Service::Mdt, "fs1-MDT0000_UUID", opc::MDS_STATFS),
        (Service::Ost, "fs1-OST0000_UUID", opc::OST_STATFS),
    ] {
        let served = Served::new(service, name).with(0, Trouble::Recovery);
        let mut server = Server::new(vec![served]);
        let mut exchange = Exchange::knock(export(service, name), start());
        run(&mut exchange, &mut server, None);
        let refused = Failure::Refused {
            opc: statfs,
            status: -11,
            is_banned: false,
        };
        assert_eq!(exchange.failure(), Some(&refused));
        assert_eq!(server.asked.len(), 4, "{:?}", server.asked);
        expect_nothing_hidden(&exchange, &server);
        // A client that recovery would wait for is sent away.
        let mut other = Exchange::knock(export(service, name), start());
        let Step::Send(mut request) = other.step(Time::from_secs(1)) else {
            panic!("nothing is sent");
        };
        request.bytes[0x14e] &= !1;
        let answers = server.request(request.portal, request.match_bits, &request.bytes);
        give(&mut other, answers, &request, Time::from_secs(1));
        assert!(
            matches!(other.failure(), Some(Failure::Refused { status: -16, .. })),
            "{other:?}"
        );
        assert_eq!(server.connected(), []);
        // The recovery ends.
        server.heal();
        let mut again = Exchange::knock(export(service, name), start());
        run(&mut again, &mut server, None);
        assert_eq!(again.failure(), None);
    }
}

// [PTLRPC-21]
#[test]
fn target_has_the_connection_for_less_than_ten_seconds_whatever_happens() {
    let more = [Trouble::Slow(Duration::from_secs(1)), Trouble::Recovery];
    let operations = [opc::OST_CONNECT, opc::OBD_PING, opc::OST_STATFS];
    for trouble in TROUBLES.into_iter().chain(more) {
        for operation in operations.into_iter().chain([opc::OST_DISCONNECT, 0]) {
            for seconds in [1, 24, TOTAL, 3600] {
                let name = "fs1-OST0000_UUID";
                let served = Served::new(Service::Ost, name).with(operation, trouble);
                let mut server = Server::new(vec![served]);
                let mut exchange = Exchange::knock(export(Service::Ost, name), within(seconds));
                let ended = run(&mut exchange, &mut server, None);
                let took = ended.saturating_since(Time::from_secs(1));
                let most = Duration::from_secs(seconds.min(10));
                assert!(
                    took <= most,
                    "{trouble:?} {operation} {seconds} s: {took:?}"
                );
                expect_nothing_hidden(&exchange, &server);
            }
        }
    }
}

#[test]
fn connect_that_is_put_off_is_not_sent_again_after_an_interruption() {
    let served = mgs().with(opc::MGS_CONNECT, Trouble::Status(-115));
    let mut server = Server::new(vec![served]);
    let mut exchange = reading();
    let now = Time::from_secs(1);
    let Step::Send(request) = exchange.step(now) else {
        panic!("nothing is sent");
    };
    exchange.stop(now);
    let answers = server.request(request.portal, request.match_bits, &request.bytes);
    give(&mut exchange, answers, &request, now);
    run(&mut exchange, &mut server, None);
    assert_eq!(server.asked, [opc::MGS_CONNECT]);
    assert_eq!(exchange.failure(), Some(&Failure::Stopped));
    expect_nothing_hidden(&exchange, &server);
}

#[test]
fn log_of_more_records_than_its_header_has_bits_is_not_read() {
    let reads = |last: u32| {
        let exchange = answered(opc::LLOG_READ_HEADER, |header| {
            let end = header.len();
            header[end - 4..].copy_from_slice(&last.to_le_bytes());
        });
        log_failure(&exchange)
    };
    assert!(reads(64_768).contains("at most 64767"), "{}", reads(64_768));
    assert!(!reads(64_767).contains("at most"), "{}", reads(64_767));
}

/// Of 120 s, a connect takes 10 at most, another request 30, and each is sent twice; all questions take 100.
// [PTLRPC-23]
#[test]
fn an_mgs_is_too_slow_only_if_its_reply_to_the_second_try_is_late_too() {
    for (operation, seconds, expected) in [
        (opc::LLOG_CREATE, 29, None),
        (opc::LLOG_CREATE, 61, Some("mgs-late")),
        (opc::MGS_CONFIG_READ, 59, None),
        // The log has been read by then.
        (opc::MGS_CONFIG_READ, 61, None),
        // Each block is in time, and the log is not.
        (opc::LLOG_NEXT_BLOCK, 29, Some("mgs-late")),
        (opc::MGS_CONNECT, 9, None),
        (opc::MGS_CONNECT, 11, Some("mgs-silent")),
    ] {
        let slow = Trouble::Slow(Duration::from_secs(seconds));
        let mut served = mgs().with(operation, slow);
        if operation == opc::LLOG_NEXT_BLOCK {
            let mut log = log();
            (0..200).for_each(|_| log.marker(1, "fs1", "long"));
            served = served.log("fs1-client", log);
        }
        let mut server = Server::new(vec![served]);
        let mut exchange = reading();
        let ended = run(&mut exchange, &mut server, None);
        assert!(ended <= Time::from_secs(1 + TOTAL));
        expect_nothing_hidden(&exchange, &server);
        let outcome = exchange
            .failure()
            .cloned()
            .map_or(Ok(Granted::default()), Err);
        let facts = Facts {
            fs: "fs1".to_owned(),
            mgs: vec![Mgs {
                nids: Vec::new(),
                outcome: Some(outcome),
            }],
            ..Facts::default()
        };
        let found = check(&facts).findings;
        let names: Vec<&str> = found.iter().map(|found| found.kind.name).collect();
        assert_eq!(
            names,
            Vec::from_iter(expected),
            "{operation} after {seconds} s"
        );
    }
}

const TROUBLES: [Trouble; 16] = [
    Trouble::Silence,
    Trouble::LostReply,
    Trouble::LostReplies,
    Trouble::Status(-11),
    Trouble::Status(-107),
    Trouble::Status(-115),
    Trouble::Status(-116),
    Trouble::Banned,
    Trouble::Empty,
    Trouble::Text,
    Trouble::Lengths,
    Trouble::Short,
    Trouble::OtherXid,
    Trouble::EarlyForever,
    Trouble::Ones,
    Trouble::Slow(Duration::from_secs(40)),
];

const MGS_OPERATIONS: [u32; 6] = [
    opc::MGS_CONNECT,
    opc::LLOG_CREATE,
    opc::LLOG_READ_HEADER,
    opc::LLOG_NEXT_BLOCK,
    opc::MGS_CONFIG_READ,
    opc::MGS_DISCONNECT,
];

// [PTLRPC-23]
#[test]
fn every_trouble_ends_in_time_and_hides_no_connection() {
    let more = [Trouble::Echo, Trouble::OtherOperation, Trouble::SameBlock];
    for trouble in TROUBLES.into_iter().chain(more) {
        for (operation, seconds) in MGS_OPERATIONS.into_iter().flat_map(|operation| {
            let times = [1, 4, TOTAL];
            times.map(|seconds| (operation, seconds))
        }) {
            let mut server = Server::new(vec![mgs().with(operation, trouble)]);
            let mut exchange = reading_within(seconds);
            let ended = run(&mut exchange, &mut server, None);
            assert!(
                ended <= Time::from_secs(1 + seconds),
                "{trouble:?} {operation} {seconds} s"
            );
            expect_nothing_hidden(&exchange, &server);
            if trouble == Trouble::LostReply {
                assert_eq!(exchange.failure(), None, "{operation}");
                assert_eq!(server.connected(), [], "{operation}");
            }
        }
    }
}

// [PTLRPC-23]
#[test]
fn conversation_that_is_interrupted_anywhere_hides_no_connection() {
    let mut left = 0;
    let mut runs = 0;
    for trouble in TROUBLES {
        for operation in MGS_OPERATIONS {
            for step in 0..20 {
                let mut server = Server::new(vec![mgs().with(operation, trouble)]);
                let mut exchange = reading();
                run(&mut exchange, &mut server, Some(step));
                expect_nothing_hidden(&exchange, &server);
                left += usize::from(!server.connected().is_empty());
                runs += 1;
            }
        }
    }
    assert!(runs >= 1000, "{runs}");
    assert!(left > 0, "no run left a connection: the test sees nothing");
}

#[test]
fn connection_of_an_earlier_run_is_found_by_its_name_and_ended() {
    let served = mgs().with(opc::MGS_DISCONNECT, Trouble::Silence);
    let mut server = Server::new(vec![served]);
    let mut first = reading();
    run(&mut first, &mut server, None);
    let Ending::Left(left) = first.ending().clone() else {
        panic!("the disconnect had no answer");
    };
    assert_eq!(server.connected().len(), 1);
    server.heal();
    let mut again = Exchange::end(
        left,
        Start {
            first_xid: 1 << 52,
            ..start()
        },
    );
    run(&mut again, &mut server, None);
    expect_nothing_hidden(&again, &server);
    assert_eq!(*again.ending(), Ending::Clean);
}

#[test]
fn server_sees_harm() {
    let mut server = Server::new(vec![mgs()]);
    let mut exchange = reading();
    let Step::Send(request) = exchange.step(Time::from_secs(1)) else {
        panic!("nothing is sent");
    };
    // Each byte that matters, changed: flags of the connect, timeout, transaction, opcode.
    for at in [0x14d, 0x7c, 0x68, 0x48, 0x70, 0x118] {
        let mut bytes = request.bytes.clone();
        bytes[at] = if bytes[at] == 0 { 1 } else { 0 };
        let before = server.harm().len();
        server.request(request.portal, request.match_bits + 128 * at as u64, &bytes);
        assert!(server.harm().len() > before, "byte {at:#x} does not matter");
    }
}

/// Answers the first requests as a healthy server would, and the one of this operation with these bytes.
fn answered(opc: u32, replace: impl Fn(&mut Vec<u8>)) -> Exchange {
    let mut server = Server::new(vec![mgs()]);
    let mut exchange = reading();
    let mut now = Time::from_secs(1);
    for _ in 0..1000 {
        match exchange.step(now) {
            Step::Send(request) => {
                let answers = server.request(request.portal, request.match_bits, &request.bytes);
                let mut answers = answers;
                if server.asked.last() == Some(&opc) {
                    answers
                        .iter_mut()
                        .for_each(|answer| replace(&mut answer.bytes));
                }
                give(&mut exchange, answers, &request, now);
            }
            Step::Wait(until) => now = until,
            Step::Over => return exchange,
        }
    }
    panic!("the conversation does not end");
}

fn log_failure(exchange: &Exchange) -> String {
    match exchange.failure() {
        Some(Failure::Log(why)) => why.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn log_that_says_a_million_records_is_not_read() {
    let exchange = answered(opc::LLOG_READ_HEADER, |bytes| {
        let end = bytes.len();
        bytes[end - 4..].copy_from_slice(&1_000_000u32.to_le_bytes());
    });
    assert_eq!(
        log_failure(&exchange),
        "1000000 records, and at most 64767 are read"
    );
    assert_eq!(*exchange.ending(), Ending::Clean);
}

#[test]
fn record_that_leaves_its_block_ends_the_reading_with_its_place() {
    // A name of 64 KiB fits in no block.
    let exchange = answered(opc::LLOG_NEXT_BLOCK, |bytes| {
        let block = bytes.len() - 8192;
        bytes[block..block + 4].copy_from_slice(&65_600u32.to_le_bytes());
    });
    assert_eq!(
        log_failure(&exchange),
        "a record of 65600 bytes at offset 0 of a block of 8192"
    );
}

#[test]
fn block_that_ends_early_or_late_ends_the_reading() {
    let longer = answered(opc::LLOG_NEXT_BLOCK, |bytes| bytes.extend([0xff; 64]));
    assert_eq!(
        longer.failure(),
        None,
        "bytes behind the buffers do not count"
    );
    let shorter = answered(opc::LLOG_NEXT_BLOCK, |bytes| bytes.truncate(4000));
    assert!(
        matches!(shorter.failure(), Some(Failure::Garbage { .. })),
        "{shorter:?}"
    );
}

#[test]
fn records_that_name_each_other_are_problems_and_no_loop() {
    let mut log = LogWriter::default();
    log.marker(1, "fs1", "knot");
    // Two nodes with each other's names as their only NIDs, and a target on a node of its own name.
    log.command(0xc_f005, 0, &["", "one", "two"]);
    log.command(0xc_f005, 0, &["", "two", "one"]);
    log.command(0xc_f003, 0, &["osc", "fs1-OST0000_UUID", "osc"]);
    log.command(0xc_f00b, 0, &["osc", "osc"]);
    log.command(0xc_f00b, 0, &["other", "one"]);
    log.marker(2, "fs1", "knot");
    let mut server = Server::new(vec![
        Served::new(Service::Mgs, "MGS").log("fs1-client", log),
    ]);
    let mut exchange = reading();
    run(&mut exchange, &mut server, None);
    let (system, _) = exchange.log().unwrap();
    assert_eq!(system.targets["fs1-OST0000"].nids, [] as [String; 0]);
    assert_eq!(system.problems.len(), 3, "{:?}", system.problems);
}

proptest! {
    // [PTLRPC-23]
    #[test]
    fn any_reply_ends_the_conversation_in_time(
        replies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..600), 0..8),
        keeps in 0usize..9,
    ) {
        let mut server = Server::new(vec![mgs().ost_is_at(1, 0, &[NODE])]);
        let mut exchange = reading();
        let mut now = Time::from_secs(1);
        let mut replies = replies.into_iter();
        let mut sent = 0;
        for _ in 0..10_000 {
            match exchange.step(now) {
                Step::Send(request) => {
                    sent += 1;
                    let answers = server.request(request.portal, request.match_bits, &request.bytes);
                    now = now + Duration::from_millis(1);
                    for mut answer in answers {
                        let mut bytes = answer.bytes;
                        // A true reply whose end, or whose middle, is something else.
                        if let Some(noise) = replies.next().filter(|_| sent > keeps) {
                            let at = noise.first().map_or(0, |byte| usize::from(*byte) * 3).min(bytes.len());
                            let end = (at + noise.len()).min(bytes.len());
                            bytes[at..end].copy_from_slice(&noise[..end - at]);
                        }
                        answer.bytes = bytes;
                        give(&mut exchange, vec![answer], &request, now);
                    }
                }
                Step::Wait(until) => now = until,
                Step::Over => break,
            }
        }
        prop_assert_eq!(exchange.step(now), Step::Over);
        prop_assert!(now <= Time::from_secs(1 + TOTAL));
        if *exchange.ending() == Ending::Clean {
            // A cookie that the noise changed ends nothing, and the server says so.
            prop_assert!(server.connected().is_empty() || sent > keeps);
        }
    }
}
