//! Finds out from another gateway what an operation has done whose reply was lost.

use crate::spread::drive::Job;
use crate::spread::several::Spread;
use crate::spread::table::Identity;
use crate::{Caller, Data, Entry, Errno, Handle, Place, RenameMode, Reply, Request};

/// The objects that had the names of an operation before it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Before {
    /// The object of the first or only name.
    pub(crate) first: Option<Identity>,
    /// The object of the new name of a rename.
    pub(crate) second: Option<Identity>,
}

/// The result of a proof.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The operation was executed, with this result.
    Done(Reply),
    /// The operation was not executed.
    NotDone,
    /// The operation could only fail with this error, and changed nothing.
    Refused(Errno),
    /// The outcome is unknown.
    Unknown,
}

impl Spread {
    /// Returns the objects that have the names of a request, as far as [`Spread::prove`] needs them. Looks up names
    /// that the table does not know.
    pub(crate) fn before(&self, caller: &Caller, request: &Request) -> Result<Before, Errno> {
        let known = |place: &Place| -> Result<Option<Identity>, Errno> {
            let mut table = self.table();
            let (directory, _) = table.find(place.directory)?;
            Ok(table.at_spot(directory, place.path.as_bytes()))
        };
        let seen = |place: &Place| -> Result<Option<Identity>, Errno> {
            if let Some(identity) = known(place)? {
                return Ok(Some(identity));
            }
            crate::FileSystem::lookup(self, caller, place.clone())?;
            known(place)
        };
        Ok(match request {
            Request::Create { place, .. }
            | Request::Mkdir { place, .. }
            | Request::Symlink { place, .. }
            | Request::MakeNode { place, .. }
            | Request::Link { place, .. } => Before {
                first: known(place)?,
                second: None,
            },
            Request::Remove { place, .. } => Before {
                first: seen(place)?,
                second: None,
            },
            Request::Rename { from, to, mode } => Before {
                first: seen(from)?,
                second: match mode {
                    RenameMode::Exchange => seen(to)?,
                    _ => known(to)?,
                },
            },
            _ => Before::default(),
        })
    }

    /// Asks a gateway for the effect of an operation that another gateway did not answer.
    pub(crate) fn prove(&self, gateway: usize, job: &Job<'_, '_>) -> Result<Verdict, Errno> {
        let Job {
            caller,
            request,
            before,
            ..
        } = job;
        match request {
            Request::Create { place, .. }
            | Request::Mkdir { place, .. }
            | Request::Symlink { place, .. }
            | Request::MakeNode { place, .. } => {
                let found = self.look(gateway, caller, place)?;
                Ok(of_new_name(found.map(|(_, found)| found), before.first))
            }
            Request::Link { handle, place } => {
                let object = self.table().find(*handle)?.1;
                let found = self.look(gateway, caller, place)?;
                match of_link(object, found.map(|(_, found)| found), before.first) {
                    Verdict::Done(_) => {
                        let reply = found.map_or(Reply::Done, |(entry, _)| Reply::Entry(entry));
                        let reply = self.for_caller(gateway, request, reply)?;
                        Ok(Verdict::Done(reply))
                    }
                    verdict => Ok(verdict),
                }
            }
            Request::Remove { place, .. } => {
                let found = self.look(gateway, caller, place)?;
                Ok(of_removal(found.map(|(_, found)| found), before.first))
            }
            Request::Rename { from, to, mode } => {
                let old = self.look(gateway, caller, from)?.map(|(_, found)| found);
                let new = self.look(gateway, caller, to)?.map(|(_, found)| found);
                Ok(of_rename(old, new, before, *mode == RenameMode::Exchange))
            }
            Request::SetXattr { handle, name, .. } | Request::RemoveXattr { handle, name } => {
                let is_there = self.has_xattr(gateway, caller, *handle, name)?;
                let is_removal = matches!(request, Request::RemoveXattr { .. });
                Ok(if is_there == is_removal {
                    Verdict::NotDone
                } else {
                    Verdict::Unknown
                })
            }
            _ => Ok(Verdict::Unknown),
        }
    }

    /// Returns the object that has a name at a gateway. Does not record the object in the table.
    fn look(
        &self,
        gateway: usize,
        caller: &Caller,
        place: &Place,
    ) -> Result<Option<(Entry, Identity)>, Errno> {
        let place = place.clone();
        let request = Request::Lookup { place };
        match self.send(gateway, &mut Job::new(caller, &request, Data::None)) {
            Ok(Reply::Entry(entry)) => {
                let identity = self.identity(gateway, &entry.attributes);
                Ok(Some((entry, identity)))
            }
            Ok(_) => Err(Errno::EPROTO),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    fn has_xattr(
        &self,
        gateway: usize,
        caller: &Caller,
        handle: Handle,
        name: &[u8],
    ) -> Result<bool, Errno> {
        let name = name.to_vec();
        let request = Request::GetXattr { handle, name };
        match self.send(gateway, &mut Job::new(caller, &request, Data::None)) {
            Ok(_) => Ok(true),
            Err(Errno::ENODATA) => Ok(false),
            Err(errno) => Err(errno),
        }
    }
}

fn is_same(one: Option<Identity>, other: Option<Identity>) -> bool {
    matches!((one, other), (Some(one), Some(other)) if one.is_same(&other))
}

/// Decides about a name that had to be new. If the name now belongs to an object that was not there before, the
/// operation or another client may have created it.
fn of_new_name(found: Option<Identity>, before: Option<Identity>) -> Verdict {
    match found {
        None => Verdict::NotDone,
        found if is_same(found, before) => Verdict::Refused(Errno::EEXIST),
        Some(_) => Verdict::Unknown,
    }
}

fn of_link(object: Identity, found: Option<Identity>, before: Option<Identity>) -> Verdict {
    if is_same(found, Some(object)) && !is_same(found, before) {
        return Verdict::Done(Reply::Done);
    }
    of_new_name(found, before)
}

fn of_removal(found: Option<Identity>, before: Option<Identity>) -> Verdict {
    match found {
        None if before.is_some() => Verdict::Done(Reply::Done),
        found if is_same(found, before) => Verdict::NotDone,
        _ => Verdict::Unknown,
    }
}

fn of_rename(
    old: Option<Identity>,
    new: Option<Identity>,
    before: &Before,
    is_exchange: bool,
) -> Verdict {
    // Two names of one object: the rename does nothing, so it may be executed once more.
    if is_same(old, before.first) {
        return Verdict::NotDone;
    }
    let is_there = is_same(new, before.first);
    let is_left = match (is_exchange, before.second) {
        (true, second) => is_same(old, second),
        (false, _) => old.is_none(),
    };
    if is_there && is_left {
        Verdict::Done(Reply::Done)
    } else {
        Verdict::Unknown
    }
}
