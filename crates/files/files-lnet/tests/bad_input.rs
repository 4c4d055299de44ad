//! Bad input and failures of a file server, each with its error, over real nodes with a router between them.

#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::PathBuf;
use std::process::Command;

use files::dir::{Identity, LocalDirectory, Options, Squash};
use files::wire::{VERSION, decode_reply, encode_request};
use files::{
    AllocateMode, Caller, Data, Errno, FileSystem, Handle, Node as Special, Place, RenameMode,
    Reply, Request, SeekTarget, Segment, SetAttributes, XattrMode,
};
use files_lnet::files::{FileGateway, RemoteFiles};
use lnet_node::Node;
use lnet_rpc::{Bulk, Client, Entropy, Idempotence, Server, ServerOptions};
use tempfile::TempDir;

use common::{PATIENCE, quick_client, start};

const TO_STORAGE: &str = "route:\n  - net: tcp1\n    gateway: 127.0.0.3@tcp\n";
const TO_CLIENT: &str = "route:\n  - net: tcp\n    gateway: 127.0.0.4@tcp1\n";
const GATEWAY: &str = "127.0.0.5@tcp1";

/// A gateway behind a router, and a client of the gateway.
struct Site {
    files: RemoteFiles,
    raw: Client,
    directory: TempDir,
    _server: Server,
    _nodes: [Node; 3],
}

impl Site {
    fn new(options: Options) -> Self {
        Self::of(TempDir::new().unwrap(), options)
    }

    fn of(directory: TempDir, options: Options) -> Self {
        let port = testkit::port();
        let near = start(port, &["127.0.0.2@tcp"], TO_STORAGE);
        let router = ["127.0.0.3@tcp", "127.0.0.4@tcp1"];
        let router = start(port, &router, "routing:\n  enable: 1\n");
        let far = start(port, &[GATEWAY], TO_CLIENT);
        let files = LocalDirectory::open(directory.path(), options).unwrap();
        let gateway = FileGateway::new(files, &Entropy::new([1; 32]));
        let entropy = Entropy::new([1; 32]);
        let server = Server::start(far.clone(), gateway, &entropy, ServerOptions::default());
        let client = quick_client(&near, GATEWAY, 2);
        Self {
            files: RemoteFiles::new(client.clone(), PATIENCE),
            raw: client,
            directory,
            _server: server.unwrap(),
            _nodes: [near, router, far],
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn file(&self, name: &str) -> Handle {
        let created = self.files.create(&root(), at(name), 0o644, false);
        created.unwrap().0.handle
    }

    /// Returns the gateway's answer to a message that no client of Finerail would send.
    fn answer(&self, body: Vec<u8>) -> Errno {
        let request = lnet_rpc::Request {
            // The opcode of a request that is in the body.
            opcode: 256,
            body,
            bulk: Bulk::None,
            idempotence: Idempotence::Idempotent,
            deadline: PATIENCE,
        };
        let response = self.raw.call(request).unwrap();
        decode_reply(&response.body).unwrap().unwrap_err()
    }
}

fn root() -> Caller {
    Caller::default()
}

fn user() -> Caller {
    Caller {
        uid: 1000,
        gid: 1000,
        groups: Vec::new(),
    }
}

fn at(path: &str) -> Place {
    Place::from_root(path.as_bytes()).unwrap()
}

fn as_callers() -> Options {
    Options {
        identity: Identity::Caller {
            squash: Squash::None,
            uid: 65534,
            gid: 65534,
        },
        ..Options::default()
    }
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Returns a message with another path in it, as only a hostile client makes it.
fn with_path(path: &[u8]) -> Vec<u8> {
    let place = at("PATH");
    let good = encode_request(&root(), &Request::Lookup { place });
    let behind = good
        .windows(8)
        .position(|bytes| bytes == b"\x04\0\0\0PATH")
        .unwrap();
    let length = (path.len() as u32).to_le_bytes();
    [&good[..behind], &length, path, &good[behind + 8..]].concat()
}

#[test]
fn names_that_nobody_may_use_have_their_errors() {
    let site = Site::new(Options::default());
    let long = [b'x'; 256];
    assert_eq!(site.answer(with_path(&long)), Errno::ENAMETOOLONG);
    let deep = b"d/".repeat(1500);
    assert_eq!(site.answer(with_path(&deep[..2999])), Errno::ENOENT);
    for bad in [&b"a//b"[..], b"/a", b"a/", b".", b"a/../b", b"a\0b"] {
        assert_eq!(site.answer(with_path(bad)), Errno::EINVAL, "{bad:?}");
    }
    assert_eq!(site.answer(with_path(b"")), Errno::ENOENT);
    assert_eq!(site.answer(vec![9; 40]), Errno::EPROTONOSUPPORT);
    assert_eq!(site.answer(vec![VERSION, 200, 0]), Errno::EPROTO);
    let longest = "y".repeat(255);
    site.files.mkdir(&root(), at(&longest), 0o755).unwrap();
    site.files.lookup(&root(), at(&longest)).unwrap();
}

#[test]
fn offsets_beyond_the_limits_have_their_errors() {
    let site = Site::new(Options::default());
    let (files, caller, file) = (&site.files, root(), site.file("f"));
    let end = i64::MAX as u64;
    assert_eq!(files.write(&caller, file, end, b"x"), Err(Errno::EFBIG));
    assert_eq!(
        files.write(&caller, file, u64::MAX, b"x"),
        Err(Errno::EFBIG)
    );
    assert_eq!(
        files.read(&caller, file, u64::MAX, &mut [0; 2]),
        Err(Errno::EINVAL)
    );
    assert_eq!(files.read(&caller, file, end - 2, &mut [0; 2]), Ok(0));
    let data = SeekTarget::Data;
    assert_eq!(files.seek(&caller, file, u64::MAX, data), Err(Errno::ENXIO));
    assert_eq!(files.seek(&caller, file, 5, data), Err(Errno::ENXIO));
    let size = Some(end + 1);
    let set = SetAttributes {
        size,
        ..SetAttributes::default()
    };
    assert_eq!(files.setattr(&caller, file, set), Err(Errno::EFBIG));
    let segment = Segment {
        offset: end,
        length: 1,
    };
    let allocated = files.allocate(&caller, file, AllocateMode::Extend, segment);
    assert_eq!(allocated, Err(Errno::EFBIG));
    let value = vec![0; 65_537];
    let set = files.setxattr(&caller, file, b"user.a", &value, XattrMode::Any);
    assert_eq!(set, Err(Errno::E2BIG));
    assert_eq!(files.getattr(&caller, file).unwrap().size, 0);
}

#[test]
fn what_is_no_file_or_no_directory_is_refused_as_such() {
    let site = Site::new(Options::default());
    let (files, caller, file) = (&site.files, root(), site.file("f"));
    let directory = files.mkdir(&caller, at("d"), 0o755).unwrap().handle;
    let fifo = files
        .mknod(&caller, at("p"), Special::Fifo, 0o644)
        .unwrap()
        .handle;
    assert_eq!(
        files.read(&caller, directory, 0, &mut [0; 9]),
        Err(Errno::EISDIR)
    );
    assert_eq!(files.write(&caller, directory, 0, b"x"), Err(Errno::EISDIR));
    assert_eq!(
        files.read(&caller, fifo, 0, &mut [0; 9]),
        Err(Errno::EINVAL)
    );
    assert_eq!(
        files.lookup(&caller, at("f/x")).unwrap_err(),
        Errno::ENOTDIR
    );
    assert_eq!(
        files.remove(&caller, at("d"), Some(false)),
        Err(Errno::EISDIR)
    );
    assert_eq!(
        files.remove(&caller, at("f"), Some(true)),
        Err(Errno::ENOTDIR)
    );
    assert_eq!(
        files.readdir(&caller, file, 0, 10, false),
        Err(Errno::ENOTDIR)
    );
    assert_eq!(files.getattr(&caller, Handle([7; 32])), Err(Errno::ESTALE));
}

#[test]
fn a_read_only_gateway_refuses_every_change() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("f"), "kept").unwrap();
    let options = Options {
        read_only: true,
        ..Options::default()
    };
    let site = Site::of(directory, options);
    let (files, caller) = (&site.files, root());
    let file = files.lookup(&caller, at("f")).unwrap().handle;
    let changes = [
        files.write(&caller, file, 0, b"x").map(drop),
        files.append(&caller, file, b"x").map(drop),
        files.create(&caller, at("n"), 0o644, false).map(drop),
        files.mkdir(&caller, at("n"), 0o755).map(drop),
        files.symlink(&caller, at("n"), b"t").map(drop),
        files
            .mknod(&caller, at("n"), Special::Fifo, 0o644)
            .map(drop),
        files.link(&caller, file, at("n")).map(drop),
        files.remove(&caller, at("f"), None),
        files.rename(&caller, at("f"), at("n"), RenameMode::Replace),
        files
            .setattr(&caller, file, SetAttributes::default())
            .map(drop),
        files.setxattr(&caller, file, b"user.a", b"1", XattrMode::Any),
        files.removexattr(&caller, file, b"user.a"),
    ];
    assert_eq!(changes, [Err(Errno::EROFS); 12]);
    let mut bytes = [0; 9];
    assert_eq!(files.read(&caller, file, 0, &mut bytes), Ok(4));
}

#[test]
fn permissions_are_those_of_the_caller() {
    if !is_root() {
        return testkit::absent("a gateway acts as its callers where root starts it");
    }
    let site = Site::new(as_callers());
    let (files, user) = (&site.files, user());
    fs::set_permissions(site.directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(site.path("secret"), "s").unwrap();
    fs::set_permissions(site.path("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    let secret = files.lookup(&user, at("secret")).unwrap().handle;
    assert_eq!(
        files.read(&user, secret, 0, &mut [0; 9]),
        Err(Errno::EACCES)
    );
    assert_eq!(files.write(&user, secret, 0, b"x"), Err(Errno::EACCES));
    assert_eq!(
        files.mkdir(&user, at("d"), 0o755).unwrap_err(),
        Errno::EACCES
    );
    assert_eq!(files.remove(&user, at("secret"), None), Err(Errno::EACCES));
    let mode = SetAttributes {
        mode: Some(0o777),
        ..SetAttributes::default()
    };
    assert_eq!(files.setattr(&user, secret, mode), Err(Errno::EPERM));
    assert_eq!(files.read(&root(), secret, 0, &mut [0; 9]), Ok(1));
}

#[test]
fn a_directory_replaced_by_a_link_leads_nowhere_else() {
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("secret"), "s").unwrap();
    for descriptors_max in [4096, 1] {
        let options = Options {
            descriptors_max,
            ..Options::default()
        };
        let site = Site::new(options);
        let (files, caller) = (&site.files, root());
        let directory = files.mkdir(&caller, at("d"), 0o755).unwrap().handle;
        files.create(&caller, at("d/secret"), 0o644, true).unwrap();
        files.create(&caller, at("other"), 0o644, true).unwrap();
        fs::rename(site.path("d"), site.path("moved")).unwrap();
        symlink(outside.path(), site.path("d")).unwrap();
        let place = |name: &[u8]| Place::of(directory, name).unwrap();
        let made = files.create(&caller, place(b"new"), 0o644, true);
        // Allowed: the directory itself, if it is still open, or an error. Not allowed: the place that the name
        // leads to now.
        assert!(
            matches!(
                made,
                Ok(_) | Err(Errno::ESTALE | Errno::ELOOP | Errno::ENOTDIR)
            ),
            "{made:?}"
        );
        assert_eq!(made.is_ok(), site.path("moved/new").exists());
        let through = files.lookup(&caller, at("d/secret"));
        assert_eq!(through.unwrap_err(), Errno::ELOOP);
        assert_eq!(
            files.remove(&caller, at("d/secret"), None),
            Err(Errno::ELOOP)
        );
        let there: Vec<_> = fs::read_dir(outside.path()).unwrap().collect();
        assert_eq!(there.len(), 1);
    }
}

/// Makes a directory that is a small file system of its own. Threads that are started from now on see it.
fn tmpfs(options: &str) -> Option<TempDir> {
    if !is_root() {
        testkit::absent("mount namespaces of threads need root");
        return None;
    }
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).unwrap();
    let directory = TempDir::new().unwrap();
    let run = |words: &[&str]| {
        let output = Command::new("mount").args(words).output().unwrap();
        output.status.success()
    };
    assert!(run(&["--make-rprivate", "/"]));
    let path = directory.path().to_str().unwrap();
    if run(&["-t", "tmpfs", "-o", options, "none", path]) {
        return Some(directory);
    }
    // No package adds to a kernel what the kernel was built without.
    eprintln!("skipped: this kernel mounts no tmpfs with {options}");
    None
}

fn fill(files: &RemoteFiles, caller: &Caller, full: Errno) {
    let file = files.create(caller, at("f"), 0o644, true).unwrap().0.handle;
    let bytes = vec![7; 3 << 20];
    match files.write(caller, file, 0, &bytes) {
        Ok(written) => assert!(written < bytes.len()),
        Err(errno) => assert_eq!(errno, full),
    }
    let tail = files.write(caller, file, 3 << 20, &[7; 4096]);
    assert_eq!(tail, Err(full));
    assert_eq!(files.append(caller, file, &[7; 8192]).unwrap_err(), full);
    files.remove(caller, at("f"), None).unwrap();
    let file = files.create(caller, at("g"), 0o644, true).unwrap().0.handle;
    assert_eq!(files.write(caller, file, 0, &bytes[..1 << 19]), Ok(1 << 19));
}

#[test]
fn a_full_disk_is_said_and_room_is_used_again() {
    let Some(directory) = tmpfs("size=1m") else {
        return;
    };
    let site = Site::of(directory, Options::default());
    fill(&site.files, &root(), Errno::ENOSPC);
}

#[test]
fn a_quota_is_said_and_room_is_used_again() {
    let Some(directory) = tmpfs("size=64m,usrquota,usrquota_block_hardlimit=1m") else {
        return;
    };
    chown(directory.path(), Some(1000), Some(1000)).unwrap();
    files::dir::obey_quotas().unwrap();
    let site = Site::of(directory, as_callers());
    fill(&site.files, &user(), Errno::EDQUOT);
}

#[test]
fn a_directory_removed_under_the_gateway_is_stale() {
    let site = Site::new(Options::default());
    let (files, caller) = (&site.files, root());
    let directory = files.mkdir(&caller, at("d"), 0o755).unwrap().handle;
    fs::remove_dir(site.path("d")).unwrap();
    let place = Place::of(directory, b"x").unwrap();
    let made = files.create(&caller, place, 0o644, true).unwrap_err();
    assert!(matches!(made, Errno::ENOENT | Errno::ESTALE), "{made}");
}

#[test]
fn a_handle_that_the_gateway_did_not_make_names_nothing() {
    let site = Site::new(Options::default());
    let (files, caller) = (&site.files, root());
    let good = files
        .create(&caller, at("secret"), 0o600, true)
        .unwrap()
        .0
        .handle;
    assert!(files.getattr(&caller, good).is_ok());
    for byte in 0..good.0.len() {
        let mut forged = good;
        forged.0[byte] ^= 1;
        let answer = files.getattr(&caller, forged);
        assert_eq!(answer.err(), Some(Errno::ESTALE), "byte {byte}");
    }
    // What a client could guess: the bytes of the file system, whose slots are numbered from 0, without the check.
    let mut guessed = good;
    guessed.0[20..].fill(0);
    for slot in 0..100_u32 {
        guessed.0[12..16].copy_from_slice(&slot.to_le_bytes());
        let answer = files.getattr(&caller, guessed);
        assert_eq!(answer.err(), Some(Errno::ESTALE), "slot {slot}");
    }
}

#[test]
fn a_handle_that_the_gateway_did_not_make_spoils_no_renewal() {
    let few = Options {
        descriptors_max: 2,
        ..Options::default()
    };
    let site = Site::new(few);
    let (files, caller) = (&site.files, root());
    let made = ["held", "lost"].map(|name| {
        let created = files.create(&caller, at(name), 0o600, true);
        created.unwrap().0.handle
    });
    let mut forged = made[0];
    forged.0[31] ^= 1;
    let renew = Request::Renew {
        holder: 7,
        held: vec![forged, made[0]],
        released: vec![forged],
    };
    let renewed = files.call(&caller, &renew, Data::None);
    assert_eq!(renewed, Ok(Reply::Done));
    // The gateway keeps few descriptors of files that nobody holds.
    for name in ["a", "b", "c"] {
        files.create(&caller, at(name), 0o600, true).unwrap();
    }
    for name in ["held", "lost"] {
        fs::remove_file(site.path(name)).unwrap();
    }
    let left = made.map(|handle| files.getattr(&caller, handle).err());
    assert_eq!(left, [None, Some(Errno::ESTALE)]);
}
