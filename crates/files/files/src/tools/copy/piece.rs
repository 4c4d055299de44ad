//! Pieces of files: reads, writes and reads back.

use super::file::Long;
use super::{Copier, Verify};
use crate::tools::failure::{Failure, Why};
use crate::tools::tree::Tree;
use crate::{Errno, Handle, Segment};

/// The memory of a worker.
#[derive(Default)]
pub(super) struct Buffers {
    bytes: Vec<u8>,
    again: Vec<u8>,
}

impl Copier<'_> {
    /// Moves one piece of a file. Returns true if an earlier copy had written the piece already.
    pub(super) fn move_piece(
        &self,
        long: &Long,
        piece: Segment,
        buffers: &mut Buffers,
    ) -> Result<bool, Failure> {
        let Buffers { bytes, again } = buffers;
        bytes.resize(piece.length as usize, 0);
        let read = read_whole(self.from, long.source.handle, piece.offset, bytes);
        let failed = |why| self.from.failed("read", Some(&long.from), why);
        if !read.map_err(|errno| failed(Why::Errno(errno)))? {
            return Err(failed(Why::Changed));
        }
        if long.is_resumed && self.is_written(long, piece, bytes, again)? {
            return Ok(true);
        }
        write_whole(self.to, long.target.handle, piece.offset, bytes)
            .map_err(|errno| self.to.failure("write", Some(&long.to), errno))?;
        let verify = self.options.verify;
        if verify != Verify::None && !self.is_written(long, piece, bytes, again)? {
            return Err(self.to.failed("write", Some(&long.to), Why::Differs));
        }
        if verify == Verify::Both {
            let read = read_whole(self.from, long.source.handle, piece.offset, again);
            let is_whole = read.map_err(|errno| failed(Why::Errno(errno)))?;
            if !is_whole || again != bytes {
                return Err(failed(Why::Differs));
            }
        }
        Ok(false)
    }

    /// Returns whether the target has these bytes.
    fn is_written(
        &self,
        long: &Long,
        piece: Segment,
        bytes: &[u8],
        again: &mut Vec<u8>,
    ) -> Result<bool, Failure> {
        again.resize(bytes.len(), 0);
        let read = read_whole(self.to, long.target.handle, piece.offset, again);
        let is_whole = read.map_err(|errno| self.to.failure("read back", Some(&long.to), errno))?;
        Ok(is_whole && again == bytes)
    }
}

/// Fills memory from a file. Returns false if the file ends earlier.
pub(crate) fn read_whole(
    tree: Tree<'_>,
    handle: Handle,
    offset: u64,
    memory: &mut [u8],
) -> Result<bool, Errno> {
    let count = tree.files.read(tree.caller, handle, offset, memory)?;
    Ok(count == memory.len())
}

/// Writes all bytes. After a short write, retries the rest, so that the server returns the error.
fn write_whole(tree: Tree<'_>, handle: Handle, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
    let mut done = 0;
    while done < bytes.len() {
        let at = offset + done as u64;
        let count = tree.files.write(tree.caller, handle, at, &bytes[done..])?;
        if count == 0 {
            return Err(Errno::EIO);
        }
        done += count;
    }
    Ok(())
}
