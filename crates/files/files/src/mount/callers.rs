//! The callers on whose behalf the kernel sends requests.

use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use crate::{Caller, GROUPS_MAX};

/// How long the groups of a process are cached.
const BELIEVED: Duration = Duration::from_secs(1);
/// Limit of the number of processes whose groups are cached.
const KEPT_MAX: usize = 1024;

/// A caller: process, user, group.
type Who = (u32, u32, u32);

/// The supplementary groups of processes, which the kernel does not send.
pub(crate) struct Callers {
    with_groups: bool,
    kept: Mutex<FxHashMap<Who, (Instant, Vec<u32>)>>,
}

impl Callers {
    /// Creates an empty cache. Without `with_groups`, callers have no supplementary groups.
    pub(crate) fn new(with_groups: bool) -> Self {
        let kept = Mutex::default();
        Self { with_groups, kept }
    }

    /// Returns the caller of a request from process `pid`. 0 is the kernel itself, or a process outside of this
    /// process's namespace.
    pub(crate) fn caller(&self, uid: u32, gid: u32, pid: u32) -> Caller {
        let groups = if self.with_groups && pid != 0 {
            self.groups((pid, uid, gid))
        } else {
            Vec::new()
        };
        Caller { uid, gid, groups }
    }

    fn groups(&self, who: Who) -> Vec<u32> {
        let now = Instant::now();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, groups)) = kept.get(&who)
            && now.duration_since(*at) < BELIEVED
        {
            return groups.clone();
        }
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        let status = fs::read_to_string(format!("/proc/{}/status", who.0));
        let groups = groups_in(&status.unwrap_or_default());
        kept.insert(who, (now, groups.clone()));
        groups
    }
}

/// Returns the groups in `/proc/PID/status` (proc_pid_status(5)).
fn groups_in(status: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    let words = line.unwrap_or_default().split_ascii_whitespace();
    words
        .filter_map(|word| word.parse().ok())
        .take(GROUPS_MAX)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_those_of_the_process() {
        assert_eq!(
            groups_in("Name:\tx\nGroups:\t4 24 1000 \nNStgid:\t1\n"),
            [4, 24, 1000]
        );
        assert!(groups_in("Groups:\t\n").is_empty() && groups_in("").is_empty());
        let callers = Callers::new(true);
        assert!(callers.caller(1, 2, 0).groups.is_empty());
        let own = nix::unistd::getgroups().unwrap();
        let own: Vec<u32> = own.iter().map(|group| group.as_raw()).collect();
        assert_eq!(callers.caller(1, 2, std::process::id()).groups, own);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let callers = Callers::new(true);
        for uid in 0..3000 {
            callers.caller(uid, 0, u32::MAX);
        }
        assert!(callers.kept.lock().unwrap().len() <= KEPT_MAX);
    }
}
