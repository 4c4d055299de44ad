//! Posts: checks pointers and sizes and converts them to a payload.

#![expect(
    unsafe_code,
    reason = "functions that C programs call by these names, with pointers"
)]

use std::ffi::{c_int, c_void};

use bmi::{Class, Error, Memory, Payload, Post, Segments, Tag};
use sys::span::Span;

use crate::abi::{
    self, Addr, BufferType, Context, EXT_ALLOC, Hint, MessageTag, Op, PRE_ALLOC, Size,
};
use crate::state::{ALLOCATED, interface};

/// The arguments of a post other than its memory.
struct Envelope {
    id: *mut Op,
    address: Addr,
    kind: PostKind,
    tag: MessageTag,
    user: *mut c_void,
    context: Context,
}

#[derive(Clone, Copy)]
enum PostKind {
    Send,
    Unexpected(u8),
    /// A receive, and the place for the size of a message that has already arrived.
    Receive(*mut Size),
}

/// The memory of a post.
enum Buffers {
    One(*mut c_void, Size),
    List {
        starts: *const *mut c_void,
        sizes: *const Size,
        count: c_int,
        total: Size,
    },
}

/// Posts a message.
///
/// # Safety
///
/// The pointers of the envelope are null or valid for writes, the arrays of a list are null or have `count`
/// elements, and the buffers are valid until the operation completes.
// [CABI-10]
unsafe fn post(envelope: &Envelope, buffers: &Buffers, buffer_type: BufferType) -> c_int {
    let posted = || {
        if envelope.id.is_null() {
            return Err(Error::Inval);
        }
        let interface = interface()?;
        let memory = match buffer_type {
            PRE_ALLOC => Memory::PreAllocated,
            EXT_ALLOC => Memory::External,
            _ => return Err(Error::Inval),
        };
        // SAFETY: the caller's guarantee.
        let segments = unsafe { segments(buffers, memory) }?;
        let payload = Payload::from_spans(segments, memory);
        let (bmi, tag) = (&interface.bmi, Tag(envelope.tag));
        let context = abi::context(envelope.context)?;
        let address = abi::address(envelope.address).map_err(|_| Error::Proto)?;
        let user = abi::user(envelope.user);
        Ok(match envelope.kind {
            PostKind::Send => bmi.post_send(context, address, payload, tag, user),
            PostKind::Unexpected(class) => {
                bmi.post_send_unexpected(context, address, payload, tag, Class(class), user)
            }
            PostKind::Receive(_) => bmi.post_receive(context, address, payload, tag, user),
        }?)
    };
    let (id, result) = match posted() {
        Ok(Post::Pending(op)) => (op.number(), 0),
        Ok(Post::Immediate(size, _)) => {
            if let PostKind::Receive(actual) = envelope.kind {
                // SAFETY: null or valid for writes. A size is at most `i64::MAX`.
                unsafe { abi::put(actual, 0, size as Size) };
            }
            (0, 1)
        }
        Err(error) => return error.code(),
    };
    // SAFETY: the post has checked that it is not null, so it is valid for writes.
    unsafe { abi::put(envelope.id, 0, id) };
    result
}

/// Converts the memory of a message.
///
/// # Safety
///
/// As for [`post`].
// [CABI-11]
unsafe fn segments(buffers: &Buffers, memory: Memory) -> Result<Segments, Error> {
    let (starts, sizes, count, total) = match *buffers {
        Buffers::One(start, size) => {
            // SAFETY: the caller's guarantee.
            let span = unsafe { segment(start, size, memory) }?;
            return Ok(Segments::from_buf([span]));
        }
        Buffers::List {
            starts,
            sizes,
            count,
            total,
        } => (starts, sizes, abi::count(count)?, total),
    };
    if count > 0 && (starts.is_null() || sizes.is_null()) {
        return Err(Error::Inval);
    }
    let mut segments = Segments::new();
    let mut sum: Size = 0;
    for index in 0..count {
        // SAFETY: not null, and has `count` elements.
        let (start, size) = unsafe { (*starts.add(index), *sizes.add(index)) };
        // SAFETY: the caller's guarantee.
        segments.push(unsafe { segment(start, size, memory) }?);
        sum = sum.checked_add(size).ok_or(Error::Inval)?;
    }
    if sum != total {
        return Err(Error::Inval);
    }
    Ok(segments)
}

/// Converts one piece of memory. A piece from `BMI_memalloc` is looked up, so that it stays valid while it is
/// needed. If the lookup fails, the method decides whether to accept the piece.
///
/// # Safety
///
/// `size` bytes at `start` are valid until the operation completes.
// [CABI-12]
unsafe fn segment(start: *mut c_void, size: Size, memory: Memory) -> Result<Span, Error> {
    let len = usize::try_from(size).map_err(|_| Error::Inval)?;
    if start.is_null() && len > 0 {
        return Err(Error::Fault);
    }
    let start = start.cast::<u8>();
    if memory == Memory::PreAllocated
        && let Some(span) = ALLOCATED.part(start, len)
    {
        return Ok(span);
    }
    // SAFETY: the caller's guarantee; the program does not touch posted memory.
    Ok(unsafe { Span::foreign(start, len) })
}

/// Sends a message to a receive of the same tag.
///
/// # Safety
///
/// `id` is null or valid for writes; the buffer is valid until the operation completes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_post_send(
    id: *mut Op,
    address: Addr,
    buffer: *const c_void,
    size: Size,
    buffer_type: BufferType,
    tag: MessageTag,
    user: *mut c_void,
    context: Context,
    _hints: Hint,
) -> c_int {
    let envelope = Envelope {
        id,
        address,
        kind: PostKind::Send,
        tag,
        user,
        context,
    };
    let buffers = Buffers::One(buffer.cast_mut(), size);
    // SAFETY: the caller's guarantee. A method only reads the memory of a send.
    unsafe { post(&envelope, &buffers, buffer_type) }
}

/// Sends a list of buffers as one message.
///
/// # Safety
///
/// As for [`BMI_post_send`]; the arrays are null or have `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_post_send_list(
    id: *mut Op,
    address: Addr,
    starts: *const *const c_void,
    sizes: *const Size,
    count: c_int,
    total: Size,
    buffer_type: BufferType,
    tag: MessageTag,
    user: *mut c_void,
    context: Context,
    _hints: Hint,
) -> c_int {
    let envelope = Envelope {
        id,
        address,
        kind: PostKind::Send,
        tag,
        user,
        context,
    };
    let buffers = Buffers::List {
        starts: starts.cast(),
        sizes,
        count,
        total,
    };
    // SAFETY: the caller's guarantee. A method only reads the memory of a send.
    unsafe { post(&envelope, &buffers, buffer_type) }
}

/// Receives a message of at most `expected` bytes.
///
/// # Safety
///
/// `id` and `actual` are null or valid for writes; the buffer is valid, and not touched, until the operation
/// completes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_post_recv(
    id: *mut Op,
    address: Addr,
    buffer: *mut c_void,
    expected: Size,
    actual: *mut Size,
    buffer_type: BufferType,
    tag: MessageTag,
    user: *mut c_void,
    context: Context,
    _hints: Hint,
) -> c_int {
    let envelope = Envelope {
        id,
        address,
        kind: PostKind::Receive(actual),
        tag,
        user,
        context,
    };
    // SAFETY: the caller's guarantee.
    unsafe { post(&envelope, &Buffers::One(buffer, expected), buffer_type) }
}

/// Receives one message into a list of buffers.
///
/// # Safety
///
/// As for [`BMI_post_recv`]; the arrays are null or have `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_post_recv_list(
    id: *mut Op,
    address: Addr,
    starts: *const *mut c_void,
    sizes: *const Size,
    count: c_int,
    total: Size,
    actual: *mut Size,
    buffer_type: BufferType,
    tag: MessageTag,
    user: *mut c_void,
    context: Context,
    _hints: Hint,
) -> c_int {
    let envelope = Envelope {
        id,
        address,
        kind: PostKind::Receive(actual),
        tag,
        user,
        context,
    };
    let buffers = Buffers::List {
        starts,
        sizes,
        count,
        total,
    };
    // SAFETY: the caller's guarantee.
    unsafe { post(&envelope, &buffers, buffer_type) }
}

/// Sends an unexpected message of a class.
///
/// # Safety
///
/// As for [`BMI_post_send`].
#[cfg(not(feature = "orangefs"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_post_sendunexpected_class(
    id: *mut Op,
    address: Addr,
    buffer: *const c_void,
    size: Size,
    buffer_type: BufferType,
    tag: MessageTag,
    class: u8,
    user: *mut c_void,
    context: Context,
    _hints: Hint,
) -> c_int {
    let envelope = Envelope {
        id,
        address,
        kind: PostKind::Unexpected(class),
        tag,
        user,
        context,
    };
    let buffers = Buffers::One(buffer.cast_mut(), size);
    // SAFETY: the caller's guarantee. A method only reads the memory of a send.
    unsafe { post(&envelope, &buffers, buffer_type) }
}

/// Sends a list of buffers as one unexpected message of a class.
///
/// # Safety
///
/// As for [`BMI_post_send_list`].
#[cfg(not(feature = "orangefs"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_post_sendunexpected_list_class(
    id: *mut Op,
    address: Addr,
    starts: *const *const c_void,
    sizes: *const Size,
    count: c_int,
    total: Size,
    buffer_type: BufferType,
    tag: MessageTag,
    class: u8,
    user: *mut c_void,
    context: Context,
    _hints: Hint,
) -> c_int {
    let envelope = Envelope {
        id,
        address,
        kind: PostKind::Unexpected(class),
        tag,
        user,
        context,
    };
    let buffers = Buffers::List {
        starts: starts.cast(),
        sizes,
        count,
        total,
    };
    // SAFETY: the caller's guarantee. A method only reads the memory of a send.
    unsafe { post(&envelope, &buffers, buffer_type) }
}

/// Sends an unexpected message of class 0. The header also has a macro of this name.
///
/// # Safety
///
/// As for [`BMI_post_send`].
// [CABI-4]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_post_sendunexpected(
    id: *mut Op,
    address: Addr,
    buffer: *const c_void,
    size: Size,
    buffer_type: BufferType,
    tag: MessageTag,
    user: *mut c_void,
    context: Context,
    _hints: Hint,
) -> c_int {
    let envelope = Envelope {
        id,
        address,
        kind: PostKind::Unexpected(0),
        tag,
        user,
        context,
    };
    let buffers = Buffers::One(buffer.cast_mut(), size);
    // SAFETY: the caller's guarantee. A method only reads the memory of a send.
    unsafe { post(&envelope, &buffers, buffer_type) }
}

/// Sends a list of buffers as one unexpected message of class 0.
///
/// # Safety
///
/// As for [`BMI_post_send_list`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_post_sendunexpected_list(
    id: *mut Op,
    address: Addr,
    starts: *const *const c_void,
    sizes: *const Size,
    count: c_int,
    total: Size,
    buffer_type: BufferType,
    tag: MessageTag,
    user: *mut c_void,
    context: Context,
    _hints: Hint,
) -> c_int {
    let envelope = Envelope {
        id,
        address,
        kind: PostKind::Unexpected(0),
        tag,
        user,
        context,
    };
    let buffers = Buffers::List {
        starts: starts.cast(),
        sizes,
        count,
        total,
    };
    // SAFETY: the caller's guarantee. A method only reads the memory of a send.
    unsafe { post(&envelope, &buffers, buffer_type) }
}
