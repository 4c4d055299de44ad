//! Locks of programs on two mounts of one file system.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;

use files::dir::LocalDirectory;
use files::mount::{Locking, Mounted, Options};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use tempfile::TempDir;

/// A directory with the file `f`, mounted twice.
struct Pair {
    directory: TempDir,
    _mounted: Vec<Mounted>,
}

impl Pair {
    /// Returns `None` where nothing can be mounted.
    fn new(locks: Locking) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
            testkit::absent("mounts need root here, and /dev/fuse");
            return None;
        }
        let directory = TempDir::with_prefix("finerail-test-").unwrap();
        let kept = directory.path().join("kept");
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("f"), "0").unwrap();
        let files = LocalDirectory::open(&kept, files::dir::Options::default()).unwrap();
        let files = Arc::new(files);
        let options = Options {
            locks,
            ..Options::default()
        };
        let mount = |name: &str| {
            let seen = directory.path().join(name);
            fs::create_dir(&seen).unwrap();
            Mounted::open(Arc::clone(&files) as _, &seen, &options).unwrap()
        };
        let mounted = vec![mount("a"), mount("b")];
        Some(Self {
            directory,
            _mounted: mounted,
        })
    }

    fn path(&self, mount: &str) -> PathBuf {
        self.directory.path().join(mount).join("f")
    }

    fn open(&self, mount: &str) -> File {
        let mut options = File::options();
        options
            .read(true)
            .write(true)
            .open(self.path(mount))
            .unwrap()
    }
}

/// Locks or unlocks one byte by `fcntl`.
fn byte(file: &File, at: i64, kind: i32, waits: bool) -> Result<(), Errno> {
    let lock = flock(at, kind);
    let command = match waits {
        true => FcntlArg::F_SETLKW(&lock),
        false => FcntlArg::F_SETLK(&lock),
    };
    fcntl(file, command).map(|_| ())
}

fn flock(at: i64, kind: i32) -> libc::flock {
    libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: at,
        l_len: 1,
        l_pid: 0,
    }
}

fn is_locked(file: &File) -> bool {
    let locked = file.try_lock();
    if let Err(error) = locked {
        assert!(matches!(error, TryLockError::WouldBlock), "{error}");
        return true;
    }
    file.unlock().unwrap();
    false
}

#[test]
fn locks_hold_between_two_mounts_until_they_are_released_or_the_file_is_closed() {
    let Some(pair) = Pair::new(Locking::Gateway) else {
        return;
    };
    let (a, b) = (pair.open("a"), pair.open("b"));
    a.lock().unwrap();
    assert!(is_locked(&b) && is_locked(&pair.open("a")));
    a.unlock().unwrap();
    assert!(!is_locked(&b));

    byte(&a, 3, libc::F_WRLCK, false).unwrap();
    assert_eq!(byte(&b, 3, libc::F_RDLCK, false), Err(Errno::EAGAIN));
    assert_eq!(byte(&b, 4, libc::F_WRLCK, false), Ok(()));
    let mut found = flock(3, libc::F_RDLCK);
    fcntl(&b, FcntlArg::F_GETLK(&mut found)).unwrap();
    assert_eq!((found.l_type, found.l_start), (libc::F_WRLCK as i16, 3));
    // Each close of the file by its process ends the locks.
    drop(pair.open("a"));
    assert_eq!(byte(&b, 3, libc::F_WRLCK, false), Ok(()));

    assert!(
        is_locked(&a),
        "as on NFS, a lock by flock is one of all bytes"
    );
    drop(b);
    testkit::eventually("the closed file is unlocked", || !is_locked(&a));
}

#[test]
fn a_counter_under_locks_of_two_mounts_loses_nothing() {
    let Some(pair) = Pair::new(Locking::Gateway) else {
        return;
    };
    thread::scope(|scope| {
        for mount in ["a", "b"] {
            let file = pair.open(mount);
            scope.spawn(move || {
                for _ in 0..100 {
                    file.lock().unwrap();
                    let mut text = [b' '; 10];
                    let length = file.read_at(&mut text, 0).unwrap();
                    let number: u32 = str::from_utf8(&text[..length])
                        .unwrap()
                        .trim()
                        .parse()
                        .unwrap();
                    file.write_all_at(format!("{:<10}", number + 1).as_bytes(), 0)
                        .unwrap();
                    file.unlock().unwrap();
                }
            });
        }
    });
    let text = fs::read_to_string(pair.directory.path().join("kept/f")).unwrap();
    assert_eq!(text.trim(), "200");
}

#[test]
fn two_mounts_that_wait_for_each_other_are_told_so() {
    let Some(pair) = Pair::new(Locking::Gateway) else {
        return;
    };
    let (a, b) = (pair.open("a"), pair.open("b"));
    byte(&a, 0, libc::F_WRLCK, false).unwrap();
    byte(&b, 1, libc::F_WRLCK, false).unwrap();
    let wait = |file: &File, at| {
        let waited = byte(file, at, libc::F_WRLCK, true);
        if waited.is_err() {
            // Let the other one have its lock.
            byte(file, 1 - at, libc::F_UNLCK, false).unwrap();
        }
        waited
    };
    let outcomes = thread::scope(|scope| {
        let first = scope.spawn(|| wait(&a, 1));
        let second = wait(&b, 0);
        [first.join().unwrap(), second]
    });
    let failed = outcomes
        .iter()
        .filter(|outcome| **outcome == Err(Errno::EDEADLK));
    assert_eq!(failed.count(), 1, "{outcomes:?}");
    assert!(outcomes.contains(&Ok(())), "{outcomes:?}");
}

#[test]
fn a_program_that_waits_for_a_lock_gets_it_in_its_turn_and_a_signal_ends_the_wait() {
    let Some(pair) = Pair::new(Locking::Gateway) else {
        return;
    };
    if !testkit::require("flock") {
        return;
    }
    let a = pair.open("a");
    a.lock().unwrap();
    let wait = || {
        let mut flock = Command::new("flock");
        flock.arg(pair.path("b")).arg("true").spawn().unwrap()
    };
    let (mut patient, mut killed) = (wait(), wait());
    let waits = |process: u32| {
        let path = format!("/proc/{process}/wchan");
        fs::read_to_string(path).is_ok_and(|at| at.contains("fuse") || at.contains("request_wait"))
    };
    for process in [patient.id(), killed.id()] {
        testkit::eventually("the program waits", || waits(process));
    }
    killed.kill().unwrap();
    assert!(!killed.wait().unwrap().success());
    assert!(patient.try_wait().unwrap().is_none());
    a.unlock().unwrap();
    assert!(patient.wait().unwrap().success());
    testkit::eventually("the programs have closed the file", || !is_locked(&a));
}

#[test]
fn locks_are_refused_or_local_where_configured() {
    let Some(pair) = Pair::new(Locking::Refuse) else {
        return;
    };
    let refused = pair.open("a").lock().unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::ENOLCK));
    let Some(pair) = Pair::new(Locking::Local) else {
        return;
    };
    let (a, b) = (pair.open("a"), pair.open("b"));
    a.lock().unwrap();
    assert!(!is_locked(&b) && is_locked(&pair.open("a")));
}
