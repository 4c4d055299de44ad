//! The hosts of the demo's nodes: network namespaces with cables between them, or loopback addresses.
//!
//! ```text
//!   host ion1          host fabric                host oss1
//!   hsn0 ───────────── rail1 (bridge)
//!   hsn1 ───────────── rail2 (bridge)
//!                      storage (bridge) ───────── ib0
//! ```
//!
//! With namespaces, a cut link has no carrier. Namespaces need `ip` of iproute2, and either root or permission
//! to create user namespaces. Without namespaces, every node is a process on loopback addresses, and a rail is
//! cut by dropping the messages of its interface.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, anyhow, bail, ensure};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{Uid, getgid, getuid};

use super::plan::PlannedNode;

/// The host of the compute processes, which has no network at all.
pub(super) const COMPUTE: &str = "compute";
/// The host of the bridges.
const FABRIC: &str = "fabric";

/// The environment in which the processes run.
pub(super) enum World {
    /// Each host is a network namespace. The descriptor keeps it alive.
    Namespaces(BTreeMap<String, OwnedFd>),
    /// All hosts are this machine. The text is the reason why there are no namespaces.
    Loopback(String),
}

impl World {
    /// Moves this process into namespaces of its own, if the system permits it. Call this before the process
    /// has a second thread, because Linux creates user namespaces only for processes with one thread.
    pub(super) fn enter() -> Self {
        match enter_namespaces() {
            Ok(()) => Self::Namespaces(BTreeMap::new()),
            Err(why) => Self::Loopback(format!("{why:#}")),
        }
    }

    /// Returns whether rails are real links, which can lose their carrier.
    pub(super) fn has_rails(&self) -> bool {
        matches!(self, Self::Namespaces(_))
    }

    /// Describes the hosts.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Namespaces(_) => {
                "Each host is a network namespace, and each rail a veth cable; a cut rail has no carrier.".to_owned()
            }
            Self::Loopback(why) => format!(
                "Every node is a process on loopback addresses ({why}); a cut rail drops its messages."
            ),
        }
    }

    /// Makes the hosts of `nodes`, with their interfaces and cables.
    pub(super) fn build(&mut self, nodes: &[PlannedNode]) -> anyhow::Result<()> {
        let Self::Namespaces(hosts) = self else {
            return Ok(());
        };
        let names = nodes.iter().map(|node| node.name.as_str());
        for name in names.chain([FABRIC, COMPUTE]) {
            let host = new_namespace().with_context(|| format!("cannot make host {name}"))?;
            hosts.insert(name.to_owned(), host);
        }
        let names: Vec<String> = hosts.keys().cloned().collect();
        for name in names {
            self.ip(&name, &["link", "set", "lo", "up"])?;
        }
        for bridge in ["hsn0", "hsn1", "ib0"] {
            self.ip(FABRIC, &["link", "add", bridge, "type", "bridge"])?;
            self.ip(FABRIC, &["link", "set", bridge, "up"])?;
        }
        for node in nodes {
            for (interface, address) in &node.interfaces {
                self.plug(&node.name, interface, &format!("{address}/16"))?;
            }
        }
        Ok(())
    }

    /// Connects an interface of a host to the bridge of the same name.
    fn plug(&self, host: &str, interface: &str, address: &str) -> anyhow::Result<()> {
        let Self::Namespaces(hosts) = self else {
            return Ok(());
        };
        let fabric = hosts.get(FABRIC).context("there is no fabric")?;
        let fabric = format!("/proc/{}/fd/{}", std::process::id(), fabric.as_raw_fd());
        let port = port_name(host, interface);
        self.ip(
            host,
            &[
                "link", "add", interface, "type", "veth", "peer", "name", &port, "netns", &fabric,
            ],
        )?;
        self.ip(host, &["address", "add", address, "dev", interface])?;
        self.ip(host, &["link", "set", interface, "up"])?;
        self.ip(FABRIC, &["link", "set", &port, "master", interface, "up"])
    }

    /// Cuts or repairs the cable of an interface, at the end of the bridge.
    pub(super) fn set_cable(&self, host: &str, interface: &str, is_up: bool) -> anyhow::Result<()> {
        let state = if is_up { "up" } else { "down" };
        self.ip(FABRIC, &["link", "set", &port_name(host, interface), state])
    }

    /// Starts `command` on a host.
    pub(super) fn spawn(
        &self,
        host: &str,
        command: &mut Command,
    ) -> anyhow::Result<std::process::Child> {
        let program = command.get_program().to_string_lossy().into_owned();
        self.within(host, || command.spawn())?
            .with_context(|| format!("cannot run {program}"))
    }

    fn ip(&self, host: &str, words: &[&str]) -> anyhow::Result<()> {
        let output = self.within(host, || ip(words).output())?;
        let output = output.context("cannot run 'ip'")?;
        ensure!(
            output.status.success(),
            "'ip {}' failed: {}",
            words.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(())
    }

    /// Runs `work` in the network namespace of a host. A new thread changes its own namespace, and processes
    /// that the thread starts inherit it.
    fn within<T: Send>(&self, host: &str, work: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
        let Self::Namespaces(hosts) = self else {
            return Ok(work());
        };
        let host_namespace = hosts
            .get(host)
            .with_context(|| format!("there is no host {host}"))?;
        let result = thread::scope(|scope| {
            let moved = scope.spawn(|| -> anyhow::Result<T> {
                setns(host_namespace.as_fd(), CloneFlags::CLONE_NEWNET)
                    .context("cannot enter a host")?;
                Ok(work())
            });
            moved.join()
        });
        result.map_err(|_panic| anyhow!("a thread on host {host} ended early"))?
    }
}

/// Returns the name of a bridge port. Linux permits at most 15 bytes; host names of the demo have at most 8.
fn port_name(host: &str, interface: &str) -> String {
    format!("{host}.{interface}")
}

fn ip(words: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command.args(words).stdin(Stdio::null());
    command
}

/// Makes a network namespace that lives as long as its descriptor.
fn new_namespace() -> anyhow::Result<OwnedFd> {
    let made = thread::spawn(|| -> anyhow::Result<OwnedFd> {
        unshare(CloneFlags::CLONE_NEWNET).context("cannot make a network namespace")?;
        let namespace = File::open("/proc/thread-self/ns/net").context("cannot open it")?;
        Ok(namespace.into())
    });
    made.join()
        .map_err(|_panic| anyhow!("its thread ended early"))?
}

fn enter_namespaces() -> anyhow::Result<()> {
    let found = ip(&["-Version"]).stdout(Stdio::null()).status();
    ensure!(
        found.is_ok_and(|status| status.success()),
        "'ip' of iproute2 is not installed"
    );
    let (user, group) = (getuid(), getgid());
    let network = CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS;
    if unshare(network).is_err() {
        unshare(network | CloneFlags::CLONE_NEWUSER)
            .map_err(|errno| anyhow!("the system does not permit user namespaces: {errno}"))?;
        map_identity(user, &format!("0 {user} 1\n"), &format!("0 {group} 1\n"))?;
    }
    // Makes mounts of the demo invisible to other namespaces.
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .context("cannot keep mounts private")?;
    try_cable()
}

/// Maps this user to root of the namespace. No other user is mapped.
fn map_identity(user: Uid, users: &str, groups: &str) -> anyhow::Result<()> {
    let write = |name: &str, text: &str| {
        let path = format!("/proc/self/{name}");
        fs::write(&path, text).with_context(|| format!("cannot write {path} for user {user}"))
    };
    write("setgroups", "deny")?;
    write("uid_map", users)?;
    write("gid_map", groups)
}

/// Tests whether a veth cable can be created: some kernels and containers support namespaces but not veth.
fn try_cable() -> anyhow::Result<()> {
    let up = ip(&["link", "set", "lo", "up"]).output();
    let up = up.context("cannot run 'ip'")?;
    ensure!(
        up.status.success(),
        "the loopback interface cannot be switched on"
    );
    let cable = ip(&[
        "link", "add", "try0", "type", "veth", "peer", "name", "try1",
    ])
    .output();
    let cable = cable.context("cannot run 'ip'")?;
    if !cable.status.success() {
        bail!("no veth: {}", String::from_utf8_lossy(&cable.stderr).trim());
    }
    let removed = ip(&["link", "del", "try0"])
        .output()
        .context("cannot run 'ip'")?;
    ensure!(removed.status.success(), "cannot remove a veth cable");
    Ok(())
}
