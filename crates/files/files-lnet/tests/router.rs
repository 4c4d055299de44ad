//! A file through a router that dies in the middle: the bytes are right, no call blocks for ever, and no
//! operation is executed twice.

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use files::dir::{LocalDirectory, Options};
use files::{Caller, FileSystem, Place};
use files_lnet::files::{FileGateway, PIECE, RemoteFiles};
use lnet_node::Node;
use lnet_rpc::{Entropy, Server, ServerOptions};
use tempfile::TempDir;

use common::{PATIENCE, quick_client, start};

const TO_STORAGE: &str = "route:\n  - net: tcp1\n    gateway: 127.0.0.3@tcp\n";
const TO_CLIENT: &str = "route:\n  - net: tcp\n    gateway: 127.0.0.4@tcp1\n";
/// Bytes of one write or read, which takes several calls at once.
const CALL: usize = 2 * PIECE as usize + 77;
const CALLS: usize = 8;

fn router(port: u16) -> Node {
    let routing = "routing:\n  enable: 1\n";
    start(port, &["127.0.0.3@tcp", "127.0.0.4@tcp1"], routing)
}

/// Kills the router after every second call, and starts another router.
fn kill_routers(port: u16, mut node: Node, calls: &AtomicU64, ended: &AtomicBool) -> Node {
    let mut killed_at = 0;
    while !ended.load(Ordering::Acquire) {
        let now = calls.load(Ordering::Acquire);
        if now >= killed_at + 2 {
            killed_at = now;
            drop(node);
            node = router(port);
        }
        std::thread::yield_now();
    }
    node
}

#[test]
fn routers_that_die_cost_time_and_nothing_else() {
    let port = testkit::port();
    let near = start(port, &["127.0.0.2@tcp"], TO_STORAGE);
    let far = start(port, &["127.0.0.5@tcp1"], TO_CLIENT);
    let directory = TempDir::new().unwrap();
    let files = LocalDirectory::open(directory.path(), Options::default()).unwrap();
    let (entropy, options) = (Entropy::new([1; 32]), ServerOptions::default());
    let server = Server::start(far, FileGateway::new(files, &entropy), &entropy, options).unwrap();
    let client = quick_client(&near, "127.0.0.5@tcp1", 9);
    let files = RemoteFiles::new(client.clone(), PATIENCE);

    let caller = Caller::default();
    let at = |name: &str| Place::from_root(name.as_bytes()).unwrap();
    let bytes = testkit::pattern(CALL);
    let (calls, ended) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let node = router(port);
        let killer = scope.spawn(|| kill_routers(port, node, &calls, &ended));
        let created = files.create(&caller, at("long"), 0o644, true).unwrap();
        let file = created.0.handle;
        for call in 0..CALLS {
            let offset = (call * CALL) as u64;
            assert_eq!(files.write(&caller, file, offset, &bytes), Ok(CALL));
            // A second execution would give EEXIST.
            let name = format!("d{call}");
            files.mkdir(&caller, at(&name), 0o755).unwrap();
            calls.fetch_add(1, Ordering::Release);
        }
        let mut back = vec![0; CALL];
        for call in 0..CALLS {
            back.fill(0);
            let offset = (call * CALL) as u64;
            assert_eq!(files.read(&caller, file, offset, &mut back), Ok(CALL));
            assert!(back == bytes, "call {call}");
            calls.fetch_add(1, Ordering::Release);
        }
        ended.store(true, Ordering::Release);
        killer.join().unwrap();
    });
    assert_eq!(
        std::fs::read(directory.path().join("long")).unwrap(),
        bytes.repeat(CALLS)
    );
    let counters = client.counters();
    assert!(counters.retries > 0, "no router died while it mattered");
    assert!(server.counters().executed <= counters.calls);
}
