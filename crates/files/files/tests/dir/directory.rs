//! The results of each operation, valid and invalid, on a directory.

#![expect(clippy::unwrap_used, reason = "test code")]

use std::fs;
use std::io::{IoSlice, IoSliceMut};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path as FilePath;

use files::dir::{Identity, LocalDirectory, Options, Squash};
use files::{
    AllocateMode, Caller, Data, Entry, Errno, FileSystem, Handle, Kind, Node, Place, RenameMode,
    Reply, Request, SeekTarget, Segment, SetAttributes, SetTime, Timestamp, XattrMode,
};
use tempfile::TempDir;

struct Fixture {
    directory: TempDir,
    files: LocalDirectory,
    caller: Caller,
}

fn with(options: Options) -> Fixture {
    let directory = TempDir::new().unwrap();
    let files = LocalDirectory::open(directory.path(), options).unwrap();
    Fixture {
        directory,
        files,
        caller: Caller::default(),
    }
}

fn at(path: &str) -> Place {
    Place::from_root(path.as_bytes()).unwrap()
}

impl Fixture {
    fn new() -> Self {
        with(Options::default())
    }

    fn path(&self) -> &FilePath {
        self.directory.path()
    }

    fn create(&self, path: &str) -> Handle {
        let made = self.files.create(&self.caller, at(path), 0o644, true);
        made.unwrap().0.handle
    }

    fn file(&self, path: &str, content: &[u8]) -> Handle {
        let handle = self.create(path);
        let count = self.files.write(&self.caller, handle, 0, content);
        assert_eq!(count, Ok(content.len()));
        handle
    }

    fn mkdir(&self, path: &str) -> Handle {
        let made = self.files.mkdir(&self.caller, at(path), 0o755);
        made.unwrap().handle
    }

    fn lookup(&self, path: &str) -> Result<Entry, Errno> {
        self.files.lookup(&self.caller, at(path))
    }

    fn content(&self, handle: Handle) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; 100];
        let count = self.files.read(&self.caller, handle, 0, &mut bytes)?;
        bytes.truncate(count);
        Ok(bytes)
    }

    fn rename(&self, from: &str, to: &str, mode: RenameMode) -> Result<(), Errno> {
        self.files.rename(&self.caller, at(from), at(to), mode)
    }

    fn remove(&self, path: &str, directory: Option<bool>) -> Result<(), Errno> {
        self.files.remove(&self.caller, at(path), directory)
    }
}

#[test]
fn what_was_written_is_read_back_and_stands_on_the_disk() {
    let fixture = Fixture::new();
    let handle = fixture.file("a", b"hello world");
    assert_eq!(fixture.content(handle), Ok(b"hello world".to_vec()));
    assert_eq!(fs::read(fixture.path().join("a")).unwrap(), b"hello world");
    let attributes = fixture.files.getattr(&fixture.caller, handle).unwrap();
    assert_eq!((attributes.kind, attributes.size), (Kind::File, 11));
    assert_eq!(fixture.files.commit(&fixture.caller, handle, false), Ok(()));
    assert_eq!(
        fixture.files.commit(&fixture.caller, Handle::ROOT, true),
        Ok(())
    );
}

#[test]
fn segments_of_memory_and_of_the_file_are_independent() {
    let fixture = Fixture::new();
    let handle = fixture.create("a");
    let segments = vec![
        Segment {
            offset: 10,
            length: 3,
        },
        Segment {
            offset: 0,
            length: 0,
        },
        Segment {
            offset: 0,
            length: 5,
        },
    ];
    let memory = [
        IoSlice::new(b"abcd"),
        IoSlice::new(b""),
        IoSlice::new(b"efgh"),
    ];
    let request = Request::Write {
        handle,
        segments: segments.clone(),
    };
    let written = fixture
        .files
        .call(&fixture.caller, &request, Data::Write(&memory));
    assert_eq!(written, Ok(Reply::Counts(vec![3, 0, 5])));
    assert_eq!(fixture.content(handle), Ok(b"defgh\0\0\0\0\0abc".to_vec()));

    let (mut first, mut second) = ([0; 1], [0; 7]);
    let mut memory = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
    let request = Request::Read { handle, segments };
    let read = fixture
        .files
        .call(&fixture.caller, &request, Data::Read(&mut memory));
    assert_eq!(read, Ok(Reply::Counts(vec![3, 0, 5])));
    assert_eq!((&first, &second), (b"a", b"bcdefgh"));
}

#[test]
fn a_read_is_short_at_the_end_and_does_not_move_the_next_segment() {
    let fixture = Fixture::new();
    let handle = fixture.file("a", b"0123456789");
    let segments = vec![
        Segment {
            offset: 8,
            length: 5,
        },
        Segment {
            offset: 1,
            length: 2,
        },
    ];
    let mut memory = [b'x'; 7];
    let request = Request::Read { handle, segments };
    let mut list = [IoSliceMut::new(&mut memory)];
    let read = fixture
        .files
        .call(&fixture.caller, &request, Data::Read(&mut list));
    assert_eq!(read, Ok(Reply::Counts(vec![2, 2])));
    assert_eq!((&memory[..2], &memory[5..]), (&b"89"[..], &b"12"[..]));
}

#[test]
fn memory_that_does_not_fit_the_request_is_refused() {
    let fixture = Fixture::new();
    let handle = fixture.create("a");
    let segments = vec![Segment {
        offset: 0,
        length: 2,
    }];
    let request = Request::Write { handle, segments };
    let short = [IoSlice::new(b"a")];
    for data in [Data::None, Data::Write(&short)] {
        assert_eq!(
            fixture.files.call(&fixture.caller, &request, data),
            Err(Errno::EINVAL)
        );
    }
}

#[test]
fn appending_tells_where_the_bytes_went() {
    let fixture = Fixture::new();
    let handle = fixture.file("a", b"12345");
    assert_eq!(
        fixture.files.append(&fixture.caller, handle, b"67"),
        Ok((5, 2))
    );
    assert_eq!(
        fixture.files.append(&fixture.caller, handle, b"8"),
        Ok((7, 1))
    );
    assert_eq!(
        fixture.files.append(&fixture.caller, handle, b""),
        Ok((8, 0))
    );
    assert_eq!(fixture.content(handle), Ok(b"12345678".to_vec()));
}

#[test]
fn create_gives_an_existing_file_unless_it_is_exclusive() {
    let fixture = Fixture::new();
    let handle = fixture.file("a", b"x");
    let again = fixture
        .files
        .create(&fixture.caller, at("a"), 0o600, false)
        .unwrap();
    assert_eq!((again.0.handle, again.1), (handle, false));
    let exclusive = fixture.files.create(&fixture.caller, at("a"), 0o600, true);
    assert_eq!(exclusive, Err(Errno::EEXIST));
    fixture.mkdir("d");
    let directory = fixture.files.create(&fixture.caller, at("d"), 0o600, false);
    assert_eq!(directory, Err(Errno::EISDIR));
}

#[test]
fn the_handle_of_a_removed_file_is_stale_and_that_of_a_hard_link_is_not() {
    let fixture = Fixture::new();
    let handle = fixture.file("a", b"x");
    fixture
        .files
        .link(&fixture.caller, handle, at("b"))
        .unwrap();
    fixture.remove("a", None).unwrap();
    assert_eq!(fixture.content(handle), Ok(b"x".to_vec()));
    fixture.remove("b", Some(false)).unwrap();
    assert_eq!(fixture.content(handle), Err(Errno::ESTALE));
}

#[test]
fn a_file_that_was_replaced_by_a_rename_is_stale_and_the_new_one_keeps_its_handle() {
    let fixture = Fixture::new();
    let (old, new) = (fixture.file("old", b"o"), fixture.file("new", b"n"));
    fixture.rename("new", "old", RenameMode::Replace).unwrap();
    assert_eq!(fixture.content(old), Err(Errno::ESTALE));
    assert_eq!(fixture.content(new), Ok(b"n".to_vec()));
    assert_eq!(fixture.lookup("old").unwrap().handle, new);
}

#[test]
fn rename_keeps_or_exchanges_where_it_shall() {
    let fixture = Fixture::new();
    let (a, d) = (fixture.file("a", b"a"), fixture.mkdir("d"));
    fixture.file("d/x", b"x");
    assert_eq!(
        fixture.rename("a", "d", RenameMode::Keep),
        Err(Errno::EEXIST)
    );
    fixture.rename("a", "d", RenameMode::Exchange).unwrap();
    assert_eq!(fixture.lookup("d").unwrap().handle, a);
    assert_eq!(fixture.lookup("a").unwrap().handle, d);
    assert_eq!(fixture.lookup("a/x").unwrap().attributes.size, 1);
    assert_eq!(
        fixture.rename("a", "none", RenameMode::Exchange),
        Err(Errno::ENOENT)
    );
}

#[test]
fn handles_hold_without_descriptors_also_after_renames() {
    let fixture = with(Options {
        descriptors_max: 1,
        ..Options::default()
    });
    fixture.mkdir("d");
    fixture.mkdir("d/e");
    let handle = fixture.file("d/e/f", b"x");
    fixture.rename("d", "c", RenameMode::Replace).unwrap();
    fixture.rename("c/e/f", "c/g", RenameMode::Replace).unwrap();
    for other in 0..5 {
        fixture.create(&format!("other{other}"));
    }
    assert_eq!(fixture.content(handle), Ok(b"x".to_vec()));
}

#[test]
fn what_others_replaced_is_stale() {
    let fixture = with(Options {
        descriptors_max: 1,
        ..Options::default()
    });
    let handle = fixture.file("a", b"x");
    fixture.create("other");
    fs::rename(fixture.path().join("a"), fixture.path().join("away")).unwrap();
    fs::write(fixture.path().join("a"), b"new").unwrap();
    assert_eq!(fixture.content(handle), Err(Errno::ESTALE));
}

#[test]
fn handles_of_an_earlier_start_are_stale_and_the_root_is_not() {
    let fixture = Fixture::new();
    let handle = fixture.file("a", b"x");
    let again = LocalDirectory::open(fixture.path(), Options::default()).unwrap();
    assert_eq!(again.getattr(&fixture.caller, handle), Err(Errno::ESTALE));
    assert!(again.getattr(&fixture.caller, Handle::ROOT).is_ok());
}

#[test]
fn no_operation_follows_a_link_out_of_the_directory() {
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("secret"), b"s").unwrap();
    let fixture = Fixture::new();
    symlink(outside.path(), fixture.path().join("out")).unwrap();
    symlink(outside.path().join("secret"), fixture.path().join("file")).unwrap();
    let caller = &fixture.caller;

    assert_eq!(fixture.lookup("out/secret"), Err(Errno::ELOOP));
    let made = fixture.files.create(caller, at("out/new"), 0o644, false);
    assert_eq!(made, Err(Errno::ELOOP));
    assert_eq!(fixture.remove("out/secret", None), Err(Errno::ELOOP));
    assert_eq!(
        fixture.rename("out/secret", "x", RenameMode::Replace),
        Err(Errno::ELOOP)
    );
    let link = fixture.lookup("file").unwrap();
    assert_eq!(link.attributes.kind, Kind::Symlink);
    assert_eq!(fixture.content(link.handle), Err(Errno::EINVAL));
    assert_eq!(
        fixture.files.write(caller, link.handle, 0, b"x"),
        Err(Errno::EINVAL)
    );
    let made = fixture.files.create(caller, at("file"), 0o644, false);
    assert_eq!(made, Err(Errno::EEXIST));
    let below = Place::of(fixture.lookup("out").unwrap().handle, b"secret").unwrap();
    assert_eq!(fixture.files.lookup(caller, below), Err(Errno::ELOOP));
    assert_eq!(fs::read(outside.path().join("secret")).unwrap(), b"s");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn a_directory_that_became_a_link_between_look_up_and_use_leads_nowhere_else() {
    let outside = TempDir::new().unwrap();
    for descriptors_max in [1, 100] {
        let fixture = with(Options {
            descriptors_max,
            ..Options::default()
        });
        let directory = fixture.mkdir("d");
        fixture.create("other");
        fs::rename(fixture.path().join("d"), fixture.path().join("moved")).unwrap();
        symlink(outside.path(), fixture.path().join("d")).unwrap();
        let place = Place::of(directory, b"x").unwrap();
        let made = fixture.files.create(&fixture.caller, place, 0o644, true);
        match descriptors_max {
            1 => assert_eq!(made.unwrap_err(), Errno::ESTALE),
            _ => assert!(fixture.path().join("moved/x").exists()),
        }
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }
}

#[test]
fn each_bad_operation_has_its_error() {
    let fixture = Fixture::new();
    let (caller, files) = (&fixture.caller, &fixture.files);
    let file = fixture.file("f", b"x");
    let directory = fixture.mkdir("d");
    fixture.create("d/x");
    assert_eq!(fixture.lookup("none"), Err(Errno::ENOENT));
    assert_eq!(fixture.lookup("f/x"), Err(Errno::ENOTDIR));
    assert_eq!(files.mkdir(caller, at("d"), 0o755), Err(Errno::EEXIST));
    assert_eq!(files.mkdir(caller, at("none/d"), 0o755), Err(Errno::ENOENT));
    assert_eq!(fixture.remove("d", None), Err(Errno::ENOTEMPTY));
    assert_eq!(fixture.remove("d", Some(false)), Err(Errno::EISDIR));
    assert_eq!(fixture.remove("f", Some(true)), Err(Errno::ENOTDIR));
    assert_eq!(fixture.remove("none", None), Err(Errno::ENOENT));
    assert_eq!(
        fixture.rename("d", "d/e", RenameMode::Replace),
        Err(Errno::EINVAL)
    );
    assert_eq!(
        fixture.rename("f", "d", RenameMode::Replace),
        Err(Errno::EISDIR)
    );
    assert_eq!(
        fixture.rename("d", "f", RenameMode::Replace),
        Err(Errno::ENOTDIR)
    );
    assert_eq!(files.link(caller, directory, at("l")), Err(Errno::EPERM));
    assert_eq!(files.link(caller, file, at("d")), Err(Errno::EEXIST));
    assert_eq!(files.symlink(caller, at("f"), b"x"), Err(Errno::EEXIST));
    assert_eq!(files.readlink(caller, file), Err(Errno::EINVAL));
    assert_eq!(fixture.content(directory), Err(Errno::EISDIR));
    assert_eq!(files.write(caller, directory, 0, b"x"), Err(Errno::EISDIR));
    assert_eq!(
        files.readdir(caller, file, 0, 1, false),
        Err(Errno::ENOTDIR)
    );
    let far = i64::MAX as u64;
    assert_eq!(files.write(caller, file, far, b"x"), Err(Errno::EFBIG));
    assert_eq!(files.write(caller, file, far - 1, b"x"), Err(Errno::EFBIG));
    let removed = files.removexattr(caller, file, b"user.none");
    assert_eq!(removed, Err(Errno::ENODATA));
    let trusted = files.setxattr(caller, file, b"trusted.x", b"", XattrMode::Any);
    assert_eq!(trusted, Err(Errno::EOPNOTSUPP));
}

#[test]
fn a_directory_is_listed_page_by_page() {
    let fixture = Fixture::new();
    let names: Vec<String> = (0..50).map(|number| format!("file-{number}")).collect();
    for name in &names {
        fixture.create(name);
    }
    for page in [1, 3, 1024] {
        let (mut found, mut cookie) = (Vec::new(), 0);
        loop {
            let listing = fixture
                .files
                .readdir(&fixture.caller, Handle::ROOT, cookie, page, true)
                .unwrap();
            assert!(listing.entries.len() <= page as usize);
            for entry in &listing.entries {
                let own = matches!(&entry.name[..], b"." | b"..");
                assert_eq!(entry.entry.is_none(), own);
                assert!(
                    entry
                        .entry
                        .is_none_or(|object| object.attributes.file == entry.file)
                );
            }
            cookie = listing.entries.last().map_or(cookie, |last| last.cookie);
            found.extend(listing.entries);
            if listing.is_end {
                break;
            }
        }
        let mut found: Vec<_> = found
            .into_iter()
            .map(|entry| String::from_utf8(entry.name).unwrap())
            .collect();
        found.sort();
        let mut expected: Vec<String> = names.clone();
        expected.extend([".".to_owned(), "..".to_owned()]);
        expected.sort();
        assert_eq!(found, expected, "pages of {page}");
    }
}

#[test]
fn the_root_does_not_tell_what_is_above_it() {
    let fixture = Fixture::new();
    let listing = fixture
        .files
        .readdir(&fixture.caller, Handle::ROOT, 0, 10, false)
        .unwrap();
    let above = listing
        .entries
        .iter()
        .find(|entry| entry.name == b"..")
        .unwrap();
    assert_eq!(above.file, fs::metadata(fixture.path()).unwrap().ino());
}

#[test]
fn attributes_are_set() {
    let fixture = Fixture::new();
    let handle = fixture.file("a", b"0123456789");
    let time = Timestamp {
        seconds: -86_400,
        nanoseconds: 5,
    };
    let set = SetAttributes {
        mode: Some(0o4711),
        size: Some(4),
        accessed: Some(SetTime::Now),
        modified: Some(SetTime::To(time)),
        ..SetAttributes::default()
    };
    let attributes = fixture.files.setattr(&fixture.caller, handle, set).unwrap();
    assert_eq!((attributes.mode, attributes.size), (0o4711, 4));
    assert_eq!(attributes.modified, time);
    assert!(attributes.accessed.seconds > 0);
    assert_eq!(fixture.content(handle), Ok(b"0123".to_vec()));
}

#[test]
fn symbolic_links_pipes_and_sockets_are_objects() {
    let fixture = Fixture::new();
    let link = fixture
        .files
        .symlink(&fixture.caller, at("l"), b"../any where\xff")
        .unwrap();
    assert_eq!(
        fixture.files.readlink(&fixture.caller, link.handle),
        Ok(b"../any where\xff".to_vec())
    );
    for (name, node, kind) in [
        ("p", Node::Fifo, Kind::Fifo),
        ("s", Node::Socket, Kind::Socket),
    ] {
        let made = fixture
            .files
            .mknod(&fixture.caller, at(name), node, 0o600)
            .unwrap();
        assert_eq!(made.attributes.kind, kind);
        assert_eq!(fixture.content(made.handle), Err(Errno::EINVAL));
    }
}

#[test]
fn extended_attributes_are_kept() {
    let fixture = Fixture::new();
    let (handle, caller) = (fixture.create("a"), &fixture.caller);
    let set = |value: &[u8], mode| {
        fixture
            .files
            .setxattr(caller, handle, b"user.k", value, mode)
    };
    assert_eq!(set(b"1", XattrMode::Replace), Err(Errno::ENODATA));
    assert_eq!(set(b"1", XattrMode::Create), Ok(()));
    assert_eq!(set(b"2", XattrMode::Create), Err(Errno::EEXIST));
    assert_eq!(set(b"22", XattrMode::Any), Ok(()));
    assert_eq!(
        fixture.files.getxattr(caller, handle, b"user.k"),
        Ok(b"22".to_vec())
    );
    assert_eq!(
        fixture.files.listxattr(caller, handle),
        Ok(vec![b"user.k".to_vec()])
    );
    assert_eq!(fixture.files.removexattr(caller, handle, b"user.k"), Ok(()));
    assert_eq!(fixture.files.listxattr(caller, handle), Ok(Vec::new()));
}

#[test]
fn space_is_taken_and_given_back_and_holes_are_found() {
    let fixture = Fixture::new();
    let (handle, caller) = (fixture.create("a"), &fixture.caller);
    let segment = |offset, length| Segment { offset, length };
    let seek = |offset, target| fixture.files.seek(caller, handle, offset, target);
    fixture.files.write(caller, handle, 1 << 20, b"x").unwrap();
    assert_eq!(seek(0, SeekTarget::Data), Ok(1 << 20));
    assert_eq!(seek(0, SeekTarget::Hole), Ok(0));
    assert_eq!(seek(1 << 21, SeekTarget::Data), Err(Errno::ENXIO));
    let whole = segment(0, 1 << 21);
    fixture
        .files
        .allocate(caller, handle, AllocateMode::PunchHole, whole)
        .unwrap();
    assert_eq!(seek(0, SeekTarget::Data), Err(Errno::ENXIO));
    fixture
        .files
        .allocate(caller, handle, AllocateMode::Extend, segment(0, 1 << 21))
        .unwrap();
    assert_eq!(fixture.files.getattr(caller, handle).unwrap().size, 1 << 21);
}

#[test]
fn the_file_system_tells_how_full_it_is() {
    let fixture = Fixture::new();
    let space = fixture.files.statfs(&fixture.caller, Handle::ROOT).unwrap();
    assert!(space.blocks >= space.blocks_free && space.block_size > 0);
    assert_eq!(space.name_max, 255);
}

#[test]
fn a_read_only_directory_refuses_every_change() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("f"), b"x").unwrap();
    let options = Options {
        read_only: true,
        ..Options::default()
    };
    let files = LocalDirectory::open(directory.path(), options).unwrap();
    let caller = Caller::default();
    let file = files.lookup(&caller, at("f")).unwrap().handle;
    let refused = Err(Errno::EROFS);
    assert_eq!(files.write(&caller, file, 0, b"y"), Err(Errno::EROFS));
    assert_eq!(files.append(&caller, file, b"y"), Err(Errno::EROFS));
    assert_eq!(files.remove(&caller, at("f"), None), refused);
    assert_eq!(
        files.rename(&caller, at("f"), at("g"), RenameMode::Keep),
        refused
    );
    assert_eq!(files.create(&caller, at("f"), 0, false), Err(Errno::EROFS));
    assert_eq!(
        files.setattr(&caller, file, SetAttributes::default()),
        Err(Errno::EROFS)
    );
    assert_eq!(
        files.setxattr(&caller, file, b"user.a", b"", XattrMode::Any),
        refused
    );
    assert_eq!(files.read(&caller, file, 0, &mut [0; 9]), Ok(1));
}

#[test]
fn operations_run_as_the_caller_where_configured() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        testkit::absent("root, who may act as others");
        return;
    }
    let identity = Identity::Caller {
        squash: Squash::Root,
        uid: 65534,
        gid: 65534,
    };
    let fixture = with(Options {
        identity,
        ..Options::default()
    });
    fs::set_permissions(fixture.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let caller = |uid| Caller {
        uid,
        gid: 100,
        groups: vec![7],
    };
    let (one, other, root) = (caller(1000), caller(1001), Caller::default());

    let file = fixture.files.create(&one, at("f"), 0o444, true).unwrap().0;
    assert_eq!((file.attributes.uid, file.attributes.gid), (1000, 100));
    // The creator may write to the file despite its bits. No other user may, not even root.
    assert_eq!(fixture.files.write(&one, file.handle, 0, b"x"), Ok(1));
    assert_eq!(
        fixture.files.write(&other, file.handle, 0, b"y"),
        Err(Errno::EACCES)
    );
    assert_eq!(
        fixture.files.write(&root, file.handle, 0, b"y"),
        Err(Errno::EACCES)
    );
    let by_root = fixture.files.mkdir(&root, at("d"), 0o700).unwrap();
    assert_eq!(by_root.attributes.uid, 65534);
    let below = Place::of(by_root.handle, b"x").unwrap();
    assert_eq!(fixture.files.mkdir(&one, below, 0o755), Err(Errno::EACCES));
    let mode = SetAttributes {
        mode: Some(0o777),
        ..SetAttributes::default()
    };
    assert_eq!(
        fixture.files.setattr(&other, file.handle, mode),
        Err(Errno::EPERM)
    );
    // A supplementary group of the caller counts.
    let group = SetAttributes {
        gid: Some(7),
        ..SetAttributes::default()
    };
    assert_eq!(
        fixture.files.setattr(&one, file.handle, group).unwrap().gid,
        7
    );
    // This thread has its own identity again.
    assert!(fs::write(fixture.path().join("d/own"), b"x").is_ok());
}

#[test]
fn a_directory_that_is_none_is_refused() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("f");
    fs::write(&file, b"x").unwrap();
    for path in [&file, &directory.path().join("none")] {
        let error = LocalDirectory::open(path, Options::default())
            .err()
            .unwrap();
        assert!(
            error.to_string().starts_with(path.to_str().unwrap()),
            "{error}"
        );
    }
}

#[test]
fn threads_that_make_the_same_file_agree_on_who_made_it() {
    let fixture = Fixture::new();
    for round in 0..50 {
        let name = format!("f{round}");
        let made: Vec<bool> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        fixture
                            .files
                            .create(&fixture.caller, at(&name), 0o644, false)
                            .unwrap()
                            .1
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        assert_eq!(made.iter().filter(|is_new| **is_new).count(), 1);
    }
}

#[test]
fn a_held_file_is_used_after_its_last_name_until_it_is_released() {
    let few = Options {
        descriptors_max: 2,
        ..Options::default()
    };
    for how in ["remove", "replace"] {
        let fixture = with(few);
        let (files, caller) = (&fixture.files, &fixture.caller);
        let handle = fixture.file("a", b"content");
        let other = fixture.file("b", b"other");
        let seen = files.hold(caller, 1, handle).unwrap();
        assert_eq!(seen.size, 7);
        match how {
            "remove" => files.remove(caller, at("a"), Some(false)),
            _ => files.rename(caller, at("b"), at("a"), RenameMode::Replace),
        }
        .unwrap();
        for number in 0..10 {
            fixture.file(&format!("c{number}"), b"");
        }
        let mut content = [0; 7];
        assert_eq!(files.read(caller, handle, 0, &mut content), Ok(7), "{how}");
        assert_eq!(&content, b"content");
        assert_eq!(files.write(caller, handle, 7, b"!"), Ok(1));
        assert_eq!(files.getattr(caller, handle).unwrap().size, 8);
        let renew = |held: &[Handle], released: &[Handle]| {
            let request = Request::Renew {
                holder: 1,
                held: held.to_vec(),
                released: released.to_vec(),
            };
            assert_eq!(files.call(caller, &request, Data::None), Ok(Reply::Done));
        };
        renew(&[handle], &[other]);
        assert!(files.getattr(caller, handle).is_ok());
        renew(&[], &[handle]);
        assert_eq!(files.getattr(caller, handle), Err(Errno::ESTALE), "{how}");
    }
}

#[test]
fn a_file_that_is_not_held_is_stale_after_its_last_name() {
    let fixture = Fixture::new();
    let (files, caller) = (&fixture.files, &fixture.caller);
    let handle = fixture.file("a", b"content");
    files.remove(caller, at("a"), Some(false)).unwrap();
    assert_eq!(files.getattr(caller, handle), Err(Errno::ESTALE));
    assert_eq!(files.hold(caller, 1, handle), Err(Errno::ESTALE));
}

#[test]
fn one_client_cannot_hold_everything() {
    let fixture = with(Options {
        held_max: 16,
        ..Options::default()
    });
    let (files, caller) = (&fixture.files, &fixture.caller);
    let handles: Vec<Handle> = (0..3).map(|n| fixture.file(&n.to_string(), b"")).collect();
    assert!(files.hold(caller, 1, handles[0]).is_ok());
    assert!(files.hold(caller, 1, handles[1]).is_ok());
    assert_eq!(files.hold(caller, 1, handles[2]), Err(Errno::ENFILE));
    assert!(files.hold(caller, 2, handles[2]).is_ok());
}
