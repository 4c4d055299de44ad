//! Conversations with servers that answer, and answer what no healthy server would: in virtual time.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::time::Duration;

use lnet_ptlrpc::client::{
    Ending, Exchange, Export, Failure, Limits, Outgoing, Service, Start, Step,
};
use lnet_ptlrpc::server::{Answer, LogWriter, Served, Server, Trouble};
use lnet_ptlrpc::{FileSystem, early_checksum, opc};
use lnet_types::Time;

const NODE: u64 = 0x0002_0000_c0a8_010a;

fn start() -> Start {
    Start {
        first_xid: 0x0006_536c_f000_0000,
        limits: Limits::default(),
        now: Time::from_secs(1),
    }
}

fn export(service: Service, target: &str) -> Export {
    let uuid = "d1fc5a72-0d0e-4cb6-9da1-e3f1d2c45ba6".to_owned();
    Export::new(service, target, uuid, 0x1122_3344_5566_7788)
}

fn reading() -> Exchange {
    Exchange::read_log(export(Service::Mgs, "MGS"), "fs1", start())
}

fn mgs() -> Served {
    let node: &[&[(u64, &str)]] = &[&[(NODE, "192.168.1.10@tcp")]];
    let log = LogWriter::of_targets(&[("fs1-MDT0000", node), ("fs1-OST0000", node)]);
    Served::new(Service::Mgs, "MGS").log("fs1-client", log)
}

/// Runs a conversation to its end; `change` may change the answers to a request, which has this opcode and is the so many
/// of it. Returns the time at the end.
fn converse(
    exchange: &mut Exchange,
    server: &mut Server,
    mut change: impl FnMut(u32, usize, &mut Vec<Answer>),
) -> Time {
    let mut now = Time::from_secs(1);
    let mut late: Vec<(Time, Answer)> = Vec::new();
    for _ in 0..5000 {
        match exchange.step(now) {
            Step::Send(request) => {
                late.clear();
                let asked = request_opc(&request);
                let mut answers =
                    server.request(request.portal, request.match_bits, &request.bytes);
                let nth = server.asked.iter().filter(|opc| **opc == asked).count();
                change(asked, nth, &mut answers);
                for answer in answers {
                    if answer.after > Duration::ZERO {
                        late.push((now + answer.after, answer));
                    } else if answer.portal == request.reply_portal {
                        exchange.answer(answer.match_bits, &answer.bytes, answer.bytes.len(), now);
                    } else {
                        exchange.bulk(answer.match_bits, &answer.bytes);
                    }
                }
            }
            Step::Wait(until) => {
                let next = late.iter().map(|(due, _)| *due).min();
                now = next.map_or(until, |due| due.min(until)).max(now);
                for (_, answer) in late.extract_if(.., |(due, _)| *due <= now) {
                    exchange.answer(answer.match_bits, &answer.bytes, answer.bytes.len(), now);
                }
            }
            Step::Over => return now,
        }
    }
    panic!("the conversation does not end: {:?}", server.asked.len());
}

/// Returns the offset of the body: it stands behind the lengths of the buffers.
fn body_of(bytes: &[u8]) -> usize {
    (32 + 4 * usize::from(bytes[0])).next_multiple_of(8)
}

fn request_opc(request: &Outgoing) -> u32 {
    let at = body_of(&request.bytes) + 16;
    u32::from_le_bytes(request.bytes[at..at + 4].try_into().unwrap())
}

/// Makes an answer an error.
fn refuse(answers: &mut [Answer], status: i32) {
    for Answer { bytes, .. } in answers {
        let body = body_of(bytes);
        bytes[body + 8..body + 12].copy_from_slice(&4712u32.to_le_bytes());
        bytes[body + 20..body + 24].copy_from_slice(&status.to_le_bytes());
    }
}

// [PTLRPC-22]
#[test]
fn header_that_is_refused_once_the_log_is_read_ends_the_reading() {
    for status in [-5, -53] {
        let mut server = Server::new(vec![mgs()]);
        let mut exchange = reading();
        converse(&mut exchange, &mut server, |opc, nth, answers| {
            if opc == opc::LLOG_READ_HEADER && nth > 1 {
                refuse(answers, status);
            }
        });
        assert!(
            matches!(exchange.failure(), Some(Failure::Log(_))),
            "{exchange:?}"
        );
        let headers = server.asked.iter();
        let headers = headers.filter(|opc| **opc == opc::LLOG_READ_HEADER);
        assert_eq!(headers.count(), 2);
        assert_eq!(server.connected(), []);
    }
}

#[test]
fn connect_that_is_refused_after_a_lost_reply_may_have_left_a_connection() {
    for (status, is_left) in [
        (-13, true),
        (-11, true),
        (-115, true),
        (-16, true),
        (-19, false),
    ] {
        let mut server = Server::new(vec![mgs()]);
        let mut exchange = reading();
        converse(&mut exchange, &mut server, |opc, nth, answers| {
            match (opc, nth) {
                (opc::MGS_CONNECT, 1) => answers.clear(),
                (opc::MGS_CONNECT, _) => refuse(answers, status),
                _ => {}
            }
        });
        let left = matches!(exchange.ending(), Ending::Left(_));
        assert_eq!(left, is_left, "{status}: {exchange:?}");
    }
    // The first connect is refused: there is nothing.
    let mut server = Server::new(vec![mgs().with(opc::MGS_CONNECT, Trouble::Status(-13))]);
    let mut exchange = reading();
    converse(&mut exchange, &mut server, |_, _, _| {});
    assert_eq!(*exchange.ending(), Ending::Clean);
}

#[test]
fn record_of_an_earlier_run_stays_until_the_connection_is_known_to_be_gone() {
    for (status, is_left) in [(-13, true), (-11, true), (-19, false)] {
        let silent = mgs().with(opc::MGS_DISCONNECT, Trouble::Silence);
        let mut server = Server::new(vec![silent]);
        let mut first = reading();
        converse(&mut first, &mut server, |_, _, _| {});
        let Ending::Left(left) = first.ending().clone() else {
            panic!("the disconnect had no answer");
        };
        server.heal();
        let mut again = Exchange::end(left, start());
        converse(&mut again, &mut server, |opc, _, answers| {
            if opc == opc::MGS_CONNECT {
                refuse(answers, status);
            }
        });
        let left = matches!(again.ending(), Ending::Left(_));
        assert_eq!(left, is_left, "{status}: {again:?}");
    }
}

// [PTLRPC-24]
#[test]
fn table_of_which_nothing_comes_leaves_the_log() {
    for trouble in [
        Trouble::Silence,
        Trouble::LostReplies,
        Trouble::OtherXid,
        Trouble::EarlyForever,
        Trouble::Slow(Duration::from_secs(61)),
        Trouble::Slow(Duration::from_secs(500)),
        Trouble::Text,
        Trouble::Echo,
        Trouble::OtherOperation,
        Trouble::Status(-107),
        Trouble::Status(-115),
    ] {
        let served = mgs().ost_is_at(1, 0, &[NODE]);
        let mut server = Server::new(vec![served.with(opc::MGS_CONFIG_READ, trouble)]);
        let mut exchange = reading();
        converse(&mut exchange, &mut server, |_, _, _| {});
        assert_eq!(exchange.failure(), None, "{trouble:?}");
        assert_eq!(exchange.log().unwrap().0.targets.len(), 2);
        assert_eq!(server.connected(), [], "{trouble:?}");
    }
}

// [PTLRPC-24]
#[test]
fn table_without_bulk_or_without_end_is_not_asked_for_again_and_again() {
    for has_bulk in [false, true] {
        let mut server = Server::new(vec![mgs().ost_is_at(1, 0, &[NODE])]);
        let mut exchange = reading();
        let mut last = 0u64;
        converse(&mut exchange, &mut server, |opc, _, answers| {
            if opc != opc::MGS_CONFIG_READ {
                return;
            }
            last += 1;
            // The server has no part of these versions: this one says that there are always more.
            let mut bytes = answers.last().unwrap().bytes.clone();
            let body = body_of(&bytes);
            bytes[body + 20..body + 24].fill(0);
            bytes[body + 8..body + 12].copy_from_slice(&4713u32.to_le_bytes());
            bytes.truncate(body + 184);
            bytes[0] = 2;
            bytes[36..40].copy_from_slice(&16u32.to_le_bytes());
            bytes.extend(last.to_le_bytes());
            bytes.extend(u64::MAX.to_le_bytes());
            let reply = Answer {
                bytes,
                ..answers.last().unwrap().clone()
            };
            let bulk = Answer {
                portal: 33,
                bytes: vec![0xff; 1],
                ..reply.clone()
            };
            answers.clear();
            answers.extend(has_bulk.then_some(bulk));
            answers.push(reply);
        });
        assert_eq!(exchange.failure(), None);
        assert_eq!(last, 1, "with bulk: {has_bulk}");
    }
}

#[test]
fn reply_that_cannot_be_read_is_named_by_its_request() {
    let served = mgs().with(opc::MGS_CONNECT, Trouble::OtherOperation);
    let mut server = Server::new(vec![served]);
    let mut exchange = reading();
    converse(&mut exchange, &mut server, |_, _, _| {});
    let text = exchange.failure().unwrap().to_string();
    assert_eq!(
        text,
        "the reply to MGS_CONNECT cannot be read: it answers operation 36"
    );
}

/// Returns an early reply of a server that wants so many seconds since the request was sent.
fn early(seconds: u32) -> Vec<u8> {
    let mut body = vec![0; 184];
    body[8..12].copy_from_slice(&4713u32.to_le_bytes());
    body[68..72].copy_from_slice(&seconds.to_le_bytes());
    let mut bytes = vec![0; 40];
    bytes[0] = 1;
    bytes[8..12].copy_from_slice(&lnet_ptlrpc::MAGIC.to_le_bytes());
    bytes[16..20].copy_from_slice(&early_checksum(&body).to_le_bytes());
    bytes[32..36].copy_from_slice(&184u32.to_le_bytes());
    bytes.extend(body);
    bytes
}

/// Of 120 s, a connect takes 10 s. An early reply gives it more: since it was sent, and three times as much at most.
// [PTLRPC-7] [PTLRPC-23]
#[test]
fn early_reply_counts_from_the_sending_of_its_request() {
    for (after, seconds, until) in [(9, 12, 12), (9, 3, 10), (2, 600, 30), (9, u32::MAX, 30)] {
        for mut exchange in [
            reading(),
            Exchange::end(export(Service::Mgs, "MGS"), start()),
        ] {
            let Step::Send(request) = exchange.step(Time::from_secs(1)) else {
                panic!("nothing is sent");
            };
            let bytes = early(seconds);
            let now = Time::from_secs(1 + after);
            exchange.answer(request.match_bits, &bytes, bytes.len(), now);
            assert_eq!(
                exchange.step(now),
                Step::Wait(Time::from_secs(1 + until)),
                "{seconds} s, said after {after} s"
            );
        }
    }
}

#[test]
fn reply_without_what_was_asked_for_is_none() {
    for (opc, trouble) in [
        (opc::OST_STATFS, Trouble::Short),
        (opc::OST_CONNECT, Trouble::Short),
    ] {
        let served = Served::new(Service::Ost, "fs1-OST0000_UUID").with(opc, trouble);
        let mut server = Server::new(vec![served]);
        let mut exchange = Exchange::knock(export(Service::Ost, "fs1-OST0000_UUID"), start());
        converse(&mut exchange, &mut server, |_, _, _| {});
        let failure = exchange.failure().expect("a failure");
        assert!(
            matches!(failure, Failure::Garbage { opc: of, .. } if *of == opc),
            "{failure}"
        );
        assert_eq!(server.connected(), []);
    }
}

/// Takes commands as a log with one marker has them.
fn taken(log: &LogWriter) -> FileSystem {
    let mut server = Server::new(vec![
        Served::new(Service::Mgs, "MGS").log("fs1-client", log.clone()),
    ]);
    let mut exchange = reading();
    converse(&mut exchange, &mut server, |_, _, _| {});
    exchange.log().expect("a log").0.clone()
}

#[test]
fn targets_of_one_node_with_many_nids_take_no_memory_of_their_product() {
    const MANY: u64 = 1100;
    let mut log = LogWriter::default();
    log.marker(1, "fs1", "many");
    (0..100).for_each(|nid| log.command(0xc_f005, 0x0002_0000_0a00_0000 + nid, &["", "node"]));
    for target in 0..MANY {
        let name = format!("fs1-OST{target:04x}_UUID");
        log.command(0xc_f003, 0, &["osc", &name, "node"]);
        (0..3).for_each(|_| log.command(0xc_f00b, 0, &["osc", "node"]));
    }
    log.marker(2, "fs1", "many");
    let system = taken(&log);
    let nids = |target: &lnet_ptlrpc::Target| {
        target.nids.len() + target.failover.iter().map(Vec::len).sum::<usize>()
    };
    let all: usize = system.targets.values().map(nids).sum();
    assert!(all <= 4 * 65_536, "{all} NIDs");
    assert_eq!(system.targets["fs1-OST0000"].nids.len(), 64);
    assert_eq!(system.problems.len(), 2, "{:?}", &system.problems[..3]);
}

/// What a conversation found out, and whatever else it may still change.
fn found(exchange: &Exchange) -> String {
    let (ending, failure, export) = (exchange.ending(), exchange.failure(), exchange.export());
    let (granted, statfs, log) = (exchange.granted(), exchange.statfs(), exchange.log());
    format!("{ending:?} {failure:?} {export:?} {granted:?} {statfs:?} {log:?}")
}

/// Gives these answers to a conversation that is over, and asserts that they change nothing.
fn expect_no_change(exchange: &mut Exchange, answers: &[Answer], now: Time, what: &str) {
    assert_eq!(exchange.step(now), Step::Over, "{what}");
    let (before, strays) = (found(exchange), exchange.strays());
    for answer in answers {
        exchange.answer(answer.match_bits, &answer.bytes, answer.bytes.len(), now);
        exchange.bulk(answer.match_bits, &answer.bytes);
    }
    exchange.unsent("the way is lost", now);
    exchange.stop(now);
    assert!(!exchange.hand_over(now), "{what}");
    assert_eq!(found(exchange), before, "{what}");
    assert_eq!(
        exchange.strays(),
        strays + 2 * answers.len() as u64,
        "{what}"
    );
    assert_eq!(exchange.step(now), Step::Over, "{what}");
}

#[test]
fn replies_that_come_when_the_conversation_is_over_change_nothing() {
    let of_mgs = [
        opc::MGS_CONNECT,
        opc::LLOG_CREATE,
        opc::LLOG_READ_HEADER,
        opc::LLOG_NEXT_BLOCK,
        opc::MGS_CONFIG_READ,
        opc::MGS_DISCONNECT,
        0,
    ];
    let of_mdt = [
        opc::MDS_CONNECT,
        opc::OBD_PING,
        opc::MDS_STATFS,
        opc::MDS_DISCONNECT,
    ];
    let mdt = || Served::new(Service::Mdt, "fs1-MDT0000_UUID");
    let knocking = || Exchange::knock(export(Service::Mdt, "fs1-MDT0000_UUID"), start());
    for lost in of_mgs.into_iter().chain(of_mdt) {
        let (mut exchange, served) = match of_mgs.contains(&lost) {
            true => (reading(), mgs().ost_is_at(1, 0, &[NODE])),
            false => (knocking(), mdt()),
        };
        let mut server = Server::new(vec![served]);
        let mut all = Vec::new();
        let now = converse(&mut exchange, &mut server, |opc, _, answers| {
            all.extend(answers.iter().cloned());
            if opc == lost {
                answers.clear();
            }
        });
        assert!(all.len() >= 2);
        expect_no_change(&mut exchange, &all, now, &format!("operation {lost}"));
    }
}

#[test]
fn reply_to_a_disconnect_that_counts_as_lost_changes_nothing() {
    for has_garbage in [false, true] {
        let mut server = Server::new(vec![mgs()]);
        let mut exchange = reading();
        let now = Time::from_secs(1);
        loop {
            let Step::Send(request) = exchange.step(now) else {
                panic!("no disconnect is sent");
            };
            let answers = server.request(request.portal, request.match_bits, &request.bytes);
            if request_opc(&request) == opc::MGS_DISCONNECT {
                match has_garbage {
                    true => exchange.answer(request.match_bits, b"none", 4, now),
                    false => exchange.unsent("the way is lost", now),
                }
                assert!(matches!(exchange.ending(), Ending::Left(_)));
                expect_no_change(&mut exchange, &answers, now, "a disconnect");
                break;
            }
            for answer in answers {
                exchange.answer(answer.match_bits, &answer.bytes, answer.bytes.len(), now);
            }
        }
    }
}

#[test]
fn connect_that_cannot_be_sent_goes_to_the_next_nid() {
    let mut server = Server::new(vec![mgs()]);
    let mut exchange = reading();
    let now = Time::from_secs(1);
    let mut sent = Vec::new();
    for turn in 0..3 {
        let Step::Send(request) = exchange.step(now) else {
            panic!("nothing is sent");
        };
        assert_eq!((exchange.turns(), exchange.is_connecting()), (turn, true));
        assert_eq!(exchange.export().conn_cnt, turn as u32 + 1);
        assert!(!sent.contains(&request.match_bits));
        sent.push(request.match_bits);
        // What could not be sent is unknown to the server; the last one arrives.
        if turn < 2 {
            assert!(exchange.hand_over(now));
            continue;
        }
        for answer in server.request(request.portal, request.match_bits, &request.bytes) {
            exchange.answer(answer.match_bits, &answer.bytes, answer.bytes.len(), now);
        }
    }
    // Other requests go where the connection is.
    assert!(matches!(exchange.step(now), Step::Send(_)));
    assert!(!exchange.is_connecting() && !exchange.hand_over(now));
    converse(&mut exchange, &mut server, |_, _, _| {});
    assert_eq!(
        (exchange.failure(), exchange.ending()),
        (None, &Ending::Clean)
    );
    assert_eq!(exchange.turns(), 2);
    assert_eq!((server.harm(), server.connected()), (&[][..], vec![]));
}

#[test]
fn connect_that_is_not_answered_goes_to_the_next_nid_and_no_longer_than_there_is_time() {
    let mut exchange = Exchange::knock(export(Service::Ost, "fs1-OST0000_UUID"), start());
    let mut now = Time::from_secs(1);
    let (mut turns, mut lost) = (Vec::new(), 0);
    loop {
        match exchange.step(now) {
            Step::Send(_) => turns.push(exchange.turns()),
            Step::Wait(until) => now = until,
            Step::Over => break,
        }
    }
    assert_eq!(turns, [0, 1]);
    let mut exchange = Exchange::knock(export(Service::Ost, "fs1-OST0000_UUID"), start());
    let mut now = Time::from_secs(1);
    while let Step::Send(_) = exchange.step(now) {
        if !exchange.hand_over(now) {
            exchange.unsent("refused", now);
        }
        (now, lost) = (now + Duration::from_millis(500), lost + 1);
    }
    // A target has 6 s, and each connect may take 2 s.
    assert_eq!(lost, 10);
    assert!(matches!(exchange.failure(), Some(Failure::Unsent(_))));
}

#[test]
fn server_that_refuses_or_never_had_a_connect_has_no_connection() {
    for (is_lost, refuses) in [(true, true), (false, true), (true, false)] {
        let name = "fs1-OST0000_UUID";
        let target = Served::new(Service::Ost, name).with(opc::OST_CONNECT, Trouble::Status(-13));
        let mut server = Server::new(vec![target]);
        let mut exchange = Exchange::knock(export(Service::Ost, name), start());
        let now = Time::from_secs(1);
        assert!(matches!(exchange.step(now), Step::Send(_)));
        if is_lost {
            exchange.never_left();
        }
        assert!(exchange.hand_over(now));
        let Step::Send(request) = exchange.step(now) else {
            panic!("nothing is sent");
        };
        match refuses {
            true => {
                for answer in server.request(request.portal, request.match_bits, &request.bytes) {
                    exchange.answer(answer.match_bits, &answer.bytes, answer.bytes.len(), now);
                }
            }
            false => {
                exchange.never_left();
                exchange.unsent("refused", now);
            }
        }
        assert_eq!(exchange.step(now), Step::Over);
        // The first of two connects may have arrived, and its reply may be lost.
        let is_clean = *exchange.ending() == Ending::Clean;
        assert_eq!(is_clean, is_lost, "refuses: {refuses}");
        exchange.never_left();
        assert_eq!(is_clean, *exchange.ending() == Ending::Clean);
    }
}
