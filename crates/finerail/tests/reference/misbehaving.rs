//! `h-host-vs-kernel`: the output of `lnetctl ping` for peers that misbehave.
//!
//! ```text
//!  vm1 ── lnetctl ping 10.1.0.100@tcp ──▶ host: answers, swallows, is silent, resets, mistakes the
//!                                              type or the version of its HELLO, is not there
//! ```
//!
//! The first part of the file sends broken connection attempts to a kernel node, and has no output of `lnetctl`. The
//! tests of the socket LND check the answers of our node to such attempts. They also check the case that only the
//! second of three connections has the wrong type.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use lnet_wire::{Ctype, Hello};
use nix::sched::{CloneFlags, setns};

use crate::Findings;
use crate::session::{Exchange, Part, documents, parts};
use crate::site::{Fabric, Site};

const FILE: &str = "h-host-vs-kernel.txt";

/// Lengths in bytes of a connection request and of a HELLO, over IPv4.
const CONNREQ_LEN: usize = 16;
const HELLO_LEN: usize = 56;

/// What the host does with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// Accepts the connection and sends nothing.
    Silent,
    /// Closes the connection without reading the data that arrived.
    Reset,
    /// Sends a HELLO without a type.
    Mistyped,
    /// Sends a HELLO with a version that does not exist.
    Unknown,
}

#[test]
fn pings_of_a_peer_that_answers_or_swallows_them_print_the_same_here() {
    let (Some(site), Some(parts)) = (Site::start(Fabric::Host), parts(FILE)) else {
        return;
    };
    let _host = site.start_node("host");
    for node in ["vm1", "host"] {
        site.done(node, "lnetctl net add --net tcp --if eth0");
    }
    let twice = "lnetctl ping 10.1.0.100@tcp; lnetctl ping 10.1.0.100@tcp";
    assert_eq!(printed(&site, twice), recorded(&parts, "normal")[0]);
    site.done(
        "host",
        "lnetctl fault drop add --source '*' --dest '*' --rate 1",
    );
    assert_eq!(printed(&site, PING), recorded(&parts, "noreply")[0]);
}

#[test]
fn pings_of_a_peer_that_cannot_shake_hands_print_the_same_here() {
    let (Some(site), Some(parts)) = (Site::start(Fabric::Host), parts(FILE)) else {
        return;
    };
    let pinged = || {
        // The node must not know the host, and must not delay a connection attempt.
        site.done(
            "vm1",
            "lnetctl lnet unconfigure; lnetctl net add --net tcp --if eth0",
        );
        printed(&site, PING)
    };
    let modes: [(&str, &[Manner]); 3] = [
        ("nohello", &[Manner::Silent]),
        ("rst", &[Manner::Reset]),
        ("badver", &[Manner::Mistyped, Manner::Unknown]),
    ];
    let mut findings = Findings::default();
    for (mode, manners) in modes {
        let recorded = recorded(&parts, mode);
        assert_eq!(recorded.len(), manners.len(), "{mode}");
        for (manner, recorded) in manners.iter().zip(recorded) {
            let _host = Host::start(&site, *manner);
            findings.add(&exchange(mode, recorded), &pinged());
        }
    }
    // The last part of the file has no listener. After the ping it has a discovery.
    let refused = lnetctl(parts.last().unwrap());
    let (ping, _discovery) = refused.split_at(refused.rfind("manage:").unwrap());
    findings.add(&exchange("no listener", ping.to_owned()), &pinged());
    findings.check(&[FILE], 4);
}

/// Returns the exchange of a ping while the host is in a mode.
fn exchange(mode: &str, printed: String) -> Exchange {
    Exchange {
        file: FILE,
        node: "vm1".to_owned(),
        command: format!("{PING} ({mode})"),
        printed,
        in_part: true,
        foreign_end: true,
    }
}

const PING: &str = "lnetctl ping 10.1.0.100@tcp";

fn printed(site: &Site, command: &str) -> String {
    documents(&site.shell("vm1", command))
}

/// Returns the outputs on the kernel node, one for each start of the host in this mode.
fn recorded(parts: &[Part], mode: &str) -> Vec<String> {
    let started = format!("--mode {mode}");
    let pairs = parts.windows(2);
    let pairs = pairs.filter(|pair| pair[0].node == "host" && pair[0].command.ends_with(&started));
    let printed: Vec<String> = pairs.map(|pair| lnetctl(&pair[1])).collect();
    assert!(!printed.is_empty(), "{mode}");
    printed
}

/// Returns the output of `lnetctl`, without that of other programs behind it.
fn lnetctl(part: &Part) -> String {
    let below = part.below.split("-- vm1 dmesg").next().unwrap();
    documents(below)
}

/// A listener on the host that misbehaves until this value is dropped.
struct Host {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    namespace: String,
}

impl Host {
    fn start(site: &Site, manner: Manner) -> Self {
        let namespace = format!("/run/netns/{}", site.lab.namespace("host"));
        let listener = in_namespace(&namespace, || TcpListener::bind("10.1.0.100:988"));
        let ended = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&ended);
        let thread = thread::spawn(move || {
            let mut kept = Vec::new();
            while let Ok((stream, _)) = listener.accept() {
                if flag.load(Ordering::Acquire) {
                    return;
                }
                // The node may have closed the connection, and connects again if needed.
                kept.extend(manner.treat(stream).unwrap_or_default());
            }
        });
        Self {
            ended,
            thread: Some(thread),
            namespace,
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        let woken = in_namespace(&self.namespace, || TcpStream::connect("10.1.0.100:988"));
        drop(woken);
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Manner {
    /// Returns a connection that stays open.
    fn treat(self, mut stream: TcpStream) -> io::Result<Option<TcpStream>> {
        match self {
            Self::Silent => return Ok(Some(stream)),
            Self::Reset => {
                stream.peek(&mut [0])?;
                return Ok(None);
            }
            Self::Mistyped | Self::Unknown => {}
        }
        let mut request = [0; CONNREQ_LEN + HELLO_LEN];
        stream.read_exact(&mut request)?;
        let asked = Hello::decode(&request[CONNREQ_LEN..]).unwrap().hello;
        let reply = asked.reply(asked.dst_nid, 1, Ctype::ANY);
        let mut bytes = [0; HELLO_LEN];
        reply.encode(&mut bytes).unwrap();
        if self == Self::Unknown {
            // The version is behind the magic.
            bytes[4] = 99;
        }
        stream.write_all(&bytes)?;
        Ok(Some(stream))
    }
}

/// Calls `open` in a namespace, on a thread of its own. What it opens stays in this namespace.
fn in_namespace<T: Send + 'static>(
    path: &str,
    open: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> T {
    let namespace = File::open(path).unwrap();
    let opened = thread::spawn(move || {
        setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
        open().unwrap()
    });
    opened.join().unwrap()
}
