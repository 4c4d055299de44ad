//! Faults of the machine around the three processes: permissions, limits, a truncated segment, clock jumps,
//! signals.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use sys::{MessageQueue, QueueAccess, QueueShape};
use tempfile::TempDir;

use crate::scene::{Process, Scene, eventually, is_long};

/// An unprivileged user, if this test may switch to one.
pub(crate) const NOBODY: [&str; 5] = [
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--inh-caps=-all",
];

/// Returns whether processes can be started as [`NOBODY`].
pub(crate) fn may_be_nobody() -> bool {
    let mut command = Command::new(NOBODY[0]);
    let tried = command.args(&NOBODY[1..]).arg("true");
    tried.status().is_ok_and(|status| status.success())
}

/// Copies this program to a place where any user may run it, with a directory that any user may write to.
pub(crate) fn public_copy() -> (TempDir, PathBuf) {
    let directory = TempDir::new().unwrap();
    std::fs::set_permissions(directory.path(), Permissions::from_mode(0o1777)).unwrap();
    let program = directory.path().join("program");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    (directory, program)
}

// [SAFE-1]
#[test]
fn who_may_not_open_queue_or_segment_is_told() {
    if !may_be_nobody() {
        println!("skipped: setpriv cannot make another user of this one");
        return;
    }
    let scene = Scene::new();
    std::fs::set_permissions(scene.directory.path(), Permissions::from_mode(0o755)).unwrap();
    let (_directory, program) = public_copy();
    let settings = scene.party_settings(&scene.socket()) + "connect-ms=60000\n";
    let refused = |role| Process::refusal_of(&program, role, &settings, &NOBODY);
    // A server opens the segment first.
    assert_eq!(refused("server"), "Acces");
    assert_eq!(refused("client"), "Acces");
    // The queue alone: any user may open the segment.
    let segment = format!("/dev/shm{}", scene.instance.segment());
    std::fs::set_permissions(&segment, Permissions::from_mode(0o666)).unwrap();
    assert_eq!(refused("server"), "Acces");
    // A user with permission is served.
    let (mut server, mut client) = scene.greeted_pair();
    let op = server.pending("receive 1 1 8 memory");
    assert_eq!(client.ask("send 0 1 8 outside"), "done 8");
    assert_eq!(server.wait(op), "8");
}

/// Creates all queues of this size that this user can still create.
fn take_all_queues(shape: QueueShape) -> Vec<Taken> {
    let name = |number: usize| {
        let bytes = shape.message_bytes;
        format!("/zoid-all.{}.{bytes}.{number}", std::process::id())
    };
    let make = |number| {
        MessageQueue::create(&name(number), QueueAccess::Receive, shape).ok()?;
        Some(Taken(name(number)))
    };
    (0..).map_while(make).collect()
}

/// A queue that is removed at the end.
struct Taken(String);

impl Drop for Taken {
    fn drop(&mut self) {
        sys::unlink_queue(&self.0).unwrap();
    }
}

/// The shape of reply queues; they use up the bytes that a user may have (EMFILE).
const LARGE: QueueShape = QueueShape {
    messages: 2,
    message_bytes: 4096,
};

/// Small queues use up the number that the system may have (ENOSPC), which does not limit root.
const SMALL: QueueShape = QueueShape {
    messages: 1,
    message_bytes: 1,
};

// [CTL-5]
#[test]
fn without_a_queue_left_calls_of_a_server_take_turns() {
    let scene = Scene::new();
    let (mut server, mut client) = scene.greeted_pair();
    let ops: Vec<_> = (0..3)
        .map(|tag| server.pending(&format!("receive 1 {tag} 8 memory")))
        .collect();
    let taken = take_all_queues(LARGE);
    assert!(taken.len() > 10, "{}", taken.len());
    // One command sleeps on the only queue; the others wait for their turn and get it.
    let sleepers: Vec<_> = ops
        .iter()
        .map(|op| server.tell(&format!("test {op} 300")))
        .collect();
    for (op, sleeper) in ops.iter().zip(sleepers) {
        assert_eq!(server.hear(sleeper).as_deref(), Some("nothing"), "{op}");
    }
    assert_eq!(client.ask("send 0 1 8 outside"), "done 8");
    assert_eq!(server.wait(ops[1]), "8");
}

// [CTL-5]
#[test]
fn without_a_queue_left_a_server_is_told_which_limit_it_is() {
    let scene = Scene::new();
    let settings = scene.party_settings(&scene.socket());
    let is_root = sys::effective_user() == 0;
    for (shape, error) in [(LARGE, "MFile"), (SMALL, "NoSpc")] {
        if is_root && shape == SMALL {
            println!("root may have more queues than the system's limit");
            continue;
        }
        let taken = take_all_queues(shape);
        assert!(taken.len() > 10, "{}", taken.len());
        assert_eq!(Process::rejection("server", &settings, &[]), error);
    }
    drop(scene.greeted_pair());
}

// [SEG-8]
#[test]
fn a_segment_cut_by_a_third_party_ends_its_daemon_and_nobody_else() {
    let mut scene = Scene::new();
    let path = format!("/dev/shm{}", scene.instance.segment());
    if !Path::new(&path).exists() {
        println!("skipped: {path} is not where shared memory is");
        return;
    }
    let (mut server, mut client) = scene.greeted_pair();
    let op = server.pending("receive 1 1 8 outside");
    let waiting = client.pending("receive 0 2 8 outside");
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(4096).unwrap();
    // The daemon logs the reason and dies; the others notice.
    scene.daemon.wait_for_end();
    assert!(["NetDown", "NetReset"].contains(&&*server.wait(op)));
    assert_eq!(client.ask(&format!("test {waiting} 0")), "nothing");
    scene.restart();
    assert_eq!(scene.metric("zoidd_clients"), 0.0);
    eventually("the server is back", || {
        scene.metric("zoidd_server_attached") == 1.0 || server.ask("fetch 1 20") != "nothing"
    });
    assert_eq!(client.finish("unexpected 5 5"), "5");
    assert_eq!(server.fetch()[1..3], [5, 5]);
}

/// Builds a library that is preloaded and makes the time of day jump by years at every call, forward and
/// back. `None` without a C compiler.
fn jumping_clock(directory: &Path) -> Option<String> {
    let source = directory.join("clock.c");
    let library = directory.join("clock.so");
    let code = "#define _GNU_SOURCE\n\
        #include <time.h>\n#include <unistd.h>\n#include <sys/syscall.h>\n#include <sys/time.h>\n\
        static long jump(void) { static int n; return (++n % 2 ? 1 : -1) * 40000000L * (n % 7 + 1); }\n\
        int clock_gettime(clockid_t clock, struct timespec *time) {\n\
            int result = syscall(SYS_clock_gettime, clock, time);\n\
            if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) time->tv_sec += jump();\n\
            return result;\n}\n\
        int gettimeofday(struct timeval *time, void *zone) {\n\
            int result = syscall(SYS_gettimeofday, time, zone);\n\
            if (time) time->tv_sec += jump();\n\
            return result;\n}\n\
        time_t time(time_t *out) {\n\
            struct timespec now; clock_gettime(CLOCK_REALTIME, &now);\n\
            if (out) *out = now.tv_sec;\n\
            return now.tv_sec;\n}\n";
    std::fs::write(&source, code).unwrap();
    let mut compiler = Command::new("cc");
    let compiler = compiler
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&source);
    let compiled = compiler.status().is_ok_and(|status| status.success());
    compiled.then(|| format!("LD_PRELOAD={}", library.display()))
}

// [DEATH-28]
#[test]
fn a_clock_that_jumps_changes_nothing() {
    let directory = TempDir::new().unwrap();
    let Some(preload) = jumping_clock(directory.path()) else {
        println!("skipped: no C compiler");
        return;
    };
    let through = ["env", &*preload];
    let scene = Scene::through(&through);
    let settings = scene.party_settings(&scene.socket());
    let mut server = Process::start("server", &settings, &through);
    let mut client = Process::start("client", &settings, &through);
    for party in [&mut server, &mut client] {
        assert_eq!(
            party.ask("clocks"),
            "(true, false)",
            "the clock does not jump"
        );
    }
    server.take_greeting(&mut client);
    // Waits last as long as asked, not shorter and not forever.
    let op = client.pending("receive 0 1 8 memory");
    let waits = server.pending("receive 1 2 8 outside");
    for (party, op) in [(&mut client, op), (&mut server, waits)] {
        let began = std::time::Instant::now();
        assert_eq!(party.ask(&format!("test {op} 300")), "nothing");
        assert!(began.elapsed() >= std::time::Duration::from_millis(300));
    }
    client.ask("timeout 60000");
    let late = client.tell("receive 0 3 8 memory");
    client.until_above("exchanges", 0);
    assert_eq!(server.finish("send 1 3 8 memory"), "8");
    assert_eq!(client.hear(late).unwrap(), "done 8");
    server.tell("echo");
    for tag in 4..24 {
        assert_eq!(client.ask(&format!("exchange {tag} 8000")), "done");
    }
    assert_eq!(scene.metric("zoidd_clients_lost_total"), 0.0);
    assert_eq!(scene.metric("zoidd_servers_lost_total"), 0.0);
}

// [DEATH-26]
#[test]
fn all_three_stopped_and_continued_amid_transfers_lose_nothing() {
    let scene = Scene::with(&[("heartbeat-ms", "60000")]);
    let mut server = scene.server();
    server.tell("echo");
    let mut client = scene.client();
    // 8000 announces 512,000 bytes each way.
    let exchanges: Vec<u64> = (1..=20)
        .map(|tag| client.tell(&format!("exchange {tag} 8000")))
        .collect();
    let rounds = if is_long() { 500 } else { 50 };
    for _ in 0..rounds {
        for process in [&client, &server, &scene.daemon] {
            process.signal(Signal::SIGSTOP);
            process.signal(Signal::SIGCONT);
        }
    }
    for exchange in exchanges {
        assert_eq!(client.hear(exchange).as_deref(), Some("done"));
    }
    assert_eq!(scene.metric("zoidd_server_attached"), 1.0);
}
