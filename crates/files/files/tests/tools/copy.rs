//! Copies between directories, also with servers that fail, stop, forget handles or return wrong
//! replies.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::ffi::OsStr;
use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use files::tools::{Item, Options, PIECE, Progress, Verify, copy};
use files::{Data, DirectoryEntry, Errno, FileSystem, Listing, Reply, Request, XattrMode};

use crate::common::{Lab, everything, path, pattern, texts};

const LONG: usize = 3 * PIECE as usize + 12_345;

fn times(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::new(seconds, 123_456_789)
}

#[test]
fn a_tree_is_copied_with_content_modes_times_links_and_empty_directories() {
    let lab = Lab::new();
    let strange = OsStr::from_bytes(b"a\n\xff \x1b[2J");
    fs::create_dir_all(lab.from("d/e/empty")).unwrap();
    fs::write(lab.from("long"), pattern(LONG)).unwrap();
    fs::write(lab.from("d/none"), "").unwrap();
    fs::write(lab.from("d/e").join(strange), "strange").unwrap();
    symlink("/etc/passwd", lab.from("d/link")).unwrap();
    symlink("nowhere", lab.from("d/dangling")).unwrap();
    fs::set_permissions(lab.from("long"), Permissions::from_mode(0o4751)).unwrap();
    fs::set_permissions(lab.from("d/e"), Permissions::from_mode(0o2750)).unwrap();
    for (name, time) in [("long", 1_000), ("d/e", 2_000), ("d", 3_000)] {
        File::open(lab.from(name))
            .unwrap()
            .set_modified(times(time))
            .unwrap();
    }
    for verify in [Verify::None, Verify::Written, Verify::Both] {
        let options = Options {
            verify,
            ..Options::default()
        };
        let (progress, failures) = lab.copy(&lab.source(), &lab.target(), &options);
        assert_eq!(texts(&failures), [""; 0]);
        assert_eq!((progress.files(), progress.links()), (3, 2));
        assert_eq!(progress.directories(), 4);
    }
    assert_eq!(fs::read(lab.to("long")).unwrap(), pattern(LONG));
    assert_eq!(fs::read(lab.to("d/e").join(strange)).unwrap(), b"strange");
    assert_eq!(fs::read(lab.to("d/none")).unwrap(), b"");
    assert!(lab.to("d/e/empty").is_dir());
    let target = |name| fs::read_link(lab.to(name)).unwrap();
    assert_eq!(target("d/link"), OsStr::new("/etc/passwd"));
    assert_eq!(target("d/dangling"), OsStr::new("nowhere"));
    let status = |name| fs::metadata(lab.to(name)).unwrap();
    // Set-user-id of a file is not kept; set-group-id of a directory is kept.
    assert_eq!(status("long").mode() & 0o7777, 0o751);
    assert_eq!(status("d/e").mode() & 0o7777, 0o2750);
    for (name, time) in [("long", 1_000), ("d/e", 2_000), ("d", 3_000)] {
        assert_eq!(status(name).modified().unwrap(), times(time), "{name}");
    }
    assert!(lab.parts().is_empty());
}

#[test]
fn holes_are_copied_as_holes() {
    let lab = Lab::new();
    let file = File::create(lab.from("sparse")).unwrap();
    file.write_all_at(b"begin", 0).unwrap();
    file.write_all_at(&pattern(100_000), 40 << 20).unwrap();
    file.set_len(200 << 20).unwrap();
    let (progress, failures) = lab.copy(&lab.source(), &lab.target(), &Options::default());
    assert_eq!(texts(&failures), [""; 0]);
    let status = fs::metadata(lab.to("sparse")).unwrap();
    assert_eq!(status.len(), 200 << 20);
    assert!(
        status.blocks() * 512 < 1 << 20,
        "{} blocks",
        status.blocks()
    );
    assert!(progress.bytes() < 1 << 20, "{}", progress.bytes());
    let mut bytes = vec![0; 100_000];
    let copied = File::open(lab.to("sparse")).unwrap();
    copied.read_exact_at(&mut bytes, 40 << 20).unwrap();
    assert_eq!(bytes, pattern(100_000));
}

/// Returns a rule that lets `count` writes succeed, and then returns an error.
fn after(count: u64, errno: Errno) -> impl Fn(&Request) -> Result<(), Errno> + Send + Sync {
    let writes = AtomicU64::new(0);
    move |request| match request {
        Request::Write { .. } if writes.fetch_add(1, Ordering::Relaxed) >= count => Err(errno),
        _ => Ok(()),
    }
}

fn one_at_a_time() -> Options {
    Options {
        jobs: 1,
        ..Options::default()
    }
}

#[test]
fn what_an_interrupted_copy_brought_is_taken_over_after_a_comparison() {
    let lab = Lab::new();
    fs::write(lab.from("long"), pattern(LONG)).unwrap();
    let stop = after(2, Errno::ETIMEDOUT);
    let gone = lab.odd_target(move |files, caller, request, data| {
        stop(request)?;
        files.call(caller, request, data)
    });
    let (_, failures) = lab.copy(&lab.source(), &gone, &one_at_a_time());
    assert!(failures.is_fatal(), "{failures:?}");
    assert!(!lab.to("long").exists());
    let part = lab.parts().pop().unwrap();
    // One byte of the part is wrong.
    let file = File::options().write(true).open(&part).unwrap();
    file.write_all_at(b"\x00", 100).unwrap();
    let (progress, failures) = lab.copy(&lab.source(), &lab.target(), &one_at_a_time());
    assert_eq!(texts(&failures), [""; 0]);
    assert_eq!(progress.resumed(), PIECE);
    assert_eq!(fs::read(lab.to("long")).unwrap(), pattern(LONG));
    assert!(lab.parts().is_empty());
}

#[test]
fn a_sparse_file_is_taken_over_with_its_holes() {
    let lab = Lab::new();
    let file = File::create(lab.from("sparse")).unwrap();
    for place in [0, 20 << 20, 40 << 20] {
        file.write_all_at(&pattern(5000), place).unwrap();
    }
    file.set_len(60 << 20).unwrap();
    let stop = after(2, Errno::ETIMEDOUT);
    let gone = lab.odd_target(move |files, caller, request, data| {
        stop(request)?;
        files.call(caller, request, data)
    });
    let (_, failures) = lab.copy(&lab.source(), &gone, &one_at_a_time());
    assert!(failures.is_fatal());
    // Data stands where a hole belongs.
    let part = File::options()
        .write(true)
        .open(lab.parts().pop().unwrap())
        .unwrap();
    part.write_all_at(b"rubbish", 30 << 20).unwrap();
    let (progress, failures) = lab.copy(&lab.source(), &lab.target(), &one_at_a_time());
    assert_eq!(texts(&failures), [""; 0]);
    assert!(progress.resumed() > 0);
    assert!(fs::read(lab.to("sparse")).unwrap() == fs::read(lab.from("sparse")).unwrap());
    assert!(fs::metadata(lab.to("sparse")).unwrap().blocks() * 512 < 1 << 20);
}

#[test]
fn a_part_of_another_version_is_not_taken_over() {
    let lab = Lab::new();
    fs::write(lab.from("long"), pattern(LONG)).unwrap();
    let stop = after(1, Errno::ETIMEDOUT);
    let gone = lab.odd_target(move |files, caller, request, data| {
        stop(request)?;
        files.call(caller, request, data)
    });
    let (_, failures) = lab.copy(&lab.source(), &gone, &one_at_a_time());
    assert!(failures.is_fatal());
    fs::write(lab.from("long"), pattern(LONG + 1)).unwrap();
    let (progress, failures) = lab.copy(&lab.source(), &lab.target(), &one_at_a_time());
    assert_eq!(texts(&failures), [""; 0]);
    assert_eq!(progress.resumed(), 0);
    assert_eq!(fs::read(lab.to("long")).unwrap(), pattern(LONG + 1));
}

#[test]
fn a_part_that_is_another_name_of_a_file_is_not_written_to() {
    let lab = Lab::new();
    fs::write(lab.from("long"), pattern(LONG)).unwrap();
    let stop = after(0, Errno::ETIMEDOUT);
    let gone = lab.odd_target(move |files, caller, request, data| {
        stop(request)?;
        files.call(caller, request, data)
    });
    let (_, failures) = lab.copy(&lab.source(), &gone, &one_at_a_time());
    assert!(failures.is_fatal());
    let part = lab.parts().pop().unwrap();
    fs::write(lab.to("precious"), "precious").unwrap();
    fs::remove_file(&part).unwrap();
    fs::hard_link(lab.to("precious"), &part).unwrap();
    let (_, failures) = lab.copy(&lab.source(), &lab.target(), &one_at_a_time());
    assert_eq!(texts(&failures), [""; 0]);
    assert_eq!(fs::read(lab.to("precious")).unwrap(), b"precious");
    assert_eq!(fs::read(lab.to("long")).unwrap(), pattern(LONG));
}

#[test]
fn bytes_that_change_on_the_way_to_the_target_are_found_and_get_no_name() {
    let lab = Lab::new();
    fs::write(lab.from("short"), pattern(1000)).unwrap();
    fs::write(lab.from("long"), pattern(LONG)).unwrap();
    let damaging = lab.odd_target(|files, caller, request, data| {
        let Request::Write { handle, segments } = request else {
            return files.call(caller, request, data);
        };
        let reply = files.call(caller, request, data)?;
        let last = segments[0].offset + segments[0].length - 1;
        files.write(caller, *handle, last, b"\x55")?;
        Ok(reply)
    });
    let (_, failures) = lab.copy(&lab.source(), &damaging, &Options::default());
    assert_eq!(failures.count, 2, "{failures:?}");
    assert!(texts(&failures)[0].contains("differs from the data written"));
    assert!(!lab.to("short").exists() && !lab.to("long").exists());
    assert!(lab.parts().is_empty());
}

#[test]
fn bytes_that_change_on_the_way_from_the_source_are_found_where_it_is_read_twice() {
    let lab = Lab::new();
    fs::write(lab.from("short"), pattern(1000)).unwrap();
    let reads = AtomicU64::new(0);
    let damaging = lab.odd_source(move |files, caller, request, data| match data {
        Data::Read(memory) if reads.fetch_add(1, Ordering::Relaxed) == 0 => {
            let mut bytes = vec![0; request.read_length() as usize];
            let mut own = [std::io::IoSliceMut::new(&mut bytes)];
            let reply = files.call(caller, request, Data::Read(&mut own))?;
            bytes[17] ^= 1;
            files::transfer::scatter(memory, 0, &bytes);
            Ok(reply)
        }
        data => files.call(caller, request, data),
    });
    let options = Options {
        verify: Verify::Both,
        ..Options::default()
    };
    let (_, failures) = lab.copy(&damaging, &lab.target(), &options);
    assert_eq!(failures.count, 1);
    assert!(!lab.to("short").exists());
}

#[test]
fn a_full_disk_fails_one_file_and_leaves_nothing_of_it() {
    let lab = Lab::new();
    fs::write(lab.from("large"), pattern(LONG)).unwrap();
    for number in 0..50 {
        fs::write(lab.from(format!("small{number}")), "small").unwrap();
    }
    let full = lab.odd_target(|files, caller, request, data| match request {
        Request::Write { segments, .. } if segments[0].offset >= PIECE => Err(Errno::ENOSPC),
        _ => files.call(caller, request, data),
    });
    let (progress, failures) = lab.copy(&lab.source(), &full, &Options::default());
    let texts = texts(&failures);
    assert_eq!(
        texts,
        ["cannot write to/large: No space left on device (ENOSPC)"]
    );
    assert_eq!((progress.files(), progress.bytes()), (50, 250));
    assert!(!lab.to("large").exists() && lab.parts().is_empty());
}

#[test]
fn a_server_that_takes_nothing_or_counts_too_much_ends_the_file() {
    for count in [0, 2000] {
        let lab = Lab::new();
        fs::write(lab.from("a"), pattern(1000)).unwrap();
        let lying = lab.odd_target(move |files, caller, request, data| match request {
            Request::Write { .. } => Ok(Reply::Counts(vec![count])),
            _ => files.call(caller, request, data),
        });
        let (_, failures) = lab.copy(&lab.source(), &lying, &Options::default());
        assert_eq!(failures.count, 1, "{failures:?}");
        assert!(!lab.to("a").exists());
    }
}

/// Returns a source that changes each listing with `entries`.
fn listing(lab: &Lab, entries: fn(Listing) -> Listing) -> crate::common::Odd {
    lab.odd_source(move |files, caller, request, data| match request {
        Request::ReadDir { .. } => match files.call(caller, request, data)? {
            Reply::Listing(listing) => Ok(Reply::Listing(entries(listing))),
            other => Ok(other),
        },
        _ => files.call(caller, request, data),
    })
}

#[test]
fn names_that_lead_elsewhere_are_refused_and_the_others_come() {
    let lab = Lab::new();
    fs::write(lab.from("good"), "good").unwrap();
    let hostile = listing(&lab, |mut listing| {
        let good = listing.entries.iter().find(|entry| entry.name == b"good");
        let good = good.unwrap().clone();
        let long = vec![b'x'; 256];
        for name in [&b"../evil"[..], b"/etc/evil", b"a/b", b"", b"a\0b", &long] {
            let name = name.to_vec();
            listing.entries.insert(
                0,
                DirectoryEntry {
                    name,
                    ..good.clone()
                },
            );
        }
        listing
    });
    let (progress, failures) = lab.copy(&hostile, &lab.target(), &Options::default());
    // One failure of the directory has the number of names: a server cannot fill the report.
    assert_eq!(failures.count, 1, "{failures:?}");
    assert_eq!(failures.list[0].why, files::tools::Why::BadNames(6));
    assert_eq!(progress.files(), 1);
    let names: Vec<_> = fs::read_dir(lab.to("")).unwrap().collect();
    assert_eq!(names.len(), 1);
    assert!(!lab.to("../evil").exists());
}

#[test]
fn a_listing_without_end_is_ended() {
    let lab = Lab::new();
    fs::write(lab.from("good"), "good").unwrap();
    let endless = listing(&lab, |mut listing| {
        listing.is_end = false;
        listing
            .entries
            .iter_mut()
            .for_each(|entry| entry.cookie = 7);
        listing
    });
    let (_, failures) = lab.copy(&endless, &lab.target(), &Options::default());
    assert!(texts(&failures)[0].contains("does not end"), "{failures:?}");
    let empty = listing(&lab, |_| Listing::default());
    let (_, failures) = lab.copy(&empty, &lab.target(), &Options::default());
    assert!(texts(&failures)[0].contains("does not end"), "{failures:?}");
}

#[test]
fn a_directory_that_holds_itself_ends_at_the_longest_path() {
    let lab = Lab::new();
    let name = "x".repeat(200);
    fs::create_dir(lab.from(&name)).unwrap();
    let inside = lab.odd_source(move |files, caller, request, data| match request {
        // Every lookup returns the first directory, which lists itself.
        Request::Lookup { .. } => Ok(Reply::Entry(
            files.lookup(caller, files::Place::from_root(name.as_bytes())?)?,
        )),
        Request::ReadDir {
            objects,
            entries,
            cookie,
            ..
        } => {
            let handle = files::Handle::ROOT;
            let listing = files.readdir(caller, handle, *cookie, *entries, *objects)?;
            Ok(Reply::Listing(listing))
        }
        _ => files.call(caller, request, data),
    });
    let (_, failures) = lab.copy(&inside, &lab.target(), &Options::default());
    assert!(texts(&failures)[0].contains("ENAMETOOLONG"), "{failures:?}");
}

#[test]
fn a_position_of_data_that_goes_back_ends_the_file() {
    let lab = Lab::new();
    let file = File::create(lab.from("sparse")).unwrap();
    file.write_all_at(b"x", 9 << 20).unwrap();
    let lying = lab.odd_source(|files, caller, request, data| match request {
        Request::Seek { offset, .. } if *offset > 0 => Ok(Reply::Offset(0)),
        _ => files.call(caller, request, data),
    });
    let (_, failures) = lab.copy(&lying, &lab.target(), &Options::default());
    assert!(texts(&failures)[0].contains("EPROTO"), "{failures:?}");
}

#[test]
fn a_file_that_changes_meanwhile_fails_and_gets_no_name() {
    let lab = Lab::new();
    fs::write(lab.from("log"), pattern(LONG)).unwrap();
    let log = lab.from("log");
    let growing = lab.odd_source(move |files, caller, request, data| {
        if matches!(request, Request::Read { .. }) {
            let file = File::options().append(true).open(&log).unwrap();
            std::io::Write::write_all(&mut &file, b"more").unwrap();
        }
        files.call(caller, request, data)
    });
    let (_, failures) = lab.copy(&growing, &lab.target(), &Options::default());
    assert!(
        texts(&failures)[0].contains("changed while"),
        "{failures:?}"
    );
    assert!(!lab.to("log").exists() && lab.parts().is_empty());
    let log = lab.from("log");
    let cut = lab.odd_source(move |files, caller, request, data| {
        if matches!(request, Request::Read { .. }) {
            fs::write(&log, "short").unwrap();
        }
        files.call(caller, request, data)
    });
    let (_, failures) = lab.copy(&cut, &lab.target(), &Options::default());
    assert!(
        texts(&failures)[0].contains("changed while"),
        "{failures:?}"
    );
}

#[test]
fn a_server_that_forgot_a_file_is_asked_for_it_again() {
    let lab = Lab::new();
    fs::write(lab.from("long"), pattern(LONG)).unwrap();
    fs::create_dir(lab.from("d")).unwrap();
    fs::write(lab.from("d/short"), "short").unwrap();
    let calls = AtomicU64::new(0);
    let forgetful = lab.odd_target(move |files, caller, request, data| match request {
        Request::Write { .. } if calls.fetch_add(1, Ordering::Relaxed) % 3 == 1 => {
            Err(Errno::ESTALE)
        }
        _ => files.call(caller, request, data),
    });
    let lists = AtomicU64::new(0);
    let source = lab.odd_source(move |files, caller, request, data| match request {
        Request::ReadDir { .. } if lists.fetch_add(1, Ordering::Relaxed) == 0 => Err(Errno::ESTALE),
        _ => files.call(caller, request, data),
    });
    let (progress, failures) = lab.copy(&source, &forgetful, &one_at_a_time());
    assert_eq!(texts(&failures), [""; 0]);
    assert!(progress.restarted() > 0);
    // Bytes that were copied before a file was restarted do not count twice.
    assert_eq!(progress.bytes(), (LONG + "short".len()) as u64);
    assert_eq!(fs::read(lab.to("long")).unwrap(), pattern(LONG));
    let always = lab.odd_target(|files, caller, request, data| match request {
        Request::Write { .. } => Err(Errno::ESTALE),
        _ => files.call(caller, request, data),
    });
    let (progress, failures) = lab.copy(&lab.source(), &always, &one_at_a_time());
    assert_eq!((failures.count, progress.restarted()), (2, 6));
}

#[test]
fn a_rename_whose_outcome_is_unknown_is_looked_at() {
    let lab = Lab::new();
    fs::write(lab.from("a"), "a").unwrap();
    let unsure = lab.odd_target(|files, caller, request, data| {
        let reply = files.call(caller, request, data)?;
        match request {
            Request::Rename { .. } => Err(files::OUTCOME_UNKNOWN),
            _ => Ok(reply),
        }
    });
    let (progress, failures) = lab.copy(&lab.source(), &unsure, &Options::default());
    assert_eq!(texts(&failures), [""; 0]);
    assert_eq!(progress.files(), 1);
    let undone = lab.odd_target(|files, caller, request, data| match request {
        Request::Rename { .. } => Err(files::OUTCOME_UNKNOWN),
        _ => files.call(caller, request, data),
    });
    let (_, failures) = lab.copy(&lab.source(), &undone, &Options::default());
    assert!(
        texts(&failures)[0].contains("outcome unknown"),
        "{failures:?}"
    );
}

#[test]
fn a_link_in_the_place_of_a_directory_leads_nowhere() {
    let lab = Lab::new();
    fs::create_dir(lab.from("d")).unwrap();
    fs::write(lab.from("d/f"), "f").unwrap();
    fs::write(lab.from("good"), "good").unwrap();
    let outside = tempfile::tempdir().unwrap();
    symlink(outside.path(), lab.to("d")).unwrap();
    let (progress, failures) = lab.copy(&lab.source(), &lab.target(), &Options::default());
    assert_eq!(
        texts(&failures),
        ["cannot make to/d: Not a directory (ENOTDIR)"]
    );
    assert_eq!(progress.files(), 1);
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn what_is_there_with_the_same_length_and_time_is_left_alone_where_that_is_asked_for() {
    let lab = Lab::new();
    fs::write(lab.from("a"), "a").unwrap();
    fs::write(lab.from("b"), "b").unwrap();
    let options = Options {
        skip_same: true,
        ..Options::default()
    };
    let (progress, _) = lab.copy(&lab.source(), &lab.target(), &options);
    assert_eq!((progress.files(), progress.skipped()), (2, 0));
    fs::write(lab.from("b"), "B").unwrap();
    let (progress, _) = lab.copy(&lab.source(), &lab.target(), &options);
    assert_eq!((progress.files(), progress.skipped()), (1, 1));
    assert_eq!(fs::read(lab.to("b")).unwrap(), b"B");
}

#[test]
fn a_directory_is_not_copied_into_itself_and_not_at_all_where_that_is_not_asked_for() {
    let lab = Lab::new();
    fs::create_dir_all(lab.from("a/b")).unwrap();
    fs::write(lab.from("a/f"), "f").unwrap();
    let files = lab.source();
    let tree = lab.tree(&files, "");
    let item = Item {
        from: Some(path("a")),
        to: Some(path("a/b/copy")),
    };
    let options = Options {
        is_one_system: true,
        ..Options::default()
    };
    let progress = Progress::default();
    let failures = copy(tree, tree, std::slice::from_ref(&item), &options, &progress);
    assert_eq!(failures.count, 1, "{failures:?}");
    assert_eq!(fs::read(lab.from("a/b/copy/f")).unwrap(), b"f");
    let flat = Options {
        recursive: false,
        ..Options::default()
    };
    let failures = copy(tree, tree, &[item], &flat, &progress);
    assert!(
        texts(&failures)[0].contains("-r includes it"),
        "{failures:?}"
    );
}

#[test]
fn after_a_cancel_nothing_half_has_its_name_and_the_rest_comes_later() {
    let lab = Lab::new();
    for number in 0..20 {
        fs::write(lab.from(format!("f{number}")), pattern(100_000 + number)).unwrap();
    }
    fs::write(lab.from("long"), pattern(LONG)).unwrap();
    let progress = std::sync::Arc::new(Progress::default());
    let (seen, writes) = (std::sync::Arc::clone(&progress), AtomicU64::new(0));
    let target = lab.odd_target(move |files, caller, request, data| {
        if matches!(request, Request::Write { .. }) && writes.fetch_add(1, Ordering::Relaxed) == 5 {
            seen.cancel();
        }
        files.call(caller, request, data)
    });
    let source = lab.source();
    let (from, to) = (lab.tree(&source, "from"), lab.tree(&target, "to"));
    let failures = copy(from, to, &[everything()], &one_at_a_time(), &progress);
    assert_eq!(texts(&failures), [""; 0]);
    assert!(progress.files() < 21);
    for entry in fs::read_dir(lab.to("")).unwrap() {
        let name = entry.unwrap().file_name();
        if !files::tools::is_part(name.as_bytes()) {
            assert!(fs::read(lab.to(&name)).unwrap() == fs::read(lab.from(&name)).unwrap());
        }
    }
    let options = Options {
        skip_same: true,
        ..Options::default()
    };
    let (again, failures) = lab.copy(&lab.source(), &lab.target(), &options);
    assert_eq!(texts(&failures), [""; 0]);
    assert_eq!(again.files() + again.skipped(), 21);
    assert!(lab.parts().is_empty());
}

#[test]
fn special_files_are_left_out() {
    let lab = Lab::new();
    nix_fifo(&lab);
    fs::write(lab.from("a"), "a").unwrap();
    let (progress, failures) = lab.copy(&lab.source(), &lab.target(), &Options::default());
    assert_eq!(texts(&failures), [""; 0]);
    assert_eq!((progress.files(), progress.left_out()), (1, 1));
}

fn nix_fifo(lab: &Lab) {
    let files = lab.source();
    let place = files::Place::from_root(b"pipe").unwrap();
    files
        .mknod(&lab.caller, place, files::Node::Fifo, 0o600)
        .unwrap();
}

/// Rejects what the target may reject without a failure of the copy.
fn refuses_owners(
    files: &files::dir::LocalDirectory,
    caller: &files::Caller,
    request: &Request,
    data: Data<'_>,
) -> Result<Reply, Errno> {
    match request {
        Request::SetAttr { set, .. } if set.uid.is_some() => Err(Errno::EPERM),
        Request::SetXattr { .. } => Err(Errno::EOPNOTSUPP),
        _ => files.call(caller, request, data),
    }
}

/// Makes a tree with owners, if this user may set some. Returns whether the user may.
fn with_owners(lab: &Lab) -> bool {
    fs::create_dir(lab.from("d")).unwrap();
    fs::write(lab.from("d/a"), pattern(100)).unwrap();
    symlink("a", lab.from("d/link")).unwrap();
    let is_root = chown(lab.from("d"), Some(1000), Some(1001)).is_ok();
    if is_root {
        chown(lab.from("d/a"), Some(1002), Some(1003)).unwrap();
        lchown(lab.from("d/link"), Some(1004), Some(1005)).unwrap();
    }
    fs::set_permissions(lab.from("d/a"), Permissions::from_mode(0o4751)).unwrap();
    let source = lab.source();
    let a = source.lookup(&lab.caller, place("d/a")).unwrap().handle;
    let any = XattrMode::Any;
    source
        .setxattr(&lab.caller, a, b"user.colour", b"blue", any)
        .unwrap();
    let file = File::open(lab.from("d/a")).unwrap();
    let both = FileTimes::new()
        .set_accessed(times(5_000))
        .set_modified(times(1_000));
    file.set_times(both).unwrap();
    is_root
}

fn place(text: &str) -> files::Place {
    files::Place::from_root(text.as_bytes()).unwrap()
}

#[test]
fn a_copy_that_preserves_keeps_owners_attributes_and_times_of_access() {
    let lab = Lab::new();
    let is_root = with_owners(&lab);
    let options = Options {
        preserve: true,
        set_id: true,
        verify: Verify::None,
        ..Options::default()
    };
    let (progress, failures) = lab.copy(&lab.source(), &lab.target(), &options);
    assert_eq!(texts(&failures), [""; 0]);
    assert_eq!(progress.not_kept(), 0);
    let owner = |path: std::path::PathBuf| {
        let seen = fs::symlink_metadata(path).unwrap();
        (seen.uid(), seen.gid())
    };
    for name in ["d", "d/a", "d/link"] {
        assert_eq!(owner(lab.to(name)), owner(lab.from(name)), "{name}");
    }
    assert!(!is_root || owner(lab.to("d/link")) == (1004, 1005));
    let seen = fs::metadata(lab.to("d/a")).unwrap();
    assert_eq!(seen.mode() & 0o7777, 0o4751);
    assert_eq!(seen.accessed().unwrap(), times(5_000));
    assert_eq!(seen.modified().unwrap(), times(1_000));
    let target = lab.target();
    let a = target.lookup(&lab.caller, place("d/a")).unwrap().handle;
    let value = target.getxattr(&lab.caller, a, b"user.colour");
    assert_eq!(value.unwrap(), b"blue");
}

#[test]
fn what_the_target_does_not_permit_to_preserve_is_counted_and_set_user_id_goes_with_the_owner() {
    let lab = Lab::new();
    with_owners(&lab);
    let options = Options {
        preserve: true,
        set_id: true,
        ..Options::default()
    };
    let target = lab.odd_target(refuses_owners);
    let (progress, failures) = lab.copy(&lab.source(), &target, &options);
    assert_eq!(texts(&failures), [""; 0]);
    // Owners of a directory, a file and a link, and one attribute.
    assert_eq!(progress.not_kept(), 4);
    let seen = fs::metadata(lab.to("d/a")).unwrap();
    assert_eq!(seen.mode() & 0o7777, 0o751);
}

#[test]
fn set_user_id_is_cleared_and_counted_unless_it_is_asked_for() {
    let lab = Lab::new();
    with_owners(&lab);
    let options = Options {
        preserve: true,
        ..Options::default()
    };
    let (progress, failures) = lab.copy(&lab.source(), &lab.target(), &options);
    assert_eq!(texts(&failures), [""; 0]);
    assert_eq!(progress.not_kept(), 1);
    let seen = fs::metadata(lab.to("d/a")).unwrap();
    assert_eq!(seen.mode() & 0o7777, 0o751);
}
