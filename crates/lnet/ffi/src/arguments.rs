//! Conversions of arguments from C to Rust.

#![expect(unsafe_code, reason = "pointers from C")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::time::Duration;

use nix::errno::Errno;

use crate::failure::Failure;

/// Returns a required text.
///
/// # Safety
///
/// `text` is null, or a string that ends with a zero byte and does not change while `'a` lasts.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(null(what));
    }
    // SAFETY: the pointer is not null, and the caller guarantees the rest.
    let text = unsafe { CStr::from_ptr(text) }.to_str();
    text.map_err(|_| Failure::new(Errno::EINVAL, format_args!("{what} is not UTF-8")))
}

/// Returns what a required pointer points to.
///
/// # Safety
///
/// `pointer` is null, or points to a value that does not change while `'a` lasts.
pub(crate) unsafe fn read<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller guarantees the same.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(what))
}

/// The places of results, in memory of the program that nobody has written yet.
pub(crate) struct Places<T> {
    start: *mut T,
    count: usize,
}

impl<T> Places<T> {
    /// Takes an array of the program, which may be null if it has no places.
    ///
    /// # Safety
    ///
    /// `start` is null, or valid for writes of `count` values as long as this lives, and nothing else accesses them.
    pub(crate) unsafe fn array(start: *mut T, count: usize, what: &str) -> Result<Self, Failure> {
        check_size::<T>(start.is_null(), count, what)?;
        Ok(Self { start, count })
    }

    /// Takes the place of one result.
    ///
    /// # Safety
    ///
    /// As [`Places::array`].
    pub(crate) unsafe fn one(start: *mut T, what: &str) -> Result<Self, Failure> {
        // SAFETY: the caller guarantees the same.
        unsafe { Self::array(start, 1, what) }
    }

    /// Returns the number of places.
    pub(crate) const fn len(&self) -> usize {
        self.count
    }

    /// Writes a result; without effect beyond the last place.
    pub(crate) fn set(&mut self, index: usize, value: T) {
        if index < self.count {
            // SAFETY: the place is one of those that `array` was promised.
            unsafe { self.start.add(index).write(value) };
        }
    }

    /// Writes results, as many as there are places for. Returns how many there were.
    pub(crate) fn fill(&mut self, values: impl IntoIterator<Item = T>) -> usize {
        let mut count = 0;
        for value in values {
            self.set(count, value);
            count += 1;
        }
        count
    }
}

impl Places<u8> {
    /// Writes bytes, as many as there are places for.
    pub(crate) fn copy(&mut self, bytes: &[u8]) {
        let length = bytes.len().min(self.count);
        if length > 0 {
            // SAFETY: the places are those that `array` was promised, and `bytes` are in memory of this library.
            unsafe { self.start.copy_from_nonoverlapping(bytes.as_ptr(), length) };
        }
    }
}

/// Returns the elements of an array, which may be null if there are none.
///
/// # Safety
///
/// `start` is null, or points to `count` values that do not change while `'a` lasts.
pub(crate) unsafe fn array<'a, T>(
    start: *const T,
    count: usize,
    what: &str,
) -> Result<&'a [T], Failure> {
    check_size::<T>(start.is_null(), count, what)?;
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: the pointer is not null, the size is at most that of a slice, and the caller guarantees the rest.
    Ok(unsafe { std::slice::from_raw_parts(start, count) })
}

/// Returns bytes of the program.
///
/// # Safety
///
/// As [`array`].
pub(crate) unsafe fn bytes<'a>(start: *const c_void, length: usize) -> Result<&'a [u8], Failure> {
    // SAFETY: the caller guarantees the same.
    unsafe { array(start.cast(), length, "data") }
}

fn check_size<T>(is_null: bool, count: usize, what: &str) -> Result<(), Failure> {
    if is_null && count > 0 {
        return Err(null(what));
    }
    let size = count.checked_mul(size_of::<T>());
    if size.is_none_or(|size| size > isize::MAX as usize) {
        let text = format_args!("{what}: {count} are more than memory has");
        return Err(Failure::new(Errno::EINVAL, text));
    }
    Ok(())
}

/// Returns the failure of a null pointer.
pub(crate) fn null(what: &str) -> Failure {
    Failure::new(Errno::EFAULT, format_args!("{what} is a null pointer"))
}

/// Returns a time of the program; `None` for a negative one, which has no limit.
pub(crate) fn time(milliseconds: c_int) -> Option<Duration> {
    u64::try_from(milliseconds).ok().map(Duration::from_millis)
}

/// The same where a limit is needed.
pub(crate) fn time_limit(milliseconds: c_int) -> Duration {
    time(milliseconds).unwrap_or(Duration::from_secs(u32::MAX.into()))
}

/// Returns a number for C. More than the largest cannot be counted.
pub(crate) fn number(count: usize) -> c_int {
    c_int::try_from(count).unwrap_or(c_int::MAX)
}

/// Returns the failure of a struct whose `size` no version of the header has.
pub(crate) fn check_struct(size: usize, known: usize, what: &str) -> Result<(), Failure> {
    if size < known {
        let text = format_args!("{what}: size is {size}, less than sizeof, {known}: set it first");
        return Err(Failure::new(Errno::EINVAL, text));
    }
    Ok(())
}
