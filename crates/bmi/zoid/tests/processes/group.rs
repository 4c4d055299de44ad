//! Daemon, server and client of three users who share a group.

use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

use tempfile::TempDir;
use testkit::QueueTurn;
use zoid_proto::Instance;

use crate::scene::Process;

/// Users that do not exist on any machine, and their group.
const DAEMON: u32 = 64_101;
const SERVER: u32 = 64_102;
const CLIENT: u32 = 64_103;
const GROUP: u32 = 64_104;

/// Returns the command line prefix that runs a program as one of them.
fn words(user: u32) -> [String; 4] {
    [
        "setpriv".to_owned(),
        format!("--reuid={user}"),
        format!("--regid={user}"),
        format!("--groups={GROUP}"),
    ]
}

fn start(role: &str, settings: &str, user: u32) -> Process {
    let words = words(user);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Process::start(role, settings, &words)
}

/// Returns whether this test may run programs as other users.
fn is_possible() -> bool {
    let [program, rest @ ..] = words(DAEMON);
    let this = std::env::current_exe().unwrap();
    let run = Command::new(program)
        .args(rest)
        .arg(this)
        .arg("--list")
        .output();
    run.is_ok_and(|run| run.status.success())
}

// [SAFE-1]
#[test]
fn a_daemon_a_server_and_a_client_of_three_users_share_a_group() {
    if !is_possible() {
        println!("skipped: setpriv and the right to become other users are needed");
        return;
    }
    let _turn = QueueTurn::take();
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    chown(path, Some(DAEMON), Some(GROUP)).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o750)).unwrap();
    let instance: Instance = format!("g{}", std::process::id()).parse().unwrap();
    let place = format!("instance={instance}\ndirectory={}\n", path.display());
    let settings = format!("{place}total=4M\nprefault=off\nhugepages=auto\ngroup={GROUP}\n");
    let mut daemon = start("daemon", &settings, DAEMON);
    let socket = path.join(instance.socket_file());
    let party = format!("instance={instance}\nsocket={}\n", socket.display());
    let mut server = start("server", &party, SERVER);
    let mut client = start("client", &party, CLIENT);
    let peer = server.take_greeting(&mut client);
    let op = server.pending(&format!("receive {peer} 1 5000 memory"));
    assert_eq!(client.finish("send 0 1 5000 outside"), "5000");
    assert_eq!(server.wait(op), "5000");
    client.end();
    server.end();
    daemon.end();
}
