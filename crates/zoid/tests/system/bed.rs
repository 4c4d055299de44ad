//! A daemon for one test, and what connects to it.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bmi::{
    Address, Bmi, Buffer, Class, Completion, ContextId, Error, OpId, Payload, Post, Tag, Unexpected,
};
use tempfile::TempDir;
use zoid::{Counters, Options, Zoid};
use zoidd::{Daemon, Stopper};

/// How long anything may take before it is called a hang.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Queues are limited per user, so tests that use them take turns: one lock for all of this user.
pub(crate) fn take_turn() -> File {
    let name = format!("finerail-queues-{}.lock", sys::effective_user());
    let path = std::env::temp_dir().join(name);
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .unwrap();
    file.lock().unwrap();
    file
}

/// A daemon on a thread of this process, with a name and a directory of its own.
pub(crate) struct Bed {
    options: Options,
    settings: zoidd::Options,
    stopper: Stopper,
    running: Option<JoinHandle<()>>,
    over_tcp: Option<std::net::SocketAddr>,
    directory: TempDir,
    _turn: File,
}

impl Bed {
    /// A daemon with small defaults that `change` changes.
    pub(crate) fn with(change: impl FnOnce(&mut zoidd::Options)) -> Bed {
        let turn = take_turn();
        let directory = TempDir::new().unwrap();
        let instance = format!("t{}", std::process::id());
        let socket = directory.path().join("socket");
        let mut options = zoidd::Options {
            instance: instance.parse().unwrap(),
            directory: Some(directory.path().to_path_buf()),
            socket: Some(socket.clone()),
            total: 160 << 20,
            // Nobody misses one because the machine is busy with something else.
            heartbeat: LIMIT,
            // Long messages take the stream; the tests of copying say that they do not.
            client_memory: zoidd::ClientMemory::Off,
            ..zoidd::Options::default()
        };
        change(&mut options);
        let settings = options.clone();
        let daemon = Daemon::open(options).unwrap();
        let (stopper, over_tcp) = (daemon.stopper(), daemon.address());
        let running = std::thread::spawn(move || daemon.run().unwrap());
        let options = Options {
            instance: instance.parse().unwrap(),
            socket: Some(socket),
            ..Options::default()
        };
        Bed {
            options,
            settings,
            stopper,
            running: Some(running),
            over_tcp,
            directory,
            _turn: turn,
        }
    }

    /// The defaults of the description, but for the segment's size and the heartbeats.
    pub(crate) fn new() -> Bed {
        Bed::with(|_| {})
    }

    /// Both sides with posts that do not wait.
    pub(crate) fn pipelined(mut self) -> Bed {
        self.options.pipelined = true;
        self
    }

    /// Both sides look for news for so long before they sleep.
    pub(crate) fn spinning(mut self, time: Duration) -> Bed {
        self.options.spin = time;
        self
    }

    /// Ends the daemon in good order, and starts another one in its place.
    pub(crate) fn restart(&mut self) {
        self.stopper.stop();
        self.running.take().unwrap().join().unwrap();
        let daemon = Daemon::open(self.settings.clone()).unwrap();
        self.stopper = daemon.stopper();
        self.running = Some(std::thread::spawn(move || daemon.run().unwrap()));
    }

    /// The value of one of the daemon's metrics.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let metrics = self.metrics();
        let found = metrics.iter().find(|metric| metric.name == name);
        found.unwrap_or_else(|| panic!("no metric {name}")).value
    }

    /// All of the daemon's metrics.
    pub(crate) fn metrics(&self) -> Vec<zoidd::Metric> {
        let (instance, directory) = (&self.settings.instance, self.directory.path());
        zoidd::read_metrics(instance, directory).unwrap()
    }

    /// What a process of this bed is started with.
    pub(crate) fn options(&self) -> Options {
        self.options.clone()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.options.socket.clone().unwrap()
    }

    /// A server, and what it counts.
    pub(crate) fn serve(&self) -> End {
        End::server(self.options())
    }

    /// A client, and what it counts.
    pub(crate) fn join(&self) -> End {
        End::client(self.options())
    }

    /// A server and a client that have heard of each other.
    pub(crate) fn meet(&self) -> (End, End) {
        let mut server = self.serve();
        let client = self.join();
        server.peer = server.greeted_by(&client);
        (server, client)
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(running) = self.running.take() {
            // A daemon that failed has said why on its thread.
            let _failed = running.join();
        }
    }
}

impl bmi::conformance::Bed for Bed {
    fn server(&self) -> Bmi {
        let zoid = Zoid::new(self.options());
        let server = Bmi::builder().method(zoid).listen("zoid://");
        server.start().unwrap()
    }

    fn client(&self) -> Bmi {
        let zoid = match self.over_tcp {
            Some(_) => Zoid::over_tcp(self.options()),
            None => Zoid::new(self.options()),
        };
        Bmi::builder().method(zoid).start().unwrap()
    }

    fn address(&self, _server: &Bmi) -> String {
        match self.over_tcp {
            Some(address) => format!("zoid+tcp://{address}/{}", self.options.instance),
            None => "zoid://".to_owned(),
        }
    }
}

/// One side.
pub(crate) struct End {
    pub(crate) bmi: Bmi,
    pub(crate) context: ContextId,
    pub(crate) peer: Address,
    pub(crate) counters: Arc<Counters>,
}

impl End {
    pub(crate) fn server(options: Options) -> End {
        let zoid = Zoid::new(options);
        let counters = zoid.counters();
        let bmi = Bmi::builder().method(zoid).listen("zoid://").start();
        End::of(bmi.unwrap(), counters)
    }

    pub(crate) fn client(options: Options) -> End {
        let zoid = Zoid::new(options);
        let counters = zoid.counters();
        End::of(Bmi::builder().method(zoid).start().unwrap(), counters)
    }

    fn of(bmi: Bmi, counters: Arc<Counters>) -> End {
        End {
            context: bmi.open_context().unwrap(),
            peer: bmi.lookup("zoid://").unwrap(),
            bmi,
            counters,
        }
    }

    /// The address of a client that introduces itself.
    pub(crate) fn greeted_by(&self, client: &End) -> Address {
        assert!(matches!(
            client.unexpected(0, b"hello"),
            Post::Immediate(..)
        ));
        self.next_unexpected().from
    }

    pub(crate) fn next_unexpected(&self) -> Unexpected {
        let found = self.bmi.test_unexpected(Class(0), 1, LIMIT).unwrap();
        found.into_iter().next().expect("an unexpected message")
    }

    pub(crate) fn unexpected(&self, tag: i32, bytes: &[u8]) -> Post {
        let buffer = Buffer::from(bytes);
        self.bmi
            .post_send_unexpected(self.context, self.peer, buffer, Tag(tag), Class(0), 7)
            .unwrap()
    }

    pub(crate) fn send(&self, tag: i32, payload: impl Into<Payload>) -> Post {
        self.bmi
            .post_send(self.context, self.peer, payload, Tag(tag), 7)
            .unwrap()
    }

    pub(crate) fn receive(&self, tag: i32, payload: impl Into<Payload>) -> Post {
        self.bmi
            .post_receive(self.context, self.peer, payload, Tag(tag), 7)
            .unwrap()
    }

    /// Posts a receive of at most `len` bytes into memory of this side's own.
    pub(crate) fn receive_into(&self, tag: i32, len: usize) -> Post {
        self.receive(tag, self.memory(len))
    }

    pub(crate) fn memory(&self, len: usize) -> Buffer {
        self.bmi.allocate(self.peer, len).unwrap()
    }

    /// Memory from outside the method.
    pub(crate) fn outside(&self, len: usize) -> Buffer {
        Buffer::zeroed(len).unwrap()
    }

    /// Waits for an operation.
    pub(crate) fn wait(&self, op: OpId) -> Completion {
        let began = Instant::now();
        loop {
            if let Some(done) = self.bmi.test(op, Duration::from_secs(1)).unwrap() {
                return done;
            }
            assert!(began.elapsed() < LIMIT, "{op:?} did not complete");
        }
    }

    /// The result of a post and its memory.
    pub(crate) fn finish(&self, post: Post) -> (Result<usize, Error>, Payload) {
        match post {
            Post::Immediate(len, payload) => (Ok(len), payload),
            Post::Pending(op) => {
                let done = self.wait(op);
                (done.result, done.payload)
            }
        }
    }
}

/// The operation of a post that found no counterpart.
pub(crate) fn pending(post: Post) -> OpId {
    match post {
        Post::Pending(op) => op,
        Post::Immediate(len, _) => panic!("finished at once, with {len} bytes"),
    }
}

/// The size of a post that finished at once, and its memory.
pub(crate) fn immediate(post: Post) -> (usize, Payload) {
    match post {
        Post::Immediate(len, payload) => (len, payload),
        Post::Pending(op) => panic!("{op:?} is pending"),
    }
}

/// Bytes that differ from place to place.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// Whether the long suite was asked for.
pub(crate) fn is_long() -> bool {
    std::env::var("FINERAIL_LONG").is_ok_and(|value| value == "1")
}
