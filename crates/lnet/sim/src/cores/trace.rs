//! Records one line for every event.
//!
//! ```text
//!   SECONDS NODE WHAT
//!
//!   1.000000000 client0 put #3 to server1, 4096 bytes, ack      a program begins an operation
//!   1.000000000 client0 PUT #3 10.0.0.1@o2ib -> 10.0.0.9@o2ib   its core sends, from an interface to a hop
//!   1.000002409 server1 got PUT #3 at 10.0.0.9@o2ib             a message is in its place
//!   1.000002409 server1 dropped at 10.0.0.9@o2ib: NoMatch       or the node dropped it
//!   1.000002409 client0 sent 1 at 10.0.0.1@o2ib: Ok             a driver reports the result of a transmission
//!   1.000002409 client0 event Send #3 Ok(()) unlinked           a program gets an event
//!   5.000000000 - fault begins: port of server1 10.0.0.9@o2ib down
//! ```

use std::fmt::Write;

use lnet_core::{DropReason, Event, MessageStatus, Transmit, TxId};
use lnet_types::Nid;
use lnet_wire::Header;

use crate::cores::plan::{Operation, OperationKind, PortId, ShownTrouble, Trouble, World};
use crate::cores::sim::operation_of;
use crate::invariant::Seconds;

/// The lines, if they were requested.
#[derive(Debug)]
pub(crate) struct Trace(Option<String>);

/// Displays a message's type, and the number of its operation if it has one.
struct Shown<'a>(&'a Header);

impl std::fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = self.0.body.message_type();
        match operation_of(self.0) {
            Some(operation) => write!(f, "{kind:?} #{operation}"),
            None => write!(f, "{kind:?}"),
        }
    }
}

impl Trace {
    pub(crate) fn new(wanted: bool) -> Self {
        Self(wanted.then(String::new))
    }

    pub(crate) fn into_text(self) -> Option<String> {
        self.0
    }

    fn line(&mut self, now: u64, node: &str, what: std::fmt::Arguments<'_>) {
        if let Some(text) = &mut self.0 {
            // Writing to a string cannot fail.
            let _written = writeln!(text, "{:>14} {node} {what}", Seconds(now));
        }
    }

    pub(crate) fn operation(&mut self, now: u64, world: &World, index: u32, operation: &Operation) {
        let Operation {
            from,
            to,
            kind,
            length,
            ..
        } = *operation;
        let kind = match kind {
            OperationKind::Put => "put",
            OperationKind::PutAck => "put with ack",
            OperationKind::Get => "get",
        };
        let to = world.node_name(to);
        let what = format_args!("{kind} #{index} to {to}, {length} bytes");
        self.line(now, world.node_name(from), what);
    }

    pub(crate) fn transmit(&mut self, now: u64, world: &World, node: u32, transmit: &Transmit) {
        let own = match transmit.ni.0.checked_sub(1) {
            Some(ni) => world
                .nodes
                .get(node as usize)
                .and_then(|n| n.nis.get(ni as usize)),
            None => None,
        };
        let own = own.map_or(Nid::LOOPBACK, |ni| ni.nid);
        let (tx, to, what) = (
            transmit.tx.0 as u32,
            transmit.to.nid,
            Shown(&transmit.header),
        );
        let what = format_args!("send {tx}: {what} {own} -> {to}");
        self.line(now, world.node_name(node), what);
    }

    pub(crate) fn arrival(&mut self, now: u64, world: &World, at: PortId, header: &Header) {
        if self.0.is_some() {
            let (what, from) = (Shown(header), header.src_nid);
            let (node, nid) = (world.node_name(at.node), nid_of(world, at));
            self.line(now, node, format_args!("got {what} from {from} at {nid}"));
        }
    }

    pub(crate) fn drop_message(&mut self, now: u64, world: &World, at: PortId, reason: DropReason) {
        let (node, nid) = (world.node_name(at.node), nid_of(world, at));
        self.line(now, node, format_args!("dropped at {nid}: {reason:?}"));
    }

    pub(crate) fn sent(
        &mut self,
        now: u64,
        world: &World,
        at: PortId,
        tx: TxId,
        status: MessageStatus,
    ) {
        let (node, nid, tx) = (world.node_name(at.node), nid_of(world, at), tx.0 as u32);
        self.line(now, node, format_args!("sent {tx} at {nid}: {status:?}"));
    }

    pub(crate) fn event(&mut self, now: u64, world: &World, node: u32, event: &Event) {
        let Event {
            kind,
            status,
            user,
            match_bits,
            unlinked,
            ..
        } = event;
        let operation = if *user == u64::MAX { match_bits } else { user };
        let end = if *unlinked { " unlinked" } else { "" };
        let what = format_args!("event {kind:?} #{operation} {status:?}{end}");
        self.line(now, world.node_name(node), what);
    }

    pub(crate) fn gateway(&mut self, now: u64, world: &World, node: u32, nid: Nid, alive: bool) {
        let state = if alive { "alive" } else { "dead" };
        self.line(
            now,
            world.node_name(node),
            format_args!("gateway {nid} {state}"),
        );
    }

    pub(crate) fn fault(&mut self, now: u64, world: &World, verb: &str, trouble: &Trouble) {
        let what = ShownTrouble(world, trouble);
        self.line(now, "-", format_args!("fault {verb}: {what}"));
    }
}

fn nid_of(world: &World, at: PortId) -> Nid {
    let node = world.nodes.get(at.node as usize);
    node.and_then(|node| node.nis.get(usize::from(at.ni)))
        .map_or(Nid::ANY, |ni| ni.nid)
}
