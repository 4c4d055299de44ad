//! The requests that a mount sends for the operations of programs. Each costs a round trip to the server.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod locks;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use files::dir::LocalDirectory;
use files::mount::{Mounted, Options};
use files::{Caller, Data, Errno, FileSystem, Reply, Request};
use tempfile::TempDir;

/// Counts the requests by their names.
struct Counted {
    files: LocalDirectory,
    counts: Arc<Mutex<BTreeMap<&'static str, u32>>>,
}

impl FileSystem for Counted {
    fn call(&self, caller: &Caller, request: &Request, data: Data<'_>) -> Result<Reply, Errno> {
        *self
            .counts
            .lock()
            .unwrap()
            .entry(request.name())
            .or_default() += 1;
        self.files.call(caller, request, data)
    }
}

/// A directory `kept`, mounted at `seen`.
struct Bed {
    directory: TempDir,
    counts: Arc<Mutex<BTreeMap<&'static str, u32>>>,
    _mounted: Mounted,
}

impl Bed {
    /// Returns `None` where nothing can be mounted.
    fn new() -> Option<Self> {
        if !nix::unistd::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
            testkit::absent("mounts need root here, and /dev/fuse");
            return None;
        }
        let directory = TempDir::with_prefix("finerail-test-").unwrap();
        let [kept, seen] = ["kept", "seen"].map(|name| directory.path().join(name));
        fs::create_dir(&kept).unwrap();
        fs::create_dir(&seen).unwrap();
        let counts = Arc::default();
        let files = Counted {
            files: LocalDirectory::open(&kept, files::dir::Options::default()).unwrap(),
            counts: Arc::clone(&counts),
        };
        let mounted = Mounted::open(Arc::new(files), &seen, &Options::default()).unwrap();
        Some(Self {
            directory,
            counts,
            _mounted: mounted,
        })
    }

    fn seen(&self, name: &str) -> PathBuf {
        self.directory.path().join("seen").join(name)
    }

    /// Waits until the kernel has reported each close to the mount: while a file is open, the mount looks up names
    /// that are removed or replaced.
    fn wait_for_closes(&self) {
        testkit::eventually("no file is open", || {
            fs::write(self.directory.path().join("kept/probe"), "").unwrap();
            let removed = self.requests(|| fs::remove_file(self.seen("probe")).unwrap());
            removed == [("remove", 1)]
        });
    }

    /// Returns the requests that an operation causes, by name, without those that go on in the background. The kernel
    /// knows the attributes of the root and of the files there.
    fn requests(&self, operation: impl FnOnce()) -> Vec<(&'static str, u32)> {
        for entry in fs::read_dir(self.seen("")).unwrap() {
            entry.unwrap().metadata().unwrap();
        }
        self.counts.lock().unwrap().clear();
        operation();
        let counts = self.counts.lock().unwrap();
        let counts = counts.iter().map(|(name, count)| (*name, *count));
        counts.filter(|(name, _)| *name != "renew").collect()
    }
}

#[test]
fn attributes_that_no_server_serves_cost_no_request() {
    let Some(bed) = Bed::new() else { return };
    let path = bed.seen("a");
    fs::write(&path, "x").unwrap();
    for name in [
        "security.capability",
        "security.selinux",
        "trusted.t",
        "system.nfs4_acl",
    ] {
        let mut value = [0; 16];
        let asked = bed.requests(|| {
            let got = rustix::fs::getxattr(&path, name, &mut value[..]);
            assert_eq!(got, Err(rustix::io::Errno::OPNOTSUPP), "{name}");
        });
        assert_eq!(asked, [], "{name}");
    }
    let ask = || {
        let got = rustix::fs::getxattr(&path, "user.none", &mut [0; 16][..]);
        assert_eq!(got, Err(rustix::io::Errno::NODATA));
    };
    assert_eq!(bed.requests(ask), [], "the file has no attribute");
    rustix::fs::setxattr(&path, "user.some", b"1", rustix::fs::XattrFlags::empty()).unwrap();
    assert_eq!(bed.requests(ask), [("getxattr", 1)]);
}

#[test]
fn small_files_cost_these_requests() {
    let Some(bed) = Bed::new() else { return };
    let path = bed.seen("new");
    let written = bed.requests(|| fs::write(&path, [7; 4096]).unwrap());
    assert_eq!(written, [("create", 1), ("lookup", 1), ("write", 1)]);
    let read = bed.requests(|| assert_eq!(fs::read(&path).unwrap().len(), 4096));
    // What the mount holds stays if another client removes it.
    assert_eq!(read, [("hold", 1), ("read", 1)]);
    let file = fs::File::options().write(true).open(&path).unwrap();
    let overwritten = bed.requests(|| assert_eq!(file.write_at(b"again", 0).unwrap(), 5));
    assert_eq!(overwritten, [("write", 1)]);
    drop(file);
    let status = bed.requests(|| assert_eq!(fs::metadata(&path).unwrap().len(), 4096));
    assert_eq!(status, []);
    bed.wait_for_closes();
    let renamed = bed.requests(|| fs::rename(&path, bed.seen("renamed")).unwrap());
    assert_eq!(renamed, [("lookup", 1), ("rename", 1)]);
    let made = bed.requests(|| fs::create_dir(bed.seen("d")).unwrap());
    assert_eq!(made, [("lookup", 1), ("mkdir", 1)]);
}

#[test]
fn a_name_that_was_not_there_is_created_without_another_question() {
    let Some(bed) = Bed::new() else { return };
    let path = bed.seen("new");
    let missing = bed.requests(|| assert!(!path.exists()));
    assert_eq!(missing, [("lookup", 1)]);
    let again = bed.requests(|| assert!(!path.exists()));
    assert_eq!(again, []);
    let made = bed.requests(|| fs::write(&path, "x").unwrap());
    assert_eq!(made, [("create", 1), ("write", 1)]);
    bed.wait_for_closes();
    let removed = bed.requests(|| fs::remove_file(&path).unwrap());
    assert_eq!(removed, [("remove", 1)]);
    // Another client makes the name.
    fs::write(bed.directory.path().join("kept/new"), "y").unwrap();
    testkit::eventually("the name is looked up again", || path.exists());
    let missing = bed.seen("missing");
    assert!(!missing.exists());
    fs::write(bed.directory.path().join("kept/missing"), "y").unwrap();
    let exclusive = fs::File::options()
        .write(true)
        .create_new(true)
        .open(&missing);
    assert_eq!(
        exclusive.unwrap_err().kind(),
        std::io::ErrorKind::AlreadyExists
    );
}

/// The kernel reports a close to the server after `close` has returned.
#[test]
fn a_directory_is_empty_once_its_files_are_closed_and_removed() {
    let Some(bed) = Bed::new() else { return };
    let fill_and_remove = |directory: &Path| {
        fs::create_dir(directory).unwrap();
        fs::write(directory.join("f"), "x").unwrap();
        fs::remove_file(directory.join("f")).unwrap();
        fs::remove_dir(directory)
    };
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let directory = bed.seen(&format!("d{thread}"));
            scope.spawn(move || {
                for round in 0..200 {
                    fill_and_remove(&directory)
                        .unwrap_or_else(|error| panic!("round {round}: {error}"));
                }
            });
        }
    });
}

#[test]
fn a_directory_that_is_known_is_listed_with_one_request() {
    let Some(bed) = Bed::new() else { return };
    fs::create_dir(bed.seen("d")).unwrap();
    fs::write(bed.seen("d/f"), "x").unwrap();
    let listed = bed.requests(|| {
        let names = fs::read_dir(bed.seen("d")).unwrap();
        assert_eq!(names.count(), 1);
    });
    assert_eq!(listed, [("readdir", 1)]);
    bed.wait_for_closes();
    let removed = bed.requests(|| fs::remove_dir_all(bed.seen("d")).unwrap());
    assert_eq!(removed, [("readdir", 1), ("remove", 2)]);
}

#[test]
fn an_unchanged_file_is_not_read_again_and_a_change_by_another_client_is_seen() {
    let Some(bed) = Bed::new() else { return };
    let path = bed.seen("a");
    fs::write(&path, vec![1; 100_000]).unwrap();
    let read = || bed.requests(|| assert_eq!(fs::read(&path).unwrap().len(), 100_000));
    testkit::eventually("the content is kept", || read() == [("hold", 1)]);
    let kept = bed.directory.path().join("kept/a");
    for byte in 2..50 {
        fs::File::options()
            .write(true)
            .open(&kept)
            .unwrap()
            .write_all_at(&[byte; 10], 0)
            .unwrap();
        assert_eq!(fs::read(&path).unwrap()[..10], [byte; 10]);
        assert_eq!(fs::read(&path).unwrap()[..10], [byte; 10]);
    }
}

#[test]
fn what_fuser_does_not_know_is_refused() {
    use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
    let Some(bed) = Bed::new() else { return };
    let flags = OFlags::TMPFILE | OFlags::RDWR;
    let nameless = rustix::fs::open(bed.seen(""), flags, Mode::from_raw_mode(0o600));
    assert_eq!(nameless.unwrap_err(), rustix::io::Errno::OPNOTSUPP);
    let path = bed.seen("a");
    fs::write(&path, "x").unwrap();
    let file = fs::File::open(&path).unwrap();
    assert_eq!(
        rustix::fs::ioctl_getflags(&file),
        Err(rustix::io::Errno::NOTTY)
    );
    let all = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let status = rustix::fs::statx(&file, "", AtFlags::EMPTY_PATH, all).unwrap();
    assert_eq!(status.stx_mask & StatxFlags::BTIME.bits(), 0);
}

#[test]
fn a_long_listing_asks_no_file_for_its_attributes() {
    let Some(bed) = Bed::new() else { return };
    for number in 0..100 {
        fs::write(bed.seen(&number.to_string()), "x").unwrap();
    }
    let mut list = Command::new("ls");
    list.arg("-l").arg(bed.seen(""));
    let asked = bed.requests(|| assert!(list.output().unwrap().status.success()));
    let of_files: u32 = asked.iter().map(|(_, count)| count).sum();
    assert!(of_files <= 8, "{asked:?}");
}

#[test]
fn an_attribute_that_is_set_is_there_at_once_and_a_list_that_another_client_gave_soon() {
    let Some(bed) = Bed::new() else { return };
    let path = bed.seen("a");
    fs::write(&path, "x").unwrap();
    let value = |path: &Path, name: &str| {
        let mut value = [0; 64];
        rustix::fs::getxattr(path, name, &mut value[..]).map(|length| value[..length].to_vec())
    };
    assert_eq!(value(&path, "user.a"), Err(rustix::io::Errno::NODATA));
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(&path, "user.a", b"1", flags).unwrap();
    assert_eq!(value(&path, "user.a"), Ok(b"1".to_vec()));

    let other = bed.seen("other");
    fs::write(&other, "x").unwrap();
    assert_eq!(value(&other, "user.a"), Err(rustix::io::Errno::NODATA));
    let kept = bed.directory.path().join("kept/other");
    rustix::fs::setxattr(&kept, "user.a", b"2", flags).unwrap();
    testkit::eventually("the mount asks again", || value(&other, "user.a").is_ok());
}
