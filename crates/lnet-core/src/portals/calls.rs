//! The portals interface: match entries, descriptors, lazy portals (sections 5.2 and 5.4).

use lnet_types::{Nid, Time};
use lnet_wire::LNET_MTU;
use thiserror::Error;

use crate::Core;
use crate::event::Errno;
use crate::portals::descriptor::{Md, Owner};
use crate::portals::md::{MdHandle, MdOptions, MdSpec, MeHandle, MeSpec};
use crate::record::Input;
use crate::status::DropReason;

/// Why a call of the portals interface is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PortalError {
    /// A portal of 64 or more, or portal 0, which is LNet's own.
    #[error("portal {0} cannot be used")]
    InvalidPortal(u32),
    /// The portal has only unique entries and this is a wildcard one, or the other way round.
    #[error("portal {0} holds match entries of the other kind")]
    PortalKind(u32),
    /// The handle names nothing (any more).
    #[error("no such handle")]
    UnknownHandle,
    /// The match entry has a descriptor already.
    #[error("the match entry has a memory descriptor")]
    EntryInUse,
    /// An attached descriptor accepts neither PUT nor GET, or a bound one accepts one of them.
    #[error("operations do not fit the descriptor's use")]
    InvalidOptions,
    /// A bound descriptor of more than 1 MiB.
    #[error("{0} bytes are more than one message carries")]
    TooLong(u32),
    /// `max_size` is greater than the length.
    #[error("max_size is greater than the length")]
    InvalidMaxSize,
    /// The descriptor has no operations left, or is not a bound one.
    #[error("the descriptor cannot start an operation")]
    Exhausted,
    /// The target of an operation is the wildcard NID, which no node has.
    #[error("the wildcard is the NID of no node")]
    WildcardTarget,
}

impl PortalError {
    /// The errno that LNet's own interface returns for it.
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
    /// [`PortalError::InvalidPortal`], and [`PortalError::PortalKind`] when the portal's first entry
    /// made it one of the other kind.
    pub fn me_attach(&mut self, me: MeSpec) -> Result<MeHandle, PortalError> {
        let input = self.noted(|| Input::MeAttach { me });
        self.take_in(input, |core| core.me_attach_unrecorded(me))
    }

    fn me_attach_unrecorded(&mut self, me: MeSpec) -> Result<MeHandle, PortalError> {
        self.portals.check(me.portal)?;
        self.portals.attach(me)
    }

    /// Gives a match entry its memory, which then accepts PUTs or GETs. PUTs that a lazy portal holds
    /// are offered to it at once.
    ///
    /// # Errors
    ///
    /// [`PortalError::UnknownHandle`], [`PortalError::EntryInUse`], [`PortalError::InvalidOptions`]
    /// when it accepts neither, [`PortalError::InvalidMaxSize`].
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

    /// Registers memory as the source of PUTs or the sink of GETs.
    ///
    /// # Errors
    ///
    /// [`PortalError::InvalidOptions`] when it accepts operations, [`PortalError::TooLong`] above
    /// 1 MiB, [`PortalError::InvalidMaxSize`].
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

    /// Ends a descriptor. Its handle is dead at once; the event with `unlinked` says when its memory
    /// is the caller's again: at once, or after what is under way.
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
    /// ([`Output::Cancel`](crate::Output::Cancel)). The memory is the caller's again as soon as the LND has released
    /// it, however long the peer takes for the rest of the payload. Each cancelled message ends with an event of
    /// status `ECANCELED`. Works also on a descriptor that was unlinked or has expired and waits for such a message.
    /// Messages that are being sent from the descriptor are not cancelled; they end first.
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

    /// The next hop of the last operation that was sent from a descriptor, written or not, while its response is
    /// awaited and tracked.
    #[must_use]
    pub fn next_hop(&self, md: MdHandle) -> Option<Nid> {
        self.mds.get(md)?.responses.next_hop()
    }

    /// How often an interface of this node went down, or a gateway lost its last connection, since the node's start. Whoever waits for an answer that may have been on its
    /// way there or through it asks again when this number grows.
    #[must_use]
    pub const fn paths_lost(&self) -> u64 {
        self.paths_lost
    }

    /// Removes a match entry, and its descriptor as [`Core::md_unlink`] does.
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

    /// Makes a portal lazy: PUTs that nothing takes are held instead of dropped, until a descriptor
    /// that takes them is attached. Each holds its connection meanwhile.
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

    /// Makes a portal an ordinary one; what it holds is dropped.
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
            self.discard_held(held, DropReason::LazyPortal);
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
