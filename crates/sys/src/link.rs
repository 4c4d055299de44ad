//! Whether the links of this network namespace are up, and news of changes of links and addresses.
//!
//! ```text
//!  kernel ──RTM_NEWLINK, RTM_DELLINK──▶ LinkWatch (readable) ──▶ the caller asks links() and
//!         ──RTM_NEWADDR, RTM_DELADDR──▶                          interface_addresses() again
//! ```
//!
//! The messages are a signal and no more: whoever hears of one asks for the present state of all
//! links and addresses. A lost message (the socket's buffer was full) therefore loses nothing but time.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket,
};

/// The links of this network namespace by interface name, each with whether it is up and has its
/// carrier.
///
/// # Errors
///
/// What `getifaddrs(3)` fails with: no memory, no netlink socket.
pub fn links() -> io::Result<BTreeMap<String, bool>> {
    let up = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING;
    let entries = getifaddrs()?;
    Ok(entries
        .map(|entry| (entry.interface_name, entry.flags.contains(up)))
        .collect())
}

/// Becomes readable when a link or an address of this network namespace has changed.
///
/// It belongs to the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct LinkWatch {
    socket: OwnedFd,
}

/// The multicast groups of changes of links and addresses: `RTMGRP_LINK`, `RTMGRP_IPV4_IFADDR` and
/// `RTMGRP_IPV6_IFADDR` in `linux/rtnetlink.h`.
const GROUPS: u32 = 0x1 | 0x10 | 0x100;

/// Longer than any message: one read takes one of them off the queue, whatever it holds.
const MESSAGE_MAX: usize = 32 * 1024;

impl LinkWatch {
    /// Begins to watch. The socket does not block.
    ///
    /// # Errors
    ///
    /// The kernel offers no route netlink, or this process may not have another descriptor.
    pub fn open() -> io::Result<Self> {
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
            SockProtocol::NetlinkRoute,
        )?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, GROUPS))?;
        Ok(Self { socket })
    }

    /// Takes the news off the socket; true when there were any. To be called until false by those
    /// who are told of readiness once.
    ///
    /// # Errors
    ///
    /// What `recv(2)` fails with, except that there is nothing, or that news were lost: these are
    /// news too.
    pub fn heard(&self) -> io::Result<bool> {
        let mut message = [0_u8; MESSAGE_MAX];
        match recv(self.socket.as_raw_fd(), &mut message, MsgFlags::MSG_TRUNC) {
            Ok(_) | Err(Errno::ENOBUFS | Errno::EINTR) => Ok(true),
            Err(Errno::EAGAIN) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for LinkWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for LinkWatch {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_among_the_links() {
        let links = links().unwrap();
        assert!(links.contains_key("lo"), "{links:?}");
    }

    #[test]
    fn a_watch_that_heard_nothing_says_so() {
        let watch = LinkWatch::open().unwrap();
        // What happens elsewhere on this machine may be heard, but it ends.
        let quiet = (0..1000).any(|_| !watch.heard().unwrap());
        assert!(quiet);
    }
}
