//! What a command of `lst` prints, and the key of the session that the command belongs to.

use serde::{Deserialize, Serialize};

/// A piece of the answer to a command of `lst`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Said {
    /// A line for standard output, without the line end.
    Out(String),
    /// An error message.
    Err(String),
    /// The command waits. Sent at least once a second while it does, and tells the node that the client has gone.
    Waits,
    /// The exit code. This is the last piece.
    Code(u8),
}

/// The limit of bytes of a session's key.
const KEY_MAX: usize = 64;

/// Returns whether a text is the key of a session: 1 to 64 letters, digits, dots, dashes and underscores.
#[must_use]
pub fn is_lst_key(key: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !key.is_empty() && key.len() <= KEY_MAX && key.bytes().all(is_good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_short_word_without_slashes() {
        for good in ["77", "a.b-c_d", &"k".repeat(64)] {
            assert!(is_lst_key(good), "{good}");
        }
        for bad in ["", "a/b", "a b", "\u{e4}", "a\0", &"k".repeat(65)] {
            assert!(!is_lst_key(bad), "{bad}");
        }
    }
}
