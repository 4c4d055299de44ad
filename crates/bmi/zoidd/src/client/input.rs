//! Splits a byte stream into frames without reading payload into the buffer.
//!
//! ```text
//!           ┌ buffer ────────────────┐
//!  stream ─▶│ header, body │ header… │            frames without payload: as many as come
//!           └────────────────────────┘
//!           ┌ buffer ──┐ ┌ segment ──────────┐
//!  stream ─▶│ DATA head │ │ payload           │   one call for the payload and the next head
//!           └──────────┘ └───────────────────┘
//! ```
//!
//! Payload is allowed only if there is a grant or a credit. While a connection has one, a read ends at the
//! earliest point where payload could begin; otherwise it takes everything that has arrived.

use zoid_proto::DecodeError;
use zoid_proto::fwd::{Frame, FrameHeader};

/// Length of header and body of the shortest frame with payload, in bytes.
const SHORTEST_HEAD: usize = FrameHeader::LEN + DATA_BODY;

/// Length of the body of DATA, in bytes.
const DATA_BODY: usize = 16;

/// The size of a read in bytes while no payload can come.
const WINDOW: usize = 4096;

/// A buffer longer than this is freed once it is empty, because long bodies are rare.
const KEEP: usize = 64 << 10;

/// The bytes of a stream that have been read and not handled.
#[derive(Debug, Default)]
pub(crate) struct Input {
    buffer: Vec<u8>,
    /// The number of bytes in `buffer`; the rest is room.
    filled: usize,
    /// The number of these bytes that were returned as frames.
    taken: usize,
}

// [SAFE-5]
impl Input {
    /// Returns the next frame whose header and body are complete. Its payload is still in the stream; see
    /// [`take`](Self::take).
    ///
    /// # Errors
    ///
    /// Bytes that are not a frame.
    pub(crate) fn next(&mut self) -> Result<Option<(FrameHeader, &[u8])>, DecodeError> {
        let there = self.buffer.get(self.taken..self.filled).unwrap_or_default();
        if there.len() < FrameHeader::LEN {
            return Ok(None);
        }
        let header = FrameHeader::decode(there)?;
        let Some(body) = there.get(FrameHeader::LEN..frame_len(&header)) else {
            return Ok(None);
        };
        self.taken += frame_len(&header);
        Ok(Some((header, body)))
    }

    /// Returns whether [`next`](Self::next) would return a frame or an error.
    pub(crate) fn has_frame(&self) -> bool {
        let there = self.buffer.get(self.taken..self.filled).unwrap_or_default();
        there.len() >= FrameHeader::LEN
            && FrameHeader::decode(there).map_or(true, |header| there.len() >= frame_len(&header))
    }

    /// Returns room for the next bytes: as many as can be read without reading payload (`careful`), or as
    /// many as are useful.
    pub(crate) fn room(&mut self, careful: bool) -> &mut [u8] {
        self.compact();
        let there = self.filled;
        let missing = match FrameHeader::decode(self.buffer.get(..there).unwrap_or_default()) {
            // `next` has returned complete frames and rejected invalid ones before.
            Ok(header) if header.payload_len > 0 => frame_len(&header).saturating_sub(there),
            Ok(header) => frame_len(&header).saturating_sub(there) + SHORTEST_HEAD,
            Err(_) => SHORTEST_HEAD.saturating_sub(there),
        };
        let wanted = match careful {
            true => missing,
            false => missing.max(WINDOW),
        };
        // Room for a long body is allocated as its bytes arrive, not when its length is announced.
        let end = there + wanted.clamp(1, KEEP);
        if self.buffer.len() < end {
            self.buffer.resize(end, 0);
        }
        self.buffer.get_mut(there..end).unwrap_or_default()
    }

    /// Records that this many bytes were read.
    pub(crate) fn fill(&mut self, bytes: usize) {
        self.filled = (self.filled + bytes).min(self.buffer.len());
    }

    /// Returns whether nothing follows the last frame.
    pub(crate) fn is_empty(&self) -> bool {
        self.taken == self.filled
    }

    /// Removes at most `limit` bytes after the last frame: payload to be dropped.
    pub(crate) fn take(&mut self, limit: usize) -> &[u8] {
        let start = self.taken;
        self.taken = self.filled.min(start.saturating_add(limit));
        self.buffer.get(start..self.taken).unwrap_or_default()
    }

    /// Moves the remaining bytes to the front.
    fn compact(&mut self) {
        self.buffer.copy_within(self.taken..self.filled, 0);
        self.filled -= self.taken;
        self.taken = 0;
        if self.filled == 0 && self.buffer.len() > KEEP {
            self.buffer = Vec::new();
        }
    }
}

fn frame_len(header: &FrameHeader) -> usize {
    // At most MAX_BODY, which fits in a usize.
    FrameHeader::LEN + header.body_len as usize
}

/// Appends a frame without payload, or the head of one with payload. Returns false and appends nothing if it
/// cannot be encoded, which does not happen with the frames of this crate.
#[must_use]
pub(crate) fn append(target: &mut Vec<u8>, header: FrameHeader, frame: &Frame<'_>) -> bool {
    let start = target.len();
    target.resize(start + frame.encoded_len(), 0);
    let room = target.get_mut(start..).unwrap_or_default();
    let written = frame.encode(header, room).is_ok();
    if !written {
        target.truncate(start);
    }
    written
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zoid_proto::List;
    use zoid_proto::fwd::{Data, FrameType, TestEntry, TestReq};

    use super::*;

    fn frame(frame: &Frame<'_>, payload: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let header = FrameHeader {
            payload_len: payload as u64,
            ..FrameHeader::new(FrameType::PING, 7)
        };
        assert!(append(&mut bytes, header, frame));
        bytes.extend(std::iter::repeat_n(0xEE, payload));
        bytes
    }

    /// Reads a stream as a connection does, at most `step` bytes at a time, and counts payload that was read
    /// into the buffer.
    fn read(stream: &[u8], step: usize, careful: bool) -> (Vec<FrameType>, usize) {
        let mut input = Input::default();
        let (mut at, mut types, mut copied) = (0, Vec::new(), 0);
        let mut payload = 0;
        while at < stream.len() || payload > 0 {
            if payload > 0 {
                let moved = payload.min(step).min(stream.len() - at);
                at += moved;
                payload -= moved;
                continue;
            }
            let room = input.room(careful);
            let count = room.len().min(step).min(stream.len() - at);
            room[..count].copy_from_slice(&stream[at..at + count]);
            at += count;
            input.fill(count);
            while payload == 0
                && let Some((header, _)) = input.next().unwrap()
            {
                types.push(header.frame_type);
                payload = usize::try_from(header.payload_len).unwrap();
                let taken = input.take(payload).len();
                copied += taken;
                payload -= taken;
            }
        }
        (types, copied)
    }

    fn conversation() -> (Vec<u8>, Vec<FrameType>) {
        let entry = TestEntry::Send {
            tag: 1,
            multiplicity: 1,
        };
        let entries = vec![entry; 1000];
        let test = Frame::TestReq(TestReq {
            timeout_ms: 0,
            entries: List::new(&entries),
        });
        let data = Frame::Data(Data {
            grant: 1,
            offset: 0,
        });
        let mut stream = Vec::new();
        let frames = [
            (&Frame::Ping, 0),
            (&data, 300),
            (&data, 0),
            (&Frame::Abort { grant: 3 }, 0),
            (&test, 0),
            (&data, 10_000),
            (&Frame::Bye, 0),
        ];
        for (one, payload) in frames {
            stream.extend(frame(one, payload));
        }
        let types = frames.map(|(one, _)| one.frame_type()).to_vec();
        (stream, types)
    }

    proptest! {
        #[test]
        fn careful_reads_never_take_payload_whatever_the_pieces(step in 1_usize..6000) {
            let (stream, types) = conversation();
            prop_assert_eq!(read(&stream, step, true), (types, 0));
        }

        #[test]
        fn all_frames_come_out_whatever_the_pieces(step in 1_usize..20_000) {
            let (stream, types) = conversation();
            prop_assert_eq!(read(&stream, step, false).0, types);
        }

        // [SAFE-5]
        #[test]
        fn no_bytes_make_it_panic_or_hold_more_than_came(
            bytes in proptest::collection::vec(any::<u8>(), 0..500),
        ) {
            let mut input = Input::default();
            for piece in bytes.chunks(33) {
                let room = input.room(true);
                let count = room.len().min(piece.len());
                room[..count].copy_from_slice(&piece[..count]);
                input.fill(count);
                while let Ok(Some(_)) = input.next() {}
            }
            prop_assert!(input.buffer.len() <= bytes.len() + 2 * KEEP);
        }
    }

    // [SAFE-5]
    #[test]
    fn an_announced_body_takes_memory_only_as_it_comes() {
        let mut bytes = frame(&Frame::Ping, 0);
        // No checksum, and an announced body of 1 MiB.
        bytes[16..24].copy_from_slice(&[0, 0, 16, 0, 0, 0, 0, 0]);
        let mut input = Input::default();
        input.room(false)[..32].copy_from_slice(&bytes);
        input.fill(32);
        assert!(matches!(input.next(), Ok(None)));
        let room = input.room(false).len();
        assert!(room <= KEEP, "{room}");
    }
}
