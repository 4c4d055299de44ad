//! Puts and gets.

#![expect(unsafe_code, reason = "pointers from C, exported names")]

use std::ffi::c_int;

use lnet_node::ManyError;

use crate::abi::{flnet_get, flnet_put};
use crate::arguments::{self, number};
use crate::failure::{Failure, keep_text, returned};
use crate::handles;

/// See the header.
///
/// # Safety
///
/// `put` is null or a struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flnet_put(node: u64, put: *const flnet_put) -> c_int {
    // SAFETY: the caller promises the same.
    let put = unsafe { arguments::read(put, "put") };
    returned(handles::node(node).and_then(|node| {
        node.put(put?.request()?)?;
        Ok(0)
    }))
}

/// See the header.
///
/// # Safety
///
/// `get` is null or a struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flnet_get(node: u64, get: *const flnet_get) -> c_int {
    // SAFETY: the caller promises the same.
    let get = unsafe { arguments::read(get, "get") };
    returned(handles::node(node).and_then(|node| {
        node.get(get?.request()?)?;
        Ok(0)
    }))
}

/// See the header.
///
/// # Safety
///
/// `puts` is null or points to `count` structs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flnet_put_many(node: u64, puts: *const flnet_put, count: usize) -> c_int {
    // SAFETY: the caller promises the same.
    let puts = unsafe { arguments::array(puts, count, "puts") };
    returned(handles::node(node).and_then(|node| {
        let (puts, rejected) = requests(puts?, flnet_put::request);
        begun(node.put_many(&puts), puts.len(), rejected)
    }))
}

/// See the header.
///
/// # Safety
///
/// `gets` is null or points to `count` structs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flnet_get_many(node: u64, gets: *const flnet_get, count: usize) -> c_int {
    // SAFETY: the caller promises the same.
    let gets = unsafe { arguments::array(gets, count, "gets") };
    returned(handles::node(node).and_then(|node| {
        let (gets, rejected) = requests(gets?, flnet_get::request);
        begun(node.get_many(&gets), gets.len(), rejected)
    }))
}

/// Returns the requests in front of the first one that is none, and what is wrong with that one.
fn requests<T, R>(
    given: &[T],
    request: impl Fn(&T) -> Result<R, Failure>,
) -> (Vec<R>, Option<Failure>) {
    let mut requests = Vec::with_capacity(given.len());
    for one in given {
        match request(one) {
            Ok(made) => requests.push(made),
            Err(failure) => return (requests, Some(failure)),
        }
    }
    (requests, None)
}

/// Returns how many operations have begun; the failure if it is none of several.
fn begun(
    result: Result<(), ManyError>,
    count: usize,
    rejected: Option<Failure>,
) -> Result<c_int, Failure> {
    let (begun, failure) = match result {
        Ok(()) => (count, rejected),
        Err(ManyError { begun, error }) => (begun, Some(error.into())),
    };
    match failure {
        Some(failure) if begun == 0 => Err(failure),
        Some(failure) => {
            let why = failure.text();
            keep_text(format!("operation {begun}, counted from 0: {why}"));
            Ok(number(begun))
        }
        None => Ok(number(begun)),
    }
}
