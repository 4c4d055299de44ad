//! Local sockets: the process at the other end, and access for a group.

use std::fs::Permissions;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::PermissionsExt;

use nix::libc;
use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::{Gid, fchown};

/// The process that connected a local socket, as the kernel saw it at that moment. It cannot be
/// forged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PeerCredentials {
    /// The process id, or 0 if the process is in another namespace.
    pub process: u32,
    /// Effective user of the process.
    pub user: u32,
    /// Effective group of the process.
    pub group: u32,
}

/// Returns the credentials of the other end of a local socket.
///
/// # Errors
///
/// Errors of `getsockopt(2)`.
pub fn peer_credentials(socket: &impl AsFd) -> io::Result<PeerCredentials> {
    let credentials = getsockopt(socket, sockopt::PeerCredentials)?;
    Ok(PeerCredentials {
        process: u32::try_from(credentials.pid()).unwrap_or(0),
        user: credentials.uid(),
        group: credentials.gid(),
    })
}

/// Returns the supplementary groups of the process that connected a local socket, at that moment.
///
/// # Errors
///
/// Errors of `getsockopt(2)`: kernels before 4.13 have no such option.
#[expect(unsafe_code, reason = "nix does not wrap SO_PEERGROUPS")]
pub fn peer_groups(socket: &impl AsFd) -> io::Result<Vec<u32>> {
    let mut groups = vec![0_u32; GROUPS_MAX];
    let mut length = libc::socklen_t::try_from(std::mem::size_of_val(groups.as_slice()))
        .map_err(io::Error::other)?;
    // SAFETY: `groups` has room for `length` bytes, and the kernel writes no more. It stores the
    // number of bytes written in `length`. Both outlive the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERGROUPS,
            groups.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    groups.truncate(length as usize / size_of::<u32>());
    Ok(groups)
}

/// Most groups of a process: `NGROUPS_MAX` of Linux.
const GROUPS_MAX: usize = 65_536;

/// Effective user of this process.
#[must_use]
pub fn effective_user() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// Lets a group open the queue, shared-memory object or file of this descriptor for reading and
/// writing (mode 0660).
///
/// # Errors
///
/// [`io::ErrorKind::PermissionDenied`] if this process is not in the group.
pub fn share_with_group(descriptor: &impl AsFd, group: u32) -> io::Result<()> {
    fchown(descriptor, None, Some(Gid::from_raw(group)))?;
    let file = std::fs::File::from(descriptor.as_fd().try_clone_to_owned()?);
    file.set_permissions(Permissions::from_mode(0o660))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_groups_of_a_peer_are_those_of_this_process() {
        let (near, _far) = UnixStream::pair().unwrap();
        let mut own: Vec<u32> = nix::unistd::getgroups()
            .unwrap()
            .into_iter()
            .map(Gid::as_raw)
            .collect();
        let mut seen = peer_groups(&near).unwrap();
        own.sort_unstable();
        seen.sort_unstable();
        assert_eq!(seen, own);
    }

    #[test]
    fn the_peer_of_a_pair_is_this_process() {
        let (near, _far) = UnixStream::pair().unwrap();
        let peer = peer_credentials(&near).unwrap();
        assert_eq!(peer.process, std::process::id());
        assert_eq!(peer.user, effective_user());
    }

    #[test]
    fn a_queue_shared_with_a_group_has_mode_0660() {
        let (near, _far) = UnixStream::pair().unwrap();
        let group = peer_credentials(&near).unwrap().group;
        let file = tempfile_in_memory();
        share_with_group(&file, group).unwrap();
        let file = std::fs::File::from(file.as_fd().try_clone_to_owned().unwrap());
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o660);
    }

    fn tempfile_in_memory() -> crate::SharedMemory {
        crate::SharedMemory::anonymous("shared", 4096, crate::PageSize::Normal).unwrap()
    }
}
