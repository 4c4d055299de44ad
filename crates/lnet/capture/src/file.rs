//! Capture files: pcap (both byte orders, micro- and nanoseconds) and pcapng, as a stream of packets.
//!
//! The only memory is one buffer, which grows to the largest record and at most to
//! [`RECORD_LEN_MAX`]. The input need not be seekable. The contents of packets are not interpreted.

use std::io::{self, Cursor, Read};

use lnet_types::Time;
use pcap_parser::pcapng::Block;
use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{LegacyPcapReader, PcapBlockOwned, PcapError, PcapNGReader};

use crate::error::CaptureError;

/// One captured packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Time of the capture, since the Unix epoch.
    pub time: Time,
    /// The type of the first header in the bytes: a `LINKTYPE_` number of the pcap format.
    pub link_type: u16,
    /// The captured bytes, which may be fewer than those on the wire.
    pub data: &'a [u8],
}

/// Reads a whole capture and calls `receive` with each packet.
///
/// # Errors
///
/// [`CaptureError::Output`] if `receive` fails, otherwise the error of the file. The packets before
/// the error were delivered.
pub fn read_packets<R: Read>(
    input: R,
    mut receive: impl FnMut(&Packet<'_>) -> io::Result<()>,
) -> Result<(), CaptureError> {
    let mut source = Source {
        reader: open(input)?,
        capacity: BUFFER_LEN,
    };
    let mut clocks = Clocks::default();
    loop {
        let step = source.next_record(&mut clocks, &mut receive)?;
        match step {
            Step::Record => {}
            Step::Starved => source.refill()?,
            Step::TooSmall => source.grow()?,
            Step::End => return Ok(()),
        }
    }
}

/// The largest record that is read, far above the 256 KiB that capture programs write.
pub const RECORD_LEN_MAX: usize = 16 << 20;

/// The initial size, enough for the packets of ordinary captures; it grows if a record needs more.
const BUFFER_LEN: usize = 128 << 10;
/// The longest file header that is awaited: a pcapng section header with many options. The parser
/// reads the rest of a longer header as it arrives.
const HEADER_LEN_MAX: u64 = 64 << 10;
/// Bytes of a pcap file header, which is also the minimum of a pcapng section header.
const HEADER_LEN_MIN: u64 = 24;
const PCAPNG_MAGIC: [u8; 4] = [0x0A, 0x0D, 0x0D, 0x0A];
const NANOS_PER_SECOND: u128 = 1_000_000_000;

type Reader<'a> = Box<dyn PcapReaderIterator + 'a>;

enum Step {
    Record,
    Starved,
    TooSmall,
    End,
}

struct Source<'a> {
    reader: Reader<'a>,
    capacity: usize,
}

/// Opens either format. Reads the whole file header first, because a pipe may deliver fewer bytes
/// at a time, which the parsers do not support. Waits for no byte after it, so that a live capture
/// shows each packet as it arrives.
fn open<'a, R: Read + 'a>(mut input: R) -> Result<Reader<'a>, CaptureError> {
    let mut header = Vec::new();
    read_up_to(&mut input, HEADER_LEN_MIN, &mut header)?;
    if header.is_empty() {
        return Err(CaptureError::Empty);
    }
    let is_pcapng = header.starts_with(&PCAPNG_MAGIC);
    if is_pcapng {
        let length = section_header_len(&header).min(HEADER_LEN_MAX);
        read_up_to(&mut input, length, &mut header)?;
    }
    let input = Cursor::new(header).chain(input);
    if is_pcapng {
        let reader = PcapNGReader::new(BUFFER_LEN, input).map_err(bad_start)?;
        Ok(Box::new(reader))
    } else {
        let reader = LegacyPcapReader::new(BUFFER_LEN, input).map_err(bad_start)?;
        Ok(Box::new(reader))
    }
}

/// Reads until `bytes` has this length, or the input ends.
fn read_up_to(input: &mut impl Read, length: u64, bytes: &mut Vec<u8>) -> Result<(), CaptureError> {
    let missing = length.saturating_sub(bytes.len() as u64);
    let read = input.by_ref().take(missing).read_to_end(bytes);
    read.map(drop).map_err(CaptureError::Read)
}

/// The length of a pcapng section header: its second word, in the byte order that the third word,
/// 0x1A2B3C4D, shows.
fn section_header_len(header: &[u8]) -> u64 {
    let Some(&[a, b, c, d]) = header.get(4..).and_then(|rest| rest.first_chunk()) else {
        return 0;
    };
    let is_big_endian = header.get(8) == Some(&0x1A);
    let length = if is_big_endian {
        u32::from_be_bytes([a, b, c, d])
    } else {
        u32::from_le_bytes([a, b, c, d])
    };
    u64::from(length)
}

fn bad_start(error: PcapError<&[u8]>) -> CaptureError {
    match error {
        PcapError::Incomplete(_) | PcapError::UnexpectedEof => {
            CaptureError::Truncated { offset: 0 }
        }
        _ => CaptureError::NotACapture,
    }
}

impl Source<'_> {
    fn next_record(
        &mut self,
        clocks: &mut Clocks,
        receive: &mut impl FnMut(&Packet<'_>) -> io::Result<()>,
    ) -> Result<Step, CaptureError> {
        let offset = self.reader.consumed() as u64;
        match self.reader.next() {
            Ok((length, block)) => {
                if let Some(packet) = clocks.packet(&block, offset)? {
                    receive(&packet).map_err(CaptureError::Output)?;
                }
                self.reader.consume(length);
                Ok(Step::Record)
            }
            Err(PcapError::Eof) => Ok(Step::End),
            Err(PcapError::Incomplete(_)) => Ok(Step::Starved),
            Err(PcapError::BufferTooSmall) => Ok(Step::TooSmall),
            Err(PcapError::UnexpectedEof) => Err(CaptureError::Truncated { offset }),
            Err(_) => Err(CaptureError::Malformed { offset }),
        }
    }

    fn refill(&mut self) -> Result<(), CaptureError> {
        self.reader.refill().map_err(|_| {
            CaptureError::Read(io::Error::other("the read was rejected or interrupted"))
        })
    }

    fn grow(&mut self) -> Result<(), CaptureError> {
        if self.capacity >= RECORD_LEN_MAX {
            let offset = self.reader.consumed() as u64;
            return Err(CaptureError::RecordTooLarge {
                offset,
                limit: RECORD_LEN_MAX,
            });
        }
        self.capacity *= 2;
        self.reader.grow(self.capacity);
        self.refill()
    }
}

/// The time stamps and link types of a file.
#[derive(Default)]
struct Clocks {
    interfaces: Vec<Interface>,
}

#[derive(Clone, Copy)]
struct Interface {
    link_type: u16,
    ticks_per_second: u64,
    offset_seconds: i64,
}

impl Clocks {
    /// Processes descriptions, and returns the packet of a record that contains one.
    fn packet<'a>(
        &mut self,
        block: &'a PcapBlockOwned<'_>,
        offset: u64,
    ) -> Result<Option<Packet<'a>>, CaptureError> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                let ticks = if header.is_nanosecond_precision() {
                    1_000_000_000
                } else {
                    1_000_000
                };
                self.interfaces = vec![Interface::new(header.network.0, Some(ticks), 0)];
                Ok(None)
            }
            PcapBlockOwned::Legacy(record) => {
                let interface = self.interface(0, offset)?;
                let fraction = u64::from(record.ts_usec);
                let ticks = u64::from(record.ts_sec)
                    .saturating_mul(interface.ticks_per_second)
                    .saturating_add(fraction);
                Ok(Some(interface.packet(ticks, record.data)))
            }
            PcapBlockOwned::NG(block) => self.pcapng_packet(block, offset),
        }
    }

    fn pcapng_packet<'a>(
        &mut self,
        block: &'a Block<'_>,
        offset: u64,
    ) -> Result<Option<Packet<'a>>, CaptureError> {
        match block {
            Block::SectionHeader(_) => self.interfaces.clear(),
            Block::InterfaceDescription(description) => self.interfaces.push(Interface::new(
                description.linktype.0,
                description.ts_resolution(),
                description.ts_offset(),
            )),
            Block::EnhancedPacket(record) => {
                let interface = self.interface(record.if_id, offset)?;
                let ticks = u64::from(record.ts_high) << 32 | u64::from(record.ts_low);
                return Ok(Some(interface.packet(ticks, record.packet_data())));
            }
            Block::SimplePacket(record) => {
                let interface = self.interface(0, offset)?;
                return Ok(Some(interface.packet(0, record.packet_data())));
            }
            _ => {}
        }
        Ok(None)
    }

    fn interface(&self, index: u32, offset: u64) -> Result<Interface, CaptureError> {
        usize::try_from(index)
            .ok()
            .and_then(|index| self.interfaces.get(index))
            .copied()
            .ok_or(CaptureError::Malformed { offset })
    }
}

impl Interface {
    /// `ticks_per_second` is `None` if the file has an impossible resolution; the default of the
    /// format then applies.
    fn new(link_type: i32, ticks_per_second: Option<u64>, offset_seconds: i64) -> Self {
        Self {
            link_type: u16::try_from(link_type).unwrap_or(u16::MAX),
            ticks_per_second: ticks_per_second
                .filter(|&ticks| ticks > 0)
                .unwrap_or(1_000_000),
            offset_seconds,
        }
    }

    fn packet<'a>(&self, ticks: u64, data: &'a [u8]) -> Packet<'a> {
        let nanos = u128::from(ticks) * NANOS_PER_SECOND / u128::from(self.ticks_per_second);
        let nanos = i128::try_from(nanos).unwrap_or(i128::MAX);
        let shift = i128::from(self.offset_seconds) * NANOS_PER_SECOND as i128;
        let nanos = nanos.saturating_add(shift).max(0);
        let time = Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        Packet {
            time,
            link_type: self.link_type,
            data,
        }
    }
}
