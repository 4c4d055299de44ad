//! The frames of a capture, and the bytes of them that may differ.

use std::collections::BTreeMap;
use std::ops::Range;

use lnet_capture::read_packets;
use lnet_types::Time;

/// The sender of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Party {
    /// The kernel node with console and client, 10.1.0.1.
    Client,
    /// The kernel test node, 10.1.0.2.
    Server,
}

/// A frame: 24 bytes of frame header, 72 of LNet header, payload.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) party: Party,
    /// The type of the connection, as its initiator names it: 1 CONTROL, 2 BULK_IN, 3 BULK_OUT.
    pub(crate) connection: u32,
    pub(crate) bytes: Vec<u8>,
}

/// A range of bytes that may differ.
pub(crate) struct Difference {
    pub(crate) name: &'static str,
    pub(crate) range: Range<usize>,
    #[expect(dead_code, reason = "for who reads the list")]
    pub(crate) reason: &'static str,
}

const fn may(name: &'static str, range: Range<usize>, reason: &'static str) -> Difference {
    Difference {
        name,
        range,
        reason,
    }
}

const FRESH: &str = "where the sender waits for it: a number of its own (LST-2)";
const BATCHES: &str = "counts the batches of the console since its module was loaded";
const SENT: &str = "when it was sent";
const AGE: &str = "the age of the session in milliseconds";
const COUNTERS: &str =
    "counted since the kernel's module was loaded; what they rise by is compared";
const LNET: &str = "LNet's own counters, which have everything in them that the nodes ever said";
const COOKIE: &str =
    "a sender whose memory the socket has copied asks for no zero-copy acknowledgement (ZC-1)";
const HANDLE: &str = "names the initiator's descriptor, which alone reads it (TYPE-8)";

/// All bytes that may differ. Offsets count from the start of the frame: the payload begins at 96, the body at
/// 120.
pub(crate) const MAY_DIFFER: [Difference; 13] = [
    may("MAKE", 120..128, FRESH),
    may("TEST", 120..128, FRESH),
    may("TEST", 152..160, BATCHES),
    may("STAT", 120..128, FRESH),
    may("REMOVE", 120..128, FRESH),
    may("PING", 120..128, FRESH),
    may("PING", 136..152, SENT),
    may("BULK", 120..136, FRESH),
    may("STAT reply", 140..144, AGE),
    may("STAT reply", 160..196, COUNTERS),
    may("STAT reply", 196..256, LNET),
    may("GET", 56..72, HANDLE),
    may("REPLY", 8..16, COOKIE),
];

impl Frame {
    fn word(&self, at: usize) -> u32 {
        let bytes = self.bytes.get(at..at + 4).unwrap_or(&[0xFF; 4]);
        u32::from_le_bytes(bytes.try_into().unwrap())
    }

    fn long(&self, at: usize) -> u64 {
        let bytes = self.bytes.get(at..at + 8).unwrap_or(&[0xFF; 8]);
        u64::from_le_bytes(bytes.try_into().unwrap())
    }

    /// Returns the name of the frame: the type of the LNet message, or of the selftest message in it.
    pub(crate) fn name(&self) -> &'static str {
        match (self.word(0), self.word(48)) {
            (0xC0, _) => "NOOP",
            (_, 2) => "GET",
            (_, 3) => "REPLY",
            (_, 1) if self.word(96) == 0xEEB0_F00D => match self.word(104) {
                0 => "MAKE",
                2 => "REMOVE",
                6 => "STAT",
                7 => "STAT reply",
                8 => "TEST",
                12 => "BULK",
                14 => "PING",
                1 | 3 | 9 | 13 | 15 => "reply",
                _ => "unknown",
            },
            (_, 1) => "data",
            _ => "unknown",
        }
    }

    pub(crate) fn handle(&self) -> Vec<u8> {
        self.bytes.get(56..72).unwrap_or_default().to_vec()
    }

    pub(crate) fn set_handle(&mut self, handle: &[u8]) {
        if self.name() == "REPLY" {
            self.bytes[56..72].copy_from_slice(handle);
        }
    }

    pub(crate) fn match_bits(&self) -> u64 {
        self.long(72)
    }

    pub(crate) fn set_match_bits(&mut self, bits: u64) {
        self.bytes[72..80].copy_from_slice(&bits.to_le_bytes());
    }

    /// Returns the match bits that a request names for its reply and its bulk.
    pub(crate) fn ids(&self) -> Vec<u64> {
        match self.name() {
            "BULK" => vec![self.long(120), self.long(128)],
            "MAKE" | "TEST" | "STAT" | "REMOVE" | "PING" => vec![self.long(120)],
            _ => Vec::new(),
        }
    }

    /// Returns the stamp in the id of a session that is made.
    pub(crate) fn stamp(&self) -> i64 {
        self.long(136).cast_signed()
    }

    /// Returns the RPC counters: errors, sent, received, dropped, expired, bytes fetched and sent.
    pub(crate) fn counters(&self) -> Vec<u64> {
        let small = (0..5).map(|at| u64::from(self.word(160 + 4 * at)));
        small.chain([self.long(180), self.long(188)]).collect()
    }
}

/// Decides whether this byte of a frame may differ.
pub(crate) fn may_differ(name: &str, at: usize) -> bool {
    let mut rules = MAY_DIFFER.iter().filter(|rule| rule.name == name);
    rules.any(|rule| rule.range.contains(&at)) || name == "REPLY" && is_unchecked(at)
}

/// Decides whether a byte is data that the check "simple" of a write does not look at. A kernel leaves zeros
/// between the ends of each page, but a sender should put the magic word everywhere.
fn is_unchecked(at: usize) -> bool {
    at >= 96 && (8..4088).contains(&((at - 96) % 4096))
}

/// Lists the bytes of `ours` that differ from the kernel's frame and may not differ.
pub(crate) fn differences(kernel: &Frame, ours: &Frame) -> Vec<String> {
    let name = kernel.name();
    if kernel.bytes.len() != ours.bytes.len() || name != ours.name() {
        let lengths = [kernel.bytes.len(), ours.bytes.len()];
        return vec![format!("{name} is {}: {lengths:?}", ours.name())];
    }
    let pairs = kernel.bytes.iter().zip(&ours.bytes).enumerate();
    pairs
        .filter(|(at, (kernel, ours))| kernel != ours && !may_differ(name, *at))
        .take(8)
        .map(|(at, (kernel, ours))| {
            format!("{name}, byte {at}: kernel {kernel:02x}, ours {ours:02x}")
        })
        .collect()
}

/// One direction of a TCP connection: its bytes, and when they arrived.
#[derive(Default)]
struct Stream {
    /// Sequence number of the first byte, once it is known.
    origin: Option<u32>,
    bytes: Vec<u8>,
    /// The times of arrival: all bytes before this offset had arrived at this time.
    heard: Vec<(usize, Time)>,
}

impl Stream {
    /// Adds a TCP segment. The capture is of a quiet virtual network: segments come in order, some of them
    /// twice.
    fn segment(&mut self, sequence: u32, is_syn: bool, data: &[u8], time: Time) {
        let first = sequence.wrapping_add(u32::from(is_syn));
        let origin = *self.origin.get_or_insert(first);
        let at = first.wrapping_sub(origin) as usize;
        let known = self.bytes.len();
        if data.is_empty() || at > known || at + data.len() <= known {
            assert!(data.is_empty() || at <= known, "a segment is lost");
            return;
        }
        self.bytes.extend_from_slice(&data[known - at..]);
        self.heard.push((self.bytes.len(), time));
    }

    /// Returns the frames behind a connection request and a HELLO, each with the arrival time of its last byte.
    fn frames(&self) -> Vec<(Time, Vec<u8>)> {
        let mut frames = Vec::new();
        let mut at = 0;
        while let Some(word) = self.bytes.get(at..at + 4) {
            let length = match u32::from_le_bytes(word.try_into().unwrap()) {
                0xACCE_7100 => 16,
                0x4572_6963 => 56,
                0xC0 => 24,
                0xC1 => {
                    let word = &self.bytes[at + 52..at + 56];
                    96 + u32::from_le_bytes(word.try_into().unwrap()) as usize
                }
                other => panic!("no frame begins with {other:#x}"),
            };
            let end = at + length;
            let Some(bytes) = self.bytes.get(at..end) else {
                break;
            };
            let heard = self.heard.iter().find(|(until, _)| *until >= end);
            if bytes[0] == 0xC0 || bytes[0] == 0xC1 {
                frames.push((heard.expect("it was heard").1, bytes.to_vec()));
            }
            at = end;
        }
        frames
    }
}

/// Returns the TCP segment in an Ethernet frame: ports, sequence number, whether it is a SYN, data.
fn segment(packet: &[u8]) -> Option<([u16; 2], u32, bool, &[u8])> {
    let ip = packet.get(14..).filter(|_| packet[12..14] == [8, 0])?;
    let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    let tcp = ip.get(usize::from(ip[0] & 15) * 4..total)?;
    if ip[9] != 6 {
        return None;
    }
    let port = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
    let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
    let data = tcp.get(usize::from(tcp[12] >> 4) * 4..)?;
    Some(([port(0), port(2)], sequence, tcp[13] & 2 != 0, data))
}

/// The port of LNet, on which the test node listens.
const SERVER_PORT: u16 = 988;

/// Returns the selftest frames of a capture, in order, with the NIDs of loopback; `None` if the capture is
/// absent. The decoder of captures keeps no payload, so this function reassembles the streams itself.
pub(crate) fn frames(capture: &str) -> Option<Vec<Frame>> {
    let path = testkit::shared_data(format!("captures/{capture}"))?;
    let capture = std::fs::read(path).expect("a capture that can be read");
    let mut streams: BTreeMap<[u16; 2], Stream> = BTreeMap::new();
    let read = read_packets(capture.as_slice(), |packet| {
        if let Some((ports, sequence, is_syn, data)) = segment(packet.data) {
            let stream = streams.entry(ports).or_default();
            stream.segment(sequence, is_syn, data, packet.time);
        }
        Ok(())
    });
    read.expect("the capture is whole");
    let mut frames = Vec::new();
    for ([from, to], stream) in &streams {
        let party = if *to == SERVER_PORT {
            Party::Client
        } else {
            Party::Server
        };
        for (time, bytes) in stream.frames() {
            let frame = Frame {
                party,
                // The client opened its connections from port 1023 downwards: CONTROL, BULK_IN, BULK_OUT.
                connection: u32::from(1024 - (*from).max(*to)),
                bytes,
            };
            frames.push((time, frame));
        }
    }
    frames.sort_by_key(|(time, _)| *time);
    let mut frames: Vec<Frame> = frames.into_iter().map(|(_, frame)| frame).collect();
    frames.retain(Frame::is_selftest);
    frames.iter_mut().for_each(Frame::move_to_loopback);
    assert!(!frames.is_empty());
    Some(frames)
}

impl Frame {
    /// Decides whether a frame belongs to selftest. Excludes discovery, which uses portal 0, and its reply or
    /// ACK, which is short.
    fn is_selftest(&self) -> bool {
        match (self.word(0), self.word(48)) {
            (0xC0, _) => true,
            (_, 1) => (50..=52).contains(&self.word(88)),
            (_, 2) => self.word(80) == 52,
            (_, 3) => self.bytes.len() > 4096,
            _ => false,
        }
    }

    /// Replaces the NIDs by NIDs of loopback: in the header, and in the session id of a request or reply.
    fn move_to_loopback(&mut self) {
        let end = self.bytes.len().min(256);
        for at in (24..end.saturating_sub(7)).step_by(4) {
            if self.bytes[at + 1..at + 4] == [0, 1, 10]
                && self.bytes[at + 4..at + 8] == [0, 0, 2, 0]
            {
                self.bytes[at + 1..at + 4].copy_from_slice(&[0, 0, 127]);
            }
        }
    }
}
