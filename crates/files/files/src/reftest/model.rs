//! The model: a tree in memory that behaves like a Linux file system.

use std::collections::BTreeMap;

use crate::reftest::step::{SLOTS, Step, Target};
use crate::{AllocateMode, Errno, RenameMode, XattrMode};

/// The outcome of a step, as far as the model determines it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Success without further information.
    Done,
    /// An object.
    Object(Seen),
    /// A file, and whether the step created it.
    Created(Seen, bool),
    /// Contents, the target of a link, or the value of an extended attribute.
    Bytes(Vec<u8>),
    /// Names in order.
    Names(Vec<String>),
    /// Number of bytes written.
    Count(u64),
    /// Offset and number of the appended bytes.
    Appended(u64, u64),
}

/// The attributes of an object that the comparison uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) kind: crate::Kind,
    pub(crate) mode: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) links: Option<u32>,
}

/// An object of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Thing {
    pub(crate) seen: Seen,
    /// The contents of a file, or the target of a link.
    pub(crate) content: Vec<u8>,
    pub(crate) xattrs: BTreeMap<String, Vec<u8>>,
}

/// All objects by path. The mode of the root is ignored.
pub(crate) type Tree = BTreeMap<String, Thing>;

#[derive(Clone, Debug)]
enum Content {
    File(Vec<u8>),
    Directory(BTreeMap<&'static str, usize>),
    Symlink(&'static str),
}

#[derive(Clone, Debug)]
struct Node {
    content: Content,
    mode: u32,
    links: u32,
    xattrs: BTreeMap<&'static str, u8>,
}

const ROOT: usize = 0;

/// The tree. Objects are never removed from memory, so that each number always means the same
/// object.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    nodes: Vec<Node>,
    /// One set of slots for each client with handles of its own.
    slots: Vec<[Option<usize>; SLOTS]>,
    /// The client of the current step.
    client: usize,
}

type Result<T> = std::result::Result<T, Errno>;

impl Model {
    /// Makes an empty root with a set of slots for each client that has its own.
    pub(crate) fn new(clients: usize) -> Self {
        let mut slots = [None; SLOTS];
        slots[0] = Some(ROOT);
        let root = Node::new(Content::Directory(BTreeMap::new()), 0o755);
        Self {
            nodes: vec![root],
            slots: vec![slots; clients],
            client: 0,
        }
    }

    /// Selects the client of the next steps.
    pub(crate) fn turn_to(&mut self, client: usize) {
        self.client = client;
    }

    /// Returns whether a slot has a handle.
    pub(crate) fn is_kept(&self, slot: usize) -> bool {
        self.slots[self.client][slot].is_some()
    }

    /// Removes the handle of a slot.
    pub(crate) fn drop_slot(&mut self, slot: usize) {
        if slot != 0 {
            self.slots[self.client][slot] = None;
        }
    }

    /// Executes a step.
    pub(crate) fn carry_out(&mut self, step: &Step) -> Result<Outcome> {
        match step {
            Step::Lookup { at, slot } => {
                let node = self.find(at)?;
                Ok(Outcome::Object(self.keep(*slot, node)))
            }
            Step::Create {
                at,
                mode,
                exclusive,
                slot,
            } => self.create(at, *mode, *exclusive, *slot),
            Step::Mkdir { at, mode, slot } => {
                let empty = Content::Directory(BTreeMap::new());
                let node = self.make(at, Node::new(empty, *mode))?;
                Ok(Outcome::Object(self.keep(*slot, node)))
            }
            Step::Symlink { at, to, slot } => {
                let node = self.make(at, Node::new(Content::Symlink(to), 0o777))?;
                Ok(Outcome::Object(self.keep(*slot, node)))
            }
            Step::Link { slot, at } => self.link(*slot, at),
            Step::Remove { at, directory } => self.remove(at, *directory),
            Step::Rename { from, to, mode } => self.rename(from, to, *mode),
            other => self.on_slot(other),
        }
    }

    fn on_slot(&mut self, step: &Step) -> Result<Outcome> {
        match *step {
            Step::GetAttr { slot } => Ok(Outcome::Object(self.live(slot)?.seen())),
            Step::ReadLink { slot } => match self.live(slot)?.content {
                Content::Symlink(to) => Ok(Outcome::Bytes(to.into())),
                _ => Err(Errno::EINVAL),
            },
            Step::Commit { slot } => self.live(slot).map(|_| Outcome::Done),
            Step::SetMode { slot, mode } => {
                let node = self.live(slot)?;
                if matches!(node.content, Content::Symlink(_)) {
                    return Err(Errno::EOPNOTSUPP);
                }
                node.mode = mode;
                Ok(Outcome::Object(node.seen()))
            }
            Step::List { slot, .. } => self.list(slot),
            Step::SetXattr {
                slot,
                name,
                value,
                mode,
            } => self.live(slot)?.set_xattr(name, value, mode),
            Step::GetXattr { slot, name } => {
                let value = self.live(slot)?.xattrs.get(name).copied();
                value
                    .map(|value| Outcome::Bytes(vec![value]))
                    .ok_or(Errno::ENODATA)
            }
            Step::ListXattr { slot } => {
                let names = self.live(slot)?.xattrs.keys();
                Ok(Outcome::Names(names.map(|&name| name.to_owned()).collect()))
            }
            Step::RemoveXattr { slot, name } => self.live(slot)?.remove_xattr(name),
            _ => self.on_content(step),
        }
    }

    fn on_content(&mut self, step: &Step) -> Result<Outcome> {
        match *step {
            Step::Read {
                slot,
                offset,
                length,
            } => {
                let bytes = self.live(slot)?.bytes()?;
                let end = (offset as usize + length).min(bytes.len());
                let read = bytes.get(offset as usize..end).unwrap_or(&[]);
                Ok(Outcome::Bytes(read.to_vec()))
            }
            Step::Write {
                slot,
                offset,
                length,
                byte,
            } => {
                let bytes = self.live(slot)?.bytes()?;
                write(bytes, offset as usize, length, byte);
                Ok(Outcome::Count(length as u64))
            }
            Step::Append { slot, length, byte } => {
                let bytes = self.live(slot)?.bytes()?;
                let offset = bytes.len();
                write(bytes, offset, length, byte);
                Ok(Outcome::Appended(offset as u64, length as u64))
            }
            Step::SetSize { slot, size } => {
                let node = self.live(slot)?;
                node.bytes()?.resize(size as usize, 0);
                Ok(Outcome::Object(node.seen()))
            }
            Step::Allocate {
                slot,
                mode,
                offset,
                length,
            } => {
                let bytes = self.live(slot)?.bytes()?;
                let (offset, end) = (offset as usize, (offset + length) as usize);
                match mode {
                    AllocateMode::Extend => bytes.resize(bytes.len().max(end), 0),
                    AllocateMode::PunchHole => {
                        let end = end.min(bytes.len());
                        bytes.get_mut(offset..end).unwrap_or(&mut []).fill(0);
                    }
                    _ => {}
                }
                Ok(Outcome::Done)
            }
            _ => Err(Errno::ENOSYS),
        }
    }

    fn create(&mut self, at: &Target, mode: u32, exclusive: bool, slot: usize) -> Result<Outcome> {
        let (parent, name) = self.parent(at)?;
        let Some(node) = self.child(parent, name)? else {
            let node = self.make(at, Node::new(Content::File(Vec::new()), mode))?;
            return Ok(Outcome::Created(self.keep(slot, node), true));
        };
        match self.nodes[node].content {
            _ if exclusive => Err(Errno::EEXIST),
            Content::File(_) => Ok(Outcome::Created(self.keep(slot, node), false)),
            Content::Directory(_) => Err(Errno::EISDIR),
            Content::Symlink(_) => Err(Errno::EEXIST),
        }
    }

    fn make(&mut self, at: &Target, node: Node) -> Result<usize> {
        let (parent, name) = self.parent(at)?;
        if self.child(parent, name)?.is_some() {
            return Err(Errno::EEXIST);
        }
        self.nodes.push(node);
        let node = self.nodes.len() - 1;
        self.names(parent)?.insert(name, node);
        Ok(node)
    }

    fn link(&mut self, slot: usize, at: &Target) -> Result<Outcome> {
        if matches!(self.live(slot)?.content, Content::Directory(_)) {
            return Err(Errno::EPERM);
        }
        let node = self.slots[self.client][slot].ok_or(Errno::ESTALE)?;
        let (parent, name) = self.parent(at)?;
        if self.child(parent, name)?.is_some() {
            return Err(Errno::EEXIST);
        }
        self.names(parent)?.insert(name, node);
        self.nodes[node].links += 1;
        Ok(Outcome::Object(self.nodes[node].seen()))
    }

    fn remove(&mut self, at: &Target, directory: Option<bool>) -> Result<Outcome> {
        let (parent, name) = self.parent(at)?;
        let node = self.child(parent, name)?.ok_or(Errno::ENOENT)?;
        match (&self.nodes[node].content, directory) {
            (Content::Directory(_), Some(false)) => return Err(Errno::EISDIR),
            (Content::Directory(names), _) if !names.is_empty() => return Err(Errno::ENOTEMPTY),
            (Content::Directory(_), _) | (_, Some(false) | None) => {}
            (_, Some(true)) => return Err(Errno::ENOTDIR),
        }
        self.names(parent)?.remove(name);
        self.nodes[node].links -= 1;
        Ok(Outcome::Done)
    }

    fn rename(&mut self, from: &Target, to: &Target, mode: RenameMode) -> Result<Outcome> {
        let ((old_parent, old), (new_parent, new)) = (self.parent(from)?, self.parent(to)?);
        let node = self.child(old_parent, old)?.ok_or(Errno::ENOENT)?;
        let other = self.child(new_parent, new)?;
        match (mode, other) {
            (RenameMode::Keep, Some(_)) => return Err(Errno::EEXIST),
            (RenameMode::Exchange, None) => return Err(Errno::ENOENT),
            _ => {}
        }
        // Neither object may be a directory that contains the other.
        if to.0.len() > from.0.len() && to.0.starts_with(&from.0) {
            return Err(Errno::EINVAL);
        }
        if from.0.len() > to.0.len() && from.0.starts_with(&to.0) {
            let is_exchange = mode == RenameMode::Exchange;
            return Err(if is_exchange {
                Errno::EINVAL
            } else {
                Errno::ENOTEMPTY
            });
        }
        match other {
            Some(other) if other == node => return Ok(Outcome::Done),
            Some(other) if mode == RenameMode::Exchange => {
                self.names(old_parent)?.insert(old, other);
            }
            Some(other) => {
                self.check_replaced(node, other)?;
                self.nodes[other].links -= 1;
                self.names(old_parent)?.remove(old);
            }
            None => {
                self.names(old_parent)?.remove(old);
            }
        }
        self.names(new_parent)?.insert(new, node);
        Ok(Outcome::Done)
    }

    fn check_replaced(&self, by: usize, node: usize) -> Result<()> {
        let by_directory = matches!(self.nodes[by].content, Content::Directory(_));
        match &self.nodes[node].content {
            Content::Directory(_) if !by_directory => Err(Errno::EISDIR),
            Content::Directory(names) if !names.is_empty() => Err(Errno::ENOTEMPTY),
            Content::Directory(_) => Ok(()),
            _ if by_directory => Err(Errno::ENOTDIR),
            _ => Ok(()),
        }
    }

    fn list(&mut self, slot: usize) -> Result<Outcome> {
        let Content::Directory(names) = &self.live(slot)?.content else {
            let is_link = matches!(self.live(slot)?.content, Content::Symlink(_));
            return Err(if is_link {
                Errno::ELOOP
            } else {
                Errno::ENOTDIR
            });
        };
        let names = names.keys().map(|&name| name.to_owned());
        Ok(Outcome::Names(names.collect()))
    }

    /// Returns the object of a slot, unless its last name was removed.
    fn live(&mut self, slot: usize) -> Result<&mut Node> {
        let node = self.slots[self.client][slot].ok_or(Errno::ESTALE)?;
        match &mut self.nodes[node] {
            gone if gone.links == 0 => Err(Errno::ESTALE),
            node => Ok(node),
        }
    }

    fn keep(&mut self, slot: usize, node: usize) -> Seen {
        self.slots[self.client][slot] = Some(node);
        self.nodes[node].seen()
    }

    fn find(&mut self, at: &Target) -> Result<usize> {
        let (parent, name) = self.parent(at)?;
        self.child(parent, name)?.ok_or(Errno::ENOENT)
    }

    /// Returns the directory of a path's last name, and the name.
    fn parent(&mut self, at: &Target) -> Result<(usize, &'static str)> {
        let Some((&last, parents)) = at.0.split_last() else {
            return Err(Errno::ENOENT);
        };
        let mut directory = ROOT;
        for name in parents {
            directory = self.child(directory, name)?.ok_or(Errno::ENOENT)?;
        }
        self.names(directory)?;
        Ok((directory, last))
    }

    fn child(&mut self, directory: usize, name: &str) -> Result<Option<usize>> {
        Ok(self.names(directory)?.get(name).copied())
    }

    fn names(&mut self, directory: usize) -> Result<&mut BTreeMap<&'static str, usize>> {
        match &mut self.nodes[directory].content {
            Content::Directory(names) => Ok(names),
            Content::Symlink(_) => Err(Errno::ELOOP),
            Content::File(_) => Err(Errno::ENOTDIR),
        }
    }

    /// Returns all objects.
    pub(crate) fn tree(&self) -> Tree {
        let (mut found, mut open) = (Tree::new(), vec![(Vec::new(), ROOT)]);
        while let Some((path, node)) = open.pop() {
            let node = &self.nodes[node];
            if let Content::Directory(names) = &node.content {
                let below = |(&name, &node)| ([&path[..], &[name]].concat(), node);
                open.extend(names.iter().map(below));
            }
            found.insert(path.join("/"), node.thing());
        }
        if let Some(root) = found.get_mut("") {
            root.seen.mode = None;
        }
        found
    }
}

impl Node {
    fn new(content: Content, mode: u32) -> Self {
        Self {
            content,
            mode,
            links: 1,
            xattrs: BTreeMap::new(),
        }
    }

    fn seen(&self) -> Seen {
        // Sizes and links of directories, and modes of links, differ among file systems.
        let (kind, mode, size, links) = match &self.content {
            Content::File(bytes) => {
                let size = Some(bytes.len() as u64);
                (crate::Kind::File, Some(self.mode), size, Some(self.links))
            }
            Content::Directory(_) => (crate::Kind::Directory, Some(self.mode), None, None),
            Content::Symlink(to) => {
                let size = Some(to.len() as u64);
                (crate::Kind::Symlink, None, size, Some(self.links))
            }
        };
        Seen {
            kind,
            mode,
            size,
            links,
        }
    }

    fn thing(&self) -> Thing {
        let xattrs = self.xattrs.iter();
        Thing {
            seen: self.seen(),
            content: match &self.content {
                Content::File(bytes) => bytes.clone(),
                Content::Directory(_) => Vec::new(),
                Content::Symlink(to) => to.as_bytes().to_vec(),
            },
            xattrs: xattrs
                .map(|(&name, &value)| (name.to_owned(), vec![value]))
                .collect(),
        }
    }

    fn bytes(&mut self) -> Result<&mut Vec<u8>> {
        match &mut self.content {
            Content::File(bytes) => Ok(bytes),
            Content::Directory(_) => Err(Errno::EISDIR),
            Content::Symlink(_) => Err(Errno::EINVAL),
        }
    }

    fn set_xattr(&mut self, name: &'static str, value: u8, mode: XattrMode) -> Result<Outcome> {
        self.check_xattrs()?;
        match (mode, self.xattrs.contains_key(name)) {
            (XattrMode::Create, true) => return Err(Errno::EEXIST),
            (XattrMode::Replace, false) => return Err(Errno::ENODATA),
            _ => self.xattrs.insert(name, value),
        };
        Ok(Outcome::Done)
    }

    fn remove_xattr(&mut self, name: &str) -> Result<Outcome> {
        self.check_xattrs()?;
        self.xattrs.remove(name).ok_or(Errno::ENODATA)?;
        Ok(Outcome::Done)
    }

    fn check_xattrs(&self) -> Result<()> {
        match self.content {
            Content::Symlink(_) => Err(Errno::EPERM),
            _ => Ok(()),
        }
    }
}

fn write(bytes: &mut Vec<u8>, offset: usize, length: usize, byte: u8) {
    if length == 0 {
        return;
    }
    let end = offset + length;
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].fill(byte);
}
