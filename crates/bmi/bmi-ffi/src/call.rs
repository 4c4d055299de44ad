//! Initialization, contexts, addresses, memory, cancel, error numbers.

#![expect(
    unsafe_code,
    reason = "functions that C programs call by these names, with pointers"
)]

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use bmi::{Bmi, Error};

use crate::abi::{
    self, AUTO_REF_COUNT, Addr, Context, INIT_SERVER, Op, OpType, RECV, SEND, Size,
    TCP_BIND_SPECIFIC,
};
use crate::state::{self, ALLOCATED, UNEXPECTED, interface};

/// Starts the interface; every further call adds a reference.
///
/// # Safety
///
/// Both strings are null or zero-terminated.
#[cfg(not(feature = "orangefs"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_initialize(
    methods: *const c_char,
    listen: *const c_char,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's guarantee.
    unsafe { initialize(methods, listen, flags) }
}

/// Starts the interface; every further call adds a reference. The options are ignored.
///
/// # Safety
///
/// Both strings are null or zero-terminated.
#[cfg(feature = "orangefs")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_initialize(
    methods: *const c_char,
    listen: *const c_char,
    flags: c_int,
    _options: *mut c_char,
) -> c_int {
    // SAFETY: the caller's guarantee.
    unsafe { initialize(methods, listen, flags) }
}

// [CABI-15]
unsafe fn initialize(methods: *const c_char, listen: *const c_char, flags: c_int) -> c_int {
    crate::log::begin();
    // SAFETY: guaranteed by the callers of both exported functions.
    let strings = unsafe { (abi::string(methods), abi::string(listen)) };
    let start = || {
        let (methods, listen) = (strings.0?, strings.1?);
        let server = flags & INIT_SERVER != 0;
        if listen.is_some() != server || server && methods.is_none() {
            return Err(Error::Inval);
        }
        if !server && flags & !INIT_SERVER != 0 {
            tracing::warn!(flags, "these flags mean nothing without BMI_INIT_SERVER");
        }
        let mut builder = state::with_methods(Bmi::builder())
            .bind_specific(flags & TCP_BIND_SPECIFIC != 0)
            .auto_reference(flags & AUTO_REF_COUNT != 0);
        if let Some(methods) = methods {
            builder = builder.only(methods);
        }
        if let Some(listen) = listen {
            builder = builder.listen(listen);
        }
        builder.start()
    };
    abi::code(state::initialize(start).map(|()| 0))
}

/// Releases a reference; the last one shuts the interface down.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_finalize() -> c_int {
    abi::code(state::finalize().map(|()| 0))
}

/// Opens a context.
///
/// # Safety
///
/// `out` is null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_open_context(out: *mut Context) -> c_int {
    let open = || {
        if out.is_null() {
            return Err(Error::Inval);
        }
        let context = interface()?.bmi.open_context()?;
        // SAFETY: not null, so valid for writes.
        unsafe { abi::put(out, 0, context.number()) };
        Ok(0)
    };
    abi::code(open())
}

/// Closes a context. A context that is not open is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_close_context(context: Context) {
    if let (Ok(interface), Ok(context)) = (interface(), abi::context(context)) {
        interface.bmi.close_context(context);
    }
}

/// Looks up an address.
///
/// # Safety
///
/// `out` is null or valid for writes; the string is null or zero-terminated.
#[cfg(not(feature = "orangefs"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_addr_lookup(out: *mut Addr, name: *const c_char) -> c_int {
    // SAFETY: the caller's guarantee.
    unsafe { lookup(out, name) }
}

/// Looks up an address. The options are ignored.
///
/// # Safety
///
/// `out` is null or valid for writes; the string is null or zero-terminated.
#[cfg(feature = "orangefs")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_addr_lookup(
    out: *mut Addr,
    name: *const c_char,
    _options: *mut c_char,
) -> c_int {
    // SAFETY: the caller's guarantee.
    unsafe { lookup(out, name) }
}

unsafe fn lookup(out: *mut Addr, name: *const c_char) -> c_int {
    let look = || {
        // SAFETY: guaranteed by the callers of both exported functions.
        let name = unsafe { abi::string(name) }?.ok_or(Error::Inval)?;
        if out.is_null() {
            return Err(Error::Inval);
        }
        let address = interface()?.bmi.lookup(name)?;
        // SAFETY: not null, so valid for writes.
        unsafe { abi::put(out, 0, address.number()) };
        Ok(0)
    };
    abi::code(look())
}

/// Returns the string that an address was looked up as: empty if the address was learnt from an unexpected
/// message, null if there is no such address.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_addr_rev_lookup(address: Addr) -> *const c_char {
    match (interface(), abi::address(address)) {
        (Ok(interface), Ok(address)) => interface.name(address),
        _ => ptr::null(),
    }
}

/// Returns a printable name of an address; null if there is no such address.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_addr_rev_lookup_unexpected(address: Addr) -> *const c_char {
    match (interface(), abi::address(address)) {
        (Ok(interface), Ok(address)) => interface.printed_name(address),
        _ => ptr::null(),
    }
}

/// Returns 1 if an address is in a range, else 0.
///
/// # Safety
///
/// The string is null or zero-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_query_addr_range(
    address: Addr,
    wildcard: *const c_char,
    netmask: c_int,
) -> c_int {
    let query = || {
        // SAFETY: the caller's guarantee.
        let wildcard = unsafe { abi::string(wildcard) }?.ok_or(Error::Inval)?;
        let bits = u32::try_from(netmask).map_err(|_| Error::Inval)?;
        let address = abi::address(address)?;
        let inside = interface()?.bmi.in_range(address, wildcard, bits)?;
        Ok(c_int::from(inside))
    };
    abi::code(query())
}

/// Allocates memory for messages with an address; null on failure.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_memalloc(address: Addr, size: Size, direction: OpType) -> *mut c_void {
    let allocate = || {
        if direction != SEND && direction != RECV {
            return Err(Error::Inval);
        }
        let len = usize::try_from(size).map_err(|_| Error::Inval)?;
        let address = abi::address(address)?;
        interface()?.bmi.allocate(address, len)
    };
    match allocate() {
        Ok(buffer) => ALLOCATED.keep(buffer.into_span()).cast(),
        Err(error) => {
            tracing::debug!(%error, size, "no memory was allocated");
            ptr::null_mut()
        }
    }
}

/// Frees memory from `BMI_memalloc`. Null is ignored. The pointer is only compared, never dereferenced.
// [CABI-20]
#[unsafe(no_mangle)]
pub extern "C" fn BMI_memfree(
    address: Addr,
    buffer: *mut c_void,
    _size: Size,
    _direction: OpType,
) -> c_int {
    let free = || {
        if let Ok(interface) = interface() {
            let known = interface.bmi.peer_name(abi::address(address)?);
            known.ok_or(Error::Inval)?;
        }
        if buffer.is_null() || ALLOCATED.free(buffer.cast()) {
            return Ok(0);
        }
        Err(Error::Inval)
    };
    abi::code(free())
}

/// Frees the buffer of an unexpected message. The pointer is only compared, never dereferenced.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_unexpected_free(address: Addr, buffer: *mut c_void) -> c_int {
    if UNEXPECTED.free(buffer.cast()) {
        return 0;
    }
    let reject = || {
        let receives = interface()?.bmi.receives_unexpected(abi::address(address)?);
        match receives {
            Some(false) => Err(Error::OpNotSupp),
            _ => Err(Error::Inval),
        }
    };
    abi::code(reject())
}

/// Requests the cancellation of an operation.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_cancel(op: Op, _context: Context) -> c_int {
    let cancel = || {
        let interface = interface()?;
        match abi::op(op) {
            Ok(op) => interface.bmi.cancel(op).map(|()| 0),
            // An id that names nothing is ignored.
            Err(_) => Ok(0),
        }
    };
    abi::code(cancel())
}

/// Converts a number of `<errno.h>` to the BMI number and keeps the sign. Returns an unknown number
/// unchanged.
// [CABI-24]
#[unsafe(no_mangle)]
pub extern "C" fn bmi_errno_to_pvfs(error: c_int) -> c_int {
    let known = error.checked_abs().and_then(Error::from_errno);
    known.map_or(error, |known| known.number() * error.signum())
}

/// Returns the name of an error of either sign. The library owns the string.
// [CABI-26]
#[unsafe(no_mangle)]
pub extern "C" fn bmi_status_string(error: c_int) -> *const c_char {
    static NAMES: OnceLock<Vec<CString>> = OnceLock::new();
    let names = NAMES.get_or_init(|| {
        let names = Error::ALL.into_iter().map(Error::name);
        // No name contains a zero byte.
        names
            .map(|name| CString::new(name).unwrap_or_default())
            .collect()
    });
    if error == 0 {
        return c"BMI_SUCCESS".as_ptr();
    }
    let place = Error::from_number(error)
        .and_then(|known| Error::ALL.into_iter().position(|other| other == known));
    match place.and_then(|place| names.get(place)) {
        Some(name) => name.as_ptr(),
        None => c"(UNKNOWN)".as_ptr(),
    }
}
