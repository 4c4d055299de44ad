//! Names of things in a tree of files.

use std::fmt;

use crate::{Errno, Handle};

/// Longest path in bytes (bmi-zoid specification, section 6.1).
pub const PATH_MAX: usize = 4096;
/// Longest component in bytes, as in every Linux file system.
pub const COMPONENT_MAX: usize = 255;

/// A relative path of one or more components, as bytes.
///
/// Components have 1 to [`COMPONENT_MAX`] bytes and hold neither `/` nor NUL; none is `.` or `..`. There is
/// one `/` between two components and none at the ends. So a path leads to a place below the directory
/// that it is used with, as long as nobody follows symbolic links.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(Box<[u8]>);

impl Path {
    /// Checks a path.
    ///
    /// # Errors
    ///
    /// `ENOENT` for no path at all, `ENAMETOOLONG` for what is too long, `EINVAL` for an empty component,
    /// `.`, `..` or a NUL byte.
    pub fn new(bytes: &[u8]) -> Result<Self, Errno> {
        if bytes.is_empty() {
            return Err(Errno::ENOENT);
        }
        if bytes.len() > PATH_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        for component in bytes.split(|&byte| byte == b'/') {
            match component {
                b"" | b"." | b".." => return Err(Errno::EINVAL),
                long if long.len() > COMPONENT_MAX => return Err(Errno::ENAMETOOLONG),
                other if other.contains(&0) => return Err(Errno::EINVAL),
                _ => {}
            }
        }
        Ok(Self(bytes.into()))
    }

    /// Checks a path that has one component.
    ///
    /// # Errors
    ///
    /// Those of [`Path::new`]; `EINVAL` where there are several components.
    pub fn name(bytes: &[u8]) -> Result<Self, Errno> {
        if bytes.contains(&b'/') {
            return Err(Errno::EINVAL);
        }
        Self::new(bytes)
    }

    /// The path of `below` under this one.
    ///
    /// # Errors
    ///
    /// `ENAMETOOLONG` where the whole has more than [`PATH_MAX`] bytes.
    pub fn join(&self, below: &Path) -> Result<Self, Errno> {
        Self::new(&[&self.0, &b"/"[..], &below.0].concat())
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The components.
    pub fn components(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|&byte| byte == b'/')
    }

    /// The path before the last component, where there is one, and the last component.
    #[must_use]
    pub fn split_last(&self) -> (Option<Path>, &[u8]) {
        match self.0.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => (Some(Self(self.0[..slash].into())), &self.0[slash + 1..]),
            None => (None, &self.0),
        }
    }
}

impl fmt::Display for Path {
    /// As text. Control characters and bytes that are no text are escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                if character.is_control() {
                    write!(f, "{}", character.escape_default())?;
                } else {
                    write!(f, "{character}")?;
                }
            }
            write!(f, "{}", chunk.invalid().escape_ascii())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// Where something stands, or shall stand: a directory, and a path from there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The directory that the path begins in.
    pub directory: Handle,
    /// The path.
    pub path: Path,
}

impl Place {
    /// The place of `name`, a single component, in `directory`.
    ///
    /// # Errors
    ///
    /// Those of [`Path::name`].
    pub fn of(directory: Handle, name: &[u8]) -> Result<Self, Errno> {
        let path = Path::name(name)?;
        Ok(Self { directory, path })
    }

    /// The place that `path` names from the root.
    ///
    /// # Errors
    ///
    /// Those of [`Path::new`].
    pub fn from_root(path: &[u8]) -> Result<Self, Errno> {
        let path = Path::new(path)?;
        Ok(Self {
            directory: Handle::ROOT,
            path,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_bad_path_has_its_error() {
        for (path, errno) in [
            (&b""[..], Errno::ENOENT),
            (b"/", Errno::EINVAL),
            (b"/a", Errno::EINVAL),
            (b"a/", Errno::EINVAL),
            (b"a//b", Errno::EINVAL),
            (b".", Errno::EINVAL),
            (b"a/../b", Errno::EINVAL),
            (b"a\0b", Errno::EINVAL),
            (&[b'x'; 256], Errno::ENAMETOOLONG),
            (&b"x/".repeat(3000), Errno::ENAMETOOLONG),
        ] {
            assert_eq!(Path::new(path), Err(errno), "{}", path.escape_ascii());
        }
        assert!(Path::new(&[b'x'; 255]).is_ok());
        assert_eq!(Path::name(b"a/b"), Err(Errno::EINVAL));
    }

    proptest! {
        #[test]
        fn a_path_that_is_taken_stays_below_its_directory(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(path) = Path::new(&bytes) {
                prop_assert!(path.components().all(|part| !matches!(part, b"" | b"." | b"..")));
                let (parents, last) = path.split_last();
                let again = match parents {
                    Some(parents) => parents.join(&Path::name(last).unwrap()).unwrap(),
                    None => Path::name(last).unwrap(),
                };
                prop_assert_eq!(again, path);
            }
        }

        #[test]
        fn a_shown_path_holds_no_control_character(bytes in prop::collection::vec(any::<u8>(), 1..60)) {
            if let Ok(path) = Path::new(&bytes) {
                prop_assert!(!path.to_string().chars().any(char::is_control));
            }
        }
    }
}
