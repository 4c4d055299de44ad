//! A daemon for one test, and its clients and server.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bmi::{
    Address, Bmi, Buffer, Class, Completion, ContextId, Error, OpId, Payload, Post, Tag, Unexpected,
};
use tempfile::TempDir;
use testkit::QueueTurn;
use zoid::{Counters, Options, Zoid};
use zoidd::{Daemon, Stopper};

/// The longest wait before a test reports a hang.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A daemon on a thread of this process, with a name and a directory of its own.
pub(crate) struct Bed {
    options: Options,
    settings: zoidd::Options,
    stopper: Stopper,
    running: Option<JoinHandle<()>>,
    over_tcp: Option<std::net::SocketAddr>,
    directory: TempDir,
    _turn: QueueTurn,
}

impl Bed {
    /// Starts a daemon with small defaults, changed by `change`.
    pub(crate) fn with(change: impl FnOnce(&mut zoidd::Options)) -> Bed {
        let turn = QueueTurn::take();
        let directory = TempDir::new().unwrap();
        let instance = format!("t{}", std::process::id());
        let socket = directory.path().join("socket");
        let mut options = zoidd::Options {
            instance: instance.parse().unwrap(),
            directory: Some(directory.path().to_path_buf()),
            socket: Some(socket.clone()),
            total: 160 << 20,
            // So long that a busy machine does not miss one.
            heartbeat: LIMIT,
            // Long messages use the stream; the tests of copying override this.
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

    /// Starts a daemon with the defaults of the description, except for the segment's size and the
    /// heartbeats.
    pub(crate) fn new() -> Bed {
        Bed::with(|_| {})
    }

    /// Makes posts of both sides return before their outcome is known.
    pub(crate) fn pipelined(mut self) -> Bed {
        self.options.pipelined = true;
        self
    }

    /// Makes both sides poll for this long before they sleep.
    pub(crate) fn spinning(mut self, time: Duration) -> Bed {
        self.options.spin = time;
        self
    }

    /// Ends the daemon in order, and starts another one in its place.
    pub(crate) fn restart(&mut self) {
        self.stop();
        self.start();
    }

    /// Ends the daemon in order.
    pub(crate) fn stop(&mut self) {
        self.stopper.stop();
        self.running.take().unwrap().join().unwrap();
    }

    /// Starts another daemon after [`Bed::stop`].
    pub(crate) fn start(&mut self) {
        let daemon = Daemon::open(self.settings.clone()).unwrap();
        self.stopper = daemon.stopper();
        self.running = Some(std::thread::spawn(move || daemon.run().unwrap()));
    }

    /// Returns the value of one of the daemon's metrics.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let metrics = self.metrics();
        let found = metrics.iter().find(|metric| metric.name == name);
        found.unwrap_or_else(|| panic!("no metric {name}")).value
    }

    /// Returns all of the daemon's metrics.
    pub(crate) fn metrics(&self) -> Vec<zoidd::Metric> {
        let (instance, directory) = (&self.settings.instance, self.directory.path());
        zoidd::read_metrics(instance, directory).unwrap()
    }

    /// Returns the options of a process of this bed.
    pub(crate) fn options(&self) -> Options {
        self.options.clone()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.options.socket.clone().unwrap()
    }

    /// Starts a server.
    pub(crate) fn serve(&self) -> End {
        End::server(self.options())
    }

    /// Starts a client.
    pub(crate) fn join(&self) -> End {
        End::client(self.options())
    }

    /// Starts a server and a client that have exchanged a greeting.
    pub(crate) fn greeted_pair(&self) -> (End, End) {
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
            // A daemon that failed has printed the reason on its thread.
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

/// One end of a conversation, and its counters.
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

    /// Fetches the greeting of a client. Returns the client's address.
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

    /// Posts a receive of at most `len` bytes into memory of this end's kind.
    pub(crate) fn receive_into(&self, tag: i32, len: usize) -> Post {
        self.receive(tag, self.memory(len))
    }

    pub(crate) fn memory(&self, len: usize) -> Buffer {
        self.bmi.allocate(self.peer, len).unwrap()
    }

    /// Returns memory from outside the method.
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

    /// Waits until a post completes. Returns its result and memory.
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

/// Returns the operation of a post that must be pending.
pub(crate) fn pending(post: Post) -> OpId {
    match post {
        Post::Pending(op) => op,
        Post::Immediate(len, _) => panic!("finished at once, with {len} bytes"),
    }
}

/// Returns size and memory of a post that must have completed at once.
pub(crate) fn immediate(post: Post) -> (usize, Payload) {
    match post {
        Post::Immediate(len, payload) => (len, payload),
        Post::Pending(op) => panic!("{op:?} is pending"),
    }
}

/// Returns bytes that differ from place to place.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// Returns whether the long suite was asked for.
pub(crate) fn is_long() -> bool {
    std::env::var("FINERAIL_LONG").is_ok_and(|value| value == "1")
}
