//! Finds the parts that interrupted copies left.

use crate::tools::copy::is_part;
use crate::tools::entries::Entries;
use crate::tools::failure::Failure;
use crate::tools::progress::{Failures, Progress, add};
use crate::tools::tree::{Tree, place};
use crate::{Kind, Path};

/// Finds the parts of files below a directory that no copy has changed since `before`, in seconds since 1970 by the
/// server's clock. A part from yesterday, for example, belongs to no running copy. Calls `found` for each part, and
/// removes the part if `found` returns true.
pub fn old_parts(
    tree: Tree<'_>,
    top: Option<&Path>,
    before: i64,
    progress: &Progress,
    failures: &mut Failures,
    mut found: impl FnMut(&Path) -> bool,
) {
    let directory = match tree.lookup(top) {
        Ok(entry) => entry.handle,
        Err(failure) => return failures.add(failure),
    };
    let mut stack = vec![Entries::new(tree, top.cloned(), directory)];
    while let Some(entries) = stack.last_mut() {
        if progress.is_cancelled() || failures.is_fatal() {
            return;
        }
        let object = match entries.next() {
            None => {
                stack.pop();
                continue;
            }
            Some(Err(failure)) => {
                failures.add(failure);
                continue;
            }
            Some(Ok(object)) => object,
        };
        let attributes = object.entry.attributes;
        let (path, handle) = (object.path, object.entry.handle);
        if attributes.kind == Kind::Directory {
            stack.push(Entries::new(tree, Some(path), handle));
        } else if is_part(path.split_last().1)
            // The change time, because a part that is about to be renamed already has the modification time of its
            // source.
            && attributes.changed.seconds < before
            && found(&path)
            && let Err(failure) = remove(tree, &path, progress)
        {
            failures.add(failure);
        }
    }
}

fn remove(tree: Tree<'_>, path: &Path, progress: &Progress) -> Result<(), Failure> {
    let removed = tree.files.remove(tree.caller, place(path), Some(false));
    removed.map_err(|errno| tree.failure("remove", Some(path), errno))?;
    add(&progress.files, 1);
    Ok(())
}
