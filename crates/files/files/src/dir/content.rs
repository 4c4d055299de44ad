//! The content of files.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{CWD, FallocateFlags, Mode, OFlags, SeekFrom};

use crate::dir::LocalDirectory;
use crate::dir::directory::{proc_path, reopen_directory, status};
use crate::dir::identity::{Acting, errno};
use crate::dir::table::{Access, Object, Open};
use crate::{AllocateMode, Errno, Handle, Kind, Reply, SeekTarget, Segment};

/// Limit of the pieces of memory in one system call (`IOV_MAX` of Linux).
const PIECES_MAX: usize = 1024;

impl LocalDirectory {
    /// Returns a descriptor of a regular file that permits `access`.
    pub(crate) fn content(
        &self,
        acting: &Acting,
        handle: Handle,
        access: Access,
    ) -> Result<Arc<Open>, Errno> {
        let (object, open) = self.resolve(handle)?;
        match object.kind {
            Kind::File => {}
            Kind::Directory => return Err(Errno::EISDIR),
            _ => return Err(Errno::EINVAL),
        }
        if open.access >= access && open.acting == *acting {
            return Ok(open);
        }
        self.reopen(acting, &object, &open, access)
    }

    /// Reopens a file with more rights, and keeps the new descriptor.
    fn reopen(
        &self,
        acting: &Acting,
        object: &Object,
        open: &Open,
        access: Access,
    ) -> Result<Arc<Open>, Errno> {
        let flags = match access {
            Access::Write => OFlags::RDWR,
            Access::Read | Access::Path => OFlags::RDONLY,
        };
        let opened = match open_as(acting, open, flags) {
            // A user who may write a file need not be allowed to read it.
            Err(Errno::EACCES) if access == Access::Write => {
                let fd = open_as(acting, open, OFlags::WRONLY)?;
                let acting = acting.clone();
                return Ok(Arc::new(Open { fd, access, acting }));
            }
            opened => opened?,
        };
        let open = Arc::new(Open {
            fd: opened,
            access,
            acting: acting.clone(),
        });
        self.table().keep(object.id, Arc::clone(&open));
        Ok(open)
    }

    pub(crate) fn read(
        &self,
        acting: &Acting,
        handle: Handle,
        segments: &[Segment],
        memory: &mut [IoSliceMut<'_>],
    ) -> Result<Reply, Errno> {
        let file = self.content(acting, handle, Access::Read)?;
        let mut memory: Vec<&mut [u8]> = memory.iter_mut().map(|part| &mut **part).collect();
        memory.reverse();
        let mut counts = Vec::with_capacity(segments.len());
        for segment in segments {
            let mut pieces = take_mut(&mut memory, segment.length);
            counts.push(read_segment(&file, segment.offset, &mut pieces)?);
        }
        Ok(Reply::Counts(counts))
    }

    pub(crate) fn write(
        &self,
        acting: &Acting,
        handle: Handle,
        segments: &[Segment],
        memory: &[IoSlice<'_>],
    ) -> Result<Reply, Errno> {
        let file = self.content(acting, handle, Access::Write)?;
        let mut memory: Vec<&[u8]> = memory.iter().rev().map(|part| &**part).collect();
        let mut counts = vec![0; segments.len()];
        let mut failed = None;
        for (segment, count) in segments.iter().zip(&mut counts) {
            let mut pieces = take(&mut memory, segment.length);
            let result = acting.run(|| Ok(write_segment(&file, segment.offset, &mut pieces)))?;
            *count = result.0;
            failed = result.1;
            if failed.is_some() {
                break;
            }
        }
        match failed {
            Some(errno) if counts.iter().all(|&count| count == 0) => Err(errno),
            _ => Ok(Reply::Counts(counts)),
        }
    }

    pub(crate) fn append(
        &self,
        acting: &Acting,
        handle: Handle,
        memory: &[IoSlice<'_>],
    ) -> Result<Reply, Errno> {
        let file = self.content(acting, handle, Access::Write)?;
        // A separate descriptor has a separate position, which shows where the bytes were appended.
        let flags = OFlags::WRONLY | OFlags::APPEND;
        let end = match open_as(acting, &file, flags) {
            // The caller has a descriptor for writing, so the caller may append.
            Err(Errno::EACCES) => open_as(&Acting::Server, &file, flags)?,
            opened => opened?,
        };
        let memory = &memory[..memory.len().min(PIECES_MAX)];
        let write = || rustix::io::writev(&end, memory).map_err(errno);
        let count = acting.run(|| retry(write))? as u64;
        // An empty write leaves the position at 0.
        let behind = match count {
            0 => rustix::fs::seek(&end, SeekFrom::End(0)),
            _ => rustix::fs::tell(&end),
        };
        let behind = behind.map_err(errno)?;
        Ok(Reply::Appended(behind.saturating_sub(count), count))
    }

    pub(crate) fn flush(&self, handle: Handle, data_only: bool) -> Result<Reply, Errno> {
        let (object, open) = self.resolve(handle)?;
        let fresh;
        let fd: &OwnedFd = match object.kind {
            Kind::Directory => {
                fresh = reopen_directory(open.fd.as_fd())?;
                &fresh
            }
            Kind::File if open.access >= Access::Read => &open.fd,
            Kind::File => {
                fresh = open_for_flush(&open)?;
                &fresh
            }
            // Other objects have no contents to write to stable storage.
            _ => return Ok(Reply::Done),
        };
        let flush = || {
            if data_only {
                rustix::fs::fdatasync(fd).map_err(errno)
            } else {
                rustix::fs::fsync(fd).map_err(errno)
            }
        };
        retry(flush)?;
        Ok(Reply::Done)
    }

    pub(crate) fn allocate_in(
        &self,
        acting: &Acting,
        handle: Handle,
        mode: AllocateMode,
        segment: Segment,
    ) -> Result<Reply, Errno> {
        let file = self.content(acting, handle, Access::Write)?;
        let flags = match mode {
            AllocateMode::Extend => FallocateFlags::empty(),
            AllocateMode::KeepSize => FallocateFlags::KEEP_SIZE,
            AllocateMode::PunchHole => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            AllocateMode::Zero => FallocateFlags::ZERO_RANGE,
            AllocateMode::ZeroKeepSize => FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
        };
        let (offset, length) = (segment.offset, segment.length);
        let allocate = || rustix::fs::fallocate(&file.fd, flags, offset, length).map_err(errno);
        acting.run(|| retry(allocate))?;
        Ok(Reply::Done)
    }

    pub(crate) fn seek_in(
        &self,
        acting: &Acting,
        handle: Handle,
        offset: u64,
        target: SeekTarget,
    ) -> Result<Reply, Errno> {
        let file = self.content(acting, handle, Access::Read)?;
        let from = match target {
            SeekTarget::Data => SeekFrom::Data(offset),
            SeekTarget::Hole => SeekFrom::Hole(offset),
        };
        // No other operation uses the position of the descriptor: all others pass an offset.
        let found = rustix::fs::seek(&file.fd, from).map_err(errno)?;
        Ok(Reply::Offset(found))
    }
}

/// Reopens a file. Its owner may always do so, as with NFS: the caller's machine checked permission when it opened
/// the file, and this program has no descriptor from that time.
fn open_as(acting: &Acting, open: &Open, flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = proc_path(open.fd.as_fd());
    let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let attempt = || retry(|| rustix::fs::openat(CWD, &path, flags, Mode::empty()).map_err(errno));
    match acting.run(attempt) {
        Err(Errno::EACCES) if acting.uid() == Some(status(open.fd.as_fd(), b"")?.stx_uid) => {
            attempt()
        }
        opened => opened,
    }
}

/// Reopens a file to flush it. A flush is harmless, so the rights of this process suffice.
fn open_for_flush(open: &Open) -> Result<OwnedFd, Errno> {
    open_as(&Acting::Server, open, OFlags::RDONLY)
        .or_else(|_| open_as(&Acting::Server, open, OFlags::WRONLY))
}

fn read_segment(file: &Open, offset: u64, pieces: &mut [&mut [u8]]) -> Result<u64, Errno> {
    let (mut done, mut first) = (0, 0);
    loop {
        while pieces.get(first).is_some_and(|piece| piece.is_empty()) {
            first += 1;
        }
        let some = pieces[first..].iter_mut().take(PIECES_MAX);
        let mut some: Vec<IoSliceMut<'_>> = some.map(|piece| IoSliceMut::new(piece)).collect();
        if some.is_empty() {
            return Ok(done);
        }
        let read = || rustix::io::preadv(&file.fd, &mut some, offset + done).map_err(errno);
        let count = retry(read)?;
        if count == 0 {
            return Ok(done);
        }
        done += count as u64;
        advance(&mut pieces[first..], count, |piece, by| {
            *piece = &mut std::mem::take(piece)[by..];
        });
    }
}

/// Returns the number of bytes written, and the error that ended the write early.
fn write_segment(file: &Open, offset: u64, pieces: &mut [&[u8]]) -> (u64, Option<Errno>) {
    let (mut done, mut first) = (0, 0);
    loop {
        while pieces.get(first).is_some_and(|piece| piece.is_empty()) {
            first += 1;
        }
        let some = pieces[first..].iter().take(PIECES_MAX);
        let some: Vec<IoSlice<'_>> = some.map(|piece| IoSlice::new(piece)).collect();
        if some.is_empty() {
            return (done, None);
        }
        let write = || rustix::io::pwritev(&file.fd, &some, offset + done).map_err(errno);
        match retry(write) {
            Ok(0) => return (done, Some(Errno::EIO)),
            Ok(count) => {
                done += count as u64;
                advance(&mut pieces[first..], count, |piece, by| {
                    *piece = &piece[by..]
                });
            }
            Err(errno) => return (done, Some(errno)),
        }
    }
}

/// Removes the first `count` bytes from the pieces.
fn advance<P: AsRef<[u8]>>(pieces: &mut [P], mut count: usize, cut: impl Fn(&mut P, usize)) {
    for piece in pieces {
        let by = piece.as_ref().len().min(count);
        cut(piece, by);
        count -= by;
        if count == 0 {
            return;
        }
    }
}

/// Removes pieces of `length` bytes from the end of a reversed list.
fn take<'a>(memory: &mut Vec<&'a [u8]>, length: u64) -> Vec<&'a [u8]> {
    let (mut left, mut taken) = (length as usize, Vec::new());
    while left > 0
        && let Some(piece) = memory.pop()
    {
        let (now, later) = piece.split_at(piece.len().min(left));
        left -= now.len();
        taken.push(now);
        if !later.is_empty() {
            memory.push(later);
        }
    }
    taken
}

/// Does the same as [`take`] for memory to read into.
fn take_mut<'a>(memory: &mut Vec<&'a mut [u8]>, length: u64) -> Vec<&'a mut [u8]> {
    let (mut left, mut taken) = (length as usize, Vec::new());
    while left > 0
        && let Some(piece) = memory.pop()
    {
        let at = piece.len().min(left);
        let (now, later) = piece.split_at_mut(at);
        left -= now.len();
        taken.push(now);
        if !later.is_empty() {
            memory.push(later);
        }
    }
    taken
}

/// Retries a call that a signal interrupted.
fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            result => return result,
        }
    }
}
