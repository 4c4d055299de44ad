//! Digests of files, and lists of digests in the format of `b3sum`.

use std::fmt;
use std::io::{self, BufRead};

use crate::tools::PIECE;
use crate::tools::failure::{Failure, Why};
use crate::tools::progress::{Progress, add};
use crate::tools::tree::Tree;
use crate::{Errno, Path};

/// The BLAKE3 digest of a whole file.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    /// Writes 64 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Computes the digest of the file at a path.
///
/// # Errors
///
/// The file cannot be read, or it changed during the read.
pub fn digest(tree: Tree<'_>, path: &Path, progress: &Progress) -> Result<Digest, Failure> {
    let failed = |errno| tree.failure("read", Some(path), errno);
    let entry = tree.lookup(Some(path))?;
    let mut hasher = blake3::Hasher::new();
    let mut memory = vec![0; PIECE.min(entry.attributes.size.max(1)) as usize];
    let mut offset = 0;
    loop {
        let read = tree
            .files
            .read(tree.caller, entry.handle, offset, &mut memory);
        let count = read.map_err(failed)?;
        if count == 0 {
            break;
        }
        hasher.update(&memory[..count]);
        offset += count as u64;
        add(&progress.bytes, count as u64);
        if progress.is_cancelled() {
            return Err(failed(Errno::ECANCELED));
        }
    }
    let now = tree
        .files
        .getattr(tree.caller, entry.handle)
        .map_err(failed)?;
    let seen = entry.attributes;
    if offset != seen.size || (now.size, now.modified) != (seen.size, seen.modified) {
        return Err(tree.failed("read", Some(path), Why::Changed));
    }
    Ok(Digest(*hasher.finalize().as_bytes()))
}

/// Returns a line in the format of `b3sum`: the digest, two spaces, the path. If the path has a line feed, a carriage
/// return or a backslash, these are escaped and the line begins with a backslash.
#[must_use]
pub fn digest_line(digest: &Digest, path: &Path) -> Vec<u8> {
    let path = path.as_bytes();
    let mut line = Vec::with_capacity(path.len() + 70);
    if path
        .iter()
        .any(|byte| matches!(byte, b'\n' | b'\r' | b'\\'))
    {
        line.push(b'\\');
    }
    line.extend_from_slice(format!("{digest}  ").as_bytes());
    for &byte in path {
        match byte {
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            b'\\' => line.extend_from_slice(b"\\\\"),
            other => line.push(other),
        }
    }
    line.push(b'\n');
    line
}

/// A list of digests that is read line by line.
pub struct Manifest<R> {
    source: R,
    line: u64,
}

/// Why a list of digests cannot be used.
#[derive(Debug)]
pub enum ManifestError {
    /// The list cannot be read.
    Io(io::Error),
    /// This line, counted from 1, is not 64 hexadecimal digits, two spaces and a relative path without `.` and `..`.
    Line(u64),
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Line(number) => write!(
                f,
                "line {number}: not 64 hexadecimal digits, two spaces and a relative path without '.' and '..', as \
                 b3sum writes them"
            ),
        }
    }
}

impl std::error::Error for ManifestError {}

/// Length in bytes that no valid line reaches: a path of [`PATH_MAX`](crate::PATH_MAX) bytes, each escaped, and the digest.
const LINE_MAX: u64 = 2 * crate::PATH_MAX as u64 + 128;

impl<R: BufRead> Manifest<R> {
    /// Creates a list that is read from `source`.
    pub fn new(source: R) -> Self {
        Self { source, line: 0 }
    }

    fn read_line(&mut self) -> Result<Option<Vec<u8>>, ManifestError> {
        let mut line = Vec::new();
        let mut limited = io::Read::take(&mut self.source, LINE_MAX);
        limited
            .read_until(b'\n', &mut line)
            .map_err(ManifestError::Io)?;
        self.line += 1;
        if line.is_empty() {
            return Ok(None);
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        } else if line.len() as u64 == LINE_MAX {
            return Err(ManifestError::Line(self.line));
        }
        Ok(Some(line))
    }
}

impl<R: BufRead> Iterator for Manifest<R> {
    type Item = Result<(Digest, Path), ManifestError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.read_line() {
                Ok(None) => return None,
                Ok(Some(line)) if line.is_empty() => {}
                Ok(Some(line)) => {
                    let parsed = parse_line(&line).ok_or(ManifestError::Line(self.line));
                    return Some(parsed);
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

fn parse_line(line: &[u8]) -> Option<(Digest, Path)> {
    let (is_escaped, line) = match line.strip_prefix(b"\\") {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    let (digits, rest) = line.split_at_checked(64)?;
    let digest = blake3::Hash::from_hex(digits).ok()?;
    let path = rest.strip_prefix(b"  ")?;
    let path = match is_escaped {
        true => unescape(path)?,
        false => path.to_vec(),
    };
    let path = path.strip_prefix(b"./").unwrap_or(&path);
    Some((Digest(*digest.as_bytes()), Path::new(path).ok()?))
}

fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = text.iter();
    let mut plain = Vec::with_capacity(text.len());
    while let Some(&byte) = bytes.next() {
        plain.push(match byte {
            b'\\' => match bytes.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b'\\' => b'\\',
                _ => return None,
            },
            other => other,
        });
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &[u8]) -> Vec<Result<(Digest, Path), ManifestError>> {
        Manifest::new(text).collect()
    }

    proptest! {
        #[test]
        fn a_line_is_read_back(
            digest in any::<[u8; 32]>(),
            name in prop::collection::vec(any::<u8>(), 1..20),
        ) {
            let (digest, path) = (Digest(digest), Path::new(&name));
            prop_assume!(path.is_ok());
            let path = path.unwrap();
            let lines = [digest_line(&digest, &path), digest_line(&digest, &path)].concat();
            for read in read(&lines) {
                prop_assert_eq!(read.unwrap(), (digest, path.clone()));
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            for line in read(&bytes) {
                drop(line);
            }
        }
    }

    #[test]
    fn what_b3sum_writes_is_read() {
        let empty = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        let text = format!("{empty}  a/b\n\\{empty}  new\\nline\n{empty}  ./c");
        let read: Vec<Path> = read(text.as_bytes())
            .into_iter()
            .map(|line| line.unwrap().1)
            .collect();
        let paths = [&b"a/b"[..], b"new\nline", b"c"];
        assert_eq!(read, paths.map(|path| Path::new(path).unwrap()));
    }

    #[test]
    fn a_line_that_leads_elsewhere_or_never_ends_is_refused_with_its_number() {
        let empty = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        for bad in ["  ../x", "  /etc/x", " x", "  a//b", "  \\q"] {
            let line = format!("\\{empty}{bad}");
            let text = format!("{empty}  a\n{line}\n");
            let read = read(text.as_bytes());
            assert!(matches!(read[1], Err(ManifestError::Line(2))), "{bad}");
        }
        let long = vec![b'a'; 100_000];
        assert!(matches!(read(&long)[0], Err(ManifestError::Line(1))));
    }
}
