//! A directory of a file system as a file system of its own.

use std::sync::{Arc, Mutex};

use files::{Caller, Data, Errno, FileSystem, Handle, Path, Place, Reply, Request};

use crate::progress::lock;
use crate::tree::place;

/// A directory as the root of a file system. It is found by its path, so it outlives a restart of its server.
pub struct Below {
    files: Arc<dyn FileSystem>,
    top: Path,
    /// The directory, as it was found last.
    handle: Mutex<Option<Handle>>,
}

impl Below {
    /// What is below `top` in `files`.
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

    /// The handle of the directory, for an operation on itself.
    fn root(&self, caller: &Caller) -> Result<Handle, Errno> {
        let known = *lock(&self.handle);
        if let Some(handle) = known {
            return Ok(handle);
        }
        let found = self.files.lookup(caller, place(&self.top))?.handle;
        *lock(&self.handle) = Some(found);
        Ok(found)
    }

    /// The request as the file system below knows it, and whether it names the directory itself.
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
        // What is asked of a directory has no data.
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
