//! Opens files at paths where other users may have put links.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;

use nix::fcntl::OFlag;

/// Makes opening fail with `ELOOP` if the last part of the path is a symbolic link, and not block
/// if it is a pipe.
pub fn without_following(options: &mut OpenOptions) -> &mut OpenOptions {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    options.custom_flags(flags.bits())
}
