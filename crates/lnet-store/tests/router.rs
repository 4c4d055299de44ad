//! Files through a router that dies in the middle: a correct copy, never a hang or a wrong file.

#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use lnet_node::Node;
use lnet_rpc::{Entropy, Server, ServerOptions};
use lnet_store::digest::CHUNK;
use lnet_store::transfer::{GetItem, Progress, PutItem, get, put};
use lnet_store::{Service, ServiceOptions, Store};
use tempfile::TempDir;

use common::{PATIENCE, quick_client, start};

const TO_STORAGE: &str = "route:\n  - net: tcp1\n    gateway: 127.0.0.3@tcp\n";
const TO_CLIENT: &str = "route:\n  - net: tcp\n    gateway: 127.0.0.4@tcp1\n";
const SMALL: usize = 300;
const LARGE: usize = 24 * CHUNK as usize + 77;

fn router(port: u16) -> Node {
    start(
        port,
        &["127.0.0.3@tcp", "127.0.0.4@tcp1"],
        "routing:\n  enable: 1\n",
    )
}

/// Kills the router whenever the transfer has come this much further, and starts another one.
fn kill_routers(
    port: u16,
    mut node: Node,
    progress: &Progress,
    step: u64,
    ended: &AtomicBool,
) -> Node {
    let mut killed_at = 0;
    while !ended.load(Ordering::Acquire) {
        if progress.bytes() >= killed_at + step {
            killed_at = progress.bytes();
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
    let client = start(port, &["127.0.0.2@tcp"], TO_STORAGE);
    let storage = start(port, &["127.0.0.5@tcp1"], TO_CLIENT);
    let (served, local) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let entropy = Entropy::new([1; 32]);
    let service = Service::open(served.path(), entropy.clone(), ServiceOptions::default()).unwrap();
    let server = Server::start(storage, service, &entropy, ServerOptions::default()).unwrap();
    let store = Store::new(quick_client(&client, "127.0.0.5@tcp1", 9), PATIENCE);

    let content = |file: usize| -> Vec<u8> {
        let length = if file == SMALL { LARGE } else { file * 37 };
        (0..length)
            .map(|index| ((index + file) * 31 % 251) as u8)
            .collect()
    };
    let items: Vec<PutItem> = (0..=SMALL)
        .map(|file| {
            let local = local.path().join(file.to_string());
            fs::write(&local, content(file)).unwrap();
            PutItem {
                local,
                name: format!("d/{file}").parse().unwrap(),
            }
        })
        .collect();
    let back: Vec<GetItem> = items
        .iter()
        .map(|item| {
            let local = item.local.with_extension("back");
            GetItem {
                name: item.name.clone(),
                local,
                size: None,
            }
        })
        .collect();

    let node = router(port);
    let node = under_fire(port, node, |progress| {
        assert_none(put(&store, &items, 4, progress))
    });
    let _node = under_fire(port, node, |progress| {
        assert_none(get(&store, &back, 4, progress))
    });

    for (file, item) in back.iter().enumerate() {
        assert!(
            fs::read(&item.local).unwrap() == content(file),
            "file {file}"
        );
    }
    let retries = store.rpc().counters().retries;
    assert!(retries > 0, "no router died while it mattered");
    let executed = server.counters().executed;
    let calls = store.rpc().counters().calls;
    assert!(executed <= calls, "{executed} executions of {calls} calls");
}

fn assert_none(failed: Vec<lnet_store::transfer::Failed>) {
    assert!(failed.is_empty(), "{failed:?}");
}

/// Runs a transfer while routers die.
fn under_fire(port: u16, node: Node, transfer: impl FnOnce(&Progress)) -> Node {
    let progress = Progress::default();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let killer = scope.spawn(|| kill_routers(port, node, &progress, LARGE as u64 / 4, &ended));
        transfer(&progress);
        ended.store(true, Ordering::Release);
        killer.join().unwrap()
    })
}
