//! Signals to the processes of tests.

use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::eventually;

/// Sends a signal to a process. After SIGSTOP, waits until the process stands still.
///
/// # Panics
///
/// If the process has ended, or does not stand still in time.
#[track_caller]
#[expect(clippy::expect_used, reason = "a test that cannot be set up fails")]
pub fn signal(process: u32, signal: Signal) {
    kill(Pid::from_raw(process.cast_signed()), signal).expect("the process is there");
    if signal == Signal::SIGSTOP {
        eventually("the process stands still", || {
            states(process).iter().all(|state| !runs(*state))
        });
    }
}

/// Returns whether a process is stopped with all its threads. After SIGSTOP, threads continue for a while on a busy
/// machine.
#[must_use]
pub fn stands_still(process: u32) -> bool {
    let states = states(process);
    states.contains(&'T') && !states.into_iter().any(runs)
}

/// Returns whether a thread in this state is neither stopped nor at its end.
fn runs(state: char) -> bool {
    !"TZX".contains(state)
}

/// Returns the states of the threads of a process (proc_pid_stat(5)).
fn states(process: u32) -> Vec<char> {
    let threads = fs::read_dir(format!("/proc/{process}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let state = |thread: fs::DirEntry| {
        let stat = fs::read_to_string(thread.path().join("stat")).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    };
    threads.filter_map(state).collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_stands_still_after_sigstop_until_sigcont() {
        let mut process = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert!(!stands_still(process.id()));
        signal(process.id(), Signal::SIGSTOP);
        assert!(stands_still(process.id()));
        signal(process.id(), Signal::SIGCONT);
        eventually("the process runs", || !stands_still(process.id()));
        drop(process.stdin.take());
        eventually("the process ends", || {
            states(process.id()).into_iter().all(|state| !runs(state))
        });
        signal(process.id(), Signal::SIGSTOP);
        assert!(!stands_still(process.id()));
        assert!(process.wait().unwrap().success());
    }
}
