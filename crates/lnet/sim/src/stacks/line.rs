//! One connection of the virtual network: two ends, and the data in flight to each.
//!
//! ```text
//!  end 0  ── write ──▶ in flight ─── arrival ──▶ inbox ── read ──▶  end 1
//!         ◀── the same for the other direction ──
//! ```
//!
//! A line limits the bytes in each direction, in flight and unread together. If a line is cut, its data in flight
//! stays there until the cut is over.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use lnet_tcp::DialFailure;

/// The stage of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The target has not answered yet.
    Dialling,
    /// The connection failed.
    Failed(DialFailure),
    /// The line is connected, but a program may not have accepted it yet.
    Up,
}

/// What one end sends to the other.
#[derive(Debug)]
pub(crate) enum Parcel {
    Bytes(Vec<u8>),
    /// The sender will write nothing more.
    End,
    /// The connection does not exist.
    Reset,
}

/// One end of a line.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) machine: u32,
    pub(crate) address: SocketAddr,
    /// The slot of the machine's LND that gets the readiness of this end.
    pub(crate) slot: Option<usize>,
    /// A handle of this end exists, or the end may still be accepted.
    pub(crate) open: bool,
    /// The machine lost power: nothing answers for this end.
    pub(crate) gone: bool,
    /// Parcels in flight to this end, by time of arrival.
    pub(crate) coming: VecDeque<(u64, Parcel)>,
    pub(crate) coming_bytes: usize,
    pub(crate) inbox: VecDeque<u8>,
    /// The other end has ended its writing.
    pub(crate) ended: bool,
    pub(crate) reset: bool,
    /// The writer of this end found the line full.
    pub(crate) wants_room: bool,
    /// The first bytes that this end wrote: its part of the handshake.
    pub(crate) head: Vec<u8>,
    /// The number of bytes that this end wrote, and that it read.
    pub(crate) wrote: u64,
    pub(crate) took: u64,
}

impl End {
    fn new(machine: u32, address: SocketAddr) -> Self {
        Self {
            machine,
            address,
            slot: None,
            open: true,
            gone: false,
            coming: VecDeque::new(),
            coming_bytes: 0,
            inbox: VecDeque::new(),
            ended: false,
            reset: false,
            wants_room: false,
            head: Vec::new(),
            wrote: 0,
            took: 0,
        }
    }

    /// Returns the number of bytes that were written to this end and not read.
    pub(crate) fn pending(&self) -> usize {
        self.coming_bytes + self.inbox.len()
    }

    /// Returns the number of bytes that can be read, or how the stream ends after them.
    pub(crate) fn readable(&self) -> io::Result<usize> {
        match self.inbox.len() {
            0 if self.reset => Err(ErrorKind::ConnectionReset.into()),
            0 if self.ended => Ok(0),
            0 => Err(ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }

    fn send(&mut self, at: u64, parcel: Parcel) -> u64 {
        // Parcels on a line do not overtake each other.
        let at = self.coming.back().map_or(at, |(last, _)| at.max(*last));
        if let Parcel::Bytes(bytes) = &parcel {
            self.coming_bytes += bytes.len();
        }
        self.coming.push_back((at, parcel));
        at
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) ends: [End; 2],
    pub(crate) stage: Stage,
    pub(crate) latency_ns: u64,
    pub(crate) picoseconds_per_byte: u64,
    /// The limit on the bytes in each direction.
    pub(crate) capacity: usize,
    /// The end, and the number of bytes after whose writing the line breaks.
    pub(crate) breaks_at: Option<(usize, u64)>,
}

/// The bytes that an empty line accepts in one write: a handshake is written as a whole.
pub(crate) const WHOLE: usize = 512;

impl Line {
    pub(crate) fn new(dialler: (u32, SocketAddr), target: (u32, SocketAddr)) -> Self {
        Self {
            ends: [End::new(dialler.0, dialler.1), End::new(target.0, target.1)],
            stage: Stage::Dialling,
            latency_ns: 0,
            picoseconds_per_byte: 0,
            capacity: 0,
            breaks_at: None,
        }
    }

    /// Returns how many more bytes the end may write.
    pub(crate) fn room(&self, from: usize) -> usize {
        self.capacity.saturating_sub(self.ends[1 - from].pending())
    }

    /// Returns the number of bytes that the end has written and that have not arrived.
    pub(crate) fn unacknowledged(&self, from: usize) -> usize {
        self.ends[1 - from].coming_bytes
    }

    /// Sends a parcel from an end; returns its time of arrival.
    pub(crate) fn send(&mut self, from: usize, now: u64, delay_ns: u64, parcel: Parcel) -> u64 {
        let length = match &parcel {
            Parcel::Bytes(bytes) => bytes.len() as u64,
            Parcel::End | Parcel::Reset => 0,
        };
        let span = self.latency_ns + delay_ns + length * self.picoseconds_per_byte / 1000;
        self.ends[1 - from].send(now + span, parcel)
    }

    /// Takes one parcel that has arrived at an end; returns `None` if there is none. A closed end answers a parcel
    /// with a reset, unless its machine lost power.
    pub(crate) fn arrive(&mut self, at: usize, now: u64) -> Option<Arrived> {
        let end = &mut self.ends[at];
        if end.coming.front().is_none_or(|(due, _)| *due > now) {
            return None;
        }
        let (_, parcel) = end.coming.pop_front()?;
        if let Parcel::Bytes(bytes) = &parcel {
            end.coming_bytes -= bytes.len();
        }
        if end.reset {
            return Some(Arrived::Ignored);
        }
        if !end.open {
            return Some(match parcel {
                Parcel::Reset => Arrived::Ignored,
                Parcel::Bytes(_) | Parcel::End => Arrived::NobodyThere,
            });
        }
        Some(match parcel {
            Parcel::Bytes(bytes) => {
                end.inbox.extend(bytes);
                Arrived::Readable
            }
            Parcel::End => {
                end.ended = true;
                Arrived::Closed
            }
            Parcel::Reset => {
                end.reset = true;
                Arrived::Closed
            }
        })
    }

    /// Returns true if both ends are closed and no parcel is in flight.
    pub(crate) fn is_over(&self) -> bool {
        self.ends.iter().all(|end| !end.open) && self.ends.iter().all(|end| end.coming.is_empty())
    }
}

/// The effect of an arrival on the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    Readable,
    Closed,
    NobodyThere,
    Ignored,
}
