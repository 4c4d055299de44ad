//! Tests of the server's table, each of a single rule. The simulation tests that a call executes at most once
//! under every disorder.

use super::*;
use crate::handler::RestoredClient;
use crate::proto::BulkKind;

const CLIENT: ClientId = ClientId([1; 16]);
const INCARNATION: u64 = 99;

fn limits() -> Limits {
    Limits {
        clients: 9,
        clients_per_nid: 2,
        calls_per_client: 4,
        calls: 300,
        running: 9,
        kept_bytes: 300,
        bulk_len: 1000,
        idle: Duration::from_secs(60),
    }
}

fn at(seconds: u64) -> Time {
    Time::from_secs(seconds)
}

fn request(xid: u64, lowest: u64, attempt: u32) -> RequestHeader {
    RequestHeader {
        client: CLIENT,
        xid,
        lowest,
        incarnation: INCARNATION,
        session: 1,
        reply_bits: 0,
        bulk_bits: 0,
        bulk_len: 0,
        bulk: BulkKind::None,
        attempt,
        opcode: 5,
        deadline: 1000,
    }
}

fn address(attempt: u32) -> Address {
    Address {
        attempt,
        process: ProcessId::lustre(Nid::LOOPBACK),
        bringer: Nid::LOOPBACK,
        local: None,
        reply_bits: u64::from(attempt),
        bulk_bits: 0,
        deadline: at(1000),
    }
}

fn connect(table: &mut Table, client: ClientId, now: Time) -> Admission {
    connect_from(table, client, Nid::LOOPBACK, now)
}

fn connect_from(table: &mut Table, client: ClientId, nid: Nid, now: Time) -> Admission {
    connect_through(table, client, nid, nid, now)
}

fn connect_through(
    table: &mut Table,
    client: ClientId,
    bringer: Nid,
    nid: Nid,
    now: Time,
) -> Admission {
    let from = Address {
        process: ProcessId::lustre(nid),
        bringer,
        ..address(1)
    };
    let request = RequestHeader {
        client,
        opcode: OPCODE_CONNECT,
        ..request(1, 1, 1)
    };
    table.admit(&request, from, now)
}

fn connected() -> Table {
    let mut table = Table::new(INCARNATION, limits());
    assert_eq!(
        connect(&mut table, CLIENT, at(0)),
        Admission::Opened(1, None)
    );
    table
}

fn admit(table: &mut Table, xid: u64, lowest: u64, attempt: u32) -> Admission {
    table.admit(&request(xid, lowest, attempt), address(attempt), at(1))
}

fn complete(table: &mut Table, xid: u64) -> Option<Address> {
    table.complete(CLIENT, xid, Bytes::from_static(b"reply"), at(2))
}

// [DATA-12]
#[test]
fn a_new_request_is_executed_and_its_copy_is_not() {
    let mut table = connected();
    assert_eq!(admit(&mut table, 1, 1, 1), Admission::Execute);
    assert_eq!(
        admit(&mut table, 1, 1, 1),
        Admission::Ignore(Ignored::OldAttempt)
    );
}

#[test]
fn a_request_that_its_client_has_given_up_is_not_executed_and_may_be_asked_again() {
    let mut table = connected();
    let late = Address {
        deadline: at(1),
        ..address(1)
    };
    let admitted = table.admit(&request(1, 1, 1), late, at(1));
    assert_eq!(admitted, Admission::Expired);
    assert_eq!(admit(&mut table, 1, 1, 2), Admission::Execute);
}

#[test]
fn an_attempt_that_knows_the_time_less_well_takes_none_from_a_running_call() {
    let mut table = connected();
    admit(&mut table, 1, 1, 1);
    let vague = Address {
        deadline: at(1),
        ..address(2)
    };
    let admitted = table.admit(&request(1, 1, 2), vague, at(1));
    assert_eq!(admitted, Admission::NewerAttempt);
    assert_eq!(table.newest(CLIENT, 1), Some(address(2)));
}

#[test]
fn the_reply_of_a_running_call_goes_to_the_newest_attempt() {
    let mut table = connected();
    admit(&mut table, 1, 1, 1);
    assert_eq!(admit(&mut table, 1, 1, 3), Admission::NewerAttempt);
    assert_eq!(
        admit(&mut table, 1, 1, 2),
        Admission::Ignore(Ignored::OldAttempt)
    );
    assert_eq!(complete(&mut table, 1), Some(address(3)));
}

#[test]
fn a_newer_attempt_of_an_executed_call_gets_the_kept_reply() {
    let mut table = connected();
    admit(&mut table, 1, 1, 1);
    complete(&mut table, 1);
    let replay = Admission::Replay(Bytes::from_static(b"reply"));
    assert_eq!(admit(&mut table, 1, 1, 2), replay);
}

#[test]
fn a_delivered_call_is_not_executed_again() {
    let mut table = connected();
    admit(&mut table, 1, 1, 1);
    complete(&mut table, 1);
    table.delivered(CLIENT, 1);
    assert_eq!(
        admit(&mut table, 1, 1, 2),
        Admission::Ignore(Ignored::Delivered)
    );
    assert_eq!(table.kept_bytes.used(), 0);
}

#[test]
fn xids_below_the_lowest_unanswered_one_are_ignored() {
    let mut table = connected();
    admit(&mut table, 1, 1, 1);
    complete(&mut table, 1);
    admit(&mut table, 5, 5, 1);
    assert_eq!(
        admit(&mut table, 1, 1, 2),
        Admission::Ignore(Ignored::BelowLowest)
    );
    assert_eq!((table.calls.used(), table.kept_bytes.used()), (1, 0));
}

#[test]
fn the_reply_of_a_call_that_was_given_up_goes_nowhere() {
    let mut table = connected();
    admit(&mut table, 1, 1, 1);
    admit(&mut table, 2, 2, 1);
    assert_eq!(complete(&mut table, 1), None);
    assert_eq!((table.calls.used(), table.running()), (1, 1));
}

#[test]
fn a_full_table_says_busy_and_forgets_nothing() {
    let mut table = connected();
    for xid in 1..=3 {
        assert_eq!(admit(&mut table, xid, 1, 1), Admission::Execute);
    }
    assert_eq!(admit(&mut table, 4, 1, 1), Admission::Answer(Outcome::Busy));
    complete(&mut table, 1);
    assert_eq!(admit(&mut table, 4, 1, 2), Admission::Execute);
    assert_eq!(
        admit(&mut table, 3, 1, 1),
        Admission::Ignore(Ignored::OldAttempt)
    );
}

#[test]
fn replies_that_fill_the_room_make_it_busy_until_they_are_delivered() {
    let mut table = connected();
    admit(&mut table, 1, 1, 1);
    table.complete(CLIENT, 1, Bytes::from(vec![0; 100]), at(2));
    assert_eq!(admit(&mut table, 2, 1, 1), Admission::Answer(Outcome::Busy));
    table.delivered(CLIENT, 1);
    assert_eq!(admit(&mut table, 2, 1, 2), Admission::Execute);
}

fn nid(host: u8) -> Nid {
    format!("10.0.0.{host}@tcp").parse().unwrap()
}

/// Lets the client with this session begin a call.
fn use_session(table: &mut Table, client: ClientId, session: u64, nid: Nid) {
    let call = RequestHeader {
        client,
        session,
        ..request(1, 1, 1)
    };
    let from = Address {
        process: ProcessId::lustre(nid),
        bringer: nid,
        ..address(1)
    };
    assert_eq!(table.admit(&call, from, at(1)), Admission::Execute);
    table.complete(client, 1, Bytes::new(), at(1));
}

#[test]
fn where_there_is_no_room_the_oldest_session_that_did_nothing_goes_and_no_other() {
    let mut table = connected();
    use_session(&mut table, CLIENT, 1, Nid::LOOPBACK);
    for host in 2..=9 {
        // Beyond half of the room these peers have to be restored, because each peer leaves some.
        table.limits.clients = 9;
        let payer = Payer {
            source: nid(host),
            bringer: nid(host),
        };
        table.places.take(payer, 1);
        table.sessions += 1;
        let (session, client) = (table.sessions, ClientId([host; 16]));
        table.unused.insert((payer.bringer, session, client));
        table.unused_by_age.insert(session, client);
        table
            .clients
            .insert(client, Record::new(payer, session, at(0)));
    }
    use_session(&mut table, ClientId([2; 16]), 2, nid(2));
    let new = connect_from(&mut table, ClientId([10; 16]), nid(10), at(2));
    assert_eq!(new, Admission::Opened(10, Some(ClientId([3; 16]))));
    assert!(table.knows(CLIENT) && table.knows(ClientId([2; 16])));
    assert_eq!(table.clients(), 9);
}

#[test]
fn where_every_session_is_used_a_new_client_is_told_that_there_is_no_room() {
    let mut table = connected();
    use_session(&mut table, CLIENT, 1, Nid::LOOPBACK);
    table.limits.clients = 1;
    let new = connect_from(&mut table, ClientId([2; 16]), nid(2), at(2));
    assert_eq!(new, Admission::Full);
}

#[test]
fn one_nid_leaves_sessions_to_others() {
    let mut table = connected();
    let (second, third) = (ClientId([2; 16]), ClientId([3; 16]));
    let opened = connect(&mut table, second, at(30));
    assert_eq!(opened, Admission::Opened(2, None));
    use_session(&mut table, CLIENT, 1, Nid::LOOPBACK);
    use_session(&mut table, second, 2, Nid::LOOPBACK);
    assert_eq!(connect(&mut table, third, at(30)), Admission::Crowded);
    assert_eq!(
        connect(&mut table, second, at(30)),
        Admission::Connected(2),
        "a session that there is may be renewed"
    );
    let other = connect_from(&mut table, ClientId([4; 16]), nid(1), at(30));
    assert_eq!(other, Admission::Opened(3, None));
    // The first client is forgotten, and leaves its place to another client of its NID.
    assert_eq!(table.expire(at(61)), [CLIENT]);
    let opened = connect(&mut table, third, at(61));
    assert_eq!(opened, Admission::Opened(4, None));
    assert_eq!(table.expire(at(1000)).len(), 3);
    assert!(table.places.are_free() && table.unused.is_empty());
}

#[test]
fn a_session_that_did_nothing_makes_room_for_the_next_of_its_nid() {
    let mut table = connected();
    let (second, third) = (ClientId([2; 16]), ClientId([3; 16]));
    connect(&mut table, second, at(0));
    let new = connect(&mut table, third, at(0));
    assert_eq!(new, Admission::Opened(3, Some(CLIENT)));
    assert_eq!(
        admit(&mut table, 1, 1, 1),
        Admission::Answer(Outcome::UnknownClient)
    );
}

#[test]
fn sessions_under_forged_nids_of_one_bringer_leave_room_to_others() {
    let mut table = Table::new(INCARNATION, limits());
    let router = nid(250);
    for host in 1..200 {
        let client = ClientId([host; 16]);
        connect_through(&mut table, client, router, nid(host), at(0));
    }
    assert_eq!(table.clients(), 5, "half, rounded up");
    let direct = connect_from(&mut table, ClientId([201; 16]), nid(201), at(1));
    assert!(matches!(direct, Admission::Opened(_, None)));
}

#[test]
fn another_incarnation_is_refused_before_anything_else() {
    let mut table = connected();
    let stale = RequestHeader {
        incarnation: 1,
        ..request(1, 1, 1)
    };
    let answer = table.admit(&stale, address(1), at(1));
    assert_eq!(answer, Admission::Answer(Outcome::WrongIncarnation));
}

#[test]
fn a_silent_client_is_forgotten_and_its_old_session_is_void() {
    let mut table = connected();
    assert_eq!(table.expire(at(59)), []);
    assert_eq!(table.expire(at(60)), [CLIENT]);
    assert_eq!(
        connect(&mut table, CLIENT, at(61)),
        Admission::Opened(2, None)
    );
    assert_eq!(
        admit(&mut table, 1, 1, 1),
        Admission::Answer(Outcome::UnknownClient)
    );
}

#[test]
fn a_client_with_a_running_call_is_not_forgotten() {
    let mut table = connected();
    admit(&mut table, 1, 1, 1);
    assert_eq!(table.expire(at(1000)), []);
}

#[test]
fn a_client_that_says_goodbye_frees_everything() {
    let mut table = connected();
    admit(&mut table, 1, 1, 1);
    complete(&mut table, 1);
    let goodbye = RequestHeader {
        opcode: OPCODE_GOODBYE,
        ..request(2, 2, 1)
    };
    assert_eq!(table.admit(&goodbye, address(1), at(3)), Admission::Gone);
    assert_eq!(
        (table.clients(), table.calls.used(), table.kept_bytes.used()),
        (0, 0, 0)
    );
}

#[test]
fn a_client_that_goes_is_remembered_until_its_last_call_has_ended() {
    let mut table = connected();
    admit(&mut table, 1, 1, 1);
    admit(&mut table, 2, 1, 1);
    complete(&mut table, 2);
    let goodbye = RequestHeader {
        opcode: OPCODE_GOODBYE,
        ..request(3, 1, 1)
    };
    assert_eq!(table.admit(&goodbye, address(1), at(3)), Admission::Leaving);
    assert_eq!((table.calls.used(), table.kept_bytes.used()), (1, 0));
    // If the client could connect now, the reply of the old call could be taken for the reply of a new call.
    assert_eq!(
        connect(&mut table, CLIENT, at(4)),
        Admission::Answer(Outcome::Busy)
    );
    assert_eq!(
        admit(&mut table, 4, 1, 1),
        Admission::Answer(Outcome::UnknownClient)
    );
    assert!(table.knows(CLIENT));
    assert_eq!(complete(&mut table, 1), None);
    assert!(!table.knows(CLIENT));
    assert_eq!(
        (table.calls.used(), table.kept_bytes.used(), table.running()),
        (0, 0, 0)
    );
    assert_eq!(
        connect(&mut table, CLIENT, at(5)),
        Admission::Opened(2, None)
    );
}

#[test]
fn too_much_bulk_and_reserved_opcodes_are_refused() {
    let mut table = connected();
    let large = RequestHeader {
        bulk_len: 1001,
        ..request(1, 1, 1)
    };
    assert_eq!(
        table.admit(&large, address(1), at(1)),
        Admission::Answer(Outcome::Refused)
    );
    let reserved = RequestHeader {
        opcode: RESERVED_OPCODES,
        ..request(2, 1, 1)
    };
    assert_eq!(
        table.admit(&reserved, address(1), at(1)),
        Admission::Answer(Outcome::Refused)
    );
}

fn restored() -> Table {
    let mut table = Table::new(INCARNATION, limits());
    let session = Session {
        client: CLIENT,
        nid: Nid::LOOPBACK,
        number: 1,
    };
    let client = RestoredClient {
        session,
        lowest: 3,
        calls: vec![(4, Reply::ok(vec![7]))],
    };
    let restored = Restored {
        incarnation: INCARNATION,
        sessions: 10,
        clients: vec![client],
    };
    table.restore(restored, at(0), |_, reply| Bytes::from(reply.body));
    table
}

#[test]
fn what_an_earlier_life_executed_is_answered_and_not_executed_again() {
    let mut table = restored();
    let replayed = Admission::Replay(Bytes::from_static(&[7]));
    assert_eq!(admit(&mut table, 4, 3, 1), replayed);
    let below = Admission::Ignore(Ignored::BelowLowest);
    assert_eq!(admit(&mut table, 2, 2, 9), below);
    assert_eq!(admit(&mut table, 5, 3, 1), Admission::Execute);
    assert_eq!(connect(&mut table, CLIENT, at(0)), Admission::Connected(1));
}

#[test]
fn sessions_behind_a_restart_have_numbers_of_their_own() {
    let mut table = restored();
    let second = ClientId([2; 16]);
    let other = connect(&mut table, second, at(0));
    assert_eq!(other, Admission::Opened(11, None));
    use_session(&mut table, second, 11, Nid::LOOPBACK);
    let third = connect(&mut table, ClientId([3; 16]), at(0));
    assert_eq!(third, Admission::Crowded, "the restored client counts");
}

#[test]
fn a_restored_client_is_forgotten_whole() {
    let mut table = restored();
    assert_eq!(table.expire(at(60)), [CLIENT]);
    assert_eq!((table.calls.used(), table.kept_bytes.used()), (0, 0));
    assert!(table.places.are_free());
}
