//! A core that really sends messages. This module reads what the core would put on the wire, and reports the result
//! of each send to the core.

use lnet_core::{
    Choice, Core, MdOptions, MdSpec, MessageStatus, Output, PutRequest, SelectError, SendQuery,
    StateError, Transmit,
};
use lnet_types::{Nid, ProcessId, Time};
use lnet_wire::{Body, LNET_PORTAL};

use crate::Question;
use crate::explanation::Path;
use crate::node::Node;

/// The portal and the match bits of our messages: the first portal that is not LNet's own, and bits that nothing
/// else uses.
const PORTAL: u32 = 1;
const MATCH_BITS: u64 = 0x6578_706C_6169_6E00;

/// A core made from a state.
#[derive(Debug)]
pub(crate) struct Drive<'a> {
    pub(crate) core: Core,
    pub(crate) now: Time,
    node: &'a Node,
    portal: u32,
}

/// The next thing that happens to our message.
#[derive(Debug)]
pub(crate) enum Step {
    /// The core transmits the message.
    Out(Transmit),
    /// The message has completed; with the errno if it failed.
    Over(Option<i32>),
    /// The message waits for a credit.
    Waits,
}

impl<'a> Drive<'a> {
    pub(crate) fn new(node: &'a Node) -> Result<Self, StateError> {
        let mut drive = Self {
            core: Core::from_selection_state(&node.state, node.now)?,
            now: node.now,
            node,
            portal: PORTAL,
        };
        drive.skip_others();
        Ok(drive)
    }

    /// Returns a core in the same state whose messages are treated as those of other nodes: no peer has seen an
    /// interface of this node, from which the next message would have to leave.
    pub(crate) fn unpinned(self) -> Result<Self, StateError> {
        let mut state = self.core.selection_state();
        for peer_ni in &mut state.peer_nis {
            peer_ni.pinned = None;
        }
        Ok(Self {
            core: Core::from_selection_state(&state, self.now)?,
            portal: LNET_PORTAL,
            ..self
        })
    }

    /// Returns the path that the next message takes.
    pub(crate) fn choose(&self, question: &Question) -> Result<Choice, SelectError> {
        self.core.choose(&SendQuery {
            portal: self.portal,
            ..question.query()
        })
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, question: &Question) -> Step {
        let md = self.core.md_bind(MdSpec {
            length: question.size,
            threshold: Some(1),
            max_size: 0,
            options: MdOptions::NO_TRACK_RESPONSE,
            unlink_when_exhausted: true,
            user: 0,
        });
        let Ok(md) = md else { return Step::Waits };
        let put = PutRequest {
            md,
            ack: false,
            source: question.from,
            target: ProcessId::lustre(question.to),
            portal: self.portal,
            match_bits: MATCH_BITS,
            offset: 0,
            hdr_data: 0,
        };
        if self.core.put(put, self.now).is_err() {
            return Step::Waits;
        }
        self.next()
    }

    /// Runs the core until it has no more output, and returns what happened to our message.
    pub(crate) fn next(&mut self) -> Step {
        self.core.tick(self.now);
        let mut step = Step::Waits;
        while let Some(output) = self.core.poll_output() {
            match output {
                Output::Transmit(transmit) if is_ours(&transmit) => step = Step::Out(transmit),
                Output::Event(event) if event.match_bits == MATCH_BITS => {
                    step = Step::Over(event.status.err().map(|errno| errno.0));
                }
                _ => {}
            }
        }
        step
    }

    /// Reports the result of a try to the core.
    pub(crate) fn answer(&mut self, transmit: &Transmit, status: MessageStatus) {
        self.core.sent(transmit.tx, status, self.now);
    }

    /// Returns the path of a transmitted message.
    pub(crate) fn path_of(&self, transmit: &Transmit) -> Path {
        let mut nis = self.core.nis();
        let source = nis.find(|ni| ni.id == transmit.ni);
        let source = source.map_or(Nid::ANY, |ni| ni.nid);
        path(self.node, source, transmit.to.nid, transmit.header.dest_nid)
    }

    /// Returns the path of a choice.
    pub(crate) fn path(&self, choice: &Choice) -> Path {
        path(
            self.node,
            choice.source,
            choice.next_hop,
            choice.destination,
        )
    }

    fn skip_others(&mut self) {
        while self.core.poll_output().is_some() {}
    }
}

/// Returns the path with these NIDs.
pub(crate) fn path(node: &Node, source: Nid, next_hop: Nid, destination: Nid) -> Path {
    let names = node.facts.interfaces.get(&source);
    Path {
        source: source.to_string(),
        interface: names.and_then(|names| names.first().cloned()),
        gateway: (next_hop != destination).then(|| next_hop.to_string()),
        destination: destination.to_string(),
    }
}

fn is_ours(transmit: &Transmit) -> bool {
    matches!(transmit.header.body, Body::Put(put) if put.match_bits == MATCH_BITS)
}

impl Question {
    /// Returns the query for selection.
    pub(crate) fn query(&self) -> SendQuery {
        SendQuery {
            source: self.from,
            ..SendQuery::to(self.to)
        }
    }
}
