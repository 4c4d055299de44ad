//! What leaves the stack upwards.

use lnet_core::Event;

use crate::memory::Memory;

/// An event, and the memory of the descriptor if this was its last one.
#[derive(Debug)]
pub struct NodeEvent {
    /// What happened.
    pub event: Event,
    /// The descriptor's memory, given back with the event that says `unlinked`.
    pub memory: Option<Memory>,
}

/// Where a program's events go.
pub trait EventSink {
    /// Takes an event; false when there is no room and the event is lost. An event that carries memory is always
    /// taken.
    fn push(&self, event: NodeEvent) -> bool;
}
