//! Listings under way: what one reading of a directory found, kept from page to page.
//!
//! A directory comes in pages, in the order of its names, and a file system gives names in no order. Were
//! the directory read anew for each page, the work would grow with the square of its length. So the names of
//! one reading are kept for the client that asks, in order, and its next pages come from them; what was
//! removed meanwhile is left out, what was added is not shown.
//!
//! Memory is bounded: a reading keeps [`NAMES_BYTES_MAX`] of names, and a longer directory is read again for
//! the names behind. All listings together keep [`LISTINGS_BYTES_MAX`]; beyond it the oldest goes, and its
//! directory is read again as well.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lnet_rpc::ClientId;

use crate::name::StoreName;

/// Bytes of names that one reading keeps: some 200,000 names.
pub(crate) const NAMES_BYTES_MAX: usize = 16 << 20;

/// Bytes of names of all listings.
const LISTINGS_BYTES_MAX: usize = 64 << 20;

/// What a name takes in memory besides its own bytes.
const NAME_OVERHEAD: usize = 48;

/// Names of a directory in byte order, from one reading.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Names {
    /// All names are behind this one.
    after: Vec<u8>,
    sorted: Vec<OsString>,
    bytes: usize,
    /// The last name is the directory's last one.
    is_complete: bool,
}

/// Takes names in any order, and keeps the first ones.
pub(crate) struct Collector {
    after: Vec<u8>,
    names: BTreeSet<OsString>,
    bytes: usize,
    bytes_max: usize,
    is_complete: bool,
}

/// The listings of all clients, the oldest first.
#[derive(Default)]
pub(crate) struct Listings {
    kept: Mutex<Vec<Listing>>,
}

struct Listing {
    client: ClientId,
    directory: Option<StoreName>,
    names: Arc<Names>,
}

impl Collector {
    /// For the first names behind `after`, as many as take so many bytes, and one at least.
    pub(crate) fn new(after: &[u8], bytes_max: usize) -> Self {
        Self {
            after: after.to_vec(),
            names: BTreeSet::new(),
            bytes: 0,
            bytes_max,
            is_complete: true,
        }
    }

    pub(crate) fn add(&mut self, name: OsString) {
        if name.as_bytes() <= &self.after[..] {
            return;
        }
        self.bytes += cost(&name);
        self.names.insert(name);
        while self.bytes > self.bytes_max
            && self.names.len() > 1
            && let Some(last) = self.names.pop_last()
        {
            self.bytes -= cost(&last);
            self.is_complete = false;
        }
    }

    pub(crate) fn finish(self) -> Names {
        Names {
            after: self.after,
            sorted: self.names.into_iter().collect(),
            bytes: self.bytes,
            is_complete: self.is_complete,
        }
    }
}

impl Names {
    /// The names behind one.
    pub(crate) fn behind(&self, after: &[u8]) -> &[OsString] {
        let first = self.sorted.partition_point(|name| name.as_bytes() <= after);
        &self.sorted[first..]
    }

    /// Whether the directory has no names but these behind the first.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Whether what follows `after` is here.
    fn cover(&self, after: &[u8]) -> bool {
        let is_before_last = || {
            self.sorted
                .last()
                .is_some_and(|last| after < last.as_bytes())
        };
        after >= &self.after[..] && (self.is_complete || is_before_last())
    }
}

impl Listings {
    /// The names behind `after`: those that are kept for this client, or else those of a new reading. The
    /// first page is always read.
    pub(crate) fn names<E>(
        &self,
        client: ClientId,
        directory: Option<&StoreName>,
        after: &[u8],
        read: impl FnOnce() -> Result<Names, E>,
    ) -> Result<Arc<Names>, E> {
        if !after.is_empty()
            && let Some(names) = self.kept(client, directory, after)
        {
            return Ok(names);
        }
        let names = Arc::new(read()?);
        let listing = Listing {
            client,
            directory: directory.cloned(),
            names: Arc::clone(&names),
        };
        let mut kept = self.lock();
        kept.retain(|listing| !listing.is_of(client, directory));
        kept.push(listing);
        let mut bytes: usize = kept.iter().map(|listing| listing.names.bytes).sum();
        while bytes > LISTINGS_BYTES_MAX {
            bytes -= kept.remove(0).names.bytes;
        }
        Ok(names)
    }

    /// The client has seen the last page.
    pub(crate) fn end(&self, client: ClientId, directory: Option<&StoreName>) {
        self.lock()
            .retain(|listing| !listing.is_of(client, directory));
    }

    /// The client has gone.
    pub(crate) fn forget(&self, client: ClientId) {
        self.lock().retain(|listing| listing.client != client);
    }

    fn kept(
        &self,
        client: ClientId,
        directory: Option<&StoreName>,
        after: &[u8],
    ) -> Option<Arc<Names>> {
        let kept = self.lock();
        let listing = kept
            .iter()
            .find(|listing| listing.is_of(client, directory))?;
        let covers = listing.names.cover(after);
        covers.then(|| Arc::clone(&listing.names))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Listing>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listing {
    fn is_of(&self, client: ClientId, directory: Option<&StoreName>) -> bool {
        self.client == client && self.directory.as_ref() == directory
    }
}

fn cost(name: &OsString) -> usize {
    name.len() + NAME_OVERHEAD
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;

    use super::*;

    const ONE: ClientId = ClientId([1; 16]);
    const TWO: ClientId = ClientId([2; 16]);

    /// A directory of names 000 to 099, which counts how often it is read.
    #[derive(Default)]
    struct Place {
        listings: Listings,
        readings: Cell<u32>,
    }

    impl Place {
        /// The first name behind `after`, from readings of so many names.
        fn next(&self, client: ClientId, after: &str, names_max: usize) -> Option<OsString> {
            let read = || -> Result<Names, Infallible> {
                self.readings.set(self.readings.get() + 1);
                let bytes_max = names_max * (3 + NAME_OVERHEAD);
                let mut collector = Collector::new(after.as_bytes(), bytes_max);
                // Not in order, as from a file system.
                (0..100).for_each(|n| collector.add(format!("{:03}", n * 7 % 100).into()));
                Ok(collector.finish())
            };
            let names = self.listings.names(client, None, after.as_bytes(), read);
            let Ok(names) = names;
            names.behind(after.as_bytes()).first().cloned()
        }

        /// Every name, one a page.
        fn walk(&self, client: ClientId, names_max: usize) -> Vec<String> {
            let mut found = vec![String::new()];
            while let Some(next) = self.next(client, &found[found.len() - 1], names_max) {
                found.push(next.into_string().unwrap());
            }
            found.split_off(1)
        }
    }

    fn all() -> Vec<String> {
        (0..100).map(|n| format!("{n:03}")).collect()
    }

    #[test]
    fn a_directory_listed_in_pages_is_read_once() {
        let place = Place::default();
        assert_eq!(place.walk(ONE, 100), all());
        assert_eq!(place.readings.get(), 1);
    }

    #[test]
    fn a_directory_with_more_names_than_are_kept_is_read_once_for_each_part() {
        let place = Place::default();
        assert_eq!(place.walk(ONE, 25), all());
        assert_eq!(place.readings.get(), 4);
    }

    #[test]
    fn each_listing_begins_with_a_reading_of_its_own() {
        let place = Place::default();
        for client in [ONE, TWO, ONE] {
            place.next(client, "", 100);
            place.next(client, "050", 100);
        }
        assert_eq!(place.readings.get(), 3);
        place.listings.forget(ONE);
        place.next(TWO, "070", 100);
        assert_eq!(place.readings.get(), 3, "what another client has stays");
        place.next(ONE, "070", 100);
        assert_eq!(place.readings.get(), 4);
    }

    #[test]
    fn beyond_the_room_for_all_listings_the_oldest_goes() {
        let listings = Listings::default();
        let large = || -> Result<Names, Infallible> {
            Ok(Names {
                after: Vec::new(),
                sorted: vec!["a".into()],
                bytes: NAMES_BYTES_MAX,
                is_complete: true,
            })
        };
        for client in 0..9 {
            let Ok(_kept) = listings.names(ClientId([client; 16]), None, b"", large);
        }
        let clients: Vec<_> = listings.lock().iter().map(|it| it.client.0[0]).collect();
        assert_eq!(clients, [5, 6, 7, 8]);
    }
}
