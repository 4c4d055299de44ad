//! Memory descriptors.

#![expect(unsafe_code, reason = "pointers from C, exported names")]

use std::ffi::c_int;

use lnet_node::{Foreign, Md, MdHandle, MdOptions};
use nix::errno::Errno;
use sys::span::Span;

use crate::abi::{flnet_match, flnet_md};
use crate::arguments::{self, Places};
use crate::failure::{Failure, returned};
use crate::handles;

/// Makes the descriptor of a program's memory.
///
/// # Safety
///
/// The memory is valid for reads and writes until the descriptor's last event, or until the node has stopped.
unsafe fn descriptor(md: &flnet_md) -> Result<Md, Failure> {
    if md.start.is_null() && md.length > 0 {
        return Err(arguments::null("start"));
    }
    let options = MdOptions::from_bits(md.options);
    let options = options.ok_or_else(|| Failure::new(Errno::EINVAL, "options has unknown bits"))?;
    // SAFETY: the caller promises the same.
    let memory = unsafe { Span::lent(md.start.cast(), md.length) };
    let mut made = Md::foreign(Foreign::from(memory))
        .options(options)
        .user(md.user);
    made.max_size = md.max_size;
    if md.threshold > 0 {
        made = made.threshold(md.threshold);
    }
    // Without a threshold, it ends when less than `max_size` is left.
    made.unlink_when_exhausted |= options.contains(MdOptions::MAX_SIZE);
    Ok(made)
}

/// See the header.
///
/// # Safety
///
/// `md` is null or a struct whose memory is valid until the descriptor's last event; `handle` is null or valid for
/// writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flnet_bind(queue: u64, md: *const flnet_md, handle: *mut u64) -> c_int {
    // SAFETY: the caller promises the same.
    let (md, place) = unsafe { (arguments::read(md, "md"), Places::one(handle, "handle")) };
    returned(handles::queue(queue).and_then(|queue| {
        let mut place = place?;
        // SAFETY: the caller promises the same.
        let md = unsafe { descriptor(md?) }?;
        place.set(0, queue.node.bind(&queue.events, md)?.0);
        Ok(0)
    }))
}

/// See the header.
///
/// # Safety
///
/// As [`flnet_bind`]; `match_` is null or a struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flnet_attach(
    queue: u64,
    match_: *const flnet_match,
    md: *const flnet_md,
    handle: *mut u64,
) -> c_int {
    // SAFETY: the caller promises the same.
    let (entry, md, place) = unsafe {
        (
            arguments::read(match_, "match"),
            arguments::read(md, "md"),
            Places::one(handle, "handle"),
        )
    };
    returned(handles::queue(queue).and_then(|queue| {
        let mut place = place?;
        let entry = entry?.entry()?;
        // SAFETY: the caller promises the same.
        let md = unsafe { descriptor(md?) }?;
        place.set(0, queue.node.attach(&queue.events, entry, md)?.0);
        Ok(0)
    }))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn flnet_unlink(node: u64, md: u64) -> c_int {
    returned(handles::node(node).and_then(|node| {
        node.unlink(MdHandle(md))?;
        Ok(0)
    }))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn flnet_cancel(node: u64, md: u64) -> c_int {
    returned(handles::node(node).and_then(|node| {
        node.cancel(MdHandle(md))?;
        Ok(0)
    }))
}
