//! Adds up the objects below a path.

use std::collections::BTreeSet;

use crate::tools::copy::is_part;
use crate::tools::entries::Entries;
use crate::tools::failure::Failure;
use crate::tools::progress::{Failures, Progress, add};
use crate::tools::tree::Tree;
use crate::{Attributes, Kind, Path};

/// The sum of the objects below a path, including the object at the path itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Number of regular files. A file with several names counts once.
    pub files: u64,
    /// Number of directories.
    pub directories: u64,
    /// Number of symbolic links and all other objects.
    pub others: u64,
    /// Number of parts that interrupted copies left. They are included in `files`.
    pub parts: u64,
    /// Length of all files in bytes.
    pub bytes: u64,
    /// Allocated space of all objects, in bytes.
    pub space: u64,
}

/// Adds up the objects below a path. Objects that cannot be listed are recorded in `failures` and not counted. The
/// numbers of files with several names stay in memory until the end, 16 bytes each.
///
/// # Errors
///
/// The object does not exist, or the server does not answer.
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
    /// File system and number of each counted file with several names.
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
