//! Memory of operations that the daemon copies directly.
//!
//! ```text
//!             PLACES                SEND_DONE, end of the message, stream instead
//!   (call) ───────────▶ EXPOSED ────────────────────────────────────────────────▶ (call)
//!                          │
//!                          └─ connection lost ──▶ the daemon's end is closed ──▶ (over)
//! ```
//!
//! From PLACES until the daemon's answer, the memory of an operation is not the program's. If the connection
//! is lost in between, no frame can be relied upon, but the following holds. The daemon copies in the thread
//! that closes its end of the socket, so it copies nothing after closing; if the daemon dies, the kernel
//! closes the socket. The operation does not complete before that. Therefore this side of such a connection
//! closes its sending direction only, which makes the daemon close its end. A call that ends while it is
//! exposed closes the connection, whatever the reason.
//!
//! The wait includes a daemon that is stopped (SIGSTOP, a debugger) at that moment.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bmi::Error;
use sys::span::Span;
use zoid_proto::List;
use zoid_proto::fwd::{Frame, FrameType, MemoryPart, Places};

use super::{Client, State, Ticket, header};
use crate::client::link::Link;
use crate::options::ClientMemory;

/// The most pieces; longer lists use the stream.
// [FWD-47]
const PIECES_MAX: usize = 4096;

impl State {
    /// Returns whether the daemon may be copying anything.
    pub(in crate::client) fn is_exposed(&self) -> bool {
        self.calls.values().any(|call| call.exposed.is_some())
    }

    /// Returns whether the daemon may be copying over a lost connection.
    // [FWD-48]
    pub(in crate::client) fn is_held(&self) -> bool {
        let exposed = self.calls.values().filter_map(|call| call.exposed.as_ref());
        exposed.into_iter().any(|link| !link.is_closed_by_daemon())
    }

    /// Returns whether the daemon may be copying for one call. If the call has no answer yet, closes its
    /// connection.
    pub(super) fn holds(&mut self, request: u32) -> bool {
        let exposed = self
            .calls
            .get(&request)
            .and_then(|call| call.exposed.clone());
        let Some(link) = exposed else {
            return false;
        };
        self.lose(&link, Error::Proto);
        !link.is_closed_by_daemon()
    }

    /// Records that the daemon has completed its access to a call's memory, or will not begin.
    pub(super) fn conceal(&mut self, request: u32) {
        if let Some(call) = self.calls.get_mut(&request) {
            call.exposed = None;
        }
    }

    /// Returns the call whose message the daemon has copied, if this DATA frame says so.
    pub(super) fn copied(&mut self, grant: u64, offset: u64) -> Option<u32> {
        let request = self.request_of(grant)?;
        let call = self.calls.get_mut(&request)?;
        let total = call.sink.as_ref()?.total;
        call.exposed.take_if(|_| offset == total as u64)?;
        Some(request)
    }

    /// Records that the daemon may copy a call's message; not over a lost connection.
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
    /// Tells the daemon where a message is, or goes. If the connection fails, the call is answered with the
    /// loss. Returns false if the client prefers the stream.
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
            self.write_places(ticket, grant, message);
        }
        true
    }

    /// Asks for the message on the stream.
    pub(in crate::client) fn decline(&self, ticket: &Ticket, grant: u64) {
        self.write_places(ticket, grant, &[]);
    }

    fn write_places(&self, ticket: &Ticket, grant: u64, message: &[Span]) {
        let parts = parts(message);
        let places = Frame::Places(Places {
            grant,
            parts: List::new(&parts),
        });
        let _lost = self.write_frame(ticket, &places, header(FrameType::PLACES), &[]);
    }

    /// Withdraws the permission to trace this process.
    pub(in crate::client) fn forbid_tracing(&self) {
        if self.options.client_memory == ClientMemory::Allow {
            // Without Yama there is no permission to withdraw.
            let _no_yama = sys::allow_trace(0);
        }
    }

    /// Stores the daemon's number in memory and returns its place. If the program allows it, tells the kernel
    /// that the daemon may trace this process.
    pub(super) fn hold_mark(&self, link: &Link, number: u64) -> Option<MemoryPart> {
        if self.options.client_memory == ClientMemory::Allow
            && let Err(error) = link.let_daemon_trace()
        {
            // Without Yama there is nothing to allow.
            tracing::debug!(%error, "cannot let the daemon copy this process's memory");
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
