//! Decodes packets to messages.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::net::SocketAddr;

use lnet_types::Time;
use lnet_wire::{Connreq, o2ib};

use crate::conversation::{Conversation, Shared};
use crate::error::CaptureError;
use crate::file::{Packet, read_packets};
use crate::half::{Keep, Sink};
use crate::ip::{self, Carried, Segment};
use crate::message::Message;
use crate::payload::Pings;
use crate::rdma::{self, Rdma};
use crate::summary::Summary;

/// The port on which LNet nodes listen.
// [CONN-1]
pub const LNET_PORT: u16 = 988;

/// Decodes the LNet traffic of a capture.
///
/// Call [`packet`](Self::packet) for each packet in the order of the file, then
/// [`finish`](Self::finish). A message is delivered as soon as its last byte has been read, so
/// messages come in the order of their last bytes.
///
/// A TCP connection counts as LNet if one of its ports is listed, or if a segment starts with an
/// acceptor request; an RDMA connection if it is asked for at a listed port or at that of the o2ib LND, or if a message
/// starts as the LND's do. Memory is limited to [`CONVERSATIONS_MAX`] connections and [`KEPT_BYTES_MAX`]
/// bytes. Beyond these limits the decoder closes the least recently used connections and no longer
/// waits for missing segments.
#[derive(Debug)]
pub struct Decoder {
    ports: Vec<u16>,
    keep: Keep,
    conversations: BTreeMap<Ends, Conversation>,
    rdma: Rdma,
    pings: Pings,
    summary: Summary,
    kept: usize,
    now: Time,
    next_id: u32,
}

/// The most connections that are followed at a time.
pub const CONVERSATIONS_MAX: usize = 16 << 10;

/// The most bytes that are kept at a time, for all connections together.
pub const KEPT_BYTES_MAX: usize = 256 << 20;

/// Both socket addresses of a connection, the lower one first.
type Ends = (SocketAddr, SocketAddr);

/// Reads a whole capture and calls `receive` with each message. `ports` are those on which the
/// nodes listen.
///
/// The summary is also returned if the file is damaged or truncated. It then covers the readable
/// part, all of which was delivered.
pub fn decode_capture<R: Read>(
    input: R,
    ports: &[u16],
    receive: impl FnMut(&Message<'_>) -> io::Result<()>,
) -> (Summary, Result<(), CaptureError>) {
    Decoder::new(ports).decode(input, receive)
}

impl Decoder {
    /// A decoder for nodes that listen on `ports`.
    #[must_use]
    pub fn new(ports: &[u16]) -> Self {
        let services = ports.iter().copied().chain([o2ib::SERVICE]);
        Self {
            ports: ports.to_vec(),
            rdma: Rdma::new(services.collect()),
            keep: |_| 0,
            conversations: BTreeMap::new(),
            pings: Pings::default(),
            summary: Summary::default(),
            kept: 0,
            now: Time::ZERO,
            next_id: 0,
        }
    }

    /// Keeps the first bytes of opaque payloads, as many as `keep` returns for the header. A kept byte costs a copy and
    /// memory of the connection; at most the return value is kept for each direction of a connection.
    #[must_use]
    pub fn keeping(mut self, keep: Keep) -> Self {
        self.keep = keep;
        self
    }

    /// Reads a whole capture, as [`decode_capture`] does.
    pub fn decode<R: Read>(
        mut self,
        input: R,
        mut receive: impl FnMut(&Message<'_>) -> io::Result<()>,
    ) -> (Summary, Result<(), CaptureError>) {
        let read = read_packets(input, |packet| self.packet(packet, &mut receive));
        if let Err(CaptureError::Output(_)) = read {
            return (self.summary, read);
        }
        let (summary, finished) = self.finish(&mut receive);
        (summary, read.and(finished.map_err(CaptureError::Output)))
    }

    /// Takes the next packet.
    ///
    /// # Errors
    ///
    /// Those of `sink`.
    pub fn packet(&mut self, packet: &Packet<'_>, sink: &mut Sink<'_>) -> io::Result<()> {
        self.summary.packets += 1;
        self.now = packet.time;
        match ip::carried(packet) {
            Ok(Carried::Tcp(segment)) => self.segment(&segment, sink),
            Ok(Carried::Rdma(packet)) => {
                let mut cx = rdma::Context {
                    time: self.now,
                    next_id: &mut self.next_id,
                    summary: &mut self.summary,
                    sink,
                };
                self.rdma.packet(&packet, &mut cx)
            }
            Err(reason) => {
                *self.summary.skipped.entry(reason).or_default() += 1;
                Ok(())
            }
        }
    }

    /// Reports everything that is left of every connection; returns the counts.
    pub fn finish(mut self, sink: &mut Sink<'_>) -> (Summary, io::Result<()>) {
        let mut left: Vec<_> = std::mem::take(&mut self.conversations)
            .into_values()
            .collect();
        left.sort_by_key(Conversation::id);
        self.rdma.finish(&mut self.summary);
        let result = left
            .into_iter()
            .try_for_each(|conversation| self.close(conversation, sink));
        (self.summary, result)
    }

    fn segment(&mut self, segment: &Segment<'_>, sink: &mut Sink<'_>) -> io::Result<()> {
        let ends = (segment.from.min(segment.to), segment.from.max(segment.to));
        let succeeded = |old: &Conversation| old.is_succeeded_by(segment);
        if self.conversations.get(&ends).is_some_and(succeeded)
            && let Some(old) = self.conversations.remove(&ends)
        {
            self.close(old, sink)?;
        }
        if !self.conversations.contains_key(&ends) {
            let Some(initiator) = self.initiator(segment) else {
                return Ok(());
            };
            self.make_room(sink)?;
            let conversation = Conversation::new(self.next_id, initiator, segment);
            self.next_id = self.next_id.wrapping_add(1);
            self.summary.connections += 1;
            self.conversations.insert(ends, conversation);
        }
        self.feed(ends, segment, sink)
    }

    fn feed(&mut self, ends: Ends, segment: &Segment<'_>, sink: &mut Sink<'_>) -> io::Result<()> {
        let Self {
            conversations,
            pings,
            keep,
            summary,
            ..
        } = self;
        let Some(conversation) = conversations.get_mut(&ends) else {
            return Ok(());
        };
        let mut shared = Shared {
            pings,
            keep: *keep,
            summary,
            sink,
        };
        let before = conversation.kept();
        conversation.segment(self.now, segment, &mut shared)?;
        if self.kept + conversation.kept() > KEPT_BYTES_MAX + before {
            conversation.skip_holes(self.now, &mut shared)?;
        }
        self.kept = self.kept + conversation.kept() - before;
        Ok(())
    }

    /// The side that opened the connection of this segment, if the connection is to be followed.
    fn initiator(&self, segment: &Segment<'_>) -> Option<SocketAddr> {
        let is_listed = |end: SocketAddr| self.ports.contains(&end.port());
        if starts_connreq(segment.payload) {
            return Some(segment.from);
        }
        if !(is_listed(segment.from) || is_listed(segment.to)) {
            return None;
        }
        match (segment.syn, segment.acknowledged) {
            (true, None) => Some(segment.from),
            (true, Some(_)) => Some(segment.to),
            (false, _) if segment.payload.is_empty() => None,
            (false, _) if is_listed(segment.to) => Some(segment.from),
            (false, _) => Some(segment.to),
        }
    }

    /// Closes the less recently used half of the connections if there are too many.
    fn make_room(&mut self, sink: &mut Sink<'_>) -> io::Result<()> {
        if self.conversations.len() < CONVERSATIONS_MAX {
            return Ok(());
        }
        let mut all: Vec<_> = std::mem::take(&mut self.conversations)
            .into_iter()
            .collect();
        all.sort_by_key(|(_, conversation)| (conversation.last_used(), conversation.id()));
        let kept = all.split_off(all.len() / 2);
        self.conversations.extend(kept);
        all.into_iter()
            .try_for_each(|(_, conversation)| self.close(conversation, sink))
    }

    fn close(&mut self, mut conversation: Conversation, sink: &mut Sink<'_>) -> io::Result<()> {
        self.kept = self.kept.saturating_sub(conversation.kept());
        let Self {
            pings,
            keep,
            summary,
            ..
        } = self;
        conversation.finish(
            self.now,
            &mut Shared {
                pings,
                keep: *keep,
                summary,
                sink,
            },
        )?;
        self.summary.joined += u64::from(conversation.connection().joined);
        self.summary.rejected += u64::from(conversation.connection().rejected);
        Ok(())
    }
}

fn starts_connreq(payload: &[u8]) -> bool {
    const MAGIC_AND_VERSION: usize = 8;
    payload.len() >= MAGIC_AND_VERSION && Connreq::needed(payload).is_ok()
}
