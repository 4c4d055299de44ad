//! The information of a node about itself, from the answer to a ping or from a push.

use lnet_types::{Net, Nid};
use lnet_wire::{NiStatus, PingFeatures, PingInfo};

/// The limit of 8-byte entries, the largest of any kernel. Information with more is invalid.
// [PING-12]
pub(crate) const NNIS_MAX: u32 = 4096;

/// The information of a node about itself.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) features: PingFeatures,
    /// The first of its interfaces, which names the node.
    pub(crate) primary: Option<Nid>,
    /// Each interface, and the status that the node gives it.
    pub(crate) nis: Vec<(Nid, NiStatus)>,
    /// Bytes that the complete information needs.
    pub(crate) size: usize,
    /// True if the information is incomplete.
    pub(crate) truncated: bool,
}

impl Said {
    /// Reads ping information; `None` if the bytes are not valid ping information.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let info = PingInfo::parse(bytes).ok()?;
        info.validate(NNIS_MAX).ok()?;
        Some(Self {
            features: info.features(),
            primary: info.primary_nid(),
            nis: info.nis().map(|ni| (ni.nid, ni.status)).collect(),
            size: info.info_size(),
            truncated: info.is_truncated(),
        })
    }

    /// Returns whether the node forwards messages.
    pub(crate) fn routes(&self) -> bool {
        !self.features.contains(PingFeatures::RTE_DISABLED)
    }

    /// Returns whether the node has an interface on this net.
    pub(crate) fn is_on(&self, net: Net) -> bool {
        self.nis.iter().any(|&(nid, _)| nid.net() == net)
    }

    /// Returns whether an interface on this net is up, or may be among the interfaces that were cut off.
    pub(crate) fn is_up_on(&self, net: Net) -> bool {
        let mut on_net = self.nis.iter().filter(|(nid, _)| nid.net() == net);
        let cut_off = self.truncated && !self.is_on(net);
        cut_off || on_net.any(|&(_, status)| status == NiStatus::UP)
    }
}
