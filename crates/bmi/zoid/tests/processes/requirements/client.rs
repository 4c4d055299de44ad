//! Requirements from the point of view of a client's process.

use std::time::{Duration, Instant};

use testkit::QueueTurn;

use crate::scene::{LIMIT, Scene, is_long, let_pass};

#[test]
fn r07_a_client_reaches_the_server_of_its_own_daemon_and_nobody_else() {
    let one = Scene::new();
    let two = Scene::beside(&[], "b");
    let (mut server, mut own) = one.greeted_pair();
    let mut other = one.client();
    let mut stranger = two.client();
    for client in [&mut own, &mut other, &mut stranger] {
        assert_eq!(client.ask("lookup zoid://"), "ok");
        for elsewhere in ["zoid://#0", "zoid://#1", "zoid://b", "zoid://localhost"] {
            assert_eq!(client.ask(&format!("lookup {elsewhere}")), "Inval");
        }
    }
    assert_eq!(stranger.ask("unexpected 1 10"), "done 10");
    assert_eq!(own.ask("unexpected 2 10"), "done 10");
    assert_eq!(server.fetch()[..3], [1, 2, 10]);
    assert_eq!(server.ask("fetch 8 50"), "nothing");
    // A message for one client is not received by another with the same tag.
    assert_eq!(server.take_greeting(&mut other), 2);
    let op = server.pending("send 1 9 100 memory");
    let waits = other.pending("receive 0 9 100 memory");
    assert_eq!(other.ask(&format!("test {waits} 50")), "nothing");
    assert_eq!(own.ask("receive 0 9 100 memory"), "done 100");
    assert_eq!(server.wait(op), "100");
}

#[test]
fn r14_a_test_is_one_exchange_however_long_it_waits() {
    // Three heartbeats are time enough for a busy machine to let a process run.
    let scene = Scene::with(&[("heartbeat-ms", "1000")]);
    let (mut server, mut client) = scene.greeted_pair();
    let op = client.pending("receive 0 1 8 memory");
    // The longest computation outlives three heartbeats by far; the client must not be lost.
    let longest = if is_long() { 30_000 } else { 5000 };
    for wait in [10, 1000, longest] {
        let before = [client.count("exchanges"), client.count("tests")];
        let began = Instant::now();
        assert_eq!(client.ask(&format!("test {op} {wait}")), "nothing");
        assert!(began.elapsed() >= Duration::from_millis(wait));
        let after = [client.count("exchanges"), client.count("tests")];
        assert_eq!(after, before.map(|count| count + 1), "{wait} ms");
    }
    let tests = client.count("tests");
    let hours = client.tell(&format!("test {op} {}", 10 * 3_600_000));
    client.until_above("tests", tests);
    assert_eq!(server.finish("send 1 1 8 memory"), "8");
    assert_eq!(client.hear(hours).unwrap(), format!("{op} 8"));
}

#[test]
fn r15_r29_posts_with_a_timeout_end_with_their_counterpart_or_their_time() {
    let scene = Scene::new();
    let (mut server, mut client) = scene.greeted_pair();
    // By default a post does not wait.
    let before = client.count("exchanges");
    let op = client.pending("receive 0 1 8 memory");
    assert_eq!(client.count("exchanges"), before + 1);
    assert_eq!(client.ask(&format!("cancel {op}")), "ok");
    assert_eq!(client.wait(op), "Cancel");
    // With a timeout a post waits for its counterpart, in one exchange.
    client.ask(&format!("timeout {}", LIMIT.as_millis()));
    for (client_does, server_does) in [("receive", "send"), ("send", "receive")] {
        let before = client.count("exchanges");
        let began = Instant::now();
        let post = client.tell(&format!("{client_does} 0 2 8 memory"));
        client.until_above("exchanges", before);
        let_pass(Duration::from_millis(100));
        assert!(!client.has_answered(post));
        assert_eq!(server.finish(&format!("{server_does} 1 2 8 memory")), "8");
        assert_eq!(client.hear(post).unwrap(), "done 8");
        assert!(began.elapsed() >= Duration::from_millis(100));
        assert_eq!(client.count("exchanges"), before + 1);
    }
    // Without a counterpart it is pending after its timeout.
    client.ask("timeout 500");
    for post in ["receive 0 3 8 memory", "send 0 3 8 memory"] {
        let began = Instant::now();
        client.pending(post);
        assert!(began.elapsed() >= Duration::from_millis(500));
    }
}

#[test]
fn r15_r29_r53_an_unexpected_send_waits_for_memory_that_is_freed() {
    let scene = Scene::new();
    let (mut server, mut client) = scene.greeted_pair();
    for tag in 0..128 {
        assert_eq!(client.ask(&format!("unexpected {tag} 8192")), "done 8192");
    }
    client.ask("timeout 300");
    let began = Instant::now();
    let late = client.pending("unexpected 128 8192");
    assert!(began.elapsed() >= Duration::from_millis(300));
    assert_eq!(server.fetch()[..3], [1, 0, 8192]);
    server.ask("free");
    assert_eq!(client.wait(late), "8192");
    client.ask(&format!("timeout {}", LIMIT.as_millis()));
    let before = client.count("exchanges");
    let post = client.tell("unexpected 129 8192");
    client.until_above("exchanges", before);
    assert_eq!(server.fetch()[..3], [1, 1, 8192]);
    assert!(!client.has_answered(post));
    server.ask("free");
    assert_eq!(client.hear(post).unwrap(), "done 8192");
}

#[test]
fn r21_what_a_client_posted_is_with_the_client_and_dies_with_it() {
    let scene = Scene::new();
    let (_server, mut client) = scene.greeted_pair();
    for tag in 0..1000 {
        client.pending(&format!("receive 0 {tag} 8 memory"));
    }
    for nothing in ["zoidd_requests", "zoidd_waiting", "zoidd_posts"] {
        assert_eq!(scene.metric(nothing), 0.0, "{nothing}");
    }
    client.kill();
    scene.until("zoidd_clients", 0.0);
}

#[test]
fn r24_r25_unexpected_messages_are_taken_until_memory_is_out_and_then_recoverable() {
    let scene = Scene::new();
    let (mut server, mut client) = scene.greeted_pair();
    for tag in 0..128 {
        assert_eq!(client.ask(&format!("unexpected {tag} 8192")), "done 8192");
    }
    let late = client.pending("unexpected 128 8192");
    assert_eq!(client.ask(&format!("test {late} 50")), "nothing");
    assert_eq!(server.fetch()[..3], [1, 0, 8192]);
    server.ask("free");
    assert_eq!(client.wait(late), "8192");
    for tag in 1..=128 {
        assert_eq!(server.fetch()[..3], [1, tag, 8192]);
    }
}

#[test]
fn r26_r27_a_send_without_its_receive_waits_in_the_client_through_every_refusal() {
    let scene = Scene::new();
    let (mut server, mut client) = scene.greeted_pair();
    let op = client.pending("send 0 1 1000 memory");
    for _ in 0..3 {
        assert_eq!(client.ask(&format!("test {op} 20")), "nothing");
    }
    // The post of an equal operation attempts this one first, and it finds no counterpart again.
    let refusals = client.count("not_now");
    for more in 1..=3 {
        client.pending("send 0 1 10 memory");
        assert_eq!(client.count("not_now"), refusals + more);
    }
    let receive = server.pending("receive 1 1 1000 memory");
    assert_eq!(client.wait(op), "1000");
    assert_eq!(server.wait(receive), "1000");
}

#[test]
fn r28_a_send_with_its_receive_posted_is_immediate() {
    let scene = Scene::new();
    let (mut server, mut client) = scene.greeted_pair();
    let op = server.pending("receive 1 1 3000 memory");
    assert_eq!(client.ask("send 0 1 1234 outside"), "done 1234");
    assert_eq!(server.wait(op), "1234");
}

#[test]
fn r30_refused_attempts_move_headers_and_an_accepted_one_its_size() {
    let scene = Scene::with(&[("total", "160M")]);
    let (mut server, mut client) = scene.greeted_pair();
    let len = 128 << 20;
    let before = client.count("bytes_sent");
    let op = client.pending(&format!("send 0 1 {len} outside"));
    for _ in 0..99 {
        assert_eq!(client.ask(&format!("test {op} 0")), "nothing");
    }
    let refused = client.count("bytes_sent") - before;
    assert!(refused < 100 * 256, "{refused}");
    let before = client.count("bytes_sent");
    let receive = server.pending(&format!("receive 1 1 {len} memory"));
    assert_eq!(client.wait(op), len.to_string());
    assert_eq!(server.wait(receive), len.to_string());
    let moved = client.count("bytes_sent") - before;
    assert!((len..len + 16_384).contains(&moved), "{moved}");
}

/// The scene holds the lock as long as it lives, so nothing else has it.
#[test]
fn scenes_take_turns() {
    let scene = Scene::new();
    let (done, over) = std::sync::mpsc::channel();
    let waiting = std::thread::spawn(move || {
        let _turn = QueueTurn::take();
        done.send(()).unwrap();
    });
    assert!(over.recv_timeout(Duration::from_millis(100)).is_err());
    drop(scene);
    over.recv_timeout(LIMIT).unwrap();
    waiting.join().unwrap();
}
