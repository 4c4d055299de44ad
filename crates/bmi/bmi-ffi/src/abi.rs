//! The C types and constants, and their conversion to and from the values of [`bmi`].

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::time::Duration;

use bmi::{Address, Class, Completion, ContextId, Error, OpId};

/// A number of bytes (`bmi_size_t`).
pub type Size = i64;
/// A tag (`bmi_msg_tag_t`).
pub type MessageTag = i32;
/// A context (`bmi_context_id`).
pub type Context = i64;
/// An operation (`bmi_op_id_t`).
pub type Op = i64;
/// 0 or a negative error (`bmi_error_code_t`).
pub type ErrorCode = i32;
/// The address of a peer (`BMI_addr_t`).
pub type Addr = i64;
/// Ignored (`bmi_hint`).
pub type Hint = *mut c_void;
/// `enum bmi_op_type`, as a number because a program can pass any value.
pub type OpType = c_uint;
/// `enum bmi_buffer_type`, as a number because a program can pass any value.
pub type BufferType = c_uint;

/// `BMI_INIT_SERVER`.
pub const INIT_SERVER: c_int = 1;
/// `BMI_TCP_BIND_SPECIFIC`.
pub const TCP_BIND_SPECIFIC: c_int = 2;
/// `BMI_AUTO_REF_COUNT`.
pub const AUTO_REF_COUNT: c_int = 4;
/// `BMI_SEND`.
pub const SEND: OpType = 1;
/// `BMI_RECV`.
pub const RECV: OpType = 2;
/// `BMI_PRE_ALLOC`.
pub const PRE_ALLOC: BufferType = 1;
/// `BMI_EXT_ALLOC`.
pub const EXT_ALLOC: BufferType = 2;

/// `struct BMI_unexpected_info`: a received unexpected message.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct UnexpectedInfo {
    /// Always 0.
    pub error_code: ErrorCode,
    /// The sender.
    pub addr: Addr,
    /// The bytes; valid until `BMI_unexpected_free`.
    pub buffer: *mut c_void,
    /// The number of bytes.
    pub size: Size,
    /// Its tag.
    pub tag: MessageTag,
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<UnexpectedInfo>() == 40);
    assert!(std::mem::offset_of!(UnexpectedInfo, addr) == 8);
    assert!(std::mem::offset_of!(UnexpectedInfo, buffer) == 16);
    assert!(std::mem::offset_of!(UnexpectedInfo, size) == 24);
    assert!(std::mem::offset_of!(UnexpectedInfo, tag) == 32);
};

/// The numbers of the options.
pub mod option {
    use std::ffi::c_int;

    /// `BMI_DROP_ADDR`.
    pub const DROP_ADDR: c_int = 1;
    /// `BMI_CHECK_INIT`.
    pub const CHECK_INIT: c_int = 2;
    /// `BMI_CHECK_MAXSIZE`.
    pub const CHECK_MAXSIZE: c_int = 3;
    /// `BMI_GET_METH_ADDR`.
    pub const GET_METH_ADDR: c_int = 4;
    /// `BMI_INC_ADDR_REF`.
    pub const INC_ADDR_REF: c_int = 5;
    /// `BMI_DEC_ADDR_REF`.
    pub const DEC_ADDR_REF: c_int = 6;
    /// `BMI_FORCEFUL_CANCEL_MODE`.
    pub const FORCEFUL_CANCEL_MODE: c_int = 8;
    /// `BMI_TRUSTED_CONNECTION`.
    pub const TRUSTED_CONNECTION: c_int = 9;
    /// `BMI_GET_UNEXP_SIZE`.
    pub const GET_UNEXP_SIZE: c_int = 10;
    /// `BMI_TCP_BUFFER_SEND_SIZE`.
    pub const TCP_BUFFER_SEND_SIZE: c_int = 11;
    /// `BMI_TCP_BUFFER_RECEIVE_SIZE`.
    pub const TCP_BUFFER_RECEIVE_SIZE: c_int = 12;
    /// `BMI_TCP_CLOSE_SOCKET`.
    pub const TCP_CLOSE_SOCKET: c_int = 13;
    /// `BMI_OPTIMISTIC_BUFFER_REG`.
    pub const OPTIMISTIC_BUFFER_REG: c_int = 14;
    /// `BMI_TCP_CHECK_UNEXPECTED`.
    pub const TCP_CHECK_UNEXPECTED: c_int = 15;
    /// `BMI_ZOID_POST_TIMEOUT`. In the OrangeFS dialect, 16 is another option.
    // [CABI-5]
    pub const ZOID_POST_TIMEOUT: c_int = if cfg!(feature = "orangefs") { 116 } else { 16 };
    /// `BMI_TRANSPORT_METHODS_STRING`.
    pub const TRANSPORT_METHODS_STRING: c_int = if cfg!(feature = "orangefs") { 16 } else { 17 };
    /// `BMI_TCP_GET_PORT`; the OrangeFS dialect has no name for it.
    pub const TCP_GET_PORT: c_int = 18;
}

/// Converts a result to the return value of a C function: the value or the negated error.
pub(crate) fn code(result: Result<c_int, Error>) -> c_int {
    result.unwrap_or_else(Error::code)
}

/// Converts an operation's result to an error code and a size.
pub(crate) fn outcome(completion: &Completion) -> (ErrorCode, Size) {
    match completion.result {
        // A posted message has at most `i64::MAX` bytes.
        Ok(size) => (0, size as Size),
        Err(error) => (error.code(), 0),
    }
}

/// Converts the wait of a test.
// [CABI-11]
pub(crate) fn idle(milliseconds: c_int) -> Result<Duration, Error> {
    let milliseconds = u64::try_from(milliseconds).map_err(|_| Error::Inval)?;
    Ok(Duration::from_millis(milliseconds))
}

/// Converts a capacity or a number of elements.
pub(crate) fn count(number: c_int) -> Result<usize, Error> {
    usize::try_from(number).map_err(|_| Error::Inval)
}

pub(crate) fn address(number: Addr) -> Result<Address, Error> {
    Address::from_number(number).ok_or(Error::Inval)
}

/// Converts an address; `None` for 0.
pub(crate) fn address_or_all(number: Addr) -> Result<Option<Address>, Error> {
    match number {
        0 => Ok(None),
        number => address(number).map(Some),
    }
}

pub(crate) fn context(number: Context) -> Result<ContextId, Error> {
    ContextId::from_number(number).ok_or(Error::Inval)
}

pub(crate) fn op(number: Op) -> Result<OpId, Error> {
    OpId::from_number(number).ok_or(Error::Inval)
}

pub(crate) fn class(number: u8) -> Class {
    Class(number)
}

/// Converts a user pointer to a number. The library never dereferences it.
pub(crate) fn user(pointer: *mut c_void) -> u64 {
    pointer.expose_provenance() as u64
}

pub(crate) fn user_pointer(user: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(user as usize)
}

/// Borrows a string of the caller; `None` if the pointer is null.
///
/// # Errors
///
/// [`Error::Inval`]: not UTF-8; addresses and method names are always UTF-8.
///
/// # Safety
///
/// `text` is null or a zero-terminated string that lives as long as the result.
#[expect(unsafe_code, reason = "strings of C are pointers")]
pub(crate) unsafe fn string<'a>(text: *const c_char) -> Result<Option<&'a str>, Error> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: not null; the caller guarantees the rest.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|_| Error::Inval)
}

/// Writes a result, unless the pointer is null.
///
/// # Safety
///
/// `place.add(index)` is valid for writes, or `place` is null.
#[expect(unsafe_code, reason = "results are written through pointers")]
pub(crate) unsafe fn put<T>(place: *mut T, index: usize, value: T) {
    if !place.is_null() {
        // SAFETY: not null; the caller guarantees the rest. The place need not be initialised.
        unsafe { place.add(index).write(value) };
    }
}
