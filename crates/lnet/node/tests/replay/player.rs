//! Plays a script against a node: sends the kernel's messages and compares the node's messages.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lnet_node::{Node, PingError};
use lnet_types::Nid;

use crate::common::PATIENCE;
use crate::compare::Comparator;
use crate::layout::Message;
use crate::script::{Party, Script, Step};
use crate::stage::{Asks, Stage};

/// The result of a replay.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Every difference of our node; empty if the replay succeeded.
    pub(crate) problems: Vec<String>,
    /// For each keepalive of our node, the least time for which the kernel had been silent.
    pub(crate) silences: Vec<Duration>,
}

/// Plays the whole script. Shuts our node down at the end; it must not have sent anything else.
pub(crate) fn play(stage: &Stage, script: &Script, node: &Node) -> Outcome {
    let mut player = Player {
        stage,
        script,
        node,
        listeners: stage.listen(script),
        links: BTreeMap::new(),
        comparator: Comparator::of(script.node),
        handles: Vec::new(),
        pings: Vec::new(),
        cues: 0,
        used_ports: BTreeSet::new(),
        gets: 0,
        last_words: Instant::now(),
        outcome: Outcome::default(),
    };
    stage.add_routes(node);
    let played = script.steps.iter().try_for_each(|step| player.step(step));
    match played {
        Ok(()) => player.end(),
        Err(problem) => player.break_off(problem),
    }
    player.outcome
}

struct Player<'a> {
    stage: &'a Stage,
    script: &'a Script,
    node: &'a Node,
    listeners: BTreeMap<Ipv4Addr, TcpListener>,
    links: BTreeMap<u32, TcpStream>,
    comparator: Comparator,
    /// The handles of captured GETs, each with the handle that our node sent in its place.
    handles: Vec<(Vec<u8>, Vec<u8>)>,
    pings: Vec<(Nid, JoinHandle<Result<Nid, PingError>>)>,
    /// The number of requests of the program and of the node itself so far.
    cues: usize,
    /// The ports from which the kernel in our node's place has dialled so far.
    used_ports: BTreeSet<(Ipv4Addr, u16)>,
    /// The number of our node's GETs so far.
    gets: usize,
    last_words: Instant,
    outcome: Outcome,
}

impl Player<'_> {
    fn step(&mut self, step: &Step) -> Result<(), String> {
        let played = match step.party {
            Party::Kernel => self.say(step),
            Party::Node => self.hear(step),
        };
        let name = step.message.name();
        played.map_err(|problem| format!("connection {}, {name}: {problem}", step.connection))
    }

    fn say(&mut self, step: &Step) -> Result<(), String> {
        if !self.links.contains_key(&step.connection) {
            let link = self.stage.dial(self.script.dialled[&step.connection]);
            let link = link.map_err(|error| format!("cannot dial: {error}"))?;
            self.links.insert(step.connection, link);
        }
        let message = self.addressed(&step.message);
        self.last_words = Instant::now();
        let link = self.link(step.connection)?;
        link.write_all(&message.0)
            .map_err(|error| format!("cannot say it: {error}"))?;
        if message.is_refusal() {
            self.links.remove(&step.connection);
        }
        Ok(())
    }

    /// Returns the message with the handle that our node sent, if the message is an answer.
    fn addressed(&self, message: &Message) -> Message {
        let known = |handle| self.handles.iter().find(|(captured, _)| captured == handle);
        match message.handle().and_then(known) {
            Some((_, ours)) if matches!(message.name(), "REPLY" | "ACK") => {
                message.clone().with_handle(ours)
            }
            _ => message.clone(),
        }
    }

    fn hear(&mut self, step: &Step) -> Result<(), String> {
        self.cue(step);
        if !self.links.contains_key(&step.connection) {
            self.take_call(step.connection)?;
        }
        let ours = read(self.link(step.connection)?)?;
        for mismatch in self.comparator.compare(&step.message, &ours) {
            let problem = format!("connection {}: {mismatch}", step.connection);
            self.outcome.problems.push(problem);
        }
        match step.message.name() {
            "GET" | "PUT" => self.note_handle(&step.message, &ours),
            "NOOP" => self.outcome.silences.push(self.last_words.elapsed()),
            _ => {}
        }
        if step.message.is_refusal() {
            let mut link = self.links.remove(&step.connection).ok_or("not open")?;
            expect_end(&mut link)?;
        }
        Ok(())
    }

    /// Lets the node's program send a request when the kernel's program did.
    fn cue(&mut self, step: &Step) {
        let script = self.script;
        let request = match step.message.name() {
            "CONNREQ" if self.cues == 0 => script.steps.iter().find(|step| script.is_request(step)),
            _ if script.is_request(step) => {
                self.gets += 1;
                Some(step).filter(|_| self.cues < self.gets)
            }
            _ => None,
        };
        let Some(target) = request.and_then(|step| step.message.target()) else {
            return;
        };
        let (node, asks) = (self.node.clone(), self.stage.asks(self.cues));
        self.cues += 1;
        // The thread is started here, so that its sockets are in the same network.
        let asked = match asks {
            Asks::Nothing => return,
            Asks::Ping => {
                std::thread::spawn(move || Ok(node.ping(target, None, PATIENCE)?.primary_nid))
            }
            Asks::Discover => {
                std::thread::spawn(move || Ok(node.discover(target, PATIENCE)?.primary))
            }
        };
        self.pings.push((target, asked));
    }

    /// Accepts the node's connection and compares its source port. The node may or may not use a port that was used
    /// before in the same life. That depends on which side closed the rejected connection first: TCP keeps the port
    /// of that side for some time.
    fn take_call(&mut self, connection: u32) -> Result<(), String> {
        let ends = self.script.dialled[&connection];
        let (link, port) = self
            .stage
            .accept(&self.listeners[&ends.to])
            .map_err(|error| format!("the node does not dial: {error}"))?;
        let captured = ends.source_port;
        let is_free = self.used_ports.insert((ends.from, captured));
        if self.stage.has_captured_ports && is_free && port != captured {
            let problem = format!("connection {connection}: from port {port}, kernel {captured}");
            self.outcome.problems.push(problem);
        }
        self.links.insert(connection, link);
        Ok(())
    }

    fn note_handle(&mut self, captured: &Message, ours: &Message) {
        if let (Some(captured), Some(ours)) = (captured.handle(), ours.handle()) {
            self.handles.push((captured.to_vec(), ours.to_vec()));
        }
    }

    fn link(&mut self, connection: u32) -> Result<&mut TcpStream, String> {
        self.links
            .get_mut(&connection)
            .ok_or_else(|| "the connection is closed".to_owned())
    }

    /// Checks that the node has received everything, that its program has its answers, and that the node sent nothing
    /// else.
    fn end(&mut self) {
        self.let_it_listen();
        for (target, ping) in std::mem::take(&mut self.pings) {
            match ping.join().expect("a ping does not panic") {
                Ok(primary) if primary == target => {}
                other => self.outcome.problems.push(format!("ping: {other:?}")),
            }
        }
        self.check_counters();
        if !self.node.shutdown(PATIENCE).clean {
            self.outcome.problems.push("not a clean end".to_owned());
        }
        for (connection, link) in &mut self.links {
            if let Err(problem) = expect_end(link) {
                let problem = format!("connection {connection}, at the end: {problem}");
                self.outcome.problems.push(problem);
            }
        }
        self.expect_no_call();
    }

    /// Waits until the node has received the kernel's last messages: HELLOs that complete connections, and frames.
    /// The effect of a rejecting HELLO shows when the node acts on it, or at the end.
    fn let_it_listen(&self) {
        let open = self.links.len() as u64;
        let names = ["GET", "REPLY", "PUT", "ACK", "NOOP"];
        let counts = names.map(|name| self.script.count(Party::Kernel, name) as u64);
        let frames: u64 = counts.iter().sum();
        let begun = Instant::now();
        while begun.elapsed() < self.stage.patience {
            let stats = self.node.stats().socklnd;
            if stats.connections_open == open && stats.frames_in == frames {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// Checks that nothing was dropped or missed and that no connection was lost.
    fn check_counters(&mut self) {
        let stats = self.node.stats();
        let open = stats.socklnd.connections_open;
        if open != self.links.len() as u64 || stats.drop_count > 0 {
            let problem = format!(
                "{open} connections open, kernel {}; dropped {:?}, closed {:?}",
                self.links.len(),
                stats.drops,
                stats.socklnd.closed
            );
            self.outcome.problems.push(problem);
        }
        let heard = stats.socklnd.keepalives_in;
        let said = self.script.count(Party::Kernel, "NOOP");
        if heard != said as u64 {
            let problem = format!("{heard} keepalives heard of {said}");
            self.outcome.problems.push(problem);
        }
    }

    fn expect_no_call(&mut self) {
        for listener in self.listeners.values() {
            listener.set_nonblocking(true).expect("a socket option");
            if let Ok((_, from)) = listener.accept() {
                let problem = format!("the node dials once more, from {from}");
                self.outcome.problems.push(problem);
            }
        }
    }

    fn break_off(&mut self, problem: String) {
        self.outcome.problems.push(problem);
        let stats = self.node.stats().socklnd;
        let told = format!("refused {:?}, closed {:?}", stats.refused, stats.closed);
        self.outcome.problems.push(told);
        self.node.shutdown(Duration::ZERO);
    }
}

/// Reads the next message.
fn read(link: &mut TcpStream) -> Result<Message, String> {
    let mut bytes = Vec::new();
    loop {
        // Enough bytes to know the length: one word, or the headers of the frame for an LNet message.
        let known = match Message::length(&bytes)? {
            Some(length) if length == bytes.len() => return Ok(Message(bytes)),
            Some(length) => length,
            None if bytes.is_empty() => 4,
            None => 96,
        };
        let from = bytes.len();
        bytes.resize(known, 0);
        link.read_exact(&mut bytes[from..])
            .map_err(|error| match error.kind() {
                ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => {
                    "the node closed the connection".to_owned()
                }
                ErrorKind::WouldBlock => "the node says nothing".to_owned(),
                _ => error.to_string(),
            })?;
    }
}

/// Expects the node to close the connection without sending anything more.
fn expect_end(link: &mut TcpStream) -> Result<(), String> {
    let mut more = Vec::new();
    match link.read_to_end(&mut more) {
        Ok(0) => Ok(()),
        Ok(_) => Err(format!("more than the kernel said: {more:02x?}")),
        Err(error) => Err(format!("not closed: {error}")),
    }
}
