//! State and options of one TCP connection.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use socket2::SockRef;

/// Returns the congestion control of a TCP socket by name, such as `cubic` or `bbr`.
///
/// Congestion control affects throughput on loopback more than anything that a program does,
/// because some algorithms pace what they send. Figures can only be compared if it is the same.
///
/// # Errors
///
/// Errors of `getsockopt(2)`: the descriptor is not a TCP socket.
pub fn congestion_control(socket: &impl AsFd) -> io::Result<String> {
    let mut name = SockRef::from(socket).tcp_congestion()?;
    // The kernel pads the field with zero bytes.
    name.truncate(
        name.iter()
            .position(|&byte| byte == 0)
            .unwrap_or(name.len()),
    );
    Ok(String::from_utf8_lossy(&name).into_owned())
}

/// Sets the congestion control of a TCP socket by name.
///
/// On a listening socket, accepted connections inherit it.
///
/// # Errors
///
/// Errors of `setsockopt(2)`: [`io::ErrorKind::NotFound`] if the kernel has no algorithm with this
/// name, [`io::ErrorKind::PermissionDenied`] if it is not listed in
/// `net.ipv4.tcp_allowed_congestion_control` and the thread lacks `CAP_NET_ADMIN`.
pub fn set_congestion_control(socket: &impl AsFd, name: &str) -> io::Result<()> {
    SockRef::from(socket).set_tcp_congestion(name.as_bytes())
}

/// Returns the number of bytes that were written to a TCP socket and not yet acknowledged by the
/// peer's TCP, whether sent or not.
///
/// # Errors
///
/// Errors of `ioctl(2)`: the descriptor is not a socket, or the socket is listening.
pub fn bytes_unacked(socket: &impl AsFd) -> io::Result<usize> {
    let mut bytes: nix::libc::c_int = 0;
    let descriptor = socket.as_fd().as_raw_fd();
    #[expect(
        unsafe_code,
        reason = "neither std, nix nor socket2 has a safe form of this request"
    )]
    // SAFETY: `descriptor` is open while `socket` is borrowed, which outlives this call. SIOCOUTQ,
    // which has the number of TIOCOUTQ, writes one C int to its argument, which points to a live C
    // int without other references.
    unsafe {
        outgoing_queue(descriptor, &raw mut bytes)?;
    }
    Ok(usize::try_from(bytes).unwrap_or(0))
}

/// `TCP_RTO_MAX_MS` in linux/tcp.h, of Linux 6.15 and later.
const TCP_RTO_MAX_MS: nix::libc::c_int = 44;

/// Limits the pause between two attempts of TCP to send the same bytes, which doubles each time. Without a limit of its
/// own a socket has that of the kernel, two minutes.
///
/// # Errors
///
/// Errors of `setsockopt(2)`: `ENOPROTOOPT` if the kernel is older than 6.15, [`io::ErrorKind::InvalidInput`] if
/// `longest` is not between one second and two minutes.
pub fn limit_resend_pause(socket: &impl AsFd, longest: Duration) -> io::Result<()> {
    let milliseconds = nix::libc::c_int::try_from(longest.as_millis())
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let descriptor = socket.as_fd().as_raw_fd();
    #[expect(
        unsafe_code,
        reason = "neither std, nix nor socket2 has a safe form of this option"
    )]
    // SAFETY: `descriptor` is open while `socket` is borrowed. The kernel reads one C int from the pointer, which points
    // to a live C int.
    let result = unsafe {
        nix::libc::setsockopt(
            descriptor,
            nix::libc::IPPROTO_TCP,
            TCP_RTO_MAX_MS,
            (&raw const milliseconds).cast(),
            size_of_val(&milliseconds) as nix::libc::socklen_t,
        )
    };
    nix::errno::Errno::result(result)?;
    Ok(())
}

/// The kernel's figures about the segments of one TCP connection (`TCP_INFO`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpFigures {
    /// Largest segment that this end sends, in bytes of data without TCP options.
    pub sent_mss: u32,
    /// The kernel's estimate of the largest received segment, in bytes of data.
    pub received_mss: u32,
    /// Largest segment announced to the peer, in bytes: the MTU of the outgoing interface minus
    /// headers.
    pub advertised_mss: u32,
    /// MTU of the path in bytes, as far as the kernel knows it.
    pub path_mtu: u32,
    /// Number of segments that were sent and not yet acknowledged.
    pub unacknowledged: u32,
    /// Number of segments that were sent again since the connection began.
    pub resent: u32,
}

/// The 32-bit words of `struct tcp_info` in linux/tcp.h up to `tcpi_total_retrans`. The first two
/// words hold eight fields of one byte each.
const TCP_INFO_WORDS: usize = 26;

/// Returns the figures of a TCP connection.
///
/// # Errors
///
/// Errors of `getsockopt(2)`: the descriptor is not a TCP socket.
pub fn tcp_figures(socket: &impl AsFd) -> io::Result<TcpFigures> {
    let mut words = [0_u32; TCP_INFO_WORDS];
    let descriptor = socket.as_fd().as_raw_fd();
    // 104 bytes.
    let mut length = size_of_val(&words) as nix::libc::socklen_t;
    #[expect(
        unsafe_code,
        reason = "neither std, nix nor socket2 has a safe form of this option"
    )]
    // SAFETY: `descriptor` is open while `socket` is borrowed. The kernel writes at most `length`
    // bytes to `words`, which has that length, and the number to `length`; nothing else refers to
    // either.
    let result = unsafe {
        nix::libc::getsockopt(
            descriptor,
            nix::libc::IPPROTO_TCP,
            nix::libc::TCP_INFO,
            words.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    nix::errno::Errno::result(result)?;
    let word = |index: usize| words.get(index).copied().unwrap_or(0);
    Ok(TcpFigures {
        sent_mss: word(4),
        received_mss: word(5),
        unacknowledged: word(6),
        path_mtu: word(15),
        advertised_mss: word(21),
        resent: word(25),
    })
}

nix::ioctl_read_bad!(
    /// `SIOCOUTQ`: the number of bytes in the send queue of a socket.
    outgoing_queue,
    nix::libc::TIOCOUTQ,
    nix::libc::c_int
);

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::time::Instant;

    use super::*;

    fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        (near, far)
    }

    #[test]
    fn the_congestion_control_that_was_set_is_read_back() {
        let (near, _far) = connection();
        // reno is compiled into every kernel, and every user may select it.
        set_congestion_control(&near, "reno").unwrap();
        assert_eq!(congestion_control(&near).unwrap(), "reno");
    }

    #[test]
    fn an_accepted_connection_inherits_the_listeners_congestion_control() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        set_congestion_control(&listener, "reno").unwrap();
        let _near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        assert_eq!(congestion_control(&far).unwrap(), "reno");
    }

    #[test]
    fn an_unknown_congestion_control_is_an_error() {
        let (near, _far) = connection();
        let refused = set_congestion_control(&near, "nosuch").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotFound, "{refused}");
    }

    #[test]
    fn a_name_longer_than_the_kernels_field_is_an_error() {
        let (near, _far) = connection();
        assert!(set_congestion_control(&near, "a-name-of-more-than-sixteen-bytes").is_err());
    }

    #[test]
    fn bytes_that_the_peer_cannot_take_stay_unacknowledged() {
        let (mut near, mut far) = connection();
        assert_eq!(bytes_unacked(&near).unwrap(), 0);

        near.set_nonblocking(true).unwrap();
        let chunk = [7_u8; 64 << 10];
        let mut written = 0;
        loop {
            match near.write(&chunk) {
                Ok(count) => written += count,
                Err(full) if full.kind() == ErrorKind::WouldBlock => break,
                Err(other) => panic!("{other}"),
            }
        }
        let unacked = bytes_unacked(&near).unwrap();
        assert!((1..=written).contains(&unacked), "{unacked} of {written}");

        drain(&mut far, written);
        wait_until_acked(&near);
    }

    fn drain(far: &mut TcpStream, mut left: usize) {
        let mut sink = vec![0; 1 << 20];
        while left > 0 {
            left -= far.read(&mut sink).unwrap();
        }
    }

    fn wait_until_acked(near: &TcpStream) {
        let limit = Instant::now() + Duration::from_secs(30);
        while bytes_unacked(near).unwrap() > 0 {
            assert!(Instant::now() < limit, "still unacknowledged");
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_figures_of_a_connection_show_its_segments() {
        let (near, _far) = connection();
        let figures = tcp_figures(&near).unwrap();
        // RFC 9293: no MSS is below 536 unless an MTU is. Loopback loses nothing.
        assert!(figures.sent_mss >= 536, "{figures:?}");
        assert!(figures.advertised_mss >= figures.sent_mss, "{figures:?}");
        assert!(figures.path_mtu > figures.sent_mss, "{figures:?}");
        assert_eq!((figures.unacknowledged, figures.resent), (0, 0));
    }

    #[test]
    fn the_pause_between_attempts_has_a_limit_where_the_kernel_knows_one() {
        let (near, _far) = connection();
        match limit_resend_pause(&near, Duration::from_secs(2)) {
            Ok(()) => {}
            Err(error) => assert_eq!(error.raw_os_error(), Some(nix::libc::ENOPROTOOPT)),
        }
        assert!(limit_resend_pause(&near, Duration::from_secs(1 << 40)).is_err());
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(limit_resend_pause(&file, Duration::from_secs(2)).is_err());
    }

    #[test]
    fn a_listening_socket_has_no_send_queue() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(bytes_unacked(&listener).is_err());
    }

    #[test]
    fn a_file_is_not_a_tcp_socket() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(bytes_unacked(&file).is_err());
        assert!(congestion_control(&file).is_err());
        assert!(tcp_figures(&file).is_err());
        assert!(set_congestion_control(&file, "reno").is_err());
    }
}
