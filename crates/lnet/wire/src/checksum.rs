//! The checksum of frames on connections of HELLO version 2: [FRAME-12].
//!
//! CRC-32 with the reflected polynomial 0xEDB88320, starting from all ones, *without* the usual
//! inversion at the end. The loop takes one byte at a time, because only nodes that speak version 2
//! and have checksums enabled send one.

use crate::ksock::KsockHeader;

const POLYNOMIAL: u32 = 0xEDB8_8320;
const TABLE: [u32; 256] = table();

/// The checksum of one frame, computed from its parts in order: the frame header, the LNet header,
/// the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameChecksum(u32);

impl FrameChecksum {
    /// Starts with the bytes of the frame header; its checksum field counts as zero.
    #[must_use]
    pub fn new(frame_header: &[u8; KsockHeader::LEN]) -> Self {
        let mut header = *frame_header;
        header[4..8].fill(0);
        let mut checksum = Self(u32::MAX);
        checksum.update(&header);
        checksum
    }

    /// Adds the next bytes of the frame.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |crc, &byte| {
            let [low, ..] = crc.to_le_bytes();
            crc >> 8 ^ TABLE[usize::from(low ^ byte)]
        });
    }

    /// The value for the header's `csum` field.
    // [FRAME-12]
    #[must_use]
    pub const fn finish(self) -> u32 {
        self.0
    }
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < table.len() {
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 {
                crc >> 1 ^ POLYNOMIAL
            } else {
                crc >> 1
            };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
}
