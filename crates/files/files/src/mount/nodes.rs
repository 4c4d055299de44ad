//! The objects that the kernel knows, and their numbers.
//!
//! A node is an object to which the kernel has a reference. If the number of the file at the server is free, the node
//! gets the same number, so that programs see the same number even after the kernel has forgotten the object.
//! Otherwise the node gets a number with the highest bit set. An object with a new handle is another node: its server
//! restarted, or another file has got its number.

use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use crate::{Attributes, Caller, Entry, Errno, Handle, Place, Timestamp};

/// Prefix of the hidden name of a file that was removed while it was open. A machine that crashes leaves such names
/// behind; they may be removed.
pub const HIDDEN_PREFIX: &str = ".finerail-removed-";

/// The number of the root.
pub(crate) const ROOT: u64 = 1;
/// Bit that is set in numbers other than file numbers.
const ALLOTTED: u64 = 1 << 63;

/// The hidden place of a removed file, and the caller on whose behalf it is removed at the close.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hidden {
    pub(crate) place: Place,
    pub(crate) caller: Caller,
}

/// The version of a file's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    size: u64,
    modified: Timestamp,
    changed: Timestamp,
}

#[derive(Default)]
struct Node {
    /// Handle at the server; `None` for a listed name without an accessible object.
    handle: Option<Handle>,
    lookups: u64,
    opens: u32,
    /// In a box, because few nodes have one and there are many nodes.
    hidden: Option<Box<Hidden>>,
    removals: u64,
    told: Option<Told>,
}

/// What the kernel was told of an object.
#[derive(Clone, Copy)]
struct Told {
    version: Version,
    /// When the server last said so.
    at: Instant,
    /// Whether the kernel has no content from before this version was settled.
    is_clean: bool,
    has_no_xattrs: bool,
}

/// What the kernel does with the content that it has of a file which is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The kernel keeps the content: it is that of the server.
    Whole,
    /// The kernel drops the content, and keeps the attributes.
    Doubtful,
    /// The kernel drops content and attributes.
    Outdated,
}

/// All nodes.
pub(crate) struct Nodes {
    by_number: FxHashMap<u64, Node>,
    by_handle: FxHashMap<Handle, u64>,
    filesystem: u64,
    next: u64,
    opens: usize,
}

impl Nodes {
    /// Creates the node of the root, which is in the server's file system `filesystem`.
    pub(crate) fn new(filesystem: u64) -> Self {
        let root = Node {
            handle: Some(Handle::ROOT),
            lookups: 1,
            ..Node::default()
        };
        Self {
            by_number: FxHashMap::from_iter([(ROOT, root)]),
            by_handle: FxHashMap::from_iter([(Handle::ROOT, ROOT)]),
            filesystem,
            next: 0,
            opens: 0,
        }
    }

    /// Returns the handle of a node.
    pub(crate) fn handle(&self, number: u64) -> Result<Handle, Errno> {
        let node = self.by_number.get(&number);
        node.and_then(|node| node.handle).ok_or(Errno::ESTALE)
    }

    /// Returns the number of an object for the kernel, and adds one reference.
    pub(crate) fn refer(&mut self, entry: &Entry) -> u64 {
        let number = match self.by_handle.get(&entry.handle) {
            Some(&number) => number,
            None => self.insert(&entry.attributes, Some(entry.handle)),
        };
        if let Some(node) = self.by_number.get_mut(&number) {
            node.lookups = node.lookups.saturating_add(1);
        }
        number
    }

    /// Returns a number with one reference for a name without an accessible object. Operations on it return `ESTALE`.
    pub(crate) fn refer_unseen(&mut self, attributes: &Attributes) -> u64 {
        let number = self.insert(attributes, None);
        if let Some(node) = self.by_number.get_mut(&number) {
            node.lookups = 1;
        }
        number
    }

    /// Releases references of the kernel.
    pub(crate) fn forget(&mut self, number: u64, count: u64) {
        if let Some(node) = self.by_number.get_mut(&number) {
            node.lookups = node.lookups.saturating_sub(count);
        }
        self.drop_unused(number);
    }

    /// Returns the attributes for the kernel, without the link of the hidden name, and records their version.
    pub(crate) fn tell(&mut self, number: u64, mut attributes: Attributes) -> Attributes {
        if let Some(node) = self.by_number.get_mut(&number) {
            let version = version(&attributes);
            let same = node.told.filter(|told| told.version == version);
            node.told = Some(Told {
                version,
                at: Instant::now(),
                is_clean: same.is_some_and(|told| told.is_clean),
                has_no_xattrs: attributes.no_xattrs,
            });
            if node.hidden.is_some() {
                attributes.links = attributes.links.saturating_sub(1);
            }
        }
        attributes
    }

    /// Returns whether the server said within this time that a node has no extended attribute.
    pub(crate) fn has_no_xattrs(&self, number: u64, within: Duration) -> bool {
        let told = self.by_number.get(&number).and_then(|node| node.told);
        told.is_some_and(|told| told.has_no_xattrs && told.at.elapsed() < within)
    }

    /// Returns whether the server said something about a node within this time.
    pub(crate) fn is_fresh(&self, number: u64, within: Duration) -> bool {
        let told = self.by_number.get(&number).and_then(|node| node.told);
        told.is_some_and(|told| told.at.elapsed() < within)
    }

    /// Notes that a node may have extended attributes from now on.
    pub(crate) fn set_xattrs(&mut self, number: u64) {
        let node = self.by_number.get_mut(&number);
        if let Some(told) = node.and_then(|node| node.told.as_mut()) {
            told.has_no_xattrs = false;
        }
    }

    /// Decides what the kernel does with the content that it has of a file which is opened. `attributes` are those at the
    /// open.
    pub(crate) fn kept(&self, number: u64, attributes: &Attributes) -> Kept {
        let told = self.by_number.get(&number).and_then(|node| node.told);
        match told {
            Some(told) if told.version == version(attributes) && told.is_clean => Kept::Whole,
            Some(told) if told.version == version(attributes) => Kept::Doubtful,
            _ => Kept::Outdated,
        }
    }

    /// Notes that the kernel has dropped the content that it had of a file before the file had this version.
    pub(crate) fn clean(&mut self, number: u64, version: Version) {
        let node = self.by_number.get_mut(&number);
        if let Some(told) = node.and_then(|node| node.told.as_mut())
            && told.version == version
        {
            told.is_clean = true;
        }
    }

    /// Records that a file was opened.
    pub(crate) fn open(&mut self, number: u64) {
        if let Some(node) = self.by_number.get_mut(&number) {
            node.opens += 1;
            self.opens += 1;
        }
    }

    /// Records that a file was closed. Returns the hidden name if it must be removed now.
    pub(crate) fn close(&mut self, number: u64) -> Option<Hidden> {
        let node = self.by_number.get_mut(&number)?;
        self.opens = self.opens.saturating_sub(1);
        node.opens = node.opens.saturating_sub(1);
        let hidden = match node.opens {
            0 => node.hidden.take().map(|hidden| *hidden),
            _ => None,
        };
        self.drop_unused(number);
        hidden
    }

    /// Returns whether any file is open.
    pub(crate) fn any_open(&self) -> bool {
        self.opens > 0
    }

    /// Returns the number and the hidden name of an object; `None` if the object is not open.
    pub(crate) fn opened(&self, handle: Handle) -> Option<(u64, Option<&Hidden>)> {
        let number = *self.by_handle.get(&handle)?;
        let node = self.by_number.get(&number)?;
        (node.opens > 0).then_some((number, node.hidden.as_deref()))
    }

    /// Records the hidden name of a file. Returns the name if the file was closed since or has a hidden name already.
    pub(crate) fn hide(&mut self, number: u64, hidden: Hidden) -> Option<Hidden> {
        match self.by_number.get_mut(&number) {
            Some(node) if node.opens > 0 && node.hidden.is_none() => {
                node.hidden = Some(Box::new(hidden));
                None
            }
            _ => Some(hidden),
        }
    }

    /// Removes and returns the hidden name of a file.
    pub(crate) fn unhide(&mut self, number: u64) -> Option<Hidden> {
        let hidden = self.by_number.get_mut(&number)?.hidden.take();
        hidden.map(|hidden| *hidden)
    }

    /// Counts a name in a directory that was removed or belongs to another object now.
    pub(crate) fn removed_in(&mut self, directory: u64) {
        if let Some(node) = self.by_number.get_mut(&directory) {
            node.removals += 1;
        }
    }

    /// Returns the count of [`Nodes::removed_in`].
    pub(crate) fn removals(&self, directory: u64) -> u64 {
        let node = self.by_number.get(&directory);
        node.map_or(0, |node| node.removals)
    }

    fn insert(&mut self, attributes: &Attributes, handle: Option<Handle>) -> u64 {
        let number = self.free_number(attributes);
        let node = Node {
            handle,
            ..Node::default()
        };
        self.by_number.insert(number, node);
        if let Some(handle) = handle {
            self.by_handle.insert(handle, number);
        }
        number
    }

    fn free_number(&mut self, attributes: &Attributes) -> u64 {
        let file = attributes.file;
        let is_usable = file > ROOT && file & ALLOTTED == 0;
        if is_usable
            && attributes.filesystem == self.filesystem
            && !self.by_number.contains_key(&file)
        {
            return file;
        }
        loop {
            self.next = self.next.wrapping_add(1);
            let number = ALLOTTED | self.next;
            if !self.by_number.contains_key(&number) {
                return number;
            }
        }
    }

    fn drop_unused(&mut self, number: u64) {
        let is_unused = |node: &Node| node.lookups == 0 && node.opens == 0;
        if number == ROOT || !self.by_number.get(&number).is_some_and(is_unused) {
            return;
        }
        if let Some(Node {
            handle: Some(handle),
            ..
        }) = self.by_number.remove(&number)
        {
            self.by_handle.remove(&handle);
        }
    }
}

pub(crate) fn version(attributes: &Attributes) -> Version {
    Version {
        size: attributes.size,
        modified: attributes.modified,
        changed: attributes.changed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Path};

    fn entry(handle: u8, file: u64) -> Entry {
        let zero = Timestamp::default();
        let attributes = Attributes {
            kind: Kind::File,
            mode: 0o644,
            links: 2,
            uid: 0,
            gid: 0,
            size: 0,
            blocks: 0,
            block_size: 4096,
            device: 0,
            filesystem: 7,
            file,
            accessed: zero,
            modified: zero,
            changed: zero,
            born: zero,
            no_xattrs: false,
            is_settled: true,
        };
        Entry {
            handle: Handle([handle; 32]),
            attributes,
        }
    }

    fn hidden() -> Hidden {
        let place = Place {
            directory: Handle::ROOT,
            path: Path::new(b"x").unwrap(),
        };
        let caller = Caller::default();
        Hidden { place, caller }
    }

    #[test]
    fn an_object_keeps_its_number_until_the_last_reference_is_given_back() {
        let mut nodes = Nodes::new(7);
        assert_eq!(nodes.refer(&entry(1, 50)), 50);
        assert_eq!(nodes.refer(&entry(1, 50)), 50);
        nodes.forget(50, 1);
        assert_eq!(nodes.handle(50), Ok(Handle([1; 32])));
        nodes.forget(50, 1);
        assert_eq!(nodes.handle(50), Err(Errno::ESTALE));
        assert!(nodes.by_handle.len() == 1 && nodes.by_number.len() == 1);
    }

    #[test]
    fn another_object_with_the_same_number_is_another_node() {
        let mut nodes = Nodes::new(7);
        let first = nodes.refer(&entry(1, 50));
        let second = nodes.refer(&entry(2, 50));
        assert_ne!(first, second);
        assert_eq!(nodes.handle(second), Ok(Handle([2; 32])));
        let mut elsewhere = entry(3, 51);
        elsewhere.attributes.filesystem = 8;
        assert!(nodes.refer(&elsewhere) & ALLOTTED != 0);
        assert!(nodes.refer(&entry(4, ROOT)) & ALLOTTED != 0);
    }

    #[test]
    fn the_root_is_never_forgotten() {
        let mut nodes = Nodes::new(7);
        nodes.forget(ROOT, u64::MAX);
        assert_eq!(nodes.handle(ROOT), Ok(Handle::ROOT));
    }

    #[test]
    fn a_hidden_file_goes_with_the_last_close_and_shows_one_name_less() {
        let mut nodes = Nodes::new(7);
        let object = entry(1, 50);
        let number = nodes.refer(&object);
        nodes.open(number);
        nodes.open(number);
        assert_eq!(nodes.hide(number, hidden()), None);
        assert_eq!(nodes.tell(number, object.attributes).links, 1);
        assert_eq!(nodes.close(number), None);
        assert_eq!(nodes.close(number), Some(hidden()));
        assert!(!nodes.any_open());
        assert_eq!(nodes.hide(number, hidden()), Some(hidden()));
    }

    #[test]
    fn content_is_kept_once_the_kernel_has_dropped_what_is_older_than_the_version() {
        let mut nodes = Nodes::new(7);
        let object = entry(1, 50);
        let number = nodes.refer(&object);
        assert_eq!(nodes.kept(number, &object.attributes), Kept::Outdated);
        nodes.tell(number, object.attributes);
        assert_eq!(nodes.kept(number, &object.attributes), Kept::Doubtful);
        nodes.clean(number, version(&object.attributes));
        nodes.tell(number, object.attributes);
        assert_eq!(nodes.kept(number, &object.attributes), Kept::Whole);
        let mut changed = object.attributes;
        changed.changed.nanoseconds += 1;
        assert_eq!(nodes.kept(number, &changed), Kept::Outdated);
        nodes.tell(number, changed);
        nodes.clean(number, version(&object.attributes));
        assert_eq!(nodes.kept(number, &changed), Kept::Doubtful);
    }
}
