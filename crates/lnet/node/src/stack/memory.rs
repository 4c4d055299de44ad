//! The memory behind memory descriptors and router buffers.
//!
//! The core knows descriptors only as lengths; this file holds their bytes. While a descriptor owns memory, the
//! memory is used only through spans: code that moves bytes holds a span and needs no lock. A vector that a program
//! lends is given back as the same vector once no code moves its bytes.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use lnet_core::{MdHandle, MdOptions, RouterBuffer, RouterPool};
use lnet_tcp::{Destination, Source};
use rustc_hash::FxHashMap;
use sys::Pipe;
use sys::span::Span;

/// Memory that a program lends to the node until the descriptor's last event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Payload to be sent or fetched by others. Shared and immutable.
    Source(Bytes),
    /// Memory for received payload: the whole present length of the vector.
    Sink(Vec<u8>),
    /// Memory for payload that no program reads.
    Scrap(Scrap),
    /// Memory of a program in another language, to be sent, fetched by others, or received into.
    Foreign(Foreign),
}

/// Memory that stays at its address. The program may use it again after the descriptor's last event, or after the
/// node's shutdown. Both wait until there is no other span of the memory: each thread that moves its bytes has one.
#[derive(Clone, Debug)]
pub struct Foreign(Box<Span>);

impl Foreign {
    /// Returns the length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if the length is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<Span> for Foreign {
    fn from(span: Span) -> Self {
        Self(Box::new(span))
    }
}

impl PartialEq for Foreign {
    fn eq(&self, other: &Self) -> bool {
        self.0.addresses() == other.0.addresses()
    }
}

impl Eq for Foreign {}

/// Memory that several descriptors share at the same time, for payload that no program reads. To receive into it
/// costs as much as to receive elsewhere, but it stays in the processor's cache.
#[derive(Clone, Debug)]
pub struct Scrap(Span);

impl Scrap {
    /// Makes scrap memory of this length in bytes.
    #[must_use]
    pub fn of_len(len: usize) -> Self {
        Self(vec![0; len].into())
    }

    /// Returns the first `len` bytes of the memory; `None` if the memory is shorter.
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
    /// Returns the length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Source(_) | Self::Sink(_) => self.as_slice().len(),
            Self::Scrap(scrap) => scrap.0.len(),
            Self::Foreign(foreign) => foreign.0.len(),
        }
    }

    /// Returns true if the length is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes; scrap and foreign memory return none.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Source(bytes) => bytes,
            Self::Sink(vector) => vector,
            Self::Scrap(_) | Self::Foreign(_) => &[],
        }
    }

    /// Returns the received bytes, none for scrap and foreign memory; copies a source.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        match self {
            Self::Source(bytes) => bytes.to_vec(),
            Self::Sink(vector) => vector,
            Self::Scrap(_) | Self::Foreign(_) => Vec::new(),
        }
    }
}

/// A memory descriptor to be attached or bound.
#[derive(Clone, Debug)]
pub struct Md {
    /// The memory.
    pub memory: Memory,
    /// The options. An attached descriptor needs `OP_PUT`, `OP_GET` or both; a bound descriptor has neither.
    pub options: MdOptions,
    /// The number of operations; `None` for any number. A put with ACK and a get use two each.
    pub threshold: Option<u32>,
    /// The most bytes of one operation; used with `MdOptions::MAX_SIZE`.
    pub max_size: u32,
    /// Whether the descriptor is removed when its operations are used up.
    pub unlink_when_exhausted: bool,
    /// A value that is repeated in every event of the descriptor.
    pub user: u64,
}

impl Md {
    /// Returns a descriptor with payload to be sent or fetched, any number of operations and no options.
    #[must_use]
    pub fn source(data: impl Into<Bytes>) -> Self {
        Self::new(Memory::Source(data.into()))
    }

    /// Returns a descriptor with memory for received payload, any number of operations and no options.
    #[must_use]
    pub fn sink(room: Vec<u8>) -> Self {
        Self::new(Memory::Sink(room))
    }

    /// Returns a descriptor with memory for payload that no program reads, any number of operations and no options.
    #[must_use]
    pub fn scrap(room: Scrap) -> Self {
        Self::new(Memory::Scrap(room))
    }

    /// Returns a descriptor with memory of a program in another language, any number of operations and no options.
    #[must_use]
    pub fn foreign(memory: Foreign) -> Self {
        Self::new(Memory::Foreign(memory))
    }

    /// Sets the options.
    #[must_use]
    pub fn options(mut self, options: MdOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets the number of operations, after which the descriptor is removed.
    #[must_use]
    pub fn threshold(mut self, operations: u32) -> Self {
        self.threshold = Some(operations);
        self.unlink_when_exhausted = true;
        self
    }

    /// Sets the user value.
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

/// Memory while a descriptor owns it.
enum Lent {
    Source(Bytes),
    Sink(Span),
    Scrap(Scrap),
    Foreign(Foreign),
}

/// A registered descriptor: its memory, and the sink for its events.
pub struct Registered<Q> {
    memory: Lent,
    pub(crate) queue: Arc<Q>,
}

impl<Q> Registered<Q> {
    /// Takes memory into the node for a descriptor, with the sink of its events.
    #[must_use]
    pub fn new(memory: Memory, queue: Arc<Q>) -> Self {
        let memory = match memory {
            Memory::Source(bytes) => Lent::Source(bytes),
            Memory::Sink(vector) => Lent::Sink(vector.into()),
            Memory::Scrap(scrap) => Lent::Scrap(scrap),
            Memory::Foreign(foreign) => Lent::Foreign(foreign),
        };
        Self { memory, queue }
    }

    /// Gives the memory back to the program.
    pub(crate) fn into_memory(self) -> Memory {
        match self.memory {
            Lent::Source(bytes) => Memory::Source(bytes),
            Lent::Sink(span) => Memory::Sink(span.into_vec()),
            Lent::Scrap(scrap) => Memory::Scrap(scrap),
            Lent::Foreign(foreign) => Memory::Foreign(foreign),
        }
    }

    /// Returns false while a thread may move bytes of memory that cannot be given back as a copy.
    pub(crate) fn may_be_given_back(&mut self) -> bool {
        match &mut self.memory {
            Lent::Foreign(foreign) => foreign.0.is_unique(),
            Lent::Source(_) | Lent::Sink(_) | Lent::Scrap(_) => true,
        }
    }

    /// Returns true if the descriptor cannot receive.
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
    /// Lends the memory to a descriptor that the core has just created.
    pub fn register(&mut self, md: MdHandle, registered: Registered<Q>) {
        self.descriptors.insert(md, registered);
    }

    /// Returns the memory of a descriptor, with the sink of its events.
    #[must_use]
    pub fn registered(&self, md: MdHandle) -> Option<&Registered<Q>> {
        self.descriptors.get(&md)
    }

    /// Returns the number of descriptors that own memory.
    #[must_use]
    pub fn lent(&self) -> usize {
        self.descriptors.len()
    }

    /// Returns true if a thread may move bytes of foreign memory.
    pub(crate) fn is_in_use(&mut self) -> bool {
        let mut all = self.descriptors.values_mut();
        all.any(|registered| !registered.may_be_given_back())
    }

    pub(crate) fn release(&mut self, md: MdHandle) -> Option<Registered<Q>> {
        self.descriptors.remove(&md)
    }

    /// Returns the bytes that a descriptor sends; `None` if it has no such bytes.
    pub(crate) fn source(&self, md: MdHandle, range: Range<usize>) -> Option<Source> {
        match &self.descriptors.get(&md)?.memory {
            Lent::Source(bytes) if range.end <= bytes.len() => {
                Some(Source::Shared(bytes.slice(range)))
            }
            Lent::Source(_) => None,
            Lent::Sink(span) | Lent::Scrap(Scrap(span)) => span.part(range).map(Source::Span),
            Lent::Foreign(foreign) => foreign.0.part(range).map(Source::Span),
        }
    }

    /// Returns the memory in which a descriptor receives; `None` if it has no such bytes.
    pub(crate) fn destination(&self, md: MdHandle, range: Range<usize>) -> Option<Span> {
        match &self.descriptors.get(&md)?.memory {
            Lent::Sink(span) | Lent::Scrap(Scrap(span)) => span.part(range),
            Lent::Foreign(foreign) => foreign.0.part(range),
            // The node rejects descriptors whose options would make it write to a source.
            Lent::Source(_) => None,
        }
    }

    /// Returns the payload in a router buffer; `None` if the buffer is shorter or a part of the payload has already
    /// left its pipe.
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

    /// Returns the memory for a message in a router buffer that the core has just handed out; `None` if the buffer is
    /// shorter.
    pub(crate) fn router_destination(
        &mut self,
        buffer: RouterBuffer,
        range: Range<usize>,
    ) -> Option<Destination> {
        let memory = self.router.fresh(buffer)?.part(range)?;
        Some(match self.router.sides.fresh(buffer, memory.len()) {
            Some(pipe) => Destination::piped(memory, pipe),
            None => memory.into(),
        })
    }

    /// Returns the payload in a router buffer as memory, for a device that cannot read a pipe; `None` if the buffer is
    /// shorter or a part of the payload has already left its pipe.
    pub(crate) fn router_memory(
        &mut self,
        buffer: RouterBuffer,
        range: Range<usize>,
    ) -> Option<Span> {
        let memory = self.router.buffer(buffer)?.part(range)?;
        if let Some(side) = self.router.sides.side(buffer) {
            side.has_payload |= side.pipe.held() > 0;
            if side.has_payload {
                let is_whole = side.pipe.held() == memory.len();
                let is_out = is_whole && side.pipe.empty_into(&memory).unwrap_or(false);
                is_out.then_some(())?;
                side.has_payload = false;
            }
        }
        Some(memory)
    }

    /// Copies the first bytes of forwarded payload; none if the payload is in a pipe.
    pub(crate) fn router_head(&mut self, buffer: RouterBuffer, len: usize, head: &mut Vec<u8>) {
        let mut side = self.router.sides.side(buffer);
        let is_in_pipe = side.as_mut().is_some_and(|side| side.pipe.held() > 0);
        match self.router.buffer(buffer) {
            Some(memory) if !is_in_pipe => fill(head, len, |head| memory.copy_out(head)),
            _ => head.clear(),
        }
    }

    /// Copies bytes of a descriptor; none if it has no such bytes.
    pub(crate) fn md_head(&self, md: MdHandle, range: Range<usize>, head: &mut Vec<u8>) {
        match self.source(md, range) {
            Some(Source::Shared(bytes)) => {
                head.clear();
                head.extend_from_slice(&bytes);
            }
            Some(Source::Span(span)) => fill(head, span.len(), |head| span.copy_out(head)),
            Some(Source::Pipe(..)) | None => head.clear(),
        }
    }

    /// Lets forwarded payload go through pipes of the kernel if its streams are sockets. Only large payload in the
    /// first large router buffers uses a pipe, as long as the system provides pipes.
    pub fn use_pipes(&mut self) {
        self.router.sides.most = PIPES_MAX;
    }

    /// Lets payload that is forwarded from now on go through memory only: a device of RDMA cannot read a pipe.
    pub fn use_memory_only(&mut self) {
        self.router.sides.most = 0;
    }

    /// Returns the number of bytes of router buffers allocated so far.
    #[must_use]
    pub fn router_bytes(&self) -> u64 {
        self.router.allocated
    }
}

/// Router buffers. A buffer is allocated when the core first hands out its index, and is kept for later messages. So
/// a router that forwards little stays small (kernel routers take more than 1 GB at once).
#[derive(Default)]
struct RouterMemory {
    small: Vec<Span>,
    large: Vec<Span>,
    sides: Sides,
    allocated: u64,
}

/// The number of router buffers with a pipe. Each pipe takes two file descriptors. While a message is in it, it may
/// keep as many pages as it has slots, 256 with [`PIPE_ROOM`], even if only a few bytes of each page are used.
const PIPES_MAX: usize = 32;

/// The capacity of a pipe in bytes: the longest payload, in whole pages. An unprivileged process may request this
/// much by default.
const PIPE_ROOM: usize = 1 << 20;

/// Shorter payload is copied: a pipe needs more system calls than memory does, and these cost more than the copy.
const PIPED_MIN: usize = 64 << 10;

/// The pipes of the first large router buffers, made when they are first needed.
#[derive(Default)]
struct Sides {
    list: Vec<Side>,
    /// The number of buffers that may have a pipe.
    most: usize,
}

struct Side {
    pipe: Arc<Pipe>,
    /// True if the buffer's present message may use the pipe. If not, bytes in the pipe are those of an earlier message
    /// whose connection closed.
    is_used: bool,
    /// True if the payload of the buffer is in the pipe and not in memory.
    has_payload: bool,
}

impl Sides {
    /// Returns the pipe that the buffer's present message may use.
    fn side(&mut self, buffer: RouterBuffer) -> Option<&mut Side> {
        self.any_side(buffer).filter(|side| side.is_used)
    }

    fn any_side(&mut self, buffer: RouterBuffer) -> Option<&mut Side> {
        match buffer.pool {
            RouterPool::Large => self.list.get_mut(buffer.index as usize),
            RouterPool::Tiny | RouterPool::Small => None,
        }
    }

    /// Returns a pipe for a new payload of this length. The pipe is empty and used by no job. The previous message's
    /// pipe may not be, if its connection closed while bytes moved; then a new pipe replaces it.
    fn fresh(&mut self, buffer: RouterBuffer, len: usize) -> Option<Arc<Pipe>> {
        let index = buffer.index as usize;
        if let Some(side) = self.any_side(buffer) {
            (side.is_used, side.has_payload) = (false, false);
        }
        if buffer.pool != RouterPool::Large || len < PIPED_MIN || index >= self.most {
            return None;
        }
        // The core uses the lowest free index first, so the list grows by one at a time.
        while self.list.len() <= index {
            let side = self.new_side()?;
            self.list.push(side);
        }
        let side = self.list.get_mut(index)?;
        if side.pipe.held() > 0 || Arc::get_mut(&mut side.pipe).is_none() {
            let new = self.new_side()?;
            self.list[index] = new;
        }
        let side = self.list.get_mut(index)?;
        side.is_used = true;
        Some(Arc::clone(&side.pipe))
    }

    /// Makes a pipe. Returns `None` if the system provides no more; then no further pipe is requested.
    fn new_side(&mut self) -> Option<Side> {
        let Ok(pipe) = Pipe::with_room(PIPE_ROOM) else {
            self.most = 0;
            return None;
        };
        Some(Side {
            pipe: Arc::new(pipe),
            is_used: false,
            has_payload: false,
        })
    }
}

impl RouterMemory {
    /// Returns the memory of a buffer for a new message; `None` for a buffer without bytes. The memory is never
    /// memory that a read or write of the previous message still uses, because its connection closed while bytes
    /// moved.
    fn fresh(&mut self, buffer: RouterBuffer) -> Option<&mut Span> {
        let span = self.buffer(buffer)?;
        if !span.is_unique() {
            *span = vec![0; buffer.pool.buffer_len()].into();
        }
        Some(span)
    }

    /// Returns the memory of a buffer; `None` for a buffer without bytes.
    fn buffer(&mut self, buffer: RouterBuffer) -> Option<&mut Span> {
        let pool = match buffer.pool {
            RouterPool::Tiny => return None,
            RouterPool::Small => &mut self.small,
            RouterPool::Large => &mut self.large,
        };
        let index = buffer.index as usize;
        // The core uses the lowest free index first, so the pool grows by one buffer at a time.
        while pool.len() <= index {
            pool.push(vec![0; buffer.pool.buffer_len()].into());
            self.allocated += buffer.pool.buffer_len() as u64;
        }
        pool.get_mut(index)
    }
}

/// Fills a vector with what is copied into at most `len` bytes. Only bytes that it did not have before are cleared.
fn fill(head: &mut Vec<u8>, len: usize, copy: impl FnOnce(&mut [u8]) -> usize) {
    head.resize(len, 0);
    let copied = copy(head);
    head.truncate(copied);
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

    fn destination(table: &mut MemoryTable<()>) -> Span {
        let destination = table.router_destination(BUFFER, 0..100).unwrap();
        destination.memory().clone()
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
        destination(&mut table).copy_in(&[1; 100]);
        let being_written = source(&mut table);
        destination(&mut table).copy_in(&[2; 100]);
        assert_eq!(being_written.to_vec(), [1; 100]);
        let sent = source(&mut table);
        assert_eq!(sent.to_vec(), [2; 100]);
    }

    const PIPED: RouterBuffer = RouterBuffer {
        pool: RouterPool::Large,
        index: 0,
    };

    /// Returns the two ends of a connection, and a pipe that holds a payload of [`PIPED_MIN`] bytes.
    fn piped(table: &mut MemoryTable<()>) -> (TcpStream, TcpStream, Arc<Pipe>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.set_nonblocking(true).unwrap();
        table.router_destination(PIPED, 0..PIPED_MIN).unwrap();
        let pipe = Arc::clone(&table.router.sides.list[0].pipe);
        far.write_all(&[7; PIPED_MIN]).unwrap();
        while pipe.held() < PIPED_MIN {
            // The bytes may not have arrived yet.
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
    fn payload_in_a_pipe_becomes_memory_for_who_cannot_read_a_pipe() {
        let mut table = with_pipes();
        let (_near, _far, pipe) = piped(&mut table);
        for _ in 0..2 {
            let memory = table.router_memory(PIPED, 0..PIPED_MIN).unwrap();
            assert_eq!(memory.to_vec(), [7; PIPED_MIN]);
            assert_eq!(pipe.held(), 0);
        }
        let source = table.router_source(PIPED, 0..PIPED_MIN);
        assert!(matches!(source, Some(Source::Span(_))), "{source:?}");
        let (near, _far, pipe) = piped(&mut table);
        assert_eq!(pipe.drain(&near, 100).unwrap(), 100);
        assert!(table.router_memory(PIPED, 0..PIPED_MIN).is_none());
    }

    #[test]
    fn what_a_broken_message_left_in_a_pipe_is_not_the_payload_of_the_next() {
        let mut table = with_pipes();
        let (_near, _far, pipe) = piped(&mut table);
        let short = 0..PIPED_MIN - 1;
        table.router_destination(PIPED, short.clone()).unwrap();
        assert_eq!(pipe.held(), PIPED_MIN, "the first message was never sent");
        let source = table.router_source(PIPED, short.clone());
        assert!(matches!(source, Some(Source::Span(_))), "{source:?}");
        let memory = table.router_memory(PIPED, short).unwrap();
        assert_eq!(memory.len(), PIPED_MIN - 1);
        let mut head = Vec::new();
        table.router_head(PIPED, 10, &mut head);
        assert_eq!(head, [0; 10]);
    }

    #[test]
    fn without_pipes_new_payload_goes_to_memory_and_the_old_one_stays_whole() {
        let mut table = with_pipes();
        let (_near, _far, _pipe) = piped(&mut table);
        table.use_memory_only();
        let old = table.router_source(PIPED, 0..PIPED_MIN);
        assert!(matches!(old, Some(Source::Pipe(..))), "{old:?}");
        table.router_destination(PIPED, 0..PIPED_MIN).unwrap();
        let new = table.router_source(PIPED, 0..PIPED_MIN);
        assert!(matches!(new, Some(Source::Span(_))), "{new:?}");
    }

    #[test]
    fn a_pipe_is_used_again_when_it_is_empty_and_nobody_has_it() {
        let mut table = with_pipes();
        let (near, _far, pipe) = piped(&mut table);
        let other = |table: &mut MemoryTable<()>| {
            table.router_destination(PIPED, 0..PIPED_MIN).unwrap();
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
        table.router_destination(PIPED, 0..PIPED_MIN - 1).unwrap();
        table.router_destination(later, 0..PIPED_MIN).unwrap();
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
        let first = destination(&mut table).as_ptr();
        assert_eq!(destination(&mut table).as_ptr(), first);
        let bytes = table.router_bytes();
        let _kept = destination(&mut table);
        assert_ne!(destination(&mut table).as_ptr(), first);
        assert_eq!(table.router_bytes(), bytes);
    }
}
