//! The files that are held for clients which have them open.
//!
//! A hold keeps a file usable after its last name was removed, as an open descriptor does on one machine. The holds of a
//! client end one by one, or all of them [`HOLD_TIME`] after the last request of the client. Both the number of all holds
//! and the number of one client's holds are limited: beyond these limits a file is not held, and its handle ends with
//! its last name.
//!
//! Expired holds end at the next request for any hold, or for any object, of any client. A directory that nobody uses
//! keeps them until then.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::dir::LocalDirectory;
use crate::dir::attributes::attributes_at;
use crate::dir::table::{Id, Open, Table};
use crate::{Attributes, Errno, HOLD_TIME, Handle, Kind, Reply};

/// Each client may have this part of all holds.
const SHARE: usize = 8;

/// The holds of all clients.
pub(crate) struct Holds {
    most: usize,
    count: usize,
    by_holder: FxHashMap<u64, Holder>,
    /// No hold expires before this time. `None` if there is none.
    next: Option<Instant>,
}

struct Holder {
    until: Instant,
    objects: FxHashSet<Id>,
}

impl Holds {
    /// Limits the number of holds to `most`.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            count: 0,
            by_holder: FxHashMap::default(),
            next: None,
        }
    }

    /// Returns the number of all holds.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Adds an object to those of a client. Returns whether it is new there.
    fn add(&mut self, holder: u64, id: Id, now: Instant) -> Result<bool, Errno> {
        let share = (self.most / SHARE).max(1);
        let is_full = self.count >= self.most;
        let until = now + HOLD_TIME;
        match self.by_holder.get_mut(&holder) {
            Some(known) if known.objects.contains(&id) => return Ok(false),
            Some(known) if known.objects.len() >= share => return Err(Errno::ENFILE),
            _ if is_full => return Err(Errno::ENFILE),
            Some(known) => known.objects.insert(id),
            None => {
                let objects = FxHashSet::from_iter([id]);
                let new = Holder { until, objects };
                self.by_holder.insert(holder, new).is_none()
            }
        };
        self.next.get_or_insert(until);
        self.count += 1;
        Ok(true)
    }

    /// Takes an object from those of a client. Returns whether it was there.
    fn take(&mut self, holder: u64, id: Id) -> bool {
        let Some(known) = self.by_holder.get_mut(&holder) else {
            return false;
        };
        let was_there = known.objects.remove(&id);
        if known.objects.is_empty() {
            self.by_holder.remove(&holder);
        }
        self.count -= usize::from(was_there);
        was_there
    }

    /// Records that a client lives, if it has holds.
    fn renew(&mut self, holder: u64, now: Instant) {
        if let Some(known) = self.by_holder.get_mut(&holder) {
            known.until = now + HOLD_TIME;
        }
    }

    /// Removes the clients that were silent for too long. Returns their objects.
    fn expire(&mut self, now: Instant) -> Vec<Id> {
        if self.next.is_none_or(|next| now < next) {
            return Vec::new();
        }
        let mut expired = Vec::new();
        self.by_holder.retain(|_, holder| {
            let lives = now < holder.until;
            if !lives {
                expired.extend(holder.objects.drain());
            }
            lives
        });
        self.count -= expired.len();
        self.next = self.by_holder.values().map(|holder| holder.until).min();
        expired
    }
}

impl Table {
    /// Ends the holds of clients that were silent for [`HOLD_TIME`].
    pub(crate) fn expire(&mut self, now: Instant) {
        for id in self.holds.expire(now) {
            self.release(id);
        }
    }

    /// Holds an object for a client.
    pub(crate) fn hold_for(
        &mut self,
        holder: u64,
        id: Id,
        open: Arc<Open>,
        now: Instant,
    ) -> Result<(), Errno> {
        self.holds.renew(holder, now);
        if self.holds.add(holder, id, now)? && !self.hold(id, open) {
            self.holds.take(holder, id);
            return Err(Errno::ESTALE);
        }
        Ok(())
    }

    /// Ends a hold of a client. Nothing happens if there is none.
    pub(crate) fn release_for(&mut self, holder: u64, id: Id) {
        if self.holds.take(holder, id) {
            self.release(id);
        }
    }
}

impl LocalDirectory {
    pub(crate) fn hold_file(&self, holder: u64, handle: Handle) -> Result<Reply, Errno> {
        Ok(Reply::Attributes(self.hold_at(
            holder,
            handle,
            Instant::now(),
        )?))
    }

    fn hold_at(&self, holder: u64, handle: Handle, now: Instant) -> Result<Attributes, Errno> {
        let (object, open) = self.resolve(handle)?;
        let (_, attributes) = attributes_at(open.fd.as_fd(), b"")?;
        if object.kind == Kind::File {
            self.table().hold_for(holder, object.id, open, now)?;
        }
        Ok(attributes)
    }

    pub(crate) fn renew_holds(&self, holder: u64, held: &[Handle], released: &[Handle]) -> Reply {
        let now = Instant::now();
        for &handle in released {
            let mut table = self.table();
            if let Ok(object) = table.find(handle) {
                table.release_for(holder, object.id);
            }
        }
        self.table().holds.renew(holder, now);
        for &handle in held {
            // Another client may have removed the file, or there is no room: then the file is not held.
            let _held = self.hold_at(holder, handle, now);
        }
        Reply::Done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(slot: u32) -> Id {
        Id::of_slot(slot)
    }

    #[test]
    fn the_holds_of_each_client_and_of_all_are_limited() {
        let (mut holds, now) = (Holds::new(16), Instant::now());
        assert_eq!(holds.add(1, id(1), now), Ok(true));
        assert_eq!(holds.add(1, id(1), now), Ok(false));
        assert_eq!(holds.add(1, id(2), now), Ok(true));
        assert_eq!(holds.add(1, id(3), now), Err(Errno::ENFILE));
        assert!(holds.take(1, id(1)) && !holds.take(1, id(1)));
        for holder in 2..17 {
            assert_eq!(holds.add(holder, id(3), now), Ok(true));
        }
        assert_eq!(holds.add(17, id(3), now), Err(Errno::ENFILE));
        assert_eq!((holds.count(), holds.by_holder.len()), (16, 16));
        assert!(holds.take(1, id(2)) && !holds.by_holder.contains_key(&1));
    }

    #[test]
    fn a_client_that_is_silent_loses_its_holds_and_others_keep_theirs() {
        let (mut holds, begin) = (Holds::new(16), Instant::now());
        holds.add(1, id(1), begin).unwrap();
        holds.add(2, id(2), begin).unwrap();
        assert!(holds.expire(begin + HOLD_TIME / 2).is_empty());
        holds.renew(2, begin + HOLD_TIME / 2);
        assert_eq!(holds.expire(begin + HOLD_TIME), [id(1)]);
        assert_eq!(holds.count(), 1);
        assert_eq!(holds.expire(begin + HOLD_TIME * 2), [id(2)]);
        assert!(holds.by_holder.is_empty() && holds.next.is_none());
    }
}
