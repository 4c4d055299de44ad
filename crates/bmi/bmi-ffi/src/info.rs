//! `BMI_set_info` and `BMI_get_info`: options by number.

#![expect(
    unsafe_code,
    reason = "functions that C programs call by these names, with pointers"
)]

use std::ffi::{CString, c_char, c_int, c_void};
use std::time::Duration;

use bmi::{Bmi, Error, Question, Setting};

use crate::abi::{self, Addr, option};
use crate::state::{self, interface};

unsafe extern "C" {
    /// The C library's `malloc`, so that the program can call `free` on the result.
    fn malloc(size: usize) -> *mut c_void;
}

/// Sets an option.
///
/// # Safety
///
/// `parameter` is null or points to the type that `bmi-types.h` gives for the option.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_set_info(
    address: Addr,
    option: c_int,
    parameter: *mut c_void,
) -> c_int {
    let set = || {
        // SAFETY: the caller's guarantee.
        let setting = unsafe { setting(option, parameter) }?;
        let interface = interface()?;
        let address = abi::address_or_all(address)?;
        interface.bmi.set(address, &setting)?;
        if let Some(address) = address {
            interface.forget_names(address);
        }
        Ok(0)
    };
    abi::code(set())
}

/// Converts an option and its parameter.
///
/// # Safety
///
/// As for [`BMI_set_info`].
unsafe fn setting(option: c_int, parameter: *mut c_void) -> Result<Setting, Error> {
    let number = || {
        if parameter.is_null() {
            return Err(Error::Inval);
        }
        // SAFETY: not null, so it points to a C int, which may be unaligned.
        Ok(unsafe { parameter.cast::<c_int>().read_unaligned() })
    };
    let length = || usize::try_from(number()?).map_err(|_| Error::Inval);
    Ok(match option {
        option::DROP_ADDR => Setting::DropAddress,
        option::INC_ADDR_REF => Setting::IncrementReferences,
        option::DEC_ADDR_REF => Setting::DecrementReferences,
        option::FORCEFUL_CANCEL_MODE => Setting::ForcefulCancel,
        option::TRUSTED_CONNECTION => return Err(Error::NoSys),
        option::TCP_BUFFER_SEND_SIZE => Setting::TcpSendBuffer(length()?),
        option::TCP_BUFFER_RECEIVE_SIZE => Setting::TcpReceiveBuffer(length()?),
        option::TCP_CLOSE_SOCKET => Setting::CloseConnection,
        option::OPTIMISTIC_BUFFER_REG => Setting::OptimisticRegistration,
        option::TCP_CHECK_UNEXPECTED => Setting::CheckUnexpected(number()? != 0),
        option::ZOID_POST_TIMEOUT => {
            // [OPT-6]
            let milliseconds = u64::try_from(number()?).map_err(|_| Error::Inval)?;
            Setting::PostTimeout(Duration::from_millis(milliseconds))
        }
        other => Setting::Other(other),
    })
}

/// Writes a property.
///
/// # Safety
///
/// `parameter` is null or points to the type that `bmi-types.h` gives for the option.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_get_info(
    address: Addr,
    option: c_int,
    parameter: *mut c_void,
) -> c_int {
    let get = || match option {
        option::CHECK_INIT => interface().map(|_| 0).map_err(|_| Error::NetDown),
        // SAFETY: the caller's guarantee.
        option::TRANSPORT_METHODS_STRING => unsafe { put_methods(parameter) },
        // SAFETY: the caller's guarantee.
        option::GET_METH_ADDR => unsafe { put_method_address(address, parameter) },
        // SAFETY: the caller's guarantee.
        _ => unsafe { put_number(address, option, parameter) },
    };
    abi::code(get())
}

/// Writes a property that is a number.
///
/// # Safety
///
/// As for [`BMI_get_info`].
// [CABI-23]
unsafe fn put_number(address: Addr, option: c_int, target: *mut c_void) -> Result<c_int, Error> {
    let interface = interface()?;
    let (address, question) = match option {
        // The address is ignored: programs pass uninitialised addresses here.
        option::CHECK_MAXSIZE => (None, Question::MaxSize),
        option::TCP_GET_PORT => (None, Question::TcpPort),
        option::GET_UNEXP_SIZE => (Some(abi::address(address)?), Question::UnexpectedSize),
        option::ZOID_POST_TIMEOUT => (abi::address_or_all(address)?, Question::PostTimeout),
        _ => return Err(Error::NoSys),
    };
    if target.is_null() {
        return Err(Error::Inval);
    }
    let answer = interface.bmi.get(address, question)?;
    if question == Question::MaxSize && answer == 0 {
        // No method is active: the target stays unchanged.
        return Ok(0);
    }
    let answer = c_int::try_from(answer).unwrap_or(c_int::MAX);
    // SAFETY: not null, so it points to a C int, which may be unaligned.
    unsafe { target.cast::<c_int>().write_unaligned(answer) };
    Ok(0)
}

/// Writes a pointer that identifies an address: unique and constant as long as the address exists. Programs
/// can only print and compare it.
///
/// # Safety
///
/// As for [`BMI_get_info`].
unsafe fn put_method_address(address: Addr, target: *mut c_void) -> Result<c_int, Error> {
    let name = interface()?.printed_name(abi::address(address)?);
    if name.is_null() || target.is_null() {
        return Err(Error::Inval);
    }
    // SAFETY: not null, so it points to a pointer, which may be unaligned.
    unsafe { target.cast::<*const c_char>().write_unaligned(name) };
    Ok(0)
}

/// Writes the list of methods, each followed by a comma. Returns the number of methods.
///
/// # Safety
///
/// As for [`BMI_get_info`].
// [CABI-22]
unsafe fn put_methods(target: *mut c_void) -> Result<c_int, Error> {
    if target.is_null() {
        return Err(Error::Inval);
    }
    // The names are available before `BMI_initialize`.
    let names: Vec<&str> = state::with_methods(Bmi::builder()).method_names().collect();
    let text: String = names.iter().flat_map(|name| [*name, ","]).collect();
    let text = CString::new(text).unwrap_or_default();
    let bytes = text.as_bytes_with_nul();
    // SAFETY: `malloc` may be called with any size.
    let copy = unsafe { malloc(bytes.len()) }.cast::<c_char>();
    if copy.is_null() {
        return Err(Error::NoMem);
    }
    // SAFETY: `copy` has room for the bytes and is not shared; `target` points to a `char *`.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), copy, bytes.len());
        target.cast::<*mut c_char>().write_unaligned(copy);
    }
    Ok(names.len() as c_int)
}
