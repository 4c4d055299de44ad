//! The same steps on a file system and on the model.

use std::fmt;

use files::{Attributes, Caller, Errno, FileSystem, Handle, Kind, Place, Segment, SetAttributes};

use crate::model::{Model, Outcome, Seen};
use crate::step::{SLOTS, Step, Steps};

/// Where a file system and the model differ.
#[derive(Debug)]
pub struct Mismatch {
    /// What was done; nothing for the comparison at the end.
    pub step: String,
    /// What the file system gave.
    pub found: String,
    /// What the model gave.
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

/// Carries the steps out, each by the client with its number, and compares.
///
/// # Errors
///
/// The first difference.
pub fn compare(
    clients: &[&dyn FileSystem],
    caller: &Caller,
    steps: &Steps,
) -> Result<(), Mismatch> {
    let mut run = Run {
        clients,
        caller,
        slots: [Handle::ROOT; SLOTS],
    };
    let mut model = Model::new();
    for (number, (client, step)) in steps.0.iter().enumerate() {
        if slot_of(step).is_some_and(|slot| !model.is_kept(slot)) {
            continue;
        }
        let expected = model.carry_out(step);
        let found = run.carry_out(*client, step);
        if found != expected {
            return Err(Mismatch {
                step: format!("step {number}, client {client}: {step:?}"),
                found: shown(&found),
                expected: shown(&expected),
            });
        }
    }
    run.compare_trees(&model)
}

struct Run<'a> {
    clients: &'a [&'a dyn FileSystem],
    caller: &'a Caller,
    slots: [Handle; SLOTS],
}

impl Run<'_> {
    fn carry_out(&mut self, client: usize, step: &Step) -> Result<Outcome, Errno> {
        let (files, caller) = (self.clients[client], self.caller);
        match step {
            Step::Lookup { at, slot } => {
                let entry = files.lookup(caller, at.place())?;
                self.slots[*slot] = entry.handle;
                Ok(object(&entry.attributes))
            }
            Step::Create {
                at,
                mode,
                exclusive,
                slot,
            } => {
                let (entry, is_new) = files.create(caller, at.place(), *mode, *exclusive)?;
                self.slots[*slot] = entry.handle;
                Ok(Outcome::Created(seen(&entry.attributes), is_new))
            }
            Step::Mkdir { at, mode, slot } => {
                let entry = files.mkdir(caller, at.place(), *mode)?;
                self.slots[*slot] = entry.handle;
                Ok(object(&entry.attributes))
            }
            Step::Symlink { at, to, slot } => {
                let entry = files.symlink(caller, at.place(), to.as_bytes())?;
                self.slots[*slot] = entry.handle;
                Ok(object(&entry.attributes))
            }
            Step::Link { slot, at } => {
                let entry = files.link(caller, self.slots[*slot], at.place())?;
                Ok(object(&entry.attributes))
            }
            Step::Remove { at, directory } => done(files.remove(caller, at.place(), *directory)),
            Step::Rename { from, to, mode } => {
                done(files.rename(caller, from.place(), to.place(), *mode))
            }
            other => self.on_slot(files, other),
        }
    }

    fn on_slot(&self, files: &dyn FileSystem, step: &Step) -> Result<Outcome, Errno> {
        let (caller, handle) = (self.caller, self.slots[slot_of(step).unwrap_or(0)]);
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

    /// All names of a directory, `.` and `..` apart, in their order.
    fn list(&self, files: &dyn FileSystem, handle: Handle, page: u32) -> Result<Outcome, Errno> {
        let (mut found, mut cookie) = (Vec::new(), 0);
        // More pages than there are names mean that the listing does not end.
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

    fn compare_trees(&self, model: &Model) -> Result<(), Mismatch> {
        for thing in model.everything() {
            let (path, expected) = (thing.path.join("/"), thing.seen);
            let differ = |found: String, expected: String| Mismatch {
                step: format!("at the end: {path}"),
                found,
                expected,
            };
            let files = self.clients[0];
            let entry = Place::from_root(path.as_bytes())
                .and_then(|place| files.lookup(self.caller, place))
                .map_err(|errno| differ(errno.to_string(), format!("{expected:?}")))?;
            let found = seen(&entry.attributes);
            if found != expected {
                return Err(differ(format!("{found:?}"), format!("{expected:?}")));
            }
            let Some(content) = thing.content else {
                continue;
            };
            let mut bytes = vec![0; content.len() + 1];
            let count = files.read(self.caller, entry.handle, 0, &mut bytes);
            if count != Ok(content.len()) || bytes[..content.len()] != content {
                return Err(differ(format!("other content, {count:?}"), String::new()));
            }
        }
        Ok(())
    }
}

/// The slot whose handle a step uses.
fn slot_of(step: &Step) -> Option<usize> {
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

/// Long contents are cut.
fn shown(result: &Result<Outcome, Errno>) -> String {
    match result {
        Ok(Outcome::Bytes(bytes)) if bytes.len() > 40 => {
            format!("{} bytes: {:?}…", bytes.len(), &bytes[..40])
        }
        other => format!("{other:?}"),
    }
}
