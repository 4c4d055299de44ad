//! A child process whose output is always read, and which does not outlive its test.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::PATIENCE;

/// A running program. Dropping this value kills the program.
pub(crate) struct Process {
    child: Child,
    out: Arc<Transcript>,
    err: Arc<Transcript>,
}

/// The exit status and the outputs of a program that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Process {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let out = Transcript::of(child.stdout.take().unwrap());
        let err = Transcript::of(child.stderr.take().unwrap());
        Self { child, out, err }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until standard output contains this text. Fails if the program ends first.
    pub(crate) fn wait_for_output(&self, text: &str) {
        let seen = self.out.wait(PATIENCE, |so_far, _| so_far.contains(text));
        let err = self.err.text();
        assert!(seen, "no '{text}' in '{}'; errors: {err}", self.out.text());
    }

    /// Waits until standard error contains this text. Fails if the program ends first.
    pub(crate) fn wait_for_error(&self, text: &str) {
        let seen = self.err.wait(PATIENCE, |so_far, _| so_far.contains(text));
        assert!(seen, "no '{text}' in '{}'", self.err.text());
    }

    /// Returns standard output so far.
    pub(crate) fn output(&self) -> String {
        self.out.text()
    }

    /// Returns standard error so far.
    pub(crate) fn errors(&self) -> String {
        self.err.text()
    }

    /// Returns whether the program runs.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Sends a signal. After SIGSTOP, waits until the process stands still.
    pub(crate) fn signal(&self, signal: Signal) {
        testkit::process::signal(self.child.id(), signal);
    }

    /// Waits for the end of the program, at most [`PATIENCE`].
    pub(crate) fn wait(self) -> Ended {
        self.wait_within(PATIENCE)
    }

    /// Waits for the end of the program. A program that has ended has closed its outputs.
    pub(crate) fn wait_within(mut self, limit: Duration) -> Ended {
        let ended =
            self.out.wait(limit, |_, closed| closed) && self.err.wait(limit, |_, closed| closed);
        let (out, err) = (self.out.text(), self.err.text());
        assert!(
            ended,
            "still running after {limit:?}; output: {out}; errors: {err}"
        );
        let status = self.child.wait().unwrap();
        Ended { status, out, err }
    }

    /// Ends a service with SIGTERM, as an administrator would.
    pub(crate) fn stop(self) -> Ended {
        self.signal(Signal::SIGTERM);
        self.wait()
    }

    /// Kills the program with `kill -9`.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Returns the resident memory of the process, in KiB (`VmRSS`).
    pub(crate) fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|line| line.split_whitespace().next())
            .and_then(|number| number.parse().ok())
            .expect("VmRSS is a number")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The program may have ended by itself.
        let _killed = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Starts to record the system calls of all threads of a process in a file. Returns `None` without `strace`.
pub(crate) fn trace(process: u32, calls: &str, file: &std::path::Path) -> Option<Process> {
    if !testkit::require("strace") {
        return None;
    }
    let mut command = Command::new("strace");
    command.args(["-f", "-e", &format!("trace={calls}"), "-p"]);
    command.arg(process.to_string()).arg("-o").arg(file);
    let strace = Process::start(command);
    strace.wait_for_error("attached");
    Some(strace)
}

/// Starts a program on a terminal of its own, with util-linux's `script`. Its standard output has what the terminal shows.
pub(crate) fn on_a_terminal(command: &Command) -> Process {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words
        .map(|word| format!("'{}'", word.to_str().unwrap()))
        .collect();
    let mut script = Command::new("script");
    script.args([
        "--quiet",
        "--return",
        "--command",
        &words.join(" "),
        "/dev/null",
    ]);
    script.stdin(Stdio::null());
    Process::start(script)
}

/// Runs a program to its end.
pub(crate) fn run(command: Command) -> Ended {
    Process::start(command).wait()
}

impl Ended {
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    #[track_caller]
    pub(crate) fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "{self:#?}");
        self
    }

    /// Checks that standard error contains this text and no panic.
    #[track_caller]
    pub(crate) fn expect_error(self, text: &str) -> Self {
        assert!(self.err.contains(text), "no '{text}' in {self:#?}");
        assert!(!self.err.contains("panicked"), "{self:#?}");
        self
    }
}

/// The output of a program on one of its pipes.
struct Transcript {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    closed: bool,
}

impl Transcript {
    fn of(mut pipe: impl Read + Send + 'static) -> Arc<Self> {
        let transcript = Arc::new(Self {
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let writer = Arc::clone(&transcript);
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            loop {
                // A pipe that cannot be read any longer counts as closed.
                let count = pipe.read(&mut buffer).unwrap_or(0);
                let mut state = writer.state.lock().unwrap();
                state.bytes.extend_from_slice(&buffer[..count]);
                state.closed = count == 0;
                writer.changed.notify_all();
                if count == 0 {
                    return;
                }
            }
        });
        transcript
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.state.lock().unwrap().bytes).into_owned()
    }

    /// Waits until `wanted` accepts the text and the end of the pipe. Returns false if that is no longer possible.
    fn wait(&self, limit: Duration, wanted: impl Fn(&str, bool) -> bool) -> bool {
        let deadline = Instant::now() + limit;
        let mut state = self.state.lock().unwrap();
        loop {
            if wanted(&String::from_utf8_lossy(&state.bytes), state.closed) {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if state.closed || left.is_zero() {
                return false;
            }
            state = self.changed.wait_timeout(state, left).unwrap().0;
        }
    }
}
