//! Conversions between the types of [`files`] and those of the crate `fuser`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use rustix::fs::{major, minor};

use crate::{Attributes, Errno, Kind, SetTime, Timestamp};

/// Converts an error to FUSE.
pub(crate) fn errno(errno: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(errno as i32)
}

/// Converts the attributes of a node to FUSE.
pub(crate) fn attributes(number: u64, from: &Attributes) -> FileAttr {
    FileAttr {
        ino: INodeNo(number),
        size: from.size,
        blocks: from.blocks,
        atime: system_time(from.accessed),
        mtime: system_time(from.modified),
        ctime: system_time(from.changed),
        crtime: system_time(from.born),
        kind: kind(from.kind),
        perm: (from.mode & 0o7777) as u16,
        nlink: from.links,
        uid: from.uid,
        gid: from.gid,
        rdev: device(from.device),
        blksize: from.block_size,
        flags: 0,
    }
}

/// Converts the kind of an object to FUSE.
pub(crate) fn kind(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::CharacterDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
    }
}

/// Converts the new value of a time from FUSE.
pub(crate) fn set_time(time: TimeOrNow) -> SetTime {
    match time {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(time) => SetTime::To(timestamp(time)),
    }
}

/// Converts a device number to the 32 bits of the kernel's protocol (`new_encode_dev`).
fn device(device: u64) -> u32 {
    let (major, minor) = (major(device), minor(device));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

fn system_time(time: Timestamp) -> SystemTime {
    let seconds = Duration::from_secs(time.seconds.unsigned_abs());
    let whole = if time.seconds < 0 {
        UNIX_EPOCH.checked_sub(seconds)
    } else {
        UNIX_EPOCH.checked_add(seconds)
    };
    let nanoseconds = Duration::from_nanos(time.nanoseconds.into());
    whole
        .and_then(|whole| whole.checked_add(nanoseconds))
        .unwrap_or(UNIX_EPOCH)
}

/// Converts a time from the kernel. For a time before 1970, fuser 0.18 treats both parts as negative, so the seconds
/// and nanoseconds here are those of the difference to 1970.
fn timestamp(time: SystemTime) -> Timestamp {
    let (seconds, nanoseconds) = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (
            i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
            after.subsec_nanos(),
        ),
        Err(before) => {
            let before = before.duration();
            (
                0_i64.saturating_sub_unsigned(before.as_secs()),
                before.subsec_nanos(),
            )
        }
    };
    Timestamp {
        seconds,
        nanoseconds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_are_those_of_the_kernel() {
        // makedev(3) of 8:1 and of 259:70000.
        assert_eq!(device(0x801), 0x801);
        assert_eq!(
            device(rustix::fs::makedev(259, 70_000)),
            (70_000 & 0xff) | 259 << 8 | (70_000 & !0xff) << 12
        );
    }

    #[test]
    fn times_before_1970_are_shown_as_they_are() {
        let time = Timestamp {
            seconds: -2,
            nanoseconds: 800_000_000,
        };
        assert_eq!(
            UNIX_EPOCH.duration_since(system_time(time)).unwrap(),
            Duration::from_millis(1200)
        );
        let last = Timestamp {
            seconds: i64::MAX,
            nanoseconds: 999_999_999,
        };
        let first = Timestamp {
            seconds: i64::MIN,
            nanoseconds: 0,
        };
        let _no_panic = (system_time(last), system_time(first));
    }
}
