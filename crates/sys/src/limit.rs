//! Limits of this process.

use std::fs;
use std::io;

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

/// The capability of a process that no limit of locked memory holds back: its number.
const CAP_IPC_LOCK: u32 = 14;

/// Returns the bytes that this process may lock (`RLIMIT_MEMLOCK`); `None` without a limit, or if the process has the
/// capability `CAP_IPC_LOCK`, which lifts it.
///
/// # Errors
///
/// None: `getrlimit(2)` has no errors for this limit.
pub fn locked_memory_limit() -> io::Result<Option<u64>> {
    let (soft, _) = getrlimit(Resource::RLIMIT_MEMLOCK)?;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let is_free = soft == RLIM_INFINITY || may_lock(&status);
    Ok((!is_free).then_some(soft))
}

/// Returns true if the status of a process shows the capability to lock memory without a limit.
fn may_lock(status: &str) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    set.is_some_and(|set| set >> CAP_IPC_LOCK & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_capability_stands_in_the_status() {
        assert!(may_lock("Name:\tx\nCapEff:\t000001ffffffffff\n"));
        assert!(!may_lock("CapEff:\t0000000000000400\n"));
        assert!(!may_lock("CapEff:\tnone\n"));
        assert!(!may_lock(""));
    }

    #[test]
    fn a_limit_is_returned_unless_it_does_not_hold() {
        let (soft, _) = getrlimit(Resource::RLIMIT_MEMLOCK).unwrap();
        let limit = locked_memory_limit().unwrap();
        assert!(limit.is_none_or(|limit| limit == soft && soft != RLIM_INFINITY));
    }
}
