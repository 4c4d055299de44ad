//! RPCs of clients with a server, as a router shows them to the thread that counts.

use std::time::Duration;

use lnet_node::stack::{Shown, Watcher};
use lnet_noded::RpcQueue;
use lnet_ptlrpc::client::{Exchange, Export, Limits, Service, Start, Step};
use lnet_ptlrpc::server::{Served, Server};
use lnet_types::Nid;
use lnet_wire::{Body, Handle, Header, Put};

use crate::pair::NOW;

const TARGET: &str = "fs1-OST0000_UUID";

/// The RPCs of one client: connect, ping, statfs, disconnect.
pub(crate) const EACH: usize = 4;

/// A queue with the requests and replies of clients, one client after another.
pub(crate) struct Waiting {
    watcher: Box<dyn Watcher>,
    pub(crate) queue: RpcQueue,
    server: Server,
    client: u64,
}

impl Waiting {
    /// Returns a queue that has held enough RPCs that everything which grows has grown, with those of `clients` in it.
    pub(crate) fn with(clients: usize) -> Box<Self> {
        let (watcher, queue) = RpcQueue::new();
        let server = Server::new(vec![Served::new(Service::Ost, TARGET)]);
        let mut waiting = Box::new(Self {
            watcher,
            queue,
            server,
            client: 0,
        });
        for _ in 0..4 {
            (0..64).for_each(|_| waiting.converse());
            waiting.queue.count_now();
        }
        (0..clients).for_each(|_| waiting.converse());
        waiting
    }

    /// Shows the RPCs of one more client.
    fn converse(&mut self) {
        self.client += 1;
        let address = 0x0a00_0000 + self.client as u32 % 64;
        let client = Nid::from_number("tcp".parse().unwrap(), address);
        let server = "10.1.0.1@tcp1".parse().unwrap();
        let uuid = format!("00000000-0000-4000-8000-{:012}", self.client);
        let start = Start {
            first_xid: self.client << 12,
            limits: Limits::within(Duration::from_secs(60)),
            now: NOW,
        };
        let mut exchange = Exchange::knock(Export::new(Service::Ost, TARGET, uuid, 7), start);
        while let Step::Send(request) = exchange.step(NOW) {
            let (portal, bits) = (request.portal, request.match_bits);
            self.show([client, server], portal, bits, &request.bytes);
            for reply in self.server.request(portal, bits, &request.bytes) {
                let bits = reply.match_bits;
                self.show([server, client], reply.portal, bits, &reply.bytes);
                exchange.answer(bits, &reply.bytes, reply.bytes.len(), NOW);
            }
        }
    }

    fn show(&mut self, [from, to]: [Nid; 2], portal: u32, match_bits: u64, bytes: &[u8]) {
        let header = Header {
            dest_nid: to,
            src_nid: from,
            dest_pid: 12345,
            src_pid: 12345,
            payload_length: bytes.len() as u32,
            body: Body::Put(Put {
                ack_wmd: Handle::NONE,
                match_bits,
                hdr_data: 0,
                ptl_index: portal,
                offset: 0,
            }),
        };
        self.watcher.take(Shown {
            ni: None,
            header: &header,
            head: &bytes[..bytes.len().min(1024)],
            time: NOW,
        });
    }
}
