//! The answering nodes: targets, router, and the endpoint that idles.

use anyhow::bail;
use lnet_node::{
    EventKind, EventQueue, MatchEntry, Md, MdHandle, MdOptions, Node, NodeEvent, Progress,
    PutRequest,
};

use super::{COLD_PORTAL, DATA_PORTAL, DONE_PORTAL, IDLE, MATCH_BITS, Place, ROUTER};
use crate::bench::peer::{self, PeerArgs};
use crate::bench::workload::{COLD_BUFFERS, LARGE};

/// Takes PUTs into, and answers GETs from, one warm buffer and many cold ones, until the process ends.
pub(in crate::bench) fn serve(place: Place, args: &PeerArgs) -> anyhow::Result<()> {
    let node = place.start(args.port, &args.congestion, Progress::Caller)?;
    let queue = node.event_queue();
    let options = MdOptions::OP_PUT | MdOptions::OP_GET | MdOptions::MANAGE_REMOTE;
    let entry = MatchEntry::exact(DATA_PORTAL, MATCH_BITS);
    node.attach(&queue, entry, Md::sink(vec![0x5A; LARGE]).options(options))?;
    // The offset in the request says which of the buffers it is.
    let entry = MatchEntry::exact(COLD_PORTAL, MATCH_BITS);
    let cold = Md::sink(vec![0x5A; COLD_BUFFERS * LARGE]).options(options);
    node.attach(&queue, entry, cold)?;
    let done = node.bind(&queue, Md::source(Vec::new()))?;
    peer::ready(args.port)?;
    count_streams(&node, &queue, done)
}

/// Counts the PUTs of each stream, and tells its initiator when the last has arrived.
fn count_streams(node: &Node, queue: &EventQueue, done: MdHandle) -> anyhow::Result<()> {
    let mut arrived = 0;
    while let Ok(NodeEvent { event, .. }) = queue.wait(None) {
        if let Err(errno) = event.status {
            bail!("{:?} failed with errno {}", event.kind, errno.0);
        }
        // Round trips have no header data.
        if event.kind != EventKind::Put || event.hdr_data == 0 {
            continue;
        }
        arrived += 1;
        if arrived == event.hdr_data {
            arrived = 0;
            node.put(PutRequest {
                md: done,
                ack: false,
                source: None,
                target: event.initiator,
                portal: DONE_PORTAL,
                match_bits: MATCH_BITS,
                offset: 0,
                hdr_data: 0,
            })?;
        }
    }
    Ok(())
}

/// Forwards until the process ends.
pub(in crate::bench) fn forward(args: &PeerArgs) -> anyhow::Result<()> {
    let node = ROUTER.start(args.port, &args.congestion, Progress::Caller)?;
    // Nothing is ever put there: waiting drives the node.
    let queue = node.event_queue();
    peer::ready(args.port)?;
    while queue.wait(None).is_ok() {}
    Ok(())
}

/// Does nothing, as an endpoint does it outside of benches, until the process ends.
pub(in crate::bench) fn idle(args: &PeerArgs) -> anyhow::Result<()> {
    let node = IDLE.start(args.port, &args.congestion, Progress::Thread)?;
    peer::ready(args.port)?;
    let queue = node.event_queue();
    while queue.wait(None).is_ok() {}
    Ok(())
}
