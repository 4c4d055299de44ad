//! Rule blocks: conversions between C records and the bytes of the protocol.

#![expect(unsafe_code, reason = "pointers from C, exported names")]

use std::ffi::{c_int, c_uint, c_void};
use std::num::NonZeroU32;
use std::ptr;

use lnet_dlc::Generation;
use lnet_policy::{RuleBlock, RuleType};
use nix::libc::EFBIG;

use crate::arguments::{EINVAL, bytes};
use crate::session::{Failed, returned, with_node};

const ENOSPC: c_int = 28;
const EOPNOTSUPP: c_int = 95;

/// See the header.
///
/// # Safety
///
/// `rules` points to `count` records of the type, `block` to `length` writable bytes; each pointer
/// may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lnet_sel_rule_serialize(
    rule_type: c_uint,
    rules: *const c_void,
    count: usize,
    block: *mut c_void,
    length: usize,
) -> c_int {
    // SAFETY: the caller promises the same.
    let written = unsafe { block_of(rule_type, rules, count) }
        .and_then(|block| Ok(block.encode()?))
        // SAFETY: the caller guarantees the room.
        .and_then(|bytes| unsafe { give(&bytes, block, length) });
    returned(written)
}

/// See the header.
///
/// # Safety
///
/// `block` points to `length` bytes, `rule_type` to a writable integer, `rules` to `capacity`
/// records of the block's type; each pointer may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lnet_sel_rule_deserialize(
    block: *const c_void,
    length: usize,
    rule_type: *mut c_uint,
    rules: *mut c_void,
    capacity: usize,
) -> c_int {
    // SAFETY: the caller promises the same.
    let block = lnet_policy::lnet_sel_rule_deserialize(unsafe { bytes(block, length) });
    returned(block.map_err(Failed::from).and_then(|block| {
        if !rule_type.is_null() {
            // SAFETY: the pointer is not null, and the caller guarantees that it is writable.
            unsafe { rule_type.write(block.rule_type() as c_uint) };
        }
        // SAFETY: the caller guarantees the room.
        unsafe { take(&block, rules, capacity) }
    }))
}

/// See the header.
///
/// # Safety
///
/// `block` is null or points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn finerail_dlc_add_rules(block: *const c_void, length: usize) -> c_int {
    // SAFETY: the caller promises the same.
    let block = lnet_policy::lnet_sel_rule_deserialize(unsafe { bytes(block, length) });
    returned(block.map_err(Failed::from).and_then(|block| {
        with_node(|dlc| dlc.add_rules(&block))?;
        Ok(0)
    }))
}

/// See the header.
///
/// # Safety
///
/// `block` is null or points to `length` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn finerail_dlc_get_rules(
    rule_type: c_uint,
    block: *mut c_void,
    length: usize,
) -> c_int {
    // SAFETY: the caller guarantees the same; a null generation is allowed.
    unsafe { finerail_dlc_get_rules_seen(rule_type, block, length, ptr::null_mut()) }
}

/// See the header.
///
/// # Safety
///
/// `block` is null or points to `length` writable bytes, `generation` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn finerail_dlc_get_rules_seen(
    rule_type: c_uint,
    block: *mut c_void,
    length: usize,
    generation: *mut u32,
) -> c_int {
    let got = known(rule_type).and_then(|rule_type| {
        let (rules, seen) = with_node(|dlc| dlc.rules_seen(rule_type))?;
        if !generation.is_null() {
            // SAFETY: the pointer is not null, and the caller guarantees that it is writable.
            unsafe { generation.write(seen.0.get()) };
        }
        // SAFETY: the caller guarantees the room.
        unsafe { give(&rules.encode()?, block, length) }
    });
    returned(got)
}

/// See the header.
///
/// # Safety
///
/// `block` is null or points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn finerail_dlc_replace_rules(
    block: *const c_void,
    length: usize,
    generation: c_uint,
) -> c_int {
    // SAFETY: the caller promises the same.
    let block = lnet_policy::lnet_sel_rule_deserialize(unsafe { bytes(block, length) });
    returned(block.map_err(Failed::from).and_then(|block| {
        let seen = NonZeroU32::new(generation)
            .ok_or_else(|| Failed::new(-EINVAL, "the generation must not be 0"))?;
        with_node(|dlc| dlc.replace_rules(&block, Generation(seen)))?;
        Ok(0)
    }))
}

fn known(rule_type: c_uint) -> Result<RuleType, Failed> {
    RuleType::from_number(rule_type)
        .ok_or_else(|| Failed::new(-EINVAL, format!("there is no rule type {rule_type}")))
}

/// # Safety
///
/// `rules` is null or points to `count` records of the type.
unsafe fn block_of(
    rule_type: c_uint,
    rules: *const c_void,
    count: usize,
) -> Result<RuleBlock, Failed> {
    if (rules.is_null() && count > 0) || count > RuleBlock::V1_RULES_MAX {
        let what = format!("no rules, or more than {}", RuleBlock::V1_RULES_MAX);
        return Err(Failed::new(-EINVAL, what));
    }
    // SAFETY: the records are plain integers in the machine's byte order with the layout of the
    // header; the caller guarantees their number and type.
    unsafe {
        match known(rule_type)? {
            RuleType::Net => Ok(RuleBlock::Net(copied(rules, count))),
            RuleType::Nid => Ok(RuleBlock::Nid(copied(rules, count))),
            RuleType::P2p => Ok(RuleBlock::P2p(copied(rules, count))),
            RuleType::Mixed => Err(Failed::new(-EOPNOTSUPP, "v2 rules are no C records")),
        }
    }
}

/// # Safety
///
/// `from` points to `count` values, or `count` is 0.
unsafe fn copied<T: Copy>(from: *const c_void, count: usize) -> Vec<T> {
    // SAFETY: the caller guarantees the values; C may place them at any address.
    let one = |number| unsafe { from.cast::<T>().add(number).read_unaligned() };
    (0..count).map(one).collect()
}

/// Copies a block to the caller's buffer and returns its length.
///
/// # Safety
///
/// `room` is null or has `length` writable bytes.
unsafe fn give(block: &[u8], room: *mut c_void, length: usize) -> Result<c_int, Failed> {
    if room.is_null() || length < block.len() {
        let what = format!("a block of {} bytes needs more room", block.len());
        return Err(Failed::new(-ENOSPC, what));
    }
    // SAFETY: the caller guarantees a buffer of `length` bytes, which is long enough.
    unsafe { ptr::copy_nonoverlapping(block.as_ptr(), room.cast(), block.len()) };
    c_int::try_from(block.len()).map_err(|_| Failed::new(-EFBIG, "too long to be counted"))
}

/// Copies the records of a block to the caller's buffer, if there is one, and returns their number.
///
/// # Safety
///
/// `room` is null or has room for `capacity` records of the block's type.
unsafe fn take(block: &RuleBlock, room: *mut c_void, capacity: usize) -> Result<c_int, Failed> {
    if !room.is_null() && block.len() > capacity {
        let what = format!("{} rules, and room for {capacity}", block.len());
        return Err(Failed::new(-ENOSPC, what));
    }
    // SAFETY: the buffer is null or large enough, by the caller's guarantee and the check above.
    unsafe {
        match block {
            RuleBlock::Net(rules) => put(rules, room),
            RuleBlock::Nid(rules) => put(rules, room),
            RuleBlock::P2p(rules) => put(rules, room),
            RuleBlock::Mixed(_) => {
                return Err(Failed::new(-EOPNOTSUPP, "v2 rules are no C records"));
            }
        }
    }
    Ok(c_int::try_from(block.len()).unwrap_or(c_int::MAX))
}

/// # Safety
///
/// `room` is null or has room for all records.
unsafe fn put<T: Copy>(records: &[T], room: *mut c_void) {
    if room.is_null() {
        return;
    }
    for (number, record) in records.iter().enumerate() {
        // SAFETY: the caller guarantees the room; C may place it at any address.
        unsafe { room.cast::<T>().add(number).write_unaligned(*record) };
    }
}
