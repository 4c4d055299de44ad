//! Names of files in a store.
//!
//! A name is a relative path: components of 1 to 255 bytes with `/` between them, no more than
//! [`NAME_MAX`] bytes and [`DEPTH_MAX`] components in all. A component is never `.` or `..`, holds no
//! NUL byte, and does not begin like the service's own temporary files. So a name cannot lead out of the
//! store by itself; that symbolic links do not either is the directory's business.
//!
//! Names are bytes, as the operating system has them, not text.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use thiserror::Error;

/// Longest name in bytes: two of them fit into a request.
pub const NAME_MAX: usize = 1024;
/// Most components of a name.
pub const DEPTH_MAX: usize = 64;
/// What the names of the service's own temporary files begin with.
pub const TEMPORARY_PREFIX: &str = ".finerail-";

/// Longest component in bytes, as everywhere on Linux.
const COMPONENT_MAX: usize = 255;

/// The name of a file or directory below the root of a store.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreName(Vec<u8>);

/// Why a name is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    /// Nothing, or nothing between two slashes, or a slash at an end.
    #[error(
        "{0}: a name has no empty component; write it without leading, trailing or double slashes"
    )]
    EmptyComponent(Printable),
    /// `.` or `..`.
    #[error("{0}: '.' and '..' are not allowed in names")]
    Dots(Printable),
    /// A NUL byte.
    #[error("{0}: a name holds no NUL byte")]
    Nul(Printable),
    /// Begins like a temporary file of the service.
    #[error("{0}: names that begin with '{TEMPORARY_PREFIX}' are the service's own")]
    Temporary(Printable),
    /// Longer than [`NAME_MAX`], or a component longer than 255 bytes.
    #[error("{0}: a name has at most {NAME_MAX} bytes, and 255 in each component")]
    TooLong(Printable),
    /// More than [`DEPTH_MAX`] components.
    #[error("{0}: a name has at most {DEPTH_MAX} components")]
    TooDeep(Printable),
}

/// Bytes of a name as they may be shown on a terminal: what could mislead is escaped, long ones are cut.
#[derive(Clone, PartialEq, Eq)]
pub struct Printable(String);

impl Printable {
    /// Makes bytes fit to be shown.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self::text(&String::from_utf8_lossy(
            &bytes[..bytes.len().min(NAME_MAX)],
        ))
    }

    /// Makes text fit to be shown, whatever its length.
    #[must_use]
    pub fn text(text: &str) -> Self {
        let mut shown = String::with_capacity(text.len());
        for character in text.chars() {
            if misleads(character) {
                shown.extend(character.escape_default());
            } else {
                shown.push(character);
            }
        }
        Self(shown)
    }
}

/// What moves the cursor, begins a line, or changes the order in which the text around it is shown.
fn misleads(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

impl fmt::Display for Printable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Printable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StoreName {
    /// Checks a name.
    ///
    /// # Errors
    ///
    /// Which rule it breaks.
    pub fn new(bytes: &[u8]) -> Result<Self, NameError> {
        let shown = || Printable::new(bytes);
        if bytes.len() > NAME_MAX {
            return Err(NameError::TooLong(shown()));
        }
        for component in bytes.split(|&byte| byte == b'/') {
            match component {
                b"" => return Err(NameError::EmptyComponent(shown())),
                b"." | b".." => return Err(NameError::Dots(shown())),
                long if long.len() > COMPONENT_MAX => return Err(NameError::TooLong(shown())),
                nul if nul.contains(&0) => return Err(NameError::Nul(shown())),
                own if own.starts_with(TEMPORARY_PREFIX.as_bytes()) => {
                    return Err(NameError::Temporary(shown()));
                }
                _ => {}
            }
        }
        if bytes.split(|&byte| byte == b'/').count() > DEPTH_MAX {
            return Err(NameError::TooDeep(shown()));
        }
        Ok(Self(bytes.to_vec()))
    }

    /// The name `child` in the directory of this name.
    ///
    /// # Errors
    ///
    /// The whole breaks a rule.
    pub fn join(&self, child: &[u8]) -> Result<Self, NameError> {
        Self::new(&[&self.0, &b"/"[..], child].concat())
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The same as a relative path.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// The components before the last, and the last.
    #[must_use]
    pub fn split_last(&self) -> (Vec<&OsStr>, &OsStr) {
        let mut components: Vec<&OsStr> = self.components().collect();
        let last = components.pop().unwrap_or_default();
        (components, last)
    }

    /// All components.
    pub fn components(&self) -> impl Iterator<Item = &OsStr> {
        self.0.split(|&byte| byte == b'/').map(OsStr::from_bytes)
    }
}

impl fmt::Display for StoreName {
    /// As text; control characters are escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Printable::new(&self.0), f)
    }
}

impl fmt::Debug for StoreName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for StoreName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::new(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_name_that_is_taken_stays_below_its_root(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(name) = StoreName::new(&bytes) {
                prop_assert_eq!(name.as_bytes(), &bytes[..]);
                prop_assert!(name.as_path().is_relative());
                let normal = name
                    .as_path()
                    .components()
                    .all(|component| matches!(component, std::path::Component::Normal(_)));
                prop_assert!(normal);
                prop_assert_eq!(name.as_path().components().count(), name.components().count());
            }
        }

        #[test]
        fn hostile_pieces_are_refused_wherever_they_stand(
            before in "[a-z]{1,3}",
            bad in prop::sample::select(vec!["..", ".", "", "\0", ".finerail-1"]),
            after in "[a-z]{1,3}",
        ) {
            for text in [format!("{bad}/{after}"), format!("{before}/{bad}"), format!("{before}/{bad}/{after}")] {
                prop_assert!(StoreName::new(text.as_bytes()).is_err());
            }
        }
    }

    #[test]
    fn absolute_and_empty_names_are_refused() {
        for text in ["", "/", "/etc/passwd", "a/", "a//b"] {
            assert!(
                matches!(text.parse::<StoreName>(), Err(NameError::EmptyComponent(_))),
                "{text}"
            );
        }
    }

    #[test]
    fn lengths_are_refused_one_above_their_limit() {
        let component = "x".repeat(255);
        assert!(component.parse::<StoreName>().is_ok());
        let longer = "x".repeat(256).parse::<StoreName>();
        assert!(matches!(longer, Err(NameError::TooLong(_))));
        let deep = vec!["x"; DEPTH_MAX + 1].join("/").parse::<StoreName>();
        assert!(matches!(deep, Err(NameError::TooDeep(_))));
    }

    #[test]
    fn what_is_shown_cannot_move_the_cursor() {
        assert_eq!(
            Printable::new(b"a\x1b[2Jb\n").to_string(),
            "a\\u{1b}[2Jb\\n"
        );
    }

    #[test]
    fn what_is_shown_cannot_change_the_order_of_its_letters() {
        let name = "üñ\u{202e}gnp.exe\u{2069}\u{2028}";
        assert_eq!(
            Printable::new(name.as_bytes()).to_string(),
            "üñ\\u{202e}gnp.exe\\u{2069}\\u{2028}"
        );
    }
}
