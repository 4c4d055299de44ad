//! Evidence of an operation: what the gateway saw of the files before the operation, and the outcome of the
//! operation that this shows after a crash.
//!
//! ```text
//! operation                         undone: all is as before, and      done: the only change is
//! create, mkdir, symlink, mknod     the name is free                   the name has an object of that kind
//! link                              the name is free                   the name has that object
//! remove                            the name has that object           the name is free
//! rename                            both names as before               the objects have moved
//! append                            the length is the same             those bytes stand at the old end
//! set or remove an attribute        it is (not) there                  it is (not) there, with that value
//! ```
//!
//! Any other finding is "outcome unknown". The gateway lets none of its other operations touch the names and
//! objects that show an outcome ([`Busy`](super::busy)). Programs that change the directory without the gateway
//! could falsify the evidence. So a gateway that shares its file system with others decides no outcome by the
//! files.

use files::wire::{decode_reply, decode_request, encode_reply, encode_request};
use files::{
    Attributes, Caller, Entry, Errno, FileSystem, Handle, Kind, Node, OUTCOME_UNKNOWN, Place,
    RenameMode, Reply, Request, Timestamp, XattrMode,
};

use super::busy::Key;
use super::log::{Fields, Out, Verdict};

/// The identity of an object across restarts: file system, number, and time of birth.
type Id = (u64, u64, Timestamp);

/// A function that returns the path from the root of an object with this handle.
pub(super) type PathOf<'a> = &'a dyn Fn(Handle) -> Option<Vec<u8>>;

/// The names, or the object, that an operation changes.
#[derive(Debug, Default)]
pub(super) struct Subject {
    /// Directories, each with a name in the directory.
    names: Vec<(Handle, Vec<u8>)>,
    object: Option<Handle>,
}

/// A name, and the object that had the name before the operation.
#[derive(Debug)]
struct Spot {
    directory: Id,
    path: Vec<u8>,
    name: Vec<u8>,
    before: Option<Id>,
}

/// An object, and what was seen of it before the operation: its length for an append, whether the attribute
/// exists for an operation on an attribute.
#[derive(Debug)]
struct Thing {
    id: Id,
    path: Vec<u8>,
    before: u64,
    /// Digest of the bytes that are appended.
    digest: [u8; 32],
}

#[derive(Debug, Default)]
struct Evidence {
    spots: Vec<Spot>,
    thing: Option<Thing>,
}

/// The files as a caller sees them.
struct View<'a> {
    files: &'a dyn FileSystem,
    caller: &'a Caller,
}

impl Subject {
    /// Finds out what a request will change. The result is empty if this cannot be found out; the request then
    /// probably fails.
    pub(super) fn of(files: &dyn FileSystem, caller: &Caller, request: &Request) -> Self {
        let view = View { files, caller };
        let (places, object) = match request {
            Request::Create { place, .. }
            | Request::Mkdir { place, .. }
            | Request::Symlink { place, .. }
            | Request::MakeNode { place, .. }
            | Request::Remove { place, .. } => (vec![place], None),
            Request::Rename { from, to, .. } => (vec![from, to], None),
            Request::Link { handle, place } => (vec![place], Some(*handle)),
            Request::Append { handle, .. }
            | Request::SetXattr { handle, .. }
            | Request::RemoveXattr { handle, .. } => (vec![], Some(*handle)),
            _ => return Self::default(),
        };
        let names = places.into_iter().map(|place| view.directory(place));
        match names.collect() {
            Ok(names) => Self { names, object },
            Err(_) => Self::default(),
        }
    }

    /// Returns the keys that no other operation may use meanwhile. A link needs no key of its object, because
    /// it changes nothing of the object that shows the outcome.
    pub(super) fn keys(&self) -> Vec<Key> {
        let names = self.names.iter().cloned();
        let mut keys: Vec<Key> = names.map(|(at, name)| Key::Name(at, name)).collect();
        if keys.is_empty() {
            keys.extend(self.object.map(Key::Object));
        }
        keys
    }

    /// Encodes, for the log, the request and what is seen before the request is carried out.
    pub(super) fn intent(
        &self,
        files: &dyn FileSystem,
        path_of: PathOf<'_>,
        caller: &Caller,
        request: &Request,
        data: &[u8],
    ) -> Vec<u8> {
        let view = View { files, caller };
        let spots = self.names.iter().map(|name| view.spot(name, path_of));
        let thing = self
            .object
            .map(|object| view.thing(object, path_of, request, data));
        let evidence = || {
            Some(Evidence {
                spots: spots.collect::<Option<_>>()?,
                thing: match thing {
                    None => None,
                    Some(thing) => Some(thing?),
                },
            })
        };
        let mut out = Out::default();
        out.bytes(&encode_request(caller, request));
        evidence().unwrap_or_default().put(&mut out);
        out.0
    }
}

/// Decides the outcome of a request that was under way when the gateway ended.
pub(super) fn decide_outcome(files: &dyn FileSystem, intent: &[u8]) -> Verdict {
    let found = read(intent).and_then(|(caller, request, evidence)| {
        let view = View {
            files,
            caller: &caller,
        };
        view.outcome(&request, &evidence)
    });
    found.unwrap_or_else(unknown)
}

/// Returns the verdict for a request of which nothing is known.
pub(super) fn unknown() -> Verdict {
    Verdict::Unknown(done(Err(OUTCOME_UNKNOWN)))
}

/// Replaces the handle in a reply by the handle that the object has now, if the object still has its name.
pub(super) fn refresh(
    files: &dyn FileSystem,
    intent: &[u8],
    reply: lnet_rpc::Reply,
) -> lnet_rpc::Reply {
    let fresh = || {
        let (caller, _, evidence) = read(intent)?;
        let view = View {
            files,
            caller: &caller,
        };
        let now = view.look(evidence.spots.first()?)??;
        let is_same = |old: &Entry| id(&old.attributes) == id(&now.attributes);
        match decode_reply(&reply.body).ok()?.ok()? {
            Reply::Entry(old) if is_same(&old) => Some(Reply::Entry(now)),
            Reply::Created(old, is_new) if is_same(&old) => Some(Reply::Created(now, is_new)),
            _ => None,
        }
    };
    match fresh() {
        Some(fresh) => done(Ok(fresh)),
        None => reply,
    }
}

fn done(result: Result<Reply, Errno>) -> lnet_rpc::Reply {
    lnet_rpc::Reply::ok(encode_reply(&result))
}

fn id(attributes: &Attributes) -> Id {
    (attributes.filesystem, attributes.file, attributes.born)
}

impl View<'_> {
    /// Returns the directory of a place, and the name in the directory.
    fn directory(&self, place: &Place) -> Result<(Handle, Vec<u8>), Errno> {
        let (parents, name) = place.path.split_last();
        let directory = match parents {
            None => place.directory,
            Some(path) => {
                let directory = place.directory;
                let parents = Place { directory, path };
                self.files.lookup(self.caller, parents)?.handle
            }
        };
        Ok((directory, name.to_vec()))
    }

    fn spot(&self, (directory, name): &(Handle, Vec<u8>), path_of: PathOf<'_>) -> Option<Spot> {
        let attributes = self.files.getattr(self.caller, *directory).ok()?;
        Some(Spot {
            directory: id(&attributes),
            path: path_of(*directory)?,
            name: name.clone(),
            before: self
                .named(*directory, name)?
                .map(|entry| id(&entry.attributes)),
        })
    }

    fn thing(
        &self,
        handle: Handle,
        path_of: PathOf<'_>,
        request: &Request,
        data: &[u8],
    ) -> Option<Thing> {
        let attributes = self.files.getattr(self.caller, handle).ok()?;
        Some(Thing {
            id: id(&attributes),
            path: path_of(handle)?,
            before: match request {
                Request::SetXattr { name, .. } | Request::RemoveXattr { name, .. } => {
                    u64::from(self.attribute(handle, name)?.is_some())
                }
                _ => attributes.size,
            },
            digest: blake3::hash(data).into(),
        })
    }

    /// Returns the object that has a name. The outer `None` says that this cannot be found out.
    fn named(&self, directory: Handle, name: &[u8]) -> Option<Option<Entry>> {
        let place = Place::of(directory, name).ok()?;
        match self.files.lookup(self.caller, place) {
            Ok(entry) => Some(Some(entry)),
            Err(Errno::ENOENT) => Some(None),
            Err(_) => None,
        }
    }

    fn attribute(&self, handle: Handle, name: &[u8]) -> Option<Option<Vec<u8>>> {
        match self.files.getxattr(self.caller, handle, name) {
            Ok(value) => Some(Some(value)),
            Err(Errno::ENODATA) => Some(None),
            Err(_) => None,
        }
    }

    /// Finds an object by its path from the root, if it is still the object that is expected.
    fn again(&self, path: &[u8], expected: Id) -> Option<(Handle, Attributes)> {
        let handle = match path {
            b"" => Handle::ROOT,
            path => {
                let place = Place::from_root(path).ok()?;
                self.files.lookup(self.caller, place).ok()?.handle
            }
        };
        let attributes = self.files.getattr(self.caller, handle).ok()?;
        (id(&attributes) == expected).then_some((handle, attributes))
    }

    /// Returns the object that has the name now. The outer `None` says that this cannot be found out.
    fn look(&self, spot: &Spot) -> Option<Option<Entry>> {
        let (directory, _) = self.again(&spot.path, spot.directory)?;
        self.named(directory, &spot.name)
    }

    fn outcome(&self, request: &Request, evidence: &Evidence) -> Option<Verdict> {
        match (&evidence.spots[..], &evidence.thing) {
            ([spot], thing) => {
                let now = self.look(spot)?;
                self.outcome_of_name(request, spot, thing.as_ref(), now)
            }
            ([from, to], None) => {
                let Request::Rename { mode, .. } = request else {
                    return None;
                };
                let now = (self.look(from)?, self.look(to)?);
                let ids = |(a, b): (Option<Entry>, Option<Entry>)| {
                    let id = |entry: Entry| id(&entry.attributes);
                    (a.map(id), b.map(id))
                };
                outcome_of_rename(*mode, (from.before, to.before), ids(now))
            }
            ([], Some(thing)) => {
                let (handle, attributes) = self.again(&thing.path, thing.id)?;
                self.outcome_of_object(request, thing, handle, &attributes)
            }
            _ => None,
        }
    }

    fn outcome_of_name(
        &self,
        request: &Request,
        spot: &Spot,
        object: Option<&Thing>,
        now: Option<Entry>,
    ) -> Option<Verdict> {
        if spot.before == now.map(|entry| id(&entry.attributes)) {
            return Some(Verdict::Undone);
        }
        let reply = match (request, now) {
            (Request::Remove { .. }, None) => Reply::Done,
            (Request::Remove { .. }, Some(_)) | (_, None) => return None,
            // Another object had the name before, so the request could not succeed.
            _ if spot.before.is_some() => return None,
            (Request::Create { .. }, Some(entry)) => {
                require(entry.attributes.kind == Kind::File)?;
                Reply::Created(entry, true)
            }
            (request, Some(entry)) => {
                require(self.is_made(request, object, &entry))?;
                Reply::Entry(entry)
            }
        };
        Some(Verdict::Done(done(Ok(reply))))
    }

    /// Decides whether an object is what a request makes.
    fn is_made(&self, request: &Request, object: Option<&Thing>, entry: &Entry) -> bool {
        let kind = entry.attributes.kind;
        match request {
            Request::Mkdir { .. } => kind == Kind::Directory,
            Request::MakeNode { node, .. } => match node {
                Node::Fifo => kind == Kind::Fifo,
                Node::Socket => kind == Kind::Socket,
            },
            Request::Symlink { target, .. } => {
                self.files.readlink(self.caller, entry.handle).as_ref() == Ok(target)
            }
            Request::Link { .. } => object.is_some_and(|object| object.id == id(&entry.attributes)),
            _ => false,
        }
    }

    fn outcome_of_object(
        &self,
        request: &Request,
        thing: &Thing,
        handle: Handle,
        attributes: &Attributes,
    ) -> Option<Verdict> {
        let reply = match request {
            Request::Append { length, .. } => {
                if attributes.size == thing.before {
                    return Some(Verdict::Undone);
                }
                let mut bytes = vec![0; usize::try_from(*length).ok()?];
                let count = self
                    .files
                    .read(self.caller, handle, thing.before, &mut bytes);
                require(count.ok()? == bytes.len())?;
                require(thing.digest == *blake3::hash(&bytes).as_bytes())?;
                Reply::Appended(thing.before, *length)
            }
            Request::SetXattr {
                name, value, mode, ..
            } => {
                let now = self.attribute(handle, name)?;
                match (thing.before, now) {
                    (0, None) | (1, Some(_)) => return Some(Verdict::Undone),
                    (0, Some(now)) => require(*mode == XattrMode::Create && now == *value)?,
                    _ => return None,
                }
                Reply::Done
            }
            Request::RemoveXattr { name, .. } => {
                let now = self.attribute(handle, name)?;
                match (thing.before, now) {
                    (0, None) | (1, Some(_)) => return Some(Verdict::Undone),
                    (1, None) => Reply::Done,
                    _ => return None,
                }
            }
            _ => return None,
        };
        Some(Verdict::Done(done(Ok(reply))))
    }
}

fn require(holds: bool) -> Option<()> {
    holds.then_some(())
}

fn outcome_of_rename(
    mode: RenameMode,
    before: (Option<Id>, Option<Id>),
    now: (Option<Id>, Option<Id>),
) -> Option<Verdict> {
    if now == before {
        return Some(Verdict::Undone);
    }
    let moved = match (mode, before) {
        (RenameMode::Exchange, (Some(from), Some(to))) => (Some(to), Some(from)),
        (RenameMode::Keep, (Some(from), None)) | (RenameMode::Replace, (Some(from), _)) => {
            (None, Some(from))
        }
        _ => return None,
    };
    (now == moved).then(|| Verdict::Done(done(Ok(Reply::Done))))
}

/// Decodes the bytes that [`Subject::intent`] made.
fn read(intent: &[u8]) -> Option<(Caller, Request, Evidence)> {
    let mut fields = Fields(intent);
    let (caller, request) = decode_request(fields.bytes()?).ok()?;
    let evidence = Evidence::take(&mut fields)?;
    Some((caller, request, evidence))
}

impl Evidence {
    fn put(&self, out: &mut Out) {
        // An operation has two names at most.
        out.byte(self.spots.len() as u8);
        for spot in &self.spots {
            put_id(out, spot.directory);
            out.bytes(&spot.path).bytes(&spot.name);
            out.byte(u8::from(spot.before.is_some()));
            put_id(out, spot.before.unwrap_or_default());
        }
        out.byte(u8::from(self.thing.is_some()));
        if let Some(thing) = &self.thing {
            put_id(out, thing.id);
            out.bytes(&thing.path)
                .number(thing.before)
                .bytes(&thing.digest);
        }
    }

    fn take(fields: &mut Fields<'_>) -> Option<Self> {
        let mut evidence = Self::default();
        for _ in 0..fields.byte()? {
            evidence.spots.push(Spot {
                directory: take_id(fields)?,
                path: fields.bytes()?.to_vec(),
                name: fields.bytes()?.to_vec(),
                before: {
                    let is_there = fields.byte()? == 1;
                    let id = take_id(fields)?;
                    is_there.then_some(id)
                },
            });
        }
        if fields.byte()? == 1 {
            evidence.thing = Some(Thing {
                id: take_id(fields)?,
                path: fields.bytes()?.to_vec(),
                before: fields.number()?,
                digest: fields.bytes()?.try_into().ok()?,
            });
        }
        Some(evidence)
    }
}

fn put_id(out: &mut Out, (filesystem, file, born): Id) {
    out.number(filesystem).number(file);
    out.number(born.seconds.cast_unsigned())
        .number(born.nanoseconds.into());
}

fn take_id(fields: &mut Fields<'_>) -> Option<Id> {
    let (filesystem, file) = (fields.number()?, fields.number()?);
    let seconds = fields.number()?.cast_signed();
    let nanoseconds = fields.number()?.try_into().ok()?;
    let born = Timestamp {
        seconds,
        nanoseconds,
    };
    Some((filesystem, file, born))
}
