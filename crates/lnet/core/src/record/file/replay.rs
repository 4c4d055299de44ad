//! Replays a record on a core, event by event.

use std::io::BufRead;

use lnet_types::Time;

use super::Chain;
use super::decision::{chain, hash};
use super::log::{BadLog, Log};
use crate::{Answer, Core, Input, Output, Selection};

/// A core that receives the inputs of a record.
#[derive(Debug)]
pub struct Replay<R> {
    log: Log<R>,
    core: Core,
    chain: Chain,
    scratch: Vec<u8>,
}

/// An event of a record, and the decision of the core in this replay.
#[derive(Clone, Debug)]
pub struct Step {
    /// The number of the event, counted from 1.
    pub number: u64,
    /// The time of the event: that of the input, or the latest before it.
    pub at: Time,
    /// The input.
    pub input: Input,
    /// The answer of the core.
    pub answer: Answer,
    /// The outputs of the core.
    pub outputs: Vec<Output>,
    /// The selections of paths in this event, if requested.
    pub selections: Vec<Selection>,
    /// True if the node made the same decision; `None` if the record ends before the decision.
    pub agrees: Option<bool>,
}

impl<R: BufRead> Replay<R> {
    /// A core in the state in which the node's core began.
    #[must_use]
    pub fn new(log: Log<R>) -> Self {
        let begin = log.begin();
        Self {
            core: Core::new(begin.config.clone(), begin.at),
            chain: hash(log.begin_body()),
            scratch: Vec::new(),
            log,
        }
    }

    /// The record.
    #[must_use]
    pub const fn log(&self) -> &Log<R> {
        &self.log
    }

    /// The core between two events.
    #[must_use]
    pub const fn core(&self) -> &Core {
        &self.core
    }

    /// Replays the next event; `None` at the end. `selections` requests the details of each path
    /// selection. After an event with another decision, later events are meaningless.
    ///
    /// # Errors
    ///
    /// A damaged record, or an error of the reader.
    pub fn step(&mut self, selections: bool) -> Result<Option<Step>, BadLog> {
        let Some(entry) = self.log.next_entry()? else {
            return Ok(None);
        };
        if selections {
            self.core.keep_selections();
        }
        let answer = self.core.apply(entry.input.clone(), entry.latest);
        let mut outputs = Vec::new();
        while let Some(output) = self.core.poll_output() {
            outputs.push(output);
        }
        let scratch = &mut self.scratch;
        self.chain = chain(self.chain, &entry.body, &answer, outputs.iter(), scratch);
        Ok(Some(Step {
            number: entry.number,
            at: entry.input.now().unwrap_or(entry.latest),
            input: entry.input,
            answer,
            outputs,
            selections: self.core.take_selections(),
            agrees: entry.decided.map(|decided| decided == self.chain),
        }))
    }
}
