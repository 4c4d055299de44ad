//! The interface of portals: match entries, descriptors, lazy portals.

use lnet_types::{Nid, Time};
use lnet_wire::LNET_MTU;
use thiserror::Error;

use crate::Core;
use crate::event::Errno;
use crate::portals::descriptor::{Md, Owner};
use crate::portals::md::{MdHandle, MdOptions, MdSpec, MeHandle, MeSpec};
use crate::status::DropReason;

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

pub(crate) fn me_attach(core: &mut Core, me: MeSpec) -> Result<MeHandle, PortalError> {
    core.portals.check(me.portal)?;
    core.portals.attach(me)
}

pub(crate) fn md_attach(
    core: &mut Core,
    me: MeHandle,
    md: MdSpec,
    _now: Time,
) -> Result<MdHandle, PortalError> {
    let handle = core.attach_md(me, md, Owner::User)?;
    if let Some(portal) = core.portals.spec(me).map(|spec| spec.portal) {
        core.offer_held(portal, me);
    }
    Ok(handle)
}

pub(crate) fn md_bind(core: &mut Core, md: MdSpec) -> Result<MdHandle, PortalError> {
    core.bind_md(md, Owner::User)
}

pub(crate) fn md_unlink(core: &mut Core, md: MdHandle, now: Time) -> Result<(), PortalError> {
    core.note_time(now);
    let live = |md: &&Md| !md.dead && md.owner == Owner::User;
    core.mds
        .get(md)
        .filter(live)
        .ok_or(PortalError::UnknownHandle)?;
    core.unlink_md(md, Ok(()), now);
    Ok(())
}

pub(crate) fn md_cancel(core: &mut Core, md: MdHandle, now: Time) -> Result<(), PortalError> {
    core.note_time(now);
    let entry = core.mds.get(md).filter(|md| md.owner == Owner::User);
    if !entry.ok_or(PortalError::UnknownHandle)?.dead {
        core.unlink_md(md, Ok(()), now);
    }
    core.cancel_landings(md);
    Ok(())
}

pub(crate) fn me_unlink(core: &mut Core, me: MeHandle, now: Time) -> Result<(), PortalError> {
    let spec = core.portals.spec(me).ok_or(PortalError::UnknownHandle)?;
    core.portals
        .check(spec.portal)
        .map_err(|_| PortalError::UnknownHandle)?;
    if let Some(md) = core.portals.md_of(me) {
        core.unlink_md(md, Ok(()), now);
    }
    core.portals.remove(me);
    Ok(())
}

pub(crate) fn set_lazy(core: &mut Core, portal: u32) -> Result<(), PortalError> {
    core.portals.check(portal)?;
    core.portals.set_lazy(portal, true);
    Ok(())
}

pub(crate) fn clear_lazy(core: &mut Core, portal: u32, _now: Time) -> Result<(), PortalError> {
    core.portals.check(portal)?;
    for held in core.portals.set_lazy(portal, false) {
        core.drop_waiting(held, DropReason::LazyPortal);
    }
    Ok(())
}

impl Core {
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
}

fn check_max_size(spec: &MdSpec) -> Result<(), PortalError> {
    if spec.options.contains(MdOptions::MAX_SIZE) && spec.max_size > spec.length {
        return Err(PortalError::InvalidMaxSize);
    }
    Ok(())
}
