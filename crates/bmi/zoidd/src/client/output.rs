//! The output to a client: small frames at once, messages from the segment in chunks.
//!
//! ```text
//!  control     [RECV_REPLY][PONG]…              encoded, waiting
//!  deliveries  {grant, spans, sent} …           messages, waiting
//!  chunk       [control… DATA head] + spans     being written; whole before anything else
//! ```
//!
//! A chunk is one `sendmsg(2)` of waiting control frames, the head of a DATA frame, and places in the
//! segment; payload is not copied. A chunk has at most 4 MiB of payload; waiting control frames come first in
//! each chunk.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;

use sys::span::{self, Span};
use zoid_proto::fwd::{Data, Frame, FrameHeader, FrameType, MAX_CHUNK};

use super::input::append;

/// With more than this many bytes of waiting control frames the client does not read; the daemon then reads
/// nothing from the client until they are written.
const BACKED_UP: usize = 256 << 10;

/// Everything that waits to be written to one client.
#[derive(Debug, Default)]
pub(crate) struct Output {
    control: Vec<u8>,
    deliveries: VecDeque<Delivery>,
    chunk: Option<Chunk>,
}

/// A message to the client.
#[derive(Debug)]
struct Delivery {
    grant: u64,
    request: u32,
    spans: Vec<Span>,
    total: u64,
    /// The number of bytes that are in chunks already.
    sent: u64,
    /// The first span that is not completely sent, and how much of it is sent.
    next: (usize, usize),
}

/// The chunk being written.
#[derive(Debug)]
struct Chunk {
    head: Vec<u8>,
    spans: Vec<Span>,
    /// The length of head and payload in bytes.
    len: usize,
    written: usize,
    grant: Option<u64>,
}

/// The result of [`Output::write`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Wrote {
    /// The number of bytes of all kinds.
    pub(crate) bytes: usize,
    /// The message whose payload was among them.
    pub(crate) grant: Option<u64>,
}

impl Output {
    /// Queues a frame without payload.
    pub(crate) fn push(&mut self, header: FrameHeader, frame: &Frame<'_>) {
        let encoded = append(&mut self.control, header, frame);
        debug_assert!(encoded, "{frame:?}");
    }

    /// Queues a message of `total` bytes, which are those of `spans`.
    pub(crate) fn deliver(&mut self, grant: u64, request: u32, spans: Vec<Span>, total: u64) {
        self.deliveries.push_back(Delivery {
            grant,
            request,
            spans,
            total,
            sent: 0,
            next: (0, 0),
        });
    }

    /// Returns whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.control.is_empty() && self.deliveries.is_empty() && self.chunk.is_none()
    }

    /// Returns whether so much output waits that the client's requests are not read.
    // [FWD-26]
    pub(crate) fn is_backed_up(&self) -> bool {
        self.control.len() > BACKED_UP
    }

    /// Returns whether bytes of this message still wait.
    pub(crate) fn is_sending(&self, grant: u64) -> bool {
        let waits = self.deliveries.iter().any(|one| one.grant == grant);
        waits
            || self
                .chunk
                .as_ref()
                .is_some_and(|chunk| chunk.grant == Some(grant))
    }

    /// Sends nothing further from the segment for this message. The rest of the current frame is sent as
    /// zeros.
    ///
    /// # Errors
    ///
    /// There is no memory for the zeros; the connection must be closed.
    // [FWD-25]
    pub(crate) fn stop(&mut self, grant: u64) -> io::Result<()> {
        self.deliveries.retain(|one| one.grant != grant);
        if let Some(chunk) = &mut self.chunk
            && chunk.grant == Some(grant)
        {
            let payload = chunk.len - chunk.head.len();
            chunk.spans = vec![Span::zeroed(payload)?];
            chunk.grant = None;
        }
        Ok(())
    }

    /// Writes as much as one call takes. `None` if nothing waits.
    ///
    /// # Errors
    ///
    /// Errors of `sendmsg(2)`, including [`io::ErrorKind::WouldBlock`].
    pub(crate) fn write(&mut self, stream: &impl AsFd) -> Option<io::Result<Wrote>> {
        if self.chunk.is_none() {
            self.chunk = self.next_chunk();
        }
        let chunk = self.chunk.as_mut()?;
        let bytes = match span::send(stream, &chunk.head, &chunk.spans, chunk.written) {
            Ok(bytes) => bytes,
            Err(error) => return Some(Err(error)),
        };
        chunk.written += bytes;
        let grant = chunk.grant.filter(|_| chunk.written > chunk.head.len());
        if chunk.written >= chunk.len {
            self.chunk = None;
        }
        Some(Ok(Wrote { bytes, grant }))
    }

    fn next_chunk(&mut self) -> Option<Chunk> {
        let mut head = std::mem::take(&mut self.control);
        let (mut spans, mut grant) = (Vec::new(), None);
        if let Some(delivery) = self.deliveries.front_mut() {
            delivery.next_frame(&mut head, &mut spans);
            grant = Some(delivery.grant);
            if delivery.sent == delivery.total {
                self.deliveries.pop_front();
            }
        }
        if head.is_empty() {
            return None;
        }
        let payload: usize = spans.iter().map(Span::len).sum();
        Some(Chunk {
            len: head.len() + payload,
            head,
            spans,
            written: 0,
            grant,
        })
    }
}

impl Delivery {
    /// Appends the head of the next DATA frame and the places of its payload.
    fn next_frame(&mut self, head: &mut Vec<u8>, spans: &mut Vec<Span>) {
        let len = (self.total - self.sent).min(MAX_CHUNK);
        let header = FrameHeader {
            payload_len: len,
            ..FrameHeader::new(FrameType::DATA, self.request)
        };
        let data = Frame::Data(Data {
            grant: self.grant,
            offset: self.sent,
        });
        let encoded = append(head, header, &data);
        debug_assert!(encoded);
        // At most MAX_CHUNK.
        self.take(len as usize, spans);
        self.sent += len;
    }

    /// Moves the places of the next `len` bytes to `spans`.
    fn take(&mut self, mut len: usize, spans: &mut Vec<Span>) {
        while len > 0
            && let Some(span) = self.spans.get(self.next.0)
        {
            let start = self.next.1;
            let end = span.len().min(start + len);
            spans.extend(span.part(start..end));
            len -= end - start;
            self.next = match end == span.len() {
                true => (self.next.0 + 1, 0),
                false => (self.next.0, end),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn span(bytes: &[u8]) -> Span {
        Span::from(bytes.to_vec())
    }

    /// Writes everything and returns the frames that came out.
    fn sent(output: &mut Output) -> Vec<(FrameType, u64, Vec<u8>)> {
        let (near, mut far) = UnixStream::pair().unwrap();
        let reader = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            far.read_to_end(&mut bytes).unwrap();
            bytes
        });
        while let Some(wrote) = output.write(&near) {
            wrote.unwrap();
        }
        drop(near);
        frames(&reader.join().unwrap())
    }

    fn frames(mut bytes: &[u8]) -> Vec<(FrameType, u64, Vec<u8>)> {
        let mut frames = Vec::new();
        while !bytes.is_empty() {
            let header = FrameHeader::decode(bytes).unwrap();
            let body = 32..32 + header.body_len as usize;
            let end = body.end + usize::try_from(header.payload_len).unwrap();
            let at = match Frame::decode(&header, &bytes[body.clone()]).unwrap() {
                Frame::Data(data) => data.offset,
                _ => 0,
            };
            frames.push((header.frame_type, at, bytes[body.end..end].to_vec()));
            bytes = &bytes[end..];
        }
        frames
    }

    #[test]
    fn control_comes_first_and_messages_in_order() {
        let mut output = Output::default();
        output.deliver(1, 5, vec![span(b"ab"), span(b"cde")], 5);
        output.deliver(2, 6, Vec::new(), 0);
        output.push(FrameHeader::new(FrameType::PONG, 0), &Frame::Pong);
        assert!(output.is_sending(1) && output.is_sending(2));
        let expected = [
            (FrameType::PONG, 0, Vec::new()),
            (FrameType::DATA, 0, b"abcde".to_vec()),
            (FrameType::DATA, 0, Vec::new()),
        ];
        assert_eq!(sent(&mut output), expected);
        assert!(output.is_empty() && !output.is_sending(1));
    }

    // [FWD-3]
    #[test]
    fn a_long_message_is_cut_into_chunks_with_their_offsets() {
        let mut output = Output::default();
        let piece = vec![7_u8; 3 << 20];
        let spans = vec![span(&piece), span(&piece), span(&piece)];
        output.deliver(1, 5, spans, 9 << 20);
        let frames = sent(&mut output);
        let shape: Vec<(u64, usize)> = frames.iter().map(|f| (f.1, f.2.len())).collect();
        let chunk = 4 << 20;
        assert_eq!(shape, [(0, chunk), (4 << 20, chunk), (8 << 20, 1 << 20)]);
        assert!(
            frames
                .iter()
                .all(|frame| frame.2.iter().all(|byte| *byte == 7))
        );
    }

    // [FWD-25]
    #[test]
    fn a_stopped_message_ends_its_frame_with_zeros_and_sends_no_further_one() {
        let (near, mut far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let mut output = Output::default();
        output.deliver(1, 5, vec![span(&vec![7_u8; 8 << 20])], 8 << 20);
        let wrote = output.write(&near).unwrap().unwrap();
        assert!(wrote.bytes < 4 << 20 && wrote.grant == Some(1));
        output.stop(1).unwrap();
        assert!(!output.is_sending(1));
        near.set_nonblocking(false).unwrap();
        let writer = std::thread::spawn(move || {
            while let Some(wrote) = output.write(&near) {
                wrote.unwrap();
            }
        });
        let mut bytes = Vec::new();
        far.read_to_end(&mut bytes).unwrap();
        writer.join().unwrap();
        let frames = frames(&bytes);
        assert_eq!((frames.len(), frames[0].2.len()), (1, 4 << 20));
        let sevens = frames[0].2.iter().filter(|byte| **byte == 7).count();
        assert_eq!(sevens, wrote.bytes - 48);
    }
}
