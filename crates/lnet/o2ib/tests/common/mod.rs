//! A stranger: a device that a test drives by itself, so that it can send anything.

#![allow(dead_code, reason = "each test uses a part")]

use lnet_o2ib::fabric::{Event, VirtualDevice, World, address, nid};
use lnet_o2ib::{ConnId, Device, NiTuning, O2ibConfig, Shape};
use lnet_wire::o2ib::{Body, Envelope, MESSAGE_MAX, Message, Parameters, Rejection};

/// The incarnation of the stranger.
pub(crate) const STRANGE: u64 = 77;
/// The incarnation of node 0.
pub(crate) const NODE: u64 = 1000;

/// What nodes ask for by default.
pub(crate) const PARAMETERS: Parameters = Parameters {
    queue_depth: 8,
    fragments: 257,
    message_size: 4096,
};

/// A stranger with a connection.
pub(crate) struct Stranger {
    pub(crate) device: VirtualDevice,
    pub(crate) conn: ConnId,
    pub(crate) next: u64,
}

/// Returns a world with one node, and a stranger at the address of node 1.
pub(crate) fn strange(config: O2ibConfig, tuning: NiTuning) -> (World, Stranger) {
    let world = World::new(7, config, &[tuning]);
    let mut device = world.fabric.device(1, address(1));
    device.listen(address(1)).unwrap();
    let stranger = Stranger {
        device,
        conn: ConnId(0),
        next: 100,
    };
    (world, stranger)
}

/// Returns the envelope of a stranger's message that fits its connection.
pub(crate) fn envelope() -> Envelope {
    Envelope {
        credits: 0,
        source: nid(1),
        source_incarnation: STRANGE,
        destination: nid(0),
        destination_incarnation: NODE,
    }
}

pub(crate) fn bytes(envelope: Envelope, body: Body<'_>) -> Vec<u8> {
    let mut buffer = [0; MESSAGE_MAX];
    let len = Message { envelope, body }.encode(&mut buffer).unwrap();
    buffer[..len].to_vec()
}

impl Stranger {
    /// Dials node 0 with this private data. Returns what came of it.
    pub(crate) fn dial(&mut self, world: &mut World, data: &[u8]) -> Event {
        self.next += 1;
        self.conn = ConnId(self.next);
        self.device
            .resolve(self.conn, address(1), address(0))
            .unwrap();
        world.settle();
        let shape = Shape {
            receives: 64,
            messages: 64,
            sends: 64,
        };
        world.foreign.clear();
        self.device.connect(self.conn, shape, data).unwrap();
        world.settle();
        world.foreign.first().cloned().unwrap()
    }

    /// Dials node 0 and expects a connection.
    pub(crate) fn connect(&mut self, world: &mut World) {
        let request = bytes(envelope(), Body::Connreq(PARAMETERS));
        let event = self.dial(world, &request);
        assert!(matches!(event, Event::Established(..)), "{event:?}");
        world.foreign.clear();
    }

    /// Dials node 0 with a request and expects a rejection.
    pub(crate) fn rejected(&mut self, world: &mut World, data: &[u8]) -> Rejection {
        match self.dial(world, data) {
            Event::Failed(_, _, data) => Rejection::decode(&data).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// Takes the connection request of node 0, without an answer.
    pub(crate) fn requested(&mut self, world: &mut World) -> (lnet_o2ib::RequestId, Vec<u8>) {
        world.settle();
        let found = world
            .foreign
            .iter()
            .position(|event| matches!(event, Event::Requested(..)));
        match world.foreign.swap_remove(found.unwrap()) {
            Event::Requested(request, _, _, data) => (request, data),
            other => panic!("{other:?}"),
        }
    }

    /// Accepts the request of node 0 with these parameters.
    pub(crate) fn accept(&mut self, world: &mut World, envelope: Envelope, body: Body<'_>) {
        let (request, _) = self.requested(world);
        self.next += 1;
        self.conn = ConnId(self.next);
        let shape = Shape {
            receives: 64,
            messages: 64,
            sends: 64,
        };
        let data = bytes(envelope, body);
        self.device
            .accept(request, self.conn, shape, &data)
            .unwrap();
        world.settle();
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, world: &mut World, message: &[u8]) {
        self.device.post_send(self.conn, &[], message, 1).unwrap();
        world.settle();
    }

    /// Sends a message of this type.
    pub(crate) fn say(&mut self, world: &mut World, body: Body<'_>) {
        self.send(world, &bytes(envelope(), body));
    }

    /// Returns the messages that came, and forgets them.
    pub(crate) fn heard(&self, world: &mut World) -> Vec<Vec<u8>> {
        let events = std::mem::take(&mut world.foreign);
        let heard = events.into_iter().filter_map(|event| match event {
            Event::Received(_, _, bytes) => Some(bytes),
            _ => None,
        });
        heard.collect()
    }

    /// Returns true if node 0 has closed the connection.
    pub(crate) fn is_closed(world: &World) -> bool {
        world
            .foreign
            .iter()
            .any(|event| matches!(event, Event::Disconnected(_)))
    }
}
