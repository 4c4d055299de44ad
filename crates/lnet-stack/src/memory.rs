//! The memory behind memory descriptors and router buffers.
//!
//! The core knows descriptors only as lengths; here are the bytes. While a descriptor has it, memory is
//! only named, by spans: whoever moves bytes holds one, and needs no lock. A vector that a program lends
//! comes back as the same vector, when nobody moves bytes of it any more.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use lnet_core::{MdHandle, MdOptions, RouterBuffer, RouterPool};
use lnet_tcp::{Landing, Source};
use rustc_hash::FxHashMap;
use sys::Pipe;
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

    /// What is sent of a router buffer; `None` when it is not that long, or a part of it has left by its pipe already.
    pub(crate) fn router_source(
        &mut self,
        buffer: RouterBuffer,
        range: Range<usize>,
    ) -> Option<Source> {
        let memory = self.router.buffer(buffer)?.part(range)?;
        let Some(side) = self.router.sides.side(buffer) else {
            return Some(Source::Span(memory));
        };
        side.has_payload |= side.pipe.held() > 0;
        if !side.has_payload {
            return Some(Source::Span(memory));
        }
        let is_whole = side.pipe.held() == memory.len();
        is_whole.then(|| Source::Pipe(Arc::clone(&side.pipe), memory.len()))
    }

    /// Where a message is received in a router buffer that the core has just handed out; `None` when the buffer is not
    /// that long.
    pub(crate) fn router_landing(
        &mut self,
        buffer: RouterBuffer,
        range: Range<usize>,
    ) -> Option<Landing> {
        let memory = self.router.fresh(buffer)?.part(range)?;
        Some(match self.router.sides.fresh(buffer, memory.len()) {
            Some(pipe) => Landing::piped(memory, pipe),
            None => memory.into(),
        })
    }

    /// Lets payload that is only forwarded go through pipes of the kernel, where its streams are sockets: large payload in
    /// the first of the large router buffers, as far as the system gives pipes.
    pub fn use_pipes(&mut self) {
        self.router.sides.most = PIPES_MAX;
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
    sides: Sides,
    allocated: u64,
}

/// Router buffers with a pipe at their side. Each pipe takes two descriptors, and may keep as many pages as it has places
/// while a message is in it: 256 with [`PIPE_ROOM`], whatever few bytes of a page are used.
const PIPES_MAX: usize = 32;

/// Room of a pipe: the longest payload, in whole pages, and what an unprivileged process may ask for by default.
const PIPE_ROOM: usize = 1 << 20;

/// Payload shorter than this is copied: the system calls that a pipe takes beyond those for memory cost more.
const PIPED_MIN: usize = 64 << 10;

/// The pipes of the first large router buffers, made when they are first needed.
#[derive(Default)]
struct Sides {
    list: Vec<Side>,
    /// Buffers that may have one.
    most: usize,
}

struct Side {
    pipe: Arc<Pipe>,
    /// The payload in the buffer is in the pipe, not in memory.
    has_payload: bool,
}

impl Sides {
    fn side(&mut self, buffer: RouterBuffer) -> Option<&mut Side> {
        match buffer.pool {
            RouterPool::Large => self.list.get_mut(buffer.index as usize),
            RouterPool::Tiny | RouterPool::Small => None,
        }
    }

    /// The pipe for a new payload of this length: empty, and nobody else has it. The one of the message before may be
    /// neither, because its connection was closed while bytes of it were being moved.
    fn fresh(&mut self, buffer: RouterBuffer, len: usize) -> Option<Arc<Pipe>> {
        let index = buffer.index as usize;
        if let Some(side) = self.side(buffer) {
            side.has_payload = false;
        }
        if buffer.pool != RouterPool::Large || len < PIPED_MIN || index >= self.most {
            return None;
        }
        // Lowest free index first, so that the list grows by one at a time.
        while self.list.len() <= index {
            let side = self.new_side()?;
            self.list.push(side);
        }
        let side = self.list.get_mut(index)?;
        if side.pipe.held() > 0 || Arc::get_mut(&mut side.pipe).is_none() {
            let new = self.new_side()?;
            self.list[index] = new;
        }
        self.list.get(index).map(|side| Arc::clone(&side.pipe))
    }

    /// `None` where the system gives no more; it is not asked again.
    fn new_side(&mut self) -> Option<Side> {
        let Ok(pipe) = Pipe::with_room(PIPE_ROOM) else {
            self.most = 0;
            return None;
        };
        Some(Side {
            pipe: Arc::new(pipe),
            has_payload: false,
        })
    }
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
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    const BUFFER: RouterBuffer = RouterBuffer {
        pool: RouterPool::Small,
        index: 3,
    };

    fn landing(table: &mut MemoryTable<()>) -> Span {
        let landing = table.router_landing(BUFFER, 0..100).unwrap();
        landing.memory().clone()
    }

    fn source(table: &mut MemoryTable<()>) -> Span {
        match table.router_source(BUFFER, 0..100) {
            Some(Source::Span(span)) => span,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_message_never_lands_in_router_memory_that_a_write_still_has() {
        let mut table = MemoryTable::<()>::default();
        landing(&mut table).copy_in(&[1; 100]);
        let being_written = source(&mut table);
        landing(&mut table).copy_in(&[2; 100]);
        assert_eq!(being_written.to_vec(), [1; 100]);
        let sent = source(&mut table);
        assert_eq!(sent.to_vec(), [2; 100]);
    }

    const PIPED: RouterBuffer = RouterBuffer {
        pool: RouterPool::Large,
        index: 0,
    };

    /// Two ends of a connection with bytes in it, and the pipe of a payload of that length.
    fn piped(table: &mut MemoryTable<()>) -> (TcpStream, TcpStream, Arc<Pipe>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.set_nonblocking(true).unwrap();
        table.router_landing(PIPED, 0..PIPED_MIN).unwrap();
        let pipe = Arc::clone(&table.router.sides.list[0].pipe);
        far.write_all(&[7; PIPED_MIN]).unwrap();
        while pipe.held() < PIPED_MIN {
            // The bytes are on their way.
            let _not_yet = pipe.fill(&near, PIPED_MIN - pipe.held());
        }
        (near, far, pipe)
    }

    fn with_pipes() -> MemoryTable<()> {
        let mut table = MemoryTable::default();
        table.use_pipes();
        table
    }

    #[test]
    fn payload_in_a_pipe_is_sent_from_there_as_long_as_it_is_whole() {
        let mut table = with_pipes();
        let (near, _far, pipe) = piped(&mut table);
        let source = table.router_source(PIPED, 0..PIPED_MIN);
        assert!(
            matches!(source, Some(Source::Pipe(_, PIPED_MIN))),
            "{source:?}"
        );
        assert_eq!(pipe.drain(&near, 100).unwrap(), 100);
        assert!(table.router_source(PIPED, 0..PIPED_MIN).is_none());
        while pipe.held() > 0 {
            let _not_yet = pipe.drain(&near, PIPED_MIN);
        }
        assert!(table.router_source(PIPED, 0..PIPED_MIN).is_none());
    }

    #[test]
    fn a_pipe_is_used_again_when_it_is_empty_and_nobody_has_it() {
        let mut table = with_pipes();
        let (near, _far, pipe) = piped(&mut table);
        let other = |table: &mut MemoryTable<()>| {
            table.router_landing(PIPED, 0..PIPED_MIN).unwrap();
            Arc::clone(&table.router.sides.list[0].pipe)
        };
        let second = other(&mut table);
        assert!(
            !Arc::ptr_eq(&pipe, &second),
            "it holds the payload of another message"
        );
        while pipe.held() > 0 {
            let _not_yet = pipe.drain(&near, PIPED_MIN);
        }
        let third = other(&mut table);
        assert!(!Arc::ptr_eq(&second, &third), "somebody has it");
        let address = Arc::as_ptr(&third);
        drop(third);
        assert_eq!(Arc::as_ptr(&other(&mut table)), address);
        assert!(matches!(
            table.router_source(PIPED, 0..PIPED_MIN),
            Some(Source::Span(_))
        ));
    }

    #[test]
    fn short_payload_and_that_of_later_buffers_has_no_pipe() {
        let mut table = with_pipes();
        let later = RouterBuffer { index: 32, ..PIPED };
        table.router_landing(PIPED, 0..PIPED_MIN - 1).unwrap();
        table.router_landing(later, 0..PIPED_MIN).unwrap();
        assert!(table.router.sides.list.is_empty());
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
