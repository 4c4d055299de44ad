//! Messages that the daemon copies directly from and to the memory of client processes: processes that may
//! not be read, that die, and a daemon that is stopped.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use crate::faults::{NOBODY, may_be_nobody, public_copy};
use crate::scene::{Process, Scene, eventually, let_pass};

const ON: (&str, &str) = ("client-memory", "on");
/// The length of a message of several pieces in bytes.
const LONG: usize = 16 << 20;
const COPIES: &str = "zoidd_client_memory_copies_total";

fn fallbacks(scene: &Scene, reason: &str) -> f64 {
    scene.metric(&format!(
        "zoidd_client_memory_fallbacks_total{{reason=\"{reason}\"}}"
    ))
}

/// Starts a client that allows its daemon everything that can be allowed.
fn client(scene: &Scene, more: &str) -> Process {
    let settings = scene.party_settings(&scene.socket()) + "client-memory=allow\n" + more;
    Process::start("client", &settings, &[])
}

/// Starts a server and a client that have exchanged a greeting; `None` if the kernel forbids all access to
/// other processes.
fn readable_pair(scene: &Scene) -> Option<(Process, Process)> {
    pair_with(scene, "")
}

/// The same with further settings of the client.
fn pair_with(scene: &Scene, more: &str) -> Option<(Process, Process)> {
    let (mut server, mut client) = (scene.server(), client(scene, more));
    server.take_greeting(&mut client);
    let refused = fallbacks(scene, "permission") + fallbacks(scene, "kernel");
    if refused > 0.0 {
        println!("skipped: this kernel lets no process read another one");
        return None;
    }
    Some((server, client))
}

/// Sends a message each way; the parties compare every byte.
fn both_ways(server: &mut Process, client: &mut Process, tag: u32, len: usize) {
    let op = server.pending(&format!("receive 1 {tag} {len} memory"));
    assert_eq!(
        client.finish(&format!("send 0 {tag} {len} outside")),
        len.to_string()
    );
    assert_eq!(server.wait(op), len.to_string());
    let op = server.pending(&format!("send 1 {tag} {len} memory"));
    assert_eq!(
        client.finish(&format!("receive 0 {tag} {len} outside")),
        len.to_string()
    );
    assert_eq!(server.wait(op), len.to_string());
}

#[test]
fn every_size_is_copied_from_process_to_process() {
    let scene = Scene::with(&[ON]);
    let Some((mut server, mut client)) = readable_pair(&scene) else {
        return;
    };
    let sizes = [
        0,
        1,
        8192,
        65_535,
        65_536,
        1 << 20,
        16 << 20,
        (16 << 20) + 1,
    ];
    for (tag, len) in (1..).zip(sizes) {
        both_ways(&mut server, &mut client, tag, len);
    }
    assert_eq!(scene.metric(COPIES), 8.0);
    assert_eq!(client.count("memory_shown"), 8);
    assert!(client.count("bytes_sent") < 200_000);
}

#[test]
fn clients_of_one_thread_and_those_whose_posts_do_not_wait_are_served() {
    for settings in ["single-thread=1\n", "pipelined=1\n"] {
        let scene = Scene::with(&[ON]);
        let (mut server, mut client) = (scene.server(), client(&scene, settings));
        server.take_greeting(&mut client);
        both_ways(&mut server, &mut client, 1, 1 << 20);
        let refused = fallbacks(&scene, "permission") + fallbacks(&scene, "kernel");
        assert_eq!(scene.metric(COPIES) + 2.0 * refused, 2.0);
    }
}

/// Returns a scene whose processes belong to an unprivileged user, who may not read processes that do not
/// dump core. `None` if there is no such user.
fn of_nobody(settings: &[(&str, &str)]) -> Option<(Scene, impl Fn(&str, &str) -> Process)> {
    if !may_be_nobody() {
        println!("skipped: setpriv cannot make another user of this one");
        return None;
    }
    let (directory, program) = public_copy();
    let scene = Scene::of(&program, 65_534, settings, &NOBODY);
    let party = scene.party_settings(&scene.socket());
    let start = move |role: &str, more: &str| {
        let _kept = &directory;
        Process::start_as(&program, role, &(party.clone() + more), &NOBODY)
    };
    Some((scene, start))
}

// [FWD-44]
#[test]
fn a_client_that_may_not_be_read_gets_the_stream_and_the_reason_is_counted() {
    let Some((scene, start)) = of_nobody(&[ON]) else {
        return;
    };
    let mut server = start("server", "");
    // As the program of another user would be: the kernel rejects the daemon's access.
    let mut closed = start("client", "undumpable=1\nclient-memory=allow\n");
    server.take_greeting(&mut closed);
    assert_eq!(fallbacks(&scene, "permission"), 1.0);
    both_ways(&mut server, &mut closed, 1, 1 << 20);
    assert_eq!(scene.metric(COPIES), 0.0);
    assert_eq!(closed.count("memory_shown"), 0);
    closed.end();
    // A readable client of the same user is served by copies meanwhile.
    let mut open = start("client", "client-memory=allow\n");
    let peer = server.take_greeting(&mut open);
    let op = server.pending(&format!("receive {peer} 2 1048576 memory"));
    assert_eq!(open.finish("send 0 2 1048576 outside"), "1048576");
    assert_eq!(server.wait(op), "1048576");
    match fallbacks(&scene, "permission") {
        2.0 => println!("this machine lets no process read another one"),
        _ => {
            assert_eq!(scene.metric(COPIES), 1.0);
            // Later it becomes unreadable, which the daemon notices at its next message.
            assert_eq!(open.ask("forbid"), "ok");
            let op = server.pending(&format!("receive {peer} 3 1048576 memory"));
            assert_eq!(open.finish("send 0 3 1048576 outside"), "1048576");
            assert_eq!(server.wait(op), "1048576");
            let op = server.pending(&format!("send {peer} 4 1048576 memory"));
            assert_eq!(open.finish("receive 0 4 1048576 outside"), "1048576");
            assert_eq!(server.wait(op), "1048576");
            assert_eq!(fallbacks(&scene, "permission"), 2.0);
            assert_eq!(scene.metric(COPIES), 1.0);
        }
    }
    scene.given_back();
}

// [FWD-43]
#[test]
fn a_client_of_another_user_gets_the_stream() {
    if !may_be_nobody() {
        println!("skipped: setpriv cannot make another user of this one");
        return;
    }
    // The daemon is root, which the kernel would let read every process.
    let scene = Scene::with(&[ON, ("group", "65534")]);
    std::fs::set_permissions(scene.directory.path(), Permissions::from_mode(0o755)).unwrap();
    let (_directory, program) = public_copy();
    let mut server = scene.server();
    let settings = scene.party_settings(&scene.socket()) + "client-memory=allow\n";
    let mut client = Process::start_as(&program, "client", &settings, &NOBODY);
    server.take_greeting(&mut client);
    both_ways(&mut server, &mut client, 1, 1 << 20);
    assert_eq!(fallbacks(&scene, "user"), 1.0);
    assert_eq!(scene.metric(COPIES), 0.0);
}

// [DEATH-2]
#[test]
fn a_client_killed_amid_a_copy_fails_its_operation_and_no_other() {
    for (failpoint, client_does, server_does) in [
        // Two greetings pass that place before.
        ("amid-arrival=stop@3", "send", "receive"),
        ("amid-delivery=stop@2", "receive", "send"),
    ] {
        let scene = Scene::with(&[ON, ("failpoint", failpoint), ("heartbeat-ms", "60000")]);
        let Some((mut server, mut dying)) = readable_pair(&scene) else {
            return;
        };
        let mut bystander = client(&scene, "");
        assert_eq!(bystander.finish("unexpected 0 5"), "5");
        assert_eq!(server.fetch()[0], 2);
        let op = server.pending(&format!("{server_does} 1 1 {LONG} memory"));
        dying.tell(&format!("{client_does} 0 1 {LONG} outside"));
        scene.daemon.until_stopped();
        dying.kill();
        let ended = server.tell(&format!("test {op} 60000"));
        let on = |server: &Process| server.has_answered(ended);
        scene
            .daemon
            .go_on_until("the operation ends", || on(&server));
        assert_eq!(server.hear(ended).unwrap(), format!("{op} ConnReset"));
        let op = server.pending("receive 2 1 1048576 memory");
        let sent = bystander.tell("send 0 1 1048576 outside");
        let on = |bystander: &Process| bystander.has_answered(sent);
        scene.daemon.go_on_until("it is sent", || on(&bystander));
        assert_eq!(bystander.hear(sent).unwrap(), "done 1048576");
        assert_eq!(server.wait(op), "1048576");
        assert_eq!(scene.metric("zoidd_transfers"), 0.0);
    }
}

#[test]
fn a_daemon_killed_amid_a_copy_fails_the_operation_and_is_not_waited_for() {
    for (failpoint, client_does, server_does) in [
        ("amid-arrival=kill@3", "send", "receive"),
        ("amid-delivery=kill@2", "receive", "send"),
    ] {
        let mut scene = Scene::with(&[ON, ("failpoint", failpoint)]);
        let Some((mut server, mut client)) = readable_pair(&scene) else {
            return;
        };
        let op = server.pending(&format!("{server_does} 1 1 {LONG} memory"));
        let ended = client.ask(&format!("{client_does} 0 1 {LONG} outside"));
        assert_eq!(ended, "ConnReset", "{failpoint}");
        scene.daemon.wait_for_end();
        assert!(["NetDown", "NetReset"].contains(&&*server.wait(op)));
        scene.restart();
        let mut client = self::client(&scene, "");
        eventually("the server is back", || {
            scene.metric("zoidd_server_attached") == 1.0 || server.ask("fetch 1 20") != "nothing"
        });
        let new = server.take_greeting(&mut client);
        let op = server.pending(&format!("receive {new} 2 {LONG} outside"));
        assert_eq!(
            client.finish(&format!("send 0 2 {LONG} outside")),
            LONG.to_string()
        );
        assert_eq!(server.wait(op), LONG.to_string());
        assert_eq!(scene.metric(COPIES), 1.0);
    }
}

/// Returns a client to whose receive the daemon has begun to write before it was stopped, and the number of
/// the command.
fn standing_still(scene: &Scene) -> Option<(Process, Process, u64)> {
    // The client gives up a stopped daemon after three and a half heartbeats.
    let (mut server, mut client) = pair_with(scene, "reconnect-ms=500\n")?;
    server.pending(&format!("send 1 1 {LONG} memory"));
    let receives = client.tell(&format!("receive 0 1 {LONG} outside"));
    scene.daemon.until_stopped();
    Some((server, client, receives))
}

// [FWD-48]
#[test]
fn an_operation_ends_only_when_a_daemon_that_stands_still_has_let_go_of_its_memory() {
    let settings = [
        ON,
        ("failpoint", "amid-delivery=stop@2"),
        ("heartbeat-ms", "1000"),
    ];
    let scene = Scene::with(&settings);
    let Some((_server, client, receives)) = standing_still(&scene) else {
        return;
    };
    // The client has noticed the silence, and that the daemon may write once it continues.
    let_pass(Duration::from_millis(4500));
    assert!(!client.has_answered(receives));
    let ended = || client.has_answered(receives);
    scene.daemon.go_on_until("the daemon lets go", ended);
    assert_eq!(client.hear(receives).as_deref(), Some("ConnReset"));
}

#[test]
fn a_cancel_amid_a_copy_comes_too_late() {
    let settings = [
        ON,
        ("failpoint", "amid-delivery=stop@2"),
        ("heartbeat-ms", "60000"),
    ];
    let scene = Scene::with(&settings);
    let (mut server, mut client) = (scene.server(), client(&scene, "pipelined=1\n"));
    server.take_greeting(&mut client);
    if fallbacks(&scene, "permission") + fallbacks(&scene, "kernel") > 0.0 {
        println!("skipped: this kernel lets no process read another one");
        return;
    }
    let sends = server.pending(&format!("send 1 1 {LONG} memory"));
    let op = client.pending(&format!("receive 0 1 {LONG} outside"));
    let ends = client.tell(&format!("test {op} 60000"));
    scene.daemon.until_stopped();
    assert_eq!(client.ask(&format!("cancel {op}")), "ok");
    let ended = || client.has_answered(ends);
    scene.daemon.go_on_until("the copy ends", ended);
    assert_eq!(client.hear(ends), Some(format!("{op} {LONG}")));
    assert_eq!(server.wait(sends), LONG.to_string());
}

// [FWD-48]
#[test]
fn who_ends_amid_a_copy_waits_for_its_end() {
    let settings = [
        ON,
        ("failpoint", "amid-delivery=stop@2"),
        ("heartbeat-ms", "60000"),
    ];
    let scene = Scene::with(&settings);
    let Some((_server, mut client, receives)) = standing_still(&scene) else {
        return;
    };
    let ends = client.tell("finalize");
    let_pass(Duration::from_millis(500));
    assert!(!client.has_answered(ends) && !client.has_answered(receives));
    let ended = || client.has_answered(ends);
    scene.daemon.go_on_until("the daemon lets go", ended);
    assert_eq!(client.hear(ends).as_deref(), Some("ok"));
    assert!(client.hear(receives).is_some());
}

#[test]
fn who_ends_with_a_copy_that_no_thread_waits_for_waits_for_its_end() {
    let settings = [
        ON,
        ("failpoint", "amid-delivery=stop@2"),
        ("heartbeat-ms", "60000"),
    ];
    let scene = Scene::with(&settings);
    let (mut server, mut client) = (scene.server(), client(&scene, "pipelined=1\n"));
    server.take_greeting(&mut client);
    if fallbacks(&scene, "permission") + fallbacks(&scene, "kernel") > 0.0 {
        println!("skipped: this kernel lets no process read another one");
        return;
    }
    server.pending(&format!("send 1 1 {LONG} memory"));
    // The library's own thread continues the operation.
    client.pending(&format!("receive 0 1 {LONG} outside"));
    scene.daemon.until_stopped();
    let ends = client.tell("finalize");
    let_pass(Duration::from_millis(1500));
    assert!(!client.has_answered(ends));
    let ended = || client.has_answered(ends);
    scene.daemon.go_on_until("the daemon lets go", ended);
    assert_eq!(client.hear(ends).as_deref(), Some("ok"));
}

// [FWD-48]
#[test]
fn a_daemon_that_dies_while_it_stands_still_has_let_go() {
    let settings = [
        ON,
        ("failpoint", "amid-delivery=stop@2"),
        ("heartbeat-ms", "60000"),
    ];
    let mut scene = Scene::with(&settings);
    let Some((_server, mut client, receives)) = standing_still(&scene) else {
        return;
    };
    let ends = client.tell("finalize");
    scene.daemon.kill();
    assert_eq!(client.hear(ends).as_deref(), Some("ok"));
    assert!(client.hear(receives).is_some());
}
