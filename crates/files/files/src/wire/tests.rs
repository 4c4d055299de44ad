use proptest::prelude::*;

use super::*;

fn handle(byte: u8) -> Handle {
    Handle([byte; 32])
}

fn place() -> Place {
    Place::of(handle(7), b"name").unwrap()
}

fn attributes() -> Attributes {
    let time = |seconds, nanoseconds| Timestamp {
        seconds,
        nanoseconds,
    };
    Attributes {
        kind: Kind::Symlink,
        mode: 0o1755,
        links: 3,
        uid: 1000,
        gid: 100,
        size: 1 << 40,
        blocks: 9,
        block_size: 4096,
        device: 5,
        filesystem: 2049,
        file: 77,
        accessed: time(-1, 999_999_999),
        modified: time(2, 0),
        changed: time(3, 1),
        born: time(1, 2),
        no_xattrs: true,
        is_settled: false,
    }
}

/// One request of each operation, with its number on the wire.
fn requests() -> Vec<(u8, Request)> {
    let handle = handle(1);
    let mut list = vec![
        (0, Request::Null),
        (1, Request::GetAttr { handle }),
        (4, Request::ReadLink { handle }),
        (16, Request::StatFs { handle }),
        (18, Request::ListXattr { handle }),
        (25, Request::Identify),
        (26, Request::Hold { holder: 7, handle }),
        (
            27,
            Request::Renew {
                holder: 7,
                held: vec![handle; 2],
                released: vec![Handle::ROOT],
            },
        ),
        (28, lock_request(handle)),
        (29, Request::KeepLocks { holder: 7 }),
    ];
    list.extend(with_places());
    list.extend(of_attributes(handle));
    list.extend(of_content(handle));
    list
}

fn lock() -> Lock {
    Lock {
        owner: 3,
        process: 4,
        is_exclusive: true,
        first: 5,
        last: u64::MAX,
    }
}

fn lock_request(handle: Handle) -> Request {
    Request::Lock {
        holder: 7,
        sequence: 9,
        floor: 8,
        handle,
        action: LockAction::Reclaim,
        lock: lock(),
    }
}

fn of_attributes(handle: Handle) -> Vec<(u8, Request)> {
    let set = SetAttributes {
        mode: Some(0o644),
        uid: Some(1),
        gid: None,
        size: Some(7),
        accessed: Some(SetTime::Now),
        modified: Some(SetTime::To(Timestamp {
            seconds: -5,
            nanoseconds: 6,
        })),
    };
    let name = b"user.a".to_vec();
    let get = name.clone();
    let remove = name.clone();
    let set_xattr = Request::SetXattr {
        handle,
        name,
        value: vec![0, 255],
        mode: XattrMode::Replace,
    };
    vec![
        (2, Request::SetAttr { handle, set }),
        (17, Request::GetXattr { handle, name: get }),
        (19, set_xattr),
        (
            20,
            Request::RemoveXattr {
                handle,
                name: remove,
            },
        ),
    ]
}

fn of_content(handle: Handle) -> Vec<(u8, Request)> {
    let segment = segment(4096, 10);
    let segments = vec![segment; 2];
    let commit = Request::Commit {
        handle,
        data_only: true,
    };
    let list = Request::ReadDir {
        handle,
        cookie: 9,
        entries: 3,
        objects: true,
    };
    let write = Request::Write {
        handle,
        segments: segments.clone(),
    };
    let allocate = Request::Allocate {
        handle,
        mode: AllocateMode::Zero,
        segment,
    };
    vec![
        (5, commit),
        (11, list),
        (13, write),
        (14, Request::Read { handle, segments }),
        (21, allocate),
        (22, seek(handle, 5)),
        (23, Request::Append { handle, length: 12 }),
    ]
}

fn segment(offset: u64, length: u64) -> Segment {
    Segment { offset, length }
}

fn seek(handle: Handle, offset: u64) -> Request {
    Request::Seek {
        handle,
        offset,
        target: SeekTarget::Hole,
    }
}

fn with_places() -> Vec<(u8, Request)> {
    let (place, handle) = (place(), handle(1));
    let (from, to) = (place.clone(), Place::from_root(b"a/b").unwrap());
    let target = b"../x".to_vec();
    vec![
        (
            3,
            Request::Lookup {
                place: place.clone(),
            },
        ),
        (
            6,
            Request::Create {
                place: place.clone(),
                mode: 0o600,
                exclusive: true,
            },
        ),
        (
            7,
            Request::Remove {
                place: place.clone(),
                directory: Some(false),
            },
        ),
        (
            8,
            Request::Rename {
                from,
                to,
                mode: RenameMode::Exchange,
            },
        ),
        (
            9,
            Request::Symlink {
                place: place.clone(),
                target,
            },
        ),
        (
            10,
            Request::Mkdir {
                place: place.clone(),
                mode: 0o755,
            },
        ),
        (
            15,
            Request::Link {
                handle,
                place: place.clone(),
            },
        ),
        (
            24,
            Request::MakeNode {
                place,
                node: Node::Socket,
                mode: 0,
            },
        ),
    ]
}

fn replies() -> Vec<Result<Reply, Errno>> {
    let entry = Entry {
        handle: handle(3),
        attributes: attributes(),
    };
    let listed = |kind, entry| DirectoryEntry {
        name: b"n\xff".to_vec(),
        cookie: u64::MAX,
        file: 3,
        kind,
        entry,
    };
    let listing = Listing {
        entries: vec![listed(None, None), listed(Some(Kind::File), Some(entry))],
        is_end: true,
    };
    let space = Space {
        block_size: 4096,
        blocks: 1,
        blocks_free: 2,
        blocks_available: 3,
        files: 4,
        files_free: 5,
        name_max: 255,
    };
    let export = Export {
        coherent: b"scratch".to_vec(),
        read_only: true,
        as_caller: false,
        remembers: true,
        boot: 1 << 50,
    };
    vec![
        Ok(Reply::Done),
        Ok(Reply::Attributes(attributes())),
        Ok(Reply::Entry(entry)),
        Ok(Reply::Created(entry, true)),
        Ok(Reply::Bytes(b"target".to_vec())),
        Ok(Reply::Names(vec![b"user.a".to_vec(), Vec::new()])),
        Ok(Reply::Listing(listing)),
        Ok(Reply::Counts(vec![1, 0])),
        Ok(Reply::Appended(8, 5)),
        Ok(Reply::Space(space)),
        Ok(Reply::Offset(9)),
        Ok(Reply::Export(export)),
        Ok(Reply::Lock(9, LockOutcome::Done)),
        Ok(Reply::Lock(9, LockOutcome::Blocked(lock(), true))),
        Ok(Reply::Lock(9, LockOutcome::Later)),
        Err(Errno::ESTALE),
    ]
}

fn caller() -> Caller {
    Caller {
        uid: 1000,
        gid: 100,
        groups: vec![4, 27],
    }
}

#[test]
fn every_request_reads_back_and_has_its_number() {
    for (number, request) in requests() {
        let bytes = encode_request(&caller(), &request);
        assert_eq!(bytes[..2], [VERSION, number], "{}", request.name());
        assert_eq!(decode_request(&bytes), Ok((caller(), request)));
    }
}

#[test]
fn every_reply_reads_back() {
    for reply in replies() {
        assert_eq!(decode_reply(&encode_reply(&reply)), Ok(reply));
    }
}

#[test]
fn a_message_that_ends_early_or_late_is_rejected() {
    for (_, request) in requests() {
        let mut bytes = encode_request(&caller(), &request);
        for end in 0..bytes.len() {
            assert!(
                decode_request(&bytes[..end]).is_err(),
                "{request:?} cut at {end}"
            );
        }
        bytes.push(0);
        assert_eq!(decode_request(&bytes), Err(Malformed::Long));
    }
    for reply in replies() {
        let mut bytes = encode_reply(&reply);
        for end in 0..bytes.len() {
            assert!(
                decode_reply(&bytes[..end]).is_err(),
                "{reply:?} cut at {end}"
            );
        }
        bytes.push(0);
        assert_eq!(decode_reply(&bytes), Err(Malformed::Long));
    }
}

#[test]
fn another_version_and_unknown_operations_are_rejected() {
    let mut bytes = encode_request(&caller(), &Request::Null);
    bytes[1] = 12;
    assert_eq!(decode_request(&bytes), Err(Malformed::Field));
    bytes[0] = VERSION + 1;
    let other = Malformed::Version(VERSION + 1);
    assert_eq!(decode_request(&bytes), Err(other));
    assert_eq!(other.errno(), Errno::EPROTONOSUPPORT);
}

#[test]
fn a_path_in_a_request_is_checked() {
    let mut bytes = encode_request(&caller(), &Request::Lookup { place: place() });
    let at = bytes
        .windows(4)
        .position(|window| window == b"name")
        .unwrap();
    bytes[at..at + 4].copy_from_slice(b"a/..");
    assert_eq!(decode_request(&bytes), Err(Malformed::Rule(Errno::EINVAL)));
}

fn assert_rejected(request: &Request, errno: Errno) {
    assert_eq!(request.check(), Err(errno), "{request:?}");
    let bytes = encode_request(&caller(), request);
    assert_eq!(decode_request(&bytes), Err(Malformed::Rule(errno)));
}

#[test]
fn a_transfer_beyond_the_limits_has_its_error() {
    let handle = handle(1);
    let top = i64::MAX as u64;
    for (segments, errno) in [
        (vec![segment(top, 1)], Errno::EFBIG),
        (vec![segment(u64::MAX, 1)], Errno::EFBIG),
        (vec![segment(0, crate::TRANSFER_MAX + 1)], Errno::EINVAL),
        (vec![segment(0, u64::MAX), segment(0, 1)], Errno::EINVAL),
        (vec![segment(0, 0); crate::SEGMENTS_MAX + 1], Errno::EINVAL),
    ] {
        let written = segments.clone();
        assert_rejected(
            &Request::Write {
                handle,
                segments: written,
            },
            errno,
        );
        assert_rejected(&Request::Read { handle, segments }, Errno::EINVAL);
    }
    assert_rejected(&seek(handle, top + 1), Errno::ENXIO);
}

#[test]
fn a_request_beyond_the_limits_has_its_error() {
    let handle = handle(1);
    for entries in [0, crate::ENTRIES_MAX + 1] {
        let request = Request::ReadDir {
            handle,
            cookie: 0,
            entries,
            objects: false,
        };
        assert_rejected(&request, Errno::EINVAL);
    }
    let name = vec![b'x'; 256];
    assert_rejected(&Request::GetXattr { handle, name }, Errno::ERANGE);
    let (at, mode) = (place(), 0o10000);
    assert_rejected(&Request::Mkdir { place: at, mode }, Errno::EINVAL);
    for (length, errno) in [(0, Errno::ENOENT), (4096, Errno::ENAMETOOLONG)] {
        let target = vec![b'x'; length];
        let at = place();
        assert_rejected(&Request::Symlink { place: at, target }, errno);
    }
}

#[test]
fn the_longest_messages_are_within_their_limits() {
    let path = Path::new(&[&b"x/".repeat(2047)[..], b"yz"].concat()).unwrap();
    assert_eq!(path.as_bytes().len(), crate::PATH_MAX);
    let place = |path: &Path| Place {
        directory: handle(1),
        path: path.clone(),
    };
    let groups = vec![1; crate::GROUPS_MAX];
    let caller = Caller {
        uid: 1,
        gid: 1,
        groups,
    };
    let value = vec![0; crate::XATTR_MAX];
    let segments = vec![
        Segment {
            offset: 0,
            length: 1
        };
        crate::SEGMENTS_MAX
    ];
    for request in [
        Request::Rename {
            from: place(&path),
            to: place(&path),
            mode: RenameMode::Keep,
        },
        Request::SetXattr {
            handle: handle(1),
            name: vec![b'x'; 255],
            value,
            mode: XattrMode::Any,
        },
        Request::Write {
            handle: handle(1),
            segments,
        },
    ] {
        let bytes = encode_request(&caller, &request);
        assert!(
            bytes.len() <= REQUEST_MAX,
            "{} takes {}",
            request.name(),
            bytes.len()
        );
        assert!(decode_request(&bytes).is_ok());
    }
    let entry = DirectoryEntry {
        name: vec![b'x'; 255],
        cookie: 1,
        file: 1,
        kind: Some(Kind::File),
        entry: Some(Entry {
            handle: handle(1),
            attributes: attributes(),
        }),
    };
    let entries = vec![entry; crate::ENTRIES_MAX as usize];
    let listing = Listing {
        entries,
        is_end: false,
    };
    assert!(encode_reply(&Ok(Reply::Listing(listing))).len() <= REPLY_MAX);
}

proptest! {
    #[test]
    fn arbitrary_messages_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        fuzz_messages(&bytes);
    }

    #[test]
    fn damaged_messages_never_panic(which in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let mut all: Vec<Vec<u8>> = requests().iter().map(|(_, request)| encode_request(&caller(), request)).collect();
        all.extend(replies().iter().map(encode_reply));
        let which = which.index(all.len());
        let bytes = &mut all[which];
        let at = at.index(bytes.len());
        bytes[at] = to;
        fuzz_messages(bytes);
    }
}
