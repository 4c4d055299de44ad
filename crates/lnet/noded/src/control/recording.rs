//! The requests about the record of a node: its state and its end.

use lnet_core::Recorded;
use lnet_dlc::protocol::Reply;

use super::request::failure;
use crate::managed::ManagedNode;
use crate::record::RecordStatus;

const ENOENT: i32 = 2;

/// The answer about a record that does not exist; a record cannot begin while the node runs.
const NO_RECORD: &str =
    "there is no record: it must begin with the start of the node (finerail node --record FILE)";

/// Returns the state of the record, or its state when it ended.
pub(super) fn status(node: &ManagedNode) -> Reply {
    if let Some(view) = node.record() {
        return Reply::Text(status_text(&view.status()));
    }
    match node.with_core(|core, _| core.recorded()) {
        Some(recorded) => Reply::Text(recorded_text(recorded)),
        None => failure("status", "record", -ENOENT, NO_RECORD),
    }
}

/// Ends the record, and returns its last state.
pub(super) fn stop(node: &ManagedNode) -> Reply {
    let recorder = node.with_core(|core, _| core.end_record());
    let Some(last) = recorder.map(|recorder| recorder.progress()) else {
        let why = node.record().map_or_else(
            || NO_RECORD.to_owned(),
            |view| {
                let RecordStatus { path, events, .. } = view.status();
                let path = path.display();
                format!("the record has ended: {events} events are in {path}")
            },
        );
        return failure("stop", "record", -ENOENT, why);
    };
    Reply::Text(match node.record() {
        Some(view) => status_text(&view.status()),
        None => recorded_text(last),
    })
}

fn status_text(status: &RecordStatus) -> String {
    let path = scalar(status.path.display());
    let missing = status.ended.as_ref().map_or(0, |ended| ended.missing);
    let (events, bytes) = (status.events, status.bytes);
    let counted = recorded_text(Recorded {
        events,
        bytes,
        missing,
    });
    let ended = status.ended.as_ref().map(|ended| &ended.why);
    let ended = ended.map_or(String::new(), |why| format!("    ended: {}\n", scalar(why)));
    format!("{counted}    file: {path}\n{ended}")
}

fn recorded_text(recorded: Recorded) -> String {
    let Recorded {
        events,
        bytes,
        missing,
    } = recorded;
    format!("record:\n    events: {events}\n    bytes: {bytes}\n    missing: {missing}\n")
}

/// Formats a text as a YAML value, in quotes if YAML could read another value.
fn scalar(text: impl ToString) -> String {
    let text = text.to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@, ".contains(c);
    match text.chars().all(is_plain) {
        true => text,
        false => format!("{text:?}"),
    }
}
