//! Events that the stack passes up to programs.

use lnet_core::Event;

use crate::stack::memory::Memory;

/// An event, and the memory of the descriptor if this is its last event.
#[derive(Debug)]
pub struct NodeEvent {
    /// The event.
    pub event: Event,
    /// The descriptor's memory, given back with the event that has `unlinked` set; `None` with all others.
    pub memory: Option<Memory>,
}

/// The place to which a program's events go.
pub trait EventSink {
    /// Accepts an event. Returns false if there is no room and the event is lost. An event that carries memory is
    /// always accepted.
    fn push(&self, event: NodeEvent) -> bool;
}
