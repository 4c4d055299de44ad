//! Deaths: of clients, of servers, of the daemon at every step; what is left, and who notices.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use nix::sys::signal::Signal;
use testkit::QueueTurn;
use zoid_proto::fwd::{Event, Frame, Hello, MessageKind};
use zoid_proto::{Extent, Status};
use zoidd::{Daemon, Options};

use common::client::{Client, introduction};
use common::server::Server;
use common::{Process, be_a_daemon, files, has_segment, idle_process, queues};

#[test]
fn daemon_for_the_other_tests() {
    be_a_daemon();
}

const PLACE: [Extent; 1] = [Extent {
    offset: 2 << 20,
    len: 4 << 20,
}];

/// All kinds of message, there and back; ends early when the daemon is gone.
fn conversation(daemon: &Process) -> Option<()> {
    let mut client = Client::connect(daemon);
    let hello = Frame::Hello(introduction());
    let header = zoid_proto::fwd::FrameHeader::new(zoid_proto::fwd::FrameType::HELLO, 1);
    client.raw(&common::client::encode(header, &hello, &[]));
    client.next()?;
    let mut server = Server::attach(daemon);
    assert_eq!(client.unexpected(1, b"hello"), Status::DONE);
    let got = server.unexpected(1, 60_000);
    server.free(got[0].offset);
    server.post_recv(got[0].peer, 1, 1, &PLACE).unwrap();
    assert_eq!(
        client.send(MessageKind::Expected, 1, &vec![1; 3 << 20], 0),
        Status::DONE
    );
    assert_eq!(server.test(60_000).len(), 1);
    server.post_send(got[0].peer, 1, 2, &PLACE).unwrap();
    assert_eq!(client.recv(1, 4 << 20, 0).unwrap().len(), 4 << 20);
    assert_eq!(server.test(60_000).len(), 1);
    server.fini();
    Some(())
}

// [DEATH-43]
#[test]
fn a_killed_daemon_s_names_are_removed_by_the_next_one() {
    let _turn = QueueTurn::take();
    let mut daemon = Process::start(&[]);
    let epoch = Server::attach(&daemon).init.unwrap().epoch;
    for _ in 0..5 {
        conversation_of_new_server(&daemon);
        daemon.kill();
        assert!(has_segment(&daemon.instance));
        daemon.restart();
        assert_eq!(daemon.ready.trim(), "1 queues, 1 segments, 2 sockets");
    }
    let server = Server::attach(&daemon);
    assert_ne!(server.init.unwrap().epoch, epoch);
    drop(server);
    daemon.stop();
    assert_eq!(queues(&daemon.instance, std::process::id()), 0);
    assert!(!has_segment(&daemon.instance));
}

fn conversation_of_new_server(daemon: &Process) {
    // The one before said no farewell, but its process, this one, lives on: it is still attached
    // unless the daemon is new.
    if daemon.metric("zoidd_server_attached") == 0.0 {
        conversation(daemon).unwrap();
    }
}

// [DEATH-42]
#[test]
fn a_cleanup_after_all_three_were_killed_leaves_nothing() {
    let _turn = QueueTurn::take();
    let mut daemon = Process::start(&[]);
    let mut process = idle_process();
    let server = Server::attach_as(&daemon, process.id()).unwrap();
    let client = Client::attach(&daemon);
    let instance = daemon.instance.clone();
    assert_eq!(queues(&instance, process.id()), 2);
    daemon.kill();
    // A server that lives keeps its queues.
    let directory = daemon.directory.path();
    zoidd::cleanup(&instance, Some(directory)).unwrap();
    assert_eq!(queues(&instance, process.id()), 1);
    process.kill().unwrap();
    process.wait().unwrap();
    let removed = zoidd::cleanup(&instance, Some(directory)).unwrap();
    assert_eq!(removed.queues, 1);
    assert_eq!(queues(&instance, process.id()), 0);
    assert!(!has_segment(&instance));
    assert_eq!(files(directory), Vec::<String>::new());
    drop((client, server));
}

// [DEATH-42]
#[test]
fn cleaning_up_under_a_living_daemon_is_refused() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[]);
    let refused = zoidd::cleanup(&daemon.instance, Some(daemon.directory.path()));
    assert!(matches!(refused, Err(zoidd::Error::AlreadyRunning { .. })));
    // Nor from another directory, nor by a second daemon there: its names are the same.
    let elsewhere = tempfile::tempdir().unwrap();
    let refused = zoidd::cleanup(&daemon.instance, Some(elsewhere.path()));
    assert!(matches!(refused, Err(zoidd::Error::AlreadyRunning { .. })));
    let second = Daemon::open(Options {
        instance: daemon.instance.clone(),
        directory: Some(elsewhere.path().to_path_buf()),
        total: 2 << 20,
        ..Options::default()
    });
    assert!(matches!(second, Err(zoidd::Error::AlreadyRunning { .. })));
    assert!(has_segment(&daemon.instance));
    assert!(Server::attach(&daemon).init.is_some());
    assert!(Client::attach(&daemon).ping());
}

#[test]
fn the_daemon_killed_at_any_step_starts_again_and_works() {
    let _turn = QueueTurn::take();
    let places = [
        "journal-written",
        "names-created",
        "before-welcome",
        "before-grant",
        "amid-arrival",
        "before-send-done",
        "before-recv-reply",
        "amid-delivery",
        "before-init-reply",
        "before-post-reply",
        "before-test-reply",
    ];
    for place in places {
        let failpoint = format!("{place}=kill");
        let mut daemon = Process::start(&[("failpoint", &failpoint)]);
        let (socket, instance) = (daemon.socket(), daemon.instance.clone());
        // The parties fail in one way or another, as processes of their own would.
        let _what_fails = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            if socket.exists() {
                conversation_or_death(&daemon);
            }
        }));
        assert!(!daemon.wait(), "{place}: still alive");
        daemon.restart();
        assert!(daemon.ready.contains("queues"), "{place}: {}", daemon.ready);
        conversation(&daemon).unwrap();
        daemon.stop();
        assert_eq!(queues(&instance, std::process::id()), 0, "{place}");
        assert!(!has_segment(&instance), "{place}");
    }
}

/// As [`conversation`], given up as soon as the daemon is dead: nobody answers on a queue then.
fn conversation_or_death(daemon: &Process) {
    let (done, over) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _ended =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| conversation(daemon)));
            let _nobody_waits = done.send(());
        });
        let _over = over.recv();
    });
}

// [SEG-4] [DEATH-27]
#[test]
fn sigterm_removes_every_name_and_tells_everybody() {
    let _turn = QueueTurn::take();
    let mut daemon = Process::start(&[]);
    let mut client = Client::attach(&daemon);
    let mut server = Server::attach(&daemon);
    client.next().unwrap();
    daemon.signal(Signal::SIGTERM);
    let mut events = Vec::new();
    while let Some(got) = client.next() {
        if let Frame::Event(event) = got.frame() {
            events.push(event);
        }
    }
    assert_eq!(events, [Event::Draining]);
    assert!(daemon.wait());
    assert_eq!(server.header().state, zoid_proto::DaemonState::DEAD);
    assert_eq!(server.header().session, server.session);
    assert_eq!(queues(&daemon.instance, 1), 0);
    assert!(!has_segment(&daemon.instance));
    server.session = 0;
}

// [DEATH-27]
#[test]
fn draining_finishes_a_transfer_and_refuses_the_next() {
    let _turn = QueueTurn::take();
    let mut daemon = Process::start(&[]);
    let mut client = Client::attach(&daemon);
    client.ask_send(MessageKind::Unexpected, 1, 8, 0);
    let grant = client.granted().unwrap();
    daemon.signal(Signal::SIGTERM);
    let draining = client.next().unwrap();
    assert_eq!(draining.frame(), Frame::Event(Event::Draining));
    client.ask_send(MessageKind::Unexpected, 2, 8, 0);
    assert_eq!(client.granted(), Err(Status::TRY_AGAIN));
    client.data(grant, b"finished");
    assert_eq!(client.send_done(), Status::DONE);
    assert!(daemon.wait());
}

// [DEATH-12]
#[test]
fn a_second_server_is_refused_while_the_first_lives_and_follows_when_it_dies() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[]);
    let mut process = idle_process();
    let mut client = Client::attach(&daemon);
    let first = Server::attach_as(&daemon, process.id()).unwrap();
    let own = std::process::id();
    assert_eq!(Server::attach_as(&daemon, own).err(), Some(Status::BUSY));
    process.kill().unwrap();
    process.wait().unwrap();
    daemon.until("zoidd_server_attached", 0.0);
    assert_eq!(
        queues(&daemon.instance, process.id()),
        1,
        "its queues are removed"
    );
    let second = Server::attach_as(&daemon, own).unwrap();
    assert_ne!(second.session, first.session);
    let mut news = Vec::new();
    while news.len() < 3 {
        let got = client.next().unwrap();
        if let Frame::Event(event) = got.frame() {
            news.push((event, got.header.status));
        }
    }
    let expected = [
        (Event::ServerAttached(first.session), Status::NONE),
        (Event::ServerGone(first.session), Status::CONNECTION_RESET),
        (Event::ServerAttached(second.session), Status::NONE),
    ];
    assert_eq!(news, expected);
}

// [DEATH-1]
#[test]
fn a_client_that_dies_fails_the_servers_operations_for_it_and_no_other() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[]);
    let mut server = Server::attach(&daemon);
    let mut bystander = Client::attach(&daemon);
    let mut dying = Client::attach(&daemon);
    // One registered, one amid its bytes, one before its acknowledgement.
    server.post_recv(dying.pid, 1, 1, &PLACE).unwrap();
    server.post_recv(dying.pid, 2, 2, &PLACE).unwrap();
    server.post_send(dying.pid, 3, 3, &PLACE).unwrap();
    server.post_recv(bystander.pid, 1, 4, &PLACE).unwrap();
    dying.ask_send(MessageKind::Expected, 2, 1000, 0);
    dying.granted().unwrap();
    dying.ask_recv(3, 4 << 20, 0);
    dying.hear();
    drop(dying);
    let mut failed = Vec::new();
    while failed.len() < 3 {
        failed.extend(server.test(60_000));
    }
    failed.sort_by_key(|completion| completion.bmi_id);
    assert_eq!(
        failed.iter().map(|c| c.bmi_id).collect::<Vec<_>>(),
        [1, 2, 3]
    );
    let reset = Err(Status::CONNECTION_RESET);
    assert!(failed.iter().all(|c| c.outcome == reset), "{failed:?}");
    assert_eq!(
        bystander.send(MessageKind::Expected, 1, b"unharmed", 0),
        Status::DONE
    );
    assert_eq!(server.test(60_000)[0].outcome, Ok(8));
}

// [DEATH-1]
#[test]
fn a_dead_clients_messages_stay_deliverable() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[]);
    let mut client = Client::attach(&daemon);
    let pid = client.pid;
    assert_eq!(client.unexpected(7, b"last words"), Status::DONE);
    drop(client);
    daemon.until("zoidd_clients", 0.0);
    let mut server = Server::attach(&daemon);
    let got = server.unexpected(5, 60_000);
    assert_eq!((got[0].peer, got[0].tag), (pid, 7));
    assert_eq!(server.memory(got[0].offset, 10).to_vec(), b"last words");
    // Its number is not given to another client while the server may know it.
    assert_ne!(Client::attach(&daemon).pid, pid);
}

// [DEATH-4]
#[test]
fn a_client_that_comes_back_in_time_keeps_its_number_and_the_servers_operations() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[("reattach-ms", "60000")]);
    let mut server = Server::attach(&daemon);
    let mut client = Client::connect(&daemon);
    let hello = introduction();
    let welcome = client.hello(hello).unwrap();
    server.post_recv(welcome.pid, 1, 1, &PLACE).unwrap();
    drop(client);
    daemon.until("zoidd_clients", 0.0);
    let mut back = Client::connect(&daemon);
    let again = Hello {
        previous_epoch: welcome.epoch,
        previous_pid: welcome.pid,
        ..hello
    };
    assert_eq!(back.hello(again).unwrap().pid, welcome.pid);
    assert_eq!(
        back.send(MessageKind::Expected, 1, b"back", 0),
        Status::DONE
    );
    assert_eq!(server.test(60_000)[0].outcome, Ok(4));
}

#[test]
fn r07_instances_do_not_hear_of_one_another() {
    let _turn = QueueTurn::take();
    let (one, two) = (Process::start(&[]), Process::start(&[]));
    let mut server = Server::attach(&one);
    let mut stranger = Client::attach(&two);
    let mut own = Client::attach(&one);
    assert_eq!(stranger.unexpected(1, b"for the other"), Status::DONE);
    assert_eq!(own.unexpected(2, b"for this one"), Status::DONE);
    let got = server.unexpected(10, 60_000);
    assert_eq!(got.iter().map(|m| m.tag).collect::<Vec<_>>(), [2]);
    assert_eq!(two.metric("zoidd_unexpected_ready"), 1.0);
    // A session of the other instance means nothing here.
    let bad = two.metric("zoidd_bad_commands_total");
    let mut lost = Server::unattached(&two, 1);
    lost.session = server.session;
    lost.ask(Some(0), &zoid_proto::ctl::Request::Fini);
    two.until("zoidd_bad_commands_total", bad + 1.0);
    assert_eq!(one.metric("zoidd_server_attached"), 1.0);
}

fn options(directory: &std::path::Path) -> Options {
    let mut options = Options::default();
    let instance = format!("x{}", std::process::id());
    options.set("test", "instance", &instance).unwrap();
    let directory = directory.to_str().unwrap();
    options.set("test", "directory", directory).unwrap();
    options
}

// [SEG-7]
#[test]
fn without_room_in_shared_memory_the_daemon_says_so_and_leaves_nothing() {
    let _turn = QueueTurn::take();
    let directory = tempfile::tempdir().unwrap();
    let mut options = options(directory.path());
    options.set("test", "total", "8192G").unwrap();
    let instance = options.instance.clone();
    let error = Daemon::open(options).err().unwrap().to_string();
    assert!(
        error.contains("/dev/shm") && error.contains("--total"),
        "{error}"
    );
    assert_eq!(queues(&instance, 1), 0);
    assert_eq!(files(directory.path()), Vec::<String>::new());
}

// [CTL-5]
#[test]
fn without_room_for_queues_the_daemon_names_the_limit_and_the_remedy() {
    use nix::sys::resource::{Resource, setrlimit};
    let _turn = QueueTurn::take();
    let directory = tempfile::tempdir().unwrap();
    setrlimit(Resource::RLIMIT_MSGQUEUE, 1000, 1000).unwrap();
    let error = Daemon::open(options(directory.path())).err().unwrap();
    let error = error.to_string();
    assert!(error.contains("ulimit -q"), "{error}");
    assert_eq!(files(directory.path()), Vec::<String>::new());
}

#[test]
fn without_a_descriptor_left_a_start_leaves_nothing_behind() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let _turn = QueueTurn::take();
    let directory = tempfile::tempdir().unwrap();
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let small = || {
        let mut options = options(directory.path());
        options.set("test", "total", "2M").unwrap();
        options
    };
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    // One more each time, so that each thing that a start needs is once the first to be refused.
    for more in 0..100 {
        setrlimit(Resource::RLIMIT_NOFILE, open + more, hard).unwrap();
        let started = Daemon::open(small());
        setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
        if let Ok(daemon) = started {
            assert!(more > 5, "{more}");
            daemon.stopper().stop();
            daemon.run().unwrap();
            return;
        }
        assert!(!has_segment(&small().instance), "{more}");
        let left = files(directory.path());
        assert!(left.iter().all(|name| name.ends_with(".lock")), "{left:?}");
    }
    panic!("it never starts");
}
