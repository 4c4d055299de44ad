//! What the flags of an open file mean for the mount.

use fuser::{FopenFlags, OpenAccMode, OpenFlags};
use rustix::fs::OFlags;

use crate::mount::session::Locking;

/// Returns how the kernel must use an open file. Data that is appended bypasses the kernel's cache, because only the
/// server knows the end of the file.
pub(super) fn opened_as(flags: OpenFlags, locks: Locking) -> FopenFlags {
    if flags.acc_mode() == OpenAccMode::O_RDONLY {
        // A close need not wait, because nothing is written through this file. A close may end locks, however.
        match locks {
            Locking::Gateway => FopenFlags::empty(),
            Locking::Local | Locking::Refuse => FopenFlags::FOPEN_NOFLUSH,
        }
    } else if appends(flags) {
        FopenFlags::FOPEN_DIRECT_IO
    } else {
        FopenFlags::empty()
    }
}

/// Writes of fewer bytes reach the server before `write` returns: databases and logs use short writes, and the
/// round trip costs more than their bytes.
const BEHIND_MIN: usize = 64 << 10;

/// Returns whether a write may be confirmed to the kernel before the server has its data.
pub(super) fn may_go_behind(flags: OpenFlags, length: usize) -> bool {
    // `SYNC` contains the bit of `DSYNC`.
    let at_once = OFlags::DIRECT | OFlags::APPEND | OFlags::SYNC;
    let flags = OFlags::from_bits_retain(flags.0.cast_unsigned());
    length >= BEHIND_MIN && !flags.intersects(at_once)
}

/// Returns whether a file was opened to append.
pub(super) fn appends(flags: OpenFlags) -> bool {
    OFlags::from_bits_retain(flags.0.cast_unsigned()).contains(OFlags::APPEND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_pieces_of_files_without_sync_direct_or_append_go_behind() {
        let may = |flags: OFlags, length| {
            let bits = (OFlags::WRONLY | flags).bits().cast_signed();
            may_go_behind(OpenFlags(bits), length)
        };
        assert!(may(OFlags::empty(), BEHIND_MIN));
        assert!(!may(OFlags::empty(), BEHIND_MIN - 1));
        for flags in [OFlags::DIRECT, OFlags::APPEND, OFlags::SYNC, OFlags::DSYNC] {
            assert!(!may(flags, BEHIND_MIN), "{flags:?}");
        }
    }
}
