//! Memory of messages.

use lnet_o2ib::{Sink, Source};
use sys::span::Span;

/// The memory of a payload: what is sent from, or received into.
#[derive(Clone)]
pub struct Payload(pub Span);

impl Source for Payload {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn copy_out(&self, to: &mut [u8]) {
        self.0.copy_out(to);
    }
}

impl Sink for Payload {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn copy_in(&self, from: &[u8]) {
        self.0.copy_in(from);
    }
}
