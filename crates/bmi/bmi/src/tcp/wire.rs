//! The format of frames between two `tcp` methods.
//!
//! A connection carries frames: a header of 24 bytes, little endian, and a payload if the kind has one.
//!
//! ```text
//!    0      1      2 3     4 5 6 7   8 ......... 15   16 ........ 23
//!  +------+------+-------+---------+----------------+---------------+
//!  | kind | class| magic |   tag   |     length     |     token     |
//!  +------+------+-------+---------+----------------+---------------+
//!
//!  1 HELLO       tag = version, token = port that the speaker listens on, or 0
//!  2 EAGER       an expected message: tag, length; payload follows
//!  3 UNEXPECTED  class, tag, length; payload follows
//!  4 REQUEST     an expected message of this tag and length waits under this token
//!  5 READY       token: its memory is there, send all of the length
//!  6 REFUSE      token: its receive is too short; both operations fail
//!  7 DATA        token, length; payload follows, straight into the posted memory
//!  8 WITHDRAW    tag, token: the request was cancelled
//!  9 CREDIT      class 0: eager, 1: unexpected; length = bytes of window given back
//! ```
//!
//! Each side sends HELLO first and does not wait for the peer's. Fields that a kind does not use are 0.
//!
//! **Windows.** A peer can send [`EAGER_WINDOW`] and [`UNEXPECTED_WINDOW`] bytes before the receiver has
//! collected them; each message counts as [`charge`] says. The receiver gives window back when the program
//! collects a message. An expected message that exceeds the open window, or is longer than [`EAGER_MAX`], is
//! announced by REQUEST. [`REQUESTS_MAX`] requests may be open, and as many answers may be unread by the
//! peer. The tokens of a connection's requests increase from 1. All peers together may have [`HELD_MAX`]
//! bytes that nobody has collected.

/// The version of the format.
pub(crate) const VERSION: i32 = 2;
/// The length of a header in bytes.
pub(crate) const HEADER_LEN: usize = 24;
/// The longest message that is sent without an announcement, in bytes. An announcement costs about 20 µs,
/// measured with the example `pingpong`: 31 instead of 14 µs for 32 KiB, 125 instead of 103 for 512 KiB, 270
/// instead of 227 for 1 MiB. The relative cost for longer messages is negligible, and sending them without
/// an announcement would need more memory for unmatched messages.
// [TCP-10]
pub(crate) const EAGER_MAX: usize = 1 << 20;
/// The longest unexpected message, in bytes: that of the zoid method, so that a program works over both.
// [TCP-13]
pub(crate) const UNEXPECTED_MAX: usize = 8192;
/// The longest expected message, in bytes: that of the zoid method.
// [TCP-13]
pub(crate) const EXPECTED_MAX: usize = 128 << 20;
/// What a peer may send eagerly before it is consumed, in bytes by [`charge`]: three of the longest messages,
/// so that one is under way while window is given back.
// [TCP-20]
pub(crate) const EAGER_WINDOW: u64 = 4 << 20;
/// What a peer may send as unexpected messages before they are consumed, in bytes by [`charge`].
// [TCP-20]
pub(crate) const UNEXPECTED_WINDOW: u64 = 1 << 20;
/// How many requests a peer may have open, and how many answers it may leave unread.
// [TCP-22]
pub(crate) const REQUESTS_MAX: usize = 1 << 16;

/// Returns what a message costs of a window: its bytes and the memory of its bookkeeping.
pub(crate) const fn charge(length: usize) -> u64 {
    length as u64 + 64
}

/// The bytes that all peers together may have sent and nobody has collected, by [`charge`], unless the
/// program sets another limit.
pub(crate) const HELD_MAX: u64 = 1 << 30;

const MAGIC: [u8; 2] = [0xB3, 0x17];

/// The first bytes of a message of the original BMI: 51903, the lowest byte first.
// [TCP-6]
const MAGIC_OF_THE_ORIGINAL: [u8; 4] = [0xBF, 0xCA, 0, 0];

/// The kind of a frame. The values are those on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FrameKind {
    Hello = 1,
    Eager = 2,
    Unexpected = 3,
    Request = 4,
    Ready = 5,
    Reject = 6,
    Data = 7,
    Withdraw = 8,
    Credit = 9,
}

impl FrameKind {
    const ALL: [FrameKind; 9] = [
        FrameKind::Hello,
        FrameKind::Eager,
        FrameKind::Unexpected,
        FrameKind::Request,
        FrameKind::Ready,
        FrameKind::Reject,
        FrameKind::Data,
        FrameKind::Withdraw,
        FrameKind::Credit,
    ];
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: FrameKind,
    pub(crate) class: u8,
    pub(crate) tag: i32,
    pub(crate) length: u64,
    pub(crate) token: u64,
}

/// Why a connection was closed: the peer broke a rule of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The magic is wrong, or the kind does not exist.
    NotAFrame,
    /// The format of the original BMI, which this method does not support.
    Foreign,
    /// Another version of the format.
    Version,
    /// The first frame is not a HELLO, or a later one is.
    Greeting,
    /// A message longer than its kind allows.
    TooLong,
    /// More bytes than a window allows, or more requests than may be open.
    Overdrawn,
    /// A token that names nothing, or a request in another state.
    Token,
    /// More credit than was used, or credit of an unknown kind.
    Credit,
}

impl Violation {
    /// The number of reasons.
    pub(crate) const COUNT: usize = 8;

    /// Returns the text for the log.
    pub(crate) const fn explanation(self) -> &'static str {
        match self {
            Violation::NotAFrame => "the peer does not use the format of this method",
            Violation::Foreign => {
                "the peer speaks the format of the original BMI, as OrangeFS and IOFSL have it: both \
                 ends of a tcp:// connection must use the same BMI library"
            }
            Violation::Version => "the peer uses another version of the format",
            Violation::Greeting => "the peer did not send HELLO first, or sent it twice",
            Violation::TooLong => "the peer sends a message that is longer than its kind allows",
            Violation::Overdrawn => {
                "the peer sends more than its window allows before the program collects it"
            }
            Violation::Token => "the peer names a request that does not exist",
            Violation::Credit => "the peer releases more window than was used",
        }
    }
}

impl Header {
    /// Creates a header whose other fields are 0.
    pub(crate) const fn new(kind: FrameKind) -> Header {
        Header {
            kind,
            class: 0,
            tag: 0,
            length: 0,
            token: 0,
        }
    }

    // [TCP-1]
    pub(crate) fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[0] = self.kind as u8;
        bytes[1] = self.class;
        bytes[2..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&self.tag.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.length.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.token.to_le_bytes());
        bytes
    }

    /// Decodes a header.
    ///
    /// # Errors
    ///
    /// [`Violation::NotAFrame`], [`Violation::Foreign`].
    pub(crate) fn decode(bytes: &[u8; HEADER_LEN]) -> Result<Header, Violation> {
        if bytes.starts_with(&MAGIC_OF_THE_ORIGINAL) {
            return Err(Violation::Foreign);
        }
        let [kind, class, m0, m1, t0, t1, t2, t3, rest @ ..] = *bytes;
        let known = FrameKind::ALL
            .into_iter()
            .find(|known| *known as u8 == kind);
        let kind = known.ok_or(Violation::NotAFrame)?;
        if [m0, m1] != MAGIC {
            return Err(Violation::NotAFrame);
        }
        let (length, token) = rest.split_at(8);
        Ok(Header {
            kind,
            class,
            tag: i32::from_le_bytes([t0, t1, t2, t3]),
            length: number(length),
            token: number(token),
        })
    }
}

/// Eight bytes, the lowest first.
fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, &byte| number << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // [TCP-1]
    #[test]
    fn the_bytes_of_every_kind_are_the_documented_ones() {
        let header = |kind, class, tag, length, token| Header {
            kind,
            class,
            tag,
            length,
            token,
        };
        let golden: [(Header, &str); 9] = [
            (
                header(FrameKind::Hello, 0, 1, 0, 3334),
                "0100b317010000000000000000000000060d000000000000",
            ),
            (
                header(FrameKind::Eager, 0, -2, 5, 0),
                "0200b317feffffff05000000000000000000000000000000",
            ),
            (
                header(FrameKind::Unexpected, 255, 7, 8192, 0),
                "03ffb3170700000000200000000000000000000000000000",
            ),
            (
                header(FrameKind::Request, 0, 9, 1 << 20, 3),
                "0400b3170900000000001000000000000300000000000000",
            ),
            (
                header(FrameKind::Ready, 0, 0, 1 << 20, 3),
                "0500b3170000000000001000000000000300000000000000",
            ),
            (
                header(FrameKind::Reject, 0, 0, 0, 4),
                "0600b3170000000000000000000000000400000000000000",
            ),
            (
                header(FrameKind::Data, 0, 0, 1 << 20, 3),
                "0700b3170000000000001000000000000300000000000000",
            ),
            (
                header(FrameKind::Withdraw, 0, 9, 0, 5),
                "0800b3170900000000000000000000000500000000000000",
            ),
            (
                header(FrameKind::Credit, 1, 0, 8256, 0),
                "0901b3170000000040200000000000000000000000000000",
            ),
        ];
        for (header, expected) in golden {
            let bytes = header.encode();
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, expected, "{header:?}");
            assert_eq!(Header::decode(&bytes), Ok(header));
        }
    }

    #[test]
    fn a_kind_or_magic_that_does_not_exist_is_no_frame() {
        let good = Header::new(FrameKind::Eager).encode();
        for (index, value) in [(0, 0), (0, 10), (0, 255), (2, 0), (3, 0)] {
            let mut bad = good;
            bad[index] = value;
            assert_eq!(Header::decode(&bad), Err(Violation::NotAFrame));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_come_back_the_same(bytes: [u8; HEADER_LEN]) {
            if let Ok(header) = Header::decode(&bytes) {
                prop_assert_eq!(header.encode(), bytes);
            }
        }

        // [TCP-1]
        #[test]
        fn any_header_comes_back(
            kind in 0..9_usize, class: u8, tag: i32, length: u64, token: u64
        ) {
            let header = Header { kind: FrameKind::ALL[kind], class, tag, length, token };
            prop_assert_eq!(Header::decode(&header.encode()), Ok(header));
        }
    }
}
