//! The interface of portals: match entries, descriptors, lazy portals.

use lnet_types::Time;
use lnet_wire::LNET_MTU;
use thiserror::Error;

use crate::ground::event::Errno;
use crate::ground::md::{MdHandle, MdOptions, MdSpec, MeHandle, MeSpec};
use crate::ground::status::DropReason;
use crate::traffic::Traffic;
use crate::traffic::portals::descriptor::{Md, Owner};

/// The reason why a call of the portals interface is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PortalError {
    /// The portal is 64 or more, or 0, which is LNet's own.
    #[error("portal {0} cannot be used: those of programs are 1 to 63")]
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

fn check_max_size(spec: &MdSpec) -> Result<(), PortalError> {
    if spec.options.contains(MdOptions::MAX_SIZE) && spec.max_size > spec.length {
        return Err(PortalError::InvalidMaxSize);
    }
    Ok(())
}

impl Traffic {
    pub(crate) fn me_attach(&mut self, me: MeSpec) -> Result<MeHandle, PortalError> {
        self.portals.check(me.portal)?;
        self.portals.attach(me)
    }

    pub(crate) fn md_attach(
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

    pub(crate) fn md_bind(&mut self, md: MdSpec) -> Result<MdHandle, PortalError> {
        self.bind_md(md, Owner::User)
    }

    pub(crate) fn md_unlink(&mut self, md: MdHandle, now: Time) -> Result<(), PortalError> {
        self.note_time(now);
        let live = |md: &&Md| !md.dead && md.owner == Owner::User;
        self.mds
            .get(md)
            .filter(live)
            .ok_or(PortalError::UnknownHandle)?;
        self.unlink_md(md, Ok(()), now);
        Ok(())
    }

    pub(crate) fn md_cancel(&mut self, md: MdHandle, now: Time) -> Result<(), PortalError> {
        self.note_time(now);
        let entry = self.mds.get(md).filter(|md| md.owner == Owner::User);
        if !entry.ok_or(PortalError::UnknownHandle)?.dead {
            self.unlink_md(md, Ok(()), now);
        }
        self.cancel_landings(md);
        Ok(())
    }

    pub(crate) fn me_unlink(&mut self, me: MeHandle, now: Time) -> Result<(), PortalError> {
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

    pub(crate) fn set_lazy(&mut self, portal: u32) -> Result<(), PortalError> {
        self.portals.check(portal)?;
        self.portals.set_lazy(portal, true);
        Ok(())
    }

    pub(crate) fn clear_lazy(&mut self, portal: u32, _now: Time) -> Result<(), PortalError> {
        self.portals.check(portal)?;
        for held in self.portals.set_lazy(portal, false) {
            self.drop_waiting(held, DropReason::LazyPortal);
        }
        Ok(())
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
}
