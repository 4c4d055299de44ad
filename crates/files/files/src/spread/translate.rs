//! Translates handles in requests and replies: callers use handles of the spread, each gateway its own.

use crate::spread::several::Spread;
use crate::spread::table::{Id, Identity, ROOT, Spot, Way};
use crate::{Attributes, Caller, Entry, Errno, Handle, Kind, Path, Place, Reply, Request};

/// Returns copies of the handles in a request.
pub(crate) fn handles_of(request: &Request) -> Vec<Handle> {
    let mut request = request.clone();
    request
        .handles_mut()
        .into_iter()
        .map(|handle| *handle)
        .collect()
}

impl Spread {
    /// Returns the handle of an object at a gateway. Looks the object up if the handle is not known.
    pub(crate) fn at_gateway(
        &self,
        gateway: usize,
        caller: &Caller,
        (id, identity): (Id, Identity),
    ) -> Result<Handle, Errno> {
        if let Some(handle) = self.table().at_gateway(id, gateway) {
            return Ok(handle);
        }
        let ways = self.table().ways(id);
        for way in ways {
            match self.walk(gateway, caller, &way) {
                Ok(entry) => {
                    let found = self.identity(gateway, &entry.attributes);
                    if found.is_same(&identity) {
                        let mut table = self.table();
                        table.set_at_gateway(id, gateway, Some(entry.handle));
                        table.see_links(id, entry.attributes.links);
                        return Ok(entry.handle);
                    }
                }
                Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::ESTALE)
    }

    /// Looks a path up from the root, in as few requests as the limit of a path permits.
    fn walk(&self, gateway: usize, caller: &Caller, way: &Way) -> Result<Entry, Errno> {
        let (mut directory, mut rest) = (Handle::ROOT, &way[..]);
        loop {
            let mut length = 0;
            let ends = rest.iter().map(|name| {
                length += name.len() + 1;
                length
            });
            let count = ends.take_while(|end| *end <= crate::PATH_MAX).count();
            let (now, later) = rest.split_at(count);
            let path = Path::new(&now.join(&b'/'))?;
            let place = Place { directory, path };
            let request = Request::Lookup { place };
            let Reply::Entry(entry) =
                self.inner.gateways[gateway].call(caller, &request, crate::Data::None)?
            else {
                return Err(Errno::EPROTO);
            };
            if later.is_empty() {
                return Ok(entry);
            }
            (directory, rest) = (entry.handle, later);
        }
    }

    /// Returns the identity of an object from its attributes at a gateway.
    pub(crate) fn identity(&self, gateway: usize, attributes: &Attributes) -> Identity {
        Identity {
            kind: attributes.kind,
            filesystem: self.filesystem(gateway, attributes.filesystem),
            file: attributes.file,
            born: attributes.born,
        }
    }

    /// Returns the spread's number of a file system. Each gateway has its own number for the root's file system;
    /// other numbers stay unchanged.
    fn filesystem(&self, gateway: usize, number: u64) -> u64 {
        match self.root() {
            Some(root) if number == self.inner.gateways[gateway].filesystem() => root.filesystem,
            _ => number,
        }
    }

    /// Returns the request with the gateway's handles.
    pub(crate) fn for_gateway(
        &self,
        gateway: usize,
        caller: &Caller,
        request: &Request,
    ) -> Result<Request, Errno> {
        let mut request = request.clone();
        for handle in request.handles_mut() {
            let object = self.table().find(*handle)?;
            *handle = self.at_gateway(gateway, caller, object)?;
        }
        Ok(request)
    }

    /// Forgets the handles of a request at a gateway, which does not know them.
    pub(crate) fn forget_handles(&self, gateway: usize, request: &Request, sent: &Request) {
        let mut table = self.table();
        for (own, sent) in handles_of(request).into_iter().zip(handles_of(sent)) {
            if let Ok((id, _)) = table.find(own)
                && table.at_gateway(id, gateway) == Some(sent)
            {
                table.set_at_gateway(id, gateway, None);
            }
        }
    }

    /// Returns the reply with the spread's handles and numbers. Records the objects in the reply.
    pub(crate) fn for_caller(
        &self,
        gateway: usize,
        request: &Request,
        mut reply: Reply,
    ) -> Result<Reply, Errno> {
        match &mut reply {
            Reply::Attributes(attributes) => self.see(gateway, request, attributes),
            Reply::Entry(entry) | Reply::Created(entry, _) => {
                let spot = self.spot(request)?;
                self.note(
                    gateway,
                    entry,
                    spot.as_ref().map(|(id, name)| (*id, &**name)),
                );
            }
            Reply::Listing(listing) => {
                let directory = match handles_of(request)[..] {
                    [handle] => self.table().find(handle)?.0,
                    _ => ROOT,
                };
                for listed in &mut listing.entries {
                    if let Some(entry) = &mut listed.entry {
                        self.note(gateway, entry, Some((directory, &listed.name)));
                    }
                }
            }
            _ => {}
        }
        Ok(reply)
    }

    /// Returns the first name in a request.
    pub(crate) fn spot(&self, request: &Request) -> Result<Option<Spot>, Errno> {
        let mut request = request.clone();
        let places = request.places_mut();
        let Some(place) = places.first() else {
            return Ok(None);
        };
        let (directory, _) = self.table().find(place.directory)?;
        Ok(Some((directory, place.path.as_bytes().into())))
    }

    fn see(&self, gateway: usize, request: &Request, attributes: &mut Attributes) {
        attributes.filesystem = self.filesystem(gateway, attributes.filesystem);
        if let [handle] = handles_of(request)[..] {
            let mut table = self.table();
            if let Ok((id, _)) = table.find(handle) {
                table.see_links(id, attributes.links);
            }
        }
    }

    pub(crate) fn note(&self, gateway: usize, entry: &mut Entry, spot: Option<(Id, &[u8])>) {
        let identity = self.identity(gateway, &entry.attributes);
        entry.attributes.filesystem = identity.filesystem;
        let mut table = self.table();
        let at = (gateway, entry.handle);
        let id = table.note(identity, entry.attributes.links, spot, at);
        entry.handle = table.handle_of(id);
    }

    /// Returns the same request with places of one component each. Looks the directories of the paths up one by one,
    /// so that the table knows them.
    pub(crate) fn narrowed(&self, caller: &Caller, request: &Request) -> Result<Request, Errno> {
        let mut request = request.clone();
        if let Request::Link { handle, .. } = &request
            && self.table().find(*handle)?.1.kind == Kind::Directory
        {
            return Err(Errno::EPERM);
        }
        for place in request.places_mut() {
            let (parents, name) = place.path.split_last();
            let Some(parents) = parents else { continue };
            let mut directory = place.directory;
            for component in parents.components() {
                let place = Place::of(directory, component)?;
                directory = crate::FileSystem::lookup(self, caller, place)?.handle;
            }
            // Check before the next place is processed, as a server would.
            match self.table().find(directory)?.1.kind {
                Kind::Directory => {}
                Kind::Symlink => return Err(Errno::ELOOP),
                _ => return Err(Errno::ENOTDIR),
            }
            *place = Place::of(directory, name)?;
        }
        Ok(request)
    }
}
