//! What a router shows of the messages that it forwards: headers, and the first bytes of payload in memory.
//!
//! Nothing is read that would not be in memory anyway: payload in a pipe of the kernel stays there, and shows no bytes.

use lnd::{NiId, RxId};
use lnet_core::RouterBuffer;
use lnet_types::Time;
use lnet_wire::Header;
use rustc_hash::FxHashMap;

use super::memory::MemoryTable;

/// A message that has arrived to be forwarded.
#[derive(Clone, Copy, Debug)]
pub struct Forwarded<'a> {
    /// The interface that it came by.
    pub ni: NiId,
    /// Its header.
    pub header: &'a Header,
    /// The first bytes of its payload, as many as were wanted; none if the payload is in a pipe.
    pub head: &'a [u8],
    /// When it was complete.
    pub time: Time,
}

/// Looks at messages that a router forwards. Its calls hold the node's lock, so it does little.
pub trait Watcher: Send {
    /// Returns how many bytes of payload it wants of a message with this header; `None` if it does not want the message.
    fn wants(&self, header: &Header) -> Option<usize>;

    /// Takes a message.
    fn forwarded(&mut self, message: Forwarded<'_>);
}

/// The most messages that are arriving and wanted. Beyond, further ones are not shown.
const WAITING_MAX: usize = 1 << 16;

/// A watcher, and the messages for it that are arriving.
pub(crate) struct Tap {
    watcher: Box<dyn Watcher>,
    waiting: FxHashMap<RxId, Waiting>,
    head: Vec<u8>,
}

struct Waiting {
    ni: NiId,
    header: Header,
    wanted: usize,
    /// `None` for a message of this node's own.
    buffer: Option<RouterBuffer>,
}

impl Tap {
    pub(crate) fn new(watcher: Box<dyn Watcher>) -> Self {
        Self {
            watcher,
            waiting: FxHashMap::default(),
            head: Vec::new(),
        }
    }

    /// Notes a message whose header has been accepted.
    pub(crate) fn begin(&mut self, rx: RxId, ni: NiId, header: &Header) {
        let wanted = self.watcher.wants(header);
        if let Some(wanted) = wanted.filter(|_| self.waiting.len() < WAITING_MAX) {
            let waiting = Waiting {
                ni,
                header: *header,
                wanted,
                buffer: None,
            };
            self.waiting.insert(rx, waiting);
        }
    }

    /// Notes the buffer of a message that is forwarded.
    pub(crate) fn lands(&mut self, rx: RxId, buffer: RouterBuffer) {
        if let Some(waiting) = self.waiting.get_mut(&rx) {
            waiting.buffer = Some(buffer);
        }
    }

    /// Shows a message that is complete, and forgets one that is not.
    pub(crate) fn arrived<Q>(
        &mut self,
        rx: RxId,
        is_whole: bool,
        memory: &mut MemoryTable<Q>,
        now: Time,
    ) {
        let Some(waiting) = self.waiting.remove(&rx).filter(|_| is_whole) else {
            return;
        };
        let Some(buffer) = waiting.buffer else {
            return;
        };
        let len = waiting.wanted.min(waiting.header.payload_length as usize);
        memory.router_head(buffer, len, &mut self.head);
        self.watcher.forwarded(Forwarded {
            ni: waiting.ni,
            header: &waiting.header,
            head: &self.head,
            time: now,
        });
    }
}
