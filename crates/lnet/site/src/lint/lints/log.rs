//! The messages in a text: its lines, some of which programs split in two.

use std::borrow::Cow;
use std::iter;

use super::{errnos, messages};

/// The top-level keys of a configuration. A text with one of them is a document, although the answer to a request may
/// stand in it.
const KEYS: [&str; 8] = [
    "net:",
    "ip2nets:",
    "route:",
    "routing:",
    "peer:",
    "udsp:",
    "global:",
    "statistics:",
];

/// Returns true if a text is a log, or what a program printed, and not a configuration.
pub(in crate::lint) fn is_log(text: &str) -> bool {
    let has_key = |line: &str| KEYS.iter().any(|key| line.starts_with(key));
    let is_document = text.lines().any(has_key);
    lines_of(text).any(|(_, line)| is_message(&line) && !(is_document && messages::is_block(&line)))
}

/// Returns true for lines of the kernel's modules, and of the programs that load, mount, configure and install them. A
/// comment is none, whatever it quotes.
pub(super) fn is_message(line: &str) -> bool {
    if line.trim_start().starts_with('#') {
        return false;
    }
    messages::is_of_kernel(line) || messages::is_block(line) || messages::place_of(line).is_some()
}

/// Returns the lines of a text with their numbers, without empty ones. What a program prints in two lines is one.
pub(super) fn lines_of(text: &str) -> impl Iterator<Item = (usize, Cow<'_, str>)> {
    let lines = (1..).zip(text.lines());
    let mut lines = lines.filter(|(_, line)| !line.trim().is_empty()).peekable();
    iter::from_fn(move || {
        let (number, line) = lines.next()?;
        let more = lines.next_if(|(_, next)| goes_on(line, next));
        let whole = match more {
            Some((_, more)) => Cow::Owned(format!("{line} {}", more.trim())),
            None => Cow::Borrowed(line),
        };
        Some((number, whole))
    })
}

/// Returns true if a message goes on in the next line: the reason of a failed mount, and the text of a number.
fn goes_on(line: &str, next: &str) -> bool {
    let next = next.trim();
    if line.contains("errno: -") {
        return next.contains("descr: ");
    }
    if line.contains("mount.lustre: mount ") && !line.contains("failed: ") {
        return next.starts_with("failed: ");
    }
    line.contains("mount -t lustre ") && errnos::is_text(next)
}
