//! The table of addresses: peers that this process looked up, and peers that sent it an unexpected message.

use std::collections::HashMap;

use crate::error::Error;
use crate::id::Address;
use crate::method::Peer;
use crate::table::Table;

/// The longest address in bytes, including the terminating zero of C strings.
// [ADDR-2]
pub const ADDRESS_BYTES_MAX: usize = 256;

/// The peer that an address stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    /// Index of the peer's method.
    pub(crate) method: usize,
    pub(crate) peer: Peer,
}

/// The addresses, found by id, by string and by peer.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    table: Table<Entry>,
    by_name: HashMap<String, Address>,
    by_target: HashMap<Target, Address>,
}

#[derive(Debug)]
struct Entry {
    target: Target,
    /// The string given to the lookup; empty if the peer was learnt from an unexpected message.
    name: String,
    references: u32,
}

/// What happened to the address when a reference was released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    StillReferred,
    Last(Target),
}

impl Addresses {
    pub(crate) fn target(&self, address: Address) -> Option<Target> {
        self.table.get(address).map(|entry| entry.target)
    }

    pub(crate) fn name(&self, address: Address) -> Option<&str> {
        self.table.get(address).map(|entry| entry.name.as_str())
    }

    pub(crate) fn by_name(&self, name: &str) -> Option<Address> {
        self.by_name.get(name).copied()
    }

    /// Returns the address of a peer that was looked up under `name`. A peer that already has an address
    /// keeps its first name; both names lead to the same address.
    ///
    /// # Errors
    ///
    /// [`Error::NoMem`]: 2³² addresses exist.
    pub(crate) fn looked_up(&mut self, name: &str, target: Target) -> Result<Address, Error> {
        let address = self.of_target(target)?;
        if let Some(entry) = self.table.get_mut(address)
            && entry.name.is_empty()
        {
            entry.name = name.to_owned();
        }
        self.by_name.insert(name.to_owned(), address);
        Ok(address)
    }

    /// Returns the address of a peer, and creates one if the peer has none.
    ///
    /// # Errors
    ///
    /// [`Error::NoMem`]: 2³² addresses exist.
    // [ADDR-5]
    pub(crate) fn of_target(&mut self, target: Target) -> Result<Address, Error> {
        if let Some(&address) = self.by_target.get(&target) {
            return Ok(address);
        }
        let entry = Entry {
            target,
            name: String::new(),
            references: 0,
        };
        let address = self.table.insert(entry).ok_or(Error::NoMem)?;
        self.by_target.insert(target, address);
        Ok(address)
    }

    /// Adds a reference.
    ///
    /// # Errors
    ///
    /// [`Error::Inval`]: no such address.
    pub(crate) fn refer(&mut self, address: Address) -> Result<(), Error> {
        let entry = self.table.get_mut(address).ok_or(Error::Inval)?;
        entry.references = entry.references.saturating_add(1);
        Ok(())
    }

    /// Releases a reference.
    ///
    /// # Errors
    ///
    /// [`Error::Inval`]: no such address, or it has no reference.
    // [OPT-7]
    pub(crate) fn release(&mut self, address: Address) -> Result<Released, Error> {
        let entry = self.table.get_mut(address).ok_or(Error::Inval)?;
        entry.references = entry.references.checked_sub(1).ok_or(Error::Inval)?;
        Ok(match entry.references {
            0 => Released::Last(entry.target),
            _ => Released::StillReferred,
        })
    }

    /// Removes an address. With `unless_referred`, an address that has references stays.
    pub(crate) fn remove(&mut self, address: Address, unless_referred: bool) -> Option<Target> {
        let entry = self.table.get(address)?;
        if unless_referred && entry.references > 0 {
            return None;
        }
        let entry = self.table.remove(address)?;
        self.by_target.remove(&entry.target);
        self.by_name.retain(|_, named| *named != address);
        Some(entry.target)
    }

    pub(crate) fn clear(&mut self) {
        *self = Addresses::default();
    }
}

/// Checks the length of an address string.
///
/// # Errors
///
/// [`Error::NameTooLong`]: longer than [`ADDRESS_BYTES_MAX`] with its terminating zero.
pub(crate) fn check_length(address: &str) -> Result<(), Error> {
    match address.len() < ADDRESS_BYTES_MAX {
        true => Ok(()),
        false => Err(Error::NameTooLong),
    }
}

/// Returns the scheme of an address: the part before `://`.
///
/// # Errors
///
/// [`Error::Inval`]: the address has no scheme.
pub(crate) fn scheme(address: &str) -> Result<&str, Error> {
    let (scheme, _) = address.split_once("://").ok_or(Error::Inval)?;
    Ok(scheme)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(peer: u64) -> Target {
        Target {
            method: 0,
            peer: Peer(peer),
        }
    }

    // [ADDR-5]
    #[test]
    fn a_peer_has_one_address_however_it_became_known() {
        let mut addresses = Addresses::default();
        let learnt = addresses.of_target(target(1)).unwrap();
        assert_eq!(addresses.name(learnt), Some(""));
        assert_eq!(addresses.looked_up("tcp://a:1", target(1)), Ok(learnt));
        assert_eq!(addresses.looked_up("tcp://b:1", target(1)), Ok(learnt));
        assert_eq!(addresses.name(learnt), Some("tcp://a:1"));
        assert_eq!(addresses.by_name("tcp://b:1"), Some(learnt));
        assert_ne!(addresses.of_target(target(2)), Ok(learnt));
    }

    // [OPT-7]
    #[test]
    fn references_do_not_go_below_zero() {
        let mut addresses = Addresses::default();
        let address = addresses.of_target(target(1)).unwrap();
        assert_eq!(addresses.release(address), Err(Error::Inval));
        addresses.refer(address).unwrap();
        addresses.refer(address).unwrap();
        assert_eq!(addresses.release(address), Ok(Released::StillReferred));
        assert_eq!(addresses.remove(address, true), None);
        assert_eq!(addresses.release(address), Ok(Released::Last(target(1))));
        assert_eq!(addresses.remove(address, true), Some(target(1)));
        assert_eq!(addresses.refer(address), Err(Error::Inval));
        assert_eq!(addresses.by_name("tcp://a:1"), None);
    }

    // [ADDR-2]
    #[test]
    fn an_address_of_the_full_length_has_no_room_for_its_end() {
        let of_length = |len: usize| format!("tcp://{}", "x".repeat(len - 6));
        assert_eq!(check_length(&of_length(255)), Ok(()));
        assert_eq!(check_length(&of_length(256)), Err(Error::NameTooLong));
    }

    #[test]
    fn a_scheme_stands_before_two_slashes() {
        assert_eq!(scheme("tcp://a:1"), Ok("tcp"));
        assert_eq!(scheme("zoid:"), Err(Error::Inval));
        assert_eq!(scheme(""), Err(Error::Inval));
    }
}
