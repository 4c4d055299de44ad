//! The end of connections: what a send has handed to the kernel still reaches the peer.
//!
//! A kernel that receives bytes for a closed socket answers with a reset, and the peer loses what it has not
//! received. The peer does write: it greets, and it returns window while it reads. Therefore a socket stays
//! open, and what arrives there is dropped, until the peer's kernel has everything or the peer has ended.

use std::thread;
use std::time::{Duration, Instant};

use sys::span;

use super::endpoint::Socket;

/// How long a process waits at its end for peers that do not read. Afterwards the kernel goes on, and data is
/// lost only if the peer writes before it has read everything.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest time between two looks at the sockets; no event tells that data was acknowledged.
const LOOK_MAX: Duration = Duration::from_millis(10);

/// Ends the sending direction of all connections and waits until their peers have everything, for at most
/// [`PATIENCE`].
// [TCP-32]
pub(crate) fn part(mut sockets: Vec<Socket>) {
    for socket in &sockets {
        socket.end_writing();
    }
    let deadline = Instant::now() + PATIENCE;
    let mut pause = Duration::from_micros(100);
    loop {
        sockets.retain(|socket| !is_over(socket));
        let left = deadline.saturating_duration_since(Instant::now());
        if sockets.is_empty() {
            return;
        }
        if left.is_zero() {
            let peers = sockets.len();
            tracing::warn!(
                peers,
                "the last messages may be lost: these peers do not read"
            );
            return;
        }
        thread::sleep(pause.min(left));
        pause = (pause * 2).min(LOOK_MAX);
    }
}

/// Drops what has arrived. Returns whether the peer's kernel has everything, or the peer has ended.
fn is_over(socket: &Socket) -> bool {
    let mut unread = [0; 16 << 10];
    // A peer that never stops sending has its turn again at the next look.
    for _ in 0..64 {
        match span::receive(socket, &[], 0, &mut unread) {
            Ok(1..) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
            Ok(0) | Err(_) => return true,
        }
    }
    match socket {
        Socket::Inet(_) => sys::bytes_unacked(socket).is_ok_and(|left| left == 0),
        // What was written is in the peer's queue, which outlives this end.
        Socket::Unix(_) => true,
    }
}
