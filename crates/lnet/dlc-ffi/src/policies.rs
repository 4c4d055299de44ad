//! The nine functions of the design, and the three `_r` ones.

#![expect(unsafe_code, reason = "pointers from C, exported names")]

use std::ffi::{CString, c_char, c_int};
use std::fmt::Display;
use std::fmt::Write;
use std::ptr;

use lnet_policy::{NetPolicy, NidPolicy, PeerPolicy, Priority};
use nix::libc;

use crate::arguments::{EINVAL, id, optional, priority, required};
use crate::session::{Failed, returned, with_node};

/// `struct finerail_sel_pol`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SelPol {
    id: c_int,
    priority: u32,
    src: *const c_char,
    dst: *const c_char,
}

const ENOMEM: c_int = 12;
const EOVERFLOW: c_int = 75;

/// A policy of any kind, to be shown.
struct Shown {
    id: usize,
    priority: Priority,
    src: String,
    dst: Option<String>,
}

/// See the header.
///
/// # Safety
///
/// `net` is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lustre_lnet_add_net_sel_pol(net: *mut c_char, prio: c_int) -> c_int {
    // SAFETY: the caller promises the same.
    let net = unsafe { required(net) };
    returned(net.and_then(|net| {
        let priority = priority(prio)?;
        with_node(|dlc| dlc.lustre_lnet_add_net_sel_pol(net, priority)).map(|()| 0)
    }))
}

/// See the header.
///
/// # Safety
///
/// `nid` is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lustre_lnet_add_nid_sel_pol(nid: *mut c_char, prio: c_int) -> c_int {
    // SAFETY: the caller promises the same.
    let nid = unsafe { required(nid) };
    returned(nid.and_then(|nid| {
        let priority = priority(prio)?;
        with_node(|dlc| dlc.lustre_lnet_add_nid_sel_pol(nid, priority)).map(|()| 0)
    }))
}

/// See the header.
///
/// # Safety
///
/// Both are null or strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lustre_lnet_add_peer_sel_pol(
    src_nid: *mut c_char,
    dst_nid: *mut c_char,
    prio: c_int,
) -> c_int {
    // SAFETY: the caller promises the same.
    let (src, dst) = unsafe { (required(src_nid), required(dst_nid)) };
    returned((|| {
        let (src, dst, priority) = (src?, dst?, priority(prio)?);
        with_node(|dlc| dlc.lustre_lnet_add_peer_sel_pol(src, dst, priority)).map(|()| 0)
    })())
}

/// See the header.
///
/// # Safety
///
/// `net` is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lustre_lnet_del_net_sel_pol(net: *mut c_char, number: c_int) -> c_int {
    // SAFETY: the caller promises the same.
    let net = unsafe { optional(net) };
    returned(net.and_then(|net| {
        let id = id(number)?;
        with_node(|dlc| dlc.lustre_lnet_del_net_sel_pol(net, id)).map(|()| 0)
    }))
}

/// See the header.
///
/// # Safety
///
/// `nid` is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lustre_lnet_del_nid_sel_pol(nid: *mut c_char, number: c_int) -> c_int {
    // SAFETY: the caller promises the same.
    let nid = unsafe { optional(nid) };
    returned(nid.and_then(|nid| {
        let id = id(number)?;
        with_node(|dlc| dlc.lustre_lnet_del_nid_sel_pol(nid, id)).map(|()| 0)
    }))
}

/// See the header.
///
/// # Safety
///
/// Both are null or strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lustre_lnet_del_peer_sel_pol(
    src_nid: *mut c_char,
    dst_nid: *mut c_char,
    number: c_int,
) -> c_int {
    // SAFETY: the caller promises the same.
    let (src, dst) = unsafe { (optional(src_nid), optional(dst_nid)) };
    returned((|| {
        let (src, dst, id) = (src?, dst?, id(number)?);
        with_node(|dlc| dlc.lustre_lnet_del_peer_sel_pol(src, dst, id)).map(|()| 0)
    })())
}

/// See the header.
///
/// # Safety
///
/// `net` is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lustre_lnet_show_net_sel_pol(net: *mut c_char) -> c_int {
    // SAFETY: the caller promises the same.
    let net = unsafe { optional(net) };
    returned(
        net.and_then(nets)
            .and_then(|shown| print("net_sel_pol", "net", &shown)),
    )
}

/// See the header.
///
/// # Safety
///
/// `nid` is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lustre_lnet_show_nid_sel_pol(nid: *mut c_char) -> c_int {
    // SAFETY: the caller promises the same.
    let nid = unsafe { optional(nid) };
    returned(
        nid.and_then(nids)
            .and_then(|shown| print("nid_sel_pol", "nid", &shown)),
    )
}

/// See the header.
///
/// # Safety
///
/// Both are null or strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lustre_lnet_show_peer_sel_pol(
    src_nid: *mut c_char,
    dst_nid: *mut c_char,
) -> c_int {
    // SAFETY: the caller promises the same.
    let (src, dst) = unsafe { (optional(src_nid), optional(dst_nid)) };
    returned((|| print("peer_sel_pol", "src_nid", &pairs(src?, dst?)?))())
}

/// See the header.
///
/// # Safety
///
/// `net` is null or a string, `policies` null or points to a writable pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lustre_lnet_show_net_sel_pol_r(
    net: *mut c_char,
    policies: *mut *mut SelPol,
) -> c_int {
    // SAFETY: the caller promises the same.
    let shown = unsafe { optional(net) }.and_then(nets);
    // SAFETY: the caller guarantees a writable pointer or null.
    returned(shown.and_then(|shown| unsafe { hand_over(&shown, policies) }))
}

/// See the header.
///
/// # Safety
///
/// `nid` is null or a string, `policies` null or points to a writable pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lustre_lnet_show_nid_sel_pol_r(
    nid: *mut c_char,
    policies: *mut *mut SelPol,
) -> c_int {
    // SAFETY: the caller promises the same.
    let shown = unsafe { optional(nid) }.and_then(nids);
    // SAFETY: the caller guarantees a writable pointer or null.
    returned(shown.and_then(|shown| unsafe { hand_over(&shown, policies) }))
}

/// See the header.
///
/// # Safety
///
/// The NIDs are null or strings, `policies` is null or points to a writable pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lustre_lnet_show_peer_sel_pol_r(
    src_nid: *mut c_char,
    dst_nid: *mut c_char,
    policies: *mut *mut SelPol,
) -> c_int {
    // SAFETY: the caller promises the same.
    let (src, dst) = unsafe { (optional(src_nid), optional(dst_nid)) };
    // SAFETY: the caller guarantees a writable pointer or null.
    returned((|| unsafe { hand_over(&pairs(src?, dst?)?, policies) })())
}

fn nets(net: Option<&str>) -> Result<Vec<Shown>, Failed> {
    let policies = with_node(|dlc| dlc.lustre_lnet_show_net_sel_pol(net))?;
    let shown = |NetPolicy { id, net, priority }| one(id, priority, &net);
    Ok(policies.into_iter().map(shown).collect())
}

fn nids(nid: Option<&str>) -> Result<Vec<Shown>, Failed> {
    let policies = with_node(|dlc| dlc.lustre_lnet_show_nid_sel_pol(nid))?;
    let shown = |NidPolicy { id, nid, priority }| one(id, priority, &nid);
    Ok(policies.into_iter().map(shown).collect())
}

fn pairs(src: Option<&str>, dst: Option<&str>) -> Result<Vec<Shown>, Failed> {
    let policies = with_node(|dlc| dlc.lustre_lnet_show_peer_sel_pol(src, dst))?;
    let shown = |policy: PeerPolicy| Shown {
        dst: Some(policy.dst.to_string()),
        ..one(policy.id, policy.priority, &policy.src)
    };
    Ok(policies.into_iter().map(shown).collect())
}

fn one(id: usize, priority: Priority, src: &impl Display) -> Shown {
    Shown {
        id,
        priority,
        src: src.to_string(),
        dst: None,
    }
}

/// Prints through C's standard output, so that the order of the program's own output is kept.
fn print(section: &str, key: &str, shown: &[Shown]) -> Result<c_int, Failed> {
    if shown.is_empty() {
        return Ok(0);
    }
    let text = CString::new(yaml(section, key, shown))
        .map_err(|_| Failed::new(-EINVAL, "an expression has a zero byte"))?;
    // SAFETY: the string ends with a zero byte; `puts` adds the last line feed.
    if unsafe { libc::puts(text.as_ptr()) } < 0 {
        return Err(Failed::new(-libc::EIO, "cannot write to standard output"));
    }
    Ok(0)
}

fn yaml(section: &str, key: &str, shown: &[Shown]) -> String {
    let mut text = format!("{section}:");
    for policy in shown {
        let Shown {
            id, priority, src, ..
        } = policy;
        // Writing to a string does not fail.
        let _ = write!(text, "\n    - id: {id}\n      {key}: {src}");
        if let Some(dst) = &policy.dst {
            let _ = write!(text, "\n      dst_nid: {dst}");
        }
        let _ = write!(text, "\n      priority: {priority}");
    }
    text
}

/// Copies the policies into one block of C's memory: the records, then their strings.
///
/// # Safety
///
/// `place` is null or writable.
unsafe fn hand_over(shown: &[Shown], place: *mut *mut SelPol) -> Result<c_int, Failed> {
    if place.is_null() {
        return Err(Failed::new(-EINVAL, "the pointer for the policies is NULL"));
    }
    let count = c_int::try_from(shown.len())
        .map_err(|_| Failed::new(-EOVERFLOW, "too many policies to count"))?;
    let mut block = ptr::null_mut();
    if count > 0 {
        // SAFETY: `malloc` has no preconditions; the result is checked below.
        let memory = unsafe { libc::malloc(block_length(shown)) };
        if memory.is_null() {
            return Err(Failed::new(-ENOMEM, "no memory for the policies"));
        }
        block = memory.cast();
        // SAFETY: the block has room for the records and the strings after them, and is aligned for
        // both.
        unsafe { fill(block, shown) };
    }
    // SAFETY: the pointer is not null, and the caller guarantees that it is writable.
    unsafe { place.write(block) };
    Ok(count)
}

fn block_length(shown: &[Shown]) -> usize {
    let texts = shown
        .iter()
        .map(|policy| policy.src.len() + 1 + policy.dst.as_ref().map_or(0, |dst| dst.len() + 1));
    size_of::<SelPol>() * shown.len() + texts.sum::<usize>()
}

/// # Safety
///
/// `block` has [`block_length`] bytes and the alignment of a record.
unsafe fn fill(block: *mut SelPol, shown: &[Shown]) {
    // SAFETY: the strings begin after the last record, inside the block.
    let mut text = unsafe { block.add(shown.len()).cast::<c_char>() };
    let mut put = |string: &str| {
        let at = text;
        // SAFETY: the length of the block includes these strings and a zero byte for each.
        unsafe {
            ptr::copy_nonoverlapping(string.as_ptr().cast(), at, string.len());
            at.add(string.len()).write(0);
            text = at.add(string.len() + 1);
        }
        at.cast_const()
    };
    for (number, policy) in shown.iter().enumerate() {
        let record = SelPol {
            id: c_int::try_from(policy.id).unwrap_or(c_int::MAX),
            priority: policy.priority.value(),
            src: put(&policy.src),
            dst: policy.dst.as_deref().map_or(ptr::null(), &mut put),
        };
        // SAFETY: the block has a record for every policy.
        unsafe { block.add(number).write(record) };
    }
}
