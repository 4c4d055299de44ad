//! The memory behind memory descriptors and router buffers.
//!
//! The core knows descriptors only as lengths; here are the bytes. Payload goes from the socket straight
//! into this memory and from it straight into the socket.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use lnet_core::{MdHandle, MdOptions, RouterBuffer, RouterPool};
use rustc_hash::FxHashMap;

use crate::queue::QueueState;

/// Memory that a program lends to the node until the descriptor's last event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Data to be sent, or fetched by others. Shared and immutable.
    Source(Bytes),
    /// Room for data to be received: the whole existing length of the vector.
    Sink(Vec<u8>),
}

impl Memory {
    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// True when there is no memory.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Source(bytes) => bytes,
            Self::Sink(vector) => vector,
        }
    }

    /// The received bytes; a source is copied.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        match self {
            Self::Source(bytes) => bytes.to_vec(),
            Self::Sink(vector) => vector,
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

/// A registered descriptor: its memory, and the queue for its events.
pub(crate) struct Registered {
    pub(crate) memory: Memory,
    pub(crate) queue: Arc<QueueState>,
}

/// All memory the engine may move payload into or out of, except the core's own buffers.
#[derive(Default)]
pub(crate) struct MemoryTable {
    descriptors: FxHashMap<MdHandle, Registered>,
    router: RouterMemory,
}

impl MemoryTable {
    pub(crate) fn register(&mut self, md: MdHandle, registered: Registered) {
        self.descriptors.insert(md, registered);
    }

    pub(crate) fn registered(&self, md: MdHandle) -> Option<&Registered> {
        self.descriptors.get(&md)
    }

    pub(crate) fn release(&mut self, md: MdHandle) -> Option<Registered> {
        self.descriptors.remove(&md)
    }

    /// The bytes of a source without copying them; those of a sink copied.
    pub(crate) fn shared(&self, md: MdHandle, range: Range<usize>) -> Bytes {
        match self
            .descriptors
            .get(&md)
            .map(|registered| &registered.memory)
        {
            Some(Memory::Source(bytes)) if range.end <= bytes.len() => bytes.slice(range),
            Some(memory) => {
                Bytes::copy_from_slice(memory.as_slice().get(range).unwrap_or_default())
            }
            None => Bytes::new(),
        }
    }

    pub(crate) fn descriptor(&self, md: MdHandle) -> &[u8] {
        self.descriptors
            .get(&md)
            .map_or(&[], |registered| registered.memory.as_slice())
    }

    pub(crate) fn descriptor_mut(&mut self, md: MdHandle) -> &mut [u8] {
        match self
            .descriptors
            .get_mut(&md)
            .map(|registered| &mut registered.memory)
        {
            Some(Memory::Sink(vector)) => vector,
            // The engine refuses descriptors whose options would need a source to be written.
            Some(Memory::Source(_)) | None => &mut [],
        }
    }

    pub(crate) fn router(&self, buffer: RouterBuffer) -> &[u8] {
        self.router.slice(buffer)
    }

    pub(crate) fn router_mut(&mut self, buffer: RouterBuffer) -> &mut [u8] {
        self.router.slice_mut(buffer)
    }

    /// Bytes of router buffers allocated so far.
    pub(crate) fn router_bytes(&self) -> u64 {
        self.router.allocated
    }
}

/// Router buffers, allocated when the core first hands out their index and kept for the next message:
/// a router that forwards little stays small (kernel routers take more than 1 GB at once, section 17).
#[derive(Default)]
struct RouterMemory {
    small: Vec<Box<[u8]>>,
    large: Vec<Box<[u8]>>,
    allocated: u64,
}

impl RouterMemory {
    fn slice(&self, buffer: RouterBuffer) -> &[u8] {
        let pool = match buffer.pool {
            RouterPool::Tiny => return &[],
            RouterPool::Small => &self.small,
            RouterPool::Large => &self.large,
        };
        pool.get(buffer.index as usize).map_or(&[], |bytes| bytes)
    }

    fn slice_mut(&mut self, buffer: RouterBuffer) -> &mut [u8] {
        let pool = match buffer.pool {
            RouterPool::Tiny => return &mut [],
            RouterPool::Small => &mut self.small,
            RouterPool::Large => &mut self.large,
        };
        let index = buffer.index as usize;
        // Lowest free index first, so the pool grows by one buffer at a time.
        while pool.len() <= index {
            pool.push(vec![0; buffer.pool.buffer_len()].into_boxed_slice());
            self.allocated += buffer.pool.buffer_len() as u64;
        }
        &mut pool[index]
    }
}
