//! Memory of operations that the daemon copies out of and into by itself.
//!
//! ```text
//!             PLACES                SEND_DONE, end of the message, stream instead
//!   (call) ───────────▶ EXPOSED ────────────────────────────────────────────────▶ (call)
//!                          │
//!                          └─ connection lost ──▶ the daemon's end is closed ──▶ (over)
//! ```
//!
//! From PLACES until the daemon says that it has finished, an operation's memory is not the program's.
//! Where the connection is lost in between, nothing that is said over it can be relied upon, but this
//! much: the daemon copies from the thread that closes its end of the socket, so after that it touches
//! nothing, and when it dies the kernel closes it. Until then the operation does not end. So this end
//! of such a connection only stops writing, which makes the daemon close the other; and a call that
//! ends while it is exposed, whatever the reason, ends the connection.
//!
//! A daemon that is stopped (SIGSTOP, a debugger) in that moment is waited for.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bmi::Error;
use sys::span::Span;
use zoid_proto::List;
use zoid_proto::fwd::{Frame, FrameType, MemoryPart, Places};

use super::{Client, State, Ticket, header};
use crate::client::link::Link;
use crate::options::ClientMemory;

/// A list of more pieces goes by the stream.
const PIECES_MAX: usize = 4096;

impl State {
    /// Whether the daemon may be copying anything.
    pub(in crate::client) fn is_exposed(&self) -> bool {
        self.calls.values().any(|call| call.exposed.is_some())
    }

    /// Whether it may be, though connections were lost.
    pub(in crate::client) fn is_held(&self) -> bool {
        let exposed = self.calls.values().filter_map(|call| call.exposed.as_ref());
        exposed.into_iter().any(|link| !link.is_let_go())
    }

    /// The same of one call. A connection that goes on without its call's answer ends here.
    pub(super) fn holds(&mut self, request: u32) -> bool {
        let exposed = self
            .calls
            .get(&request)
            .and_then(|call| call.exposed.clone());
        let Some(link) = exposed else {
            return false;
        };
        self.lose(&link, Error::Proto);
        !link.is_let_go()
    }

    /// The daemon has finished with a call's memory, or will not begin.
    pub(super) fn conceal(&mut self, request: u32) {
        if let Some(call) = self.calls.get_mut(&request) {
            call.exposed = None;
        }
    }

    /// The call whose message the daemon has copied, if that is what an end says.
    pub(super) fn copied(&mut self, grant: u64, offset: u64) -> Option<u32> {
        let request = self.request_of(grant)?;
        let call = self.calls.get_mut(&request)?;
        let total = call.sink.as_ref()?.total;
        call.exposed.take_if(|_| offset == total as u64)?;
        Some(request)
    }

    /// From now on the daemon may copy a call's message; not over a connection that is lost.
    fn expose(&mut self, ticket: &Ticket) -> bool {
        let current = self.is_current(ticket);
        match self.calls.get_mut(&ticket.request) {
            Some(call) if current => {
                call.exposed = Some(Arc::clone(&ticket.link));
                true
            }
            _ => false,
        }
    }
}

impl Client {
    /// Tells the daemon where a message is, or is to be. Whatever goes wrong with the connection is
    /// answered with its loss. `false`: rather not.
    pub(in crate::client) fn show(&self, ticket: &Ticket, grant: u64, message: &[Span]) -> bool {
        if message.len() > PIECES_MAX {
            return false;
        }
        let mut state = self.lock();
        let closed = self.closed.load(Ordering::Relaxed);
        let exposed = !closed && state.expose(ticket);
        drop(state);
        if exposed {
            self.counters.memory_shown().up();
            self.say_places(ticket, grant, message);
        }
        true
    }

    /// The message comes by the stream, please.
    pub(in crate::client) fn decline(&self, ticket: &Ticket, grant: u64) {
        self.say_places(ticket, grant, &[]);
    }

    fn say_places(&self, ticket: &Ticket, grant: u64, message: &[Span]) {
        let parts = parts(message);
        let places = Frame::Places(Places {
            grant,
            parts: List::new(&parts),
        });
        let _lost = self.say(ticket, &places, header(FrameType::PLACES), &[]);
    }

    /// Takes back what was allowed.
    pub(in crate::client) fn forbid_tracing(&self) {
        if self.options.client_memory == ClientMemory::Allow {
            // Without Yama there is nothing to take back.
            let _no_yama = sys::allow_trace(0);
        }
    }

    /// Holds the daemon's number in memory and says where. Where the program allows it, the kernel is
    /// told that the daemon may look.
    pub(super) fn hold_mark(&self, link: &Link, number: u64) -> Option<MemoryPart> {
        if self.options.client_memory == ClientMemory::Allow
            && let Err(error) = link.let_daemon_trace()
        {
            // Without Yama there is nothing to allow.
            tracing::debug!(%error, "the daemon needs no leave to copy, or gets none");
        }
        let mark = link.hold(number)?;
        parts(&[mark]).first().copied()
    }
}

fn parts(spans: &[Span]) -> Vec<MemoryPart> {
    let spans = spans.iter().filter(|span| !span.is_empty());
    spans
        .map(|span| MemoryPart {
            address: span.addresses().start as u64,
            len: span.len() as u64,
        })
        .collect()
}
