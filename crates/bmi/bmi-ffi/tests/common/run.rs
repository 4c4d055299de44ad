//! Runs a server and a client until both end, optionally under valgrind.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use testkit::c::valgrind;

/// Whether a program runs directly or under valgrind.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Under {
    Nothing,
    Valgrind,
}

impl Under {
    pub(crate) fn command(self, program: &Path) -> Command {
        match self {
            Under::Nothing => Command::new(program),
            Under::Valgrind => valgrind(program, "definite,indirect,possible"),
        }
    }
}

/// Runs a server and a client of one program until both end.
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

/// Longer than any program takes, also under valgrind.
const LIMIT: Duration = Duration::from_secs(300);

/// Waits until both have exited with success. If one fails, the other is not waited for: it may wait forever.
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

/// A process that is killed if the test fails.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
