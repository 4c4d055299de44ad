//! The o2ib LND against a peer that says anything: the real machine on the virtual fabric, in virtual time.
//!
//! The input is a script. Each step is a byte for what happens, a byte for a length, and that many bytes.

use std::time::Duration;

use lnet_o2ib::fabric::{Event, VirtualDevice, World, address, nid};
use lnet_o2ib::{ConnId, ConnectionView, Device, NiTuning, O2ibConfig, RequestId, Shape};
use lnet_wire::o2ib::{Body, Envelope, MESSAGE_MAX, Message, Parameters};

/// The most steps of a script that are played.
const STEPS_MAX: usize = 64;
/// Longer than every timeout of the LND.
const LONG: Duration = Duration::from_secs(600);
/// The incarnation of the peer, and that of the node.
const STRANGE: u64 = 77;
const NODE: u64 = 1000;
/// Broken promises that a peer cannot cause.
const OURS: [&str; 5] = [
    "twice",
    "taken back",
    "not registered",
    "resumed",
    "node 0: connections are left",
];

struct Stranger {
    world: World,
    device: VirtualDevice,
    conns: Vec<ConnId>,
    next: u64,
}

/// A script of a hostile peer of an o2ib network.
pub fn o2ib_machine(data: &[u8]) {
    let world = World::new(7, O2ibConfig::default(), &[NiTuning::default()]);
    let mut device = world.fabric.device(1, address(1));
    if device.listen(address(1)).is_err() {
        return;
    }
    let mut stranger = Stranger {
        world,
        device,
        conns: Vec::new(),
        next: 100,
    };
    let mut rest = data;
    for _ in 0..STEPS_MAX {
        let [what, length, more @ ..] = rest else {
            break;
        };
        let (bytes, after) = more.split_at(usize::from(*length).min(more.len()));
        stranger.play(*what, bytes);
        rest = after;
    }
    stranger.end();
}

impl Stranger {
    fn play(&mut self, what: u8, bytes: &[u8]) {
        match what % 10 {
            0 => self.dial(&good(Body::Connreq(PARAMETERS))),
            1 => self.dial(bytes),
            2 => self.send(bytes),
            3 => self.send(&spoiled(bytes)),
            4 => self.answer(&good(Body::Connack(PARAMETERS))),
            5 => self.answer(bytes),
            6 => self.reject(bytes),
            7 => {
                let len = bytes.first().map_or(0, |&first| usize::from(first) * 64);
                self.world.put(0, 1, len);
            }
            8 => {
                let len = bytes.first().map_or(0, |&first| usize::from(first) * 64);
                self.world.get(0, 1, len);
            }
            _ => {
                let seconds = bytes.first().copied().unwrap_or(1);
                self.world.pass(Duration::from_secs(seconds.into()));
            }
        }
        self.world.settle();
        self.receive();
    }

    fn conn(&mut self) -> ConnId {
        self.next += 1;
        let conn = ConnId(self.next);
        self.conns.push(conn);
        conn
    }

    fn dial(&mut self, request: &[u8]) {
        let conn = self.conn();
        let begun = self.device.resolve(conn, address(1), address(0));
        self.world.settle();
        if begun.is_ok() {
            // A connection that could not be resolved is gone.
            let _refused = self.device.connect(conn, SHAPE, request);
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        if let Some(&conn) = self.conns.last() {
            // A connection that was closed takes no message.
            let _refused = self.device.post_send(conn, &[], bytes, 1);
        }
    }

    /// Takes the oldest connection request of the node.
    fn requested(&mut self) -> Option<RequestId> {
        let requests = self.world.foreign.iter().position(is_request)?;
        match self.world.foreign.remove(requests) {
            Event::Requested(request, ..) => Some(request),
            _ => None,
        }
    }

    fn answer(&mut self, data: &[u8]) {
        if let Some(request) = self.requested() {
            let conn = self.conn();
            // The node may have given the request up.
            let _refused = self.device.accept(request, conn, SHAPE, data);
        }
    }

    fn reject(&mut self, data: &[u8]) {
        if let Some(request) = self.requested() {
            self.device.reject(request, data);
        }
    }

    /// Posts the receive buffers of what has come again.
    fn receive(&mut self) {
        let events = std::mem::take(&mut self.world.foreign);
        for event in events {
            match event {
                Event::Received(conn, buffer, _) => {
                    let _refused = self.device.post_receive(conn, buffer);
                }
                other if is_request(&other) => self.world.foreign.push(other),
                _ => {}
            }
        }
    }

    /// Goes away, and checks that the node has kept nothing.
    fn end(mut self) {
        for conn in std::mem::take(&mut self.conns) {
            self.device.disconnect(conn);
        }
        self.device.unlisten(address(1));
        self.world.pass(LONG);
        // A message that claims to come from the node itself is answered there.
        let others = |conn: &ConnectionView| conn.peer != nid(0);
        let kept = self.world.nodes[0].lnd.connections().find(others);
        assert!(kept.is_none(), "the node keeps {kept:?}");
        let violations = self.world.end();
        let ours = |what: &&String| OURS.iter().any(|ours| what.contains(ours));
        let broken: Vec<&String> = violations.iter().filter(ours).collect();
        assert!(broken.is_empty(), "{broken:?}");
    }
}

const PARAMETERS: Parameters = Parameters {
    queue_depth: 8,
    fragments: 257,
    message_size: MESSAGE_MAX as u32,
};

const SHAPE: Shape = Shape {
    receives: 64,
    messages: 64,
    sends: 64,
};

const fn is_request(event: &Event) -> bool {
    matches!(event, Event::Requested(..))
}

fn good(body: Body<'_>) -> Vec<u8> {
    let envelope = Envelope {
        credits: 0,
        source: nid(1),
        source_incarnation: STRANGE,
        destination: nid(0),
        destination_incarnation: NODE,
    };
    let mut bytes = vec![0; MESSAGE_MAX];
    let length = Message { envelope, body }.encode(&mut bytes).unwrap_or(0);
    bytes.truncate(length);
    bytes
}

/// A message with a good envelope: the first byte is the type, the second one the credits, the others are the body.
fn spoiled(bytes: &[u8]) -> Vec<u8> {
    const KIND_AT: usize = 6;
    const CREDITS_AT: usize = 7;
    const LENGTH_AT: usize = 8;
    let mut message = good(Body::Noop);
    let (head, body) = bytes.split_at(bytes.len().min(2));
    message.extend(body);
    let length = (message.len() as u32).to_le_bytes();
    message[LENGTH_AT..LENGTH_AT + 4].copy_from_slice(&length);
    if let [kind, credits] = head {
        message[KIND_AT] = *kind;
        message[CREDITS_AT] = *credits;
    }
    message
}
