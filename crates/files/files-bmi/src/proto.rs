//! The heads of messages between client and forwarder.
//!
//! ```text
//! call, 64 bytes                          answer, 32 bytes
//!   0 magic "FBC1" 4                        0 magic "FBA1" 4
//!   4 flags 1, zero 1, slot 2               4 flags 1, zero 3
//!   8 sequence 4, attempt 4                 8 epoch of the forwarder 8
//!  16 client 16                            16 bytes of data behind the head 4
//!  32 epoch 8                              20 bytes of the reply behind the data 4
//!  40 job 4, room 4, piece 4               24 largest piece 4
//!  52 length of the request 4              28 number of the answer 4
//!  56 length of the data 4, zero 4
//!
//! data, 16 bytes
//!   0 magic "FBD1" 4, zero 4
//!   8 position of the piece 8
//! ```
//!
//! Messages of one tag match in the order in which they are posted. If a message is cancelled, however, the next
//! message takes its place. Data and answers therefore carry their own position or number.
//!
//! Numbers are little-endian. Decoders ignore the fields marked zero, so that later versions may use them.

/// Length of the head of a call, in bytes.
pub(crate) const CALL_BYTES: usize = 64;
/// Length of the head of an answer, in bytes.
pub(crate) const ANSWER_BYTES: usize = 32;
/// Length of the head of a piece of data to write, in bytes.
pub(crate) const DATA_BYTES: usize = 16;
/// Limit of a piece that a client assumes until it knows the limit of the forwarder, in bytes.
pub(crate) const PIECE_FIRST: u32 = 1 << 20;
/// Least value of the limit of a piece, in bytes.
pub(crate) const PIECE_MIN: u32 = 64 << 10;
/// Limit in bytes of a reply behind the last piece of a read: a count for each segment, and the fields around the
/// counts.
pub(crate) const COUNTS_BYTES: usize = 16 + 8 * files::SEGMENTS_MAX;

const CALL_MAGIC: [u8; 4] = *b"FBC1";
const ANSWER_MAGIC: [u8; 4] = *b"FBA1";
const DATA_MAGIC: [u8; 4] = *b"FBD1";

/// Flag of a call: an earlier attempt may have arrived.
const REPEATS: u8 = 1;
/// Flag of a call: the request follows as an expected message of its own.
const LONG: u8 = 2;
/// Flag of an answer: this is the last answer of the exchange.
const LAST: u8 = 1;
/// Flag of an answer: the forwarder cancelled the exchange before it executed the call. The client may retry the
/// call.
const AGAIN: u8 = 2;

/// The name of a client: 16 random bytes.
pub(crate) type ClientName = [u8; 16];

/// The head of a call, which precedes the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallHead {
    /// Whether an earlier attempt may have arrived.
    pub(crate) repeats: bool,
    /// Whether the request follows as an expected message of its own.
    pub(crate) is_long: bool,
    pub(crate) slot: u16,
    pub(crate) sequence: u32,
    /// Number of this attempt of the call, from 0.
    pub(crate) attempt: u32,
    pub(crate) client: ClientName,
    /// The epoch of the forwarder that the client knew at its first attempt; 0 for none.
    pub(crate) epoch: u64,
    pub(crate) job: u32,
    /// Limit of the reply in bytes.
    pub(crate) room: u32,
    /// Length of each piece of data except the last, in bytes.
    pub(crate) piece: u32,
    pub(crate) request: u32,
    /// Number of bytes of data behind the request.
    pub(crate) data: u32,
}

impl CallHead {
    pub(crate) fn encode(&self) -> [u8; CALL_BYTES] {
        let mut bytes = [0; CALL_BYTES];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &CALL_MAGIC);
        put(
            4,
            &[u8::from(self.repeats) * REPEATS + u8::from(self.is_long) * LONG],
        );
        put(6, &self.slot.to_le_bytes());
        put(8, &self.sequence.to_le_bytes());
        put(12, &self.attempt.to_le_bytes());
        put(16, &self.client);
        put(32, &self.epoch.to_le_bytes());
        put(40, &self.job.to_le_bytes());
        put(44, &self.room.to_le_bytes());
        put(48, &self.piece.to_le_bytes());
        put(52, &self.request.to_le_bytes());
        put(56, &self.data.to_le_bytes());
        bytes
    }

    /// Returns the head and the bytes behind it; `None` if the message is not a call.
    pub(crate) fn decode(message: &[u8]) -> Option<(Self, &[u8])> {
        let (head, rest) = message.split_first_chunk::<CALL_BYTES>()?;
        let fields = Fields(head);
        let flags = head[4];
        let known = head[..4] == CALL_MAGIC && flags & !(REPEATS | LONG) == 0;
        known.then_some((
            Self {
                repeats: flags & REPEATS != 0,
                is_long: flags & LONG != 0,
                slot: u16::from_le_bytes(fields.at(6)),
                sequence: u32::from_le_bytes(fields.at(8)),
                attempt: u32::from_le_bytes(fields.at(12)),
                client: fields.at(16),
                epoch: u64::from_le_bytes(fields.at(32)),
                job: u32::from_le_bytes(fields.at(40)),
                room: u32::from_le_bytes(fields.at(44)),
                piece: u32::from_le_bytes(fields.at(48)),
                request: u32::from_le_bytes(fields.at(52)),
                data: u32::from_le_bytes(fields.at(56)),
            },
            rest,
        ))
    }
}

/// The head of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AnswerHead {
    pub(crate) is_last: bool,
    /// Whether the forwarder cancelled the exchange, so that the client may retry the call.
    pub(crate) again: bool,
    pub(crate) epoch: u64,
    pub(crate) data: u32,
    pub(crate) reply: u32,
    pub(crate) piece: u32,
    /// Number of this answer in the exchange, from 0.
    pub(crate) number: u32,
}

impl AnswerHead {
    pub(crate) fn encode(&self) -> [u8; ANSWER_BYTES] {
        let mut bytes = [0; ANSWER_BYTES];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &ANSWER_MAGIC);
        put(
            4,
            &[u8::from(self.is_last) * LAST + u8::from(self.again) * AGAIN],
        );
        put(8, &self.epoch.to_le_bytes());
        put(16, &self.data.to_le_bytes());
        put(20, &self.reply.to_le_bytes());
        put(24, &self.piece.to_le_bytes());
        put(28, &self.number.to_le_bytes());
        bytes
    }

    /// Returns the head; `None` if the bytes are not the head of an answer.
    pub(crate) fn decode(head: &[u8; ANSWER_BYTES]) -> Option<Self> {
        let fields = Fields(head);
        let known = head[..4] == ANSWER_MAGIC && head[4] & !(LAST | AGAIN) == 0;
        known.then_some(Self {
            is_last: head[4] & LAST != 0,
            again: head[4] & AGAIN != 0,
            epoch: u64::from_le_bytes(fields.at(8)),
            data: u32::from_le_bytes(fields.at(16)),
            reply: u32::from_le_bytes(fields.at(20)),
            piece: u32::from_le_bytes(fields.at(24)),
            number: u32::from_le_bytes(fields.at(28)),
        })
    }
}

/// Returns the head of the piece at `position` of the data to write.
pub(crate) fn data_head(position: u64) -> [u8; DATA_BYTES] {
    let mut bytes = [0; DATA_BYTES];
    bytes[..4].copy_from_slice(&DATA_MAGIC);
    bytes[8..].copy_from_slice(&position.to_le_bytes());
    bytes
}

/// Checks the rules for arbitrary bytes: no decoder panics, the rest starts right behind the head, and a head that was
/// decoded is the same after it is encoded and decoded again.
pub(crate) fn fuzz_heads(message: &[u8]) {
    if let Some((head, rest)) = CallHead::decode(message) {
        assert_eq!(rest, &message[CALL_BYTES..]);
        assert_eq!(CallHead::decode(&head.encode()), Some((head, &[][..])));
    }
    let answer = message.first_chunk().and_then(AnswerHead::decode);
    if let Some(head) = answer {
        assert_eq!(AnswerHead::decode(&head.encode()), Some(head));
    }
}

/// Access to the fields of a head. The offsets passed in must be inside the head.
struct Fields<'a, const H: usize>(&'a [u8; H]);

impl<const H: usize> Fields<'_, H> {
    fn at<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut field = [0; N];
        field.copy_from_slice(&self.0[at..at + N]);
        field
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn heads_come_back_as_they_were(
            flags in any::<(bool, bool)>(),
            numbers in any::<(u16, u32, u32, u64, u32, u32, u32, u32, u32)>(),
            client in any::<[u8; 16]>(),
            rest in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let call = CallHead {
                repeats: flags.0, is_long: flags.1, slot: numbers.0, sequence: numbers.1, attempt: numbers.2,
                client, epoch: numbers.3, job: numbers.4, room: numbers.5, piece: numbers.6,
                request: numbers.7, data: numbers.8,
            };
            let mut message = call.encode().to_vec();
            message.extend_from_slice(&rest);
            prop_assert_eq!(CallHead::decode(&message), Some((call, &rest[..])));
            let answer = AnswerHead {
                is_last: flags.0, again: flags.1, epoch: numbers.3, data: numbers.1, reply: numbers.2, piece: numbers.4,
                number: numbers.5,
            };
            prop_assert_eq!(AnswerHead::decode(&answer.encode()), Some(answer));
        }

        #[test]
        fn heads_of_unknown_flags_are_refused(flags in 4..=u8::MAX) {
            let mut call = [0; CALL_BYTES];
            call[..4].copy_from_slice(&CALL_MAGIC);
            call[4] = flags;
            prop_assert_eq!(CallHead::decode(&call), None);
            let mut answer = [0; ANSWER_BYTES];
            answer[..4].copy_from_slice(&ANSWER_MAGIC);
            answer[4] = flags;
            prop_assert_eq!(AnswerHead::decode(&answer), None);
        }

        #[test]
        fn anything_else_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if !bytes.starts_with(&CALL_MAGIC) {
                prop_assert_eq!(CallHead::decode(&bytes), None);
            }
        }
    }
}
