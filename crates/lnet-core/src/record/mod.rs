//! Recording: each input on its way into the core, and what the core makes of it.
//!
//! ```text
//!  call ─▶ noted ─▶ Recorder::input ─▶ the call itself ─▶ Recorder::decided(answer, new outputs) ─▶ caller
//!            │ nobody records                 ▲
//!            └────────────────────────────────┘
//! ```
//!
//! [`Input`] names every call that changes what the core decides. A core that begins with the same [`CoreConfig`] and
//! takes the same inputs gives the same answers and outputs, byte by byte, because the core has no clock, no chance and
//! no other way in. [`Core::apply`] gives a recorded input to a core again.
//!
//! Left out are calls that no decision depends on: looks, watchers, news that are taken, ticks at which nothing is due.
//! A call that another call makes is part of that one. What the driver writes into a buffer of the core's is an input of
//! its own, [`Input::Fill`]: discovery information, never payload of a program.

mod apply;
mod input;

use std::fmt;

use lnet_types::Time;
use thiserror::Error;

pub(crate) use self::input::ToAnswer;
pub use self::input::{Answer, Input};
use crate::Core;
use crate::config::CoreConfig;
use crate::io::{CoreBuffer, Output};
use crate::select::Selection;

/// Who writes down what enters a core. Called with whatever lock the core is behind, so that each call must be short and
/// may not wait.
pub trait Recorder: fmt::Debug + Send {
    /// The core begins with this configuration.
    fn begins(&mut self, config: &CoreConfig, at: Time);

    /// The core takes this input next. `latest` is the latest time that the core has seen, also in ticks that did
    /// nothing.
    fn input(&mut self, input: &Input, latest: Time);

    /// What the core made of the last input: its answer, and the outputs that it added.
    fn decided(&mut self, answer: &Answer, outputs: &mut dyn Iterator<Item = &Output>);

    /// How much has been recorded.
    fn progress(&self) -> Recorded {
        Recorded::default()
    }
}

/// How much has been recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Inputs in the record.
    pub events: u64,
    /// Bytes of the record.
    pub bytes: u64,
    /// Inputs that are missing behind the end of the record: it is full, or cannot be written.
    pub missing: u64,
}

/// The core has taken inputs already: a record that begins now would lack them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the node has begun already: recording begins with the node")]
pub struct TooLate;

/// The core's end of a recording.
#[derive(Debug, Default)]
pub(crate) struct Tape {
    recorder: Option<Box<dyn Recorder>>,
    /// The core has taken an input.
    begun: bool,
    /// Buffers of the core's that the driver has written since the last input.
    written: Vec<CoreBuffer>,
    /// The selections of the input that is being taken, while somebody wants to see them.
    selections: Option<Vec<Selection>>,
}

impl Tape {
    /// The driver is about to write a buffer of the core's.
    pub(crate) fn buffer_is_written(&mut self, buffer: CoreBuffer) {
        if self.recorder.is_some() && !self.written.contains(&buffer) {
            self.written.push(buffer);
        }
    }

    /// Whether somebody wants to see the selections.
    pub(crate) const fn sees_selections(&self) -> bool {
        self.selections.is_some()
    }

    /// A path was selected so.
    pub(crate) fn keep(&mut self, selection: Option<Selection>) {
        if let (Some(kept), Some(selection)) = (&mut self.selections, selection) {
            kept.push(selection);
        }
    }
}

impl Core {
    /// Gives every input from now on to a recorder, with what the core makes of it. The record begins with the whole
    /// configuration, the secret [`Entropy`](crate::Entropy) among it.
    ///
    /// # Errors
    ///
    /// [`TooLate`] when the core has taken an input.
    pub fn record(&mut self, mut recorder: Box<dyn Recorder>) -> Result<(), TooLate> {
        if self.tape.begun {
            return Err(TooLate);
        }
        recorder.begins(&self.config, self.latest);
        self.tape.recorder = Some(recorder);
        Ok(())
    }

    /// How much has been recorded; `None` when nobody records.
    #[must_use]
    pub fn recorded(&self) -> Option<Recorded> {
        self.tape.recorder.as_ref().map(|it| it.progress())
    }

    /// Ends a recording; `None` when there is none.
    pub fn end_record(&mut self) -> Option<Box<dyn Recorder>> {
        self.tape.recorder.take()
    }

    /// Keeps each selection of a path from now on, with every report to an [`Observer`](crate::Observer), until
    /// [`Core::take_selections`]. The replay of a record uses this.
    pub fn keep_selections(&mut self) {
        self.tape.selections = Some(Vec::new());
    }

    /// The selections since [`Core::keep_selections`], in their order; none are kept any more.
    pub fn take_selections(&mut self) -> Vec<Selection> {
        self.tape.selections.take().unwrap_or_default()
    }

    /// The input, where somebody records.
    #[inline]
    pub(crate) fn noted(&self, input: impl FnOnce() -> Input) -> Option<Input> {
        self.tape.recorder.is_some().then(input)
    }

    /// Makes a call, and records the call as `input`.
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

    /// The recorder is away meanwhile, so that calls that this call makes are not recorded.
    #[cold]
    fn take_in_recorded<R: ToAnswer>(
        &mut self,
        input: &Input,
        call: impl FnOnce(&mut Self) -> R,
    ) -> R {
        let Some(mut recorder) = self.tape.recorder.take() else {
            return call(self);
        };
        for buffer in std::mem::take(&mut self.tape.written) {
            let bytes = self.buffers.data(buffer).to_vec();
            recorder.input(&Input::Fill { buffer, bytes }, self.latest);
            recorder.decided(&Answer::Nothing, &mut std::iter::empty());
        }
        recorder.input(input, self.latest);
        let before = self.outputs.len();
        let result = call(self);
        recorder.decided(&result.to_answer(), &mut self.outputs.iter().skip(before));
        self.tape.recorder = Some(recorder);
        result
    }
}
