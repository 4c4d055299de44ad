//! Whole operations: calls that return when the operation has ended, and inboxes.
//!
//! The bytes are copied, so that the program's memory is its own when a call returns, also after a timeout while the
//! peer stands still. Programs that must not copy use descriptors.

#![expect(unsafe_code, reason = "pointers from C, exported names")]

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, TryLockError};

use lnet_node::{Address, EventQueue, Inbox, Initiator};
use nix::errno::Errno;

use crate::abi::{flnet_address, flnet_message};
use crate::arguments::{self, Places, time, time_limit};
use crate::failure::{Failure, returned, waited};
use crate::handles::{self, Thing};

/// Runs an operation of a new initiator.
fn initiate(
    node: u64,
    address: Result<&flnet_address, Failure>,
    timeout: c_int,
    operation: impl FnOnce(&mut Initiator, Address) -> Result<(), Failure>,
) -> c_int {
    returned(handles::node(node).and_then(|node| {
        let mut initiator = Initiator::new(&node).with_timeout(time_limit(timeout));
        operation(&mut initiator, address?.address()?)?;
        Ok(0)
    }))
}

/// See the header.
///
/// # Safety
///
/// `to` is null or a struct, `data` null or valid for reads of `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flnet_send(
    node: u64,
    to: *const flnet_address,
    data: *const c_void,
    length: usize,
    hdr_data: u64,
    timeout: c_int,
) -> c_int {
    // SAFETY: the caller promises the same.
    let (to, data) = unsafe { (arguments::read(to, "to"), arguments::bytes(data, length)) };
    initiate(node, to, timeout, |initiator, to| {
        Ok(initiator.put_with(to, data?.to_vec(), hdr_data)?)
    })
}

/// See the header.
///
/// # Safety
///
/// As [`flnet_send`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flnet_write(
    node: u64,
    to: *const flnet_address,
    offset: u32,
    data: *const c_void,
    length: usize,
    timeout: c_int,
) -> c_int {
    // SAFETY: the caller promises the same.
    let (to, data) = unsafe { (arguments::read(to, "to"), arguments::bytes(data, length)) };
    initiate(node, to, timeout, |initiator, to| {
        Ok(initiator.write(to, offset, data?.to_vec())?)
    })
}

/// See the header.
///
/// # Safety
///
/// `from` is null or a struct, `data` null or valid for writes of `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flnet_read(
    node: u64,
    from: *const flnet_address,
    offset: u32,
    data: *mut c_void,
    length: usize,
    timeout: c_int,
) -> c_int {
    // SAFETY: the caller promises the same.
    let (from, places) = unsafe {
        (
            arguments::read(from, "from"),
            Places::array(data.cast::<u8>(), length, "data"),
        )
    };
    initiate(node, from, timeout, |initiator, from| {
        let mut places = places?;
        places.copy(&initiator.read(from, offset, length)?);
        Ok(())
    })
}

/// An inbox of a program.
pub(crate) struct OpenInbox {
    inbox: Mutex<Inbox>,
    /// The queue of the inbox, which ends waits of other threads.
    events: EventQueue,
    /// The most bytes of a message.
    size: usize,
}

impl OpenInbox {
    fn next(
        &self,
        message: &mut Places<flnet_message>,
        data: &mut Places<u8>,
        timeout: c_int,
    ) -> Result<c_int, Failure> {
        if data.len() < self.size {
            let (room, size) = (data.len(), self.size);
            let why = format_args!("room for {room} bytes; the inbox takes messages of {size}");
            return Err(Failure::new(Errno::EINVAL, why));
        }
        let mut inbox = match self.inbox.try_lock() {
            Ok(inbox) => inbox,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let why = "another thread waits for messages of this inbox";
                return Err(Failure::new(Errno::EBUSY, why));
            }
        };
        waited(inbox.next(time(timeout)).map(|found| {
            data.copy(&found.data);
            let found = flnet_message {
                from: found.from.into(),
                match_bits: found.match_bits,
                hdr_data: found.hdr_data,
                length: found.length,
            };
            message.set(0, found);
            1
        }))
    }
}

/// See the header.
///
/// # Safety
///
/// `inbox` is null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flnet_inbox_open(
    node: u64,
    portal: u32,
    size: usize,
    inbox: *mut u64,
) -> c_int {
    // SAFETY: the caller promises the same.
    let place = unsafe { Places::one(inbox, "inbox") };
    returned(handles::node(node).and_then(|node| {
        let mut place = place?;
        if size > MESSAGE_MAX {
            let why = "size is above FLNET_MTU, the most bytes of a message";
            return Err(Failure::new(Errno::EINVAL, why));
        }
        let inbox = Inbox::new(&node, portal, size)?;
        let open = OpenInbox {
            events: inbox.events().clone(),
            inbox: Mutex::new(inbox),
            size,
        };
        place.set(0, handles::register(Thing::Inbox(Arc::new(open))));
        Ok(0)
    }))
}

/// `FLNET_MTU`.
const MESSAGE_MAX: usize = 1 << 20;

/// See the header.
///
/// # Safety
///
/// `message` is null or valid for writes, `data` null or valid for writes of `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flnet_inbox_next(
    inbox: u64,
    message: *mut flnet_message,
    data: *mut c_void,
    size: usize,
    timeout: c_int,
) -> c_int {
    // SAFETY: the caller promises the same.
    let (message, data) = unsafe {
        (
            Places::one(message, "message"),
            Places::array(data.cast::<u8>(), size, "data"),
        )
    };
    returned(handles::inbox(inbox).and_then(|inbox| inbox.next(&mut message?, &mut data?, timeout)))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn flnet_inbox_close(inbox: u64) -> c_int {
    returned(handles::inbox(inbox).and_then(|found| {
        handles::forget(inbox, "inbox")?;
        // A thread that waits returns; the inbox ends with the last of them.
        found.events.close();
        Ok(0)
    }))
}
