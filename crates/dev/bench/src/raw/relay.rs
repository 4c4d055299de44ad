//! Relays in place of a router that examine no message: plain programs, from the simplest to the fastest.
//!
//! ```text
//!   one thread     read a message whole, or as many as one read gives ──▶ write
//!   two threads    read ──▶ a few buffers ──▶ write
//!   splice(2)      socket ──▶ pipe, a message whole ──▶ socket: pages move without a copy
//! ```

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use anyhow::{Context, anyhow, bail};
use clap::ValueEnum;
use sys::{Pipe, Readiness, wait_until_ready};

use super::target::{accept, next_run, take_batches};
use super::{BATCH_BYTES, HEADER_LEN, Header, Link, Run};
use crate::workload::LARGE;

/// How a relay forwards messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Relay {
    /// One thread reads and writes in turn
    OneThread,
    /// One thread reads, another writes
    TwoThreads,
    /// One thread lets the kernel move pages from socket to socket
    Splice,
}

impl Relay {
    pub(crate) const ALL: [Self; 3] = [Self::OneThread, Self::TwoThreads, Self::Splice];

    /// As an argument of this program.
    pub(crate) fn argument(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// In a sentence, after "a relay".
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::OneThread => "of one thread",
            Self::TwoThreads => "of two threads",
            Self::Splice => "by splice(2)",
        }
    }
}

/// Buffers between the two threads: one is read into, one is written, and the others wait.
const BUFFERS: usize = 4;

/// Passes streams on to the raw target on port `to`: each large message is read whole and then written, as a
/// router must.
pub(crate) fn serve(congestion: &str, to: u16, relay: Relay) -> anyhow::Result<()> {
    let onward = TcpStream::connect((Ipv4Addr::LOCALHOST, to))
        .with_context(|| format!("cannot connect to port {to} of this machine"))?;
    let mut onward = Link::new(onward, congestion)?;
    let mut link = accept(congestion)?;
    while let Some(announced) = next_run(&mut link)? {
        onward.send(&announced.encode(), &[])?;
        pass_on(relay, &mut link, &mut onward, announced)?;
        let done = onward.receive_header()?;
        link.send(&done.encode(), &[])?;
    }
    Ok(())
}

fn pass_on(
    relay: Relay,
    link: &mut Link,
    onward: &mut Link,
    announced: Header,
) -> anyhow::Result<()> {
    if !matches!(announced.run, Run::Stream | Run::Batches) {
        bail!("a relay passes on no {:?}", announced.run);
    }
    match relay {
        Relay::OneThread => in_turn(link, onward, announced),
        Relay::TwoThreads => by_two(link, onward, announced),
        Relay::Splice => by_splice(link, onward, announced),
    }
}

fn in_turn(link: &mut Link, onward: &mut Link, announced: Header) -> anyhow::Result<()> {
    if announced.run == Run::Batches {
        return take_batches(link, announced, |whole| onward.stream.write_all(whole));
    }
    let mut buffer = [vec![0; LARGE]];
    link.receive_stream(announced.count, &mut buffer, |header, payload| {
        onward.send(header, payload)
    })
}

/// Bytes of the run, and bytes that are passed on at once at most.
fn lengths(announced: Header) -> (u64, usize) {
    let frame = HEADER_LEN + announced.length as usize;
    let piece = match announced.run {
        Run::Batches => BATCH_BYTES,
        _ => frame,
    };
    (announced.count * frame as u64, piece)
}

/// A buffer, and how much of it is filled.
type Piece = (Vec<u8>, usize);

fn by_two(link: &mut Link, onward: &mut Link, announced: Header) -> anyhow::Result<()> {
    let (total, piece) = lengths(announced);
    let (give, taken) = channel::<Piece>();
    let (free, to_fill) = channel();
    for _ in 0..BUFFERS {
        free.send((vec![0; piece], 0))?;
    }
    thread::scope(|scope| {
        let writer = scope.spawn(move || -> io::Result<()> {
            for (buffer, filled) in taken {
                onward.stream.write_all(&buffer[..filled])?;
                // The reader is done if it takes no buffer any more.
                let _done = free.send((buffer, 0));
            }
            Ok(())
        });
        let is_whole = announced.run == Run::Stream;
        let read = read_ahead(link, total, is_whole, &to_fill, give);
        let written = writer.join().map_err(|_| anyhow!("the writer has died"))?;
        written.context("cannot pass on what came").and(read)
    })
}

fn read_ahead(
    link: &mut Link,
    total: u64,
    is_whole: bool,
    to_fill: &Receiver<Piece>,
    give: Sender<Piece>,
) -> anyhow::Result<()> {
    let mut left = total;
    while left > 0 {
        let (mut buffer, _) = to_fill.recv()?;
        let most = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let filled = match is_whole {
            true => {
                link.stream.read_exact(&mut buffer[..most])?;
                most
            }
            false => link.stream.read(&mut buffer[..most])?,
        };
        if filled == 0 {
            bail!("the stream ended {left} bytes early");
        }
        left -= filled as u64;
        give.send((buffer, filled))?;
    }
    Ok(())
}

fn by_splice(link: &mut Link, onward: &mut Link, announced: Header) -> anyhow::Result<()> {
    let pipe = Pipe::with_room(LARGE).context("no pipe")?;
    let (mut left, piece) = lengths(announced);
    while left > 0 {
        let mut wanted = usize::try_from(left).map_or(piece, |left| left.min(piece));
        left -= wanted as u64;
        while wanted > 0 {
            match pipe.fill(&link.stream, wanted) {
                Ok(0) => bail!("the stream ended early"),
                Ok(count) => wanted -= count,
                // The socket blocks, so that the pipe is full.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
            // The part that does not fit into the pipe is forwarded first.
            if wanted > 0 {
                drain(&pipe, onward)?;
            }
        }
        drain(&pipe, onward)?;
    }
    Ok(())
}

fn drain(pipe: &Pipe, onward: &Link) -> io::Result<()> {
    while pipe.held() > 0 {
        match pipe.drain(&onward.stream, pipe.held()) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                wait_until_ready(&onward.stream, Readiness::Writable, None)?;
            }
            drained => {
                drained?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::links;
    use super::*;

    const MESSAGES: u64 = 40;

    /// Passes messages on whose bytes all differ, and returns what came out.
    fn relayed(relay: Relay, run: Run, length: usize) -> (Vec<u8>, Vec<u8>) {
        let ((mut near, mut link), (mut onward, mut far)) = (links(), links());
        let announced = Header {
            run,
            length: u32::try_from(length).unwrap(),
            count: MESSAGES,
        };
        let payload: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        let frame = [&announced.encode()[..], &payload].concat();
        let sent = frame.repeat(MESSAGES as usize);
        let mut came = vec![0; sent.len()];
        thread::scope(|scope| {
            scope.spawn(|| near.stream.write_all(&sent).unwrap());
            scope.spawn(|| pass_on(relay, &mut link, &mut onward, announced).unwrap());
            far.stream.read_exact(&mut came).unwrap();
        });
        (sent, came)
    }

    #[test]
    fn every_relay_passes_on_all_bytes_in_order() {
        for relay in Relay::ALL {
            for (run, length) in [
                (Run::Stream, LARGE),
                (Run::Stream, 4096),
                (Run::Batches, 4096),
            ] {
                let (sent, came) = relayed(relay, run, length);
                assert!(sent == came, "{relay:?} {run:?} {length}");
            }
        }
    }

    #[test]
    fn a_relay_passes_on_no_round_trips() {
        for relay in Relay::ALL {
            let ((_near, mut link), (mut onward, _far)) = (links(), links());
            let announced = Header {
                run: Run::RoundTrips,
                length: 1,
                count: 1,
            };
            assert!(pass_on(relay, &mut link, &mut onward, announced).is_err());
        }
    }
}
