//! Services of local sockets and descriptors besides bytes: passing descriptors, credentials of the
//! peer, access for a group.

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

/// Most descriptors in one message.
pub const DESCRIPTORS_MAX: usize = 4;

/// Most descriptors in one message that the kernel allows (`SCM_MAX_FD`).
const KERNEL_MAX: usize = 253;

/// Sends bytes, and descriptors with the first of them. The receiver gets its own copies of the
/// descriptors.
///
/// # Returns
///
/// The number of bytes sent. The descriptors were sent if it is not 0.
///
/// # Errors
///
/// [`ErrorKind::InvalidInput`] if there are no bytes or more than [`DESCRIPTORS_MAX`] descriptors;
/// errors of `sendmsg(2)`. A lost connection is [`ErrorKind::BrokenPipe`] without a signal.
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

/// Receives bytes, and at most [`DESCRIPTORS_MAX`] descriptors that came with them. Programs that
/// this process starts do not inherit the descriptors.
///
/// There is room for as many descriptors as the kernel allows in one message, because those without
/// an owner would stay open for good.
///
/// # Returns
///
/// The number of bytes, 0 at the end of the stream, and the descriptors.
///
/// # Errors
///
/// [`ErrorKind::InvalidData`] if more descriptors came, which are closed; errors of `recvmsg(2)`.
#[expect(unsafe_code, reason = "received descriptors have no owner yet")]
pub fn receive_descriptors(
    socket: &impl AsFd,
    bytes: &mut [u8],
) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = cmsg_space!([i32; KERNEL_MAX]);
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
                // SAFETY: the kernel has just opened this descriptor for this process, and nothing
                // else knows its number.
                descriptors.push(unsafe { OwnedFd::from_raw_fd(fd) });
            }
        }
    }
    if descriptors.len() > DESCRIPTORS_MAX {
        return Err(ErrorKind::InvalidData.into());
    }
    Ok((received.bytes, descriptors))
}

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
/// [`ErrorKind::PermissionDenied`] if this process is not in the group.
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
    fn more_descriptors_than_allowed_are_refused_and_none_stays_open() {
        // A pipe whose only other owner is the message: its reader sees the end once that is closed.
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        for count in [DESCRIPTORS_MAX + 1, KERNEL_MAX] {
            let (mut reader, writer) = io::pipe().unwrap();
            let raw = vec![writer.as_raw_fd(); count];
            sendmsg::<()>(
                near.as_raw_fd(),
                &[IoSlice::new(b"x")],
                &[ControlMessage::ScmRights(&raw)],
                MsgFlags::empty(),
                None,
            )
            .unwrap();
            drop(writer);
            let refused = receive_descriptors(&far, &mut [0]).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidData);
            // Without an end of the pipe this read would wait for ever.
            assert_eq!(io::Read::read(&mut reader, &mut [0]).unwrap(), 0);
        }
    }

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
    fn bytes_arrive_without_descriptors_and_the_stream_ends() {
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
    fn too_many_descriptors_or_no_byte_to_carry_them_is_an_error() {
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
