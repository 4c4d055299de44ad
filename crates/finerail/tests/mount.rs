//! Files behind a mount, used by ordinary programs: through the kernel and the real binary.
//!
//! Each test has its own mounts, in the mount namespace of its thread: they disappear when the test dies.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::thread;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, FallocateFlags, RenameFlags, fallocate, renameat2};
use nix::sys::signal::Signal;
use nix::unistd::{Whence, lseek};

use common::lab::{Lab, done, script};
use common::process::{Process, run, trace};
use common::{eventually, finerail, pattern, scaled};

/// Runs a program in Python, for calls that the standard library of Rust does not have. Returns false without Python.
#[track_caller]
fn python(directory: &Path, text: &str) -> bool {
    if !testkit::require("python3") {
        return false;
    }
    let mut command = Command::new("python3");
    command.args(["-c", text]).current_dir(directory);
    run(command).expect_code(0);
    true
}

#[test]
fn a_tree_goes_in_by_tar_and_compares_equal() {
    let Some(lab) = Lab::new("rw") else { return };
    let from = lab.directory.path().join("from");
    let content = pattern(70_000);
    for number in 0..10_000 {
        let directory = from.join(format!("{}/{}", number % 7, number % 31));
        fs::create_dir_all(&directory).unwrap();
        let length = (number * 97) % content.len();
        fs::write(directory.join(number.to_string()), &content[..length]).unwrap();
    }
    symlink("0/0", from.join("link")).unwrap();
    fs::create_dir(from.join("empty")).unwrap();
    let here = lab.directory.path();
    script(here, "tar -C from -cf - . | tar -C seen -xf -");
    script(here, "diff -r --no-dereference from seen");
    script(here, "diff -r --no-dereference from kept");
    script(here, "rm -r seen/*");
    assert_eq!(fs::read_dir(lab.kept("")).unwrap().count(), 0);
}

#[test]
fn short_pieces_are_at_the_server_when_write_returns() {
    let Some(lab) = Lab::new("rw") else { return };
    let bytes = pattern(3_000_001);
    let mut file = File::create(lab.seen("a")).unwrap();
    for (number, piece) in bytes.chunks(65_535).enumerate() {
        file.write_all(piece).unwrap();
        let length = (number * 65_535 + piece.len()) as u64;
        assert_eq!(fs::metadata(lab.kept("a")).unwrap().len(), length);
    }
    assert_eq!(fs::read(lab.kept("a")).unwrap(), bytes);
    file.sync_all().unwrap();
    file.set_len(5).unwrap();
    assert_eq!(fs::read(lab.kept("a")).unwrap(), bytes[..5]);
}

#[test]
fn close_umount_and_syncfs_leave_the_server_s_disk_alone_and_fsync_does_not() {
    let Some(mut lab) = Lab::new("rw") else {
        return;
    };
    let calls = lab.directory.path().join("calls");
    let process = lab.service.as_ref().unwrap().id();
    let Some(strace) = trace(process, "fsync,fdatasync,syncfs", &calls) else {
        return;
    };
    fs::write(lab.seen("a"), pattern(10_000)).unwrap();
    script(&lab.seen(""), "sync -f a");
    assert_eq!(fs::read_to_string(&calls).unwrap(), "");
    File::open(lab.seen("a")).unwrap().sync_all().unwrap();
    let synced = fs::read_to_string(&calls).unwrap();
    assert!(synced.contains("sync("), "{synced}");
    fs::write(lab.seen("b"), pattern(10_000)).unwrap();
    done("umount", &[lab.seen("").to_str().unwrap()]);
    lab.service.take().unwrap().wait();
    strace.wait();
    let at_the_end = fs::read_to_string(&calls).unwrap();
    let count = |text: &str| text.matches("sync(").count();
    assert_eq!(count(&at_the_end), count(&synced), "{at_the_end}");
}

#[test]
fn a_client_that_is_killed_loses_what_maps_held_and_nothing_that_was_written() {
    let Some(mut lab) = Lab::new("rw") else {
        return;
    };
    if !testkit::require("python3") {
        return;
    }
    let bytes = pattern(100_000);
    fs::write(lab.seen("a"), &bytes).unwrap();
    let mut map = Command::new("python3");
    let text = "import mmap, sys\n\
                f = open('a', 'r+b'); m = mmap.mmap(f.fileno(), 0); m[0:4] = b'MAPS'\n\
                print('mapped', flush=True); sys.stdin.read()";
    map.args(["-c", text]).current_dir(lab.seen(""));
    map.stdin(std::process::Stdio::piped());
    let map = Process::start(map);
    map.wait_for_output("mapped");
    lab.service.take().unwrap().kill();
    let kept = fs::read(lab.kept("a")).unwrap();
    assert!(kept[4..] == bytes[4..]);
    assert!([b"MAPS", &bytes[..4]].contains(&&kept[..4]));
}

/// Asks for each kind of lock on a file, and prints the errors or `held`.
const LOCKS: &str = r"
import fcntl, os, sys, errno
f = os.open(sys.argv[1], os.O_RDWR)
def attempt(call):
    try: call(); print('held')
    except OSError as e: print(errno.errorcode[e.errno])
attempt(lambda: fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB))
attempt(lambda: fcntl.flock(f, fcntl.LOCK_SH))
attempt(lambda: fcntl.flock(f, fcntl.LOCK_UN))
attempt(lambda: fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB))
attempt(lambda: fcntl.lockf(f, fcntl.LOCK_EX))
attempt(lambda: fcntl.lockf(f, fcntl.LOCK_UN))
";

fn locks(file: &Path) -> Vec<String> {
    let mut python = Command::new("python3");
    python.args(["-c", LOCKS]).arg(file);
    let out = run(python).expect_code(0).out;
    out.lines().map(str::to_owned).collect()
}

#[test]
fn locks_hold_for_all_clients_for_those_of_a_mount_or_for_nobody() {
    let Some(lab) = Lab::new("rw") else { return };
    if !testkit::require("python3") {
        return;
    }
    for name in ["local", "refused"] {
        fs::create_dir(lab.directory.path().join(name)).unwrap();
    }
    let _others = [
        lab.mount("local", "locks=local"),
        lab.mount("refused", "locks=refuse"),
    ];
    fs::write(lab.seen("a"), "1").unwrap();
    assert_eq!(locks(&lab.seen("a")), ["held"; 6]);
    let no = "ENOLCK";
    let refused = [no, no, "held", no, no, "held"];
    assert_eq!(locks(&lab.directory.path().join("refused/a")), refused);
    let local = lab.directory.path().join("local/a");
    assert_eq!(locks(&local), ["held"; 6]);
    let mine = File::open(&local).unwrap();
    mine.lock().unwrap();
    assert!(File::open(&local).unwrap().try_lock().is_err());
    assert!(File::open(lab.kept("a")).unwrap().try_lock().is_ok());
}

#[test]
fn nobody_is_notified_of_what_other_clients_do() {
    let Some(lab) = Lab::new("actimeo=0") else {
        return;
    };
    let ran = python(
        &lab.seen(""),
        "import ctypes, os, struct\n\
         c = ctypes.CDLL(None); fd = c.inotify_init1(os.O_NONBLOCK)\n\
         assert c.inotify_add_watch(fd, b'.', 0x100) >= 0\n\
         open('../kept/others', 'w').close(); assert 'others' in os.listdir('.')\n\
         open('mine', 'w').close()\n\
         seen = os.read(fd, 4096); assert b'mine' in seen and b'others' not in seen, seen\n",
    );
    assert!(!ran || lab.kept("mine").exists());
}

#[test]
fn with_sync_what_is_written_is_at_the_server_when_write_returns() {
    let Some(lab) = Lab::new("sync") else { return };
    let bytes = pattern(3_000_001);
    let mut file = File::create(lab.seen("a")).unwrap();
    file.write_all(&bytes).unwrap();
    assert_eq!(fs::read(lab.kept("a")).unwrap(), bytes);
}

#[test]
fn long_pieces_are_at_the_server_once_the_file_is_closed_or_looked_at() {
    let Some(lab) = Lab::new("rw") else { return };
    let bytes = pattern(16 << 20);
    let is_there = |why: &str| {
        assert!(fs::read(lab.kept("a")).unwrap() == bytes, "{why}");
        fs::remove_file(lab.seen("a")).unwrap();
    };
    let written = || {
        let mut file = File::create(lab.seen("a")).unwrap();
        file.write_all(&bytes).unwrap();
        file
    };
    drop(written());
    is_there("closed");
    let file = written();
    file.sync_all().unwrap();
    is_there("synchronised");
    let file = written();
    // The open alone must make the pieces arrive: nothing here asks for the length of the file.
    drop(File::open(lab.seen("a")).unwrap());
    is_there("opened by another one");
    let other = written();
    assert_eq!(
        lseek(&other, 0, Whence::SeekHole).unwrap(),
        bytes.len() as i64
    );
    is_there("looked through for holes");
    drop((file, other));
}

#[test]
fn long_pieces_that_overlap_come_in_their_order() {
    let Some(lab) = Lab::new("rw") else { return };
    let file = File::create(lab.seen("a")).unwrap();
    for round in 0..20_u8 {
        for place in 0..8 {
            file.write_all_at(&vec![round; 200_000], place * 100_000)
                .unwrap();
        }
    }
    drop(file);
    let last = fs::read(lab.kept("a")).unwrap();
    assert_eq!(last.len(), 900_000);
    assert!(last.iter().all(|&byte| byte == 19));
}

#[test]
fn whoever_opens_a_file_sees_what_another_client_closed() {
    let Some(lab) = Lab::new("actimeo=3600") else {
        return;
    };
    let _other = lab.mount("other", "actimeo=3600");
    let other = lab.directory.path().join("other/a");
    for round in 1..20_usize {
        let bytes = pattern(round * 5000);
        fs::write(lab.seen("a"), &bytes).unwrap();
        assert_eq!(fs::read(&other).unwrap(), bytes, "round {round}");
    }
}

#[test]
fn names_and_attributes_are_as_new_as_the_server_s_without_a_cache() {
    let Some(lab) = Lab::new("actimeo=0") else {
        return;
    };
    fs::write(lab.seen("a"), "1").unwrap();
    fs::write(lab.kept("a"), "12").unwrap();
    assert_eq!(fs::metadata(lab.seen("a")).unwrap().len(), 2);
    fs::rename(lab.kept("a"), lab.kept("b")).unwrap();
    assert!(!lab.seen("a").exists() && lab.seen("b").exists());
}

#[test]
fn a_rename_keeps_replaces_or_exchanges() {
    let Some(lab) = Lab::new("rw") else { return };
    let rename = |from: &str, to: &str, flags| {
        renameat2(AT_FDCWD, &lab.seen(from), AT_FDCWD, &lab.seen(to), flags)
    };
    fs::write(lab.seen("a"), "a").unwrap();
    fs::write(lab.seen("b"), "b").unwrap();
    let keep = RenameFlags::RENAME_NOREPLACE;
    assert_eq!(rename("a", "b", keep), Err(Errno::EEXIST));
    rename("a", "b", RenameFlags::RENAME_EXCHANGE).unwrap();
    assert_eq!(fs::read(lab.kept("a")).unwrap(), b"b");
    rename("a", "b", RenameFlags::empty()).unwrap();
    assert_eq!(fs::read(lab.kept("b")).unwrap(), b"b");
    assert!(!lab.kept("a").exists());
}

#[test]
fn holes_are_kept_and_found() {
    let Some(lab) = Lab::new("rw") else { return };
    let file = File::create_new(lab.seen("a")).unwrap();
    let file = (
        file,
        OpenOptions::new().read(true).open(lab.seen("a")).unwrap(),
    );
    file.0.write_all_at(&[1; 4096], 1 << 20).unwrap();
    assert_eq!(lseek(&file.1, 0, Whence::SeekData).unwrap(), 1 << 20);
    assert_eq!(
        lseek(&file.1, 1 << 20, Whence::SeekHole).unwrap(),
        (1 << 20) + 4096
    );
    assert!(fs::metadata(lab.kept("a")).unwrap().blocks() < 64);
    let punch = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    fallocate(&file.0, punch, 1 << 20, 4096).unwrap();
    assert_eq!(lseek(&file.1, 0, Whence::SeekData), Err(Errno::ENXIO));
    let mut byte = [7];
    file.1.read_exact_at(&mut byte, 1 << 20).unwrap();
    assert_eq!(byte, [0]);
}

#[test]
fn a_file_that_is_removed_while_open_is_there_until_it_is_closed() {
    let Some(lab) = Lab::new("rw") else { return };
    fs::write(lab.seen("a"), "first").unwrap();
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(lab.seen("a"))
        .unwrap();
    fs::remove_file(lab.seen("a")).unwrap();
    fs::write(lab.seen("a"), "second").unwrap();
    file.seek(std::io::SeekFrom::End(0)).unwrap();
    file.write_all(b" and more").unwrap();
    file.rewind().unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "first and more");
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    drop(file);
    eventually("the file has gone", || {
        (fs::read_dir(lab.kept("")).unwrap().count() == 1).then_some(())
    });
    assert_eq!(fs::read(lab.seen("a")).unwrap(), b"second");
}

#[test]
fn a_removed_file_that_is_open_has_a_hidden_name_that_a_crash_leaves() {
    let Some(mut lab) = Lab::new("rw") else {
        return;
    };
    fs::create_dir(lab.seen("d")).unwrap();
    fs::write(lab.seen("d/a"), "1").unwrap();
    let open = File::open(lab.seen("d/a")).unwrap();
    fs::remove_file(lab.seen("d/a")).unwrap();
    let error = fs::remove_dir(lab.seen("d")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DirectoryNotEmpty);
    lab.service.take().unwrap().kill();
    drop(open);
    let left: Vec<_> = fs::read_dir(lab.kept("d")).unwrap().flatten().collect();
    assert_eq!(left.len(), 1);
    let name = left[0].file_name().into_string().unwrap();
    assert!(name.starts_with(".finerail-removed-"), "{name}");
    fs::remove_file(left[0].path()).unwrap();
    fs::remove_dir(lab.kept("d")).unwrap();
}

#[test]
fn a_file_that_is_replaced_while_open_is_there_until_it_is_closed() {
    let Some(lab) = Lab::new("rw") else { return };
    fs::write(lab.seen("a"), "first").unwrap();
    fs::write(lab.seen("b"), "second").unwrap();
    let mut file = File::open(lab.seen("a")).unwrap();
    fs::rename(lab.seen("b"), lab.seen("a")).unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "first");
    assert_eq!(fs::read(lab.seen("a")).unwrap(), b"second");
    drop(file);
    eventually("the file has gone", || {
        (fs::read_dir(lab.kept("")).unwrap().count() == 1).then_some(())
    });
}

#[test]
fn appends_of_two_clients_lose_nothing() {
    let Some(lab) = Lab::new("rw") else { return };
    let _other = lab.mount("other", "rw");
    let paths = [lab.seen("log"), lab.directory.path().join("other/log")];
    fs::write(&paths[0], "").unwrap();
    thread::scope(|scope| {
        for (writer, path) in paths.iter().enumerate() {
            scope.spawn(move || {
                let mut file = OpenOptions::new().append(true).open(path).unwrap();
                for line in 0..300 {
                    file.write_all(format!("{writer}-{line}\n").as_bytes())
                        .unwrap();
                }
            });
        }
    });
    let text = fs::read_to_string(lab.kept("log")).unwrap();
    let lines: std::collections::BTreeSet<&str> = text.lines().collect();
    assert_eq!((lines.len(), text.lines().count()), (600, 600));
}

#[test]
fn a_directory_is_listed_whole_while_names_come_and_go() {
    let Some(lab) = Lab::new("rw") else { return };
    let count = scaled(2000, 10_000);
    for number in 0..count {
        File::create(lab.seen(&format!("stays-{number}"))).unwrap();
    }
    thread::scope(|scope| {
        let changes = scope.spawn(|| {
            for number in 0..500 {
                fs::write(lab.seen(&format!("goes-{number}")), "").unwrap();
                fs::remove_file(lab.seen(&format!("goes-{number}"))).unwrap();
            }
        });
        while !changes.is_finished() {
            let names = fs::read_dir(lab.seen("")).unwrap();
            let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
            let stays = names
                .iter()
                .filter(|name| name.as_bytes().starts_with(b"stays-"));
            let stays: std::collections::BTreeSet<_> = stays.collect();
            assert_eq!(stays.len(), count);
        }
    });
}

#[test]
fn a_full_disk_is_said_and_room_is_used_again() {
    let Some(lab) = Lab::unmounted() else { return };
    let kept = lab.kept("");
    done(
        "mount",
        &[
            "-t",
            "tmpfs",
            "-o",
            "size=2m",
            "none",
            kept.to_str().unwrap(),
        ],
    );
    let lab = lab.mounted("rw");
    let mut file = File::create(lab.seen("a")).unwrap();
    let bytes = pattern(4 << 20);
    let short = bytes
        .chunks(4096)
        .try_for_each(|piece| file.write_all(piece));
    assert_eq!(short.unwrap_err().kind(), ErrorKind::StorageFull);
    fs::remove_file(lab.seen("a")).unwrap();
    drop(file);
    for round in 0..5 {
        let mut file = File::create(lab.seen("a")).unwrap();
        let failed = file.write_all(&bytes).and_then(|()| file.sync_all());
        assert_eq!(
            failed.unwrap_err().kind(),
            ErrorKind::StorageFull,
            "{round}"
        );
        drop(file);
        fs::remove_file(lab.seen("a")).unwrap();
    }
    fs::write(lab.seen("b"), pattern(1 << 20)).unwrap();
    assert_eq!(fs::read(lab.seen("b")).unwrap(), pattern(1 << 20));
}

#[test]
fn names_are_bytes_and_as_long_as_they_may_be() {
    let Some(lab) = Lab::new("rw") else { return };
    let odd = OsStr::from_bytes(b"\xff\xfe\n \x01");
    fs::write(lab.seen("").join(odd), "odd").unwrap();
    assert_eq!(fs::read(lab.kept("").join(odd)).unwrap(), b"odd");
    let names = fs::read_dir(lab.seen("")).unwrap();
    assert!(
        names
            .map(|entry| entry.unwrap().file_name())
            .any(|name| name == odd)
    );
    fs::write(lab.seen(&"x".repeat(255)), "long").unwrap();
    let failed = fs::write(lab.seen(&"x".repeat(256)), "longer").unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::InvalidFilename);
}

#[test]
fn hard_links_are_one_file() {
    let Some(lab) = Lab::new("rw") else { return };
    fs::write(lab.seen("a"), "1").unwrap();
    fs::hard_link(lab.seen("a"), lab.seen("b")).unwrap();
    let [a, b] = ["a", "b"].map(|name| fs::metadata(lab.seen(name)).unwrap());
    assert_eq!((a.ino(), a.nlink()), (b.ino(), 2));
    assert_eq!(a.ino(), fs::metadata(lab.kept("a")).unwrap().ino());
    fs::remove_file(lab.seen("a")).unwrap();
    assert_eq!(fs::metadata(lab.seen("b")).unwrap().nlink(), 1);
}

#[test]
fn times_are_kept_to_the_nanosecond_also_before_1970() {
    let Some(lab) = Lab::new("rw") else { return };
    fs::write(lab.seen("a"), "").unwrap();
    for time in ["@-1.2", "@1234567890.123456789", "@-9223372036854775808"] {
        script(&lab.seen(""), &format!("touch -d {time} a"));
        let seen = script(&lab.seen(""), "stat -c %.9Y a");
        assert_eq!(seen, script(&lab.kept(""), "stat -c %.9Y a"), "{time}");
    }
}

#[test]
fn maps_and_attributes_work() {
    let Some(lab) = Lab::new("rw") else { return };
    fs::write(lab.seen("a"), pattern(100_000)).unwrap();
    let ran = python(
        &lab.seen(""),
        "import mmap, os\n\
         with open('a', 'r+b') as f:\n\
         \x20m = mmap.mmap(f.fileno(), 0); m[5:9] = b'MAPS'; m.flush(); m.close()\n\
         os.setxattr('a', 'user.x', b'v'); assert os.getxattr('a', 'user.x') == b'v'\n\
         assert os.listxattr('a') == ['user.x']\n\
         try: os.setxattr('a', 'user.x', b'w', os.XATTR_CREATE); assert False\n\
         except FileExistsError: pass\n\
         os.removexattr('a', 'user.x'); assert os.listxattr('a') == []\n",
    );
    if ran {
        assert_eq!(&fs::read(lab.kept("a")).unwrap()[5..9], b"MAPS");
    }
}

#[test]
fn a_read_only_mount_refuses_changes() {
    let Some(lab) = Lab::new("ro") else { return };
    fs::write(lab.kept("a"), "1").unwrap();
    assert_eq!(fs::read(lab.seen("a")).unwrap(), b"1");
    let failed = fs::write(lab.seen("b"), "2").unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::ReadOnlyFilesystem);
}

#[test]
fn other_users_have_their_own_rights() {
    let Some(lab) = Lab::new("allow_other") else {
        return;
    };
    if !testkit::require("setpriv") {
        return;
    }
    fs::set_permissions(lab.seen(""), fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(lab.seen("secret"), "1").unwrap();
    fs::set_permissions(lab.seen("secret"), fs::Permissions::from_mode(0o640)).unwrap();
    let as_other = "setpriv --reuid 54321 --regid 54321 --clear-groups sh -c";
    script(
        &lab.seen(""),
        &format!(
            "{as_other} 'echo mine > mine; ! cat secret 2>/dev/null; chmod 400 mine; cat mine'"
        ),
    );
    assert_eq!(fs::metadata(lab.kept("mine")).unwrap().uid(), 54321);
}

#[test]
fn access_control_lists_permit_and_refuse() {
    let Some(lab) = Lab::new("allow_other") else {
        return;
    };
    if !testkit::require("setpriv") {
        return;
    }
    fs::write(lab.kept("a"), "1").unwrap();
    fs::set_permissions(lab.kept("a"), fs::Permissions::from_mode(0o600)).unwrap();
    let ran = python(
        &lab.kept(""),
        "import os, struct\n\
         e = lambda tag, perm, id=0xffffffff: struct.pack('<HHI', tag, perm, id)\n\
         acl = struct.pack('<I', 2) + e(1, 6) + e(2, 4, 54321) + e(4, 0) + e(16, 4) + e(32, 0)\n\
         os.setxattr('a', 'system.posix_acl_access', acl)\n",
    );
    if !ran {
        return;
    }
    let cat = "setpriv --reuid 54321 --regid 54321 --clear-groups cat";
    let here = lab.directory.path();
    script(here, &format!("{cat} kept/a"));
    script(here, &format!("{cat} seen/a"));
    let other = "setpriv --reuid 54322 --regid 54322 --clear-groups cat";
    script(
        here,
        &format!("! {other} kept/a 2>/dev/null && ! {other} seen/a 2>/dev/null"),
    );
}

#[test]
fn new_files_get_the_default_access_control_list_in_place_of_the_umask() {
    let Some(lab) = Lab::new("allow_other") else {
        return;
    };
    let make = "import os, struct\n\
         os.umask(0o077)\n\
         e = lambda tag, perm, id=0xffffffff: struct.pack('<HHI', tag, perm, id)\n\
         acl = struct.pack('<I', 2) + e(1, 7) + e(2, 5, 54321) + e(4, 5) + e(16, 7) + e(32, 4)\n\
         os.mkdir('d'); os.setxattr('d', 'system.posix_acl_default', acl)\n\
         open('d/f', 'w').close(); os.mkdir('d/e'); open('f', 'w').close()\n\
         print(*(oct(os.stat(n).st_mode) for n in ('d/f', 'd/e', 'f')), *(len(os.listxattr(n)) for n in ('d/f', 'd/e')))\n";
    let run_in = |name: &str| {
        let mut python = Command::new("python3");
        let directory = lab.directory.path().join(name);
        python.args(["-c", make]).current_dir(&directory);
        run(python).expect_code(0).out
    };
    if !testkit::require("python3") {
        return;
    }
    let seen = run_in("seen");
    fs::remove_dir_all(lab.kept("d")).unwrap();
    fs::remove_file(lab.kept("f")).unwrap();
    assert_eq!(run_in("kept"), seen);
    assert!(seen.ends_with("0o100600 1 2\n"), "{seen}");
}

#[test]
fn devices_cannot_be_made() {
    let Some(lab) = Lab::new("rw") else { return };
    script(
        &lab.seen(""),
        "! mknod null c 1 3 2>said; grep -q 'not permitted' said; mkfifo pipe",
    );
}

#[test]
fn without_allow_other_nobody_else_gets_in() {
    let Some(lab) = Lab::new("rw") else { return };
    if !testkit::require("setpriv") {
        return;
    }
    script(
        lab.directory.path(),
        "! setpriv --reuid 54321 --regid 54321 --clear-groups ls seen 2>/dev/null",
    );
}

#[test]
fn umount_ends_the_service() {
    let Some(mut lab) = Lab::new("rw") else {
        return;
    };
    fs::write(lab.seen("a"), "1").unwrap();
    done("umount", &[lab.seen("").to_str().unwrap()]);
    lab.service.take().unwrap().wait().expect_code(0);
}

#[test]
fn sigterm_unmounts_and_waits_for_open_files() {
    let Some(mut lab) = Lab::new("rw") else {
        return;
    };
    let mut file = File::create(lab.seen("a")).unwrap();
    let service = lab.service.take().unwrap();
    service.signal(Signal::SIGTERM);
    eventually("the mount has gone", || {
        (fs::read_dir(lab.seen("")).unwrap().count() == 0).then_some(())
    });
    file.write_all(b"to the end").unwrap();
    drop(file);
    service.wait().expect_code(0);
    assert_eq!(fs::read(lab.kept("a")).unwrap(), b"to the end");
}

#[test]
fn in_the_background_the_command_returns_once_the_directory_is_there() {
    let Some(lab) = Lab::unmounted() else { return };
    fs::write(lab.kept("a"), "1").unwrap();
    let mut command = lab.command("seen", "rw");
    command.arg("-b");
    run(command).expect_code(0);
    assert_eq!(fs::read(lab.seen("a")).unwrap(), b"1");
    done("umount", &[lab.seen("").to_str().unwrap()]);
}

#[test]
fn what_cannot_be_mounted_says_why() {
    let Some(lab) = Lab::unmounted() else { return };
    let refused = |at: &str, options: &str| run(lab.command(at, options));
    refused("nowhere", "rw")
        .expect_code(2)
        .expect_error("nowhere: ");
    refused("seen", "frob")
        .expect_code(2)
        .expect_error("-o frob");
    fs::create_dir(lab.kept("below")).unwrap();
    refused("kept/below", "rw")
        .expect_code(2)
        .expect_error("below");
    let bad = finerail(["mount", "nfs:/x", "/mnt"]);
    run(bad).expect_code(2).expect_error("not an address");
}

#[test]
fn mount_calls_the_program_as_its_helper() {
    let Some(lab) = Lab::unmounted() else { return };
    let helper = lab.directory.path().join("mount.finerail");
    symlink(env!("CARGO_BIN_EXE_finerail"), &helper).unwrap();
    let address = format!("dir:{}", lab.kept("").display());
    let call = |at: &str, options: &str| {
        let mut command = Command::new(&helper);
        command.arg(&address).arg(lab.directory.path().join(at));
        command.args(["-n", "-v", "-o", options, "-t", "finerail"]);
        run(command)
    };
    call("seen", "rw,_netdev,nofail").expect_code(0);
    fs::write(lab.seen("a"), "1").unwrap();
    assert_eq!(fs::read(lab.kept("a")).unwrap(), b"1");
    done("umount", &[lab.seen("").to_str().unwrap()]);
    call("seen", "frob").expect_code(1).expect_error("-o frob");
}

#[test]
fn git_clones_into_a_mount_and_finds_no_fault() {
    let Some(lab) = Lab::new("rw") else { return };
    if !testkit::require("git") {
        return;
    }
    script(
        lab.directory.path(),
        "export HOME=$PWD GIT_CONFIG_NOSYSTEM=1\n\
         git init -q from; cd from; git config user.email a@b; git config user.name a\n\
         for n in $(seq 1 100); do mkdir -p d$((n % 9)); seq 1 $n > d$((n % 9))/$n; done\n\
         git add -A; git commit -qm one; git mv d1 e1; git commit -qm two; cd ..\n\
         git clone -q --no-local from seen/clone; cd seen/clone; git fsck --full\n\
         git checkout -q HEAD~1; git gc -q; git fsck --full; test -z \"$(git status --porcelain)\"",
    );
}

#[test]
fn a_database_in_a_mount_is_whole_after_concurrent_writers() {
    let Some(lab) = Lab::new("locks=local") else {
        return;
    };
    if !testkit::require("sqlite3") {
        return;
    }
    let said = script(
        &lab.seen(""),
        "sqlite3 a.db 'create table t (n integer primary key, w text)'\n\
         for w in 1 2 3; do (for n in $(seq 1 20); do\n\
         sqlite3 -cmd '.timeout 60000' a.db \"insert into t (w) values ('$w-$n')\"; done) & done; wait\n\
         sqlite3 a.db 'pragma integrity_check; select count(distinct w) from t'",
    );
    assert_eq!(said, "ok\n60\n");
}
