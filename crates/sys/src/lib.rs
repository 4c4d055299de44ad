//! Linux system calls behind a safe API: all that need `unsafe`, and the few related ones that do not.
//!
//! | Question | Answer |
//! |---|---|
//! | Which addresses does this machine have? | [`interface_addresses`] |
//! | Which links are up, and when does that change? | [`links`], [`LinkWatch`] |
//! | Which congestion control does this connection use? | [`congestion_control`], [`set_congestion_control`] |
//! | How much of what was written has the peer's TCP not acknowledged? | [`bytes_unacked`] |
//! | How large are the segments of this connection, and were any lost? | [`tcp_figures`] |
//! | Was an attempt to connect rejected by the host, or by a filter on the path? | [`keep_icmp`], [`icmp_rejection`] |
//! | Which CPUs may this thread use, and how is it kept on one? | [`allowed_cpus`], [`pin_to_cpu`], [`pin_to_cpus`] |
//! | How do small messages reach another process? | [`MessageQueue`] |
//! | How do two processes share memory? | [`SharedMemory`], [`Mapping`] |
//! | Is that process still alive, and still the same process? | [`ProcessHandle`], [`process_start`] |
//! | How is another process's memory read and written? | [`read_memory`], [`write_memory`], [`allow_trace`] |
//! | Is this still the process, or a child that `fork` made of it? | [`ForkMark`] |
//! | Who is at the other end of a local socket, and has it closed? | [`peer_credentials`], [`peer_groups`], [`has_hung_up`] |
//! | How is a file opened, created or replaced safely if others may have put a link there? | [`without_following`], [`create_file`], [`replace_file`], [`create_new`] |
//! | Does a directory belong to this user alone? Can others replace what is created in it? | [`own_directory`], [`require_trusted_parent`] |
//! | How does one thread end another's wait? | [`Alarm`], [`Event`] |
//! | How does a wait end when a signal comes? | [`Alarm::wait_or_signal`], [`MessageQueue::receive_or_signal`], [`Event`], [`block_signals`] |
//! | Where is the memory of a message, and who keeps it alive? | [`span`] |
//! | Which memory does one vectored call write from, or read into? | [`Gather`], [`Scatter`] |
//! | How do bytes go from one socket to another without a copy? | [`Pipe`] |
//! | How much memory may this process lock? | [`locked_memory_limit`] |
//! | How does this process use RDMA devices, if there are any? | [`verbs`] |
//!
//! # Example
//!
//! ```
//! use std::time::Duration;
//!
//! use sys::{Alarm, Woken};
//!
//! // A thread waits for a socket; another thread can end the wait.
//! let (near, _far) = std::os::unix::net::UnixStream::pair()?;
//! let alarm = Alarm::new()?;
//! std::thread::scope(|scope| {
//!     let waiter = scope.spawn(|| alarm.wait(&near, Duration::from_secs(60)));
//!     alarm.ring();
//!     assert!(matches!(waiter.join(), Ok(Ok(Woken::Rung))));
//! });
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Limits
//!
//! This crate supports only Linux. It has sockets, interfaces and CPUs, but no protocol: no NID, net
//! or LNet port number may appear here. It holds no state and starts no thread. Every call asks the
//! kernel again. Errors are the kernel's, as [`std::io::Error`]; the caller adds what it attempted.

mod alarm;
mod cpu;
mod event;
mod file;
mod fork;
mod interface;
mod limit;
mod link;
mod local_socket;
mod mapping;
mod mqueue;
mod peer_memory;
mod pipe;
mod port;
mod process;
mod rejection;
mod shm;
pub mod span;
mod tcp;
mod vectored;
pub mod verbs;
mod wait;

pub use alarm::{Alarm, Woken};
pub use cpu::{allowed_cpus, pin_to_cpu, pin_to_cpus};
pub use event::{Event, Waited};
pub use file::{
    create_file, create_new, own_directory, replace_file, require_trusted_parent,
    without_following, write_file,
};
pub use fork::ForkMark;
pub use interface::{InterfaceAddress, interface_addresses};
pub use limit::locked_memory_limit;
pub use link::{LinkWatch, links};
pub use local_socket::{
    PeerCredentials, effective_user, peer_credentials, peer_groups, share_with_group,
};
pub use mapping::Mapping;
pub use mqueue::{
    MessageQueue, QueueAccess, QueueShape, explain_queue_error, queue_bytes_max, unlink_queue,
};
pub use peer_memory::{RemotePart, allow_trace, has_hung_up, read_memory, write_memory};
pub use pipe::Pipe;
pub use port::ReservedPort;
pub use process::{ProcessHandle, block_signals, process_start};
pub use rejection::{IcmpRejection, icmp_rejection, keep_icmp};
pub use shm::{PageSize, SharedMemory, unlink_shared_memory};
pub use tcp::{
    TcpFigures, bytes_unacked, congestion_control, limit_resend_pause, set_congestion_control,
    tcp_figures,
};
pub use vectored::{Gather, Scatter};
pub use wait::{Readiness, wait_until_ready};
