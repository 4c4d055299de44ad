//! A daemon that is killed and restarted, or stopped, while surviving clients have outstanding requests: none
//! of them waits forever, and both sides agree on the results or fail.
//!
//! Heartbeats have their default interval.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::scene::{Process, Scene, is_long, let_pass};

/// What happens to the daemon.
#[derive(Clone, Copy, Debug)]
enum Blow {
    /// Killed, and restarted after this many milliseconds.
    Killed(u64),
    /// Stopped for this many milliseconds.
    Stopped(u64),
}

/// Longer than the silence that default heartbeats allow.
const STANDSTILL: Blow = Blow::Stopped(8000);

/// What each round does to the daemon, and the daemon's `reattach-ms`.
const ROUNDS: [(Blow, &str); 6] = [
    (Blow::Killed(500), "0"),
    (STANDSTILL, "0"),
    // The shipped systemd unit restarts a daemon after two seconds.
    (Blow::Killed(2000), "0"),
    (Blow::Killed(500), "30000"),
    (STANDSTILL, "30000"),
    (Blow::Killed(2000), "30000"),
];

fn scene(reattach_ms: &str) -> Scene {
    Scene::with(&[("heartbeat-ms", "2000"), ("reattach-ms", reattach_ms)])
}

/// Sends a request whose answer is already awaited. Returns the receive.
pub(crate) fn request(client: &mut Process, tag: i32) -> usize {
    let answer = client.pending(&format!("receive 0 {tag} 100 outside"));
    assert_eq!(client.finish(&format!("unexpected {tag} 8")), "8");
    answer
}

fn strike(scene: &mut Scene, blow: Blow) {
    match blow {
        Blow::Killed(ms) => {
            scene.daemon.kill();
            let_pass(Duration::from_millis(ms));
            scene.restart();
        }
        Blow::Stopped(ms) => {
            scene.daemon.signal(Signal::SIGSTOP);
            let_pass(Duration::from_millis(ms));
            scene.daemon.signal(Signal::SIGCONT);
        }
    }
}

/// Exchanges one request and its answer.
pub(crate) fn converse(server: &mut Process, client: &mut Process, tag: i32) {
    let answer = request(client, tag);
    let [peer, fetched, ..] = server.fetch();
    assert_eq!(fetched, tag as usize);
    assert_eq!(server.ask("free"), "ok");
    answer_with(server, peer, tag, || assert_eq!(client.wait(answer), "100"));
}

/// Sends from the server what the client receives meanwhile.
fn answer_with(server: &mut Process, peer: usize, tag: i32, receive: impl FnOnce()) {
    let sent = server.ask(&format!("send {peer} {tag} 100 memory"));
    receive();
    match sent.strip_prefix("pending ") {
        Some(op) => assert_eq!(server.wait(op.parse().unwrap()), "100"),
        None => assert_eq!(sent, "done 100"),
    }
}

fn round(blow: Blow, reattach_ms: &str) {
    let mut scene = scene(reattach_ms);
    let mut server = scene.server();
    let mut clients = [scene.client(), scene.client()];
    // The server has fetched the first request and waits for data; it has not fetched the second.
    let [first, second] = &mut clients;
    let answers = [request(first, 1), request(second, 2)];
    assert_eq!(server.fetch()[..2], [1, 1]);
    assert_eq!(server.ask("free"), "ok");
    let more = server.pending("receive 1 3 100 memory");
    let tests: Vec<_> = clients
        .iter_mut()
        .zip(answers)
        .map(|(client, answer)| client.tell(&format!("test {answer} 60000")))
        .collect();
    let waits = server.tell(&format!("test {more} 60000"));
    strike(&mut scene, blow);
    match blow {
        Blow::Killed(_) => {
            for ((client, test), answer) in clients.iter().zip(tests).zip(answers) {
                assert_eq!(client.hear(test), Some(format!("{answer} NetReset")));
            }
            assert_eq!(server.hear(waits), Some(format!("{more} NetReset")));
        }
        Blow::Stopped(_) => {
            // Nothing was lost, so no client has noticed.
            assert_eq!(clients[0].finish("send 0 3 100 outside"), "100");
            assert_eq!(server.hear(waits), Some(format!("{more} 100")));
            assert_eq!(server.fetch()[..2], [2, 2]);
            assert_eq!(server.ask("free"), "ok");
            for (tag, ((client, test), answer)) in
                clients.iter().zip(tests).zip(answers).enumerate()
            {
                let tag = tag + 1;
                assert_eq!(
                    server.finish(&format!("send {tag} {tag} 100 memory")),
                    "100"
                );
                assert_eq!(client.hear(test), Some(format!("{answer} 100")));
            }
            assert_eq!(clients[0].count("reconnects"), 0);
        }
    }
    for client in &mut clients {
        converse(&mut server, client, 9);
    }
}

// [DEATH-22]
#[test]
fn requests_outstanding_at_old_clients_end_whatever_the_daemon_suffers() {
    let rounds = if is_long() { 100 } else { 5 };
    for number in 0..rounds {
        let (blow, reattach_ms) = ROUNDS[number % ROUNDS.len()];
        println!("round {number}: {blow:?}, reattach-ms {reattach_ms}");
        round(blow, reattach_ms);
    }
}

// [DEATH-15]
#[test]
fn an_answer_that_went_with_the_daemon_is_not_waited_for() {
    let mut scene = scene("0");
    let mut server = scene.server();
    let mut client = scene.client();
    for tag in [4, 5] {
        assert_eq!(client.ask(&format!("unexpected {tag} 8")), "done 8");
    }
    strike(&mut scene, Blow::Killed(0));
    // Posted after the request was lost, before any call has reported the loss.
    assert_eq!(client.ask("receive 0 4 100 outside"), "NetReset");
    // The error is reported once: a later post belongs to another request.
    let again = client.pending("receive 0 4 100 outside");
    assert_eq!(client.ask(&format!("cancel {again}")), "ok");
    assert_eq!(client.finish("unexpected 5 8"), "8");
    client.pending("receive 0 5 100 outside");
    assert_eq!(server.fetch()[1], 5);
    assert_eq!(client.count("sessions_lost"), 1);
}

// [DEATH-23]
#[test]
fn an_idle_client_does_not_notice_that_its_daemon_was_replaced() {
    let mut scene = scene("0");
    let mut server = scene.server();
    let mut client = scene.client();
    converse(&mut server, &mut client, 6);
    strike(&mut scene, Blow::Killed(0));
    // The answer is awaited before the request is sent.
    converse(&mut server, &mut client, 6);
}

// [DEATH-23]
#[test]
fn nor_does_an_idle_client_whose_posts_wait() {
    let mut scene = scene("0");
    let mut server = scene.server();
    let mut client = scene.client();
    converse(&mut server, &mut client, 6);
    assert_eq!(client.ask("timeout 60000"), "ok");
    strike(&mut scene, Blow::Killed(0));
    let received = client.tell("receive 0 7 100 outside");
    // It waits at the new daemon.
    scene.until("zoidd_waiting", 1.0);
    assert_eq!(client.finish("unexpected 8 8"), "8");
    let [peer, ..] = server.fetch();
    answer_with(&mut server, peer, 7, || {
        assert_eq!(client.hear(received).as_deref(), Some("done 100"));
    });
}

// [DEATH-22]
#[test]
fn a_client_that_asks_for_it_keeps_what_waits_when_the_daemon_is_replaced() {
    let mut scene = scene("0");
    let mut server = scene.server();
    let settings = scene.party_settings(&scene.socket()) + "keep-on-server-restart=on\n";
    let mut client = Process::start("client", &settings, &[]);
    let waits = client.pending("receive 0 7 100 outside");
    strike(&mut scene, Blow::Killed(0));
    assert_eq!(client.finish("unexpected 8 8"), "8");
    let [peer, ..] = server.fetch();
    answer_with(&mut server, peer, 7, || {
        assert_eq!(client.wait(waits), "100")
    });
}
