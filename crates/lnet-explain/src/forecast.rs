//! The next sends, by really sending in a core made from the state.

use lnet_core::{MessageStatus, SelectError, StateError};
use lnet_types::Nid;

use crate::Question;
use crate::drive::{Drive, Step};
use crate::explanation::{Forecast, Path, Pick, Share};
use crate::node::Node;

/// Picks that are listed; shares are counted over all sends.
const PICKS_MAX: u32 = 100;

/// What the next messages do.
pub(crate) fn forecast(node: &Node, question: &Question) -> Result<Forecast, StateError> {
    Ok(Forecast {
        picks: picks(node, question)?,
        shares: shares(node, question)?,
    })
}

/// The next sends when none completes: credits and queued bytes count.
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

/// The paths of sends each of which completes before the next, those of most traffic first.
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

/// A path by its NIDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Way {
    /// The local NID.
    pub source: Nid,
    /// The next hop: the destination, or a gateway.
    pub next_hop: Nid,
    /// The destination; another NID than asked for where the peer is Multi-Rail.
    pub destination: Nid,
    /// How many of the messages went this way.
    pub sends: u32,
}

/// The paths of the next messages to a NID, each of which completes before the next, in the order of their first use;
/// or why the first has none. Messages of others that the node passes on (`forwards`) come from any of its interfaces.
///
/// # Errors
///
/// When no node can be in this state.
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
        drive = drive.unpinned();
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
    }
    Ok(Ok(ways))
}
