//! The encoder of a ping info.

use lnet_types::Nid;

use super::{ENTRY_LEN, HEADER_LEN, NiStatus, PING_MAGIC, PingFeatures, PingNi};
use crate::bytes::Writer;
use crate::error::EncodeError;
use crate::header::LNET_MTU;

/// A status and a large NID, which uses all of its 20 bytes.
const LARGE_RECORD_LEN: usize = 4 + Nid::WIRE_LEN;

/// A node's description of itself, ready to be encoded.
///
/// Kernels require that `nis` contains the NID that was pinged. If an info is malformed, they ping
/// again at once and without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PingInfoRepr<'a> {
    /// The abilities of the node. Large NIDs need [`PingFeatures::LARGE_ADDR`], which
    /// [`with_large_bits`](Self::with_large_bits) sets. [`PingFeatures::METADATA`] must not be set,
    /// because no metadata is written.
    pub features: PingFeatures,
    /// The node's process id.
    pub pid: u32,
    /// The sequence number: 1 at the start of LNet, one more for each rebuilt info.
    pub sequence: u32,
    /// The network interfaces without loopback, the primary NID first. Interfaces with large NIDs
    /// are written after the others; otherwise the order is kept.
    pub nis: &'a [PingNi],
}

impl PingInfoRepr<'_> {
    /// The same with [`PingFeatures::LARGE_ADDR`] and [`PingFeatures::PRIMARY_LARGE`] set as the
    /// interfaces require.
    // [LARGE-11] [LARGE-12]
    #[must_use]
    pub fn with_large_bits(self) -> Self {
        let mut features = self.features;
        features.set(PingFeatures::LARGE_ADDR, self.large().next().is_some());
        let primary_is_large = self.nis.first().is_some_and(|ni| ni.nid.is_large());
        features.set(PingFeatures::PRIMARY_LARGE, primary_is_large);
        Self { features, ..self }
    }

    /// Bytes of the info.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        let entries = 1 + self.small().count();
        HEADER_LEN + ENTRY_LEN * entries + LARGE_RECORD_LEN * self.large().count()
    }

    /// Writes the info, little-endian, and returns its length.
    ///
    /// # Errors
    ///
    /// A short buffer, an info that does not fit one message, or large NIDs without their feature
    /// bit.
    // [PING-5] [PING-6] [PING-10] [LARGE-11]
    pub fn encode(&self, buffer: &mut [u8]) -> Result<usize, EncodeError> {
        let has_records = self.features.contains(PingFeatures::LARGE_ADDR);
        if let Some(large) = self.large().next().filter(|_| !has_records) {
            return Err(EncodeError::LargeNid(large.nid));
        }
        let len = self.encoded_len();
        let too_large = EncodeError::TooLarge {
            field: "info size",
            value: len as u64,
            max: LNET_MTU.into(),
        };
        let size = u32::try_from(len)
            .ok()
            .filter(|&size| size <= LNET_MTU)
            .ok_or(too_large)?;
        // The entries of 16 bytes fit a message, so their number fits the field.
        let nnis = 1 + self.small().count() as u32;
        let mut writer = Writer::new(buffer, len)?;
        writer
            .u32(PING_MAGIC)
            .u32(self.features.bits())
            .u32(self.pid)
            .u32(nnis);
        let entry_0_size = if has_records { size } else { 0 };
        writer
            .nid4(Nid::LOOPBACK)?
            .u32(self.sequence)
            .u32(entry_0_size);
        for PingNi {
            nid,
            status: NiStatus(status),
        } in self.small()
        {
            writer.nid4(*nid)?.u32(*status).u32(0);
        }
        for PingNi {
            nid,
            status: NiStatus(status),
        } in self.large()
        {
            writer.u32(*status).nid16(*nid);
        }
        Ok(len)
    }

    fn small(&self) -> impl Iterator<Item = &PingNi> {
        self.nis.iter().filter(|ni| !ni.nid.is_large())
    }

    fn large(&self) -> impl Iterator<Item = &PingNi> {
        self.nis.iter().filter(|ni| ni.nid.is_large())
    }
}
