//! Deaths from the point of view of the survivors: clients that outlive their server, or client
//! and server that outlive their daemon, and the fate of operations posted before.

use std::time::{Duration, Instant};

use crate::relay::Relay;
use crate::scene::{LIMIT, Process, Scene};

/// Starts a client with one more setting.
fn client_with(scene: &Scene, setting: &str) -> Process {
    let settings = scene.party_settings(&scene.socket()) + setting + "\n";
    Process::start("client", &settings, &[])
}

/// Posts operations that no server has matched: a receive of tag 1 and a send of tag 2.
fn wait_for_a_server(client: &mut Process) -> [usize; 2] {
    ["receive 0 1 100 memory", "send 0 2 100 memory"].map(|post| client.pending(post))
}

/// Posts the counterparts at the next server.
fn serve(server: &mut Process, client: &mut Process, ops: [usize; 2]) {
    server.take_greeting(client);
    let posts = ["send 1 1 100 memory", "receive 1 2 100 memory"].map(|post| server.tell(post));
    for op in ops {
        assert_eq!(client.wait(op), "100");
    }
    for post in posts {
        let answer = server.hear(post).unwrap();
        match answer.strip_prefix("pending ") {
            Some(op) => assert_eq!(server.wait(op.parse().unwrap()), "100"),
            None => assert_eq!(answer, "done 100"),
        }
    }
}

// [DEATH-11]
#[test]
fn what_waits_for_a_server_outlives_its_farewell() {
    let scene = Scene::new();
    let (mut server, mut client) = scene.greeted_pair();
    let ops = wait_for_a_server(&mut client);
    assert_eq!(server.ask("finalize"), "ok");
    let mut server = scene.server();
    serve(&mut server, &mut client, ops);
}

// [DEATH-14]
#[test]
fn what_a_dead_server_may_have_known_of_fails_when_the_next_one_comes() {
    let scene = Scene::with(&[("unexp", "64k")]);
    let (mut server, mut client) = scene.greeted_pair();
    let ops = wait_for_a_server(&mut client);
    for tag in 0..8 {
        assert_eq!(client.ask(&format!("unexpected {tag} 8192")), "done 8192");
    }
    let late = client.pending("unexpected 8 8192");
    server.kill();
    scene.until("zoidd_server_attached", 0.0);
    // It is not known yet which server comes next.
    for op in ops.into_iter().chain([late]) {
        assert_eq!(client.ask(&format!("test {op} 20")), "nothing");
    }
    let mut server = scene.server();
    for op in ops {
        assert_eq!(client.wait(op), "ConnReset");
    }
    // Unexpected messages are valid for this server as well.
    for tag in 0..8 {
        assert_eq!(server.fetch()[1..3], [tag, 8192]);
        assert_eq!(server.ask("free"), "ok");
    }
    assert_eq!(client.wait(late), "8192");
    assert_eq!(server.fetch()[1..3], [8, 8192]);
    let op = server.pending("receive 1 3 8 memory");
    assert_eq!(client.ask("send 0 3 8 memory"), "done 8");
    assert_eq!(server.wait(op), "8");
}

// [DEATH-15]
#[test]
fn an_answer_that_went_with_the_server_is_not_waited_for() {
    let scene = Scene::new();
    let (mut server, mut client) = scene.greeted_pair();
    for tag in [4, 5] {
        assert_eq!(client.ask(&format!("unexpected {tag} 8")), "done 8");
    }
    // The server has fetched the first request only, and answers neither.
    assert_eq!(server.fetch()[1], 4);
    assert_eq!(server.ask("free"), "ok");
    server.kill();
    scene.until("zoidd_server_attached", 0.0);
    let mut server = scene.server();
    assert_eq!(server.fetch()[1], 5);
    server.take_greeting(&mut client);
    // The program posts the receives of the answers only now.
    assert_eq!(client.finish("receive 0 4 100 outside"), "ConnReset");
    let answer = client.pending("receive 0 5 100 outside");
    let test = client.tell(&format!("test {answer} 60000"));
    assert_eq!(server.finish("send 1 5 100 memory"), "100");
    assert_eq!(client.hear(test), Some(format!("{answer} 100")));
}

/// One wait without an end, as a program in C makes it: the limit ends it.
// [DEATH-17]
#[test]
fn what_waits_for_a_server_that_was_killed_fails_if_no_other_comes() {
    for threads in ["", "single-thread=on\n"] {
        let scene = Scene::new();
        let mut server = scene.server();
        let settings = format!("server-timeout-ms=500\n{threads}");
        let mut client = client_with(&scene, settings.trim_end());
        server.take_greeting(&mut client);
        let [receive, send] = wait_for_a_server(&mut client);
        let test = client.tell(&format!("test {receive} 600000"));
        server.kill();
        assert_eq!(client.hear(test), Some(format!("{receive} ConnReset")));
        assert_eq!(client.wait(send), "ConnReset");
    }
}

// [DEATH-14]
#[test]
fn a_client_that_asks_for_it_keeps_what_waits_when_a_server_dies() {
    let scene = Scene::new();
    let mut server = scene.server();
    let mut client = client_with(&scene, "keep-on-server-restart=on");
    server.take_greeting(&mut client);
    let ops = wait_for_a_server(&mut client);
    server.kill();
    scene.until("zoidd_server_attached", 0.0);
    let mut server = scene.server();
    serve(&mut server, &mut client, ops);
}

// [DEATH-13]
#[test]
fn a_send_to_a_server_that_dies_amid_it_fails() {
    let scene = Scene::with(&[("stall-ms", "600000"), ("heartbeat-ms", "60000")]);
    let mut server = scene.server();
    let relay = Relay::to(&scene.socket(), "relay", usize::MAX / 2);
    let mut client = scene.client_over(relay.path());
    let mut bystander = scene.client();
    server.take_greeting(&mut client);
    server.pending("receive 1 2 1000000 memory");
    relay.limit(200_000);
    let send = client.tell("send 0 2 1000000 memory");
    relay.until_stopped();
    server.kill();
    scene.until("zoidd_server_attached", 0.0);
    relay.allow(usize::MAX / 2);
    assert_eq!(client.hear(send).unwrap(), "ConnReset");
    // Neither its connection nor another one was affected.
    let mut server = scene.server();
    for other in [&mut client, &mut bystander] {
        let peer = server.take_greeting(other);
        let op = server.pending(&format!("receive {peer} 3 8 memory"));
        assert_eq!(other.ask("send 0 3 8 memory"), "done 8");
        assert_eq!(server.wait(op), "8");
    }
}

// [DEATH-21]
#[test]
fn a_daemon_that_dies_for_good_fails_everything_in_time() {
    let mut scene = Scene::new();
    let mut server = scene.server();
    let mut client = client_with(&scene, "reconnect-ms=1000");
    server.take_greeting(&mut client);
    let registered = server.pending("receive 1 9 8 memory");
    let queued = client.pending("receive 0 1 8 memory");
    client.ask(&format!("timeout {}", LIMIT.as_millis()));
    let outstanding = client.tell("receive 0 2 8 memory");
    scene.until("zoidd_waiting", 1.0);
    let began = Instant::now();
    scene.daemon.kill();
    assert_eq!(client.hear(outstanding).unwrap(), "ConnReset");
    assert_eq!(server.wait(registered), "NetReset");
    assert_eq!(server.ask("receive 1 9 8 outside"), "NetDown");
    // The place is kept as long as the daemon may come back, and tests sleep no longer than asked.
    let mut kept = 0;
    let failed = loop {
        let answer = client.ask(&format!("test {queued} 20"));
        match answer.as_str() {
            "nothing" => kept += 1,
            _ => break answer,
        }
        assert!(began.elapsed() < LIMIT);
    };
    assert_eq!(failed, format!("{queued} ConnReset"));
    assert!(began.elapsed() >= Duration::from_millis(1000) && kept > 0);
}
