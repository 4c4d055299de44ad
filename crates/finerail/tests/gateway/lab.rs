//! A gateway process, its directories, and clients in this process.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use files::spread::{Real, Server, Spread};
use files_lnet::files::RemoteFiles;
use lnet_node::{Node, NodeOptions};
use lnet_rpc::{Client, ClientOptions, Entropy};
use nix::sys::signal::Signal;

use crate::common::process::{Process, run};
use crate::common::site::{Site, yaml};
use crate::common::{PATIENCE, eventually};
use crate::stranger::Stranger;

pub(crate) const GATEWAYS: [&str; 2] = ["127.0.0.2@tcp", "127.0.0.3@tcp"];

/// The gateway of a directory with a state directory, and optionally a second gateway that takes over.
pub(crate) struct Lab {
    site: Site,
    near: Node,
    gateway: Option<Process>,
    second: Option<Process>,
}

impl Lab {
    /// Makes the directories, and a node for clients. Starts no gateway.
    pub(crate) fn new() -> Self {
        let site = Site::new();
        for name in ["kept", "state", "second-state"] {
            fs::create_dir(site.path(name)).unwrap();
        }
        site.write("gateway.yaml", yaml(&[GATEWAYS[0]], ""));
        site.write("second.yaml", yaml(&[GATEWAYS[1]], ""));
        let config = lnet_config::parse(&yaml(&["127.0.0.1@tcp"], "")).unwrap();
        let options = NodeOptions {
            port: site.port,
            ..NodeOptions::default()
        };
        let near = lnet_noded::start(&config, options).unwrap().into_node();
        Self {
            site,
            near,
            gateway: None,
            second: None,
        }
    }

    /// Returns a lab whose gateway expects the answer to a message within `seconds`.
    pub(crate) fn with_transaction_timeout(seconds: u32) -> Self {
        let lab = Self::new();
        let settings = format!("global:\n  transaction_timeout: {seconds}\n  retry_count: 0\n");
        lab.site
            .write("gateway.yaml", yaml(&[GATEWAYS[0]], &settings));
        lab
    }

    /// Returns a connection to the gateway under this NID.
    pub(crate) fn stranger(&self, nid: &str) -> Stranger {
        Stranger::connect(GATEWAYS[0], self.site.port, nid)
    }

    pub(crate) fn kept(&self) -> PathBuf {
        self.site.path("kept")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.site.path("state")
    }

    pub(crate) fn client(&self) -> RemoteFiles {
        self.client_with_patience(PATIENCE)
    }

    pub(crate) fn client_with_patience(&self, patience: Duration) -> RemoteFiles {
        self.client_of(GATEWAYS[0], patience)
    }

    /// Lets a client without a session use the gateway. The client says goodbye afterwards, as every command does: the
    /// gateway keeps the sessions of a limited number of clients of one NID.
    pub(crate) fn with_client(&self, patience: Duration, work: impl FnOnce(&RemoteFiles)) {
        let client = self.rpc_client(GATEWAYS[0]);
        work(&RemoteFiles::new(client.clone(), patience));
        client.close(patience);
    }

    /// Returns a client that changes from the first gateway to the second one after a second.
    pub(crate) fn client_of_both(&self) -> Spread {
        let server = |nid: &str| Server {
            name: nid.to_owned(),
            files: Arc::new(self.client_of(nid, Duration::from_secs(1))),
        };
        let servers = GATEWAYS.into_iter().map(server).collect();
        let options = files::spread::Options {
            // The first gateway is not probed again within a test.
            first_pause: PATIENCE,
            longest_pause: PATIENCE,
            ..files::spread::Options::default()
        };
        Spread::new(servers, options, Real::new()).unwrap()
    }

    fn client_of(&self, gateway: &str, patience: Duration) -> RemoteFiles {
        RemoteFiles::new(self.rpc_client(gateway), patience)
    }

    fn rpc_client(&self, gateway: &str) -> Client {
        // Each client needs a number of its own: otherwise the gateway would mistake one client for another.
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let mut random = [0; 32];
        random[..8].copy_from_slice(&NUMBER.fetch_add(1, Ordering::Relaxed).to_le_bytes());
        let options = ClientOptions {
            attempt_timeout: Duration::from_millis(200),
            backoff_max: Duration::from_millis(200),
            ..ClientOptions::default()
        };
        let server = gateway.parse().unwrap();
        let entropy = Entropy::new(random);
        Client::new(self.near.clone(), server, entropy, options)
    }

    fn command(&self, node: &str, more: &[&str]) -> Command {
        let mut command = self.site.command(node, &["store", "serve"]);
        // Otherwise root would be anonymous.
        command.args(["--identity", "server"]);
        command.args(more).arg(self.kept());
        command
    }

    fn serve(&mut self, more: &[&str]) {
        let gateway = Process::start(self.command("gateway", more));
        gateway.wait_for_output("ready: ");
        self.gateway = Some(gateway);
    }

    fn with_state(&self, more: &[&str]) -> Vec<String> {
        let state = self.state().display().to_string();
        let own = ["--state".to_owned(), state];
        own.into_iter()
            .chain(more.iter().map(|&word| word.to_owned()))
            .collect()
    }

    /// Ends the gateway, if there is one, and starts it with its log and more arguments.
    pub(crate) fn restart(&mut self, more: &[&str]) {
        self.stop_clean();
        let words = self.with_state(more);
        self.serve(&words.iter().map(String::as_str).collect::<Vec<_>>());
    }

    /// Starts the second gateway, which declares the directory as the same file system.
    pub(crate) fn start_second(&mut self, coherent: &str) {
        let state = self.site.path("second-state").display().to_string();
        let words = ["--coherent", coherent, "--state", &state];
        let second = Process::start(self.command("second", &words));
        second.wait_for_output("ready: ");
        self.second = Some(second);
    }

    pub(crate) fn start_without_a_log(&mut self) {
        self.serve(&[]);
    }

    pub(crate) fn stop_clean(&mut self) {
        self.stop_and_hear();
    }

    /// Ends the gateway, which first executes the requests that it holds. Returns its standard error.
    pub(crate) fn stop_and_hear(&mut self) -> String {
        let gateway = self.gateway.take();
        gateway.map_or_else(String::new, |gateway| gateway.stop().expect_code(0).err)
    }

    /// Waits until every thread of the gateway has stopped: a signal reaches them one after the other.
    pub(crate) fn stood_still(&self) {
        let gateway = self.gateway.as_ref().unwrap().id();
        eventually("the gateway stops", || {
            testkit::process::stands_still(gateway).then_some(())
        });
    }

    /// Waits until the gateway has died.
    pub(crate) fn died(&mut self) {
        let gateway = self.gateway.as_mut().unwrap();
        eventually("the gateway is killed at its step", || {
            (!gateway.is_running()).then_some(())
        });
        self.gateway = None;
    }

    pub(crate) fn start_again_after_the_kill(&mut self) {
        self.died();
        self.restart(&[]);
    }

    pub(crate) fn id(&self) -> u32 {
        self.gateway.as_ref().unwrap().id()
    }

    pub(crate) fn resident_kib(&self) -> u64 {
        self.gateway.as_ref().unwrap().resident_kib()
    }

    pub(crate) fn kill(&mut self) {
        self.gateway.take().unwrap().kill();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.gateway.as_ref().unwrap().signal(signal);
    }

    pub(crate) fn stop_the_process(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Starts a gateway that must fail to start. Returns its output.
    pub(crate) fn serve_and_fail(&self, more: &[&str]) -> String {
        let mut words = self.with_state(&[]);
        if more.contains(&"--state") {
            words.clear();
        }
        let words: Vec<&str> = words
            .iter()
            .map(String::as_str)
            .chain(more.iter().copied())
            .collect();
        let ended = run(self.command("gateway", &words));
        assert_ne!(ended.code(), Some(0));
        ended.err
    }

    /// Ends all processes in order.
    pub(crate) fn end(mut self) {
        self.stop_clean();
        if let Some(second) = self.second {
            second.stop().expect_code(0);
        }
        self.near.shutdown(Duration::ZERO);
    }
}

pub(crate) fn done(program: &str, arguments: &[&str]) {
    let status = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .status();
    assert!(status.unwrap().success(), "{program} {arguments:?}");
}
