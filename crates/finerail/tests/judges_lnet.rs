//! `fio --verify` in mounts over LNet, behind two routers and two gateways of one directory. Routers and gateways are
//! killed, stopped and restarted, and every byte that `fio` reads back must be the byte that it wrote.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::Signal;

use common::process::Process;
use common::site::{Site, yaml};
use common::{eventually, finerail, is_root, scaled};

/// Routers between tcp and tcp1, the primary one first.
const ROUTERS: [[&str; 2]; 2] = [
    ["127.0.0.2@tcp", "127.0.0.3@tcp1"],
    ["127.0.0.5@tcp", "127.0.0.6@tcp1"],
];
/// Gateways of one directory.
const GATEWAYS: [&str; 2] = ["127.0.0.4@tcp1", "127.0.0.7@tcp1"];

/// Routers, gateways and clients as processes, and the directory that the gateways export.
struct Lab {
    site: Site,
    routers: Vec<Option<Process>>,
    gateways: Vec<Option<Process>>,
    mounts: Vec<Process>,
}

fn routes(to: &str, side: usize) -> String {
    let route = |(priority, nids): (usize, &[&str; 2])| {
        format!(
            "- net: {to}\n  gateway: {}\n  priority: {priority}\n",
            nids[side]
        )
    };
    let routes: String = ROUTERS.iter().enumerate().map(route).collect();
    format!("route:\n{routes}global:\n  transaction_timeout: 4\n")
}

fn client(number: usize) -> String {
    format!("127.0.1.{}@tcp", number + 1)
}

impl Lab {
    /// Mounts the clients. If mounts are not possible, prints the reason and returns `None`.
    fn new(clients: usize) -> Option<Self> {
        if !is_root() || !Path::new("/dev/fuse").exists() {
            testkit::absent("mounts need root and /dev/fuse");
            return None;
        }
        if !testkit::require("fio") {
            return None;
        }
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let private = Command::new("mount")
            .args(["--make-rprivate", "/"])
            .status();
        assert!(private.unwrap().success());
        let site = Site::new();
        for (number, nids) in ROUTERS.iter().enumerate() {
            let name = format!("router{number}.yaml");
            let text = yaml(
                nids,
                "routing:\n  enable: 1\nglobal:\n  transaction_timeout: 4\n",
            );
            site.write(&name, text);
        }
        for (number, nid) in GATEWAYS.iter().enumerate() {
            site.write(
                &format!("gateway{number}.yaml"),
                yaml(&[nid], &routes("tcp", 1)),
            );
            fs::create_dir(site.path(format!("state{number}"))).unwrap();
        }
        fs::create_dir(site.path("kept")).unwrap();
        let mut lab = Self {
            site,
            routers: vec![None, None],
            gateways: vec![None, None],
            mounts: Vec::new(),
        };
        (0..2).for_each(|number| lab.start_router(number));
        (0..2).for_each(|number| lab.start_gateway(number));
        for number in 0..clients {
            let mount = lab.mount(number);
            lab.mounts.push(mount);
        }
        Some(lab)
    }

    fn start_router(&mut self, number: usize) {
        self.routers[number] = Some(self.site.start_node(&format!("router{number}")));
    }

    fn start_gateway(&mut self, number: usize) {
        let words = [
            "store",
            "serve",
            "--identity",
            "server",
            "--coherent",
            "kept",
        ];
        let mut serve = self.site.command(&format!("gateway{number}"), &words);
        serve
            .arg("--state")
            .arg(self.site.path(format!("state{number}")));
        serve.arg(self.site.path("kept"));
        let gateway = Process::start(serve);
        gateway.wait_for_output("ready: ");
        self.gateways[number] = Some(gateway);
    }

    fn mount(&self, number: usize) -> Process {
        let nid = client(number);
        let configuration = format!("client{number}.yaml");
        let configuration = self
            .site
            .write(&configuration, yaml(&[&nid], &routes("tcp1", 0)));
        let at = self.seen(number);
        fs::create_dir(&at).unwrap();
        let options = format!("config={},port={}", configuration.display(), self.site.port);
        let address = format!("lnet:{}", GATEWAYS.join(","));
        let mut command = finerail(["mount", "-o", &options, &address]);
        command.arg(&at);
        let process = Process::start(command);
        process.wait_for_output("ready: ");
        process
    }

    fn seen(&self, client: usize) -> PathBuf {
        self.site.path(format!("seen{client}"))
    }

    /// Starts `fio`, which writes files one after the other and reads them back, in a directory of the client.
    fn fio(&self, client: usize, files: usize, kib: usize) -> Process {
        let directory = self.seen(client).join(format!("c{client}"));
        fs::create_dir(&directory).unwrap();
        let mut fio = Command::new("fio");
        fio.args([
            "--name=judge",
            "--rw=randwrite",
            "--bsrange=4k-64k",
            "--ioengine=psync",
        ]);
        fio.args([
            "--verify=crc32c",
            "--verify_fatal=1",
            "--verify_state_save=0",
            "--fsync=32",
            "--end_fsync=1",
        ]);
        fio.args([
            "--create_on_open=1",
            "--openfiles=1",
            "--file_service_type=sequential",
        ]);
        fio.args([
            "--invalidate=1".to_owned(),
            format!("--randseed={}", client + 1),
        ]);
        fio.args([format!("--nrfiles={files}"), format!("--filesize={kib}k")]);
        fio.arg("--directory")
            .arg(directory)
            .current_dir(self.site.path(""));
        Process::start(fio)
    }

    /// Waits until a client has begun with this number of files.
    fn begun(&self, client: usize, files: usize) {
        let directory = self.site.path(format!("kept/c{client}"));
        eventually("fio goes on", || {
            let count = fs::read_dir(&directory).map_or(0, Iterator::count);
            (count >= files).then_some(())
        });
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for number in 0..self.mounts.len() {
            // The mount may have ended already.
            let _status = Command::new("umount")
                .arg("-l")
                .arg(self.seen(number))
                .status();
        }
    }
}

/// Longer than the sum of all faults here.
const END: std::time::Duration = std::time::Duration::from_secs(300);

#[test]
fn fio_stays_clean_while_the_primary_router_is_killed_hung_and_started_again() {
    let Some(mut lab) = Lab::new(1) else { return };
    let files = scaled(30, 300);
    let fio = lab.fio(0, files, 512);
    lab.begun(0, files / 6);
    lab.routers[0].take().unwrap().kill();
    lab.begun(0, files / 3);
    lab.start_router(0);
    lab.begun(0, files / 2);
    lab.routers[0].as_ref().unwrap().signal(Signal::SIGSTOP);
    lab.begun(0, 2 * files / 3);
    lab.routers[0].as_ref().unwrap().signal(Signal::SIGCONT);
    lab.begun(0, 5 * files / 6);
    // The other direction: the router that stood by is killed.
    lab.routers[1].take().unwrap().kill();
    fio.wait_within(END).expect_code(0);
}

#[test]
fn fio_stays_clean_while_a_gateway_is_killed_and_another_one_takes_over_and_back() {
    let Some(mut lab) = Lab::new(1) else { return };
    let files = scaled(24, 240);
    let fio = lab.fio(0, files, 512);
    lab.begun(0, files / 4);
    lab.gateways[0].take().unwrap().kill();
    lab.begun(0, files / 2);
    lab.start_gateway(0);
    lab.begun(0, 3 * files / 4);
    fio.wait_within(END).expect_code(0);
}

#[test]
fn many_clients_at_once_read_back_what_they_wrote() {
    let clients = scaled(4, 64);
    let Some(lab) = Lab::new(clients) else { return };
    let judges: Vec<Process> = (0..clients).map(|client| lab.fio(client, 4, 512)).collect();
    for judge in judges {
        judge.wait_within(END).expect_code(0);
    }
}
