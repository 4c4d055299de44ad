//! Running a server and a client to their ends, under valgrind too.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

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
                    .arg("--errors-for-leak-kinds=definite,indirect")
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
    let client = under
        .command(program)
        .args(["client", address.trim()])
        .args(client_arguments)
        .envs(environment())
        .output()
        .unwrap();
    let complaints = String::from_utf8_lossy(&client.stderr);
    assert!(client.status.success(), "the client: {complaints}");
    assert!(server.0.wait().unwrap().success(), "the server");
    String::from_utf8(client.stdout).unwrap()
}

/// A process that does not outlive a failed test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
