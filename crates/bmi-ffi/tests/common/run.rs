//! Running a server and a client to their ends, under valgrind too.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How a program is run: as it is, or under valgrind.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Under {
    Nothing,
    Valgrind,
}

impl Under {
    pub(crate) fn command(self, program: &Path) -> Command {
        match self {
            Under::Nothing => Command::new(program),
            Under::Valgrind => {
                let mut command = Command::new("valgrind");
                command
                    .args(["--quiet", "--error-exitcode=99", "--leak-check=full"])
                    .arg("--errors-for-leak-kinds=definite,indirect,possible")
                    .arg(program);
                command
            }
        }
    }
}

pub(crate) fn has_valgrind() -> bool {
    Command::new("valgrind").arg("--version").output().is_ok()
}

/// Runs a server and a client of one program to their ends.
pub(crate) fn run_pair(
    under: Under,
    program: &Path,
    listen: &str,
    client_arguments: &[&str],
    environment: &[(&str, String)],
) -> String {
    let environment = || environment.iter().map(|(name, value)| (name, value));
    let mut server = Ended(
        under
            .command(program)
            .args(["server", listen])
            .envs(environment())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut address = String::new();
    let stdout = server.0.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut address).unwrap();
    let mut client = Ended(
        under
            .command(program)
            .args(["client", address.trim()])
            .args(client_arguments)
            .envs(environment())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    wait_for_both(&mut server, &mut client);
    let mut table = String::new();
    let stdout = client.0.stdout.as_mut().unwrap();
    stdout.read_to_string(&mut table).unwrap();
    table
}

/// Longer than any program takes, under valgrind too.
const LIMIT: Duration = Duration::from_secs(300);

/// Waits until both have ended well. When one has not, the other may wait for it for ever.
fn wait_for_both(server: &mut Ended, client: &mut Ended) {
    let began = Instant::now();
    let (_keep, nothing) = mpsc::channel::<()>();
    loop {
        let ends = [&mut *server, &mut *client].map(|end| end.0.try_wait().unwrap());
        for (end, whose) in ends.iter().zip(["server", "client"]) {
            if let Some(status) = end {
                assert!(status.success(), "the {whose}: {status}");
            }
        }
        if ends.iter().all(Option::is_some) {
            return;
        }
        assert!(began.elapsed() < LIMIT, "a hang: {ends:?}");
        let _pause = nothing.recv_timeout(Duration::from_millis(5));
    }
}

/// A process that does not outlive a failed test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
