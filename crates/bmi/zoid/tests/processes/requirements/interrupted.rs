//! R10: a client that is interrupted at any point.

use nix::sys::signal::Signal;

use crate::relay::Relay;
use crate::scene::{Process, Scene, is_long};

/// The bytes of an exchange in both directions, without frames: 1000 announces 64,000.
const PAYLOAD: usize = 1000 + 2 * 64_000;

/// Returns byte counts after which a client is interrupted: within and after HELLO, within WELCOME, the
/// announcement, and the message in either direction.
fn places() -> Vec<usize> {
    let chosen = [1, 32, 90, 300, 1100, 1400, 20_000, 66_000, 90_000];
    if !is_long() {
        return chosen.to_vec();
    }
    (1..600)
        .step_by(3)
        .chain((600..PAYLOAD).step_by(641))
        .collect()
}

#[test]
fn r10_a_client_interrupted_at_any_byte_disturbs_nobody() {
    let scene = Scene::with(&[("heartbeat-ms", "60000")]);
    let mut server = scene.server();
    server.tell("echo");
    let mut bystander = scene.client();
    for (round, bytes) in places().into_iter().enumerate() {
        let relay = Relay::to(&scene.socket(), &format!("relay-{round}"), bytes);
        let settings = scene.party_settings(relay.path());
        let mut victim = Process::begin("client", &settings, &[]);
        victim.tell("exchange 5 1000");
        relay.until_stopped();
        // The victim is stuck in the middle of an operation, and no other process is affected.
        assert_eq!(
            bystander.ask("exchange 6 100"),
            "done",
            "stopped at {bytes}"
        );
        victim.signal([Signal::SIGINT, Signal::SIGKILL][round % 2]);
        victim.wait_for_end();
        drop(relay);
        assert_eq!(
            bystander.ask("exchange 7 1000"),
            "done",
            "killed at {bytes}"
        );
        scene.until("zoidd_clients", 1.0);
        scene.until("zoidd_unexpected_pool_used_bytes", 0.0);
    }
    assert_eq!(scene.metric("zoidd_server_attached"), 1.0);
}

#[test]
fn r10_a_client_that_nothing_stops_completes_through_the_relay() {
    let scene = Scene::new();
    let mut server = scene.server();
    server.tell("echo");
    let relay = Relay::to(&scene.socket(), "relay", usize::MAX);
    let mut client = scene.client_over(relay.path());
    assert_eq!(client.ask("exchange 5 1000"), "done");
}

#[test]
fn r10_a_client_stopped_and_continued_again_and_again_loses_nothing() {
    let scene = Scene::with(&[("heartbeat-ms", "60000")]);
    let mut server = scene.server();
    server.tell("echo");
    let mut client = scene.client();
    let exchanges: Vec<u64> = (1..=20)
        .map(|tag| client.tell(&format!("exchange {tag} 8000")))
        .collect();
    for _ in 0..30 {
        client.signal(Signal::SIGSTOP);
        client.signal(Signal::SIGCONT);
    }
    for exchange in exchanges {
        assert_eq!(client.hear(exchange).as_deref(), Some("done"));
    }
}
