//! A forwarder, its clients, and the method between them.

#![expect(clippy::unwrap_used, reason = "test code")]
#![allow(dead_code, reason = "each test uses a part")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bmi::tcp::Tcp;
use bmi::{Bmi, Question};
use files::dir::LocalDirectory;
use files::{FileSystem, Place};
use files_bmi::{BmiFiles, ClientOptions, Forwarder, ForwarderOptions};
use tempfile::TempDir;
use testkit::QueueTurn;
use zoid::Zoid;
use zoidd::Daemon;

pub(crate) fn at(path: &str) -> Place {
    Place::from_root(path.as_bytes()).unwrap()
}

pub(crate) fn is_long() -> bool {
    std::env::var("FINERAIL_LONG").is_ok_and(|value| value == "1")
}

/// An empty directory as a file system.
pub(crate) struct Exported {
    pub(crate) directory: TempDir,
    pub(crate) files: Arc<LocalDirectory>,
}

impl Exported {
    pub(crate) fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let files = LocalDirectory::open(directory.path(), files::dir::Options::default()).unwrap();
        Self {
            directory,
            files: Arc::new(files),
        }
    }
}

/// A forwarder over tcp.
pub(crate) struct TcpSite {
    pub(crate) forwarder: Option<Forwarder>,
    server: Arc<Bmi>,
    pub(crate) address: String,
}

impl TcpSite {
    pub(crate) fn new(files: Arc<dyn FileSystem>, options: ForwarderOptions) -> Self {
        let server = Bmi::builder()
            .method(Tcp::new())
            .listen("tcp://127.0.0.1:0")
            .start();
        let server = Arc::new(server.unwrap());
        let port = server.get(None, Question::TcpPort).unwrap();
        let forwarder = Forwarder::start(Arc::clone(&server), files, options).unwrap();
        Self {
            forwarder: Some(forwarder),
            server,
            address: format!("tcp://127.0.0.1:{port}"),
        }
    }

    /// Replaces the forwarder by a new one.
    pub(crate) fn replace(&mut self, files: Arc<dyn FileSystem>, options: ForwarderOptions) {
        self.forwarder = None;
        let server = Arc::clone(&self.server);
        self.forwarder = Some(Forwarder::start(server, files, options).unwrap());
    }

    pub(crate) fn forwarder(&self) -> &Forwarder {
        self.forwarder.as_ref().unwrap()
    }

    pub(crate) fn client(&self, options: ClientOptions) -> BmiFiles {
        let bmi = Bmi::builder().method(Tcp::new()).start().unwrap();
        BmiFiles::connect(Arc::new(bmi), &self.address, options).unwrap()
    }
}

impl Drop for TcpSite {
    fn drop(&mut self) {
        self.forwarder = None;
        self.server.finalize();
    }
}

/// A daemon in a thread, and a forwarder behind the daemon.
pub(crate) struct ZoidSite {
    pub(crate) forwarder: Option<Forwarder>,
    pub(crate) server: Arc<Bmi>,
    options: zoid::Options,
    daemon: Option<(zoidd::Stopper, std::thread::JoinHandle<()>)>,
    _directory: TempDir,
    _turn: QueueTurn,
}

impl ZoidSite {
    pub(crate) fn new(files: Arc<dyn FileSystem>, options: ForwarderOptions) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let turn = QueueTurn::share();
        let directory = TempDir::new().unwrap();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let instance = format!("fb{}-{number}", std::process::id());
        let socket: PathBuf = directory.path().join("socket");
        let daemon = Daemon::open(zoidd::Options {
            instance: instance.parse().unwrap(),
            directory: Some(directory.path().to_path_buf()),
            socket: Some(socket.clone()),
            total: 64 << 20,
            ..zoidd::Options::default()
        })
        .unwrap();
        let stopper = daemon.stopper();
        let running = std::thread::spawn(move || daemon.run().unwrap());
        let zoid_options = zoid::Options {
            instance: instance.parse().unwrap(),
            socket: Some(socket),
            pipelined: true,
            client_connect: Duration::from_secs(60),
            ..zoid::Options::default()
        };
        let method = Zoid::new(zoid_options.clone());
        let server = Arc::new(
            Bmi::builder()
                .method(method)
                .listen("zoid://")
                .start()
                .unwrap(),
        );
        let forwarder = Forwarder::start(Arc::clone(&server), files, options).unwrap();
        Self {
            forwarder: Some(forwarder),
            server,
            options: zoid_options,
            daemon: Some((stopper, running)),
            _directory: directory,
            _turn: turn,
        }
    }

    pub(crate) fn forwarder(&self) -> &Forwarder {
        self.forwarder.as_ref().unwrap()
    }

    pub(crate) fn client(&self, options: ClientOptions) -> BmiFiles {
        let bmi = Bmi::builder()
            .method(Zoid::new(self.options.clone()))
            .start()
            .unwrap();
        BmiFiles::connect(Arc::new(bmi), "zoid://", options).unwrap()
    }
}

impl Drop for ZoidSite {
    fn drop(&mut self) {
        self.forwarder = None;
        self.server.finalize();
        if let Some((stopper, running)) = self.daemon.take() {
            stopper.stop();
            running.join().unwrap();
        }
    }
}
