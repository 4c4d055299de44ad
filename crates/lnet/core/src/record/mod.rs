//! Recording: each input of the core, and the answer and outputs that the core produces.
//!
//! ```text
//!  call ─▶ noted ─▶ Recorder::input ─▶ the call itself ─▶ Recorder::decided(answer, new outputs) ─▶ caller
//!            │ without a recorder             ▲
//!            └────────────────────────────────┘
//! ```
//!
//! [`Input`] names every call that changes what the core decides. A core that begins with the same [`CoreConfig`] and
//! takes the same inputs gives the same answers and outputs, byte by byte, because the core has no clock, no random
//! source and no other input. [`Core::apply`] gives a recorded input to a core.
//!
//! Calls that no decision depends on are not recorded: queries, watchers, taken news, ticks without a due timer. A
//! call that another call makes is part of the outer call. If the driver writes into a buffer of the core, the written
//! bytes are an input of their own, [`Input::Fill`]: discovery information, never payload of a program.

mod answer;
#[cfg(feature = "record-file")]
pub mod file;

use std::fmt;

use lnet_types::Time;
use thiserror::Error;

pub use self::answer::Answer;
pub(crate) use self::answer::ToAnswer;
use crate::Core;
use crate::entry::Input;
use crate::fabric::select::Selection;
use crate::ground::config::CoreConfig;
use crate::ground::io::{CoreBuffer, Output};

/// A writer of the core's inputs. It is called while the caller holds the lock of the core, if there is one, so each
/// call must be short and must not block.
pub trait Recorder: fmt::Debug + Send {
    /// Notes the configuration that the core begins with.
    fn begins(&mut self, config: &CoreConfig, at: Time);

    /// Notes the next input of the core. `latest` is the latest time that the core has seen, also from ticks that did
    /// nothing.
    fn input(&mut self, input: &Input, latest: Time);

    /// Notes the result of the last input: the answer of the core, and the outputs that it added.
    fn decided(&mut self, answer: &Answer, outputs: &mut dyn Iterator<Item = &Output>);

    /// Returns how much has been recorded.
    fn progress(&self) -> Recorded {
        Recorded::default()
    }
}

/// The size of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Inputs in the record.
    pub events: u64,
    /// Bytes of the record.
    pub bytes: u64,
    /// Inputs missing at the end of the record, because the record is full or cannot be written.
    pub missing: u64,
}

/// The error of starting a recording after the first input: the record would lack the inputs so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the node runs already: a record must begin with the start of the node")]
pub struct TooLate;

/// The part of a recording that the core keeps.
#[derive(Debug, Default)]
pub(crate) struct Tape {
    recorder: Option<Box<dyn Recorder>>,
    /// True if the core has taken an input.
    begun: bool,
    /// Buffers of the core that the driver has written since the last input.
    written: Vec<CoreBuffer>,
}

impl Tape {
    /// Notes that the driver is about to write a buffer of the core.
    pub(crate) fn buffer_is_written(&mut self, buffer: CoreBuffer) {
        if self.recorder.is_some() && !self.written.contains(&buffer) {
            self.written.push(buffer);
        }
    }
}

impl Core {
    /// Gives every input from now on to a recorder, with the results of the core. The record begins with the whole
    /// configuration, including the secret [`Entropy`](crate::Entropy).
    ///
    /// # Errors
    ///
    /// [`TooLate`] if the core has already taken an input.
    pub fn record(&mut self, mut recorder: Box<dyn Recorder>) -> Result<(), TooLate> {
        if self.tape.begun {
            return Err(TooLate);
        }
        recorder.begins(
            &self.upkeep.traffic.fabric.ground.config,
            self.upkeep.traffic.fabric.ground.latest,
        );
        self.tape.recorder = Some(recorder);
        Ok(())
    }

    /// Returns how much has been recorded; `None` if there is no recorder.
    #[must_use]
    pub fn recorded(&self) -> Option<Recorded> {
        self.tape
            .recorder
            .as_ref()
            .map(|recorder| recorder.progress())
    }

    /// Ends a recording and returns the recorder; `None` if there is none.
    pub fn end_record(&mut self) -> Option<Box<dyn Recorder>> {
        self.tape.recorder.take()
    }

    /// Keeps each selection of a path from now on, with every report to an [`Observer`](crate::Observer), until
    /// [`Core::take_selections`]. The replay of a record uses this.
    pub fn keep_selections(&mut self) {
        self.upkeep.traffic.fabric.kept.begin();
    }

    /// Returns the selections since [`Core::keep_selections`], in their order, and stops keeping them.
    pub fn take_selections(&mut self) -> Vec<Selection> {
        self.upkeep.traffic.fabric.kept.take()
    }

    /// Builds the input if there is a recorder.
    #[inline]
    pub(crate) fn noted(&self, input: impl FnOnce() -> Input) -> Option<Input> {
        self.tape.recorder.is_some().then(input)
    }

    /// Makes a call, and records it as `input`.
    #[inline]
    pub(crate) fn take_in<R: ToAnswer>(
        &mut self,
        input: Option<Input>,
        call: impl FnOnce(&mut Self) -> R,
    ) -> R {
        self.tape.begun = true;
        match input {
            None => call(self),
            Some(input) => self.take_in_recorded(&input, call),
        }
    }

    /// Makes a call and records it. The recorder is taken out meanwhile, so that calls that this call makes are not
    /// recorded.
    #[cold]
    fn take_in_recorded<R: ToAnswer>(
        &mut self,
        input: &Input,
        call: impl FnOnce(&mut Self) -> R,
    ) -> R {
        // Drivers tick often, and a tick without a due timer changes no decision.
        let is_idle = matches!(input, Input::Tick { now } if self.next_deadline().is_none_or(|due| due > *now));
        let recorder = self.tape.recorder.take_if(|_| !is_idle);
        let Some(mut recorder) = recorder else {
            return call(self);
        };
        for buffer in std::mem::take(&mut self.tape.written) {
            let bytes = self.upkeep.traffic.buffers.data(buffer).to_vec();
            recorder.input(
                &Input::Fill { buffer, bytes },
                self.upkeep.traffic.fabric.ground.latest,
            );
            recorder.decided(&Answer::Nothing, &mut std::iter::empty());
        }
        recorder.input(input, self.upkeep.traffic.fabric.ground.latest);
        let before = self.upkeep.traffic.fabric.ground.outputs.len();
        let result = call(self);
        recorder.decided(
            &result.to_answer(),
            &mut self
                .upkeep
                .traffic
                .fabric
                .ground
                .outputs
                .iter()
                .skip(before),
        );
        self.tape.recorder = Some(recorder);
        result
    }
}
