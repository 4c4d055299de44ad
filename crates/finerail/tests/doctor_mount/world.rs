//! A file system with a planted trouble, and the check of it.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpListener;
use std::thread;

use lnet_ptlrpc::client::Service;
use lnet_ptlrpc::server::{LogWriter, Served, Trouble};

use crate::common::finerail;
use crate::common::lustre::{LustreNode, log_of};
use crate::common::process::{Ended, run};
use crate::common::site::{Site, yaml};

pub(crate) const MGS: &str = "127.0.0.2@tcp";
pub(crate) const OSS: &str = "127.0.0.3@tcp";
pub(crate) const SPARE: &str = "127.0.0.4@tcp";
pub(crate) const NOBODY: &str = "127.0.0.9@tcp";

/// Timeouts in seconds: ample where everything answers, short where silence is the finding.
pub(crate) const AMPLE: &str = "240";
pub(crate) const SHORT: &str = "24";

pub(crate) const MDT0: &str = "fs1-MDT0000";
pub(crate) const OST0: &str = "fs1-OST0000";
pub(crate) const OST1: &str = "fs1-OST0001";

/// A site with a planted trouble.
pub(crate) struct World {
    pub(crate) mgs: Served,
    pub(crate) mdt: Served,
    pub(crate) ost: Served,
    pub(crate) spare: Vec<Served>,
    pub(crate) log: LogWriter,
    pub(crate) rules: LogWriter,
    /// Addresses where no node is.
    pub(crate) down: BTreeSet<&'static str>,
    /// Addresses where something else listens.
    pub(crate) strange: Option<&'static str>,
    /// Whether it accepts connections and says nothing.
    pub(crate) is_mute: bool,
    pub(crate) source: String,
    pub(crate) config: Option<&'static str>,
    pub(crate) more: Vec<&'static str>,
    pub(crate) timeout: &'static str,
}

pub(crate) fn healthy_log() -> LogWriter {
    log_of(&[
        (MDT0, &[&[MGS]]),
        (OST0, &[&[OSS], &[SPARE]]),
        (OST1, &[&[OSS], &[SPARE]]),
    ])
}

impl World {
    pub(crate) fn healthy() -> Self {
        Self {
            mgs: Served::new(Service::Mgs, "MGS"),
            mdt: Served::new(Service::Mdt, "fs1-MDT0000_UUID"),
            ost: Served::new(Service::Ost, "fs1-OST0000_UUID"),
            spare: Vec::new(),
            log: healthy_log(),
            rules: LogWriter::default(),
            down: BTreeSet::new(),
            strange: None,
            is_mute: false,
            source: format!("{MGS}:/fs1"),
            config: None,
            more: vec!["--targets"],
            timeout: AMPLE,
        }
    }

    /// A healthy site with one difference.
    pub(crate) fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut world = Self::healthy();
        change(&mut world);
        world
    }

    pub(crate) fn mgs_does(opc: u32, trouble: Trouble) -> Self {
        Self::with(|world| world.mgs.troubles.push((opc, trouble)))
    }

    pub(crate) fn ost_does(opc: u32, trouble: Trouble) -> Self {
        Self::with(|world| world.ost.troubles.push((opc, trouble)))
    }

    /// Adds a rule of security: flags 1 of one in force, 5 of one that was replaced.
    pub(crate) fn rule(&mut self, flags: u32, of: &str, text: &str) {
        self.rules.marker(flags, of, "srpc.flavor");
        self.rules.command(0xc_e016, 0, &[of, text]);
        self.rules.marker(flags + 1, of, "srpc.flavor");
    }

    pub(crate) fn log_is(targets: &[(&str, &[&[&str]])]) -> Self {
        Self::with(|world| world.log = log_of(targets))
    }

    /// Runs the check and returns what it printed. Whatever happened, nothing harmful was sent, and each connection that
    /// is left is named.
    pub(crate) fn run(self, what: &str) -> Ended {
        let site = Site::new();
        let strange = self.strange;
        let strange = strange.map(|address| stranger(address, site.port, self.is_mute));
        let nodes = self.start(&site);
        let port = site.port.to_string();
        let state = site.path("state");
        let mut words = vec![
            "doctor",
            "mount",
            "--port",
            &port,
            "--timeout",
            self.timeout,
        ];
        words.extend(["--state", state.to_str().unwrap()]);
        let config = self
            .config
            .map(|nid| site.write("own.yaml", yaml(&[nid], "")));
        if let Some(config) = &config {
            words.extend(["--config", config.to_str().unwrap()]);
        }
        words.extend(&self.more);
        words.push(&self.source);
        let ended = run(finerail(words));
        let mut left = 0;
        for node in &nodes {
            node.expect_no_harm(what);
            for (target, uuid) in node.server.lock().unwrap().connected() {
                assert!(
                    ended.out.contains(&uuid),
                    "{what}: {target} hidden in {}",
                    ended.out
                );
                left += 1;
            }
        }
        if left == 0 && !ended.out.contains("left:") {
            let kept = std::fs::read_dir(&state).unwrap().count();
            assert_eq!(kept, 0, "{what}: records of connections that have ended");
        }
        drop(strange);
        ended
    }

    pub(crate) fn start(&self, site: &Site) -> Vec<LustreNode> {
        let mut mgs = self.mgs.clone().log("fs1-client", self.log.clone());
        if self.rules.last() > 0 {
            mgs = mgs.log("fs1-sptlrpc", self.rules.clone());
        }
        let mut second = self.ost.clone();
        second.name = "fs1-OST0001_UUID".to_owned();
        let all = [
            (MGS, vec![mgs.clone(), self.mdt.clone()]),
            (OSS, vec![self.ost.clone(), second]),
            (SPARE, self.spare.clone()),
        ];
        all.into_iter()
            .filter(|(nid, _)| !self.down.contains(nid) && self.strange != Some(*nid))
            .map(|(nid, targets)| LustreNode::start(site.port, &[nid], targets))
            .collect()
    }
}

/// Something that is no LNet node: it greets and hangs up, or it says nothing and does not hang up.
pub(crate) fn stranger(nid: &str, port: u16, is_mute: bool) -> thread::JoinHandle<()> {
    let address = nid.split_once('@').unwrap().0.to_owned();
    let listener = TcpListener::bind((address.as_str(), port)).unwrap();
    thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming().take(64).flatten() {
            let mut stream = stream;
            if is_mute {
                kept.push(stream);
                continue;
            }
            let _greeted = stream.write_all(b"220 mail.example.com ESMTP\r\n");
        }
    })
}

/// Runs cases that wait for silence at the same time.
pub(crate) fn each<T: Send>(cases: impl IntoIterator<Item = T>, run: impl Fn(T) + Sync) {
    thread::scope(|scope| {
        for case in cases {
            let run = &run;
            scope.spawn(move || run(case));
        }
    });
}

/// Asserts that the first three lines name the trouble.
pub(crate) fn expect(kind: &str, world: World) {
    let ended = world.run(kind).expect_code(1);
    let first: Vec<&str> = ended.out.lines().take(3).collect();
    assert!(
        first[0].contains(&format!("[{kind}]")),
        "{kind}: {}",
        ended.out
    );
    assert!(
        first[1].starts_with("seen: ") && first[1].len() > 6,
        "{kind}: {first:?}"
    );
    assert!(
        first[2].starts_with("to do: ") && first[2].len() > 7,
        "{kind}: {first:?}"
    );
}
