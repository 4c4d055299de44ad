//! The ICMP message that rejected an attempt to connect: who sent it, and what it says.
//!
//! The system's error alone does not tell a port without a process (TCP answers with a reset) from a firewall that
//! rejects (ICMP): both are `ECONNREFUSED`. Kernels from 5.18 on keep the message for a socket that asks for it.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd};

use nix::libc;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt::Ipv4RecvErr, sockopt::Ipv6RecvErr,
};

/// Destination unreachable of ICMP (RFC 792) and of ICMPv6 (RFC 4443).
const UNREACHABLE_4: u8 = 3;
const UNREACHABLE_6: u8 = 1;

/// An ICMP message that rejected an attempt to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpRejection {
    /// True for ICMPv6, false for ICMP.
    pub is_v6: bool,
    /// The type of the message.
    pub kind: u8,
    /// The code of the message.
    pub code: u8,
    /// The sender of the message, if the system knows it.
    pub from: Option<IpAddr>,
}

impl IcmpRejection {
    /// Returns true if only a filter sends this message: it says that the connection is prohibited, or that a port is
    /// unreachable, which no TCP says of its own ports.
    #[must_use]
    pub const fn is_of_filter(&self) -> bool {
        match (self.is_v6, self.kind, self.code) {
            // Port unreachable; network, host and communication prohibited (RFC 1122, RFC 1812).
            (false, UNREACHABLE_4, code) => matches!(code, 3 | 9 | 10 | 13),
            // Prohibited, port unreachable, policy, rejected by a route.
            (true, UNREACHABLE_6, code) => matches!(code, 1 | 4 | 5 | 6),
            _ => false,
        }
    }
}

impl fmt::Display for IcmpRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match (self.is_v6, self.kind, self.code) {
            (false, UNREACHABLE_4, 0) | (true, UNREACHABLE_6, 0) => "no route to the network",
            (false, UNREACHABLE_4, 1) | (true, UNREACHABLE_6, 3) => "host unreachable",
            (false, UNREACHABLE_4, 3) | (true, UNREACHABLE_6, 4) => "port unreachable",
            (false, UNREACHABLE_4, 9 | 10 | 13) | (true, UNREACHABLE_6, 1 | 5) => {
                "administratively prohibited"
            }
            (true, UNREACHABLE_6, 6) => "rejected by a route",
            _ => {
                return write!(f, "ICMP type {} code {}", self.kind, self.code);
            }
        };
        write!(f, "ICMP \"{text}\"")?;
        match self.from {
            Some(from) => write!(f, " from {from}"),
            None => Ok(()),
        }
    }
}

impl Error for IcmpRejection {}

/// Asks the system to keep the ICMP messages for a socket that is not connected yet. [`icmp_rejection`] returns them.
///
/// # Errors
///
/// Errors of `setsockopt(2)`: the descriptor is no socket.
pub fn keep_icmp(socket: &impl AsFd, is_v6: bool) -> io::Result<()> {
    keep(socket, is_v6, true)
}

/// Returns the ICMP message that rejected a socket's attempt to connect, and asks for no more of them; `None` if there
/// is none, or if the kernel keeps none.
pub fn icmp_rejection(socket: &impl AsFd, is_v6: bool) -> Option<IcmpRejection> {
    let descriptor = socket.as_fd().as_raw_fd();
    let mut room = nix::cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6);
    // The queue is read without waiting.
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    let message = recvmsg::<()>(descriptor, &mut [], Some(&mut room), flags);
    let found = message.ok().and_then(|message| {
        let mut parts = message.cmsgs().ok()?;
        parts.find_map(|part| match part {
            ControlMessageOwned::Ipv4RecvErr(error, from) => {
                let from = from.map(|from| Ipv4Addr::from(u32::from_be(from.sin_addr.s_addr)));
                rejection(&error, from.map(IpAddr::V4))
            }
            ControlMessageOwned::Ipv6RecvErr(error, from) => {
                let from = from.map(|from| Ipv6Addr::from(from.sin6_addr.s6_addr));
                rejection(&error, from.map(IpAddr::V6))
            }
            _ => None,
        })
    });
    // The socket is of no use, or its errors come from reads and writes as usual.
    let _kept = keep(socket, is_v6, false);
    found
}

fn rejection(error: &libc::sock_extended_err, from: Option<IpAddr>) -> Option<IcmpRejection> {
    let is_v6 = match error.ee_origin {
        libc::SO_EE_ORIGIN_ICMP => false,
        libc::SO_EE_ORIGIN_ICMP6 => true,
        _ => return None,
    };
    Some(IcmpRejection {
        is_v6,
        kind: error.ee_type,
        code: error.ee_code,
        from: from.filter(|from| !from.is_unspecified()),
    })
}

fn keep(socket: &impl AsFd, is_v6: bool, on: bool) -> io::Result<()> {
    let socket = &socket.as_fd();
    match is_v6 {
        true => setsockopt(socket, Ipv6RecvErr, &on)?,
        false => setsockopt(socket, Ipv4RecvErr, &on)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn icmp(is_v6: bool, kind: u8, code: u8) -> IcmpRejection {
        let from = None;
        IcmpRejection {
            is_v6,
            kind,
            code,
            from,
        }
    }

    #[test]
    fn prohibitions_come_from_filters_and_missing_routes_from_routers() {
        for code in [3, 9, 10, 13] {
            assert!(icmp(false, 3, code).is_of_filter(), "{code}");
        }
        for code in [1, 4, 5, 6] {
            assert!(icmp(true, 1, code).is_of_filter(), "{code}");
        }
        assert!(!icmp(false, 3, 0).is_of_filter() && !icmp(false, 3, 1).is_of_filter());
        assert!(!icmp(true, 1, 0).is_of_filter() && !icmp(false, 11, 0).is_of_filter());
    }

    #[test]
    fn a_message_is_told_with_its_sender() {
        let from = Some(Ipv4Addr::new(10, 0, 0, 1).into());
        let prohibited = IcmpRejection {
            from,
            ..icmp(false, 3, 13)
        };
        let text = "ICMP \"administratively prohibited\" from 10.0.0.1";
        assert_eq!(prohibited.to_string(), text);
        assert_eq!(icmp(true, 3, 0).to_string(), "ICMP type 3 code 0");
    }

    #[test]
    fn a_port_without_a_process_sends_no_icmp() {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let socket = socket.unwrap();
        keep_icmp(&socket, false).unwrap();
        assert!(socket.connect(&address.into()).is_err());
        assert_eq!(icmp_rejection(&socket, false), None);
    }

    #[test]
    fn a_file_keeps_no_messages() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(keep_icmp(&file, false).is_err() && keep_icmp(&file, true).is_err());
        assert_eq!(icmp_rejection(&file, false), None);
    }
}
