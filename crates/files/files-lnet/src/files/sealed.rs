//! Handles that only this gateway can make.
//!
//! ```text
//! handle   of the file system (20) · check (12): the keyed hash of the 20 bytes, cut off
//! ```
//!
//! The handle of an object is the right to use the object without passing through its directories. A caller who could
//! guess a handle would get around their permissions. So the gateway adds a check to each handle that leaves the gateway,
//! and rejects every handle without it. The key belongs to one life of the gateway, as the handles of its file system
//! do: after a restart clients look their objects up again. The handle of the root is known to everybody and has no
//! check.

use files::{Caller, Data, Entry, Errno, FileSystem, Handle, Located, Reply, Request};
use lnet_rpc::Entropy;

/// The bytes of a handle that the file system uses.
const OWN: usize = 20;

/// A file system whose handles have a check.
pub(super) struct Sealed<F> {
    files: F,
    key: [u8; 32],
}

impl<F> Sealed<F> {
    pub(super) fn new(files: F, entropy: &Entropy) -> Self {
        let mut key = [0; 32];
        key[..16].copy_from_slice(&entropy.bytes("check of handles, first half of the key"));
        key[16..].copy_from_slice(&entropy.bytes("check of handles, second half of the key"));
        Self { files, key }
    }

    fn check_of(&self, handle: &Handle) -> [u8; 32 - OWN] {
        let hash = blake3::keyed_hash(&self.key, &handle.0[..OWN]);
        let mut check = [0; 32 - OWN];
        check.copy_from_slice(&hash.as_bytes()[..32 - OWN]);
        check
    }

    /// Returns the handle for clients. A file system that uses all the bytes of its handles cannot be served.
    fn seal(&self, handle: Handle) -> Result<Handle, Errno> {
        if handle == Handle::ROOT {
            return Ok(handle);
        }
        if handle.0[OWN..] != [0; 32 - OWN] {
            return Err(Errno::EOVERFLOW);
        }
        let mut sealed = handle;
        sealed.0[OWN..].copy_from_slice(&self.check_of(&handle));
        Ok(sealed)
    }

    /// Returns the file system's handle. `ESTALE` for a handle that this gateway did not make.
    fn open(&self, handle: Handle) -> Result<Handle, Errno> {
        if handle == Handle::ROOT {
            return Ok(handle);
        }
        // Every byte is compared, so that the time does not tell how many are right.
        let pairs = handle.0[OWN..].iter().zip(self.check_of(&handle));
        if pairs.fold(0, |wrong, (&one, other)| wrong | (one ^ other)) != 0 {
            return Err(Errno::ESTALE);
        }
        let mut opened = handle;
        opened.0[OWN..].fill(0);
        Ok(opened)
    }

    /// Opens the handles of a request. A renewal names many files at once, some of them perhaps from before a restart:
    /// their handles have no effect, and the others count.
    fn open_all(&self, request: &mut Request) -> Result<(), Errno> {
        if let Request::Renew { held, released, .. } = request {
            for handles in [held, released] {
                let opened = handles.iter().flat_map(|handle| self.open(*handle));
                *handles = opened.collect();
            }
            return Ok(());
        }
        for handle in request.handles_mut() {
            *handle = self.open(*handle)?;
        }
        Ok(())
    }

    fn seal_entry(&self, entry: &mut Entry) -> Result<(), Errno> {
        entry.handle = self.seal(entry.handle)?;
        Ok(())
    }
}

impl<F: FileSystem> FileSystem for Sealed<F> {
    fn call(&self, caller: &Caller, request: &Request, data: Data<'_>) -> Result<Reply, Errno> {
        let mut request = request.clone();
        self.open_all(&mut request)?;
        let mut reply = self.files.call(caller, &request, data)?;
        match &mut reply {
            Reply::Entry(entry) | Reply::Created(entry, _) => self.seal_entry(entry)?,
            Reply::Listing(listing) => {
                let entries = listing.entries.iter_mut();
                for entry in entries.filter_map(|listed| listed.entry.as_mut()) {
                    self.seal_entry(entry)?;
                }
            }
            _ => {}
        }
        Ok(reply)
    }
}

impl<F: Located> Located for Sealed<F> {
    fn path_of(&self, handle: Handle) -> Option<Vec<u8>> {
        self.files.path_of(self.open(handle).ok()?)
    }
}
