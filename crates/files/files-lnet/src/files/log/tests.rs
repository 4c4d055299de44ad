use std::fs;
use std::sync::Barrier;
use std::thread;

use tempfile::TempDir;

use super::*;

const CLIENT: ClientId = ClientId([1; 16]);
const OTHER: ClientId = ClientId([2; 16]);

fn open_at(directory: &Path) -> Result<ReplyLog, LogError> {
    ReplyLog::open(directory, Path::new("/srv"), &Entropy::new([5; 32]))
}

fn open(directory: &TempDir) -> ReplyLog {
    open_at(directory.path()).unwrap()
}

fn session(client: ClientId) -> Session {
    Session {
        client,
        nid: "10.0.0.1@tcp".parse().unwrap(),
        number: 1,
    }
}

fn with_client(directory: &TempDir) -> ReplyLog {
    let log = open(directory);
    log.came(&session(CLIENT));
    log
}

fn ok(byte: u8) -> Reply {
    Reply::ok(vec![byte])
}

/// Settles the log with a decide that says of each call that it was executed, with this byte as the reply.
fn settled(log: &ReplyLog, byte: u8) -> Restored {
    let decide = |_: &[u8]| Verdict::Done(ok(byte));
    log.settle(decide, |_, reply| reply).unwrap();
    log.restored()
}

fn calls(restored: &Restored) -> Vec<(u64, Reply)> {
    restored.clients[0].calls.clone()
}

#[test]
fn the_next_life_has_the_sessions_the_replies_and_the_incarnation() {
    let directory = TempDir::new().unwrap();
    let log = with_client(&directory);
    let first = log.restored();
    log.intend(CLIENT, 5, 4, b"a".to_vec()).unwrap();
    log.reply(CLIENT, 5, &ok(50));
    log.intend(CLIENT, 6, 4, b"b".to_vec()).unwrap();
    drop(log);

    let next = open(&directory);
    let restored = settled(&next, 60);
    assert_eq!(restored.incarnation, first.incarnation);
    assert!(restored.sessions > first.sessions);
    assert_eq!(restored.clients[0].session, session(CLIENT));
    assert_eq!(restored.clients[0].lowest, 4);
    assert_eq!(calls(&restored), [(5, ok(50)), (6, ok(60))]);
    let counters = next.counters();
    assert_eq!((counters.replies_found, counters.found_done), (1, 1));
}

#[test]
fn a_call_that_was_not_executed_is_judged_once() {
    let directory = TempDir::new().unwrap();
    let log = with_client(&directory);
    log.intend(CLIENT, 5, 5, Vec::new()).unwrap();
    drop(log);
    let log = open(&directory);
    log.settle(|_| Verdict::Undone, |_, reply| reply).unwrap();
    assert_eq!(log.counters().found_undone, 1);
    drop(log);
    let log = open(&directory);
    assert_eq!(calls(&settled(&log, 1)), []);
}

#[test]
fn what_a_client_has_and_clients_that_went_are_left_out() {
    let directory = TempDir::new().unwrap();
    let log = with_client(&directory);
    log.came(&session(OTHER));
    for xid in 1..=3 {
        log.intend(CLIENT, xid, xid, Vec::new()).unwrap();
        log.intend(OTHER, xid, 1, Vec::new()).unwrap();
        log.reply(CLIENT, xid, &ok(xid as u8));
    }
    log.gone(OTHER);
    log.intend(CLIENT, 4, 3, Vec::new()).unwrap();
    drop(log);
    let restored = settled(&open(&directory), 4);
    assert_eq!(restored.clients.len(), 1);
    assert_eq!(calls(&restored), [(3, ok(3)), (4, ok(4))]);
}

#[test]
fn calls_side_by_side_share_their_way_to_the_disk() {
    let directory = TempDir::new().unwrap();
    let log = with_client(&directory);
    let start = Barrier::new(16);
    thread::scope(|scope| {
        for worker in 0..16_u64 {
            let (log, start) = (&log, &start);
            scope.spawn(move || {
                start.wait();
                for call in 0..20 {
                    log.intend(CLIENT, 1 + worker * 20 + call, 1, vec![0; 100])
                        .unwrap();
                }
            });
        }
    });
    let counters = log.counters();
    assert_eq!(counters.intents, 320);
    assert!(counters.syncs < counters.intents, "{counters:?}");
    drop(log);
    assert_eq!(calls(&settled(&open(&directory), 1)).len(), 320);
}

#[test]
fn a_long_log_is_written_anew_with_what_is_still_needed() {
    let directory = TempDir::new().unwrap();
    let log = with_client(&directory);
    let intent = vec![0; 60_000];
    for xid in 1..=200 {
        log.intend(CLIENT, xid, xid, intent.clone()).unwrap();
        log.reply(CLIENT, xid, &ok(1));
    }
    let length = fs::metadata(directory.path().join("replies.log"))
        .unwrap()
        .len();
    assert!(length <= REWRITE_MIN + 2 * 60_000, "{length}");
    assert!(log.counters().rewrites >= 2);
}

#[test]
fn a_client_that_never_says_what_it_has_is_refused_at_a_limit() {
    let directory = TempDir::new().unwrap();
    let log = with_client(&directory);
    let intent = vec![0; 1 << 20];
    let took = (1..100).take_while(|&xid| log.intend(CLIENT, xid, 1, intent.clone()).is_ok());
    assert_eq!(took.count(), 15);
    log.came(&session(OTHER));
    assert_eq!(log.intend(OTHER, 1, 1, intent), Ok(()), "others go on");
    assert_eq!(log.counters().refused, 1);
}

#[test]
fn a_log_whose_directory_is_gone_refuses_until_it_is_back() {
    let above = TempDir::new().unwrap();
    let directory = above.path().join("state");
    fs::create_dir(&directory).unwrap();
    let log = open_at(&directory).unwrap();
    log.came(&session(CLIENT));
    log.intend(CLIENT, 1, 1, Vec::new()).unwrap();
    fs::remove_dir_all(&directory).unwrap();
    log.reply(CLIENT, 1, &ok(1));
    assert_eq!(log.intend(CLIENT, 2, 1, Vec::new()), Err(Unwritten));
    assert_eq!(log.intend(CLIENT, 3, 1, Vec::new()), Err(Unwritten));
    fs::create_dir(&directory).unwrap();
    assert_eq!(log.intend(CLIENT, 4, 1, Vec::new()), Ok(()));
    drop(log);
    let restored = settled(&open_at(&directory).unwrap(), 4);
    assert_eq!(calls(&restored), [(1, ok(1)), (4, ok(4))]);
}

#[test]
fn a_directory_has_one_gateway() {
    let directory = TempDir::new().unwrap();
    let log = open(&directory);
    assert!(matches!(open_at(directory.path()), Err(LogError::InUse(_))));
    drop(log);
    let other = ReplyLog::open(directory.path(), Path::new("/home"), &Entropy::new([5; 32]));
    assert!(matches!(other, Err(LogError::Other { .. })));
    assert!(open_at(directory.path()).is_ok());
    let nowhere = directory.path().join("nowhere");
    assert!(matches!(open_at(&nowhere), Err(LogError::Directory { .. })));
}

#[test]
fn a_log_that_cannot_be_believed_is_refused_and_a_torn_one_is_not() {
    let directory = TempDir::new().unwrap();
    let log = with_client(&directory);
    for xid in 1..=3 {
        log.intend(CLIENT, xid, 1, vec![7; 50]).unwrap();
    }
    drop(log);
    let path = directory.path().join("replies.log");
    let good = fs::read(&path).unwrap();
    let changed = |at: usize, to: u8| {
        let mut bytes = good.clone();
        bytes[at] = to;
        fs::write(&path, bytes).unwrap();
        open_at(directory.path()).unwrap_err()
    };
    assert!(matches!(changed(0, b'x'), LogError::Foreign(_)));
    assert!(matches!(changed(13, b'2'), LogError::Version(_)));
    assert!(matches!(changed(70, 0xff), LogError::Damaged { .. }));
    fs::write(&path, &good[..good.len() - 10]).unwrap();
    let restored = settled(&open(&directory), 1);
    assert_eq!(calls(&restored).len(), 2);
}

#[test]
fn a_log_that_was_removed_is_another_one() {
    let directory = TempDir::new().unwrap();
    let first = open(&directory).restored().incarnation;
    fs::remove_file(directory.path().join("replies.log")).unwrap();
    let log = ReplyLog::open(directory.path(), Path::new("/srv"), &Entropy::new([6; 32]));
    assert_ne!(log.unwrap().restored().incarnation, first);
}

#[test]
fn what_another_user_put_into_the_directory_is_not_followed() {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    let directory = tempfile::tempdir().unwrap();
    let (state, victim) = (
        directory.path().join("state"),
        directory.path().join("victim"),
    );
    fs::write(&victim, "precious").unwrap();
    fs::create_dir(&state).unwrap();
    for name in ["replies.new", "lock", "replies.log"] {
        let link = state.join(name);
        symlink(&victim, &link).unwrap();
        match (name, open_at(&state)) {
            // A new file takes the place of the link.
            ("replies.new", opened) => drop(opened.unwrap()),
            (_, opened) => assert!(opened.is_err(), "{name}"),
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious", "{name}");
        let _none = fs::remove_file(&link);
        let _none = fs::remove_file(state.join("replies.log"));
        let _none = fs::remove_file(state.join("lock"));
    }
    fs::set_permissions(&state, fs::Permissions::from_mode(0o777)).unwrap();
    let refused = open_at(&state).unwrap_err().to_string();
    assert!(refused.contains("writable by other users"), "{refused}");
    fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).unwrap();
    // Only root can give the directory to another user.
    if chown(&state, Some(1002), None).is_ok() {
        let refused = open_at(&state).unwrap_err().to_string();
        assert!(refused.contains("belongs to another user"), "{refused}");
        assert_eq!(fs::read_dir(&state).unwrap().count(), 0);
    }
}
