//! Giving a record to a core again, event by event.

use std::io::BufRead;

use lnet_core::{Answer, Core, Input, Output, Selection};
use lnet_types::Time;

use crate::Chain;
use crate::decision::{chain, hash};
use crate::log::{BadLog, Log};

/// A core that takes the inputs of a record.
#[derive(Debug)]
pub struct Replay<R> {
    log: Log<R>,
    core: Core,
    chain: Chain,
    scratch: Vec<u8>,
}

/// An event of a record, and what the core made of it this time.
#[derive(Clone, Debug)]
pub struct Step {
    /// The number of the event, from 1 on.
    pub number: u64,
    /// When it was: the time that the input names, or the latest before it.
    pub at: Time,
    /// The input.
    pub input: Input,
    /// The answer of the core.
    pub answer: Answer,
    /// What the core wants done.
    pub outputs: Vec<Output>,
    /// The selections of paths within, if they were asked for.
    pub selections: Vec<Selection>,
    /// Whether the node decided the same; `None` when the record ends before the node had decided.
    pub agrees: Option<bool>,
}

impl<R: BufRead> Replay<R> {
    /// A core as that of the node was in the beginning.
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

    /// The record, for its beginning and its end.
    #[must_use]
    pub const fn log(&self) -> &Log<R> {
        &self.log
    }

    /// The core as it is between two events.
    #[must_use]
    pub const fn core(&self) -> &Core {
        &self.core
    }

    /// Takes the next event; `None` at the end. `selections`: and shows how each path in it was selected. Behind an event
    /// that does not agree nothing can be relied on.
    ///
    /// # Errors
    ///
    /// When the record is damaged there, or cannot be read.
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
