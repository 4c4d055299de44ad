//! One sample of a node.

use lnet_dlc::protocol::{
    NiNumbers, NodeNumbers, O2ibNumber, Part, PeerNiNumbers, RouteNumbers, RpcNumbers,
    ServiceNumber,
};

/// The counters of a node at one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) node: NodeNumbers,
    pub(crate) nis: Vec<NiNumbers>,
    pub(crate) routes: Vec<RouteNumbers>,
    pub(crate) peer_nis: Vec<PeerNiNumbers>,
    /// Empty without a service on the node.
    pub(crate) service: Vec<ServiceNumber>,
    /// Empty without networks over RDMA.
    pub(crate) o2ib: Vec<O2ibNumber>,
    /// Empty unless asked for.
    pub(crate) rpcs: RpcNumbers,
}

impl Sample {
    pub(super) fn add(&mut self, part: Part) {
        match part {
            Part::Node(node) => self.node = *node,
            Part::Nis(nis) => self.nis.extend(nis),
            Part::Routes(routes) => self.routes.extend(routes),
            Part::PeerNis(peer_nis) => self.peer_nis.extend(peer_nis),
            Part::Service(numbers) => self.service = numbers,
            Part::O2ib(numbers) => self.o2ib = numbers,
            // This program does not request connections.
            Part::Connections(_) => {}
        }
    }
}
