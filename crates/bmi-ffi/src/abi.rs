//! What crosses the border: types, constants, and how values of the two sides become each other.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::time::Duration;

use bmi::{Address, Class, Completion, ContextId, Error, OpId};

/// A number of bytes (`bmi_size_t`).
pub type Size = i64;
/// What messages are told apart by (`bmi_msg_tag_t`).
pub type MessageTag = i32;
/// An open context (`bmi_context_id`).
pub type Context = i64;
/// An operation (`bmi_op_id_t`).
pub type Op = i64;
/// 0 or a negative error (`bmi_error_code_t`).
pub type ErrorCode = i32;
/// Somebody to exchange messages with (`BMI_addr_t`).
pub type Addr = i64;
/// Ignored (`bmi_hint`).
pub type Hint = *mut c_void;
/// `enum bmi_op_type`. Programs can pass any value, so it is a number.
pub type OpType = c_uint;
/// `enum bmi_buffer_type`.
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

/// `struct BMI_unexpected_info`: a message that nobody posted a receive for.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct UnexpectedInfo {
    /// 0.
    pub error_code: ErrorCode,
    /// Who sent it.
    pub addr: Addr,
    /// Its bytes, until `BMI_unexpected_free`.
    pub buffer: *mut c_void,
    /// How many there are.
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

/// The options, by their numbers.
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
    /// `BMI_ZOID_POST_TIMEOUT`. The OrangeFS dialect has another option at 16.
    pub const ZOID_POST_TIMEOUT: c_int = if cfg!(feature = "orangefs") { 116 } else { 16 };
    /// `BMI_TRANSPORT_METHODS_STRING`.
    pub const TRANSPORT_METHODS_STRING: c_int = if cfg!(feature = "orangefs") { 16 } else { 17 };
    /// `BMI_TCP_GET_PORT`, which the OrangeFS dialect does not name.
    pub const TCP_GET_PORT: c_int = 18;
}

/// The result of a function: what it says, or the negated error.
pub(crate) fn code(result: Result<c_int, Error>) -> c_int {
    result.unwrap_or_else(Error::code)
}

/// An operation's result as an error code and a size.
pub(crate) fn outcome(completion: &Completion) -> (ErrorCode, Size) {
    match completion.result {
        // A message is at most `i64::MAX` bytes long, or it would not have been posted.
        Ok(size) => (0, size as Size),
        Err(error) => (error.code(), 0),
    }
}

/// The time of a test.
pub(crate) fn idle(milliseconds: c_int) -> Result<Duration, Error> {
    let milliseconds = u64::try_from(milliseconds).map_err(|_| Error::Inval)?;
    Ok(Duration::from_millis(milliseconds))
}

/// A capacity or a number of elements.
pub(crate) fn count(number: c_int) -> Result<usize, Error> {
    usize::try_from(number).map_err(|_| Error::Inval)
}

pub(crate) fn address(number: Addr) -> Result<Address, Error> {
    Address::from_number(number).ok_or(Error::Inval)
}

/// An address, or none for 0.
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

/// What a program wants back, as a number. Only the program ever makes a pointer of it.
pub(crate) fn user(pointer: *mut c_void) -> u64 {
    pointer.expose_provenance() as u64
}

pub(crate) fn user_pointer(user: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(user as usize)
}

/// A string of the caller's; `None` when the pointer is null.
///
/// # Errors
///
/// [`Error::Inval`]: not UTF-8, which no address and no method name is.
///
/// # Safety
///
/// `text` is null or a string that ends with a zero byte and lives as long as the result.
#[expect(unsafe_code, reason = "strings of C are pointers")]
pub(crate) unsafe fn string<'a>(text: *const c_char) -> Result<Option<&'a str>, Error> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, and the caller promises the rest.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|_| Error::Inval)
}

/// Writes a result, if the caller wants it.
///
/// # Safety
///
/// `place.add(index)` is valid for writes, or `place` is null.
#[expect(unsafe_code, reason = "results are written through pointers")]
pub(crate) unsafe fn put<T>(place: *mut T, index: usize, value: T) {
    if !place.is_null() {
        // SAFETY: not null, and the caller promises the rest. The place need not be initialised.
        unsafe { place.add(index).write(value) };
    }
}
