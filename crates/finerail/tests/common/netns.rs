//! Network namespaces with cables between them, made with `ip` of iproute2.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use super::process::{Ended, Process, run};
use super::{can_run, eventually, finerail_by, is_root};

/// Some namespaces, which are removed with this value. A room is one of them.
pub(crate) struct Lab {
    prefix: String,
    rooms: Vec<String>,
}

/// A network interface: its room, its name, and its address with prefix length.
pub(crate) struct End<'a> {
    pub(crate) room: &'a str,
    pub(crate) interface: &'a str,
    pub(crate) address: &'a str,
}

impl Lab {
    /// Makes a namespace for each room. If that is not possible, prints the reason and returns `None`.
    pub(crate) fn build(rooms: &[&str]) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let why_not = if !is_root() {
            Some("network namespaces need root")
        } else if !can_run("ip", &["-Version"]) {
            Some("network namespaces need 'ip' (Debian: iproute2)")
        } else {
            None
        };
        if let Some(why) = why_not {
            testkit::absent(why);
            return None;
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("finerail-{}-{number}-", std::process::id());
        let mut lab = Self {
            prefix,
            rooms: Vec::new(),
        };
        for &room in rooms {
            let made = run(ip(&["netns", "add", &lab.namespace(room)]));
            if !made.status.success() {
                testkit::absent(format_args!(
                    "cannot make a network namespace: {}",
                    made.err.trim()
                ));
                return None;
            }
            lab.rooms.push(room.to_owned());
            lab.ip(room, &["link", "set", "lo", "up"]);
        }
        Some(lab)
    }

    /// Connects two rooms with a cable.
    pub(crate) fn connect(&self, ends: [&End<'_>; 2]) {
        let [near, far] = ends.map(|end| self.namespace(end.room));
        let [name, peer] = ends.map(|end| end.interface);
        done(ip(&[
            "link", "add", name, "netns", &near, "type", "veth", "peer", "name", peer, "netns",
            &far,
        ]));
        for end in ends {
            self.address(end);
        }
        for end in ends {
            self.wait_for_link(end);
        }
    }

    /// Connects an interface to a port of a bridge in another room.
    pub(crate) fn plug(&self, end: &End<'_>, [switch, bridge, port]: [&str; 3]) {
        let [near, far] = [end.room, switch].map(|room| self.namespace(room));
        done(ip(&[
            "link",
            "add",
            end.interface,
            "netns",
            &near,
            "type",
            "veth",
            "peer",
            "name",
            port,
            "netns",
            &far,
        ]));
        self.ip(switch, &["link", "set", port, "master", bridge, "up"]);
        self.address(end);
        self.wait_for_link(end);
    }

    fn address(&self, end: &End<'_>) {
        let mut add = vec!["address", "add", end.address, "dev", end.interface];
        if end.address.contains(':') {
            // Skip the detection of duplicate addresses, which takes seconds.
            add.push("nodad");
        }
        self.ip(end.room, &add);
        self.ip(end.room, &["link", "set", end.interface, "up"]);
    }

    /// Waits until the kernel says that the link is up, which it does up to a second after both ends were set
    /// up. A node that starts before finds an NI without a link.
    fn wait_for_link(&self, end: &End<'_>) {
        let namespace = self.namespace(end.room);
        let show = ["-n", &namespace, "link", "show", "dev", end.interface, "up"];
        eventually("a link is up", || {
            run(ip(&show)).out.contains(" state UP ").then_some(())
        });
    }

    /// Runs a shell script in a room. The script must succeed.
    pub(crate) fn script(&self, room: &str, script: &str) {
        let namespace = self.namespace(room);
        done(ip(&["netns", "exec", &namespace, "sh", "-e", "-c", script]));
    }

    /// Runs `ip` in a room. The command must succeed.
    pub(crate) fn ip(&self, room: &str, args: &[&str]) {
        let namespace = self.namespace(room);
        done(ip(&[&["-n", namespace.as_str()], args].concat()));
    }

    /// Returns a command that runs the program under test in a room.
    pub(crate) fn finerail<S: AsRef<std::ffi::OsStr>>(&self, room: &str, args: &[S]) -> Command {
        finerail_by(&["ip", "netns", "exec", &self.namespace(room)], args)
    }

    /// Runs the program in a room to its end.
    pub(crate) fn run<S: AsRef<std::ffi::OsStr>>(&self, room: &str, args: &[S]) -> Ended {
        run(self.finerail(room, args))
    }

    /// Starts a service in a room, and waits until it is ready.
    pub(crate) fn start<S: AsRef<std::ffi::OsStr>>(&self, room: &str, args: &[S]) -> Process {
        let process = Process::start(self.finerail(room, args));
        process.wait_for_output("ready: ");
        process
    }

    pub(crate) fn namespace(&self, room: &str) -> String {
        format!("{}{room}", self.prefix)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for room in &self.rooms {
            // This also removes its interfaces. A failure cannot be handled here.
            let _removed = ip(&["netns", "delete", &self.namespace(room)]).status();
        }
    }
}

fn ip(args: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command.args(args);
    command
}

fn done(command: Command) {
    let shown = format!("{command:?}");
    let ended = run(command);
    assert!(ended.status.success(), "{shown}: {}", ended.err);
}
