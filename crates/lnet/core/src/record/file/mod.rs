//! Records of the inputs of a node's core, and their replay.
//!
//! A core makes the same decisions for the same inputs, so a file with the inputs is a complete bug
//! report. The file contains NIDs, match bits, lengths, and the secrets from which the node derives
//! its handles. It never contains payload.
//!
//! ```text
//!  record   "LNETREC" 0x00 | version (u16, little-endian) | item item item …
//!  item     length (varint) | check (u8) | kind (u8) | body | checksum (u32, little-endian)
//!
//!           length counts kind and body; check: the bytes of the length, XORed;
//!           checksum: CRC-32C of all before it in the item
//!
//!  kind 1   begin     software, configuration, time            the first item, once
//!  kind 2   input     latest time, the call and its arguments
//!  kind 3   decided   8 bytes                                  after each input
//!  kind 4   end       why, and how many inputs are missing     the last item, where the node could write one
//! ```
//!
//! The 8 bytes of a decision are a hash (BLAKE3) of the previous 8 bytes, the input, the answer and
//! all its outputs. A lost item or a core with other decisions is therefore found at the first event
//! that it affects. The checksum of an item shows a changed bit before the item is decoded.
//!
//! ```
//! use lnet_core::{Core, CoreConfig, Entropy, Globals, RouterBuffers};
//! use lnet_core::record_file::{Log, Replay, Sink, Writer, input_name};
//! use lnet_types::Time;
//! # use std::sync::{Arc, Mutex};
//!
//! #[derive(Debug)]
//! struct Memory(Arc<Mutex<Vec<u8>>>);
//!
//! impl Sink for Memory {
//!     fn take(&mut self, items: &[u8], _inputs: u64) -> bool {
//!         self.0.lock().unwrap().extend_from_slice(items);
//!         true
//!     }
//! }
//!
//! let config = CoreConfig {
//!     entropy: Entropy::from_seed(1),
//!     seed: 1,
//!     globals: Globals::default(),
//!     buffers: RouterBuffers::default(),
//!     routing: false,
//!     pid: 12345,
//! };
//! let bytes = Arc::new(Mutex::new(Vec::new()));
//! let mut core = Core::new(config, Time::from_secs(1));
//! core.record(Box::new(Writer::new(Memory(Arc::clone(&bytes)), "an example"))).unwrap();
//! core.start_routing(Time::from_secs(2));
//!
//! let record = bytes.lock().unwrap().clone();
//! let mut replay = Replay::new(Log::open(record.as_slice())?);
//! let step = replay.step(false)?.expect("the record has an input");
//! assert_eq!(input_name(&step.input), "StartRouting");
//! assert_eq!(step.agrees, Some(true));
//! # Ok::<(), lnet_core::record_file::BadLog>(())
//! ```
//!
//! Numbers are varints (LEB128); text and lists begin with their length, and a choice with its
//! number. A change of the format changes the version. Limits: a record of another version is
//! rejected; the crate opens no files; a replay needs a core of the same software.
//!
//! ```text
//!  Core ─▶ Writer ─▶ Sink (a file, memory)            Log ─▶ Replay ─▶ Step: input, answer, outputs, agrees?
//! ```

pub(crate) mod codec;
mod decision;
mod log;
mod replay;
mod text;
mod types;
mod writer;

pub use log::{BadLog, Begin, End, Ended, Entry, Log, places, with_checks};
pub use replay::{Replay, Step};
pub use text::{answer_text, input_name, input_text, output_text};
pub use writer::{Sink, Writer, end_item};

/// The first bytes of a record.
const MAGIC: [u8; 8] = *b"LNETREC\0";

/// The version of the format.
pub const VERSION: u16 = 2;

/// The longest item: the most rules of a node, with some reserve.
const ITEM_MAX: usize = 4 << 20;

/// Kinds of item.
const BEGIN: u8 = 1;
const INPUT: u8 = 2;
const DECIDED: u8 = 3;
const END: u8 = 4;

/// The chain of decisions: each is a hash over the one before.
type Chain = [u8; 8];
