//! Complete captures of a test's own traffic, with `dumpcap` of Wireshark.

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;

use super::process::Process;
use super::{can_run, eventually};

/// A running capture.
pub(crate) struct Capture {
    dumpcap: Process,
    file: PathBuf,
    port: u16,
}

/// More than any test here sends, so that nothing is dropped even on a slow machine.
const BUFFER_MIB: &str = "128";

/// The datagram that marks the end of the capture in its file.
const END: &[u8] = b"finerail: this is the end of the capture";

/// Number of bytes at the end of the file in which `END` is searched.
const TAIL: usize = 1 << 16;

impl Capture {
    /// Captures the frames on loopback from and to `port`. If that is not possible, prints the reason and returns
    /// `None`.
    pub(crate) fn of_loopback(port: u16, file: &Path) -> Option<Self> {
        Self::start(&[], "lo", port, file)
    }

    /// Captures on an interface. `launcher` is a command that runs `dumpcap` in the namespace of the interface.
    pub(crate) fn start(
        launcher: &[&str],
        interface: &str,
        port: u16,
        file: &Path,
    ) -> Option<Self> {
        let words: Vec<&str> = launcher.iter().copied().chain(["dumpcap"]).collect();
        let with = |more: &[&'static str]| [&words[1..], more].concat();
        if !can_run("dumpcap", &["--version"]) {
            eprintln!("skipped: capturing needs 'dumpcap' (Debian: tshark)");
            return None;
        }
        if !can_run(words[0], &[&with(&["-L", "-i"])[..], &[interface]].concat()) {
            eprintln!("skipped: this user may not capture on {interface}");
            return None;
        }
        let mut command = Command::new(words[0]);
        command.args(with(&["-q", "-B", BUFFER_MIB]));
        command
            .args(["-i", interface, "-f", &format!("port {port}"), "-w"])
            .arg(file);
        let dumpcap = Process::start(command);
        // `dumpcap` prints this line after it has opened interface, filter and file.
        dumpcap.wait_for_error("File: ");
        let file = file.to_owned();
        Some(Self {
            dumpcap,
            file,
            port,
        })
    }

    /// Ends a capture of loopback, after everything sent so far is in its file.
    pub(crate) fn finish(self) -> PathBuf {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = self.port;
        self.finish_when("the last packet is in the capture", |file| {
            // No socket listens there, but the capture contains the datagram.
            let _refused = socket.send_to(END, (Ipv4Addr::LOCALHOST, port));
            let captured = fs::read(file).unwrap();
            let tail = &captured[captured.len().saturating_sub(TAIL)..];
            tail.windows(END.len()).any(|part| part == END)
        })
    }

    /// Ends the capture once its file satisfies `is_whole`.
    pub(crate) fn finish_when(self, what: &str, is_whole: impl Fn(&Path) -> bool) -> PathBuf {
        eventually(what, || is_whole(&self.file).then_some(()));
        self.dumpcap.signal(Signal::SIGINT);
        let ended = self.dumpcap.wait().expect_code(0);
        let counts = ended
            .err
            .lines()
            .find(|line| line.contains("received/dropped"));
        let counts = counts.unwrap_or_else(|| panic!("no counts: {}", ended.err));
        assert!(
            counts.contains("/0 (pcap:0/dumpcap:0/"),
            "packets were dropped: {counts}"
        );
        self.file
    }
}
