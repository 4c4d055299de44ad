//! Lustre's RPCs above LNet.
//!
//! ```text
//!  LNet PUT ──▶ security::open ──▶ Message ──▶ Body, fields ──▶ a line, a table of fields
//!                                     │
//!                                     └──▶ Pairer ──▶ Rpc ──▶ counts, findings
//! ```
//!
//! [`Message`] checks a message's lengths and borrows its bytes; [`fields`] names every byte; [`Pairer`] makes [`Rpc`]s
//! of requests, bulk and replies. All of it is without I/O and without a clock, and each length that comes from a
//! message is compared with the bytes at hand before it is used.
//!
//! [`client`] holds the conversations of a client that only looks, and [`mount`] says what follows from them for a mount.
//!
//! The crate was written from a specification of the bytes and from captures of real nodes. Facts that no capture
//! confirms are marked ([`Evidence`]).

mod body;
pub mod client;
mod contents;
mod file_system;
mod findings;
mod layouts;
mod log;
mod message;
pub mod mount;
mod opcode;
mod pairing;
mod rpc;
mod rules;
mod schema;
mod security;
#[cfg(feature = "server")]
pub mod server;
mod subject;
mod summary;
mod text;
mod view;
mod whereabouts;

pub use body::{BODY_LEN, BODY_SHORT_LEN, Body, Type, flags};
pub use contents::{ConfigRead, Contents, ENTRIES_MAX, Entries, Line, LogRecord, TableEntry};
pub use file_system::{FileSystem, Target};
pub use findings::{Finding, FindingKind, Tally};
pub use layouts::as_bytes::{AsBytes, SHOWN_AS_BYTES};
pub use layouts::evidence::{NOT_SEEN, NotSeen, known_fields, not_seen};
pub use layouts::{Evidence, Field, UNDECODED};
pub use log::{Command, LogError, Marker, Record, Records};
pub use message::{BUFFERS_MAX, Buffer, HEADER_LEN, MAGIC, Message, MessageError, early_checksum};
pub use opcode::{OPCODES, PortalUse, opc, opcode_name, opcode_of, portal, portal_use, service_of};
pub use pairing::{OPEN_MAX, Pairer, REMEMBERED_MAX, RESEND_WAIT, Role, RpcSink, Seen};
pub use rpc::{End, Rpc};
pub use rules::{Needs, SecurityRules};
pub use schema::{evidence_of, fields};
pub use security::{Flavor, Opened, open};
pub use subject::{bytes_asked, subject};
pub use summary::{By, Figures, OTHER, ROWS_MAX, Ranked, Summary, TIME_BOUNDS};
pub use text::{Fid, NAME_MAX, ObjectId, Release, Status, Text, errno_name};
pub use view::View;
