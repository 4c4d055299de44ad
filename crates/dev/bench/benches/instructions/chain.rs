//! A client and a server with a router between them.

use lnet_core::{MdHandle, MdOptions, PutRequest, Route};
use lnet_node::stack::Memory as Lent;
use lnet_noded::RpcQueue;

use crate::memory::Memory;
use crate::pair::{NOW, Node, Setting};

/// Lustre's portals of bulk, of which a counting router reads the header, and of requests, of which it also copies
/// 1 KiB.
const PORTALS: [u32; 2] = [BULK, REQUEST];
pub(crate) const BULK: u32 = 8;
pub(crate) const REQUEST: u32 = 28;

/// A client, a router and a server.
pub(crate) struct Chain {
    client: Node,
    /// The node that forwards.
    pub(crate) router: Node,
    server: Node,
    /// Payload of 4 KiB.
    source: MdHandle,
    /// Where the router's messages go if it counts RPCs.
    queue: Option<RpcQueue>,
}

impl Chain {
    /// Returns a chain that has forwarded enough messages that everything which grows has grown.
    pub(crate) fn warm(is_counting: bool) -> Box<Self> {
        let network = Memory::default();
        let mut client = Node::new(1, &["10.0.0.1@tcp"], &network, Setting::Plain);
        let mut router = Node::new(
            2,
            &["10.0.0.2@tcp", "10.0.1.2@tcp1"],
            &network,
            Setting::Plain,
        );
        let mut server = Node::new(3, &["10.0.1.3@tcp1"], &network, Setting::Plain);
        let route =
            |net: &str, gateway: &str| Route::new(net.parse().unwrap(), gateway.parse().unwrap());
        let core = &mut client.stack.side.core;
        core.add_route(route("tcp1", "10.0.0.2@tcp"), NOW).unwrap();
        let core = &mut server.stack.side.core;
        core.add_route(route("tcp", "10.0.1.2@tcp1"), NOW).unwrap();
        let source = client.bind(Lent::Source(vec![7; 4096].into()));
        for portal in PORTALS {
            server.attach(Lent::Sink(vec![0; 4096]), portal, 1, MdOptions::OP_PUT);
        }
        let queue = is_counting.then(|| {
            let (watcher, queue) = RpcQueue::new();
            router.stack.watch_messages(Some(watcher));
            queue
        });
        let mut chain = Box::new(Self {
            client,
            router,
            server,
            source,
            queue,
        });
        for _ in 0..8 {
            for portal in PORTALS {
                chain.put(portal, 64);
            }
            chain.settle();
        }
        chain
    }

    /// Sends messages of 4 KiB, up to the router.
    pub(crate) fn put(&mut self, portal: u32, count: usize) {
        for _ in 0..count {
            let request = PutRequest {
                md: self.source,
                ack: false,
                source: None,
                target: self.server.id,
                portal,
                match_bits: 1,
                offset: 0,
                hdr_data: 0,
            };
            self.client.stack.side.core.put(request, NOW).unwrap();
        }
        self.client.run();
    }

    /// Returns how many messages the server got, when nothing is under way any more.
    pub(crate) fn settle(&mut self) -> usize {
        while self.client.run() | self.router.run() | self.server.run() {}
        if let Some(queue) = &mut self.queue {
            queue.count_now();
        }
        let arrived = self.server.events();
        self.client.forget_events();
        self.server.forget_events();
        arrived
    }
}
