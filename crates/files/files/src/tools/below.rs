//! A file system whose root is a directory of another file system.

use std::sync::{Arc, Mutex};

use crate::tools::progress::lock;
use crate::tools::tree::place;
use crate::{Caller, Data, Errno, FileSystem, Handle, Path, Place, Reply, Request};

/// A file system whose root is a directory of another one. The directory is found by its path, so this file system
/// survives a restart of the server.
pub struct Below {
    files: Arc<dyn FileSystem>,
    top: Path,
    /// Handle of the directory from the last lookup; `None` before the first lookup and after `ESTALE`.
    handle: Mutex<Option<Handle>>,
}

impl Below {
    /// Returns the directory `top` of `files` as a file system.
    #[must_use]
    pub fn new(files: Arc<dyn FileSystem>, top: Path) -> Self {
        Self {
            files,
            top,
            handle: Mutex::new(None),
        }
    }

    fn place(&self, place: &Place) -> Result<Place, Errno> {
        if place.directory != Handle::ROOT {
            return Ok(place.clone());
        }
        Ok(Place {
            directory: Handle::ROOT,
            path: self.top.join(&place.path)?,
        })
    }

    /// Returns the handle of the directory itself.
    fn root(&self, caller: &Caller) -> Result<Handle, Errno> {
        let known = *lock(&self.handle);
        if let Some(handle) = known {
            return Ok(handle);
        }
        let found = self.files.lookup(caller, place(&self.top))?.handle;
        *lock(&self.handle) = Some(found);
        Ok(found)
    }

    /// Returns the request with the places and handles of the underlying file system, and whether the request is for
    /// the directory itself.
    fn translated(&self, caller: &Caller, request: &Request) -> Result<(Request, bool), Errno> {
        let mut request = request.clone();
        for place in request.places_mut() {
            *place = self.place(place)?;
        }
        match request.handle_mut() {
            Some(handle) if *handle == Handle::ROOT => {
                *handle = self.root(caller)?;
                Ok((request, true))
            }
            _ => Ok((request, false)),
        }
    }
}

impl FileSystem for Below {
    fn call(&self, caller: &Caller, request: &Request, data: Data<'_>) -> Result<Reply, Errno> {
        let (translated, is_root) = self.translated(caller, request)?;
        if !is_root {
            return self.files.call(caller, &translated, data);
        }
        // Requests for a directory carry no data, so the second call needs none.
        match self.files.call(caller, &translated, data) {
            Err(Errno::ESTALE) => {
                *lock(&self.handle) = None;
                let (again, _) = self.translated(caller, request)?;
                self.files.call(caller, &again, Data::None)
            }
            reply => reply,
        }
    }
}
