//! Forecasts the next sends: a core that is made from the state sends them.

use lnet_core::{MessageStatus, SelectError, StateError};
use lnet_types::Nid;

use crate::Question;
use crate::drive::{Drive, Step};
use crate::explanation::{Forecast, Path, Pick, Share};
use crate::node::Node;

/// The limit on the picks that are listed. Shares are counted over all sends.
const PICKS_MAX: u32 = 100;

/// Forecasts the paths of the next messages.
pub(crate) fn forecast(node: &Node, question: &Question) -> Result<Forecast, StateError> {
    Ok(Forecast {
        picks: picks(node, question)?,
        shares: shares(node, question)?,
    })
}

/// Returns the paths of the next sends if none of them completes, so that credits and queued bytes count.
fn picks(node: &Node, question: &Question) -> Result<Vec<Pick>, StateError> {
    let mut drive = Drive::new(node)?;
    let picks = (0..question.sends.min(PICKS_MAX)).map(|_| {
        let path = drive
            .choose(question)
            .ok()
            .map(|choice| drive.path(&choice));
        let step = drive.send(question);
        Pick {
            waits: path.is_some() && matches!(step, Step::Waits),
            path,
        }
    });
    Ok(picks.collect())
}

/// Returns the paths of the sends if each send completes before the next. The path with the most traffic comes
/// first.
fn shares(node: &Node, question: &Question) -> Result<Vec<Share>, StateError> {
    let mut drive = Drive::new(node)?;
    let mut shares: Vec<Share> = Vec::new();
    for _ in 0..question.sends {
        let chosen = drive.choose(question).ok();
        let path = chosen.map(|choice| drive.path(&choice));
        if let Step::Out(transmit) = drive.send(question) {
            drive.answer(&transmit, MessageStatus::Ok);
            drive.next();
        }
        count(&mut shares, path);
    }
    shares.sort_by(|a, b| b.sends.cmp(&a.sends).then_with(|| a.path.cmp(&b.path)));
    Ok(shares)
}

fn count(shares: &mut Vec<Share>, path: Option<Path>) {
    match shares.iter_mut().find(|share| share.path == path) {
        Some(share) => share.sends += 1,
        None => shares.push(Share { path, sends: 1 }),
    }
}

/// A path by its NIDs, with the number of messages on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Way {
    /// The local NID.
    pub source: Nid,
    /// The next hop: the destination, or a gateway.
    pub next_hop: Nid,
    /// The destination. If the peer is Multi-Rail, this may be another NID than the one that was asked for.
    pub destination: Nid,
    /// The number of messages that take this path.
    pub sends: u32,
}

/// Returns the paths of the next messages to a NID, in the order of their first use. Each message completes before
/// the next is sent. The inner error says why the first message has no path. If `forwards` is set, the messages are
/// messages of other nodes that this node forwards: they leave from any of its NIs.
///
/// # Errors
///
/// Returns an error if no node can be in this state.
pub fn ways(
    node: &Node,
    to: Nid,
    sends: u32,
    forwards: bool,
) -> Result<Result<Vec<Way>, SelectError>, StateError> {
    let question = Question {
        to,
        from: None,
        size: 0,
        sends,
    };
    let mut drive = Drive::new(node)?;
    if forwards {
        drive = drive.unpinned()?;
    }
    let mut ways: Vec<Way> = Vec::new();
    for _ in 0..sends {
        let choice = match drive.choose(&question) {
            Ok(choice) => choice,
            Err(error) if ways.is_empty() => return Ok(Err(error)),
            Err(_) => break,
        };
        let pair = (choice.source, choice.next_hop, choice.destination);
        let same = |way: &&mut Way| (way.source, way.next_hop, way.destination) == pair;
        match ways.iter_mut().find(same) {
            Some(way) => way.sends += 1,
            None => ways.push(Way {
                source: choice.source,
                next_hop: choice.next_hop,
                destination: choice.destination,
                sends: 1,
            }),
        }
        if let Step::Out(transmit) = drive.send(&question) {
            drive.answer(&transmit, MessageStatus::Ok);
            drive.next();
        }
        // A message of this node to a peer that is not Multi-Rail pins the peer; a forwarded message does not.
        if forwards && choice.next_hop != choice.destination {
            drive = drive.unpinned()?;
        }
    }
    Ok(Ok(ways))
}
