//! Queues of events.

#![expect(unsafe_code, reason = "pointers from C, exported names")]

use std::ffi::c_int;
use std::io;
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use lnet_node::{EventQueue, Node, NodeEvent, WaitError};
use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::abi::flnet_event;
use crate::arguments::{Places, number, time};
use crate::failure::{Failure, returned, waited};
use crate::handles::{self, Thing};

/// A queue of a program.
pub(crate) struct Queue {
    /// A handle of the node.
    pub(crate) node: Node,
    pub(crate) events: EventQueue,
    /// The file descriptor that event loops wait for, once the program has asked for it.
    ready: OnceLock<Arc<Ready>>,
}

/// A file descriptor that is readable from a wake-up until [`Ready::reset`].
struct Ready(EventFd);

impl Ready {
    fn new() -> Result<Self, Errno> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        EventFd::from_value_and_flags(0, flags).map(Self)
    }

    fn set(&self) {
        // The counter cannot be full: it counts wake-ups, and a reset takes all of them.
        let _written = self.0.write(1);
    }

    fn reset(&self) {
        // Fails if there was no wake-up.
        let _read = self.0.read();
    }
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.set();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.set();
    }
}

impl Queue {
    fn wait(
        &self,
        places: &mut Places<flnet_event>,
        timeout: Option<Duration>,
    ) -> Result<usize, WaitError> {
        if let Some(ready) = self.ready.get()
            && let Some(first) = self.first_or_armed(ready)?
        {
            let mut count = 1;
            places.set(0, (&first.event).into());
            while count < places.len()
                && let Some(next) = self.events.try_next()
            {
                places.set(count, (&next.event).into());
                count += 1;
            }
            return Ok(count);
        }
        let mut count = 0;
        self.events.wait_some(places.len(), timeout, |event| {
            places.set(count, (&event.event).into());
            count += 1;
        })
    }

    /// Returns an event; if there is none, the descriptor is not readable until there is.
    fn first_or_armed(&self, ready: &Arc<Ready>) -> Result<Option<NodeEvent>, WaitError> {
        if let Some(event) = self.events.try_next() {
            return Ok(Some(event));
        }
        ready.reset();
        let waker = Waker::from(Arc::clone(ready));
        match pin!(self.events.next()).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => {
                // There may be more events, or the queue has ended: the program looks again.
                ready.set();
                result.map(Some)
            }
            Poll::Pending => Ok(None),
        }
    }

    fn descriptor(&self) -> Result<c_int, Errno> {
        if let Some(ready) = self.ready.get() {
            return Ok(ready.0.as_raw_fd());
        }
        let ready = Arc::new(Ready::new()?);
        // Readable at first: the next wait arms the descriptor.
        ready.set();
        let ready = self.ready.get_or_init(|| ready);
        Ok(ready.0.as_raw_fd())
    }
}

/// See the header.
///
/// # Safety
///
/// `queue` is null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flnet_queue_open(node: u64, queue: *mut u64) -> c_int {
    // SAFETY: the caller promises the same.
    let place = unsafe { Places::one(queue, "queue") };
    returned(handles::node(node).and_then(|node| {
        let queue = Queue {
            events: node.event_queue(),
            node: Node::clone(&node),
            ready: OnceLock::new(),
        };
        place?.set(0, handles::register(Thing::Queue(Arc::new(queue))));
        Ok(0)
    }))
}

/// See the header.
///
/// # Safety
///
/// `events` is null or valid for writes of `count` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flnet_wait(
    queue: u64,
    events: *mut flnet_event,
    count: usize,
    timeout: c_int,
) -> c_int {
    // SAFETY: the caller promises the same.
    let places = unsafe { Places::array(events, count, "events") };
    returned(handles::queue(queue).and_then(|queue| {
        let mut places = places?;
        if places.len() == 0 {
            return Err(Failure::new(Errno::EINVAL, "count is 0"));
        }
        waited(queue.wait(&mut places, time(timeout)).map(number))
    }))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn flnet_queue_fd(queue: u64) -> c_int {
    returned(handles::queue(queue).and_then(|queue| {
        if queue.events.is_driven_by_callers() {
            let why = "no thread of the node would make it readable: FLNET_PROGRESS_CALLER is set";
            return Err(Failure::new(Errno::EOPNOTSUPP, why));
        }
        let failed = |errno: Errno| {
            let why = io::Error::from(errno);
            Failure::new(errno, format_args!("cannot make a file descriptor: {why}"))
        };
        queue.descriptor().map_err(failed)
    }))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn flnet_queue_close(queue: u64) -> c_int {
    returned(handles::queue(queue).and_then(|found| {
        handles::forget(queue, "queue")?;
        // Threads that wait return.
        found.events.close();
        Ok(0)
    }))
}
