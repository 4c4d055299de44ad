//! File operations over real nodes: a client on the network sees the same results as the directory gives.

#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use std::time::Duration;

use files::dir::{LocalDirectory, Options};
use files::reftest::{compare, steps};
use files::{
    Caller, Errno, Export, FileSystem, Handle, OUTCOME_UNKNOWN, Place, Request, Segment,
    SetAttributes, XattrMode,
};
use files_lnet::files::{FileGateway, PIECE, RemoteFiles};
use lnet_node::Node;
use lnet_rpc::{Entropy, Server, ServerOptions};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tempfile::TempDir;

use common::{PATIENCE, quick_client, start};

/// Two clients on one node, and a gateway with its directory on another node.
struct Site {
    clients: [RemoteFiles; 2],
    server: Option<Server>,
    directory: TempDir,
    storage: Node,
    _near: Node,
}

impl Site {
    fn new() -> Self {
        let port = testkit::port();
        let near = start(port, &["127.0.0.1@tcp"], "");
        let storage = start(port, &["127.0.0.2@tcp"], "");
        let client = |seed| {
            let client = quick_client(&near, "127.0.0.2@tcp", seed);
            RemoteFiles::new(client, PATIENCE)
        };
        let mut site = Self {
            clients: [client(3), client(4)],
            server: None,
            directory: TempDir::new().unwrap(),
            storage,
            _near: near,
        };
        site.serve_anew(1);
        site
    }

    /// Serves an empty directory in a new life of the gateway. The clients stay, and learn of the new life.
    fn serve_anew(&mut self, life: u8) {
        self.directory = TempDir::new().unwrap();
        self.serve(life);
        for client in &self.clients {
            client.null(&Caller::default()).unwrap();
        }
    }

    fn serve(&mut self, life: u8) {
        self.server = None;
        let files = LocalDirectory::open(self.directory.path(), Options::default()).unwrap();
        let gateway = FileGateway::new(files, &Entropy::new([9; 32])).coherent(b"scratch");
        let entropy = Entropy::new([life; 32]);
        let server = Server::start(
            self.storage.clone(),
            gateway,
            &entropy,
            ServerOptions::default(),
        );
        self.server = Some(server.unwrap());
    }
}

fn at(path: &str) -> Place {
    Place::from_root(path.as_bytes()).unwrap()
}

#[test]
fn random_operations_over_the_network_give_what_the_model_gives() {
    let long = std::env::var("FINERAIL_LONG").is_ok_and(|value| value == "1");
    let mut site = Site::new();
    let mut runner = TestRunner::new(ProptestConfig {
        cases: if long { 2000 } else { 100 },
        source_file: Some(file!()),
        ..ProptestConfig::default()
    });
    let mut life = 1_u8;
    let cell = std::cell::RefCell::new((&mut site, &mut life));
    let result = runner.run(&steps(60, 2), |steps| {
        let (site, life) = &mut *cell.borrow_mut();
        **life = life.wrapping_add(1);
        site.serve_anew(**life);
        let clients: Vec<&dyn FileSystem> = site
            .clients
            .iter()
            .map(|client| client as &dyn FileSystem)
            .collect();
        compare(&clients, &Caller::default(), &steps)
            .map_err(|mismatch| TestCaseError::fail(mismatch.to_string()))
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_transfer_longer_than_a_piece_and_with_many_segments_arrives_whole() {
    let site = Site::new();
    let (files, caller) = (&site.clients[0], Caller::default());
    let file = files
        .create(&caller, at("f"), 0o644, true)
        .unwrap()
        .0
        .handle;
    let bytes = testkit::pattern(2 * PIECE as usize + 12_345);
    assert_eq!(files.write(&caller, file, 7, &bytes), Ok(bytes.len()));
    let mut back = vec![0; bytes.len() + 1000];
    assert_eq!(files.read(&caller, file, 7, &mut back), Ok(bytes.len()));
    assert!(back[..bytes.len()] == bytes);

    let segments: Vec<Segment> = (0..1000)
        .map(|number| Segment {
            offset: 7 + number * 5000,
            length: 10,
        })
        .collect();
    let mut memory = vec![0; 10_000];
    let mut list = [std::io::IoSliceMut::new(&mut memory)];
    let request = Request::Read {
        handle: file,
        segments,
    };
    let reply = files
        .call(&caller, &request, files::Data::Read(&mut list))
        .unwrap();
    assert_eq!(reply, files::Reply::Counts(vec![10; 1000]));
    for (number, piece) in memory.chunks(10).enumerate() {
        assert_eq!(piece, &bytes[number * 5000..][..10], "segment {number}");
    }
}

#[test]
fn few_bytes_ride_in_the_messages_of_a_call_and_more_come_whole() {
    let site = Site::new();
    let (files, caller) = (&site.clients[0], Caller::default());
    let create = || files.create(&caller, at("f"), 0o644, false).unwrap();
    let file = create().0.handle;
    let moved = || {
        let counters = site.server.as_ref().unwrap().counters();
        (counters.bulk_read, counters.bulk_written)
    };
    let before = moved();
    let bytes = testkit::pattern(8192);
    let mut back = vec![0; 8192];
    assert_eq!(files.write(&caller, file, 5, &bytes[..3000]), Ok(3000));
    assert_eq!(files.read(&caller, file, 5, &mut back), Ok(3000));
    assert!(back[..3000] == bytes[..3000]);
    assert_eq!(files.read(&caller, file, 9000, &mut back), Ok(0));
    assert_eq!(moved(), before);
    // Around the longest message, some lengths ride and some do not.
    for length in 3800..4100 {
        let place = length as u64 % 7;
        assert_eq!(
            files.write(&caller, file, place, &bytes[..length]),
            Ok(length)
        );
        back.fill(0);
        assert_eq!(
            files.read(&caller, file, place, &mut back[..length]),
            Ok(length)
        );
        assert!(back[..length] == bytes[..length], "{length}");
    }
    assert_ne!(moved().0, before.0);
    assert_ne!(moved().1, before.1);
}

#[test]
fn requests_and_replies_longer_than_a_message_arrive_whole() {
    let site = Site::new();
    let (files, caller) = (&site.clients[0], Caller::default());
    let deep = vec!["x".repeat(200); 15];
    for depth in 1..=deep.len() {
        files
            .mkdir(&caller, at(&deep[..depth].join("/")), 0o755)
            .unwrap();
    }
    let place = at(&deep.join("/"));
    let below = files.lookup(&caller, place).unwrap().handle;
    let target = vec![b'y'; 4095];
    let link = files
        .symlink(&caller, Place::of(below, b"link").unwrap(), &target)
        .unwrap();
    assert_eq!(files.readlink(&caller, link.handle), Ok(target));
    let value = vec![7; 3000];
    files
        .setxattr(&caller, below, b"user.long", &value, XattrMode::Any)
        .unwrap();
    assert_eq!(files.getxattr(&caller, below, b"user.long"), Ok(value));
    for number in 0..200 {
        let place = Place::of(below, format!("{number:0>200}").as_bytes()).unwrap();
        files.create(&caller, place, 0o600, true).unwrap();
    }
    let listing = files.readdir(&caller, below, 0, 1024, true).unwrap();
    assert_eq!((listing.entries.len(), listing.is_end), (203, true));
}

#[test]
fn after_a_restart_old_handles_are_stale_and_what_must_not_be_repeated_has_an_unknown_outcome() {
    let mut site = Site::new();
    let caller = Caller::default();
    let file = site.clients[0]
        .create(&caller, at("f"), 0o644, true)
        .unwrap()
        .0
        .handle;
    site.serve(2);
    let made = site.clients[0].mkdir(&caller, at("d"), 0o755);
    assert_eq!(made.unwrap_err(), OUTCOME_UNKNOWN);
    let files = &site.clients[0];
    assert_eq!(files.getattr(&caller, file), Err(Errno::ESTALE));
    assert!(files.lookup(&caller, at("f")).is_ok());
    assert!(files.getattr(&caller, Handle::ROOT).is_ok());
    let set = SetAttributes {
        size: Some(3),
        ..SetAttributes::default()
    };
    let file = files.lookup(&caller, at("f")).unwrap().handle;
    assert_eq!(files.setattr(&caller, file, set).unwrap().size, 3);
}

#[test]
fn a_gateway_says_which_file_system_it_shows_and_what_it_promises() {
    let site = Site::new();
    let export = site.clients[0].identify(&Caller::default()).unwrap();
    let expected = Export {
        coherent: b"scratch".to_vec(),
        boot: export.boot,
        ..Export::default()
    };
    assert_eq!(export, expected);
}

#[test]
fn a_call_to_a_gateway_that_is_away_ends() {
    let mut site = Site::new();
    site.server = None;
    let client = quick_client(&site._near, "127.0.0.2@tcp", 8);
    let files = RemoteFiles::new(client, Duration::from_secs(2));
    let caller = Caller::default();
    assert_eq!(files.getattr(&caller, Handle::ROOT), Err(Errno::ETIMEDOUT));
    let made = files.mkdir(&caller, at("d"), 0o755);
    assert_eq!(made.unwrap_err(), OUTCOME_UNKNOWN);
}
