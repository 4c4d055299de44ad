//! The CPUs on which the calling thread may run.

use std::io;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Refers to the calling thread, not the process, in affinity calls.
const CALLING_THREAD: Pid = Pid::from_raw(0);

/// Returns the numbers of the CPUs on which the calling thread may run, in ascending order.
///
/// A container or a batch system may give a process fewer CPUs than the machine has, and their
/// numbers need not start at 0.
///
/// # Errors
///
/// Errors of `sched_getaffinity(2)`: `EINVAL` if the kernel has more CPUs than the C library's set
/// holds (1024).
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(CALLING_THREAD)?;
    let numbers = 0..CpuSet::count();
    Ok(numbers
        .filter(|&cpu| set.is_set(cpu).unwrap_or(false))
        .collect())
}

/// Pins the calling thread to one CPU. Threads and processes that it starts later inherit that.
///
/// # Errors
///
/// Errors of [`pin_to_cpus`].
pub fn pin_to_cpu(cpu: usize) -> io::Result<()> {
    pin_to_cpus(&[cpu])
}

/// Pins the calling thread to these CPUs. Threads and processes that it starts later inherit that.
///
/// # Errors
///
/// Errors of `sched_setaffinity(2)`: `EINVAL` if none of the CPUs exists in the thread's control
/// group.
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
        // In a thread of its own, so that the harness's thread is not pinned.
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
    fn a_cpu_that_does_not_exist_is_an_error() {
        for absent in [CpuSet::count() - 1, CpuSet::count(), usize::MAX] {
            assert!(pin_to_cpu(absent).is_err(), "{absent}");
        }
    }
}
