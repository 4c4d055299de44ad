//! The interface of portals: match entries, descriptors, lazy portals.

use lnet_types::{Nid, Time};
use lnet_wire::LNET_MTU;
use thiserror::Error;

use crate::Core;
use crate::event::Errno;
use crate::portals::descriptor::{Md, Owner};
use crate::portals::md::{MdHandle, MdOptions, MdSpec, MeHandle, MeSpec};
use crate::record::Input;
use crate::status::DropReason;

/// The reason why a call of the portals interface is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PortalError {
    /// The portal is 64 or more, or 0, which is LNet's own.
    #[error("portal {0} cannot be used")]
    InvalidPortal(u32),
    /// The portal has only unique entries and this is a wildcard entry, or the reverse.
    #[error("portal {0} holds match entries of the other kind")]
    PortalKind(u32),
    /// The handle names nothing, or no longer names anything.
    #[error("no such handle")]
    UnknownHandle,
    /// The match entry already has a descriptor.
    #[error("the match entry has a memory descriptor")]
    EntryInUse,
    /// A descriptor to attach accepts neither PUT nor GET, or a descriptor to bind accepts one of them.
    #[error("operations do not fit the descriptor's use")]
    InvalidOptions,
    /// A descriptor to bind has more than 1 MiB.
    #[error("{0} bytes are more than a message can carry")]
    TooLong(u32),
    /// `max_size` is greater than the length.
    #[error("max_size is greater than the length")]
    InvalidMaxSize,
    /// The descriptor has no operations left, or is an attached descriptor.
    #[error("the descriptor cannot start an operation")]
    Exhausted,
    /// The target of an operation is the wildcard NID, which no node has.
    #[error("the wildcard is the NID of no node")]
    WildcardTarget,
}

impl PortalError {
    /// Returns the errno that LNet's own interface returns for this error.
    #[must_use]
    pub const fn errno(&self) -> Errno {
        match self {
            Self::InvalidPortal(_)
            | Self::InvalidOptions
            | Self::TooLong(_)
            | Self::InvalidMaxSize
            | Self::WildcardTarget => Errno::EINVAL,
            Self::PortalKind(_) => Errno::EPERM,
            Self::UnknownHandle | Self::Exhausted => Errno::ENOENT,
            Self::EntryInUse => Errno::EBUSY,
        }
    }
}

impl Core {
    /// Adds a match entry to a portal.
    ///
    /// # Errors
    ///
    /// [`PortalError::InvalidPortal`], and [`PortalError::PortalKind`] if the portal's first entry was of the other
    /// kind.
    pub fn me_attach(&mut self, me: MeSpec) -> Result<MeHandle, PortalError> {
        let input = self.noted(|| Input::MeAttach { me });
        self.take_in(input, |core| core.me_attach_unrecorded(me))
    }

    fn me_attach_unrecorded(&mut self, me: MeSpec) -> Result<MeHandle, PortalError> {
        self.portals.check(me.portal)?;
        self.portals.attach(me)
    }

    /// Attaches memory to a match entry, so that the entry accepts PUTs or GETs. PUTs that a lazy portal holds are
    /// offered to the entry at once.
    ///
    /// # Errors
    ///
    /// [`PortalError::UnknownHandle`], [`PortalError::EntryInUse`], [`PortalError::InvalidOptions`] if the descriptor
    /// accepts neither, [`PortalError::InvalidMaxSize`].
    pub fn md_attach(
        &mut self,
        me: MeHandle,
        md: MdSpec,
        now: Time,
    ) -> Result<MdHandle, PortalError> {
        let input = self.noted(|| Input::MdAttach { me, md, now });
        self.take_in(input, |core| core.md_attach_unrecorded(me, md, now))
    }

    fn md_attach_unrecorded(
        &mut self,
        me: MeHandle,
        md: MdSpec,
        _now: Time,
    ) -> Result<MdHandle, PortalError> {
        let handle = self.attach_md(me, md, Owner::User)?;
        if let Some(portal) = self.portals.spec(me).map(|spec| spec.portal) {
            self.offer_held(portal, me);
        }
        Ok(handle)
    }

    pub(crate) fn attach_md(
        &mut self,
        me: MeHandle,
        spec: MdSpec,
        owner: Owner,
    ) -> Result<MdHandle, PortalError> {
        if !spec
            .options
            .intersects(MdOptions::OP_PUT | MdOptions::OP_GET)
        {
            return Err(PortalError::InvalidOptions);
        }
        check_max_size(&spec)?;
        self.portals.check_free(me)?;
        let handle = self.mds.insert(Md::new(spec, owner, Some(me)));
        self.portals.give(me, handle);
        Ok(handle)
    }

    /// Registers memory as the source of PUTs or the destination of GETs.
    ///
    /// # Errors
    ///
    /// [`PortalError::InvalidOptions`] if the descriptor accepts operations, [`PortalError::TooLong`] above 1 MiB,
    /// [`PortalError::InvalidMaxSize`].
    pub fn md_bind(&mut self, md: MdSpec) -> Result<MdHandle, PortalError> {
        let input = self.noted(|| Input::MdBind { md });
        self.take_in(input, |core| core.md_bind_unrecorded(md))
    }

    fn md_bind_unrecorded(&mut self, md: MdSpec) -> Result<MdHandle, PortalError> {
        self.bind_md(md, Owner::User)
    }

    pub(crate) fn bind_md(&mut self, spec: MdSpec, owner: Owner) -> Result<MdHandle, PortalError> {
        if spec
            .options
            .intersects(MdOptions::OP_PUT | MdOptions::OP_GET)
        {
            return Err(PortalError::InvalidOptions);
        }
        if spec.length > LNET_MTU {
            return Err(PortalError::TooLong(spec.length));
        }
        check_max_size(&spec)?;
        Ok(self.mds.insert(Md::new(spec, owner, None)))
    }

    /// Unlinks a descriptor. Its handle is invalid at once. The event with `unlinked` reports when the caller may
    /// reuse the memory: at once, or after the operations under way.
    ///
    /// # Errors
    ///
    /// [`PortalError::UnknownHandle`].
    pub fn md_unlink(&mut self, md: MdHandle, now: Time) -> Result<(), PortalError> {
        let input = self.noted(|| Input::MdUnlink { md, now });
        self.take_in(input, |core| core.md_unlink_unrecorded(md, now))
    }

    fn md_unlink_unrecorded(&mut self, md: MdHandle, now: Time) -> Result<(), PortalError> {
        self.note_time(now);
        let live = |md: &&Md| !md.dead && md.owner == Owner::User;
        self.mds
            .get(md)
            .filter(live)
            .ok_or(PortalError::UnknownHandle)?;
        self.unlink_md(md, Ok(()), now);
        Ok(())
    }

    /// Unlinks a descriptor as [`Core::md_unlink`] does, and cancels the messages that are being received into it
    /// ([`Output::Cancel`](crate::Output::Cancel)). The caller may reuse the memory as soon as the LND has released
    /// it, however long the peer takes for the rest of the payload. Each cancelled message ends with an event of
    /// status `ECANCELED`. The call also works on a descriptor that was unlinked or has expired and waits for such a
    /// message. Messages that are being sent from the descriptor are not cancelled; the descriptor waits for them.
    ///
    /// # Errors
    ///
    /// [`PortalError::UnknownHandle`].
    pub fn md_cancel(&mut self, md: MdHandle, now: Time) -> Result<(), PortalError> {
        let input = self.noted(|| Input::MdCancel { md, now });
        self.take_in(input, |core| core.md_cancel_unrecorded(md, now))
    }

    fn md_cancel_unrecorded(&mut self, md: MdHandle, now: Time) -> Result<(), PortalError> {
        self.note_time(now);
        let entry = self.mds.get(md).filter(|md| md.owner == Owner::User);
        if !entry.ok_or(PortalError::UnknownHandle)?.dead {
            self.unlink_md(md, Ok(()), now);
        }
        self.cancel_landings(md);
        Ok(())
    }

    /// Returns the next hop of the last operation that was started from a descriptor, whether or not it has been sent.
    /// Returns `None` if no response is awaited or tracked.
    #[must_use]
    pub fn next_hop(&self, md: MdHandle) -> Option<Nid> {
        self.mds.get(md)?.responses.next_hop()
    }

    /// Returns how often an interface of this node went down, or a gateway lost its last connection, since the node's
    /// start. A program that waits for a reply, which may have been on the lost path, retries when this number grows.
    #[must_use]
    pub const fn paths_lost(&self) -> u64 {
        self.paths_lost
    }

    /// Removes a match entry. Its descriptor is unlinked as by [`Core::md_unlink`].
    ///
    /// # Errors
    ///
    /// [`PortalError::UnknownHandle`].
    pub fn me_unlink(&mut self, me: MeHandle, now: Time) -> Result<(), PortalError> {
        let input = self.noted(|| Input::MeUnlink { me, now });
        self.take_in(input, |core| core.me_unlink_unrecorded(me, now))
    }

    fn me_unlink_unrecorded(&mut self, me: MeHandle, now: Time) -> Result<(), PortalError> {
        let spec = self.portals.spec(me).ok_or(PortalError::UnknownHandle)?;
        self.portals
            .check(spec.portal)
            .map_err(|_| PortalError::UnknownHandle)?;
        if let Some(md) = self.portals.md_of(me) {
            self.unlink_md(md, Ok(()), now);
        }
        self.portals.remove(me);
        Ok(())
    }

    /// Makes a portal lazy: a PUT that no entry accepts is held instead of dropped, until a descriptor is attached
    /// that accepts it. Each held PUT blocks its connection meanwhile.
    ///
    /// # Errors
    ///
    /// [`PortalError::InvalidPortal`].
    pub fn set_lazy(&mut self, portal: u32) -> Result<(), PortalError> {
        let input = self.noted(|| Input::SetLazy { portal });
        self.take_in(input, |core| core.set_lazy_unrecorded(portal))
    }

    fn set_lazy_unrecorded(&mut self, portal: u32) -> Result<(), PortalError> {
        self.portals.check(portal)?;
        self.portals.set_lazy(portal, true);
        Ok(())
    }

    /// Makes a portal an ordinary portal. The PUTs that it holds are dropped.
    ///
    /// # Errors
    ///
    /// [`PortalError::InvalidPortal`].
    pub fn clear_lazy(&mut self, portal: u32, now: Time) -> Result<(), PortalError> {
        let input = self.noted(|| Input::ClearLazy { portal, now });
        self.take_in(input, |core| core.clear_lazy_unrecorded(portal, now))
    }

    fn clear_lazy_unrecorded(&mut self, portal: u32, _now: Time) -> Result<(), PortalError> {
        self.portals.check(portal)?;
        for held in self.portals.set_lazy(portal, false) {
            self.drop_waiting(held, DropReason::LazyPortal);
        }
        Ok(())
    }
}

fn check_max_size(spec: &MdSpec) -> Result<(), PortalError> {
    if spec.options.contains(MdOptions::MAX_SIZE) && spec.max_size > spec.length {
        return Err(PortalError::InvalidMaxSize);
    }
    Ok(())
}
