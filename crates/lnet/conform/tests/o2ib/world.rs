//! The node that is checked and the checker's device, on one virtual fabric and in virtual time.

use std::net::Ipv4Addr;
use std::time::Duration;

use lnet_conform::Dialler;
use lnet_core::{Core, CoreConfig, Entropy, Globals, NiConfig, RouterBuffers, Tunables};
use lnet_node::stack::{EventSink, Landing, NodeEvent, Payload, Rdma, Stack};
use lnet_o2ib::fabric::{Fabric, VirtualDevice};
use lnet_o2ib::{DeviceError, LndNi, NiTuning, O2ibConfig, PolledDevice};
use lnet_tcp::{Sockets, Socklnd, SocklndConfig};
use lnet_types::{ProcessId, Time};

use crate::defects::Defect;
use crate::spoiled::Spoiled;

/// The address of the node.
const NODE: Ipv4Addr = Ipv4Addr::new(10, 7, 0, 1);
/// The address of the checker.
pub(crate) const CHECKER: Ipv4Addr = Ipv4Addr::new(10, 7, 0, 2);

pub(crate) type Device = VirtualDevice<Payload, Landing>;

/// Nobody reads the events of the node's program: there is none.
struct Nobody;

impl EventSink for Nobody {
    fn push(&self, _: NodeEvent) -> bool {
        true
    }
}

/// The node and the checker's device.
pub(crate) struct World {
    pub(crate) fabric: Fabric,
    stack: Stack<Sockets, Nobody, Device>,
    device: Spoiled,
    now: Time,
}

impl World {
    /// A node with this many peer credits. The checker sees the defect.
    pub(crate) fn new(defect: &'static Defect, peer_credits: u8) -> Self {
        let fabric = Fabric::new(1);
        fabric.add_address(0, NODE);
        fabric.add_address(1, CHECKER);
        let now = Time::from_secs(1);
        let mut core = Core::new(
            CoreConfig {
                entropy: Entropy::from_seed(1),
                seed: 1,
                globals: Globals {
                    discovery: true,
                    ..Globals::default()
                },
                buffers: RouterBuffers::default(),
                routing: false,
                pid: ProcessId::LUSTRE_PID,
            },
            now,
        );
        let nid = lnet_types::Nid::from_ip("o2ib".parse().unwrap(), NODE.into());
        let tunables = Tunables::default();
        let ni = core.add_ni(NiConfig { nid, tunables }, now).unwrap();
        let mut rdma = Rdma::new(O2ibConfig::default(), fabric.device_for(0));
        rdma.add_ni(LndNi {
            ni,
            nid,
            tuning: NiTuning {
                peer_credits,
                ..NiTuning::default()
            },
            incarnation: 77,
        })
        .unwrap();
        let registry = mio::Poll::new().unwrap().registry().try_clone().unwrap();
        let lnd = Socklnd::new(SocklndConfig::default(), Sockets::new(registry, 0), 1);
        let mut stack: Stack<Sockets, Nobody, Device> = Stack::new(lnd, core);
        stack.rdma = Some(Box::new(rdma));
        stack.side.memory.use_memory_only();
        Self {
            device: Spoiled::new(fabric.device_for(1), defect),
            fabric,
            stack,
            now,
        }
    }

    /// Lets the node do what is due.
    fn serve(&mut self) {
        self.stack.rdma_ready(self.now);
        if self
            .stack
            .next_deadline()
            .is_some_and(|due| due <= self.now)
        {
            self.stack.tick(self.now);
        }
        while self.stack.decide(self.now) {}
    }
}

impl Dialler for World {
    fn device(&mut self) -> &mut dyn PolledDevice<Source = Payload, Sink = Landing> {
        &mut self.device
    }

    fn wait(&mut self, most: Duration) -> Result<(), DeviceError> {
        self.serve();
        if self.fabric.advance().is_none() {
            self.now = self.now + most;
        }
        self.serve();
        Ok(())
    }

    fn now(&self) -> Duration {
        self.now.saturating_since(Time::default())
    }
}
