//! The nodes that answer: targets, router, and the idle endpoint.

use anyhow::bail;
use lnet_node::{
    EventKind, EventQueue, MatchEntry, Md, MdHandle, MdOptions, Node, NodeEvent, NodeOptions,
    Progress, PutRequest,
};
use lnet_noded::{ControlEndpoint, ControlOptions, RpcCounts};
use lnet_ptlrpc::client::Service;
use lnet_types::ProcessId;

use super::{BULK_PORTAL, COLD_PORTAL, DATA_PORTAL, DONE_PORTAL, IDLE, MATCH_BITS, Place, ROUTER};
use crate::peer::{self, PeerArgs};
use crate::workload::{COLD_BUFFERS, LARGE, SMALL};

/// Accepts PUTs into, and answers GETs from, one warm buffer and many cold ones, until the process ends.
pub(crate) fn serve(place: Place, args: &PeerArgs) -> anyhow::Result<()> {
    let managed = place.start_with(options(args, Progress::Caller))?;
    let _endpoint = match args.control.clone() {
        Some(path) => Some(ControlEndpoint::open(
            &managed,
            &ControlOptions { path, group: None },
        )?),
        None => None,
    };
    let node = managed.into_node();
    let queue = node.event_queue();
    let options = MdOptions::OP_PUT | MdOptions::OP_GET | MdOptions::MANAGE_REMOTE;
    let entry = MatchEntry::exact(DATA_PORTAL, MATCH_BITS);
    node.attach(&queue, entry, Md::sink(vec![0x5A; LARGE]).options(options))?;
    for portal in [BULK_PORTAL, Service::Ost.request_portal()] {
        let entry = MatchEntry::exact(portal, MATCH_BITS);
        node.attach(&queue, entry, Md::sink(vec![0; SMALL]).options(options))?;
    }
    // The offset in the request selects the buffer.
    let entry = MatchEntry::exact(COLD_PORTAL, MATCH_BITS);
    // Zeroed memory takes no pages before it is written: not every target receives cold streams.
    let cold = Md::sink(vec![0; COLD_BUFFERS * LARGE]).options(options);
    node.attach(&queue, entry, cold)?;
    let done = node.bind(&queue, Md::source(Vec::new()))?;
    peer::ready(args.port)?;
    count_streams(&node, &queue, done)
}

/// Returns the options of a peer's node.
fn options(args: &PeerArgs, progress: Progress) -> NodeOptions {
    NodeOptions {
        port: args.port,
        progress,
        io_threads: args.threads.max(1),
        spin: args.spin,
        congestion: Some(args.congestion.clone()),
        ..NodeOptions::default()
    }
}

/// Counts the PUTs of each stream, and tells its initiator when the last one has arrived.
fn count_streams(node: &Node, queue: &EventQueue, done: MdHandle) -> anyhow::Result<()> {
    // The streams in progress; there are only a few.
    let mut streams: Vec<(ProcessId, u64)> = Vec::new();
    while let Ok(NodeEvent { event, .. }) = queue.wait(None) {
        if let Err(errno) = event.status {
            bail!("{:?} failed with errno {}", event.kind, errno.0);
        }
        // Round trips have no header data.
        if event.kind != EventKind::Put || event.hdr_data == 0 {
            continue;
        }
        let known = streams.iter().position(|&(of, _)| of == event.initiator);
        let at = known.unwrap_or_else(|| {
            streams.push((event.initiator, 0));
            streams.len() - 1
        });
        streams[at].1 += 1;
        if streams[at].1 == event.hdr_data {
            streams.swap_remove(at);
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

/// Forwards messages until the process ends.
pub(crate) fn forward(args: &PeerArgs) -> anyhow::Result<()> {
    let progress = match args.threads {
        0 => Progress::Caller,
        _ => Progress::Thread,
    };
    let node = ROUTER.start_with(options(args, progress))?.into_node();
    let _counts = match args.rpc {
        true => Some(RpcCounts::start(&node)?),
        false => None,
    };
    // No PUT ever reaches this queue. The wait drives a node that has no threads.
    let queue = node.event_queue();
    peer::ready(args.port)?;
    while queue.wait(None).is_ok() {}
    Ok(())
}

/// Does nothing, like an endpoint in production, until the process ends.
pub(crate) fn idle(args: &PeerArgs) -> anyhow::Result<()> {
    let node = IDLE.start(args.port, &args.congestion, Progress::Thread)?;
    peer::ready(args.port)?;
    let queue = node.event_queue();
    while queue.wait(None).is_ok() {}
    Ok(())
}
