//! The way back: the same analysis on the peer, when its outputs are given.

use lnet_core::StateError;
use serde::Serialize;

use crate::Question;
use crate::explanation::Explanation;
use crate::node::Node;

/// The way back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reverse {
    /// What the peer does with a message of its own to the NID that the first message came from.
    pub explanation: Explanation,
    /// How the two ways differ; answers (ACK, REPLY) go back as the request came.
    pub asymmetric: Vec<String>,
}

/// Explains a message from the peer to the NID that `forward` leaves from; `None` when it has no path.
///
/// # Errors
///
/// When no node can be in the peer's state.
pub fn reverse(
    peer: &Node,
    forward: &Explanation,
    question: &Question,
) -> Result<Option<Reverse>, StateError> {
    let Some(there) = &forward.answer.path else {
        return Ok(None);
    };
    let Ok(to) = there.source.parse() else {
        return Ok(None);
    };
    let back = Question {
        to,
        from: None,
        ..*question
    };
    let explanation = crate::explain(peer, &back)?;
    let asymmetric = match &explanation.answer.path {
        Some(back) => differences(there, back),
        None => vec!["there is no way back".to_owned()],
    };
    Ok(Some(Reverse {
        explanation,
        asymmetric,
    }))
}

fn differences(there: &crate::Path, back: &crate::Path) -> Vec<String> {
    let mut told = Vec::new();
    if back.source != there.destination {
        told.push(format!(
            "back it comes from {}, not {}",
            back.source, there.destination
        ));
    }
    if back.destination != there.source {
        told.push(format!(
            "back it goes to {}, not {}",
            back.destination, there.source
        ));
    }
    match (&there.gateway, &back.gateway) {
        (Some(gateway), None) => told.push(format!("there it goes by {gateway}, back directly")),
        (None, Some(gateway)) => told.push(format!("there it goes directly, back by {gateway}")),
        _ => {}
    }
    told
}
