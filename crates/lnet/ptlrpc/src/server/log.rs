//! Configuration logs that tests write.

use crate::view::pad8;

/// The length of a block, and of the header, in bytes.
const BLOCK: usize = 8192;

/// The offset of the bits of the records that are alive, that of the header itself among them.
const BITMAP: usize = 88;

/// The flag of a log that is no catalogue.
const PLAIN: u32 = 4;

/// The NIDs of each node of a target: the 8-byte form, 0 for a NID that has none, and the text.
pub type Nodes<'a> = &'a [&'a [(u64, &'a str)]];

/// A log, record by record.
#[derive(Clone, Debug, Default)]
pub struct LogWriter {
    /// Index, whether it is alive, and the bytes.
    records: Vec<(u32, bool, Vec<u8>)>,
    at: usize,
}

impl LogWriter {
    /// Returns the client's log of a file system with these targets: the name, and the NIDs of each of its nodes.
    #[must_use]
    pub fn of_targets(targets: &[(&str, Nodes<'_>)]) -> Self {
        let mut log = Self::default();
        for (name, nodes) in targets {
            log.target(name, nodes);
        }
        log
    }

    /// Adds the commands of a target.
    pub fn target(&mut self, name: &str, nodes: Nodes<'_>) {
        let uuid = format!("{name}_UUID");
        let is_mdt = name.contains("-MDT");
        let device = format!("{name}-{}", if is_mdt { "mdc" } else { "osc" });
        self.marker(1, name, "add");
        for (at, node) in nodes.iter().enumerate() {
            let first = node.first().map_or("nobody", |(_, text)| text);
            for (nid, text) in *node {
                let texts: &[&str] = if *nid == 0 {
                    &["", first, text]
                } else {
                    &["", first]
                };
                self.command(0xc_f005, *nid, texts);
            }
            match at {
                0 => {
                    self.command(
                        0xc_f001,
                        0,
                        &[&device, if is_mdt { "mdc" } else { "osc" }, "x"],
                    );
                    self.command(0xc_f003, 0, &[&device, &uuid, first]);
                }
                _ => self.command(0xc_f00b, 0, &[&device, first]),
            }
        }
        let add = if is_mdt { 0xc_f014 } else { 0xc_f00d };
        self.command(add, 0, &["lov", &uuid, "0", "1"]);
        self.marker(2, name, "add");
    }

    /// Adds a marker: 1 start, 2 end, 4 skipped.
    pub fn marker(&mut self, flags: u32, target: &str, comment: &str) {
        let mut marker = vec![0; 160];
        for (at, bytes) in [
            (4, &flags.to_le_bytes()[..]),
            (32, target.as_bytes()),
            (96, comment.as_bytes()),
        ] {
            let bytes = bytes.get(..63).unwrap_or(bytes);
            if let Some(place) = marker.get_mut(at..at + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        }
        self.record(&command(0xc_f010, 0, &[Vec::new(), marker]), true);
    }

    /// Adds a command with texts.
    pub fn command(&mut self, code: u32, nid: u64, texts: &[&str]) {
        let buffers = texts.iter().map(|text| match text.is_empty() {
            true => Vec::new(),
            false => [text.as_bytes(), &[0]].concat(),
        });
        let buffers: Vec<Vec<u8>> = buffers.collect();
        self.record(&command(code, nid, &buffers), true);
    }

    /// Adds a record.
    pub fn record(&mut self, data: &[u8], is_alive: bool) {
        let mut data = data.to_vec();
        data.resize(pad8(data.len()), 0);
        let room = BLOCK - self.at % BLOCK;
        if data.len() + 24 > room {
            self.push(0x1060_0000, &vec![0; room - 24], true);
        }
        self.push(0x1062_0000, &data, is_alive);
        let rest = BLOCK - self.at % BLOCK;
        // A pad needs head and tail.
        if rest < 24 {
            self.at += rest;
        }
    }

    fn push(&mut self, kind: u32, data: &[u8], is_alive: bool) {
        let index = self.records.len() as u32 + 1;
        let len = data.len() as u32 + 24;
        let mut bytes = Vec::new();
        for word in [len, index, kind, 0] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(data);
        bytes.extend(len.to_le_bytes());
        bytes.extend(index.to_le_bytes());
        self.at += bytes.len();
        self.records.push((index, is_alive, bytes));
    }

    /// Returns the number of records.
    #[must_use]
    pub fn last(&self) -> u32 {
        self.records.len() as u32
    }

    /// Returns the header.
    #[must_use]
    pub fn header(&self) -> Vec<u8> {
        let mut header = Vec::new();
        for word in [BLOCK as u32, 0, 0x1064_5539, 0] {
            header.extend(word.to_le_bytes());
        }
        header.extend(0u64.to_le_bytes());
        let alive = self.records.iter().filter(|(_, is_alive, _)| *is_alive);
        let alive: Vec<u32> = [0]
            .into_iter()
            .chain(alive.map(|(index, ..)| *index))
            .collect();
        for word in [alive.len() as u32, BITMAP as u32, 0, PLAIN, 0] {
            header.extend(word.to_le_bytes());
        }
        if self.last() > 0 {
            header.extend(b"config_uuid");
        }
        header.resize(BLOCK - 8, 0);
        for index in alive {
            if let Some(byte) = header.get_mut(BITMAP + index as usize / 8) {
                *byte |= 1 << (index % 8);
            }
        }
        header.extend((BLOCK as u32).to_le_bytes());
        header.extend(self.last().to_le_bytes());
        header
    }

    /// Returns the block at an offset, the index of its last record, and the offset behind that.
    #[must_use]
    pub fn block(&self, offset: u64) -> Option<(Vec<u8>, u32, u64)> {
        let wanted = usize::try_from(offset).ok()? / BLOCK;
        let (mut block, mut last, mut at) = (Vec::new(), 0, BLOCK);
        for (index, _, bytes) in &self.records {
            let room = BLOCK - at % BLOCK;
            if bytes.len() > room {
                at += room;
            }
            if at / BLOCK == wanted {
                block.extend(bytes);
                last = *index;
            }
            at += bytes.len();
            let rest = BLOCK - at % BLOCK;
            if rest < 24 {
                at += rest;
            }
        }
        if last == 0 {
            return None;
        }
        // Behind the last block the file ends; another was read whole, with the rest in which no record has room.
        let read = if last == self.last() {
            block.len()
        } else {
            BLOCK
        };
        let end = (wanted * BLOCK + read) as u64;
        block.resize(BLOCK, 0);
        Some((block, last, end))
    }
}

fn command(code: u32, nid: u64, buffers: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [0x1cf6_0001, code, 0, 0] {
        bytes.extend(u32::to_le_bytes(word));
    }
    bytes.extend(nid.to_le_bytes());
    bytes.extend(0u32.to_le_bytes());
    bytes.extend((buffers.len() as u32).to_le_bytes());
    for buffer in buffers {
        bytes.extend((buffer.len() as u32).to_le_bytes());
    }
    bytes.resize(pad8(bytes.len()), 0);
    for buffer in buffers {
        bytes.extend(buffer);
        bytes.resize(pad8(bytes.len()), 0);
    }
    bytes
}
