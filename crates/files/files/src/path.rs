//! Names and paths of objects in a file system.

use std::fmt;

use crate::{Errno, Handle};

/// Limit of a path in bytes.
pub const PATH_MAX: usize = 4096;
/// Limit of a component in bytes, as in Linux file systems.
pub const COMPONENT_MAX: usize = 255;

/// A relative path of one or more components, in bytes.
///
/// Components have 1 to [`COMPONENT_MAX`] bytes, contain neither `/` nor NUL, and are neither `.`
/// nor `..`. One `/` separates components, and there is none at the ends. A path therefore leads to
/// a place below its directory, if the server follows no symbolic link.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(Box<[u8]>);

impl Path {
    /// Checks the bytes of a path.
    ///
    /// # Errors
    ///
    /// `ENOENT` for no bytes, `ENAMETOOLONG` for too many bytes, `EINVAL` for an empty component,
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

    /// Checks the bytes of a path with exactly one component.
    ///
    /// # Errors
    ///
    /// Errors of [`Path::new`]; `EINVAL` if there are several components.
    pub fn name(bytes: &[u8]) -> Result<Self, Errno> {
        if bytes.contains(&b'/') {
            return Err(Errno::EINVAL);
        }
        Self::new(bytes)
    }

    /// Returns the path of `below` under this path.
    ///
    /// # Errors
    ///
    /// `ENAMETOOLONG` if the result has more than [`PATH_MAX`] bytes.
    pub fn join(&self, below: &Path) -> Result<Self, Errno> {
        Self::new(&[&self.0, &b"/"[..], &below.0].concat())
    }

    /// Returns the bytes of the path.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the components in order.
    pub fn components(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|&byte| byte == b'/')
    }

    /// Splits off the last component. The rest is `None` if there is only one component.
    #[must_use]
    pub fn split_last(&self) -> (Option<Path>, &[u8]) {
        match self.0.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => (Some(Self(self.0[..slash].into())), &self.0[slash + 1..]),
            None => (None, &self.0),
        }
    }
}

impl fmt::Display for Path {
    /// Formats the path as text. Escapes control characters and bytes that are not UTF-8.
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

/// The place of an object that exists or will be created: a directory, and a path from there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The directory at which the path starts.
    pub directory: Handle,
    /// The path.
    pub path: Path,
}

impl Place {
    /// Makes the place of `name`, a single component, in `directory`.
    ///
    /// # Errors
    ///
    /// Errors of [`Path::name`].
    pub fn of(directory: Handle, name: &[u8]) -> Result<Self, Errno> {
        let path = Path::name(name)?;
        Ok(Self { directory, path })
    }

    /// Makes the place of a path from the root.
    ///
    /// # Errors
    ///
    /// Errors of [`Path::new`].
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
        fn an_accepted_path_stays_below_its_directory(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
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
