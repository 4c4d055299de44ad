//! Posts, and the completion of operations.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bmi::{ContextId, Error, Memory, OpId, Posted, Request, RequestKind};
use zoid_proto::ctl::{INLINE_SEGMENTS, Post, PostOutcome, Reply, Request as Command};
use zoid_proto::{Array, Extent, List};

use super::attachment::Attachment;
use super::ops::{Need, Op, State};
use super::pool::Piece;
use super::{Server, lock};

/// The outcome of posting an operation to the plugin.
enum Outcome {
    Immediate(usize),
    Registered,
    Failed(Error),
}

impl Server {
    pub(super) fn post(self: &Arc<Self>, request: &Request) -> Result<Posted, Error> {
        let receives = match request.kind {
            RequestKind::Send => false,
            RequestKind::Receive => true,
            // [ZOID-3]
            RequestKind::SendUnexpected(_) => return Err(Error::OpNotSupp),
        };
        let attachment = self.reattached()?;
        self.check_peer(request, &attachment)?;
        if request.total as u64 > attachment.max_expected {
            return Err(Error::MsgSize);
        }
        let external = match request.memory {
            Memory::External => true,
            Memory::PreAllocated => self.is_of_former_segment(request, &attachment)?,
        };
        let need = need(request, external);
        // [MEM-11]
        if need.bytes() > attachment.pool.capacity() {
            return Err(Error::NoMem);
        }
        let op = Op {
            context: request.context,
            peer: request.peer,
            tag: request.tag.0,
            receives,
            segments: request.segments.clone(),
            total: request.total,
            need,
            piece: None,
            state: State::Posting { cancelled: false },
            forgotten: false,
        };
        self.admit(request.op, op, &attachment)
    }

    /// Returns whether memory that the method allocated must be copied, because part of it is in the segment
    /// of a former daemon.
    ///
    /// # Errors
    ///
    /// [`Error::Inval`]: it is not the method's memory.
    // [MEM-6]
    fn is_of_former_segment(
        &self,
        request: &Request,
        attachment: &Attachment,
    ) -> Result<bool, Error> {
        // [MEM-7]
        let outside = |span: &&sys::span::Span| attachment.extent_of(span).is_none();
        let former = lock(&self.former);
        let mut outside = request.segments.iter().filter(outside).peekable();
        let copied = outside.peek().is_some();
        let is_former = |span: &sys::span::Span| {
            let regions = former.iter().filter_map(Weak::upgrade);
            regions.into_iter().any(|pool| pool.has(span))
        };
        outside.all(is_former).then_some(copied).ok_or(Error::Inval)
    }

    // [ZOID-4]
    fn check_peer(&self, request: &Request, attachment: &Attachment) -> Result<(), Error> {
        let client = lock(&self.peers).client(request.peer).ok_or(Error::Inval)?;
        if client.session != attachment.session {
            return Err(Error::ConnReset);
        }
        Ok(())
    }

    /// Stores an operation and posts it to the plugin, or lets it wait for memory.
    // [MEM-4]
    fn admit(
        self: &Arc<Self>,
        id: OpId,
        mut op: Op,
        attachment: &Arc<Attachment>,
    ) -> Result<Posted, Error> {
        if op.need != Need::Nothing {
            let (bytes, now) = (op.need.bytes(), Instant::now());
            let mut waiting = lock(&self.waiting);
            let must_wait = waiting.has(op.key()) || waiting.holds_back(bytes, now);
            let piece = (!must_wait).then(|| attachment.pool.allocate(bytes));
            let Some(piece) = piece.flatten() else {
                op.state = State::Waiting;
                let key = op.key();
                // Inserted before it waits: another thread that finds it in `waiting` must find the
                // operation.
                lock(&self.ops).insert(id, op);
                waiting.add(id, key, bytes, now);
                drop(waiting);
                self.counters.waited_for_memory().up();
                // Memory that was freed meanwhile found no waiting operation.
                self.memory_freed();
                return Ok(Posted::Pending);
            };
            drop(waiting);
            self.provide(&mut op, piece);
        }
        lock(&self.ops).insert(id, op);
        // A post that may complete at once returns at the end of its transfer.
        let pipelined = self.pipelined.load(Ordering::Relaxed);
        let registered = match pipelined && attachment.unanswered_posts {
            true => self.announce(id, attachment),
            false => self.register(id, attachment, pipelined),
        };
        match registered {
            Outcome::Immediate(len) => Ok(Posted::Immediate(len)),
            Outcome::Registered => Ok(Posted::Pending),
            Outcome::Failed(error) => Err(error),
        }
    }

    /// Posts an operation to the plugin. If the operation is not registered, it is no longer in the table.
    fn register(&self, id: OpId, attachment: &Arc<Attachment>, not_immediate: bool) -> Outcome {
        let outcome = self.exchange(id, attachment, not_immediate);
        match self.check_result(attachment, outcome) {
            Ok(PostOutcome::Registered { plugin_id }) => {
                self.note_registered(id, plugin_id, attachment);
                Outcome::Registered
            }
            Ok(PostOutcome::Immediate { len }) => self.complete_at_once(id, len),
            Ok(PostOutcome::NoMemory) => self.unregistered(id, Error::NoMem),
            Err(error) => self.unregistered(id, error),
        }
    }

    /// Posts to the plugin without waiting for an answer. The plugin uses the server's id, and errors arrive
    /// as completions.
    // [ZOID-64]
    fn announce(&self, id: OpId, attachment: &Arc<Attachment>) -> Outcome {
        let mut ops = lock(&self.ops);
        match ops.get_mut(id) {
            // The plugin's answer says when memory for a list may be freed.
            Some(op) if matches!(op.need, Need::List(_)) => {
                drop(ops);
                return self.register(id, attachment, true);
            }
            // Set before the command is sent: a test may report the completion at once.
            Some(op) => op.state = State::Announced,
            None => return Outcome::Registered,
        }
        drop(ops);
        let told = self
            .descriptor(id, attachment)
            .and_then(|(extents, post, receives)| {
                let segments = Array::inline(&extents);
                attachment.send_unanswered(&command(Post { segments, ..post }, receives))
            });
        match self.check_result(attachment, told) {
            Ok(()) => Outcome::Registered,
            Err(error) => self.unregistered(id, error),
        }
    }

    fn complete_at_once(&self, id: OpId, len: u64) -> Outcome {
        // Not in the condition below: memory that is freed takes the lock again.
        let removed = lock(&self.ops).remove(id);
        match removed {
            Some(op) => {
                let len = usize::try_from(len).unwrap_or(usize::MAX).min(op.total);
                op.copy_back(len, &self.counters);
                Outcome::Immediate(len)
            }
            // The daemon was lost meanwhile, and the operation with it.
            None => Outcome::Registered,
        }
    }

    /// Handles a failed post. The operation may already have failed because the daemon is gone.
    fn unregistered(&self, id: OpId, error: Error) -> Outcome {
        let removed = lock(&self.ops).remove(id);
        match removed {
            Some(op) => {
                if error == Error::ConnReset {
                    lock(&self.peers).note_gone(op.peer);
                }
                Outcome::Failed(error)
            }
            None => Outcome::Registered,
        }
    }

    fn exchange(
        &self,
        id: OpId,
        attachment: &Attachment,
        not_immediate: bool,
    ) -> Result<PostOutcome, Error> {
        let (extents, mut post, receives) = self.descriptor(id, attachment)?;
        post.not_immediate = not_immediate;
        // The memory of the list is freed with the answer.
        let list = lock(&self.ops).get_mut(id).and_then(Op::take_list);
        post.segments = match &list {
            Some(piece) => {
                fill_list(&List::new(&extents), piece)?;
                Array::Spilled(attachment.extent_of_piece(piece, piece.len))
            }
            None => Array::inline(&extents),
        };
        let command = command(post, receives);
        let answer = attachment.call(&command)?;
        match answer.reply()? {
            Reply::Post(outcome) => Ok(outcome),
            _ => Err(Error::Proto),
        }
    }

    /// Returns the plugin's description of an operation with the given segments.
    fn descriptor(
        &self,
        id: OpId,
        attachment: &Attachment,
    ) -> Result<(Vec<Extent>, Post<'static>, bool), Error> {
        let ops = lock(&self.ops);
        let op = ops.get(id).ok_or(Error::NetReset)?;
        let extents = match op.temporary() {
            Some(piece) => vec![attachment.extent_of_piece(piece, op.total)],
            None => {
                let parts = op.segments.iter().filter(|span| !span.is_empty());
                let extents: Option<_> = parts.map(|span| attachment.extent_of(span)).collect();
                extents.ok_or(Error::Inval)?
            }
        };
        let (peer, receives) = (op.peer, op.receives);
        let post = Post {
            bmi_id: id.number().unsigned_abs(),
            peer: 0,
            tag: op.tag,
            not_immediate: false,
            total: op.total as u64,
            segments: Array::inline(&[]),
        };
        drop(ops);
        let client = lock(&self.peers).client(peer).ok_or(Error::ConnReset)?;
        if client.session != attachment.session {
            // An id of a former daemon may belong to another client now.
            return Err(Error::ConnReset);
        }
        let peer = client.pid;
        Ok((extents, Post { peer, ..post }, receives))
    }

    /// Records that the plugin has registered an operation. If the plugin has already reported its
    /// completion, there is nothing to record.
    fn note_registered(&self, id: OpId, plugin_id: u64, attachment: &Arc<Attachment>) {
        let mut ops = lock(&self.ops);
        let Some(op) = ops.get_mut(id) else {
            return;
        };
        let cancelled = op.state == State::Posting { cancelled: true };
        op.state = State::Registered(plugin_id);
        drop(ops);
        if cancelled {
            let told = attachment.send_unanswered(&Command::Cancel { plugin_id });
            let _judged = self.check_result(attachment, told);
        }
    }

    /// Handles a completion that the plugin reports. Returns the context of the operation.
    pub(super) fn complete(&self, id: OpId, outcome: Result<u64, Error>) -> Option<ContextId> {
        let Some(op) = lock(&self.ops).remove(id) else {
            self.counters.protocol_errors().up();
            return None;
        };
        let result = match outcome {
            Ok(len) => usize::try_from(len)
                .ok()
                .filter(|len| *len <= op.total)
                .ok_or(Error::Proto),
            Err(Error::Cancel) if op.forgotten => Err(Error::ConnReset),
            Err(error) => Err(error),
        };
        match result {
            Ok(len) => op.copy_back(len, &self.counters),
            Err(Error::ConnReset) => lock(&self.peers).note_gone(op.peer),
            Err(_) => {}
        }
        let context = op.context;
        // Memory is freed before the interface is told of the completion.
        drop(op);
        self.completions.complete(id, result);
        Some(context)
    }

    pub(super) fn cancel(&self, id: OpId) {
        let op = lock(&self.ops).get(id).map(|op| op.state);
        if op == Some(State::Waiting) {
            let removed = lock(&self.waiting).remove(id, Instant::now());
            if let Some(waited) = removed {
                self.note_waited(waited);
                return self.cancel_waiting(id);
            }
        }
        // It is with the plugin, or has just been allocated memory.
        let command = lock(&self.ops)
            .get_mut(id)
            .and_then(|op| op.cancel_posted(id));
        if let (Some(command), Ok(attachment)) = (command, self.attached()) {
            let told = attachment.send_unanswered(&command);
            let _judged = self.check_result(&attachment, told);
        }
    }

    /// Cancels an operation that the plugin does not know (R62).
    // [ZOID-36]
    fn cancel_waiting(&self, id: OpId) {
        let Some(op) = lock(&self.ops).remove(id) else {
            return;
        };
        let error = if op.forgotten {
            Error::ConnReset
        } else {
            Error::Cancel
        };
        drop(op);
        self.completions.complete(id, Err(error));
        self.wake_all();
    }

    /// Serves the operations that wait for memory. Called after memory was freed; does not wait for a
    /// transfer.
    pub(super) fn memory_freed(self: &Arc<Self>) {
        // Not in a child after `fork`, and not once the program's memory must not be used.
        let Ok(_inside) = self.enter() else {
            return;
        };
        self.walk_again.store(true, Ordering::SeqCst);
        while self.walk_again.load(Ordering::SeqCst) {
            if self.walking.swap(true, Ordering::SeqCst) {
                // The other thread looks again.
                return;
            }
            while self.walk_again.swap(false, Ordering::SeqCst) {
                while self.serve_one_waiting() {}
            }
            self.walking.store(false, Ordering::SeqCst);
        }
    }

    /// Registers one waiting operation, if there is memory for one. The lock is not held while the plugin is
    /// asked.
    fn serve_one_waiting(&self) -> bool {
        let Ok(attachment) = self.attached() else {
            return false;
        };
        let mut waiting = lock(&self.waiting);
        let turn = waiting.next(Instant::now(), |size| attachment.pool.allocate(size));
        drop(waiting);
        let Some((turn, piece)) = turn else {
            return false;
        };
        self.note_waited(turn.waited);
        if self.give_memory(turn.op, piece) {
            match self.register(turn.op, &attachment, true) {
                Outcome::Failed(error) => self.completions.complete(turn.op, Err(error)),
                // The plugin was told not to complete it at once, but the operation is complete.
                Outcome::Immediate(len) => self.completions.complete(turn.op, Ok(len)),
                Outcome::Registered => {}
            }
        }
        lock(&self.waiting).registered(turn);
        // Tests that could not name it to the plugin now can, or can collect it.
        self.wake_all();
        true
    }

    /// Records that an operation no longer waits for memory.
    fn note_waited(&self, waited: Duration) {
        let counters = &self.counters;
        counters.memory_waits_over().up();
        let waited = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        counters.longest_memory_wait_us().raise(waited);
    }

    /// Gives memory to an operation. Returns whether the operation still exists.
    fn give_memory(&self, id: OpId, piece: Piece) -> bool {
        let mut ops = lock(&self.ops);
        let Some(op) = ops.get_mut(id) else {
            drop(ops);
            drop(piece);
            return false;
        };
        if op.state == State::Waiting {
            op.state = State::Posting { cancelled: false };
        }
        self.provide(op, piece);
        true
    }

    /// Stores the memory that an operation needs.
    fn provide(&self, op: &mut Op, piece: Piece) {
        op.piece = Some(piece);
        if op.temporary().is_some() {
            self.counters.temporary_buffers().up();
            op.copy_in(&self.counters);
        }
    }
}

/// The longest list of segments that the plugin reads; a message with a longer one is copied like memory
/// outside the segment.
const LIST_MAX: usize = 1 << 20;

const fn command(post: Post<'_>, receives: bool) -> Command<'_> {
    match receives {
        true => Command::PostRecv(post),
        false => Command::PostSend(post),
    }
}

/// Returns what an operation needs of the pool: space for a long list is like a temporary buffer.
fn need(request: &Request, external: bool) -> Need {
    let parts = request.segments.iter().filter(|span| !span.is_empty());
    let list = match parts.count() {
        count if count <= INLINE_SEGMENTS => 0,
        count => count.saturating_mul(Extent::LEN),
    };
    match (request.total, list) {
        (0, _) => Need::Nothing,
        (total, list) if external || list > LIST_MAX => Need::Copy(total),
        (_, 0) => Need::Nothing,
        (_, list) => Need::List(list),
    }
}

/// Writes a list into memory of the pool.
pub(super) fn write_list<T: zoid_proto::Item>(
    list: &List<'_, T>,
    attachment: &Attachment,
) -> Result<Piece, Error> {
    let piece = attachment.pool.allocate(list.encoded_len());
    let piece = piece.ok_or(Error::NoMem)?;
    fill_list(list, &piece)?;
    Ok(piece)
}

fn fill_list<T: zoid_proto::Item>(list: &List<'_, T>, piece: &Piece) -> Result<(), Error> {
    let mut bytes = vec![0; list.encoded_len()];
    list.encode(&mut bytes).map_err(|_| Error::Inval)?;
    let span = piece.span().ok_or(Error::NoMem)?;
    span.copy_in(&bytes);
    Ok(())
}
