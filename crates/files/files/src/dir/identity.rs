//! The identity with which an operation is executed.
//!
//! Linux checks the identity of the thread when it accesses files. If operations run as the caller, the thread
//! assumes the caller's user, group and supplementary groups for the system calls of one operation, and then restores
//! its own.

use std::sync::Arc;

use nix::unistd::{Gid, Uid, getegid, geteuid, setfsgid, setfsuid};
use rustix::thread::{CapabilitySet, set_thread_groups};

use crate::{Caller, Errno};

/// The identity with which operations are executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Identity {
    /// The identity of this process, for every caller.
    #[default]
    Server,
    /// The identity of the caller. Needs `CAP_SETUID` and `CAP_SETGID`.
    Caller {
        /// Which callers count as anonymous.
        squash: Squash,
        /// The user of anonymous callers.
        uid: u32,
        /// The group of anonymous callers.
        gid: u32,
    },
}

/// Which callers count as anonymous, as in the options of NFS exports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Squash {
    /// Root is anonymous. For other users, only the group root is replaced: `root_squash`.
    #[default]
    Root,
    /// No caller is anonymous: `no_root_squash`.
    None,
    /// Every caller is anonymous: `all_squash`.
    All,
}

/// The identity with which one operation is executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Acting {
    /// The identity of this process.
    Server,
    /// The identity of this user.
    As(Arc<Caller>),
}

impl Identity {
    /// Returns the identity with which operations of `caller` are executed.
    pub(crate) fn of(&self, caller: &Caller) -> Acting {
        let Self::Caller { squash, uid, gid } = *self else {
            return Acting::Server;
        };
        let is_anonymous = match squash {
            Squash::None => return Acting::As(Arc::new(caller.clone())),
            Squash::Root => caller.uid == 0,
            Squash::All => true,
        };
        let (uid, groups) = if is_anonymous {
            (uid, &[][..])
        } else {
            (caller.uid, &caller.groups[..])
        };
        let squashed = |group: u32| if group == 0 { gid } else { group };
        Acting::As(Arc::new(Caller {
            uid,
            gid: if is_anonymous {
                gid
            } else {
                squashed(caller.gid)
            },
            groups: groups.iter().copied().map(squashed).collect(),
        }))
    }
}

impl Acting {
    /// Executes system calls with this identity.
    pub(crate) fn run<T>(&self, call: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        match self {
            Self::Server => call(),
            Self::As(caller) => {
                let _restored_when_dropped = Assumed::new(caller)?;
                call()
            }
        }
    }

    /// Returns the user; `None` for this process.
    pub(crate) fn uid(&self) -> Option<u32> {
        match self {
            Self::Server => None,
            Self::As(caller) => Some(caller.uid),
        }
    }
}

/// Drops the right to exceed quotas and to use the blocks that a file system reserves for root, for this thread and
/// the threads that it starts. Root has this right (`CAP_SYS_RESOURCE`), and keeps it when it acts as another user:
/// without this call, no quota applies to callers of a server that root started.
///
/// # Errors
///
/// The error of the system call that changes the capabilities.
pub fn obey_quotas() -> Result<(), Errno> {
    let mut sets = rustix::thread::capabilities(None).map_err(errno)?;
    sets.effective.remove(CapabilitySet::SYS_RESOURCE);
    rustix::thread::set_capabilities(None, sets).map_err(errno)
}

/// Gives this thread another identity than the process until this value is dropped.
struct Assumed {
    groups: Vec<rustix::process::Gid>,
}

impl Assumed {
    fn new(caller: &Caller) -> Result<Self, Errno> {
        // The thread has the groups of the process, because only this type changes them and always restores them.
        let groups = rustix::process::getgroups().map_err(errno)?;
        let wanted: Vec<_> = caller.groups.iter().copied().map(gid).collect();
        set_thread_groups(&wanted).map_err(errno)?;
        let assumed = Self { groups };
        let (uid, gid) = (Uid::from_raw(caller.uid), Gid::from_raw(caller.gid));
        setfsgid(gid);
        setfsuid(uid);
        // Both calls return the previous id, and do not report a failure: the second call shows whether the first
        // succeeded.
        if setfsgid(gid) == gid && setfsuid(uid) == uid {
            Ok(assumed)
        } else {
            Err(Errno::EPERM)
        }
    }
}

impl Drop for Assumed {
    fn drop(&mut self) {
        // A process may always return to its own ids. The capability that changed the groups also restores them.
        setfsuid(geteuid());
        setfsgid(getegid());
        let _restored = set_thread_groups(&self.groups);
    }
}

fn gid(raw: u32) -> rustix::process::Gid {
    rustix::process::Gid::from_raw(raw)
}

/// Converts an error to the type of the interface.
pub(crate) fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_raw(error.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(uid: u32, gid: u32, groups: &[u32]) -> Caller {
        let groups = groups.to_vec();
        Caller { uid, gid, groups }
    }

    fn acting(squash: Squash, who: &Caller) -> Caller {
        let identity = Identity::Caller {
            squash,
            uid: 65534,
            gid: 65533,
        };
        match identity.of(who) {
            Acting::As(caller) => (*caller).clone(),
            Acting::Server => unreachable!("operations run as the caller"),
        }
    }

    #[test]
    fn root_is_anonymous_by_default_and_takes_no_groups_along() {
        let root = caller(0, 0, &[0, 4]);
        assert_eq!(acting(Squash::Root, &root), caller(65534, 65533, &[]));
        let user = caller(1000, 0, &[0, 4]);
        assert_eq!(
            acting(Squash::Root, &user),
            caller(1000, 65533, &[65533, 4])
        );
    }

    #[test]
    fn everybody_or_nobody_is_anonymous_where_configured() {
        let user = caller(1000, 100, &[4]);
        assert_eq!(acting(Squash::All, &user), caller(65534, 65533, &[]));
        let root = caller(0, 0, &[0]);
        assert_eq!(acting(Squash::None, &root), root);
    }

    #[test]
    fn the_process_acts_as_itself_where_configured() {
        assert_eq!(Identity::Server.of(&caller(5, 5, &[])), Acting::Server);
    }
}
