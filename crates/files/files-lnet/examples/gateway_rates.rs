//! Measures a gateway: names made and removed in a second, with and without a log of replies, and the bytes of
//! a long file in a second. For comparison, measures the same on the directory itself.
//!
//! ```sh
//! cargo run --release -p files-lnet --example gateway_rates -- /dev/shm /var/tmp   # files, and the log
//! ```

#![expect(clippy::unwrap_used, reason = "a program for developers")]

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use files::dir::{LocalDirectory, Options};
use files::{Caller, FileSystem, Place};
use files_lnet::files::{FileGateway, RemoteFiles, ReplyLog};
use lnet_node::{Node, NodeOptions};
use lnet_rpc::{Client, ClientOptions, Entropy, Server, ServerOptions};
use tempfile::TempDir;

const LENGTH: usize = 512 << 20;
const CALL: usize = 16 << 20;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().unwrap_or_else(|| "/tmp".to_owned());
    let (kept, state) = (next(), next());
    println!(
        "{:28} {:>9} {:>9} {:>9} {:>9}",
        "", "1 caller", "16", "write", "read"
    );
    let directory = TempDir::new_in(&kept).unwrap();
    let local = LocalDirectory::open(directory.path(), Options::default()).unwrap();
    measure("the directory", &local);
    for with_log in [false, true] {
        let name = if with_log {
            "gateway with a log"
        } else {
            "gateway"
        };
        gateway(name, &kept, with_log.then_some(&state));
    }
}

fn gateway(name: &str, kept: &str, state: Option<&String>) {
    let port = testkit::port();
    let (near, far) = (node(port, "127.0.0.1@tcp"), node(port, "127.0.0.2@tcp"));
    let directory = TempDir::new_in(kept).unwrap();
    let files = LocalDirectory::open(directory.path(), Options::default()).unwrap();
    let entropy = Entropy::from_system().unwrap();
    let mut gateway = FileGateway::new(files, &Entropy::new([1; 32]));
    let state = state.map(|state| TempDir::new_in(state).unwrap());
    let log = state.as_ref().map(|state| {
        let log = ReplyLog::open(state.path(), Path::new("/"), &entropy);
        Arc::new(log.unwrap())
    });
    if let Some(log) = &log {
        gateway = gateway.remember(Arc::clone(log)).unwrap();
    }
    let options = ServerOptions {
        workers: 16,
        ..ServerOptions::default()
    };
    let server = Server::start(far.clone(), gateway, &entropy, options).unwrap();
    let entropy = Entropy::from_system().unwrap();
    let to = "127.0.0.2@tcp".parse().unwrap();
    let client = Client::new(near.clone(), to, entropy, ClientOptions::default());
    measure(name, &RemoteFiles::new(client, Duration::from_secs(60)));
    if let Some(log) = &log {
        println!("  {:?}", log.counters());
    }
    server.shutdown(Duration::ZERO);
    near.shutdown(Duration::ZERO);
    far.shutdown(Duration::ZERO);
}

fn node(port: u16, nid: &str) -> Node {
    let yaml = format!("net:\n- net type: tcp\n  local NI(s):\n  - nid: {nid}\n");
    let config = lnet_config::parse(&yaml).unwrap();
    let options = NodeOptions {
        port,
        ..NodeOptions::default()
    };
    lnet_noded::start(&config, options).unwrap().into_node()
}

fn measure(name: &str, files: &dyn FileSystem) {
    let (one, many) = (names(files, 1), names(files, 16));
    let (write, read) = bytes(files);
    println!("{name:28} {one:>7.0}/s {many:>7.0}/s {write:>4.2} GB/s {read:>4.2} GB/s");
}

/// Returns operations a second: directories made and removed.
fn names(files: &dyn FileSystem, callers: usize) -> f64 {
    let caller = Caller::default();
    let (begun, each) = (Instant::now(), 2000 / callers);
    thread::scope(|scope| {
        for number in 0..callers {
            let caller = &caller;
            scope.spawn(move || {
                for round in 0..each {
                    let name = format!("d{number}-{round}");
                    let place = Place::from_root(name.as_bytes()).unwrap();
                    files.mkdir(caller, place.clone(), 0o755).unwrap();
                    files.remove(caller, place, Some(true)).unwrap();
                }
            });
        }
    });
    (2 * each * callers) as f64 / begun.elapsed().as_secs_f64()
}

/// Returns gigabytes a second, written and read.
fn bytes(files: &dyn FileSystem) -> (f64, f64) {
    let caller = Caller::default();
    let place = Place::from_root(b"long").unwrap();
    let file = files.create(&caller, place, 0o644, true).unwrap().0.handle;
    let mut buffer = testkit::pattern(CALL);
    let mut rates = [0.0; 2];
    // The first round faults the pages in.
    for _ in 0..3 {
        let begun = Instant::now();
        for offset in (0..LENGTH).step_by(CALL) {
            assert_eq!(files.write(&caller, file, offset as u64, &buffer), Ok(CALL));
        }
        rates[0] = LENGTH as f64 / begun.elapsed().as_secs_f64() / 1e9;
        let begun = Instant::now();
        for offset in (0..LENGTH).step_by(CALL) {
            assert_eq!(
                files.read(&caller, file, offset as u64, &mut buffer),
                Ok(CALL)
            );
        }
        rates[1] = LENGTH as f64 / begun.elapsed().as_secs_f64() / 1e9;
    }
    files
        .remove(&caller, Place::from_root(b"long").unwrap(), None)
        .unwrap();
    (rates[0], rates[1])
}
