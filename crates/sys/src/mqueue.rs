//! POSIX message queues: bounded and pollable; the kernel keeps them under a name until they are
//! unlinked.
//!
//! A queue is independent of its descriptors. Sending to a queue whose reader has died succeeds
//! until the queue is full, without any report. A sender that needs to know watches the process of
//! the reader.
//!
//! All descriptors here are non-blocking, and `poll(2)` waits for them. The timed calls of
//! `mq_timedsend(3)` take a time of day, which an administrator can set back.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::libc;
use nix::mqueue::{MQ_OFlag, MqAttr, MqdT, mq_attr_member_t, mq_open, mq_unlink};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::stat::Mode;

use crate::wait::{Readiness, wait_or_signal, wait_until_ready};

/// The direction of messages through a descriptor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum QueueAccess {
    /// For receiving only.
    Receive,
    /// For sending only.
    Send,
}

/// Capacity of a queue, set when it is created.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct QueueShape {
    /// Most messages in the queue. At most `fs.mqueue.msg_max`, which is 10 by default.
    pub messages: usize,
    /// Most bytes of a message. At most `fs.mqueue.msgsize_max`, which is 8192 by default.
    pub message_bytes: usize,
}

/// An open message queue. Dropping it closes the descriptor and keeps the queue.
#[derive(Debug)]
pub struct MessageQueue(OwnedFd);

impl MessageQueue {
    /// Creates a queue. `name` is `/` followed by at most 254 bytes without another `/`. Only the
    /// owner may open the queue; see [`crate::share_with_group`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::AlreadyExists`] if the name is taken; `EMFILE` if the queues of this user would
    /// exceed `RLIMIT_MSGQUEUE`; `ENOSPC` if the system has no more queues; `EINVAL` for a name or
    /// shape that the system does not allow. [`explain_queue_error`] says what to do.
    pub fn create(name: &str, access: QueueAccess, shape: QueueShape) -> io::Result<Self> {
        let member =
            |n: usize| mq_attr_member_t::try_from(n).map_err(|_| ErrorKind::InvalidInput.into());
        let messages = member(shape.messages);
        let bytes: io::Result<_> = member(shape.message_bytes);
        let attributes = MqAttr::new(0, messages?, bytes?, 0);
        let flags = open_flags(access) | MQ_OFlag::O_CREAT | MQ_OFlag::O_EXCL;
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        Ok(Self::owned(mq_open(name, flags, mode, Some(&attributes))?))
    }

    /// Opens an existing queue.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] or [`ErrorKind::PermissionDenied`].
    pub fn open(name: &str, access: QueueAccess) -> io::Result<Self> {
        let queue = mq_open(name, open_flags(access), Mode::empty(), None)?;
        Ok(Self::owned(queue))
    }

    #[expect(
        unsafe_code,
        reason = "nix's descriptor of a queue does not close itself"
    )]
    fn owned(queue: MqdT) -> Self {
        // SAFETY: on Linux the descriptor of a queue is a file descriptor. It was opened just now,
        // and `into_raw_fd` releases its only owner.
        Self(unsafe { OwnedFd::from_raw_fd(queue.into_raw_fd()) })
    }

    /// Adds one message to the queue if there is room.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::WouldBlock`] if the queue is full, `EMSGSIZE` if the message is longer than the
    /// queue allows.
    #[expect(unsafe_code, reason = "nix sends only through its own descriptor type")]
    pub fn try_send(&self, message: &[u8]) -> io::Result<()> {
        // SAFETY: the descriptor is open while `self` is borrowed. The kernel reads `message.len()`
        // bytes from a slice of that length.
        let result = unsafe {
            libc::mq_send(
                self.0.as_raw_fd(),
                message.as_ptr().cast(),
                message.len(),
                0,
            )
        };
        nix::errno::Errno::result(result)?;
        Ok(())
    }

    /// Removes the oldest message, if there is one, and returns its length. `buffer` must have room
    /// for the longest message of the queue.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::WouldBlock`] if the queue is empty, `EMSGSIZE` if `buffer` is too short.
    #[expect(
        unsafe_code,
        reason = "nix receives only through its own descriptor type"
    )]
    pub fn try_receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the descriptor is open while `self` is borrowed. The kernel writes at most
        // `buffer.len()` bytes to a slice of that length. With a null pointer the kernel does not
        // return the priority.
        let result = unsafe {
            libc::mq_receive(
                self.0.as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                std::ptr::null_mut(),
            )
        };
        let length = nix::errno::Errno::result(result)?;
        Ok(usize::try_from(length).unwrap_or(0))
    }

    /// Adds one message to the queue; waits at most `limit` for room.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::TimedOut`] if there was no room in time; errors of
    /// [`try_send`](Self::try_send).
    pub fn send(&self, message: &[u8], limit: Duration) -> io::Result<()> {
        self.until(limit, Readiness::Writable, || self.try_send(message))
    }

    /// Removes the oldest message and returns its length; waits at most `limit` for a message.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::TimedOut`] if no message came in time; errors of
    /// [`try_receive`](Self::try_receive).
    pub fn receive(&self, buffer: &mut [u8], limit: Duration) -> io::Result<usize> {
        self.receive_after(wait_until_ready, buffer, limit)
    }

    /// Like [`receive`](Self::receive), but a signal that this thread handles also ends the wait.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Interrupted`] for a signal; errors of [`receive`](Self::receive).
    pub fn receive_or_signal(&self, buffer: &mut [u8], limit: Duration) -> io::Result<usize> {
        self.receive_after(wait_or_signal, buffer, limit)
    }

    /// Waits first: a reply is rarely there when it is first asked for, and trying first would cost
    /// one more system call each time.
    fn receive_after(
        &self,
        wait: impl Fn(&OwnedFd, Readiness, Option<Duration>) -> io::Result<bool>,
        buffer: &mut [u8],
        limit: Duration,
    ) -> io::Result<usize> {
        let began = Instant::now();
        loop {
            let left = limit.saturating_sub(began.elapsed());
            if !wait(&self.0, Readiness::Readable, Some(left))? {
                return Err(ErrorKind::TimedOut.into());
            }
            match self.try_receive(buffer) {
                // Another thread took the message first.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    /// Repeats the attempt after each wait, because another thread may have been faster.
    fn until<T>(
        &self,
        limit: Duration,
        readiness: Readiness,
        mut attempt: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        let began = Instant::now();
        loop {
            match attempt() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                done => return done,
            }
            let left = limit.saturating_sub(began.elapsed());
            if !wait_until_ready(&self.0, readiness, Some(left))? {
                return Err(ErrorKind::TimedOut.into());
            }
        }
    }

    /// Returns the number of messages in the queue.
    ///
    /// # Errors
    ///
    /// Errors of `mq_getattr(3)`.
    pub fn waiting(&self) -> io::Result<usize> {
        Ok(self.attributes()?.1)
    }

    /// Returns the shape with which the queue was created.
    ///
    /// # Errors
    ///
    /// Errors of `mq_getattr(3)`.
    pub fn shape(&self) -> io::Result<QueueShape> {
        Ok(self.attributes()?.0)
    }

    #[expect(unsafe_code, reason = "nix asks only through its own descriptor type")]
    fn attributes(&self) -> io::Result<(QueueShape, usize)> {
        let mut attributes = std::mem::MaybeUninit::<libc::mq_attr>::zeroed();
        // SAFETY: the descriptor is open while `self` is borrowed, and the kernel writes one
        // `mq_attr` to memory of that size. Zeroes are a valid `mq_attr`, which holds only
        // integers.
        let attributes = unsafe {
            let result = libc::mq_getattr(self.0.as_raw_fd(), attributes.as_mut_ptr());
            nix::errno::Errno::result(result)?;
            attributes.assume_init()
        };
        let count = |member| usize::try_from(member).unwrap_or(0);
        let shape = QueueShape {
            messages: count(attributes.mq_maxmsg),
            message_bytes: count(attributes.mq_msgsize),
        };
        Ok((shape, count(attributes.mq_curmsgs)))
    }
}

impl AsFd for MessageQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Removes the name of a queue. Processes that have the queue open keep it; the queue ends with its
/// last descriptor.
///
/// # Errors
///
/// [`ErrorKind::NotFound`] or [`ErrorKind::PermissionDenied`].
pub fn unlink_queue(name: &str) -> io::Result<()> {
    Ok(mq_unlink(name)?)
}

/// Returns the soft `RLIMIT_MSGQUEUE`: the bytes of queues that one user may have, 819,200 by
/// default. A queue counts with its messages at full length and about 48 bytes for each message.
///
/// # Errors
///
/// Errors of `getrlimit(2)`.
pub fn queue_bytes_max() -> io::Result<u64> {
    Ok(getrlimit(Resource::RLIMIT_MSGQUEUE)?.0)
}

/// Explains a failed [`MessageQueue::create`] in a sentence that names the limit to raise. Returns
/// `None` for errors that no limit caused.
#[must_use]
pub fn explain_queue_error(error: &io::Error) -> Option<String> {
    match error.raw_os_error() {
        Some(libc::EMFILE) => {
            let limit = queue_bytes_max().map_or_else(|_| "?".to_owned(), |n| n.to_string());
            Some(format!(
                "the message queues of this user would exceed {limit} bytes (RLIMIT_MSGQUEUE): \
                 raise it with `ulimit -q`, or remove queues that no process uses"
            ))
        }
        Some(libc::ENOSPC) => Some(format!(
            "the system has its {} message queues: raise the sysctl fs.mqueue.queues_max, or \
             remove queues that no process uses",
            sysctl("queues_max")
        )),
        Some(libc::EINVAL) => Some(format!(
            "this system's queues hold at most {} messages of at most {} bytes: raise the sysctls \
             fs.mqueue.msg_max and fs.mqueue.msgsize_max",
            sysctl("msg_max"),
            sysctl("msgsize_max")
        )),
        Some(libc::ENOSYS) => Some("this kernel has no POSIX message queues".to_owned()),
        _ => None,
    }
}

fn sysctl(name: &str) -> String {
    let text = fs::read_to_string(format!("/proc/sys/fs/mqueue/{name}"));
    text.map_or_else(|_| "?".to_owned(), |text| text.trim().to_owned())
}

fn open_flags(access: QueueAccess) -> MQ_OFlag {
    let direction = match access {
        QueueAccess::Receive => MQ_OFlag::O_RDONLY,
        QueueAccess::Send => MQ_OFlag::O_WRONLY,
    };
    direction | MQ_OFlag::O_NONBLOCK | MQ_OFlag::O_CLOEXEC
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: QueueShape = QueueShape {
        messages: 2,
        message_bytes: 64,
    };

    /// A name that no other process uses, which is unlinked on drop.
    struct Name(String);

    impl Name {
        fn new(what: &str) -> Self {
            Self(format!("/finerail-sys.{}.{what}", std::process::id()))
        }
    }

    impl Drop for Name {
        fn drop(&mut self) {
            let _absent = unlink_queue(&self.0);
        }
    }

    fn pair(name: &Name) -> (MessageQueue, MessageQueue) {
        let reader = MessageQueue::create(&name.0, QueueAccess::Receive, SHAPE).unwrap();
        let writer = MessageQueue::open(&name.0, QueueAccess::Send).unwrap();
        (reader, writer)
    }

    #[test]
    fn messages_arrive_whole_and_in_order() {
        let name = Name::new("order");
        let (reader, writer) = pair(&name);
        writer.try_send(b"first").unwrap();
        writer.try_send(b"").unwrap();
        assert_eq!(reader.waiting().unwrap(), 2);
        let mut buffer = [0; 64];
        assert_eq!(reader.try_receive(&mut buffer).unwrap(), 5);
        assert_eq!(&buffer[..5], b"first");
        assert_eq!(reader.try_receive(&mut buffer).unwrap(), 0);
    }

    #[test]
    fn full_and_empty_queues_say_that_they_would_block() {
        let name = Name::new("block");
        let (reader, writer) = pair(&name);
        let empty = reader.try_receive(&mut [0; 64]).unwrap_err();
        assert_eq!(empty.kind(), ErrorKind::WouldBlock);
        writer.try_send(b"a").unwrap();
        writer.try_send(b"b").unwrap();
        let full = writer.try_send(b"c").unwrap_err();
        assert_eq!(full.kind(), ErrorKind::WouldBlock);
    }

    #[test]
    fn waiting_ends_at_its_limit() {
        let name = Name::new("limit");
        let (reader, writer) = pair(&name);
        let limit = Duration::from_millis(10);
        let empty = reader.receive(&mut [0; 64], limit).unwrap_err();
        assert_eq!(empty.kind(), ErrorKind::TimedOut);
        writer.try_send(b"a").unwrap();
        writer.try_send(b"b").unwrap();
        let full = writer.send(b"c", limit).unwrap_err();
        assert_eq!(full.kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn waiting_ends_when_the_other_end_acts() {
        let name = Name::new("wake");
        let (reader, writer) = pair(&name);
        let long = Duration::from_secs(60);
        let sender = std::thread::spawn(move || {
            for _ in 0..100 {
                writer.send(b"message", long).unwrap();
            }
        });
        let mut buffer = [0; 64];
        for _ in 0..100 {
            assert_eq!(reader.receive(&mut buffer, long).unwrap(), 7);
        }
        sender.join().unwrap();
    }

    #[test]
    fn a_taken_name_is_rejected_and_an_unlinked_one_is_free() {
        let name = Name::new("taken");
        let (reader, writer) = pair(&name);
        let taken = MessageQueue::create(&name.0, QueueAccess::Receive, SHAPE).unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
        unlink_queue(&name.0).unwrap();
        let absent = MessageQueue::open(&name.0, QueueAccess::Send).unwrap_err();
        assert_eq!(absent.kind(), ErrorKind::NotFound);
        // Processes that have the queue open keep it, and do not notice that nobody reads it.
        drop(reader);
        writer.try_send(b"into the void").unwrap();
    }

    #[test]
    fn the_shape_is_what_was_asked_for_and_longer_messages_are_rejected() {
        let name = Name::new("shape");
        let (reader, writer) = pair(&name);
        assert_eq!(reader.shape().unwrap(), SHAPE);
        let long = writer.try_send(&[0; 65]).unwrap_err();
        assert_eq!(long.raw_os_error(), Some(libc::EMSGSIZE));
        let short = reader.try_receive(&mut [0; 63]).unwrap_err();
        assert_eq!(short.raw_os_error(), Some(libc::EMSGSIZE));
    }

    #[test]
    fn a_shape_beyond_the_systems_limits_is_explained() {
        let name = Name::new("huge");
        let huge = QueueShape {
            messages: 1 << 20,
            message_bytes: 1 << 24,
        };
        let error = MessageQueue::create(&name.0, QueueAccess::Receive, huge).unwrap_err();
        let explained = explain_queue_error(&error).unwrap();
        assert!(explained.contains("mqueue") || explained.contains("RLIMIT_MSGQUEUE"));
    }

    #[test]
    fn every_limit_is_explained_with_its_solution() {
        let explain = |number| explain_queue_error(&io::Error::from_raw_os_error(number));
        assert!(explain(libc::EMFILE).unwrap().contains("ulimit -q"));
        assert!(explain(libc::ENOSPC).unwrap().contains("queues_max"));
        assert!(explain(libc::EINVAL).unwrap().contains("msg_max"));
        assert_eq!(explain(libc::EACCES), None);
    }

    #[test]
    fn a_name_without_a_slash_or_with_a_nul_is_an_error() {
        for bad in ["no-slash", "/two/slashes", "/nul\0byte", ""] {
            assert!(
                MessageQueue::create(bad, QueueAccess::Receive, SHAPE).is_err(),
                "{bad:?}"
            );
        }
    }
}
