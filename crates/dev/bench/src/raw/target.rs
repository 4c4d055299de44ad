//! The answering end of the raw limit.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context, bail};

use super::{BATCH_BYTES, HEADER_LEN, Header, Link, Run};
use crate::peer;
use crate::workload::{COLD_BUFFERS, LARGE, SMALL_GETS_IN_FLIGHT, TINY};

/// Serves one connection, run by run, until it is closed.
pub(crate) fn serve(congestion: &str) -> anyhow::Result<()> {
    let mut link = accept(congestion)?;
    let mut buffer = [vec![0x5A; LARGE]];
    let mut cold = vec![vec![0x5A; LARGE]; COLD_BUFFERS];
    while let Some(announced) = next_run(&mut link)? {
        let count = announced.count;
        match announced.run {
            Run::Stream => stream(&mut link, announced, &mut buffer)?,
            Run::Batches => batches(&mut link, announced)?,
            Run::RoundTrips => round_trips(&mut link, announced)?,
            Run::SpinningRoundTrips => spinning_round_trips(&mut link, announced)?,
            Run::Gets => gets(&mut link, announced, &buffer[0])?,
            Run::GetsBatched => gets_batched(&mut link, announced)?,
            Run::Cold => stream(&mut link, announced, &mut cold)?,
        }
        tracing::debug!(run = ?announced.run, count, "a raw run is done");
    }
    Ok(())
}

pub(super) fn accept(congestion: &str) -> anyhow::Result<Link> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen")?;
    let port = listener
        .local_addr()
        .context("cannot ask for the port")?
        .port();
    peer::ready(port)?;
    let (stream, _) = listener.accept().context("cannot accept a connection")?;
    Link::new(stream, congestion)
}

/// Returns the header that begins a run, or `None` when the initiator has closed.
pub(super) fn next_run(link: &mut Link) -> anyhow::Result<Option<Header>> {
    let mut bytes = [0; HEADER_LEN];
    let (first, rest) = bytes.split_at_mut(1);
    if link.stream.read(first)? == 0 {
        return Ok(None);
    }
    link.stream.read_exact(rest)?;
    Header::decode(&bytes).map(Some)
}

fn stream(link: &mut Link, announced: Header, buffers: &mut [Vec<u8>]) -> anyhow::Result<()> {
    link.receive_stream(announced.count, buffers, |_, _| Ok(()))?;
    Ok(link.send(&announced.encode(), &[])?)
}

fn batches(link: &mut Link, announced: Header) -> anyhow::Result<()> {
    take_batches(link, announced, |_| Ok(()))?;
    Ok(link.send(&announced.encode(), &[])?)
}

/// Reads up to a batch at once, checks the headers in it, and passes the whole frames to `each`.
pub(super) fn take_batches(
    link: &mut Link,
    announced: Header,
    mut each: impl FnMut(&[u8]) -> io::Result<()>,
) -> anyhow::Result<()> {
    let length = announced.length as usize;
    let frame = HEADER_LEN + length;
    let mut buffer = vec![0; BATCH_BYTES];
    let mut left = announced.count;
    let mut filled = 0;
    while left > 0 {
        let read = link.stream.read(&mut buffer[filled..])?;
        if read == 0 {
            bail!("the stream ended {left} messages early");
        }
        filled += read;
        let whole = filled / frame;
        for frame in buffer[..filled].chunks_exact(frame) {
            let (header, _) = frame
                .split_first_chunk()
                .context("a frame holds a header")?;
            if Header::decode(header)?.length as usize != length {
                bail!("a batch with a message that is not {length} bytes long");
            }
        }
        each(&buffer[..whole * frame])?;
        left -= whole as u64;
        buffer.copy_within(whole * frame..filled, 0);
        filled -= whole * frame;
    }
    Ok(())
}

/// Answers all requests of one read with one write.
fn gets_batched(link: &mut Link, announced: Header) -> anyhow::Result<()> {
    let payload = vec![0x5A; announced.length as usize];
    let frame = [&announced.encode()[..], &payload].concat();
    let most = usize::try_from(SMALL_GETS_IN_FLIGHT)?;
    let answers = frame.repeat(most);
    let mut requests = vec![0; most * HEADER_LEN];
    let (mut left, mut filled) = (announced.count, 0);
    while left > 0 {
        let read = link.stream.read(&mut requests[filled..])?;
        if read == 0 {
            bail!("the requests ended {left} early");
        }
        filled += read;
        let whole = filled / HEADER_LEN;
        link.stream.write_all(&answers[..whole * frame.len()])?;
        left -= whole as u64;
        requests.copy_within(whole * HEADER_LEN..filled, 0);
        filled -= whole * HEADER_LEN;
    }
    Ok(())
}

fn round_trips(link: &mut Link, announced: Header) -> anyhow::Result<()> {
    let answer = announced.encode();
    let mut message = [0; HEADER_LEN + TINY];
    for _ in 0..announced.count {
        link.stream.read_exact(&mut message)?;
        link.stream.write_all(&answer)?;
    }
    Ok(())
}

fn spinning_round_trips(link: &mut Link, announced: Header) -> anyhow::Result<()> {
    let answer = announced.encode();
    let mut message = [0; HEADER_LEN + TINY];
    link.stream.set_nonblocking(true)?;
    for _ in 0..announced.count {
        link.receive_spinning(&mut message)?;
        // One small answer in flight always fits into the socket.
        link.stream.write_all(&answer)?;
    }
    Ok(link.stream.set_nonblocking(false)?)
}

fn gets(link: &mut Link, announced: Header, buffer: &[u8]) -> anyhow::Result<()> {
    let Some(payload) = buffer.get(..announced.length as usize) else {
        bail!("a GET of {} bytes", announced.length);
    };
    let header = announced.encode();
    let mut request = [0; HEADER_LEN];
    for _ in 0..announced.count {
        link.stream.read_exact(&mut request)?;
        link.send(&header, payload)?;
    }
    Ok(())
}
