//! The explanation of a past selection, from the record of a node.

use lnet_core::{Selection, Whose};
use serde::Serialize;

use crate::Question;
use crate::drive::path;
use crate::explanation::{Answer, CaseFacts, LevelTable};
use crate::node::Node;
use crate::selection::tell_recorded;
use crate::watch::Recorder;

/// The explanation why a message took its path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// The sender of the message and its target, as text.
    pub message: String,
    /// The path, or the reason why there was no path.
    pub answer: Answer,
    /// Which of the eight cases of a send applied.
    pub classification: Option<CaseFacts>,
    /// The decisions of selection, in their order.
    pub levels: Vec<LevelTable>,
}

/// Explains a selection that a replayed core made. `node` is the node just before that selection: it supplies the
/// names.
#[must_use]
pub fn decision(node: &Node, selection: &Selection) -> Decision {
    let question = Question {
        to: selection.target.nid,
        from: selection.source,
        size: 0,
        sends: 1,
    };
    let mut recorder = Recorder::default();
    selection.tell(&mut recorder);
    let choice = selection.choice;
    let mut told = tell_recorded(node, choice, recorder, &question, |choice| {
        path(node, choice.source, choice.next_hop, choice.destination)
    });
    if selection.whose == Whose::Response {
        told.answer.because = vec!["a response takes the path of its request back".to_owned()];
    }
    Decision {
        message: message(selection),
        answer: told.answer,
        classification: told.classification,
        levels: told.levels,
    }
}

fn message(selection: &Selection) -> String {
    let to = selection.target.nid;
    let again = if selection.again { ", a resend" } else { "" };
    match (selection.whose, selection.source) {
        (Whose::Ours, Some(from)) => format!("message of this node from {from} to {to}{again}"),
        (Whose::Ours, None) => format!("message of this node to {to}{again}"),
        (Whose::Response, _) => format!("response of this node to {to}{again}"),
        (Whose::Forwarded, Some(from)) => format!("forwarded message of {from} to {to}{again}"),
        (Whose::Forwarded, None) => format!("forwarded message to {to}{again}"),
    }
}
