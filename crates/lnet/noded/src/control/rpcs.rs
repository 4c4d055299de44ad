//! The requests about Lustre's RPCs: their counts, and those that end from now on.

use std::io;
use std::time::Duration;

use lnet_dlc::protocol::{Happening, Reply, RpcFilter};

use super::connection::Pieces;
use super::request::failure;
use crate::managed::ManagedNode;

const ENOENT: i32 = 2;

/// The longest time without a write: only a write shows that the client has closed its connection.
const SILENCE_MAX: Duration = Duration::from_millis(500);

/// Returns what is counted.
pub(super) fn numbers(node: &ManagedNode) -> io::Result<Reply> {
    let Some(rpcs) = node.rpcs() else {
        return Ok(not_counted());
    };
    let now = node.with_core(|_, now| now);
    Ok(Reply::Text(serde_json::to_string(&rpcs.numbers(now))?))
}

/// Sends RPCs until the client closes its connection, which is an error of `send`.
pub(super) fn tell(node: &ManagedNode, filter: RpcFilter, send: Pieces<'_>) -> io::Result<Reply> {
    let Some(rpcs) = node.rpcs() else {
        return Ok(not_counted());
    };
    let watch = rpcs.watch(filter);
    send(piece(&[])?)?;
    loop {
        send(piece(&watch.page(SILENCE_MAX))?)?;
    }
}

fn piece(rpcs: &[Happening]) -> io::Result<Reply> {
    Ok(Reply::Text(serde_json::to_string(rpcs)?))
}

fn not_counted() -> Reply {
    let why = "this node does not count RPCs: start it with `finerail node --rpc`";
    failure("show", "rpc", -ENOENT, why)
}
