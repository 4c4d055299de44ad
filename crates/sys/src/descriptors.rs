//! What goes with a local socket or a file descriptor besides bytes: other descriptors, who is at
//! the other end, who else may open it.

use std::fs::Permissions;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;

use nix::cmsg_space;
use nix::libc;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, getsockopt, recvmsg, sendmsg, sockopt,
};
use nix::unistd::{Gid, fchown};

/// Most descriptors that one message carries here; the kernel allows 253.
pub const DESCRIPTORS_MAX: usize = 4;

/// Sends bytes and, with the first of them, descriptors. The receiver gets its own copies.
///
/// # Returns
///
/// How many bytes were sent; the descriptors went along if it is not 0.
///
/// # Errors
///
/// [`ErrorKind::InvalidInput`] for no bytes or more than [`DESCRIPTORS_MAX`] descriptors; what
/// `sendmsg(2)` fails with, a lost connection as [`ErrorKind::BrokenPipe`] without a signal.
pub fn send_descriptors(
    socket: &impl AsFd,
    bytes: &[u8],
    descriptors: &[&dyn AsFd],
) -> io::Result<usize> {
    if bytes.is_empty() || descriptors.len() > DESCRIPTORS_MAX {
        return Err(ErrorKind::InvalidInput.into());
    }
    let raw: Vec<i32> = descriptors
        .iter()
        .map(|descriptor| descriptor.as_fd().as_raw_fd())
        .collect();
    let rights = [ControlMessage::ScmRights(&raw)];
    let control = if raw.is_empty() { &[][..] } else { &rights };
    let sent = sendmsg::<()>(
        socket.as_fd().as_raw_fd(),
        &[IoSlice::new(bytes)],
        control,
        MsgFlags::MSG_NOSIGNAL,
        None,
    );
    Ok(sent?)
}

/// Receives bytes and the descriptors that came with them, at most [`DESCRIPTORS_MAX`]; they are
/// closed in programs that this process starts.
///
/// # Returns
///
/// How many bytes came, 0 at the end of the stream, and the descriptors.
///
/// # Errors
///
/// What `recvmsg(2)` fails with.
#[expect(unsafe_code, reason = "received descriptors have no owner yet")]
pub fn receive_descriptors(
    socket: &impl AsFd,
    bytes: &mut [u8],
) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = cmsg_space!([i32; DESCRIPTORS_MAX]);
    let mut slices = [IoSliceMut::new(bytes)];
    let received = recvmsg::<()>(
        socket.as_fd().as_raw_fd(),
        &mut slices,
        Some(&mut space),
        MsgFlags::MSG_CMSG_CLOEXEC,
    )?;
    let mut descriptors = Vec::new();
    for message in received.cmsgs()? {
        if let ControlMessageOwned::ScmRights(raw) = message {
            for fd in raw {
                // SAFETY: the kernel has just opened this descriptor for this process and told
                // nobody else its number.
                descriptors.push(unsafe { OwnedFd::from_raw_fd(fd) });
            }
        }
    }
    Ok((received.bytes, descriptors))
}

/// Who connected a local socket, as the kernel saw it at that moment; it cannot be forged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PeerCredentials {
    /// The process, or 0 when it is in another namespace.
    pub process: u32,
    /// Its effective user.
    pub user: u32,
    /// Its effective group.
    pub group: u32,
}

/// Who is at the other end of a local socket.
///
/// # Errors
///
/// What `getsockopt(2)` fails with.
pub fn peer_credentials(socket: &impl AsFd) -> io::Result<PeerCredentials> {
    let credentials = getsockopt(socket, sockopt::PeerCredentials)?;
    Ok(PeerCredentials {
        process: u32::try_from(credentials.pid()).unwrap_or(0),
        user: credentials.uid(),
        group: credentials.gid(),
    })
}

/// The supplementary groups of whoever connected a local socket, as the kernel saw them at that moment.
///
/// # Errors
///
/// What `getsockopt(2)` fails with: kernels before 4.13 do not know.
#[expect(unsafe_code, reason = "nix does not wrap SO_PEERGROUPS")]
pub fn peer_groups(socket: &impl AsFd) -> io::Result<Vec<u32>> {
    let mut groups = vec![0_u32; GROUPS_MAX];
    let mut length = libc::socklen_t::try_from(std::mem::size_of_val(groups.as_slice()))
        .map_err(io::Error::other)?;
    // SAFETY: `groups` has room for `length` bytes, which the kernel does not exceed; it stores how many it wrote in
    // `length`. Both outlive the call.
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

/// Groups that a process can be in: `NGROUPS_MAX` of Linux.
const GROUPS_MAX: usize = 65_536;

/// The effective user of this process.
#[must_use]
pub fn effective_user() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// Lets a group open what this descriptor names, a queue, a shared-memory object or a file, for
/// reading and writing (mode 0660).
///
/// # Errors
///
/// [`ErrorKind::PermissionDenied`] when this process is not in the group.
pub fn share_with_group(descriptor: &impl AsFd, group: u32) -> io::Result<()> {
    fchown(descriptor, None, Some(Gid::from_raw(group)))?;
    let file = std::fs::File::from(descriptor.as_fd().try_clone_to_owned()?);
    file.set_permissions(Permissions::from_mode(0o660))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_descriptor_arrives_with_its_bytes_and_works() {
        let (near, far) = UnixStream::pair().unwrap();
        let (mut inner, passed) = UnixStream::pair().unwrap();
        assert_eq!(send_descriptors(&near, b"take", &[&passed]).unwrap(), 4);
        drop(passed);
        let mut bytes = [0; 16];
        let (length, mut descriptors) = receive_descriptors(&far, &mut bytes).unwrap();
        assert_eq!(&bytes[..length], b"take");
        let mut got = UnixStream::from(descriptors.pop().unwrap());
        assert!(descriptors.is_empty());
        got.write_all(b"hello").unwrap();
        let mut text = [0; 5];
        inner.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"hello");
    }

    #[test]
    fn bytes_without_descriptors_and_the_end_of_the_stream() {
        let (near, far) = UnixStream::pair().unwrap();
        assert_eq!(send_descriptors(&near, b"plain", &[]).unwrap(), 5);
        drop(near);
        let mut bytes = [0; 16];
        let (length, descriptors) = receive_descriptors(&far, &mut bytes).unwrap();
        assert_eq!((length, descriptors.len()), (5, 0));
        let (length, _) = receive_descriptors(&far, &mut bytes).unwrap();
        assert_eq!(length, 0);
    }

    #[test]
    fn a_lost_connection_is_an_error_and_no_signal() {
        let (near, far) = UnixStream::pair().unwrap();
        drop(far);
        let lost = send_descriptors(&near, b"x", &[]).unwrap_err();
        assert_eq!(lost.kind(), ErrorKind::BrokenPipe);
    }

    #[test]
    fn too_many_descriptors_or_no_byte_to_carry_them_is_refused() {
        let (near, _far) = UnixStream::pair().unwrap();
        let five: Vec<&dyn AsFd> = vec![&near; DESCRIPTORS_MAX + 1];
        assert!(send_descriptors(&near, b"x", &five).is_err());
        assert!(send_descriptors(&near, b"", &[&near]).is_err());
    }

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
