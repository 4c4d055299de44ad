//! The checker's device, with a planted defect of the node: the defect changes or hides what the device tells.

use std::net::Ipv4Addr;

use lnet_node::stack::{Landing, Payload};
use lnet_o2ib::{
    ConnId, Device, DeviceError, Event, Mapped, MappingId, PolledDevice, PortState, RequestId,
    Shape, Write,
};

use crate::defects::Defect;
use crate::world;

/// A device behind a defect.
pub(crate) struct Spoiled {
    device: world::Device,
    defect: &'static Defect,
}

impl Spoiled {
    pub(crate) const fn new(device: world::Device, defect: &'static Defect) -> Self {
        Self { device, defect }
    }
}

impl Device for Spoiled {
    type Source = Payload;
    type Sink = Landing;

    fn listen(&mut self, address: Ipv4Addr) -> Result<(), DeviceError> {
        self.device.listen(address)
    }

    fn unlisten(&mut self, address: Ipv4Addr) {
        self.device.unlisten(address);
    }

    fn port_state(&self, address: Ipv4Addr) -> PortState {
        self.device.port_state(address)
    }

    fn sends_max(&self, address: Ipv4Addr) -> u32 {
        self.device.sends_max(address)
    }

    fn resolve(&mut self, conn: ConnId, from: Ipv4Addr, to: Ipv4Addr) -> Result<(), DeviceError> {
        self.device.resolve(conn, from, to)
    }

    fn connect(&mut self, conn: ConnId, shape: Shape, data: &[u8]) -> Result<(), DeviceError> {
        let mut data = data.to_vec();
        (self.defect.asked)(&mut data);
        self.device.connect(conn, shape, &data)
    }

    fn accept(
        &mut self,
        request: RequestId,
        conn: ConnId,
        shape: Shape,
        data: &[u8],
    ) -> Result<(), DeviceError> {
        self.device.accept(request, conn, shape, data)
    }

    fn reject(&mut self, request: RequestId, data: &[u8]) {
        self.device.reject(request, data);
    }

    fn post_receive(&mut self, conn: ConnId, buffer: u32) -> Result<(), DeviceError> {
        self.device.post_receive(conn, buffer)
    }

    fn post_send(
        &mut self,
        conn: ConnId,
        writes: &[Write],
        message: &[u8],
        ticket: u64,
    ) -> Result<(), DeviceError> {
        let mut message = message.to_vec();
        (self.defect.sent)(&mut message);
        self.device.post_send(conn, writes, &message, ticket)
    }

    fn map_source(&mut self, conn: ConnId, memory: &Payload) -> Result<Mapped, DeviceError> {
        self.device.map_source(conn, memory)
    }

    fn map_sink(&mut self, conn: ConnId, memory: &Landing) -> Result<Mapped, DeviceError> {
        self.device.map_sink(conn, memory)
    }

    fn unmap(&mut self, mapping: MappingId) {
        self.device.unmap(mapping);
    }

    fn disconnect(&mut self, conn: ConnId) {
        self.device.disconnect(conn);
    }
}

impl PolledDevice for Spoiled {
    fn poll(&mut self) -> Result<bool, DeviceError> {
        self.device.poll()
    }

    fn arm(&mut self) -> Result<bool, DeviceError> {
        self.device.arm()
    }

    fn next_event(&mut self) -> Option<Event> {
        loop {
            let event = self.device.next_event()?;
            if let Some(event) = (self.defect.told)(event) {
                return Some(event);
            }
        }
    }
}
