//! Requirements from the point of view of the server's process.

use std::process::Command;
use std::time::Duration;

use crate::kills::queues_left;
use crate::relay::Relay;
use crate::scene::{LIMIT, Process, Scene, eventually, is_long, let_pass};

/// Returns whether system calls of a child process can be traced here.
fn can_trace() -> bool {
    let tried = Command::new("strace")
        .args(["-o", "/dev/null", "true"])
        .status();
    let can = tried.is_ok_and(|status| status.success());
    if !can {
        println!("skipped: strace is not there or not allowed");
    }
    can
}

/// Formats bytes as strace's `-xx` does.
fn escaped(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect()
}

#[test]
fn r46_no_byte_of_a_message_goes_through_a_queue() {
    if !can_trace() {
        return;
    }
    let scene = Scene::new();
    let trace = scene.directory.path().join("trace");
    let mut server = Process::start(
        "server",
        &scene.party_settings(&scene.socket()),
        &[
            "strace",
            "-f",
            "-xx",
            "-s",
            "4096",
            "-e",
            "trace=mq_timedsend,mq_timedreceive",
            "-o",
            trace.to_str().unwrap(),
        ],
    );
    let mut client = scene.client();
    server.take_greeting(&mut client);
    let receive = server.pending("receive 1 7 5000 memory");
    assert_eq!(client.ask("send 0 7 5000 memory"), "done 5000");
    assert_eq!(server.wait(receive), "5000");
    let send = server.pending("send 1 7 5000 outside");
    assert_eq!(client.ask("receive 0 7 5000 memory"), "done 5000");
    assert_eq!(server.wait(send), "5000");
    assert_eq!(client.ask("unexpected 7 5000"), "done 5000");
    server.fetch();
    server.end();
    let seen = std::fs::read_to_string(&trace).unwrap();
    // The trace contains commands and replies, so it would contain payload, too.
    for magic in [b"ZBM1", b"ZBR1"] {
        let count = seen.matches(&escaped(magic)).count();
        assert!(count >= 5, "{count} times {magic:?}");
    }
    // Any eight consecutive bytes of the message.
    let message = crate::party::pattern(7, 5000);
    for part in message.chunks_exact(8) {
        assert!(!seen.contains(&escaped(part)), "{part:?}");
    }
}

#[test]
fn r47_every_sleeping_call_has_a_reply_queue_and_queues_are_used_again() {
    let scene = Scene::new();
    let (mut server, mut client) = scene.greeted_pair();
    let sleep = format!("context 1 {}", LIMIT.as_millis() * 60);
    for _ in 0..2 {
        let before = server.count("commands");
        let sleepers: Vec<u64> = (0..8).map(|_| server.tell(&sleep)).collect();
        eventually("eight tests", || server.count("commands") >= before + 8);
        // Sleeping commands do not delay posts.
        let posts: Vec<usize> = (0..8)
            .map(|tag| server.pending(&format!("receive 1 {tag} 8 memory")))
            .collect();
        assert!(
            sleepers
                .iter()
                .all(|sleeper| !server.has_answered(*sleeper))
        );
        for tag in 0..posts.len() {
            assert_eq!(client.ask(&format!("send 0 {tag} 8 memory")), "done 8");
        }
        let answers = sleepers.into_iter().map(|sleeper| server.hear(sleeper));
        let mut collected: Vec<String> = answers.map(Option::unwrap).collect();
        collected.sort_by_key(|text| text.split(' ').next().unwrap().parse::<usize>().unwrap());
        let expected: Vec<String> = posts.iter().map(|op| format!("{op} 8")).collect();
        assert_eq!(collected, expected);
    }
    // One queue for each sleeper, one for the posts.
    assert_eq!(server.count("reply_queues"), 9);
}

/// Returns the private memory of a process in bytes, without files and segments.
fn private_memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:"));
    let kilobytes = line.unwrap().split_whitespace().nth(1).unwrap();
    kilobytes.parse::<u64>().unwrap() << 10
}

#[test]
fn r48_r49_messages_move_between_client_and_segment_without_a_copy() {
    let scene = Scene::new();
    let (mut server, mut client) = scene.greeted_pair();
    let len: usize = 32 << 20;
    let before = private_memory(scene.daemon.id());
    let receive = server.pending(&format!("receive 1 1 {len} memory"));
    assert_eq!(
        client.ask(&format!("send 0 1 {len} outside")),
        format!("done {len}")
    );
    assert_eq!(server.wait(receive), len.to_string());
    let send = server.pending(&format!("send 1 2 {len} memory"));
    assert_eq!(
        client.ask(&format!("receive 0 2 {len} outside")),
        format!("done {len}")
    );
    assert_eq!(server.wait(send), len.to_string());
    assert_eq!(server.count("copies"), 0);
    // The daemon can store the message in the segment only.
    let grown = private_memory(scene.daemon.id()).saturating_sub(before);
    assert!(grown < 8 << 20, "{grown}");
}

#[test]
fn r49_unexpected_messages_lie_in_the_first_region_and_memory_in_the_second() {
    let scene = Scene::new();
    let (mut server, mut client) = scene.greeted_pair();
    let (page, unexpected, total) = (4096, 1 << 20, 40 << 20);
    for tag in 0..128 {
        assert_eq!(client.ask(&format!("unexpected {tag} 8192")), "done 8192");
        let [.., place] = server.fetch();
        assert!(
            (page..=page + unexpected - 8192).contains(&place),
            "{place}"
        );
    }
    // Either region can be allocated whole: neither contains metadata.
    let len = total - unexpected;
    assert_eq!(
        server.ask(&format!("memory {len}")),
        (page + unexpected).to_string()
    );
    assert_eq!(server.ask("memory 1"), "NoMem");
}

#[test]
fn r50_a_server_that_comes_before_its_daemon_waits_for_it() {
    let mut scene = Scene::new();
    scene.daemon.end();
    let settings = scene.party_settings(&scene.socket());
    let mut server = Process::begin("server", &settings, &[]);
    let_pass(Duration::from_secs(2));
    scene.restart();
    assert!(server.is_ready());
    let mut client = scene.client();
    assert_eq!(server.take_greeting(&mut client), 1);
}

#[test]
fn r50_finalize_leaves_nothing_of_the_server() {
    let scene = Scene::new();
    let left = queues_left();
    let rounds = if is_long() { 100 } else { 10 };
    for _ in 0..rounds {
        let (mut server, mut client) = scene.greeted_pair();
        server.pending("receive 1 1 8 memory");
        client.pending("receive 0 2 8 memory");
        assert_eq!(server.ask("finalize"), "ok");
        scene.until("zoidd_server_attached", 0.0);
        assert_eq!(scene.metric("zoidd_posts"), 0.0);
        assert_eq!(scene.metric("zoidd_unexpected_pool_used_bytes"), 0.0);
        assert_eq!(client.ask("finalize"), "ok");
        scene.until("zoidd_clients", 0.0);
        assert_eq!(queues_left(), left);
    }
}

#[test]
fn r57_a_post_for_a_client_that_waits_in_a_post_is_immediate() {
    let scene = Scene::new();
    let (mut server, mut client) = scene.greeted_pair();
    client.ask(&format!("timeout {}", LIMIT.as_millis()));
    for (client_does, server_does) in [("receive", "send"), ("send", "receive")] {
        let before = client.count("exchanges");
        let post = client.tell(&format!("{client_does} 0 1 100000 memory"));
        client.until_above("exchanges", before);
        scene.until("zoidd_waiting", 1.0);
        let posted = format!("{server_does} 1 1 100000 memory");
        assert_eq!(server.ask(&posted), "done 100000");
        assert_eq!(client.hear(post).unwrap(), "done 100000");
    }
}

#[test]
fn r57_a_post_for_a_client_that_waits_in_a_test_completes_on_both_sides() {
    let scene = Scene::with(&[("hold-ms", "10000")]);
    let (mut server, mut client) = scene.greeted_pair();
    for (client_does, server_does) in [("receive", "send"), ("send", "receive")] {
        let op = client.pending(&format!("{client_does} 0 1 1000 memory"));
        let test = client.tell(&format!("test {op} {}", LIMIT.as_millis()));
        scene.until("zoidd_client_tests_sleeping", 1.0);
        assert_eq!(
            server.finish(&format!("{server_does} 1 1 1000 memory")),
            "1000"
        );
        assert_eq!(client.hear(test).unwrap(), format!("{op} 1000"));
    }
    // The posts were held until the clients' calls came.
    assert!(scene.metric("zoidd_holds_total") >= 1.0);
    assert_eq!(scene.metric("zoidd_holds_expired_total"), 0.0);
}

#[test]
fn r60_memory_that_is_freed_does_not_wait_for_the_transfer_that_it_starts() {
    let scene = Scene::with(&[("total", "1088k"), ("stall-ms", "600000")]);
    let mut server = scene.server();
    let relay = Relay::to(&scene.socket(), "relay", usize::MAX / 2);
    let mut client = scene.client_over(relay.path());
    server.take_greeting(&mut client);
    assert_ne!(server.ask("memory 65536"), "NoMem");
    let op = server.pending("send 1 1 60000 outside");
    client.ask(&format!("timeout {}", LIMIT.as_millis()));
    let received = client.tell("receive 0 1 60000 memory");
    scene.until("zoidd_waiting", 1.0);
    // The message stops halfway; the server's post returns long before that.
    relay.limit(20_000);
    assert_eq!(server.ask("release"), "ok");
    relay.until_stopped();
    assert_eq!(server.ask(&format!("test {op} 50")), "nothing");
    relay.allow(usize::MAX / 2);
    assert_eq!(server.wait(op), "60000");
    assert_eq!(client.hear(received).unwrap(), "done 60000");
}

#[test]
fn r61_a_cancel_ends_what_is_unmatched_and_nothing_else() {
    let scene = Scene::with(&[("stall-ms", "600000"), ("heartbeat-ms", "60000")]);
    let mut server = scene.server();
    let relay = Relay::to(&scene.socket(), "relay", usize::MAX / 2);
    let mut client = scene.client_over(relay.path());
    server.take_greeting(&mut client);
    // Unmatched: the cancel succeeds.
    let op = server.pending("receive 1 1 8 memory");
    assert_eq!(server.ask(&format!("cancel {op}")), "ok");
    assert_eq!(server.wait(op), "Cancel");
    // During the transfer: the cancel has no effect.
    let op = server.pending("receive 1 2 1000000 memory");
    relay.limit(200_000);
    let send = client.tell("send 0 2 1000000 memory");
    relay.until_stopped();
    assert_eq!(server.ask(&format!("cancel {op}")), "ok");
    scene.until("zoidd_cancels_ignored_total", 1.0);
    assert_eq!(server.ask(&format!("test {op} 50")), "nothing");
    relay.allow(usize::MAX / 2);
    assert_eq!(client.hear(send).unwrap(), "done 1000000");
    assert_eq!(server.wait(op), "1000000");
    // Complete: the result stays.
    let op = server.pending("receive 1 3 8 memory");
    assert_eq!(client.ask("send 0 3 8 memory"), "done 8");
    assert_eq!(server.ask(&format!("cancel {op}")), "ok");
    assert_eq!(server.wait(op), "8");
    // Each is reported once.
    assert_eq!(server.ask("context 8 50"), "nothing");
    assert_eq!(server.ask(&format!("test {op} 0")), "Inval");
}

#[test]
fn r64_a_test_of_any_operation_collects_what_other_threads_posted() {
    let scene = Scene::new();
    let (mut server, mut client) = scene.greeted_pair();
    let before = server.count("commands");
    let sleeper = server.tell(&format!("context 2 {}", LIMIT.as_millis()));
    server.until_above("commands", before);
    // Posted while the test sleeps, by the threads of other commands.
    let ops: Vec<usize> = (0..5)
        .map(|tag| server.pending(&format!("receive 1 {tag} 8 memory")))
        .collect();
    assert_eq!(client.ask("send 0 0 8 memory"), "done 8");
    assert_eq!(server.hear(sleeper).unwrap(), format!("{} 8", ops[0]));
    // At most as many as asked for, and the rest in the next test.
    for tag in 1..5 {
        assert_eq!(client.ask(&format!("send 0 {tag} 8 memory")), "done 8");
    }
    let collect = format!("context 3 {}", LIMIT.as_millis());
    let mut found = 0;
    while found < 4 {
        let some = server.ask(&collect).split(", ").count();
        assert!(some <= 3);
        found += some;
    }
    assert_eq!(found, 4);
}
