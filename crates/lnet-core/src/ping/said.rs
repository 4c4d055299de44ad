//! What a node said of itself, in the answer to a ping or in a push (section 6.2).

use lnet_types::{Net, Nid};
use lnet_wire::{NiStatus, PingFeatures, PingInfo};

/// More 8-byte entries than this are nonsense; the largest limit of any kernel (section 6.6).
pub(crate) const NNIS_MAX: u32 = 4096;

/// What a node said of itself.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) features: PingFeatures,
    /// The first of its interfaces, which it is known by.
    pub(crate) primary: Option<Nid>,
    /// Each interface, and what it said of it.
    pub(crate) nis: Vec<(Nid, NiStatus)>,
    /// Bytes that everything it has to say needs.
    pub(crate) size: usize,
    /// Not everything it has to say is here.
    pub(crate) truncated: bool,
}

impl Said {
    /// Reads ping information; `None` when it is none that may be believed.
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

    /// The node forwards messages.
    pub(crate) fn routes(&self) -> bool {
        !self.features.contains(PingFeatures::RTE_DISABLED)
    }

    /// The node has an interface on this net.
    pub(crate) fn is_on(&self, net: Net) -> bool {
        self.nis.iter().any(|&(nid, _)| nid.net() == net)
    }

    /// An interface on this net is up, or may be among those that were cut off.
    pub(crate) fn is_up_on(&self, net: Net) -> bool {
        let mut on_net = self.nis.iter().filter(|(nid, _)| nid.net() == net);
        let cut_off = self.truncated && !self.is_on(net);
        cut_off || on_net.any(|&(_, status)| status == NiStatus::UP)
    }
}
