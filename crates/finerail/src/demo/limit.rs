//! Measures how fast this machine's loopback carries bytes between two threads that do nothing else. The
//! congestion control is the one of the demo's nodes: the system's default.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};

/// The throughput of this machine's loopback.
#[derive(Clone, Debug)]
pub(super) struct Limit {
    /// The congestion control of the measurement. Only limits with the same congestion control are comparable.
    pub(super) congestion: String,
    /// Throughput in one direction, in frames with a payload of [`PAYLOAD_LEN`].
    pub(super) bytes_per_second: f64,
}

/// Bytes of a header: LNet's 72 and the frame header's 24.
const HEADER_LEN: usize = 96;
/// Payload of a frame.
const PAYLOAD_LEN: usize = 1 << 20;
/// The number of frames of one measurement.
const FRAMES: usize = 512;
/// The number of measurements. The best one counts, because the result is a limit.
const ROUNDS: usize = 3;
/// The timeout of a read or a write.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Measures the limit.
pub(super) fn loopback() -> anyhow::Result<Limit> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot open a socket")?;
    let congestion = sys::congestion_control(&listener)?;
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        best = best.min(measure(&listener)?);
    }
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let bytes = (FRAMES * PAYLOAD_LEN) as f64;
    Ok(Limit {
        congestion,
        bytes_per_second: bytes / best.as_secs_f64(),
    })
}

/// Returns the time from the first frame until the receiver has confirmed all frames.
fn measure(listener: &TcpListener) -> anyhow::Result<Duration> {
    let mut near = TcpStream::connect(listener.local_addr()?)?;
    let (mut far, _) = listener.accept()?;
    for stream in [&near, &far] {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(WAIT_MAX))?;
        stream.set_write_timeout(Some(WAIT_MAX))?;
    }
    let receiver = thread::spawn(move || {
        let mut frame = vec![0; HEADER_LEN + PAYLOAD_LEN];
        for _ in 0..FRAMES {
            far.read_exact(&mut frame)?;
        }
        far.write_all(&[1])
    });
    let frame = vec![0; HEADER_LEN + PAYLOAD_LEN];
    let started = Instant::now();
    for _ in 0..FRAMES {
        near.write_all(&frame)?;
    }
    near.read_exact(&mut [0])?;
    let took = started.elapsed();
    let received = receiver.join();
    received.map_err(|_| anyhow!("the receiving thread panicked"))??;
    Ok(took)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_names_the_congestion_control_that_it_was_measured_with() {
        let limit = loopback().unwrap();
        assert!(limit.bytes_per_second > 0.0 && limit.bytes_per_second.is_finite());
        assert!(!limit.congestion.is_empty());
    }
}
