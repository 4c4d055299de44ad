//! Nodes with a small MGS, MDT or OST on loopback addresses: the server of `lnet-ptlrpc`, driven over real sockets.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use lnet_node::{EventKind, EventQueue, Inbox, Md, Node, NodeOptions, PutRequest, WaitError};
use lnet_ptlrpc::client::Service;
use lnet_ptlrpc::portal;
use lnet_ptlrpc::server::{Answer, LogWriter, Served, Server};
use lnet_types::{Nid, ProcessId};

/// What happens when a request has been executed, and before it is answered: takes the operation.
type BeforeAnswer = Box<dyn FnMut(u32) + Send>;

/// A node with targets.
pub(crate) struct LustreNode {
    node: Node,
    pub(crate) server: Arc<Mutex<Server>>,
    pub(crate) before_answer: Arc<Mutex<Option<BeforeAnswer>>>,
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
        let before_answer = Arc::<Mutex<Option<BeforeAnswer>>>::default();
        for portal in portals {
            let inbox = Inbox::new(&node, portal, 4096).unwrap();
            let (node, server) = (node.clone(), Arc::clone(&server));
            let before_answer = Arc::clone(&before_answer);
            thread::spawn(move || serve(&node, inbox, portal, &server, &before_answer));
        }
        Self {
            node,
            server,
            before_answer,
        }
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

fn serve(
    node: &Node,
    mut inbox: Inbox,
    portal: u32,
    server: &Mutex<Server>,
    before_answer: &Mutex<Option<BeforeAnswer>>,
) {
    let begun = Instant::now();
    let queue = node.event_queue();
    let mut late: Vec<(Instant, Answer, ProcessId)> = Vec::new();
    loop {
        let next = late.iter().map(|(due, ..)| *due).min();
        let left = next.map(|due| due.saturating_duration_since(Instant::now()));
        let (mut answers, mut to) = (Vec::new(), None);
        match inbox.next(left) {
            Ok(message) => {
                let mut server = server.lock().unwrap();
                server.at(begun.elapsed());
                answers = server.request(portal, message.match_bits, &message.data);
                to = Some(message.from);
                let asked = server.asked.last().copied();
                drop(server);
                if let (Some(hook), Some(asked)) = (&mut *before_answer.lock().unwrap(), asked) {
                    hook(asked);
                }
            }
            Err(WaitError::TimedOut | WaitError::PathLost) => {}
            Err(_) => return,
        }
        let now = Instant::now();
        let answers = answers.into_iter().zip(to.into_iter().cycle());
        late.extend(answers.map(|(answer, to)| (now + answer.after, answer, to)));
        for (_, answer, to) in late.extract_if(.., |(due, ..)| *due <= now) {
            if !send(node, &queue, answer, to) {
                return;
            }
        }
        while queue.try_next().is_some() {}
    }
}

/// Sends an answer; returns whether that was possible. A server replies when the client has its bulk.
fn send(node: &Node, queue: &EventQueue, answer: Answer, target: ProcessId) -> bool {
    let ack = answer.portal == portal::MGS_BULK;
    let source = Md::source(answer.bytes).threshold(if ack { 2 } else { 1 });
    let sent = node.bind(queue, source).and_then(|md| {
        node.put(PutRequest {
            md,
            ack,
            source: None,
            target,
            portal: answer.portal,
            match_bits: answer.match_bits,
            offset: 0,
            hdr_data: 0,
        })
    });
    let is_sent = sent.is_ok();
    if ack && is_sent {
        while queue
            .wait(None)
            .is_ok_and(|it| it.event.kind != EventKind::Ack)
        {}
    }
    is_sent
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
