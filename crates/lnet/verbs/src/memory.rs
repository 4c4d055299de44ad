//! Memory of messages.

use bytes::Bytes;
use lnet_o2ib::{Sink, Source};
use sys::span::Span;

/// The memory that a payload is sent from.
#[derive(Clone, Debug)]
pub enum Payload {
    /// Immutable bytes.
    Shared(Bytes),
    /// Memory that nothing changes until the message is reported.
    Span(Span),
}

/// The memory that a payload is received into.
#[derive(Clone, Debug)]
pub struct Landing(pub Span);

impl Source for Payload {
    fn len(&self) -> usize {
        match self {
            Self::Shared(bytes) => bytes.len(),
            Self::Span(span) => span.len(),
        }
    }

    fn copy_out(&self, to: &mut [u8]) {
        match self {
            Self::Shared(bytes) => {
                let len = to.len().min(bytes.len());
                to[..len].copy_from_slice(&bytes[..len]);
            }
            Self::Span(span) => {
                span.copy_out(to);
            }
        }
    }
}

impl Sink for Landing {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn copy_in(&self, at: usize, from: &[u8]) {
        if let Some(place) = self.0.part(at.min(self.0.len())..self.0.len()) {
            place.copy_in(from);
        }
    }
}
