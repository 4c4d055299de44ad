//! The format of the log of replies.
//!
//! ```text
//! file     "FINERAIL-LOG 1\n" NUL (16) · salt (8) · record · record · …
//! record   "rec\n" (4) · payload length (4) · durable (8) · CRC-32C of salt and all else (4) · payload
//! payload  kind (1) · fields of that kind
//! ```
//!
//! Numbers are little-endian. A byte string is its length (4) and its bytes. *Durable* is a length of the file
//! that was known to be on the disk when the record was written. This field tells two kinds of damage apart:
//!
//! * **A torn tail**: the process or the machine stopped while records were written. The unreadable records
//!   were not on the disk yet, and no answer depended on them. The records before them are valid.
//! * **Any other damage**: a record behind the unreadable place says that the place was on the disk. So the
//!   disk or a program has changed the place, calls may be missing, and the log is rejected.
//!
//! Clients choose some bytes of payloads, but do not know the salt. So they cannot make a payload that contains
//! a valid record.

use lnet_rpc::ClientId;
use lnet_types::Nid;

/// The beginning of a log of this version.
const MAGIC: &[u8; 16] = b"FINERAIL-LOG 1\n\0";
/// The beginning of a log of any version.
const NAME: &[u8] = b"FINERAIL-LOG ";
const MARK: &[u8; 4] = b"rec\n";
const FRAME: usize = 20;

/// A record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// The first record.
    Head {
        incarnation: u64,
        /// How many times a gateway has started with this log.
        starts: u64,
        /// The directory that is exported.
        export: Vec<u8>,
    },
    /// A client has a new session.
    Came {
        client: ClientId,
        session: u64,
        nid: Nid,
        /// The client waits for no call with a lower xid.
        lowest: u64,
    },
    /// The session of a client has ended.
    Gone { client: ClientId },
    /// A call is about to be executed.
    Intent {
        client: ClientId,
        xid: u64,
        lowest: u64,
        intent: Vec<u8>,
    },
    /// A call was executed.
    Reply {
        client: ClientId,
        xid: u64,
        status: i32,
        body: Vec<u8>,
    },
}

/// Why a log cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    /// The file is not a log.
    Foreign,
    /// The log is of another version.
    Version,
    /// A place that was on the disk is unreadable. The place is at this offset, in bytes from the start of the
    /// file.
    At(usize),
}

/// The contents of a log.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Contents {
    pub(super) records: Vec<Record>,
    /// The length of the torn tail behind the last record, in bytes; 0 if there is none.
    pub(super) torn: usize,
}

/// Encodes the beginning of a file.
pub(super) fn head(salt: u64) -> Vec<u8> {
    [&MAGIC[..], &salt.to_le_bytes()].concat()
}

/// Encodes a record.
pub(super) fn encode(record: &Record, durable: u64, salt: u64) -> Vec<u8> {
    let payload = payload(record);
    // A payload holds one request at most, so its length fits into 32 bits.
    let length = (payload.len() as u32).to_le_bytes();
    let durable = durable.to_le_bytes();
    let sum = sum(salt, &length, &durable, &payload).to_le_bytes();
    [&MARK[..], &length, &durable, &sum, &payload].concat()
}

/// Decodes a log. Each log begins with a head, because a log gets its name only when the head is on the disk.
pub(super) fn decode(bytes: &[u8]) -> Result<Contents, Damage> {
    let (salt, rest) = salt(bytes)?;
    let mut records = Vec::new();
    let mut at = 0;
    while let Some((record, _, length)) = take(&rest[at..], salt) {
        records.push(record);
        at += length;
    }
    let offset = bytes.len() - rest.len() + at;
    let has_head = matches!(records.first(), Some(Record::Head { .. }));
    if !has_head || was_durable(&rest[at..], salt, offset) {
        return Err(Damage::At(offset));
    }
    let torn = rest.len() - at;
    Ok(Contents { records, torn })
}

/// Checks the properties that hold for any bytes: to read them does not panic, neither as a log of their own
/// nor behind a valid head.
#[doc(hidden)]
pub fn fuzz_log(bytes: &[u8]) {
    let _read = decode(bytes);
    let export = bytes.to_vec();
    let (incarnation, starts) = (1, 1);
    let first = Record::Head {
        incarnation,
        starts,
        export,
    };
    let mut log = [head(9), encode(&first, 0, 9)].concat();
    log.extend_from_slice(bytes);
    let contents = decode(&log);
    assert!(contents.is_err() || contents.is_ok_and(|contents| contents.records[0] == first));
    if let Some(record) = Fields(bytes).record() {
        // A NID has several spellings, so the encoded bytes may differ.
        assert_eq!(Fields(&payload(&record)).record(), Some(record));
    }
}

/// Returns the salt of a log, and the records behind it.
fn salt(bytes: &[u8]) -> Result<(u64, &[u8]), Damage> {
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        let is_other = bytes.starts_with(NAME);
        return Err(if is_other {
            Damage::Version
        } else {
            Damage::Foreign
        });
    };
    let (salt, rest) = rest.split_first_chunk::<8>().ok_or(Damage::Foreign)?;
    Ok((u64::from_le_bytes(*salt), rest))
}

/// Decides whether a record behind the unreadable `offset` says that the offset was on the disk.
fn was_durable(rest: &[u8], salt: u64, offset: usize) -> bool {
    (1..rest.len()).any(|at| match take(&rest[at..], salt) {
        Some((_, durable, _)) => durable > offset as u64,
        None => false,
    })
}

/// Returns the record at the beginning of the bytes, its field *durable*, and its length.
fn take(bytes: &[u8], salt: u64) -> Option<(Record, u64, usize)> {
    let rest = bytes.strip_prefix(MARK)?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (durable, rest) = rest.split_first_chunk::<8>()?;
    let (expected, rest) = rest.split_first_chunk::<4>()?;
    let size = u32::from_le_bytes(*length) as usize;
    let payload = rest.get(..size)?;
    if u32::from_le_bytes(*expected) != sum(salt, length, durable, payload) {
        return None;
    }
    let record = Fields(payload).record()?;
    Some((record, u64::from_le_bytes(*durable), FRAME + size))
}

fn sum(salt: u64, length: &[u8], durable: &[u8], payload: &[u8]) -> u32 {
    let salted = crc32c::crc32c(&salt.to_le_bytes());
    [length, durable, payload]
        .into_iter()
        .fold(salted, crc32c::crc32c_append)
}

fn payload(record: &Record) -> Vec<u8> {
    let mut out = Out::default();
    match record {
        Record::Head {
            incarnation,
            starts,
            export,
        } => {
            out.byte(1).number(*incarnation).number(*starts);
            out.bytes(export);
        }
        Record::Came {
            client,
            session,
            nid,
            lowest,
        } => {
            out.byte(2).raw(&client.0).number(*session).number(*lowest);
            out.bytes(nid.to_string().as_bytes());
        }
        Record::Gone { client } => {
            out.byte(3).raw(&client.0);
        }
        Record::Intent {
            client,
            xid,
            lowest,
            intent,
        } => {
            out.byte(4).raw(&client.0).number(*xid).number(*lowest);
            out.bytes(intent);
        }
        Record::Reply {
            client,
            xid,
            status,
            body,
        } => {
            out.byte(5).raw(&client.0).number(*xid);
            out.raw(&status.to_le_bytes()).bytes(body);
        }
    }
    out.0
}

/// An encoder that appends fields to a byte vector.
#[derive(Default)]
pub(in crate::files) struct Out(pub(in crate::files) Vec<u8>);

impl Out {
    pub(in crate::files) fn byte(&mut self, byte: u8) -> &mut Self {
        self.0.push(byte);
        self
    }

    pub(in crate::files) fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(in crate::files) fn number(&mut self, number: u64) -> &mut Self {
        self.raw(&number.to_le_bytes())
    }

    pub(in crate::files) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        // A string whose length needs more than 32 bits is longer than any record.
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.raw(&length.to_le_bytes()).raw(bytes)
    }
}

/// A decoder that takes fields from the beginning of the bytes.
pub(in crate::files) struct Fields<'a>(pub(in crate::files) &'a [u8]);

impl<'a> Fields<'a> {
    fn record(mut self) -> Option<Record> {
        let record = match self.byte()? {
            1 => Record::Head {
                incarnation: self.number()?,
                starts: self.number()?,
                export: self.bytes()?.to_vec(),
            },
            2 => {
                let client = self.client()?;
                let (session, lowest) = (self.number()?, self.number()?);
                let nid = std::str::from_utf8(self.bytes()?).ok()?.parse().ok()?;
                Record::Came {
                    client,
                    session,
                    nid,
                    lowest,
                }
            }
            3 => Record::Gone {
                client: self.client()?,
            },
            4 => Record::Intent {
                client: self.client()?,
                xid: self.number()?,
                lowest: self.number()?,
                intent: self.bytes()?.to_vec(),
            },
            5 => Record::Reply {
                client: self.client()?,
                xid: self.number()?,
                status: i32::from_le_bytes(self.array()?),
                body: self.bytes()?.to_vec(),
            },
            _ => return None,
        };
        self.0.is_empty().then_some(record)
    }

    fn client(&mut self) -> Option<ClientId> {
        self.array().map(ClientId)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    pub(in crate::files) fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(in crate::files) fn number(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(in crate::files) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = u32::from_le_bytes(self.array()?) as usize;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CLIENT: ClientId = ClientId([7; 16]);
    const SALT: u64 = 99;

    fn records() -> Vec<Record> {
        vec![
            Record::Head {
                incarnation: 1,
                starts: 2,
                export: b"/srv".to_vec(),
            },
            Record::Came {
                client: CLIENT,
                session: 3,
                nid: "10.0.0.1@tcp".parse().unwrap(),
                lowest: 4,
            },
            Record::Intent {
                client: CLIENT,
                xid: 5,
                lowest: 4,
                intent: b"mkdir".to_vec(),
            },
            Record::Reply {
                client: CLIENT,
                xid: 5,
                status: -1,
                body: b"made".to_vec(),
            },
            Record::Gone { client: CLIENT },
        ]
    }

    /// Makes a log in which everything before a record was on the disk when the record was written.
    fn log() -> Vec<u8> {
        let mut bytes = head(SALT);
        for record in records() {
            let durable = bytes.len() as u64;
            bytes.extend(encode(&record, durable, SALT));
        }
        bytes
    }

    #[test]
    fn every_record_reads_back() {
        let contents = decode(&log()).unwrap();
        assert_eq!((contents.records, contents.torn), (records(), 0));
    }

    #[test]
    fn of_a_torn_log_the_records_before_the_tear_hold() {
        let log = log();
        let first = head(SALT).len() + encode(&records()[0], 0, SALT).len();
        for end in first..log.len() {
            let contents = decode(&log[..end]).unwrap();
            assert_eq!(contents.records, records()[..contents.records.len()]);
            let whole = decode(&log[..end - contents.torn]).unwrap();
            assert_eq!((whole.records, whole.torn), (contents.records, 0));
        }
    }

    #[test]
    fn a_changed_byte_is_refused_unless_it_is_in_the_last_record() {
        let log = log();
        let last = encode(&records()[4], 0, SALT).len();
        for at in 0..log.len() {
            let mut changed = log.clone();
            changed[at] ^= 0x10;
            match decode(&changed) {
                Err(Damage::Foreign) => assert!(at < NAME.len()),
                Err(Damage::Version) => assert!((NAME.len()..MAGIC.len()).contains(&at)),
                Err(Damage::At(offset)) => assert!(offset <= at.max(head(SALT).len())),
                Ok(contents) => {
                    assert!(at >= log.len() - last, "byte {at}");
                    assert_eq!(contents.records, records()[..4]);
                }
            }
        }
    }

    #[test]
    fn a_tear_in_the_middle_of_what_was_being_written_is_a_tail() {
        let mut bytes = head(SALT);
        let append = |record| bytes.extend(encode(record, 24, SALT));
        records().iter().for_each(append);
        let at = head(SALT).len() + encode(&records()[0], 24, SALT).len() + 3;
        bytes[at] ^= 1;
        assert_eq!(decode(&bytes).unwrap().records, records()[..1]);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in 0..200_usize) {
            let _read = decode(&bytes);
            let mut log = log();
            let at = cut.min(log.len());
            log.splice(at..at, bytes);
            let _read = decode(&log);
        }
    }
}
