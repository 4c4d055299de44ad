//! A directory with the files of some nodes, and one port for all nodes.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::process::{Ended, Process, run};
use super::{PATIENCE, finerail};

/// Nodes on loopback addresses of this machine.
pub(crate) struct Site {
    directory: TempDir,
    pub(crate) port: u16,
}

/// A client's NID. In the routed configuration, the client is behind [`ROUTER`].
pub(crate) const CLIENT: &str = "127.0.0.1@tcp";
/// A router between tcp and tcp1.
pub(crate) const ROUTER: [&str; 2] = ["127.0.0.2@tcp", "127.0.0.3@tcp1"];
/// A node on the far side of [`ROUTER`].
pub(crate) const STORAGE: &str = "127.0.0.4@tcp1";

/// Settings with which missing answers expire within the test.
const QUICK: &str = "global:\n  transaction_timeout: 4\n";

/// Returns a configuration with one interface for each NID.
pub(crate) fn yaml(nids: &[&str], rest: &str) -> String {
    let mut text = String::from("net:\n");
    for nid in nids {
        let net = nid.split_once('@').unwrap().1;
        text += &format!("- net type: {net}\n  local NI(s):\n  - nid: {nid}\n");
    }
    text + rest
}

impl Site {
    pub(crate) fn new() -> Self {
        Self {
            directory: TempDir::with_prefix("finerail-test-").unwrap(),
            port: testkit::port(),
        }
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// Writes the configurations of client, router and storage node.
    pub(crate) fn write_routed_nodes(&self) {
        let route = "route:\n- net: tcp1\n  gateway: 127.0.0.2@tcp\n";
        self.write("client.yaml", yaml(&[CLIENT], &format!("{route}{QUICK}")));
        self.write(
            "router.yaml",
            yaml(&ROUTER, &format!("routing:\n  enable: 1\n{QUICK}")),
        );
        let route = "route:\n- net: tcp\n  gateway: 127.0.0.3@tcp1\n";
        self.write("storage.yaml", yaml(&[STORAGE], &format!("{route}{QUICK}")));
    }

    /// Returns a command of a node: its words, the node's configuration, the port.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, node: &str, words: &[S]) -> Command {
        let mut command = finerail(words);
        command
            .arg("--config")
            .arg(self.path(format!("{node}.yaml")));
        command.args(["--port", &self.port.to_string()]);
        command.args(["--router-check-interval", "1"]);
        let words = || words.iter().map(|word| word.as_ref().to_string_lossy());
        let is_service = words().any(|word| word == "node" || word == "serve");
        if is_service && !words().any(|word| word.starts_with("--control")) {
            command.arg("--no-control");
        }
        command
    }

    /// Starts `finerail node` with a configuration in the directory, and waits until it is ready.
    pub(crate) fn start_node(&self, node: &str) -> Process {
        let mut command = self.command(node, &["node"]);
        command.arg("--stats").arg(self.stats_path(node));
        let process = Process::start(command);
        process.wait_for_output("ready: ");
        process
    }

    /// Runs `finerail ping` of a node on the site's port, from any source port. The default timeout is long enough
    /// for a busy machine.
    pub(crate) fn ping(&self, nid: &str, more: &[&str]) -> Ended {
        let (port, timeout) = (self.port.to_string(), PATIENCE.as_secs().to_string());
        let mut ping = vec!["ping", "--port", &port, nid];
        ping.extend(more);
        if !more.contains(&"--timeout") {
            ping.extend(["--timeout", &timeout]);
        }
        run(finerail(&ping))
    }

    pub(crate) fn stats_path(&self, node: &str) -> PathBuf {
        self.path(format!("{node}.stats.json"))
    }

    /// Returns the counters of a node that has ended.
    pub(crate) fn stats(&self, node: &str) -> Value {
        let text = fs::read_to_string(self.stats_path(node)).unwrap();
        serde_json::from_str(&text).unwrap()
    }
}
