//! Records of what entered a node's core, and their replay.
//!
//! A core that takes the same inputs decides the same, so that a file with the inputs is a whole bug report. The file
//! holds NIDs, match bits and lengths, and the secrets that the node's handles are made of. It never holds payload.
//!
//! ```text
//!  record   "LNETREC" 0x00 | version (u16, little-endian) | item item item …
//!  item     length (varint) | check (u8) | kind (u8) | body    length counts kind and body; check: its bytes, XORed
//!
//!  kind 1   begin     software, configuration, time            the first item, once
//!  kind 2   input     latest time, the call and its arguments
//!  kind 3   decided   8 bytes                                  behind each input
//!  kind 4   end       why, and how many inputs are missing     the last item, where the node could write one
//! ```
//!
//! The 8 bytes of a decision are a hash (BLAKE3) of the 8 bytes before, the input, the answer and every output of it. So
//! a changed bit, a lost item and a core that decides otherwise show at the first event that they concern.
//!
//! Numbers are varints (LEB128), text and lists have their length before them, a choice has its number before it. The
//! version changes with any of it.
//!
//! ```text
//!  Core ─▶ Writer ─▶ Sink (a file, memory)            Log ─▶ Replay ─▶ Step: input, answer, outputs, agrees?
//! ```

mod codec;
mod decision;
mod input;
mod log;
mod replay;
mod text;
mod types;
mod writer;

pub use log::{BadLog, Begin, End, Ended, Entry, Log, places};
pub use replay::{Replay, Step};
pub use text::{input_name, told_answer, told_input, told_output};
pub use writer::{Sink, Writer, end_item};

/// What a record begins with.
const MAGIC: [u8; 8] = *b"LNETREC\0";

/// The version of the format.
pub const VERSION: u16 = 1;

/// The longest item: as many rules as a node may have, with room to spare.
const ITEM_MAX: usize = 4 << 20;

/// Kinds of item.
const BEGIN: u8 = 1;
const INPUT: u8 = 2;
const DECIDED: u8 = 3;
const END: u8 = 4;

/// The chain of decisions: each is a hash over the one before.
type Chain = [u8; 8];
