//! Names in a form that is safe to show to people.

use std::fmt;

/// Bytes of a name in a form that is safe on a terminal: misleading characters are escaped, and long names are
/// cut.
#[derive(Clone, PartialEq, Eq)]
pub struct Printable(String);

impl Printable {
    /// Makes bytes safe to show; shows at most 1024 of them.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self::text(&String::from_utf8_lossy(
            &bytes[..bytes.len().min(SHOWN_MAX)],
        ))
    }

    /// Makes text safe to show, whatever its length.
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

/// Decides whether a character moves the cursor, begins a line, or changes the order in which the text around
/// it is shown.
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

/// The limit of bytes of a name that are shown; the rest is cut.
const SHOWN_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

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
