//! The state of the links of this network namespace, and notifications about changes of links and
//! addresses.
//!
//! ```text
//!  kernel ──RTM_NEWLINK, RTM_DELLINK──▶ LinkWatch (readable) ──▶ the caller asks links() and
//!         ──RTM_NEWADDR, RTM_DELADDR──▶                          interface_addresses() again
//! ```
//!
//! The messages are only a signal: after each one the caller reads the present state of all links
//! and addresses. If the socket's buffer is full and a message is lost, the caller therefore loses
//! no information.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket,
};

/// Returns the links of this network namespace by interface name, with whether each is up and has a
/// carrier.
///
/// # Errors
///
/// Errors of `getifaddrs(3)`: no memory, no netlink socket.
pub fn links() -> io::Result<BTreeMap<String, bool>> {
    let up = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING;
    let entries = getifaddrs()?;
    Ok(entries
        .map(|entry| (entry.interface_name, entry.flags.contains(up)))
        .collect())
}

/// Becomes readable after a link or an address of this network namespace has changed.
///
/// A watch belongs to the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct LinkWatch {
    socket: OwnedFd,
}

/// The multicast groups for changes of links and addresses: `RTMGRP_LINK`, `RTMGRP_IPV4_IFADDR` and
/// `RTMGRP_IPV6_IFADDR` in `linux/rtnetlink.h`.
const GROUPS: u32 = 0x1 | 0x10 | 0x100;

/// Longer than any message. One read removes one message from the queue, whatever its contents.
const MESSAGE_MAX: usize = 32 * 1024;

impl LinkWatch {
    /// Starts to watch. The socket does not block.
    ///
    /// # Errors
    ///
    /// The kernel has no route netlink, or this process has too many descriptors.
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

    /// Removes the notifications from the socket. Returns whether there were any. A caller that is
    /// told only once that the socket is readable calls this until it returns false.
    ///
    /// # Errors
    ///
    /// Errors of `recv(2)`. An empty socket is not an error, and lost notifications count as a
    /// notification.
    pub fn take_notifications(&self) -> io::Result<bool> {
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
    fn a_watch_without_notifications_returns_false() {
        let watch = LinkWatch::open().unwrap();
        // Changes elsewhere on this machine may arrive, but they stop.
        let quiet = (0..1000).any(|_| !watch.take_notifications().unwrap());
        assert!(quiet);
    }
}
