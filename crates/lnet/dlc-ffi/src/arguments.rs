//! Conversions of arguments from C to Rust.

#![expect(unsafe_code, reason = "pointers from C")]

use std::ffi::{CStr, c_char, c_int, c_void};

use lnet_policy::Priority;

use crate::session::Failed;

pub(crate) const EINVAL: c_int = 22;

/// An optional text.
///
/// # Safety
///
/// `text` is null, or a string that ends with a zero byte and does not change while `'a` lasts.
pub(crate) unsafe fn optional<'a>(text: *const c_char) -> Result<Option<&'a str>, Failed> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the pointer is not null, and the caller guarantees the rest.
    let text = unsafe { CStr::from_ptr(text) }.to_str();
    text.map(Some)
        .map_err(|_| Failed::new(-EINVAL, "an argument is not UTF-8"))
}

/// A required text.
///
/// # Safety
///
/// As [`optional`].
pub(crate) unsafe fn required<'a>(text: *const c_char) -> Result<&'a str, Failed> {
    // SAFETY: the caller guarantees the same.
    let text = unsafe { optional(text) }?;
    text.ok_or_else(|| Failed::new(-EINVAL, "a required argument is NULL"))
}

/// Bytes of the caller; empty if the pointer is null.
///
/// # Safety
///
/// `bytes` is null or points to `length` readable bytes that do not change while `'a` lasts.
pub(crate) unsafe fn bytes<'a>(bytes: *const c_void, length: usize) -> &'a [u8] {
    if bytes.is_null() || length > isize::MAX as usize {
        return &[];
    }
    // SAFETY: the pointer is not null, the length is at most that of a slice, and the caller
    // guarantees the rest.
    unsafe { std::slice::from_raw_parts(bytes.cast(), length) }
}

pub(crate) fn priority(value: c_int) -> Result<Priority, Failed> {
    let priority = u32::try_from(value).ok().and_then(Priority::new);
    priority.ok_or_else(|| Failed::new(-EINVAL, format!("priority {value}: must not be negative")))
}

/// An id; −1 stands for none.
pub(crate) fn id(value: c_int) -> Result<Option<usize>, Failed> {
    match value {
        -1 => Ok(None),
        _ => usize::try_from(value)
            .map(Some)
            .map_err(|_| Failed::new(-EINVAL, format!("id {value}: must be -1 or more"))),
    }
}
