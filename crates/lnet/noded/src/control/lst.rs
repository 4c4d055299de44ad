//! Passes commands of `lst` to the node's console of LNet selftest, if the program has one.

use std::io;

use lnet_dlc::protocol::{Reply, Said, is_lst_key};

use super::connection::Pieces;
use super::request::failure;
use crate::managed::ManagedNode;

const EINVAL: i32 = 22;
const EOPNOTSUPP: i32 = 95;

/// Carries out a command. Each line of its output is a piece of the answer.
pub(super) fn carry_out(
    node: &ManagedNode,
    key: &str,
    words: &[String],
    send: Pieces<'_>,
) -> io::Result<Reply> {
    if !is_lst_key(key) {
        let descr = "the key of a session is 1 to 64 letters, digits, dots, dashes, underscores";
        return Ok(failure("manage", "lst", -EINVAL, descr));
    }
    let Some(tests) = node.tests() else {
        let descr = "the node does not serve selftest: start it with finerail node --selftest";
        return Ok(failure("manage", "lst", -EOPNOTSUPP, descr));
    };
    let code = tests.carry_out(key, words, &mut |said| send(piece(&said)?))?;
    piece(&Said::Code(code))
}

fn piece(said: &Said) -> io::Result<Reply> {
    Ok(Reply::Text(serde_json::to_string(said)?))
}
