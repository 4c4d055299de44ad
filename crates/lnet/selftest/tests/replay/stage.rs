//! The kernel node that the test plays: three connections, and the frames on each.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use lnet_node::Node;

use crate::frame::{Frame, Party};

/// The connections to the node under test, by the type that their initiator names.
pub(crate) struct Stage {
    links: BTreeMap<u32, TcpStream>,
    listener: Option<TcpListener>,
    party: Party,
}

const CONTROL: u32 = 1;
const BULK_IN: u32 = 2;
const BULK_OUT: u32 = 3;

/// The NIDs of client and server, low byte first.
const CLIENT: [u8; 8] = [1, 0, 0, 127, 0, 0, 2, 0];
const SERVER: [u8; 8] = [2, 0, 0, 127, 0, 0, 2, 0];

/// Makes the HELLO of a connection.
fn hello(from: [u8; 8], to: [u8; 8], kind: u32) -> Vec<u8> {
    let mut bytes = vec![0x63, 0x69, 0x72, 0x45, 3, 0, 0, 0];
    bytes.extend(from);
    bytes.extend(to);
    bytes.extend([0x39, 0x30, 0, 0, 0, 0, 0, 0]);
    bytes.extend([7; 8]);
    bytes.extend([0; 8]);
    bytes.extend(kind.to_le_bytes());
    bytes.extend([0; 4]);
    bytes
}

fn exactly(link: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    if let Err(error) = link.read_exact(&mut bytes) {
        panic!("the node says no more: {error}");
    }
    bytes
}

impl Stage {
    /// Plays the kernel with console and client, which connects to the node.
    pub(crate) fn dial(port: u16) -> Self {
        let mut links = BTreeMap::new();
        for kind in [CONTROL, BULK_IN, BULK_OUT] {
            let mut link = TcpStream::connect(("127.0.0.2", port)).expect("the node listens");
            link.set_read_timeout(Some(testkit::TIME_LIMIT)).unwrap();
            let mut request = vec![0x00, 0x71, 0xCE, 0xAC, 1, 0, 0, 0];
            request.extend(SERVER);
            request.extend(hello(CLIENT, SERVER, kind));
            link.write_all(&request).unwrap();
            exactly(&mut link, 56);
            links.insert(kind, link);
        }
        Self {
            links,
            listener: None,
            party: Party::Client,
        }
    }

    /// Plays the kernel test node, to which the node connects.
    pub(crate) fn listen(port: u16) -> Self {
        Self {
            links: BTreeMap::new(),
            listener: Some(TcpListener::bind(("127.0.0.2", port)).expect("the port is free")),
            party: Party::Server,
        }
    }

    fn link(&mut self, kind: u32) -> &mut TcpStream {
        // Accept all three, as a kernel does: the node opens the bulk connections while its first message is
        // under way.
        while self.links.len() < 3 {
            let listener = self.listener.as_ref().expect("it is open");
            let (mut link, _) = listener.accept().expect("the node dials");
            link.set_read_timeout(Some(testkit::TIME_LIMIT)).unwrap();
            exactly(&mut link, 16);
            let said = exactly(&mut link, 56);
            let dialled = u32::from_le_bytes(said[48..52].try_into().unwrap());
            let answered = match dialled {
                BULK_IN => BULK_OUT,
                BULK_OUT => BULK_IN,
                other => other,
            };
            link.write_all(&hello(SERVER, CLIENT, answered)).unwrap();
            self.links.insert(dialled, link);
        }
        self.links.get_mut(&kind).unwrap()
    }

    pub(crate) fn send(&mut self, frame: &Frame) {
        self.link(frame.connection)
            .write_all(&frame.bytes)
            .expect("the node listens");
    }

    /// Receives the next frame of the node under test on the connection of this type. `said` is the frame that
    /// the kernel sent in its place.
    pub(crate) fn receive(&mut self, kind: u32, said: &Frame, node: &Node) -> Frame {
        let party = match self.party {
            Party::Client => Party::Server,
            Party::Server => Party::Client,
        };
        let link = self.link(kind);
        let mut bytes = vec![0; 24];
        if let Err(error) = link.read_exact(&mut bytes) {
            let stats = node.stats();
            panic!(
                "no {} on connection {kind}: {error}: {stats:?}",
                said.name()
            );
        }
        if bytes[0] == 0xC1 {
            bytes.extend(exactly(link, 72));
            let length = u32::from_le_bytes(bytes[52..56].try_into().unwrap());
            bytes.extend(exactly(link, length as usize));
        }
        Frame {
            party,
            connection: kind,
            bytes,
        }
    }

    /// Checks that the node has sent nothing else and dropped nothing.
    pub(crate) fn expect_silence(&mut self, node: &Node) {
        assert_eq!(node.stats().drop_count, 0, "{:?}", node.stats().drops);
        for (kind, link) in &mut self.links {
            // An extra frame would be here already, because the node has since answered later frames.
            link.set_read_timeout(Some(Duration::from_millis(50)))
                .unwrap();
            let mut more = [0; 256];
            if let Ok(count @ 1..) = link.read(&mut more) {
                panic!("more on connection {kind}: {:02x?}", &more[..count]);
            }
        }
    }
}
