//! Tests: write completed operations to the caller's arrays.

#![expect(
    unsafe_code,
    reason = "functions that C programs call by these names, with pointers"
)]

use std::ffi::{c_int, c_void};

use bmi::{Completion, Error};

use crate::abi::{self, Context, ErrorCode, Op, Size, UnexpectedInfo};
use crate::state::{UNEXPECTED, interface};

/// The places for the results of a test.
#[derive(Clone, Copy)]
struct Results {
    count: *mut c_int,
    errors: *mut ErrorCode,
    sizes: *mut Size,
    users: *mut *mut c_void,
}

impl Results {
    /// Writes a count of 0, before anything can fail.
    ///
    /// # Safety
    ///
    /// The count is null or valid for writes.
    // [CABI-13]
    unsafe fn clear(self) -> Result<(), Error> {
        // SAFETY: the caller's guarantee.
        unsafe { abi::put(self.count, 0, 0) };
        if self.count.is_null() || self.errors.is_null() {
            return Err(Error::Inval);
        }
        Ok(())
    }

    /// Writes the result at `index`.
    ///
    /// # Safety
    ///
    /// Each array is null or has more than `index` elements.
    unsafe fn put(self, index: usize, completion: &Completion) {
        let (error, size) = abi::outcome(completion);
        let user = abi::user_pointer(completion.user);
        // SAFETY: the caller's guarantee.
        unsafe {
            abi::put(self.errors, index, error);
            abi::put(self.sizes, index, size);
            abi::put(self.users, index, user);
        }
    }

    /// Writes the count. Returns the result of the function.
    ///
    /// # Safety
    ///
    /// The count is valid for writes.
    // [CABI-13]
    unsafe fn report(self, count: usize) -> c_int {
        // SAFETY: the caller's guarantee. The capacity was a C int, so the count fits.
        unsafe { abi::put(self.count, 0, count as c_int) };
        c_int::from(count > 0)
    }
}

/// Tests one operation.
///
/// # Safety
///
/// Every pointer is null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_test(
    op: Op,
    count: *mut c_int,
    error: *mut ErrorCode,
    size: *mut Size,
    user: *mut *mut c_void,
    idle: c_int,
    context: Context,
) -> c_int {
    let results = Results {
        count,
        errors: error,
        sizes: size,
        users: user,
    };
    let test = || {
        // SAFETY: the caller's guarantee.
        unsafe { results.clear() }?;
        let wait = abi::idle(idle)?;
        let interface = interface()?;
        check_context(&interface.bmi, context)?;
        let found = interface.bmi.test(abi::op(op)?, wait)?;
        if let Some(completion) = &found {
            // SAFETY: the caller's guarantee: one element each.
            unsafe { results.put(0, completion) };
        }
        // SAFETY: not null, so valid for writes.
        Ok(unsafe { results.report(usize::from(found.is_some())) })
    };
    abi::code(test())
}

/// Tests several operations; ids of 0 are skipped.
///
/// # Safety
///
/// Every array is null or has `capacity` elements; `count` is null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_testsome(
    capacity: c_int,
    ops: *mut Op,
    count: *mut c_int,
    indices: *mut c_int,
    errors: *mut ErrorCode,
    sizes: *mut Size,
    users: *mut *mut c_void,
    idle: c_int,
    context: Context,
) -> c_int {
    let results = Results {
        count,
        errors,
        sizes,
        users,
    };
    let test = || {
        // SAFETY: the caller's guarantee.
        unsafe { results.clear() }?;
        let wait = abi::idle(idle)?;
        let capacity = abi::count(capacity)?;
        if capacity > 0 && (ops.is_null() || indices.is_null()) {
            return Err(Error::Inval);
        }
        let interface = interface()?;
        check_context(&interface.bmi, context)?;
        let mut places = Vec::new();
        let mut named = Vec::new();
        for index in 0..capacity {
            // SAFETY: not null, and has `capacity` elements.
            let op = unsafe { *ops.add(index) };
            if op != 0 {
                places.push(index);
                named.push(abi::op(op)?);
            }
        }
        let found = interface.bmi.test_some(&named, wait)?;
        for (slot, (place, completion)) in found.iter().enumerate() {
            // SAFETY: at most as many are found as were passed. An index fits in a C int, because the
            // capacity was one.
            unsafe {
                abi::put(indices, slot, places[*place] as c_int);
                results.put(slot, completion);
            }
        }
        // SAFETY: not null, so valid for writes.
        Ok(unsafe { results.report(found.len()) })
    };
    abi::code(test())
}

/// Tests a context.
///
/// # Safety
///
/// Every array is null or has `capacity` elements; `count` is null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_testcontext(
    capacity: c_int,
    ops: *mut Op,
    count: *mut c_int,
    errors: *mut ErrorCode,
    sizes: *mut Size,
    users: *mut *mut c_void,
    idle: c_int,
    context: Context,
) -> c_int {
    let results = Results {
        count,
        errors,
        sizes,
        users,
    };
    let test = || {
        // SAFETY: the caller's guarantee.
        unsafe { results.clear() }?;
        let wait = abi::idle(idle)?;
        let capacity = abi::count(capacity)?;
        if ops.is_null() {
            return Err(Error::Inval);
        }
        let context = abi::context(context)?;
        let found = interface()?.bmi.test_context(context, capacity, wait)?;
        for (slot, completion) in found.iter().enumerate() {
            // SAFETY: at most `capacity` are found.
            unsafe {
                abi::put(ops, slot, completion.op.number());
                results.put(slot, completion);
            }
        }
        // SAFETY: not null, so valid for writes.
        Ok(unsafe { results.report(found.len()) })
    };
    abi::code(test())
}

/// Collects unexpected messages of a class.
///
/// # Safety
///
/// `infos` is null or has `capacity` elements; `count` is null or valid for writes.
#[cfg(not(feature = "orangefs"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_testunexpected_class(
    capacity: c_int,
    count: *mut c_int,
    infos: *mut UnexpectedInfo,
    class: u8,
    idle: c_int,
) -> c_int {
    // SAFETY: the caller's guarantee.
    unsafe { test_unexpected(capacity, count, infos, class, idle) }
}

/// Collects unexpected messages of class 0. The header also has a macro of this name.
///
/// # Safety
///
/// `infos` is null or has `capacity` elements; `count` is null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_testunexpected(
    capacity: c_int,
    count: *mut c_int,
    infos: *mut UnexpectedInfo,
    idle: c_int,
) -> c_int {
    // SAFETY: the caller's guarantee.
    unsafe { test_unexpected(capacity, count, infos, 0, idle) }
}

/// Collects unexpected messages of a class.
///
/// # Safety
///
/// `infos` is null or has `capacity` elements; `count` is null or valid for writes.
unsafe fn test_unexpected(
    capacity: c_int,
    count: *mut c_int,
    infos: *mut UnexpectedInfo,
    class: u8,
    idle: c_int,
) -> c_int {
    let test = || {
        // SAFETY: the caller's guarantee.
        unsafe { abi::put(count, 0, 0) };
        let capacity = abi::count(capacity)?;
        if count.is_null() || infos.is_null() && capacity > 0 {
            return Err(Error::Inval);
        }
        let wait = abi::idle(idle)?;
        let interface = interface()?;
        let found = interface
            .bmi
            .test_unexpected(abi::class(class), capacity, wait)?;
        let number = found.len();
        for (slot, message) in found.into_iter().enumerate() {
            // Every length is at most `i64::MAX`.
            let size = message.data.len() as Size;
            let info = UnexpectedInfo {
                error_code: 0,
                addr: message.from.number(),
                buffer: UNEXPECTED.keep(message.data.into_span()).cast(),
                size,
                tag: message.tag.0,
            };
            // SAFETY: at most `capacity` are found.
            unsafe { abi::put(infos, slot, info) };
        }
        // SAFETY: not null, so valid for writes. The capacity was a C int, so the number fits.
        unsafe { abi::put(count, 0, number as c_int) };
        Ok(c_int::from(number > 0))
    };
    abi::code(test())
}

fn check_context(bmi: &bmi::Bmi, context: Context) -> Result<(), Error> {
    let context = abi::context(context)?;
    if bmi.is_open(context) {
        Ok(())
    } else {
        Err(Error::Inval)
    }
}
