//! How much there is below a path.

use std::collections::BTreeSet;

use files::{Attributes, Kind, Path};

use crate::copy::is_part;
use crate::entries::Entries;
use crate::failure::Failure;
use crate::progress::{Failures, Progress, add};
use crate::tree::Tree;

/// What there is below a path, the path's own object included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Regular files; each counts once, however many names it has.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links, and whatever else there is.
    pub others: u64,
    /// Parts that interrupted copies left; they are counted as files too.
    pub parts: u64,
    /// Length of all files in bytes.
    pub bytes: u64,
    /// Space that everything takes, in bytes.
    pub space: u64,
}

/// Adds up what there is below a path. What cannot be listed is noted in `failures` and not counted. Files with
/// several names are remembered until the end, 16 bytes each.
///
/// # Errors
///
/// There is no such object, or the server does not answer.
pub fn usage(
    tree: Tree<'_>,
    path: Option<&Path>,
    progress: &Progress,
    failures: &mut Failures,
) -> Result<Usage, Failure> {
    let top = tree.lookup(path)?;
    let mut sum = Sum::default();
    let mut stack = Vec::new();
    sum.add(
        path.map_or(b"", |path| path.split_last().1),
        &top.attributes,
    );
    if top.attributes.kind == Kind::Directory {
        stack.push(Entries::new(tree, path.cloned(), top.handle));
    }
    while let Some(entries) = stack.last_mut() {
        match entries.next() {
            _ if progress.is_cancelled() => break,
            None => drop(stack.pop()),
            Some(Err(failure)) if failure.is_fatal() => return Err(failure),
            Some(Err(failure)) => failures.add(failure),
            Some(Ok(found)) => {
                let attributes = found.entry.attributes;
                add(&progress.found_files, 1);
                sum.add(found.path.split_last().1, &attributes);
                if attributes.kind == Kind::Directory {
                    let (path, handle) = (found.path, found.entry.handle);
                    stack.push(Entries::new(tree, Some(path), handle));
                }
            }
        }
    }
    Ok(sum.usage)
}

#[derive(Default)]
struct Sum {
    usage: Usage,
    /// Files with several names that were counted: file system and number.
    linked: BTreeSet<(u64, u64)>,
}

impl Sum {
    fn add(&mut self, name: &[u8], attributes: &Attributes) {
        let usage = &mut self.usage;
        match attributes.kind {
            Kind::Directory => usage.directories += 1,
            Kind::File => {
                let number = (attributes.filesystem, attributes.file);
                if attributes.links > 1 && !self.linked.insert(number) {
                    return;
                }
                usage.files += 1;
                usage.parts += u64::from(is_part(name));
                usage.bytes = usage.bytes.saturating_add(attributes.size);
            }
            _ => usage.others += 1,
        }
        usage.space = usage
            .space
            .saturating_add(attributes.blocks.saturating_mul(512));
    }
}
