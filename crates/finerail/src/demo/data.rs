//! The files of the demo: generated from a seed, and compared by digest after they were stored.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};
use indicatif::ProgressBar;

/// The number of files and bytes in a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) files: u64,
    pub(super) bytes: u64,
}

/// The amount of data to generate.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    /// The number of small files, of 0 to 64 KiB each.
    pub(super) small_files: u32,
    /// The size of the one large file in bytes; 0 for no large file.
    pub(super) large_bytes: u64,
}

/// The digests of all files of a tree, by their path below the root.
pub(super) type Digests = BTreeMap<PathBuf, blake3::Hash>;

/// The seed of the data. It is constant, so every run of the demo has the same data.
const SEED: &str = "finerail demo 1";
const SMALL_FILES_PER_DIRECTORY: u32 = 500;
const BUFFER: usize = 1 << 20;

/// Shows the progress of a step, and lets an interruption end it.
pub(super) struct Step<'a> {
    pub(super) bar: ProgressBar,
    pub(super) interrupted: &'a AtomicBool,
}

impl Step<'_> {
    /// Adds bytes to the progress. Returns an error if the demo was interrupted.
    fn advance(&self, bytes: usize) -> io::Result<()> {
        self.bar.inc(bytes as u64);
        if self.interrupted.load(Ordering::Relaxed) {
            // The kind is not `ErrorKind::Interrupted`, because callers retry a system call after that kind.
            return Err(io::Error::other("interrupted"));
        }
        Ok(())
    }
}

/// Writes the planned files below `root`.
pub(super) fn generate(root: &Path, plan: Plan, step: &Step<'_>) -> anyhow::Result<()> {
    let mut buffer = vec![0; BUFFER];
    create_directory(root)?;
    for number in 0..plan.small_files {
        let directory = root.join(format!("small/{:02}", number / SMALL_FILES_PER_DIRECTORY));
        if number % SMALL_FILES_PER_DIRECTORY == 0 {
            create_directory(&directory)?;
        }
        let name = format!("{number:05}");
        let path = directory.join(&name);
        write_file(&path, &name, small_size(number), &mut buffer, step)?;
    }
    if plan.large_bytes > 0 {
        let path = root.join("large");
        write_file(&path, "large", plan.large_bytes, &mut buffer, step)?;
    }
    Ok(())
}

/// Returns the size of a small file: 0 to 64 KiB, spread over the powers of two, so that most files are tiny.
fn small_size(number: u32) -> u64 {
    let mut draw = [0; 8];
    stream(&format!("size {number}")).fill(&mut draw);
    let draw = u64::from_le_bytes(draw);
    let exponent = draw % 17;
    (draw >> 32) % (1 << exponent)
}

fn write_file(
    path: &Path,
    name: &str,
    size: u64,
    buffer: &mut [u8],
    step: &Step<'_>,
) -> anyhow::Result<()> {
    let write = || -> io::Result<()> {
        let mut file = sys::create_file(path)?;
        let mut content = stream(name);
        let mut left = size;
        while left > 0 {
            let take = usize::try_from(left)
                .unwrap_or(usize::MAX)
                .min(buffer.len());
            content.fill(&mut buffer[..take]);
            file.write_all(&buffer[..take])?;
            left -= take as u64;
            step.advance(take)?;
        }
        Ok(())
    };
    let mut write = write;
    write().with_context(|| format!("cannot write {}", path.display()))
}

fn stream(name: &str) -> blake3::OutputReader {
    blake3::Hasher::new_derive_key(SEED)
        .update(name.as_bytes())
        .finalize_xof()
}

fn create_directory(path: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))
}

/// Returns the digests of all files at or below `root`. Rejects symbolic links and special files.
pub(super) fn digests(root: &Path, step: &Step<'_>) -> anyhow::Result<(Digests, Amount)> {
    let mut found = Digests::new();
    let mut amount = Amount::default();
    let mut waiting = vec![root.to_owned()];
    while let Some(path) = waiting.pop() {
        let kind = fs::symlink_metadata(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        if kind.is_dir() {
            waiting.extend(children(&path)?);
        } else if kind.is_file() {
            let below = path.strip_prefix(root).unwrap_or(&path).to_owned();
            found.insert(below, digest(&path, step)?);
            amount.files += 1;
            amount.bytes += kind.len();
        } else {
            bail!("{} is neither a file nor a directory", path.display());
        }
    }
    Ok((found, amount))
}

fn children(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    fs::read_dir(directory)
        .and_then(|entries| {
            entries
                .map(|entry| entry.map(|entry| entry.path()))
                .collect()
        })
        .with_context(|| format!("cannot list {}", directory.display()))
}

fn digest(path: &Path, step: &Step<'_>) -> anyhow::Result<blake3::Hash> {
    let read = || -> io::Result<blake3::Hash> {
        let mut file = File::open(path)?;
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; BUFFER];
        loop {
            let count = file.read(&mut buffer)?;
            if count == 0 {
                return Ok(hasher.finalize());
            }
            hasher.update(&buffer[..count]);
            step.advance(count)?;
        }
    };
    read().with_context(|| format!("cannot read {}", path.display()))
}

/// Describes how two trees differ; at most `limit` differences.
pub(super) fn differences(sent: &Digests, back: &Digests, limit: usize) -> Vec<String> {
    let missing = sent
        .iter()
        .filter_map(|(path, digest)| match back.get(path) {
            None => Some(format!("{} did not come back", path.display())),
            Some(other) if other != digest => {
                Some(format!("{} came back different", path.display()))
            }
            Some(_) => None,
        });
    let added = back.keys().filter(|path| !sent.contains_key(*path));
    let added = added.map(|path| format!("{} was never sent", path.display()));
    missing.chain(added).take(limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_difference_is_found() {
        let digest = |text: &str| blake3::hash(text.as_bytes());
        let sent = Digests::from([
            ("a".into(), digest("1")),
            ("b".into(), digest("2")),
            ("c".into(), digest("3")),
        ]);
        let back = Digests::from([
            ("a".into(), digest("1")),
            ("b".into(), digest("x")),
            ("d".into(), digest("4")),
        ]);
        let found = differences(&sent, &back, 10);
        assert_eq!(
            found,
            [
                "b came back different",
                "c did not come back",
                "d was never sent"
            ]
        );
        assert_eq!(differences(&sent, &sent, 10), Vec::<String>::new());
    }

    fn step(interrupted: &AtomicBool) -> Step<'_> {
        let bar = ProgressBar::hidden();
        Step { bar, interrupted }
    }

    #[test]
    fn an_interrupted_step_ends_with_its_first_bytes() {
        let plan = Plan {
            small_files: 0,
            large_bytes: u64::MAX,
        };
        let interrupted = AtomicBool::new(true);
        let root = tempfile::tempdir().unwrap();
        let error = generate(root.path(), plan, &step(&interrupted)).unwrap_err();
        assert!(format!("{error:#}").ends_with("interrupted"), "{error:#}");
    }

    #[test]
    fn the_same_plan_writes_the_same_bytes() {
        let plan = Plan {
            small_files: 20,
            large_bytes: 100_000,
        };
        let interrupted = AtomicBool::new(false);
        let step = step(&interrupted);
        let trees = [(); 2].map(|()| {
            let root = tempfile::tempdir().unwrap();
            generate(root.path(), plan, &step).unwrap();
            digests(root.path(), &step).unwrap()
        });
        assert_eq!(trees[0], trees[1]);
        assert_eq!(trees[0].1.files, 21);
    }
}
