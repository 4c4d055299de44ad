//! Nodes with a small MGS, MDT or OST on loopback addresses: the server of `lnet-ptlrpc`, driven over real sockets.

use std::sync::{Arc, Mutex};
use std::thread;

use lnet_node::{Inbox, Md, Node, NodeOptions, PutRequest};
use lnet_ptlrpc::client::Service;
use lnet_ptlrpc::server::{LogWriter, Served, Server};
use lnet_types::Nid;

/// A node with targets.
pub(crate) struct LustreNode {
    node: Node,
    pub(crate) server: Arc<Mutex<Server>>,
}

impl LustreNode {
    /// Starts a node with these NIDs.
    pub(crate) fn start(port: u16, nids: &[&str], targets: Vec<Served>) -> Self {
        let options = NodeOptions {
            port,
            ..NodeOptions::default()
        };
        let nids: Vec<Nid> = nids.iter().map(|nid| nid.parse().unwrap()).collect();
        Self::of(Node::start_on(options, &nids).unwrap(), targets)
    }

    /// Starts a node of this document.
    pub(crate) fn configured(port: u16, document: &str, targets: Vec<Served>) -> Self {
        let options = NodeOptions {
            port,
            ..NodeOptions::default()
        };
        let config = lnet_config::parse(document).unwrap();
        let node = lnet_noded::start(&config, options).unwrap();
        Self::of(node.into_node(), targets)
    }

    fn of(node: Node, targets: Vec<Served>) -> Self {
        let services = [Service::Mgs, Service::Mdt, Service::Ost];
        let services = services
            .into_iter()
            .filter(|service| targets.iter().any(|served| served.service == *service));
        let portals: Vec<u32> = services.map(Service::request_portal).collect();
        let server = Arc::new(Mutex::new(Server::new(targets)));
        for portal in portals {
            let inbox = Inbox::new(&node, portal, 4096).unwrap();
            let (node, server) = (node.clone(), Arc::clone(&server));
            thread::spawn(move || serve(&node, inbox, portal, &server));
        }
        Self { node, server }
    }

    /// Asserts that nothing came that could do harm.
    pub(crate) fn expect_no_harm(&self, what: &str) {
        assert_eq!(
            self.server.lock().unwrap().harm(),
            [] as [String; 0],
            "{what}"
        );
    }
}

impl Drop for LustreNode {
    fn drop(&mut self) {
        self.node.shutdown(std::time::Duration::ZERO);
    }
}

fn serve(node: &Node, mut inbox: Inbox, portal: u32, server: &Mutex<Server>) {
    let queue = node.event_queue();
    while let Ok(message) = inbox.next(None) {
        let answers = server
            .lock()
            .unwrap()
            .request(portal, message.match_bits, &message.data);
        for answer in answers {
            let md = node.bind(&queue, Md::source(answer.bytes).threshold(1));
            let sent = md.and_then(|md| {
                node.put(PutRequest {
                    md,
                    ack: false,
                    source: None,
                    target: message.from,
                    portal: answer.portal,
                    match_bits: answer.match_bits,
                    offset: 0,
                    hdr_data: 0,
                })
            });
            if sent.is_err() {
                return;
            }
        }
        while queue.try_next().is_some() {}
    }
}

/// Returns the 8-byte form of a NID, and its text.
pub(crate) fn nid(text: &str) -> (u64, &str) {
    let parsed = text.parse::<Nid>().ok().and_then(Nid::to_nid4);
    (parsed.unwrap_or(0), text)
}

/// Returns the log of these targets: the name, and the NIDs of each node.
pub(crate) fn log_of(targets: &[(&str, &[&[&str]])]) -> LogWriter {
    let mut log = LogWriter::default();
    for (name, nodes) in targets {
        let nodes: Vec<Vec<(u64, &str)>> = nodes
            .iter()
            .map(|node| node.iter().map(|text| nid(text)).collect())
            .collect();
        let nodes: Vec<&[(u64, &str)]> = nodes.iter().map(Vec::as_slice).collect();
        log.target(name, &nodes);
    }
    log
}
