//! The memory behind memory descriptors and router buffers.
//!
//! The core knows descriptors only as lengths; here are the bytes. While a descriptor has it, memory is
//! only named, by spans: whoever moves bytes holds one, and needs no lock. A vector that a program lends
//! comes back as the same vector, when nobody moves bytes of it any more.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use lnet_core::{MdHandle, MdOptions, RouterBuffer, RouterPool};
use lnet_tcp::Source;
use rustc_hash::FxHashMap;
use sys::span::Span;

/// Memory that a program lends to the node until the descriptor's last event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Data to be sent, or fetched by others. Shared and immutable.
    Source(Bytes),
    /// Room for data to be received: the whole existing length of the vector.
    Sink(Vec<u8>),
    /// Room for data that nobody looks at.
    Scrap(Scrap),
}

/// Room that several descriptors have at the same time, for data that nobody looks at. What is received there costs what
/// it costs anywhere, and stays in the processor's cache.
#[derive(Clone, Debug)]
pub struct Scrap(Span);

impl Scrap {
    /// Room of this length in bytes.
    #[must_use]
    pub fn of_len(len: usize) -> Self {
        Self(vec![0; len].into())
    }

    /// The beginning of the room; `None` where the room is shorter.
    #[must_use]
    pub fn first(&self, len: usize) -> Option<Self> {
        self.0.part(0..len).map(Self)
    }
}

impl PartialEq for Scrap {
    fn eq(&self, other: &Self) -> bool {
        self.0.addresses() == other.0.addresses()
    }
}

impl Eq for Scrap {}

impl Memory {
    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Source(_) | Self::Sink(_) => self.as_slice().len(),
            Self::Scrap(scrap) => scrap.0.len(),
        }
    }

    /// True when there is no memory.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes; none of scrap.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Source(bytes) => bytes,
            Self::Sink(vector) => vector,
            Self::Scrap(_) => &[],
        }
    }

    /// The received bytes, none of scrap; a source is copied.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        match self {
            Self::Source(bytes) => bytes.to_vec(),
            Self::Sink(vector) => vector,
            Self::Scrap(_) => Vec::new(),
        }
    }
}

/// A memory descriptor to be attached or bound.
#[derive(Clone, Debug)]
pub struct Md {
    /// The memory.
    pub memory: Memory,
    /// Options. When attaching, at least one of `OP_PUT` and `OP_GET`; when binding, neither.
    pub options: MdOptions,
    /// Operations left, or `None` for any number. A put with ACK and a get use two each.
    pub threshold: Option<u32>,
    /// Most bytes of one operation, with `MdOptions::MAX_SIZE`.
    pub max_size: u32,
    /// The descriptor goes when it is exhausted.
    pub unlink_when_exhausted: bool,
    /// Comes back in every event.
    pub user: u64,
}

impl Md {
    /// A descriptor over data to be sent or fetched. Unlimited operations, no options.
    #[must_use]
    pub fn source(data: impl Into<Bytes>) -> Self {
        Self::new(Memory::Source(data.into()))
    }

    /// A descriptor over room for data. Unlimited operations, no options.
    #[must_use]
    pub fn sink(room: Vec<u8>) -> Self {
        Self::new(Memory::Sink(room))
    }

    /// A descriptor over room for data that nobody looks at. Unlimited operations, no options.
    #[must_use]
    pub fn scrap(room: Scrap) -> Self {
        Self::new(Memory::Scrap(room))
    }

    /// With these options.
    #[must_use]
    pub fn options(mut self, options: MdOptions) -> Self {
        self.options = options;
        self
    }

    /// With this many operations, after which the descriptor goes.
    #[must_use]
    pub fn threshold(mut self, operations: u32) -> Self {
        self.threshold = Some(operations);
        self.unlink_when_exhausted = true;
        self
    }

    /// With this user value.
    #[must_use]
    pub fn user(mut self, user: u64) -> Self {
        self.user = user;
        self
    }

    fn new(memory: Memory) -> Self {
        Self {
            memory,
            options: MdOptions::empty(),
            threshold: None,
            max_size: 0,
            unlink_when_exhausted: false,
            user: 0,
        }
    }
}

/// Memory while a descriptor has it.
enum Lent {
    Source(Bytes),
    Sink(Span),
    Scrap(Scrap),
}

/// A registered descriptor: its memory, and the sink for its events.
pub struct Registered<Q> {
    memory: Lent,
    pub(crate) queue: Arc<Q>,
}

impl<Q> Registered<Q> {
    /// Memory that a descriptor has from now on.
    #[must_use]
    pub fn new(memory: Memory, queue: Arc<Q>) -> Self {
        let memory = match memory {
            Memory::Source(bytes) => Lent::Source(bytes),
            Memory::Sink(vector) => Lent::Sink(vector.into()),
            Memory::Scrap(scrap) => Lent::Scrap(scrap),
        };
        Self { memory, queue }
    }

    /// Gives the memory back to the program.
    pub(crate) fn into_memory(self) -> Memory {
        match self.memory {
            Lent::Source(bytes) => Memory::Source(bytes),
            Lent::Sink(span) => Memory::Sink(span.into_vec()),
            Lent::Scrap(scrap) => Memory::Scrap(scrap),
        }
    }

    /// True when nothing can be received into it.
    #[must_use]
    pub fn is_source(&self) -> bool {
        matches!(self.memory, Lent::Source(_))
    }
}

/// All memory that payload may move into or out of, except the core's own buffers.
pub struct MemoryTable<Q> {
    descriptors: FxHashMap<MdHandle, Registered<Q>>,
    router: RouterMemory,
}

impl<Q> Default for MemoryTable<Q> {
    fn default() -> Self {
        Self {
            descriptors: FxHashMap::default(),
            router: RouterMemory::default(),
        }
    }
}

impl<Q> MemoryTable<Q> {
    /// Lends the memory to a descriptor that the core has just made.
    pub fn register(&mut self, md: MdHandle, registered: Registered<Q>) {
        self.descriptors.insert(md, registered);
    }

    /// What a descriptor has.
    #[must_use]
    pub fn registered(&self, md: MdHandle) -> Option<&Registered<Q>> {
        self.descriptors.get(&md)
    }

    /// Descriptors that have memory.
    #[must_use]
    pub fn lent(&self) -> usize {
        self.descriptors.len()
    }

    pub(crate) fn release(&mut self, md: MdHandle) -> Option<Registered<Q>> {
        self.descriptors.remove(&md)
    }

    /// What is sent of a descriptor; `None` when it has no such bytes.
    pub(crate) fn source(&self, md: MdHandle, range: Range<usize>) -> Option<Source> {
        match &self.descriptors.get(&md)?.memory {
            Lent::Source(bytes) if range.end <= bytes.len() => {
                Some(Source::Shared(bytes.slice(range)))
            }
            Lent::Source(_) => None,
            Lent::Sink(span) | Lent::Scrap(Scrap(span)) => span.part(range).map(Source::Span),
        }
    }

    /// Where something is received in a descriptor; `None` when it has no such bytes.
    pub(crate) fn landing(&self, md: MdHandle, range: Range<usize>) -> Option<Span> {
        match &self.descriptors.get(&md)?.memory {
            Lent::Sink(span) | Lent::Scrap(Scrap(span)) => span.part(range),
            // The node refuses descriptors whose options would need a source to be written.
            Lent::Source(_) => None,
        }
    }

    /// What is sent of a router buffer; `None` when it is not that long.
    pub(crate) fn router_source(
        &mut self,
        buffer: RouterBuffer,
        range: Range<usize>,
    ) -> Option<Span> {
        self.router.buffer(buffer)?.part(range)
    }

    /// Where a message is received in a router buffer that the core has just handed out; `None` when the buffer is not
    /// that long.
    pub(crate) fn router_landing(
        &mut self,
        buffer: RouterBuffer,
        range: Range<usize>,
    ) -> Option<Span> {
        self.router.fresh(buffer)?.part(range)
    }

    /// Bytes of router buffers allocated so far.
    #[must_use]
    pub fn router_bytes(&self) -> u64 {
        self.router.allocated
    }
}

/// Router buffers, allocated when the core first hands out their index and kept for the next message:
/// a router that forwards little stays small (kernel routers take more than 1 GB at once, section 17).
#[derive(Default)]
struct RouterMemory {
    small: Vec<Span>,
    large: Vec<Span>,
    allocated: u64,
}

impl RouterMemory {
    /// The memory of a buffer, and never memory that a read or write of the message before still has: the connection
    /// of that message was closed while bytes of it were being moved. `None` for a buffer without bytes.
    fn fresh(&mut self, buffer: RouterBuffer) -> Option<&mut Span> {
        let span = self.buffer(buffer)?;
        if !span.is_unique() {
            *span = vec![0; buffer.pool.buffer_len()].into();
        }
        Some(span)
    }

    /// `None` for a buffer without bytes.
    fn buffer(&mut self, buffer: RouterBuffer) -> Option<&mut Span> {
        let pool = match buffer.pool {
            RouterPool::Tiny => return None,
            RouterPool::Small => &mut self.small,
            RouterPool::Large => &mut self.large,
        };
        let index = buffer.index as usize;
        // Lowest free index first, so the pool grows by one buffer at a time.
        while pool.len() <= index {
            pool.push(vec![0; buffer.pool.buffer_len()].into());
            self.allocated += buffer.pool.buffer_len() as u64;
        }
        pool.get_mut(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUFFER: RouterBuffer = RouterBuffer {
        pool: RouterPool::Small,
        index: 3,
    };

    fn landing(table: &mut MemoryTable<()>) -> Span {
        table.router_landing(BUFFER, 0..100).unwrap()
    }

    #[test]
    fn a_message_never_lands_in_router_memory_that_a_write_still_has() {
        let mut table = MemoryTable::<()>::default();
        landing(&mut table).copy_in(&[1; 100]);
        let being_written = table.router_source(BUFFER, 0..100).unwrap();
        landing(&mut table).copy_in(&[2; 100]);
        assert_eq!(being_written.to_vec(), [1; 100]);
        let sent = table.router_source(BUFFER, 0..100).unwrap();
        assert_eq!(sent.to_vec(), [2; 100]);
    }

    #[test]
    fn descriptors_share_scrap_and_each_gives_back_what_it_had() {
        let scrap = Scrap::of_len(100);
        let part = Memory::Scrap(scrap.first(60).unwrap());
        assert_eq!((part.len(), part.as_slice().len()), (60, 0));
        let registered = Registered::new(part.clone(), Arc::new(()));
        assert!(!registered.is_source());
        assert_eq!(registered.into_memory(), part);
        assert_ne!(part, Memory::Scrap(scrap.clone()));
        assert!(scrap.first(101).is_none());
    }

    #[test]
    fn router_memory_is_used_again_when_nobody_has_it() {
        let mut table = MemoryTable::<()>::default();
        let first = landing(&mut table).as_ptr();
        assert_eq!(landing(&mut table).as_ptr(), first);
        let bytes = table.router_bytes();
        let _kept = landing(&mut table);
        assert_ne!(landing(&mut table).as_ptr(), first);
        assert_eq!(table.router_bytes(), bytes);
    }
}
