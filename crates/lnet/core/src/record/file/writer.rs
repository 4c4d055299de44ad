//! Writes a record.

use std::fmt::Debug;

use crc32c::crc32c;
use lnet_types::Time;

use super::codec::Put;
use super::decision::{chain, hash};
use super::log::{Begin, Ended, length_check};
use super::{BEGIN, Chain, DECIDED, END, INPUT, MAGIC, VERSION};
use crate::{Answer, CoreConfig, Input, Output, Recorded, Recorder};

/// The destination of a record's bytes. The recorder calls it under the lock of the core.
pub trait Sink: Debug + Send {
    /// Takes whole items. If it returns false, it has not taken these items and takes no later
    /// ones; the sink counts the `inputs` in them as missing.
    fn take(&mut self, items: &[u8], inputs: u64) -> bool;

    /// How much it has taken.
    fn progress(&self) -> Recorded {
        Recorded::default()
    }
}

/// Writes the inputs and decisions of a core to a sink. Pass it to [`crate::Core::record`].
#[derive(Debug)]
pub struct Writer<S> {
    sink: S,
    software: String,
    chain: Chain,
    /// The latest time of the last input.
    latest: Time,
    /// The body of the last input.
    input: Vec<u8>,
    item: Vec<u8>,
    scratch: Vec<u8>,
    open: bool,
}

impl<S: Sink> Writer<S> {
    /// Makes a writer; `software` is the name and version of the node's software.
    pub fn new(sink: S, software: impl Into<String>) -> Self {
        Self {
            sink,
            software: software.into(),
            chain: Chain::default(),
            latest: Time::ZERO,
            input: Vec::new(),
            item: Vec::new(),
            scratch: Vec::new(),
            open: true,
        }
    }
}

impl<S: Sink> Recorder for Writer<S> {
    fn begins(&mut self, config: &CoreConfig, at: Time) {
        let begin = Begin {
            software: std::mem::take(&mut self.software),
            config: config.clone(),
            at,
        };
        let mut body = Vec::new();
        begin.put(&mut body);
        self.chain = hash(&body);
        self.latest = at;
        let mut items = MAGIC.to_vec();
        items.extend_from_slice(&VERSION.to_le_bytes());
        put_item(&mut items, BEGIN, &body);
        self.open = self.sink.take(&items, 0);
    }

    fn input(&mut self, input: &Input, latest: Time) {
        if !self.open {
            self.sink.take(&[], 1);
            return;
        }
        self.input.clear();
        let passed = latest.as_nanos().saturating_sub(self.latest.as_nanos());
        passed.put(&mut self.input);
        self.latest = latest;
        input.put(&mut self.input);
        self.item.clear();
        put_item(&mut self.item, INPUT, &self.input);
        self.open = self.sink.take(&self.item, 1);
    }

    fn decided(&mut self, answer: &Answer, outputs: &mut dyn Iterator<Item = &Output>) {
        if !self.open {
            return;
        }
        self.chain = chain(self.chain, &self.input, answer, outputs, &mut self.scratch);
        self.item.clear();
        put_item(&mut self.item, DECIDED, &self.chain);
        self.open = self.sink.take(&self.item, 0);
    }

    fn progress(&self) -> Recorded {
        self.sink.progress()
    }
}

/// The item that ends a record. The owner of the file writes it.
#[must_use]
pub fn end_item(ended: &Ended) -> Vec<u8> {
    let (mut body, mut item) = (Vec::new(), Vec::new());
    ended.put(&mut body);
    put_item(&mut item, END, &body);
    item
}

fn put_item(out: &mut Vec<u8>, kind: u8, body: &[u8]) {
    let start = out.len();
    (body.len() + 1).put(out);
    let check = length_check(out.get(start..).unwrap_or_default());
    out.extend([check, kind]);
    out.extend_from_slice(body);
    let checksum = crc32c(out.get(start..).unwrap_or_default());
    out.extend_from_slice(&checksum.to_le_bytes());
}
