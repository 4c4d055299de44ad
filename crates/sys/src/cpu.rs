//! Which CPUs the calling thread runs on.

use std::io;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Names the calling thread, not the process, to the affinity calls.
const CALLING_THREAD: Pid = Pid::from_raw(0);

/// The numbers of the CPUs that the calling thread may run on, ascending.
///
/// A container or a batch system may leave a process fewer CPUs than the machine has, and not
/// those that begin at 0.
///
/// # Errors
///
/// What `sched_getaffinity(2)` fails with: `EINVAL` where the kernel numbers more CPUs than the
/// C library's set holds (1024).
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(CALLING_THREAD)?;
    let numbers = 0..CpuSet::count();
    Ok(numbers
        .filter(|&cpu| set.is_set(cpu).unwrap_or(false))
        .collect())
}

/// Keeps the calling thread, and the threads and processes it starts from now on, on one CPU.
///
/// # Errors
///
/// As [`pin_to_cpus`].
pub fn pin_to_cpu(cpu: usize) -> io::Result<()> {
    pin_to_cpus(&[cpu])
}

/// Keeps the calling thread, and the threads and processes it starts from now on, on these CPUs.
///
/// # Errors
///
/// What `sched_setaffinity(2)` fails with: `EINVAL` when none of the CPUs exists in the thread's control group.
pub fn pin_to_cpus(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        set.set(cpu)?;
    }
    Ok(sched_setaffinity(CALLING_THREAD, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_may_run_on_that_cpu_only_until_it_is_pinned_to_others() {
        let last = *allowed_cpus().unwrap().last().unwrap();
        // In a thread of its own: pinning is not to outlive the test in the harness.
        let pinned = std::thread::spawn(move || {
            let all = allowed_cpus().unwrap();
            pin_to_cpu(last).unwrap();
            let one = allowed_cpus().unwrap();
            pin_to_cpus(&all).unwrap();
            (one, allowed_cpus().unwrap() == all)
        });
        assert_eq!(pinned.join().unwrap(), (vec![last], true));
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_refused() {
        for absent in [CpuSet::count() - 1, CpuSet::count(), usize::MAX] {
            assert!(pin_to_cpu(absent).is_err(), "{absent}");
        }
    }
}
