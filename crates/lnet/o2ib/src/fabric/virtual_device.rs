//! The device of one node.

use std::any::Any;
use std::marker::PhantomData;
use std::net::Ipv4Addr;

use lnet_wire::o2ib::Fragment;

use super::{CmMessage, Event, Fabric, Memory, Posted, Queues, Registration, VirtualMemory};
use crate::device::{
    ConnId, ConnectFailure, Device, DeviceError, Mapped, MappingId, PolledDevice, PortState,
    RequestId, Shape, Sink, Source, Write,
};

/// The most work requests for sending of a connection, as of many adapters.
const SENDS_MAX: u32 = 16_384;

/// How far apart the addresses of registered memory are.
const SPACE: u64 = 1 << 32;

/// A device of a [`Fabric`], for sources and sinks of these types.
pub struct VirtualDevice<S = VirtualMemory, K = VirtualMemory> {
    fabric: Fabric,
    node: usize,
    memory: PhantomData<fn(S, K)>,
}

impl<S, K> VirtualDevice<S, K> {
    pub(super) const fn new(fabric: Fabric, node: usize) -> Self {
        Self {
            fabric,
            node,
            memory: PhantomData,
        }
    }

    /// Returns true if an event waits to be taken.
    #[must_use]
    pub fn has_event(&self) -> bool {
        let inner = self.fabric.0.borrow();
        let inbox = inner.inboxes.get(&self.node);
        inbox.is_some_and(|inbox| !inbox.is_empty())
    }

    fn map(
        &mut self,
        memory: Memory,
        len: usize,
        lent: Option<VirtualMemory>,
    ) -> Result<Mapped, DeviceError> {
        let mut inner = self.fabric.0.borrow_mut();
        if inner.unmappable > 0 {
            inner.unmappable -= 1;
            return Err(DeviceError("no memory may be pinned".to_owned()));
        }
        let number = inner.number();
        let (id, base) = (MappingId(number), number * SPACE);
        // Keys of devices look alike; the upper bits tell these apart.
        let rkey = (number as u32).wrapping_mul(0x9e37_79b1) | 1;
        let len = len as u32;
        let pieces = inner.pieces.min(len.max(1));
        let mut fragments = Vec::new();
        let mut at = 0;
        for piece in 0..pieces {
            let end = (u64::from(len) * u64::from(piece + 1) / u64::from(pieces)) as u32;
            fragments.push(Fragment {
                length: end - at,
                address: base + u64::from(at),
            });
            at = end;
        }
        let registration = Registration {
            node: self.node,
            memory,
            lent,
            rkey,
            base,
        };
        inner.registrations.insert(id, registration);
        Ok(Mapped {
            id,
            rkey,
            fragments,
        })
    }
}

/// Refuses queues that the device cannot hold.
fn fitting(shape: Shape) -> Result<(), DeviceError> {
    if shape.sends > SENDS_MAX {
        let what = format!("a queue of {} requests is too long", shape.sends);
        return Err(DeviceError(what));
    }
    Ok(())
}

fn unknown() -> DeviceError {
    DeviceError("no such connection".to_owned())
}

/// Returns memory that knows whether it is lent, if the memory is such.
fn lent<M: Any>(memory: &M) -> Option<VirtualMemory> {
    (memory as &dyn Any).downcast_ref().cloned()
}

impl<S, K> Device for VirtualDevice<S, K>
where
    S: Source + Clone + 'static,
    K: Sink + Clone + 'static,
{
    type Source = S;
    type Sink = K;

    fn listen(&mut self, address: Ipv4Addr) -> Result<(), DeviceError> {
        let mut inner = self.fabric.0.borrow_mut();
        if inner.addresses.get(&address) != Some(&self.node) {
            return Err(DeviceError(format!("no RDMA device has {address}")));
        }
        inner.listening.insert(address);
        Ok(())
    }

    fn unlisten(&mut self, address: Ipv4Addr) {
        self.fabric.0.borrow_mut().listening.remove(&address);
    }

    fn port_state(&self, address: Ipv4Addr) -> PortState {
        match self.fabric.0.borrow().down.contains(&address) {
            true => PortState::Down,
            false => PortState::Up,
        }
    }

    fn sends_max(&self, _address: Ipv4Addr) -> u32 {
        SENDS_MAX
    }

    fn resolve(&mut self, conn: ConnId, _from: Ipv4Addr, to: Ipv4Addr) -> Result<(), DeviceError> {
        let mut inner = self.fabric.0.borrow_mut();
        let queues = Queues {
            target: Some(to),
            ..Queues::default()
        };
        let place = (self.node, conn);
        inner.queues.insert(place, queues);
        let target = inner.addresses.get(&to).copied();
        let is_reachable = target.is_some_and(|node| !inner.is_cut(node));
        let event = if is_reachable && !inner.is_cut(self.node) {
            Event::Resolved(conn)
        } else {
            Event::Failed(conn, ConnectFailure::Unreachable, Vec::new())
        };
        inner.tell(place, event);
        Ok(())
    }

    fn connect(
        &mut self,
        conn: ConnId,
        shape: Shape,
        private_data: &[u8],
    ) -> Result<(), DeviceError> {
        fitting(shape)?;
        let mut inner = self.fabric.0.borrow_mut();
        let place = (self.node, conn);
        let queues = inner.queues.get_mut(&place).ok_or_else(unknown)?;
        queues.receives.extend(0..shape.receives);
        inner
            .cm
            .push_back(CmMessage::Request(place, private_data.to_vec()));
        Ok(())
    }

    fn accept(
        &mut self,
        request: RequestId,
        conn: ConnId,
        shape: Shape,
        private_data: &[u8],
    ) -> Result<(), DeviceError> {
        fitting(shape)?;
        let mut inner = self.fabric.0.borrow_mut();
        let dialler = inner.requests.remove(&request).ok_or_else(unknown)?;
        let place = (self.node, conn);
        let queues = Queues {
            peer: Some(dialler),
            receives: (0..shape.receives).collect(),
            ..Queues::default()
        };
        inner.queues.insert(place, queues);
        let reply = CmMessage::Reply(dialler, place, private_data.to_vec());
        inner.cm.push_back(reply);
        Ok(())
    }

    fn reject(&mut self, request: RequestId, private_data: &[u8]) {
        let mut inner = self.fabric.0.borrow_mut();
        if let Some(dialler) = inner.requests.remove(&request) {
            let data = private_data.to_vec();
            let message = CmMessage::Reject(dialler, ConnectFailure::Rejected, data);
            inner.cm.push_back(message);
        }
    }

    fn post_receive(&mut self, conn: ConnId, buffer: u32) -> Result<(), DeviceError> {
        let mut inner = self.fabric.0.borrow_mut();
        let queues = inner
            .queues
            .get_mut(&(self.node, conn))
            .ok_or_else(unknown)?;
        if queues.receives.contains(&buffer) {
            let node = self.node;
            let what = format!("node {node} posts receive buffer {buffer} twice");
            inner.violations.push(what);
            return Err(unknown());
        }
        queues.receives.push_back(buffer);
        Ok(())
    }

    fn post_send(
        &mut self,
        conn: ConnId,
        writes: &[Write],
        message: &[u8],
        ticket: u64,
    ) -> Result<(), DeviceError> {
        let mut inner = self.fabric.0.borrow_mut();
        let queues = inner
            .queues
            .get_mut(&(self.node, conn))
            .ok_or_else(unknown)?;
        let posted = Posted {
            writes: writes.to_vec(),
            message: message.to_vec(),
            ticket,
        };
        if queues.is_broken {
            // As with hardware: work that is posted in error state is flushed.
            let error = crate::device::CompletionError::Flushed;
            queues
                .events
                .push_back(Event::Sent(conn, ticket, Err(error)));
        } else {
            queues.sends.push_back(posted);
        }
        Ok(())
    }

    fn map_source(&mut self, _conn: ConnId, memory: &S) -> Result<Mapped, DeviceError> {
        let kept = Memory::Source(Box::new(memory.clone()));
        self.map(kept, memory.len(), lent(memory))
    }

    fn map_sink(&mut self, _conn: ConnId, memory: &K) -> Result<Mapped, DeviceError> {
        let kept = Memory::Sink(Box::new(memory.clone()));
        self.map(kept, memory.len(), lent(memory))
    }

    fn unmap(&mut self, mapping: MappingId) {
        let mut inner = self.fabric.0.borrow_mut();
        if inner.registrations.remove(&mapping).is_none() {
            let node = self.node;
            inner
                .violations
                .push(format!("node {node} releases a registration twice"));
        }
    }

    fn disconnect(&mut self, conn: ConnId) {
        let mut inner = self.fabric.0.borrow_mut();
        if let Some(queues) = inner.queues.get_mut(&(self.node, conn)) {
            queues.is_closing = true;
        }
    }
}

impl<S, K> PolledDevice for VirtualDevice<S, K>
where
    S: Source + Clone + 'static,
    K: Sink + Clone + 'static,
{
    fn poll(&mut self) -> Result<bool, DeviceError> {
        Ok(self.has_event())
    }

    fn arm(&mut self) -> Result<bool, DeviceError> {
        self.poll()
    }

    fn next_event(&mut self) -> Option<Event> {
        let mut inner = self.fabric.0.borrow_mut();
        inner.inboxes.get_mut(&self.node)?.pop_front()
    }
}
