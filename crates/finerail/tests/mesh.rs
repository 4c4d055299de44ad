//! A mesh of eight nodes, two routers and three nets heals to full health after its last fault. The nodes are real
//! processes in separate network namespaces. `lnet_sim::stacks::mesh` is the same mesh in virtual time.
//!
//! ```text
//!   m2 … m7 (near)        tcp ── m0, m1 ── tcp2      m8, m9 (far)
//!   a rail on tcp        tcp1 ── routers             two rails on tcp2
//!   and one on tcp1
//! ```
//!
//! The console of the selftest has a namespace of its own on tcp.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::fmt;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lnet_sim::Random;
use nix::sys::signal::Signal;
use tempfile::TempDir;

use common::netns::{End, Lab};
use common::process::{Ended, Process, run};
use common::{eventually, finerail};

/// Number of seeds of a run with `FINERAIL_LONG=1`.
const SEEDS: u64 = 5;

const ROUTERS: usize = 2;
const NEAR: usize = 6;
const FAR: usize = 2;
const MACHINES: usize = ROUTERS + NEAR + FAR;

/// Time in which all faults begin and end, in milliseconds.
const BUSY_MS: u64 = 15_000;
/// Length of a session of the load during the faults. A node that was killed takes part in the next session.
const ROUND: Duration = Duration::from_secs(4);
/// Far more than the healing takes: recovery pings are at most 4 s apart, pings of gateways 3 s.
const HEALED: Duration = Duration::from_secs(120);
/// Pause between two looks at the mesh.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Number of RPCs of each client with each server, one after another, in the final proof, and their size in bytes.
const PROOF_LOOPS: u64 = 40;
const PROOF_BYTES: u64 = 64 << 10;

const SWITCH: &str = "switch";
const DESK: &str = "desk";

const GLOBALS: &str = "\
global:
  discovery: 1
  transaction_timeout: 8
  retry_count: 2
  health_sensitivity: 250
  recovery_limit: 0
  max_recovery_ping_interval: 4
  alive_router_check_interval: 3
  router_ping_timeout: 3
";

/// A fault of one machine for some time.
struct Fault {
    machine: usize,
    what: Trouble,
    at_ms: u64,
    until_ms: u64,
}

#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// The switch drops all frames of this cable, without a sign for the node.
    Mute(usize),
    /// The cable is unplugged: no carrier.
    Unplug(usize),
    /// The interface is taken down.
    Down(usize),
    /// The node is killed with `kill -9`, and restarted at the end.
    Kill,
    /// The node is stopped with SIGSTOP, and continued with SIGCONT at the end.
    Stop,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            at_ms, until_ms, ..
        } = self;
        let (room, what) = (room(self.machine), self.what);
        write!(f, "{at_ms:>6} to {until_ms:>6} ms: {room} {what:?}")
    }
}

/// Returns the faults of a seed. Faults of one machine do not overlap.
fn faults(seed: u64) -> Vec<Fault> {
    let mut random = Random::stream(seed, 6);
    let count = random.within(5, 9) as usize;
    let mut faults: Vec<Fault> = Vec::new();
    while faults.len() < count {
        let fault = fault(&mut random);
        let is_apart = |other: &Fault| {
            other.machine != fault.machine
                || other.until_ms < fault.at_ms
                || fault.until_ms < other.at_ms
        };
        if faults.iter().all(is_apart) {
            faults.push(fault);
        }
    }
    faults.sort_by_key(|fault| fault.at_ms);
    faults
}

fn fault(random: &mut Random) -> Fault {
    let machine = random.below(MACHINES as u64) as usize;
    let at_ms = random.below(BUSY_MS - 1_000);
    let span_ms = match random.below(3) {
        0 => random.below(500),
        1 => random.below(3_000),
        _ => random.below(BUSY_MS),
    };
    let link = random.below(interfaces(machine).len() as u64) as usize;
    let what = match random.below(8) {
        0 | 1 => Trouble::Mute(link),
        2 => Trouble::Unplug(link),
        // If a machine has two rails on one net, taking an interface down would remove the routes that its
        // administrator set.
        3 if machine < ROUTERS + NEAR => Trouble::Down(link),
        3 => Trouble::Unplug(link),
        4..=6 => Trouble::Kill,
        _ => Trouble::Stop,
    };
    Fault {
        machine,
        what,
        at_ms,
        until_ms: (at_ms + span_ms).min(BUSY_MS),
    }
}

fn room(machine: usize) -> String {
    format!("m{machine}")
}

fn near() -> std::ops::Range<usize> {
    ROUTERS..ROUTERS + NEAR
}

fn far() -> std::ops::Range<usize> {
    ROUTERS + NEAR..MACHINES
}

/// Returns the address of each interface of a machine, and the number of its net.
fn interfaces(machine: usize) -> Vec<(String, usize)> {
    let host = machine + 1;
    let on = |net: usize| (format!("10.{net}.0.{host}"), net);
    if machine < ROUTERS {
        vec![on(0), on(1), on(2)]
    } else if near().contains(&machine) {
        vec![on(0), on(1)]
    } else {
        vec![on(2), (format!("10.2.1.{host}"), 2)]
    }
}

fn net_name(net: usize) -> String {
    if net == 0 {
        "tcp".to_owned()
    } else {
        format!("tcp{net}")
    }
}

fn nids(machine: usize) -> Vec<String> {
    let interfaces = interfaces(machine).into_iter();
    interfaces
        .map(|(address, net)| format!("{address}@{}", net_name(net)))
        .collect()
}

/// Returns the nets that a machine reaches through routers, and the NIDs of these routers.
fn routes(machine: usize) -> Vec<(&'static str, String)> {
    if machine < ROUTERS {
        Vec::new()
    } else if near().contains(&machine) {
        vec![("tcp2", nids(0)[0].clone()), ("tcp2", nids(1)[1].clone())]
    } else {
        let both = |net| (0..ROUTERS).map(move |router| (net, nids(router)[2].clone()));
        both("tcp").chain(both("tcp1")).collect()
    }
}

fn config(machine: usize) -> String {
    let mut text = String::from("net:\n");
    for net in 0..3 {
        let interfaces = interfaces(machine);
        let on = interfaces
            .iter()
            .enumerate()
            .filter(|(_, interface)| interface.1 == net);
        let named: Vec<String> = on
            .enumerate()
            .map(|(place, (number, _))| format!("{place}: eth{number}"))
            .collect();
        if !named.is_empty() {
            let (name, named) = (net_name(net), named.join(", "));
            text += &format!("- net type: {name}\n  local NI(s):\n  - interfaces: {{{named}}}\n");
        }
    }
    text += &route_list(&routes(machine));
    if machine < ROUTERS {
        text += "routing:\n  enable: 1\n";
    }
    text + GLOBALS
}

fn route_list(routes: &[(&str, String)]) -> String {
    if routes.is_empty() {
        return String::new();
    }
    let routes = routes.iter();
    let lines = routes.map(|(net, gateway)| format!("- net: {net}\n  gateway: {gateway}\n"));
    format!("route:\n{}", lines.collect::<String>())
}

fn desk_config() -> String {
    let routes = [0, 1].map(|router: usize| ("tcp2", nids(router)[0].clone()));
    let net = "net:\n- net type: tcp\n  local NI(s):\n  - interfaces: {0: eth0}\n";
    format!("{net}{}{GLOBALS}", route_list(&routes))
}

/// The machines, their cables and their processes.
struct Mesh {
    running: Vec<Option<Process>>,
    place: Place,
}

/// The part of the mesh that the threads of a test share: the namespaces, and the directory of configurations and
/// sockets.
struct Place {
    directory: TempDir,
    lab: Lab,
}

impl Place {
    fn build() -> Option<Self> {
        let rooms: Vec<String> = (0..MACHINES).map(room).collect();
        let mut names: Vec<&str> = rooms.iter().map(String::as_str).collect();
        names.extend([SWITCH, DESK]);
        let lab = Lab::build(&names)?;
        for net in 0..3 {
            let bridge = format!("br{net}");
            lab.ip(SWITCH, &["link", "add", &bridge, "type", "bridge"]);
            lab.ip(SWITCH, &["link", "set", &bridge, "up"]);
        }
        for (machine, room) in rooms.iter().enumerate() {
            for (number, (address, net)) in interfaces(machine).into_iter().enumerate() {
                let end = End {
                    room,
                    interface: &format!("eth{number}"),
                    address: &format!("{address}/16"),
                };
                lab.plug(&end, [SWITCH, &bridge(net), &port(machine, number)]);
            }
        }
        let desk = End {
            room: DESK,
            interface: "eth0",
            address: "10.0.9.9/16",
        };
        lab.plug(&desk, [SWITCH, "br0", "desk"]);
        let directory = TempDir::with_prefix("finerail-test-").unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o700)).unwrap();
        let place = Self { directory, lab };
        for machine in 0..MACHINES {
            fs::write(place.path(&format!("m{machine}.yaml")), config(machine)).unwrap();
        }
        fs::write(place.path("desk.yaml"), desk_config()).unwrap();
        Some(place)
    }

    fn path(&self, name: &str) -> String {
        let path = self.directory.path().join(name);
        path.to_str().unwrap().to_owned()
    }

    fn start(&self, machine: usize) -> Process {
        let config = self.path(&format!("m{machine}.yaml"));
        let control = self.path(&format!("m{machine}.sock"));
        let words = ["lst", "serve", "--config", &config, "--control", &control];
        let words = if machine < ROUTERS {
            &[&["node"], &words[2..]].concat()
        } else {
            &words[..]
        };
        self.lab.start(&room(machine), words)
    }

    fn ctl(&self, machine: usize, words: &[&str]) -> Ended {
        let control = self.path(&format!("m{machine}.sock"));
        run(finerail([&["ctl", "--node", &control], words].concat()))
    }

    fn lst(&self, words: &str) -> Command {
        let words = ["lst"].into_iter().chain(words.split(' '));
        let words: Vec<String> = words.map(str::to_owned).collect();
        let mut command = self.lab.finerail(DESK, &words);
        command.env("LST_SESSION", "1");
        command.env("XDG_RUNTIME_DIR", self.directory.path());
        command
    }

    fn new_session(&self) -> Command {
        let mut command = self.lst("new_session --force --timeout 300 mesh");
        command.args(["--config", &self.path("desk.yaml")]);
        command
    }

    /// Returns the commands that define a load in both directions and start it: each near node with each far node,
    /// `loops` times for each test; -1 means without end.
    fn load(&self, loops: &str, stops: bool) -> Vec<Command> {
        let all = |machines: std::ops::Range<usize>| {
            let nids: Vec<String> = machines.map(|machine| nids(machine).remove(0)).collect();
            nids.join(" ")
        };
        let mut words = vec![
            format!("add_group near {}", all(near())),
            format!("add_group far {}", all(far())),
            "add_batch load".to_owned(),
        ];
        for (from, to, distribute) in [("near", "far", "1:2"), ("far", "near", "1:6")] {
            for operation in ["read", "write"] {
                words.push(format!(
                    "add_test --batch load --loop {loops} --stop-on-error {stops} --distribute {distribute} \
                     --from {from} --to {to} brw {operation} size=64K check=full"
                ));
            }
        }
        words.push("run load".to_owned());
        words.iter().map(|words| self.lst(words)).collect()
    }

    /// Runs sessions with a load one after another, and ignores their failures.
    fn load_until(&self, is_over: &AtomicBool) {
        while !is_over.load(Ordering::Acquire) {
            let since = Instant::now();
            let commands = [self.new_session()]
                .into_iter()
                .chain(self.load("-1", false));
            for command in commands {
                let mut process = Process::start(command);
                while process.is_running() {
                    if is_over.load(Ordering::Acquire) {
                        return;
                    }
                    thread::park_timeout(Duration::from_millis(5));
                }
            }
            while since.elapsed() < ROUND && !is_over.load(Ordering::Acquire) {
                thread::park_timeout(Duration::from_millis(20));
            }
        }
    }

    fn set_trouble(&self, machine: usize, what: Trouble, is_on: bool) {
        let switch = |change: &[&str], number| {
            let port = port(machine, number);
            self.lab
                .ip(SWITCH, &[&["link", "set", &port], change].concat());
        };
        let up = if is_on { "down" } else { "up" };
        match what {
            Trouble::Mute(number) if is_on => switch(&["nomaster"], number),
            Trouble::Mute(number) => {
                let net = interfaces(machine)[number].1;
                switch(&["master", &bridge(net)], number);
            }
            Trouble::Unplug(number) => switch(&[up], number),
            Trouble::Down(number) => {
                let interface = format!("eth{number}");
                self.lab
                    .ip(&room(machine), &["link", "set", &interface, up]);
            }
            Trouble::Kill | Trouble::Stop => {}
        }
    }
}

fn bridge(net: usize) -> String {
    format!("br{net}")
}

/// Returns the name of the switch's end of a cable.
fn port(machine: usize, number: usize) -> String {
    format!("m{machine}e{number}")
}

impl Mesh {
    fn build() -> Option<Self> {
        let place = Place::build()?;
        let start = |machine| Some(place.start(machine));
        let running = (0..MACHINES).map(start).collect();
        for machine in far() {
            let advice = place.ctl(machine, &["setup-mrrouting"]).expect_code(0);
            place.lab.script(&room(machine), &advice.out);
        }
        Some(Self { running, place })
    }

    /// Returns a line for everything that is not fully healthy.
    fn ailing(&self) -> Vec<String> {
        (0..MACHINES)
            .flat_map(|machine| self.ailing_at(machine))
            .collect()
    }

    fn ailing_at(&self, machine: usize) -> Vec<String> {
        let shown = |words: &[&str]| self.place.ctl(machine, words).expect_code(0).out;
        let interfaces = entries(&shown(&["net", "show", "-v", "2"]), "nid");
        let mut lines = Vec::new();
        for nid in nids(machine) {
            if !interfaces.iter().any(|interface| interface.name == nid) {
                lines.push(format!("interface {nid} is missing"));
            }
        }
        let own = interfaces
            .iter()
            .filter(|interface| interface.name != "0@lo");
        lines.extend(own.filter_map(|interface| interface.complaint("interface")));
        let peers = entries(&shown(&["peer", "show", "-v", "2"]), "nid");
        lines.extend(
            peers
                .iter()
                .filter_map(|peer| peer.complaint("peer interface")),
        );
        let routes_shown = entries(&shown(&["route", "show", "-v", "2"]), "gateway");
        let (have, want) = (routes_shown.len(), routes(machine).len());
        if have != want {
            lines.push(format!("{have} routes instead of {want}"));
        }
        let down = routes_shown.iter().filter(|route| route.state != "up");
        lines.extend(down.map(|route| format!("route by {} is {}", route.name, route.state)));
        let lines = lines.iter().map(|line| format!("{} {line}", room(machine)));
        lines.collect()
    }

    /// Waits until everything is fully healthy.
    fn heal(&self) -> Result<Duration, Vec<String>> {
        let begun = Instant::now();
        loop {
            let ailing = self.ailing();
            if ailing.is_empty() {
                return Ok(begun.elapsed());
            }
            if begun.elapsed() > HEALED {
                return Err(ailing);
            }
            thread::park_timeout(LOOK_AGAIN);
        }
    }

    /// Returns the number of bytes that a node has sent.
    fn sent(&self, machine: usize) -> u64 {
        let shown = self
            .place
            .ctl(machine, &["stats", "show"])
            .expect_code(0)
            .out;
        let line = shown
            .lines()
            .find_map(|line| line.trim().strip_prefix("send_length: "));
        line.unwrap().parse().unwrap()
    }

    /// Adds what the node of an unhealthy peer interface reports about this peer. Other lines need no addition.
    fn told(&self, ailing: &[String]) -> String {
        let mut told = format!("{ailing:#?}\n");
        for line in ailing.iter().take(3) {
            let words: Vec<&str> = line.split(' ').collect();
            if let [room, "peer", "interface", nid, ..] = words[..] {
                let machine = room[1..].parse().unwrap();
                let shown = self
                    .place
                    .ctl(machine, &["peer", "show", "-v", "4", "--nid", nid]);
                told += &format!("{room}: {}", shown.out);
            }
        }
        told
    }

    /// Runs loads in both directions until one has no error and everything is healthy afterwards. A node whose push
    /// of a change did not reach a peer repeats it with its next message to this peer. And connections that were
    /// opened while a cable was silent may fail for some seconds more, which health does not show.
    fn heal_under_load(&self) -> Result<u32, String> {
        let begun = Instant::now();
        let mut tries = 1;
        loop {
            let proof = self.prove();
            let ailing = self.ailing();
            if proof.is_ok() && ailing.is_empty() {
                return Ok(tries);
            }
            if begun.elapsed() > HEALED {
                return Err(format!("{proof:?}\n{}", self.told(&ailing)));
            }
            tries += 1;
        }
    }

    /// Runs a load in both directions, which must end without any error.
    fn prove(&self) -> Result<(), String> {
        let sent = || -> Vec<u64> {
            (ROUTERS..MACHINES)
                .map(|router| self.sent(router))
                .collect()
        };
        let before = sent();
        let place = &self.place;
        let ok = |command| {
            let ended = run(command);
            match ended.code() {
                Some(0) => Ok(ended.out),
                _ => Err(format!("{ended:#?}")),
            }
        };
        ok(place.new_session())?;
        for command in place.load(&PROOF_LOOPS.to_string(), true) {
            ok(command)?;
        }
        eventually("the load ends", || match ok(place.lst("query load")) {
            Ok(said) => (said == "Batch is idle\n").then_some(Ok(())),
            Err(error) => Some(Err(error)),
        })?;
        for group in ["near", "far"] {
            let errors = ok(place.lst(&format!("show_error --session {group}")))?;
            if !errors.contains("Total 0 error nodes") {
                return Err(errors);
            }
        }
        // Each node reads from and writes to all nodes of the other side.
        for (number, (before, after)) in before.iter().zip(sent()).enumerate() {
            let others = if number < NEAR { FAR } else { NEAR } as u64;
            let least = 2 * others * PROOF_LOOPS * PROOF_BYTES;
            let bytes = after - before;
            assert!(bytes >= least, "m{}: {bytes} of {least}", ROUTERS + number);
        }
        Ok(())
    }
}

/// Begins or ends a fault.
fn turn(running: &mut [Option<Process>], place: &Place, fault: &Fault, is_on: bool) {
    let process = &mut running[fault.machine];
    match (fault.what, is_on) {
        (Trouble::Kill, true) => process.take().unwrap().kill(),
        (Trouble::Kill, false) => *process = Some(place.start(fault.machine)),
        (Trouble::Stop, true) => process.as_ref().unwrap().signal(Signal::SIGSTOP),
        (Trouble::Stop, false) => process.as_ref().unwrap().signal(Signal::SIGCONT),
        (what, _) => place.set_trouble(fault.machine, what, is_on),
    }
}

/// Causes the faults, each at its time.
fn suffer(running: &mut [Option<Process>], place: &Place, faults: &[Fault]) {
    let mut turns: Vec<(u64, usize, bool)> = Vec::new();
    for (number, fault) in faults.iter().enumerate() {
        turns.extend([(fault.at_ms, number, true), (fault.until_ms, number, false)]);
    }
    // A fault without duration begins before it ends.
    turns.sort_by_key(|&(at_ms, number, is_on)| (at_ms, number, !is_on));
    let begun = Instant::now();
    for (at_ms, number, is_on) in turns {
        let due = begun + Duration::from_millis(at_ms);
        while let Some(left) = due.checked_duration_since(Instant::now())
            && !left.is_zero()
        {
            thread::park_timeout(left);
        }
        turn(running, place, &faults[number], is_on);
    }
}

/// Ends the load even if the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        // There may be no console.
        let _ended = run(self.place.lst("end_session"));
    }
}

/// An interface, a peer's interface or a route in the output of `lnetctl`.
#[derive(Debug, Default)]
struct Shown {
    name: String,
    state: String,
    health: Option<u32>,
}

impl Shown {
    fn complaint(&self, what: &str) -> Option<String> {
        let Self { name, state, .. } = self;
        let health = self
            .health
            .map_or("no".to_owned(), |health| health.to_string());
        // The state is known only for routers.
        let is_well = (state == "up" || state == "NA") && health == "1000";
        (!is_well).then(|| format!("{what} {name} is {state}, health {health}"))
    }
}

/// Returns the entries of a list in YAML. Each entry starts at the line with its name.
fn entries(text: &str, name: &str) -> Vec<Shown> {
    let mut entries: Vec<Shown> = Vec::new();
    for line in text.lines() {
        let line = line.trim_start_matches(['-', ' ']);
        let Some((key, value)) = line.split_once(": ") else {
            continue;
        };
        if key == name {
            entries.push(Shown {
                name: value.to_owned(),
                ..Shown::default()
            });
        }
        let Some(entry) = entries.last_mut() else {
            continue;
        };
        match key {
            "state" | "status" => value.clone_into(&mut entry.state),
            "health value" => entry.health = value.parse().ok(),
            _ => {}
        }
    }
    entries
}

/// Causes the faults of a seed in a mesh under load. Panics unless everything is healthy afterwards.
fn endure(seed: u64) -> Option<()> {
    let faults = faults(seed);
    let plan: String = faults.iter().map(|fault| format!("{fault}\n")).collect();
    println!("seed {seed}\n{plan}");
    let mut mesh = Mesh::build()?;
    if let Err(ailing) = mesh.heal() {
        panic!("not well from the start: {}", mesh.told(&ailing));
    }
    assert_eq!(mesh.prove(), Ok(()));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let Mesh { running, place } = &mut mesh;
        let place = &*place;
        scope.spawn(|| place.load_until(&is_over));
        let _over = Over(&is_over);
        suffer(running, place, &faults);
    });
    // The console is a peer of the nodes, too.
    eventually("there is a console", || {
        (run(mesh.place.new_session()).code() == Some(0)).then_some(())
    });
    let begun = Instant::now();
    match mesh.heal_under_load() {
        Ok(tries) => println!("healed after {:?}, {tries} loads", begun.elapsed()),
        Err(ailing) => panic!("seed {seed} is not healed: {ailing}{plan}"),
    }
    assert_eq!(mesh.prove(), Ok(()), "seed {seed} has errors\n{plan}");
    if let Err(ailing) = mesh.heal() {
        panic!("seed {seed} ails again: {}{plan}", mesh.told(&ailing));
    }
    Some(())
}

/// Returns the seeds of the long suite. `FINERAIL_SEEDS=FIRST-LAST` selects others, also in an ordinary run.
fn seeds() -> Option<std::ops::RangeInclusive<u64>> {
    if let Ok(given) = std::env::var("FINERAIL_SEEDS") {
        let (first, last) = given.split_once('-').unwrap();
        return Some(first.parse().unwrap()..=last.parse().unwrap());
    }
    let is_long = std::env::var_os("FINERAIL_LONG").is_some_and(|value| value == "1");
    is_long.then_some(1..=SEEDS)
}

#[test]
fn the_mesh_heals_to_full_health_after_the_last_fault() {
    let Some(seeds) = seeds() else {
        println!("skipped: FINERAIL_LONG=1 runs {SEEDS} seeds, FINERAIL_SEEDS=1-1 one");
        return;
    };
    for seed in seeds {
        if endure(seed).is_none() {
            return;
        }
    }
}

#[test]
fn a_mesh_with_a_cable_out_or_a_silent_one_is_not_taken_for_healed() {
    let Some(mesh) = Mesh::build() else { return };
    if let Err(ailing) = mesh.heal() {
        panic!("not well from the start: {}", mesh.told(&ailing));
    }
    assert_eq!(mesh.prove(), Ok(()));
    for (machine, what, least) in [
        (2, Trouble::Unplug(1), "m2 interface 10.1.0.3@tcp1 is down"),
        (0, Trouble::Mute(2), "m8 route by 10.2.0.1@tcp2 is down"),
    ] {
        mesh.place.set_trouble(machine, what, true);
        eventually(least, || {
            let ailing = mesh.ailing();
            println!("{what:?}: {ailing:#?}");
            ailing
                .iter()
                .any(|line| line.starts_with(least))
                .then_some(())
        });
        mesh.place.set_trouble(machine, what, false);
        if let Err(ailing) = mesh.heal() {
            panic!("{what:?}: not healed: {ailing:#?}");
        }
    }
}

#[test]
fn what_is_not_at_its_best_is_seen_in_what_the_node_prints() {
    let text = "\
net:
-     net type: tcp
      local NI(s):
      -     nid: 10.0.0.1@tcp
            status: up
            health stats:
                  health value: 1000
      -     nid: 10.0.0.2@tcp
            status: down
            health stats:
                  health value: 1000
      -     nid: 10.0.0.3@tcp
            status: up
            health stats:
                  health value: 999
      -     nid: 10.0.0.4@tcp
            status: up
";
    let complaints = entries(text, "nid");
    let complaints: Vec<String> = complaints
        .iter()
        .filter_map(|interface| interface.complaint("interface"))
        .collect();
    let expected = [
        "interface 10.0.0.2@tcp is down, health 1000",
        "interface 10.0.0.3@tcp is up, health 999",
        "interface 10.0.0.4@tcp is up, health no",
    ];
    assert_eq!(complaints, expected);
}
