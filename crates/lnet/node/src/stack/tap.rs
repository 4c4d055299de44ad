//! What a node shows of its messages: headers, and the first bytes of payload in memory.
//!
//! Each message is shown once: one that is forwarded or that is for this node when it has arrived, one of this node's own
//! when it is given to its LND.
//!
//! Nothing is read that would not be in memory anyway: payload in a pipe of the kernel stays there, and shows no bytes.

use std::ops::Range;

use lnd::{NiId, RxId};
use lnet_core::{MdHandle, Place};
use lnet_types::Time;
use lnet_wire::Header;
use rustc_hash::FxHashMap;

use super::memory::MemoryTable;

/// A message that has arrived, or that is sent.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// The interface that it came by; `None` for a message that this node sends.
    pub ni: Option<NiId>,
    /// Its header.
    pub header: &'a Header,
    /// The first bytes of its payload, as many as were wanted; none if the payload is in a pipe.
    pub head: &'a [u8],
    /// When it was complete, or was sent.
    pub time: Time,
}

/// Looks at the messages of a node. Its calls hold the node's lock, so it does little.
pub trait Watcher: Send {
    /// Returns how many bytes of payload it wants of a message with this header; `None` if it does not want the message.
    fn wants(&self, header: &Header) -> Option<usize>;

    /// Takes a message.
    fn take(&mut self, message: Shown<'_>);

    /// Learns that a message which it wants is not shown.
    fn miss(&mut self);
}

/// The most messages that are arriving and wanted. Beyond, further ones are missed.
pub(crate) const WAITING_MAX: usize = 1 << 16;

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
    /// Where its payload lands, once that is known.
    landing: Option<(Place, Range<usize>)>,
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
        let Some(wanted) = self.watcher.wants(header) else {
            return;
        };
        if self.waiting.len() == WAITING_MAX {
            return self.watcher.miss();
        }
        let waiting = Waiting {
            ni,
            header: *header,
            wanted,
            landing: None,
        };
        self.waiting.insert(rx, waiting);
    }

    /// Notes where the payload of a message lands.
    pub(crate) fn lands(&mut self, rx: RxId, place: Place, range: Range<usize>) {
        if let Some(waiting) = self.waiting.get_mut(&rx) {
            waiting.landing = Some((place, range));
        }
    }

    /// Forgets a message that is dropped.
    pub(crate) fn forget(&mut self, rx: RxId) {
        self.waiting.remove(&rx);
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
        let Some((place, range)) = waiting.landing else {
            return;
        };
        let len = waiting.wanted.min(range.len());
        match place {
            Place::Router(buffer) => memory.router_head(buffer, len, &mut self.head),
            Place::Md(md) => memory.md_head(md, range.start..range.start + len, &mut self.head),
            Place::Core(_) => self.head.clear(),
        }
        self.watcher.take(Shown {
            ni: Some(waiting.ni),
            header: &waiting.header,
            head: &self.head,
            time: now,
        });
    }

    /// Returns the number of messages that are arriving and wanted.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns how many bytes of payload are wanted of a message that this node sends.
    pub(crate) fn wants(&self, header: &Header) -> Option<usize> {
        self.watcher.wants(header)
    }

    /// Shows a message that this node sends.
    pub(crate) fn sent<Q>(
        &mut self,
        header: &Header,
        payload: Option<(MdHandle, Range<usize>)>,
        memory: &mut MemoryTable<Q>,
        now: Time,
    ) {
        self.head.clear();
        if let Some((md, range)) = payload {
            memory.md_head(md, range, &mut self.head);
        }
        self.watcher.take(Shown {
            ni: None,
            header,
            head: &self.head,
            time: now,
        });
    }
}
