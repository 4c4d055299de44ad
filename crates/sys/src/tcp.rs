//! What TCP tells of one connection, and the one thing about it that is chosen per connection.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use socket2::SockRef;

/// The name of the congestion control of a TCP socket, such as `cubic` or `bbr`.
///
/// It decides more about throughput on loopback than anything a program does, because some
/// algorithms pace what they send. A figure without it cannot be compared with another.
///
/// # Errors
///
/// What `getsockopt(2)` fails with: the descriptor is not a TCP socket.
pub fn congestion_control(socket: &impl AsFd) -> io::Result<String> {
    let mut name = SockRef::from(socket).tcp_congestion()?;
    // The kernel fills the field up to its full length with zero bytes.
    name.truncate(
        name.iter()
            .position(|&byte| byte == 0)
            .unwrap_or(name.len()),
    );
    Ok(String::from_utf8_lossy(&name).into_owned())
}

/// Chooses the congestion control of a TCP socket by its name.
///
/// On a listening socket it is what the accepted connections begin with.
///
/// # Errors
///
/// What `setsockopt(2)` fails with: [`io::ErrorKind::NotFound`] when the kernel has no algorithm
/// of this name, [`io::ErrorKind::PermissionDenied`] when it is not listed in
/// `net.ipv4.tcp_allowed_congestion_control` and the thread lacks `CAP_NET_ADMIN`.
pub fn set_congestion_control(socket: &impl AsFd, name: &str) -> io::Result<()> {
    SockRef::from(socket).set_tcp_congestion(name.as_bytes())
}

/// How many bytes were written to a TCP socket and are not yet acknowledged by the peer's TCP,
/// whether or not they have left this machine.
///
/// # Errors
///
/// What `ioctl(2)` fails with: the descriptor is not a socket, or the socket is listening.
pub fn bytes_unacked(socket: &impl AsFd) -> io::Result<usize> {
    let mut bytes: nix::libc::c_int = 0;
    let descriptor = socket.as_fd().as_raw_fd();
    #[expect(
        unsafe_code,
        reason = "neither std, nix nor socket2 has a safe form of this request"
    )]
    // SAFETY: `descriptor` is open for as long as `socket` is borrowed, which is longer than this
    // call. SIOCOUTQ, whose number is that of TIOCOUTQ, writes one C int to its argument, which
    // points to a live C int that nothing else refers to.
    unsafe {
        outgoing_queue(descriptor, &raw mut bytes)?;
    }
    Ok(usize::try_from(bytes).unwrap_or(0))
}

/// What the kernel knows of the segments of one TCP connection (`TCP_INFO`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpFigures {
    /// The largest segment that is sent, in bytes of data, without TCP options.
    pub sent_mss: u32,
    /// The kernel's estimate of the largest segment that has come, in bytes of data.
    pub received_mss: u32,
    /// The largest segment that the peer was told to send, in bytes: the MTU of the way out less headers.
    pub advertised_mss: u32,
    /// The MTU of the path, as far as the kernel has learnt it, in bytes.
    pub path_mtu: u32,
    /// Segments that were sent and not yet acknowledged.
    pub unacknowledged: u32,
    /// Segments that were sent again since the connection began.
    pub resent: u32,
}

/// The 32-bit fields of `struct tcp_info` of linux/tcp.h up to `tcpi_total_retrans`, the first two of which
/// hold eight fields of a byte each.
const TCP_INFO_WORDS: usize = 26;

/// The figures of a TCP connection.
///
/// # Errors
///
/// What `getsockopt(2)` fails with: the descriptor is not a TCP socket.
pub fn tcp_figures(socket: &impl AsFd) -> io::Result<TcpFigures> {
    let mut words = [0_u32; TCP_INFO_WORDS];
    let descriptor = socket.as_fd().as_raw_fd();
    // 104 bytes.
    let mut length = size_of_val(&words) as nix::libc::socklen_t;
    #[expect(
        unsafe_code,
        reason = "neither std, nix nor socket2 has a safe form of this option"
    )]
    // SAFETY: `descriptor` is open for as long as `socket` is borrowed. The kernel writes at most `length`
    // bytes to `words`, which is as long, and the length to `length`; nothing else refers to either.
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
    /// `SIOCOUTQ`: the length of the send queue of a socket in bytes.
    outgoing_queue,
    nix::libc::TIOCOUTQ,
    nix::libc::c_int
);

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::time::{Duration, Instant};

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
        // reno is compiled into every kernel and allowed to everybody.
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
    fn an_unknown_congestion_control_is_refused() {
        let (near, _far) = connection();
        let refused = set_congestion_control(&near, "nosuch").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotFound, "{refused}");
    }

    #[test]
    fn a_name_longer_than_the_kernels_field_is_refused() {
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
        // RFC 9293: no MSS is below 536 unless an MTU is; loopback loses nothing.
        assert!(figures.sent_mss >= 536, "{figures:?}");
        assert!(figures.advertised_mss >= figures.sent_mss, "{figures:?}");
        assert!(figures.path_mtu > figures.sent_mss, "{figures:?}");
        assert_eq!((figures.unacknowledged, figures.resent), (0, 0));
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
