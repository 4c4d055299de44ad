//! The storage service over real nodes: files go in and come back, and nothing leads out of the
//! directory.

#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use lnet_node::Node;
use lnet_rpc::{Entropy, Server, ServerOptions};
use lnet_store::digest::{CHUNK, Digest};
use lnet_store::transfer::{Failed, GetItem, Progress, PutItem, get, put};
use lnet_store::{
    DirectoryError, Kind, Service, ServiceOptions, Store, StoreError, StoreName, Sync,
};
use tempfile::TempDir;

use common::{PATIENCE, quick_client, start};

/// A client node, a storage node, and a directory on either side.
struct Site {
    store: Store,
    server: Option<Server>,
    served: TempDir,
    local: TempDir,
    port: u16,
    storage: Option<Node>,
    _near: Node,
}

impl Site {
    fn new() -> Self {
        let port = testkit::port();
        let near = start(port, &["127.0.0.1@tcp"], "");
        let (served, local) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let store = Store::new(quick_client(&near, "127.0.0.2@tcp", 9), PATIENCE);
        let mut site = Self {
            store,
            server: None,
            served,
            local,
            port,
            storage: None,
            _near: near,
        };
        site.live(1);
        site
    }

    /// Starts the storage node and its service, in this life.
    fn live(&mut self, life: u8) {
        let node = start(self.port, &["127.0.0.2@tcp"], "");
        self.server = Some(serve(&node, self.served.path(), life));
        self.storage = Some(node);
    }

    fn die(&mut self) {
        self.server = None;
        self.storage = None;
    }

    fn local(&self, name: &str, content: &[u8]) -> std::path::PathBuf {
        let path = self.local.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn served_files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.served.path()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn serve(node: &Node, directory: &Path, life: u8) -> Server {
    let entropy = Entropy::new([life; 32]);
    let service = Service::open(directory, entropy.clone(), ServiceOptions::default()).unwrap();
    Server::start(node.clone(), service, &entropy, ServerOptions::default()).unwrap()
}

fn name(text: &str) -> StoreName {
    text.parse().unwrap()
}

fn data(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 31 % 251) as u8).collect()
}

fn errno<T: std::fmt::Debug>(result: Result<T, StoreError>) -> Option<i32> {
    result.unwrap_err().errno()
}

const ENOENT: i32 = 2;
const ELOOP: i32 = 40;
const ENOTDIR: i32 = 20;
const EBADMSG: i32 = 74;
const ESTALE: i32 = 116;

#[test]
fn files_of_every_size_come_back_as_they_went() {
    let site = Site::new();
    let (piece, chunk) = (1 << 20, CHUNK as usize);
    let sizes = [
        0,
        1,
        3900,
        3990,
        4096,
        piece - 1,
        piece,
        piece + 1,
        chunk - 1,
        chunk,
        chunk + 1,
        3 * chunk + 5,
    ];
    let files: Vec<_> = sizes
        .iter()
        .map(|&size| site.local(&format!("f{size}"), &data(size)))
        .collect();
    let items: Vec<PutItem> = sizes
        .iter()
        .zip(&files)
        .map(|(size, local)| PutItem {
            local: local.clone(),
            name: name(&format!("d/{size}")),
        })
        .collect();
    let progress = Progress::default();
    assert!(put(&site.store, &items, 4, &progress).is_empty());
    assert_eq!(progress.bytes(), sizes.iter().sum::<usize>() as u64);

    for known in [true, false] {
        let fetched: Vec<GetItem> = sizes
            .iter()
            .map(|&size| GetItem {
                name: name(&format!("d/{size}")),
                local: site.local.path().join(format!("back{size}")),
                size: known.then_some(size as u64),
            })
            .collect();
        assert!(get(&site.store, &fetched, 4, &Progress::default()).is_empty());
        for (item, size) in fetched.iter().zip(sizes) {
            assert!(fs::read(&item.local).unwrap() == data(size), "{size} bytes");
        }
    }
}

#[test]
fn permissions_travel_and_privileges_do_not() {
    let site = Site::new();
    let file = site.local("run.sh", b"#!/bin/sh\n");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o4755)).unwrap();
    let item = PutItem {
        local: file,
        name: name("run.sh"),
    };
    assert!(put(&site.store, &[item], 1, &Progress::default()).is_empty());
    assert_eq!(site.store.stat(&name("run.sh")).unwrap().mode, 0o755);
}

#[test]
fn a_file_replaces_the_one_before() {
    let site = Site::new();
    site.store
        .put(&name("a"), 0o644, Bytes::from(data(5000)))
        .unwrap();
    site.store
        .put(&name("a"), 0o644, Bytes::from_static(b"short"))
        .unwrap();
    assert_eq!(site.store.get(&name("a")).unwrap().data, b"short");
    assert_eq!(site.served_files(), ["a"]);
}

#[test]
fn entries_are_listed_in_order_page_after_page() {
    let site = Site::new();
    fs::create_dir(site.served.path().join("many")).unwrap();
    // Long names, so that they need several pages.
    let expected: Vec<String> = (0..3000)
        .map(|n| format!("{n:05}{}", "x".repeat(200)))
        .collect();
    for name in &expected {
        fs::write(site.served.path().join("many").join(name), b"").unwrap();
    }
    let many = name("many");
    let (first, has_more) = site.store.list_page(Some(&many), b"").unwrap();
    assert!(has_more && first.len() < expected.len());
    let found: Vec<String> = site
        .store
        .list(Some(&many))
        .map(|entry| String::from_utf8(entry.unwrap().name).unwrap())
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn the_pages_of_a_listing_show_one_reading_of_the_directory() {
    let site = Site::new();
    for n in 0..3000 {
        let name = format!("{n:05}{}", "x".repeat(200));
        fs::write(site.served.path().join(name), b"").unwrap();
    }
    let mut listing = site.store.list(None);
    let first = listing.next().unwrap().unwrap();
    fs::write(site.served.path().join("9_added"), b"").unwrap();
    let last = format!("02999{}", "x".repeat(200));
    fs::remove_file(site.served.path().join(last)).unwrap();
    let rest: Vec<_> = listing.map(|entry| entry.unwrap().name).collect();
    assert!(first.name.starts_with(b"00000"));
    assert_eq!(rest.len(), 2998, "without the one that was removed");
    assert!(
        rest[2997].starts_with(b"02998"),
        "and the one that was added"
    );
}

#[test]
fn the_root_lists_kinds_and_hides_temporary_files() {
    let site = Site::new();
    site.store
        .put(&name("sub/file"), 0o600, Bytes::new())
        .unwrap();
    site.store
        .put(&name("file"), 0o600, Bytes::from_static(b"12"))
        .unwrap();
    site.store.begin(&name("large"), 1, 0o600).unwrap();
    symlink("/etc", site.served.path().join("link")).unwrap();
    let found: Vec<_> = site
        .store
        .list(None)
        .map(|entry| {
            entry
                .map(|e| (String::from_utf8(e.name).unwrap(), e.attributes.kind))
                .unwrap()
        })
        .collect();
    let expected = [
        ("file", Kind::File),
        ("link", Kind::Other),
        ("sub", Kind::Directory),
    ];
    assert_eq!(found, expected.map(|(name, kind)| (name.to_owned(), kind)));
}

#[test]
fn remove_and_rename_do_what_they_say() {
    let site = Site::new();
    site.store
        .put(&name("a"), 0o600, Bytes::from_static(b"x"))
        .unwrap();
    site.store.rename(&name("a"), &name("d/b")).unwrap();
    assert_eq!(errno(site.store.stat(&name("a"))), Some(ENOENT));
    assert_eq!(site.store.get(&name("d/b")).unwrap().data, b"x");
    site.store.remove(&name("d/b")).unwrap();
    assert_eq!(errno(site.store.remove(&name("d/b"))), Some(ENOENT));
    site.store.remove(&name("d")).unwrap();
    assert!(site.served_files().is_empty());
}

#[test]
fn symbolic_links_lead_nowhere() {
    let site = Site::new();
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("secret"), b"secret").unwrap();
    symlink(outside.path(), site.served.path().join("out")).unwrap();
    symlink(
        outside.path().join("secret"),
        site.served.path().join("file"),
    )
    .unwrap();
    assert_eq!(errno(site.store.get(&name("file"))), Some(ELOOP));
    assert_eq!(errno(site.store.get(&name("out/secret"))), Some(ENOTDIR));
    assert_eq!(
        errno(site.store.list_page(Some(&name("out")), b"")),
        Some(ENOTDIR)
    );
    let stored = site
        .store
        .put(&name("out/new"), 0o600, Bytes::from_static(b"x"));
    assert_eq!(errno(stored), Some(ENOTDIR));
    assert_eq!(errno(site.store.remove(&name("out/secret"))), Some(ENOTDIR));
    site.store
        .put(&name("file"), 0o600, Bytes::from_static(b"mine"))
        .unwrap();
    assert_eq!(fs::read(outside.path().join("secret")).unwrap(), b"secret");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn a_name_that_the_client_does_not_check_is_refused_by_the_service() {
    let site = Site::new();
    for hostile in [
        "../x",
        "/etc/passwd",
        "a/../../x",
        ".finerail-0",
        "",
        "a\0b",
    ] {
        let body = [
            &(hostile.len() as u16).to_le_bytes()[..],
            hostile.as_bytes(),
        ]
        .concat();
        let request = lnet_rpc::Request {
            opcode: 8,
            body,
            bulk: lnet_rpc::Bulk::None,
            idempotence: lnet_rpc::Idempotence::Once,
            deadline: PATIENCE,
        };
        let refused = site.store.rpc().call(request);
        let is_refused = matches!(refused, Err(lnet_rpc::CallError::Remote { errno: 1, .. }));
        assert!(is_refused, "{hostile:?}: {refused:?}");
    }
}

#[test]
fn a_digest_that_does_not_agree_leaves_nothing_behind() {
    let site = Site::new();
    let size = CHUNK + 1;
    let upload = site.store.begin(&name("large"), size, 0o600).unwrap();
    site.store
        .write(&name("large"), upload, 0, Bytes::from(data(CHUNK as usize)))
        .unwrap();
    site.store
        .write(&name("large"), upload, 1, Bytes::from_static(b"x"))
        .unwrap();
    let wrong = site
        .store
        .commit(&name("large"), upload, Digest::of(b"something else"));
    assert_eq!(errno(wrong), Some(EBADMSG));
    assert!(site.served_files().is_empty());
}

#[test]
fn an_incomplete_file_gets_no_name() {
    let site = Site::new();
    let upload = site.store.begin(&name("large"), CHUNK + 1, 0o600).unwrap();
    site.store
        .write(&name("large"), upload, 1, Bytes::from_static(b"x"))
        .unwrap();
    assert!(
        site.store
            .commit(&name("large"), upload, Digest::of(b""))
            .is_err()
    );
    assert!(site.served_files().is_empty());
}

#[test]
fn a_file_replaced_between_two_chunks_is_noticed() {
    let site = Site::new();
    let file = site.local("large", &data(CHUNK as usize + 1));
    let item = PutItem {
        local: file,
        name: name("large"),
    };
    for _ in 0..2 {
        assert!(
            put(
                &site.store,
                std::slice::from_ref(&item),
                1,
                &Progress::default()
            )
            .is_empty()
        );
    }
    let first = site.store.get(&name("large")).unwrap();
    assert!(put(&site.store, &[item], 1, &Progress::default()).is_empty());
    let second = site
        .store
        .read(&name("large"), 1, first.attributes.version, 1);
    assert_eq!(errno(second), Some(ESTALE));
}

#[test]
fn a_client_that_goes_takes_its_unfinished_files_along() {
    let site = Site::new();
    site.store.begin(&name("large"), 10, 0o600).unwrap();
    assert_eq!(site.served_files().len(), 1);
    site.store.rpc().close(PATIENCE);
    assert!(site.served_files().is_empty());
}

#[test]
fn what_a_killed_service_left_is_removed_by_the_next() {
    let mut site = Site::new();
    site.die();
    let below = site.served.path().join("a/b");
    fs::create_dir_all(&below).unwrap();
    let left = below.join(".finerail-00000000000000000000000000000001");
    fs::write(&left, b"half").unwrap();
    site.live(2);
    assert!(!left.exists());
}

#[test]
fn a_directory_that_may_not_be_looked_into_does_not_keep_the_service_from_starting() {
    let mut site = Site::new();
    site.die();
    let closed = site.served.path().join("lost+found");
    fs::create_dir(&closed).unwrap();
    // Root may look into it all the same: for root this test shows nothing.
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    site.live(2);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn one_directory_has_one_service() {
    let site = Site::new();
    let entropy = Entropy::new([3; 32]);
    let second = Service::open(site.served.path(), entropy, ServiceOptions::default());
    assert!(matches!(second, Err(DirectoryError::Busy)));
}

#[test]
fn a_restart_in_the_middle_of_a_file_begins_it_again() {
    let mut site = Site::new();
    let upload = site.store.begin(&name("large"), CHUNK + 1, 0o600).unwrap();
    site.die();
    site.live(2);
    let stale = site
        .store
        .write(&name("large"), upload, 1, Bytes::from_static(b"x"));
    assert_eq!(errno(stale), Some(ESTALE));
    let file = site.local("large", &data(CHUNK as usize + 1));
    let item = PutItem {
        local: file,
        name: name("large"),
    };
    assert!(put(&site.store, &[item], 2, &Progress::default()).is_empty());
}

#[test]
fn a_file_that_is_written_to_while_it_is_stored_is_refused() {
    let site = Site::new();
    let local = site.local("log", &data(8 * CHUNK as usize));
    let item = PutItem {
        local: local.clone(),
        name: name("log"),
    };
    let is_over = AtomicBool::new(false);
    let failed = thread::scope(|scope| {
        scope.spawn(|| {
            let file = fs::OpenOptions::new().write(true).open(&local).unwrap();
            while !is_over.load(Ordering::Acquire) {
                file.write_all_at(b"x", 0).unwrap();
            }
        });
        let failed = put(&site.store, &[item], 1, &Progress::default());
        is_over.store(true, Ordering::Release);
        failed
    });
    let changed = |failed: &Failed| matches!(failed.error, StoreError::Changed(_));
    assert!(
        failed.iter().all(changed) && failed.len() == 1,
        "{failed:?}"
    );
    assert_eq!(site.served_files(), Vec::<String>::new());
}

#[test]
fn a_named_pipe_is_refused_without_waiting_for_its_writer() {
    let site = Site::new();
    let pipe = site.local.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let item = PutItem {
        local: pipe,
        name: name("pipe"),
    };
    let failed = put(&site.store, &[item], 1, &Progress::default());
    assert!(matches!(failed[0].error, StoreError::Local { .. }));
}

#[test]
fn what_a_killed_client_left_does_not_keep_a_file_from_being_fetched() {
    let site = Site::new();
    site.store
        .put(&name("a"), 0o600, Bytes::from_static(b"x"))
        .unwrap();
    let left = format!(".finerail-{}-0", std::process::id());
    site.local(&left, b"half");
    let local = site.local.path().join("a");
    let item = GetItem {
        name: name("a"),
        local: local.clone(),
        size: None,
    };
    assert!(get(&site.store, &[item], 1, &Progress::default()).is_empty());
    assert_eq!(fs::read(local).unwrap(), b"x");
}

/// Set where this program is the one whose system calls are looked at; its value is the directory to serve.
const TRACED: &str = "FINERAIL_TEST_TRACED";

/// What the test below looks at; nothing to do otherwise.
#[test]
fn traced_service() {
    let Ok(served) = std::env::var(TRACED) else {
        return;
    };
    let port = testkit::port();
    let near = start(port, &["127.0.0.1@tcp"], "");
    let far = start(port, &["127.0.0.2@tcp"], "");
    let entropy = Entropy::new([1; 32]);
    let options = ServiceOptions {
        sync: Sync::All,
        ..ServiceOptions::default()
    };
    let service = Service::open(Path::new(&served), entropy.clone(), options).unwrap();
    let _server = Server::start(far, service, &entropy, ServerOptions::default()).unwrap();
    let store = Store::new(quick_client(&near, "127.0.0.2@tcp", 9), PATIENCE);
    let (made, moved) = (name("a/b/c"), name("d/e"));
    store.put(&made, 0o600, Bytes::from_static(b"x")).unwrap();
    store.rename(&made, &moved).unwrap();
    store.remove(&moved).unwrap();
}

#[test]
fn with_sync_a_file_is_flushed_before_it_has_its_name_and_the_directories_after() {
    if !testkit::require("strace") {
        return;
    }
    let served = TempDir::new().unwrap();
    let trace = served.path().with_extension("trace");
    let calls = "trace=fsync,renameat,renameat2,unlinkat";
    let ran = std::process::Command::new("strace")
        .args(["-f", "-qq", "-y", "-e", calls, "-o"])
        .arg(&trace)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "traced_service"])
        .env(TRACED, served.path())
        .output()
        .unwrap();
    let traced = fs::read_to_string(&trace).unwrap();
    fs::remove_file(&trace).unwrap();
    assert!(ran.status.success(), "{ran:?}\n{traced}");
    // Each call as its name and the last part of the path that it is made on.
    let calls: Vec<(&str, &str)> = traced.lines().filter_map(call).collect();
    let root = served.path().file_name().unwrap().to_str().unwrap();
    let expected = [
        ("fsync", ".finerail"),
        ("renameat", "b"),
        ("fsync", root),
        ("fsync", "a"),
        ("fsync", "b"),
        // The rename: the way to the new name, then to the old one.
        ("renameat", "b"),
        ("fsync", root),
        ("fsync", "d"),
        ("fsync", root),
        ("fsync", "a"),
        ("fsync", "b"),
        ("unlinkat", "d"),
        ("fsync", root),
        ("fsync", "d"),
    ];
    assert_eq!(calls, expected, "{traced}");
}

/// `1234 fsync(5</tmp/served/a>) = 0` as `("fsync", "a")`; `None` for what ends a call that was cut in two.
fn call(line: &str) -> Option<(&str, &str)> {
    let (name, arguments) = line.split_once(' ')?.1.trim_start().split_once('(')?;
    let (_, path) = arguments.split_once('<')?;
    let last = path.split_once('>')?.0.rsplit('/').next()?;
    let temporary = last.starts_with(".finerail");
    let known = ["fsync", "renameat", "renameat2", "unlinkat"].contains(&name);
    let name = if name == "renameat2" {
        "renameat"
    } else {
        name
    };
    known.then_some((name, if temporary { ".finerail" } else { last }))
}

#[test]
fn without_a_service_every_file_fails_and_the_end_comes() {
    let mut site = Site::new();
    site.die();
    let files: Vec<PutItem> = (0..20)
        .map(|n| PutItem {
            local: site.local(&format!("{n}"), b"x"),
            name: name(&format!("{n}")),
        })
        .collect();
    let impatient = Store::new(site.store.rpc().clone(), Duration::from_millis(300));
    let failed = put(&impatient, &files, 4, &Progress::default());
    assert!(!failed.is_empty() && failed.iter().all(|failed| failed.error.is_fatal()));
}
