//! One connection of the virtual network: two ends, and what is on its way to each.
//!
//! ```text
//!  end 0  ── write ──▶ on the way ── arrival ──▶ inbox ── read ──▶  end 1
//!         ◀── the same for the other direction ──
//! ```
//!
//! A line holds as many bytes each way as it has room for, on the way and unread together. What is on the way of
//! a line that is cut stays there until the cut is over.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use lnet_tcp::DialFailure;

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nobody has answered yet.
    Dialling,
    /// There will be no connection.
    Failed(DialFailure),
    /// Connected, maybe not yet accepted by a program.
    Up,
}

/// What a side has to tell the other one.
#[derive(Debug)]
pub(crate) enum Parcel {
    Bytes(Vec<u8>),
    /// Nothing more will be written.
    End,
    /// The connection does not exist.
    Reset,
}

/// One end of a line.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) machine: u32,
    pub(crate) address: SocketAddr,
    /// Where the machine's LND wants to hear of it.
    pub(crate) slot: Option<usize>,
    /// Somebody has a handle of it, or may accept it.
    pub(crate) open: bool,
    /// Its machine lost power: nobody answers for it.
    pub(crate) gone: bool,
    /// Parcels on the way to this end, by arrival.
    pub(crate) coming: VecDeque<(u64, Parcel)>,
    pub(crate) coming_bytes: usize,
    pub(crate) inbox: VecDeque<u8>,
    /// The other side has ended its writing.
    pub(crate) ended: bool,
    pub(crate) reset: bool,
    /// Its writer was told that the line is full.
    pub(crate) wants_room: bool,
    /// The first bytes that it wrote: its part of the handshake.
    pub(crate) head: Vec<u8>,
    /// Bytes that it wrote and that it read.
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

    /// Bytes that were written to this end and not read.
    pub(crate) fn pending(&self) -> usize {
        self.coming_bytes + self.inbox.len()
    }

    /// Bytes for it to be read, and how it ends behind them.
    pub(crate) fn readable(&self) -> io::Result<usize> {
        match self.inbox.len() {
            0 if self.reset => Err(ErrorKind::ConnectionReset.into()),
            0 if self.ended => Ok(0),
            0 => Err(ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }

    fn send(&mut self, at: u64, parcel: Parcel) -> u64 {
        // Nothing overtakes on a line.
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
    /// Bytes each way.
    pub(crate) capacity: usize,
    /// It breaks when the end has written so many bytes.
    pub(crate) breaks_at: Option<(usize, u64)>,
}

/// Bytes that a line takes at once when it is empty: a handshake is written as a whole.
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

    /// How many more bytes the end may write.
    pub(crate) fn room(&self, from: usize) -> usize {
        self.capacity.saturating_sub(self.ends[1 - from].pending())
    }

    /// Bytes that the end has written and that have not arrived.
    pub(crate) fn unacknowledged(&self, from: usize) -> usize {
        self.ends[1 - from].coming_bytes
    }

    /// Puts a parcel on its way from an end; says when it arrives.
    pub(crate) fn send(&mut self, from: usize, now: u64, delay_ns: u64, parcel: Parcel) -> u64 {
        let length = match &parcel {
            Parcel::Bytes(bytes) => bytes.len() as u64,
            Parcel::End | Parcel::Reset => 0,
        };
        let span = self.latency_ns + delay_ns + length * self.picoseconds_per_byte / 1000;
        self.ends[1 - from].send(now + span, parcel)
    }

    /// Takes one parcel that has arrived at an end; false when there is none. What arrives where nobody is any
    /// more is answered with a reset, unless the machine there lost power.
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

    /// Neither end is of any more use.
    pub(crate) fn is_over(&self) -> bool {
        self.ends.iter().all(|end| !end.open) && self.ends.iter().all(|end| end.coming.is_empty())
    }
}

/// What an arrival means for the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    Readable,
    Closed,
    NobodyThere,
    Ignored,
}
