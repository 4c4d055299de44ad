//! The information of this node about itself, which pings ask for and pushes carry.

use lnet_types::Nid;
use lnet_wire::{NiStatus, PingFeatures, PingInfoRepr, PingNi};

use crate::fabric::Fabric;
use crate::fabric::ni::Ni;
use crate::fabric::own::RoutingState;

impl Fabric {
    /// Returns the information of this node about itself, in the bytes of the answer to a ping and of a push.
    // [PING-5] [PING-7] [PING-8] [PUSH-2] [ROUTE-10]
    pub(crate) fn ping_info(&self) -> Vec<u8> {
        let mut features = PingFeatures::NI_STATUS;
        // A node that has never used discovery sets no feature for it. A node that used discovery and
        // stopped says so as a Multi-Rail node, because receivers ignore pushes of other nodes.
        features.set(PingFeatures::MULTI_RAIL, self.own.has_discovered);
        features.set(PingFeatures::DISCOVERY, self.globals().discovery);
        let routes = self.routing() == RoutingState::On;
        features.set(PingFeatures::RTE_DISABLED, !routes);
        let nis: Vec<PingNi> = self
            .advertised()
            .map(|ni| PingNi {
                nid: ni.nid,
                status: self.advertised_status(ni),
            })
            .collect();
        let (pid, sequence) = (self.ground.config.pid, self.own.sequence);
        let info = PingInfoRepr {
            features,
            pid,
            sequence,
            nis: &nis,
        }
        .with_large_bits();
        let mut bytes = vec![0; info.encoded_len()];
        // Encoding fails only above 1 MiB, which the limit of interfaces rules out. The answer would then be empty,
        // never malformed.
        let length = info.encode(&mut bytes).unwrap_or(0);
        bytes.truncate(length);
        bytes
    }

    /// Returns the interfaces net by net, in the order of configuration. The first one is the primary one.
    fn advertised(&self) -> impl Iterator<Item = &Ni> {
        self.nis
            .nets()
            .iter()
            .flat_map(|state| self.nis.on_net(state.net))
    }

    // [PING-17] [ROUTE-16]
    pub(crate) fn advertised_status(&self, ni: &Ni) -> NiStatus {
        let quiet = self.nis.net(ni.nid.net()).is_some_and(|state| state.quiet);
        if ni.is_down() || quiet {
            NiStatus::DOWN
        } else {
            NiStatus::UP
        }
    }

    /// Returns the NID by which this node is known: its first one.
    pub(crate) fn primary_nid(&self) -> Option<Nid> {
        self.advertised().next().map(|ni| ni.nid)
    }
}
