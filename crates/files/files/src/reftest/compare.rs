//! Executes the same steps on a file system and on the model, and compares the results.

use std::collections::BTreeMap;
use std::fmt;

use crate::reftest::model::{Model, Outcome, Seen, Thing, Tree};
use crate::reftest::step::{SLOTS, Step, Steps};
use crate::{Attributes, Caller, Entry, Errno, FileSystem, Handle, Kind, Segment, SetAttributes};

/// A difference between a file system and the model.
#[derive(Debug)]
pub struct Mismatch {
    /// The step. For the final comparison, a text that names it.
    pub step: String,
    /// The result of the file system.
    pub found: String,
    /// The result of the model.
    pub expected: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}\n   gave {}\n  not {}",
            self.step, self.found, self.expected
        )
    }
}

/// Executes the steps, each with the client of its number, and compares all results.
///
/// # Errors
///
/// The first difference.
pub fn compare(
    clients: &[&dyn FileSystem],
    caller: &Caller,
    steps: &Steps,
) -> Result<(), Mismatch> {
    compare_but_for(clients, caller, steps, |_, _| false)
}

/// Compares through a carrier that repeats an operation whose reply was lost. A repeated create may then find the file
/// that its first attempt made.
///
/// # Errors
///
/// The first other difference.
pub fn compare_repeated(
    clients: &[&dyn FileSystem],
    caller: &Caller,
    steps: &Steps,
) -> Result<(), Mismatch> {
    compare_but_for(clients, caller, steps, is_found_again)
}

type Ended = Result<Outcome, Errno>;

fn compare_but_for(
    clients: &[&dyn FileSystem],
    caller: &Caller,
    steps: &Steps,
    is_permitted: fn(&Ended, &Ended) -> bool,
) -> Result<(), Mismatch> {
    let mut run = Run::new(clients, caller, 1);
    let mut model = Model::new(1);
    for (number, (client, step)) in steps.0.iter().enumerate() {
        if slot_of(step).is_some_and(|slot| !model.is_kept(slot)) {
            continue;
        }
        let expected = model.carry_out(step);
        let found = run.carry_out(*client, step);
        if found != expected && !is_permitted(&found, &expected) {
            let step = format!("step {number}, client {client}: {step:?}");
            return Err(Mismatch::of(step, &found, &expected));
        }
    }
    let found = tree(clients[0], caller);
    same_trees("at the end", &found, &model.tree())
}

/// Returns whether the step created a file and found it again when it was repeated. The trees are compared at the end.
pub(crate) fn is_found_again(found: &Ended, expected: &Ended) -> bool {
    match (found, expected) {
        (Ok(Outcome::Created(found, false)), Ok(Outcome::Created(expected, true))) => {
            found == expected
        }
        _ => false,
    }
}

impl Mismatch {
    pub(crate) fn of(
        step: String,
        found: &Result<Outcome, Errno>,
        expected: &Result<Outcome, Errno>,
    ) -> Self {
        Self {
            step,
            found: shown(found),
            expected: shown(expected),
        }
    }
}

/// The clients and the handles that they have.
pub(crate) struct Run<'a> {
    clients: &'a [&'a dyn FileSystem],
    caller: &'a Caller,
    /// One set of handles for all clients, or one for each client.
    slots: Vec<[Handle; SLOTS]>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(
        clients: &'a [&'a dyn FileSystem],
        caller: &'a Caller,
        sets_of_slots: usize,
    ) -> Self {
        Self {
            clients,
            caller,
            slots: vec![[Handle::ROOT; SLOTS]; sets_of_slots],
        }
    }

    fn slot(&mut self, client: usize, slot: usize) -> &mut Handle {
        let set = client % self.slots.len();
        &mut self.slots[set][slot]
    }

    pub(crate) fn carry_out(&mut self, client: usize, step: &Step) -> Result<Outcome, Errno> {
        let (files, caller) = (self.clients[client], self.caller);
        match step {
            Step::Lookup { at, slot } => {
                let entry = files.lookup(caller, at.place())?;
                *self.slot(client, *slot) = entry.handle;
                Ok(object(&entry.attributes))
            }
            Step::Create {
                at,
                mode,
                exclusive,
                slot,
            } => {
                let (entry, is_new) = files.create(caller, at.place(), *mode, *exclusive)?;
                *self.slot(client, *slot) = entry.handle;
                Ok(Outcome::Created(seen(&entry.attributes), is_new))
            }
            Step::Mkdir { at, mode, slot } => {
                let entry = files.mkdir(caller, at.place(), *mode)?;
                *self.slot(client, *slot) = entry.handle;
                Ok(object(&entry.attributes))
            }
            Step::Symlink { at, to, slot } => {
                let entry = files.symlink(caller, at.place(), to.as_bytes())?;
                *self.slot(client, *slot) = entry.handle;
                Ok(object(&entry.attributes))
            }
            Step::Link { slot, at } => {
                let handle = *self.slot(client, *slot);
                let entry = files.link(caller, handle, at.place())?;
                Ok(object(&entry.attributes))
            }
            Step::Remove { at, directory } => done(files.remove(caller, at.place(), *directory)),
            Step::Rename { from, to, mode } => {
                done(files.rename(caller, from.place(), to.place(), *mode))
            }
            other => {
                let handle = *self.slot(client, slot_of(other).unwrap_or(0));
                self.on_slot(files, handle, other)
            }
        }
    }

    fn on_slot(
        &self,
        files: &dyn FileSystem,
        handle: Handle,
        step: &Step,
    ) -> Result<Outcome, Errno> {
        let caller = self.caller;
        let set = |set| {
            files
                .setattr(caller, handle, set)
                .map(|found| object(&found))
        };
        match *step {
            Step::GetAttr { .. } => files.getattr(caller, handle).map(|found| object(&found)),
            Step::ReadLink { .. } => files.readlink(caller, handle).map(Outcome::Bytes),
            Step::Commit { .. } => done(files.commit(caller, handle, false)),
            Step::SetMode { mode, .. } => set(SetAttributes {
                mode: Some(mode),
                ..SetAttributes::default()
            }),
            Step::SetSize { size, .. } => set(SetAttributes {
                size: Some(size),
                ..SetAttributes::default()
            }),
            Step::List { page, .. } => self.list(files, handle, page),
            Step::SetXattr {
                name, value, mode, ..
            } => done(files.setxattr(caller, handle, name.as_bytes(), &[value], mode)),
            Step::GetXattr { name, .. } => {
                let value = files.getxattr(caller, handle, name.as_bytes());
                value.map(Outcome::Bytes)
            }
            Step::ListXattr { .. } => files.listxattr(caller, handle).map(names),
            Step::RemoveXattr { name, .. } => {
                done(files.removexattr(caller, handle, name.as_bytes()))
            }
            _ => self.on_content(files, handle, step),
        }
    }

    fn on_content(
        &self,
        files: &dyn FileSystem,
        handle: Handle,
        step: &Step,
    ) -> Result<Outcome, Errno> {
        match *step {
            Step::Read { offset, length, .. } => {
                let mut bytes = vec![0; length];
                let count = files.read(self.caller, handle, offset, &mut bytes)?;
                bytes.truncate(count);
                Ok(Outcome::Bytes(bytes))
            }
            Step::Write {
                offset,
                length,
                byte,
                ..
            } => {
                let bytes = vec![byte; length];
                let count = files.write(self.caller, handle, offset, &bytes)?;
                Ok(Outcome::Count(count as u64))
            }
            Step::Append { length, byte, .. } => {
                let (offset, count) = files.append(self.caller, handle, &vec![byte; length])?;
                Ok(Outcome::Appended(offset, count))
            }
            Step::Allocate {
                mode,
                offset,
                length,
                ..
            } => {
                let segment = Segment { offset, length };
                done(files.allocate(self.caller, handle, mode, segment))
            }
            _ => Err(Errno::ENOSYS),
        }
    }

    /// Returns all names of a directory in order, without `.` and `..`.
    fn list(&self, files: &dyn FileSystem, handle: Handle, page: u32) -> Result<Outcome, Errno> {
        let (mut found, mut cookie) = (Vec::new(), 0);
        // A listing with more pages than there can be names would never end.
        for _ in 0..1000 {
            let listing = files.readdir(self.caller, handle, cookie, page, true)?;
            cookie = listing.entries.last().map_or(cookie, |last| last.cookie);
            found.extend(listing.entries.into_iter().map(|entry| entry.name));
            if listing.is_end {
                found.retain(|name| name != b"." && name != b"..");
                return Ok(names(found));
            }
        }
        Err(Errno::ELOOP)
    }
}

/// Returns all objects of a file system.
pub(crate) fn tree(files: &dyn FileSystem, caller: &Caller) -> Result<Tree, Errno> {
    let (mut found, mut open) = (Tree::new(), vec![(String::new(), Handle::ROOT)]);
    let root = Entry {
        handle: Handle::ROOT,
        attributes: files.getattr(caller, Handle::ROOT)?,
    };
    let mut root = thing(files, caller, &root)?;
    root.seen.mode = None;
    found.insert(String::new(), root);
    while let Some((path, directory)) = open.pop() {
        let (mut cookie, mut is_end) = (0, false);
        while !is_end {
            let listing = files.readdir(caller, directory, cookie, 100, true)?;
            is_end = listing.is_end;
            for listed in listing.entries {
                cookie = listed.cookie;
                let Some(entry) = listed.entry else { continue };
                let path = format!("{path}{}", String::from_utf8_lossy(&listed.name));
                found.insert(path.clone(), thing(files, caller, &entry)?);
                if entry.attributes.is_directory() {
                    open.push((path + "/", entry.handle));
                }
            }
        }
    }
    Ok(found)
}

fn thing(files: &dyn FileSystem, caller: &Caller, entry: &Entry) -> Result<Thing, Errno> {
    let (handle, attributes) = (entry.handle, &entry.attributes);
    let content = match attributes.kind {
        Kind::File => {
            let mut bytes = vec![0; attributes.size as usize + 1];
            let count = files.read(caller, handle, 0, &mut bytes)?;
            bytes.truncate(count);
            bytes
        }
        Kind::Symlink => files.readlink(caller, handle)?,
        _ => Vec::new(),
    };
    let mut xattrs = BTreeMap::new();
    if attributes.kind != Kind::Symlink {
        for name in files.listxattr(caller, handle)? {
            let value = files.getxattr(caller, handle, &name)?;
            xattrs.insert(String::from_utf8_lossy(&name).into_owned(), value);
        }
    }
    assert!(
        !attributes.no_xattrs || xattrs.is_empty(),
        "{attributes:?} has {xattrs:?}"
    );
    Ok(Thing {
        seen: seen(attributes),
        content,
        xattrs,
    })
}

/// Compares the objects of a file system with those of the model.
pub(crate) fn same_trees(
    when: &str,
    found: &Result<Tree, Errno>,
    expected: &Tree,
) -> Result<(), Mismatch> {
    let differ = |step: String, found: String, expected: String| Mismatch {
        step,
        found,
        expected,
    };
    let found = found
        .as_ref()
        .map_err(|errno| differ(when.to_owned(), errno.to_string(), "a tree".to_owned()))?;
    let differs = |path: &&String| found.get(*path) != expected.get(*path);
    match found.keys().chain(expected.keys()).find(differs) {
        None => Ok(()),
        Some(path) => {
            let shown = |tree: &Tree| tree.get(path).map_or("nothing".to_owned(), summary);
            let step = format!("{when}: {path}");
            Err(differ(step, shown(found), shown(expected)))
        }
    }
}

fn summary(thing: &Thing) -> String {
    let content = Outcome::Bytes(thing.content.clone());
    format!(
        "{:?}, {}, {:?}",
        thing.seen,
        shown(&Ok(content)),
        thing.xattrs
    )
}

/// Returns the slot whose handle a step uses.
pub(crate) fn slot_of(step: &Step) -> Option<usize> {
    match *step {
        Step::GetAttr { slot }
        | Step::ReadLink { slot }
        | Step::Link { slot, .. }
        | Step::Read { slot, .. }
        | Step::Write { slot, .. }
        | Step::Append { slot, .. }
        | Step::SetSize { slot, .. }
        | Step::SetMode { slot, .. }
        | Step::Allocate { slot, .. }
        | Step::List { slot, .. }
        | Step::SetXattr { slot, .. }
        | Step::GetXattr { slot, .. }
        | Step::ListXattr { slot }
        | Step::RemoveXattr { slot, .. }
        | Step::Commit { slot } => Some(slot),
        _ => None,
    }
}

fn done(result: Result<(), Errno>) -> Result<Outcome, Errno> {
    result.map(|()| Outcome::Done)
}

fn names(mut names: Vec<Vec<u8>>) -> Outcome {
    names.sort();
    let text = |name: &Vec<u8>| String::from_utf8_lossy(name).into_owned();
    Outcome::Names(names.iter().map(text).collect())
}

fn object(attributes: &Attributes) -> Outcome {
    Outcome::Object(seen(attributes))
}

fn seen(attributes: &Attributes) -> Seen {
    let kind = attributes.kind;
    let is_directory = kind == Kind::Directory;
    Seen {
        kind,
        mode: (kind != Kind::Symlink).then_some(attributes.mode),
        size: (!is_directory).then_some(attributes.size),
        links: (!is_directory).then_some(attributes.links),
    }
}

/// Formats an outcome. Shortens long contents.
fn shown(result: &Result<Outcome, Errno>) -> String {
    match result {
        Ok(Outcome::Bytes(bytes)) if bytes.len() > 40 => {
            format!("{} bytes: {:?}…", bytes.len(), &bytes[..40])
        }
        other => format!("{other:?}"),
    }
}
