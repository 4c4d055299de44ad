//! The next sends, by really sending in a core made from the state.

use lnet_core::{MessageStatus, StateError};

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
