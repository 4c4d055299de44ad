//! A process of a scene. The environment says which role it has, and standard input says what to do.
//!
//! A command is a number, a word and arguments; its answer has the same number. Peers, operations and pieces
//! of memory are numbered in order; peer 0 is the server.
//!
//! | command | answer |
//! |---|---|
//! | `send PEER TAG LEN memory/outside` | `done LEN`, `pending OP` or the error |
//! | `unexpected TAG LEN` | the same |
//! | `receive PEER TAG LEN memory/outside` | the same |
//! | `test OP MS` | `nothing` or `OP LEN`, `OP ERROR` |
//! | `context CAPACITY MS` | as many of these |
//! | `fetch CAPACITY MS` | `nothing` or `PEER TAG LEN` for each message, which is kept |
//! | `free` | frees the oldest kept message |
//! | `cancel OP` | `ok` |
//! | `timeout MS` | `ok`: sets the post timeout |
//! | `memory LEN` | its offset in the segment, or its address; the memory is kept |
//! | `release` | `ok`: frees all of that memory |
//! | `lookup NAME` | `ok` or the error |
//! | `size` | the longest message |
//! | `counts` | every counter |
//! | `clocks` | whether the time of day has jumped while the monotonic clock has not |
//! | `exchange TAG LEN` | `done` or the error: asks an `echo` for a message and receives it |
//! | `echo` | none: receives and sends back what clients announce, forever, [`echo`] |
//! | `forbid` | `ok`: from now on no process may trace this one |
//! | `finalize` | `ok` |
//!
//! The bytes are a pattern of tag and length; a party that receives others answers `corrupt`.

use std::collections::VecDeque;
use std::io::{BufRead, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bmi::{
    Address, Bmi, Buffer, Class, Completion, ContextId, Error, OpId, Payload, Post, Question,
    Rejected, Setting, Tag, Unexpected,
};
use zoid::{ClientMemory, Counters, Options, Zoid};
use zoidd::Daemon;

/// The role of a process: `daemon`, `server` or `client`.
pub(crate) const ROLE: &str = "ZOID_TEST_PARTY";
/// Its settings, one `name=value` per line.
pub(crate) const SETTINGS: &str = "ZOID_TEST_SETTINGS";

/// Becomes a party if the environment asks for one.
pub(crate) fn be_one_if_asked() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let settings = std::env::var(SETTINGS).unwrap();
    let settings: Vec<(&str, &str)> = settings
        .lines()
        .map(|line| line.split_once('=').unwrap())
        .collect();
    match role.as_str() {
        "daemon" => daemon(&settings),
        _ => Party::start(&role, &settings).obey(),
    }
    std::process::exit(0);
}

fn daemon(settings: &[(&str, &str)]) {
    let mut options = zoidd::Options {
        // Long messages use the stream; the tests of copying override this.
        client_memory: zoidd::ClientMemory::Off,
        ..zoidd::Options::default()
    };
    for (name, value) in settings {
        match *name {
            "failpoint" => options.failpoints.add(value.parse().unwrap()),
            _ => options.set("test", name, value).unwrap(),
        }
    }
    let daemon = Daemon::open(options).unwrap();
    println!("\n0 ready");
    let stopper = daemon.stopper();
    // The end of the input, at the latest at the end of the test, stops the daemon.
    std::thread::spawn(move || {
        std::io::stdin().lines().for_each(drop);
        stopper.stop();
    });
    daemon.run().unwrap();
}

fn client_memory(value: &str) -> ClientMemory {
    match value {
        "refuse" => ClientMemory::Reject,
        "allow" => ClientMemory::Allow,
        _ => ClientMemory::Offer,
    }
}

/// A client or the server.
struct Party {
    bmi: Bmi,
    context: ContextId,
    counters: Arc<Counters>,
    /// The server's path of the segment, to find out where memory is.
    segment: String,
    known: Mutex<Known>,
}

/// The values that the numbers of commands stand for.
#[derive(Default)]
struct Known {
    peers: Vec<Address>,
    ops: Vec<(OpId, i32)>,
    kept: VecDeque<Unexpected>,
    memory: Vec<Buffer>,
}

/// Returns bytes that differ between messages.
pub(crate) fn pattern(tag: i32, len: usize) -> Vec<u8> {
    let seed = tag.unsigned_abs() as usize * 31 + len;
    (0..len)
        .map(|at| (seed + at * 7 + at / 251) as u8)
        .collect()
}

impl Party {
    fn start(role: &str, settings: &[(&str, &str)]) -> Party {
        let mut options = Options::default();
        for (name, value) in settings {
            match *name {
                "instance" => options.instance = value.parse().unwrap(),
                "socket" => options.socket = Some(value.into()),
                "single-thread" => options.single_thread = true,
                "pipelined" => options.pipelined = true,
                "keep-on-server-restart" => options.keep_on_server_restart = true,
                "reconnect-ms" => options.reconnect = Duration::from_millis(value.parse().unwrap()),
                "server-timeout-ms" => {
                    options.server_timeout = Some(Duration::from_millis(value.parse().unwrap()));
                }
                "client-memory" => options.client_memory = client_memory(value),
                // Like a set-user-id program, or one that has read secrets.
                "undumpable" => nix::sys::prctl::set_dumpable(false).unwrap(),
                "connect-ms" => {
                    let wait = Duration::from_millis(value.parse().unwrap());
                    (options.client_connect, options.server_connect) = (wait, Some(wait));
                }
                other => panic!("no setting of a party: {other}"),
            }
        }
        let segment = options.instance.segment();
        let zoid = Zoid::new(options);
        let counters = zoid.counters();
        let builder = Bmi::builder().method(zoid);
        let bmi = match role {
            "server" => builder.listen("zoid://").start(),
            _ => builder.start(),
        };
        let (bmi, server) =
            match bmi.and_then(|bmi| bmi.lookup("zoid://").map(|server| (bmi, server))) {
                Ok(pair) => pair,
                Err(error) => {
                    println!("\n0 {error:?}");
                    std::process::exit(0);
                }
            };
        println!("\n0 ready");
        Party {
            context: bmi.open_context().unwrap(),
            bmi,
            counters,
            segment,
            known: Mutex::new(Known {
                peers: vec![server],
                ..Known::default()
            }),
        }
    }

    fn obey(self) {
        let party = Arc::new(self);
        for line in std::io::stdin().lock().lines() {
            let line = line.unwrap();
            let party = Arc::clone(&party);
            std::thread::spawn(move || {
                let (number, command) = line.split_once(' ').unwrap();
                let answer = party.answer(command);
                writeln!(std::io::stdout().lock(), "{number} {answer}").unwrap();
            });
        }
    }

    fn answer(&self, command: &str) -> String {
        let words: Vec<&str> = command.split(' ').collect();
        let number = |at: usize| words[at].parse::<usize>().unwrap();
        let wait = |at: usize| Duration::from_millis(words[at].parse().unwrap());
        match words[0] {
            "send" | "receive" | "unexpected" => self.post(&words),
            "test" => self.test(number(1), wait(2)),
            "context" => {
                let found = self.bmi.test_context(self.context, number(1), wait(2));
                found.map_or_else(shown, |found| self.completions(found))
            }
            "fetch" => self.fetch(number(1), wait(2)),
            "free" => self.known(|known| known.kept.pop_front().map_or("nothing", |_| "ok").into()),
            "cancel" => {
                let op = self.known(|known| known.ops[number(1)].0);
                ok(self.bmi.cancel(op))
            }
            "timeout" => ok(self.bmi.set(None, &Setting::PostTimeout(wait(1)))),
            "memory" => self.keep_memory(number(1)),
            "release" => {
                // Freed outside of the lock, because freeing may take locks.
                let freed = self.known(|known| std::mem::take(&mut known.memory));
                drop(freed);
                "ok".into()
            }
            "lookup" => ok(self.bmi.lookup(words[1])),
            "size" => self
                .bmi
                .get(None, Question::MaxSize)
                .map_or_else(shown, |n| n.to_string()),
            "counts" => format!("{:?}", self.counters.read()),
            "clocks" => format!("{:?}", clocks()),
            "exchange" => match exchange(self, words[1].parse().unwrap(), number(2)) {
                Ok(()) => "done".into(),
                Err(error) => shown(error),
            },
            "echo" => echo(self),
            "forbid" => {
                nix::sys::prctl::set_dumpable(false).unwrap();
                "ok".into()
            }
            "finalize" => {
                self.bmi.finalize();
                "ok".into()
            }
            other => panic!("no command: {other}"),
        }
    }

    fn known<T>(&self, look: impl FnOnce(&mut Known) -> T) -> T {
        look(&mut self.known.lock().unwrap())
    }

    /// `send PEER TAG LEN WHERE`, `receive PEER TAG LEN WHERE`, `unexpected TAG LEN`.
    fn post(&self, words: &[&str]) -> String {
        let rest = match words[0] {
            "unexpected" => &words[1..],
            _ => &words[2..],
        };
        let (tag, len): (i32, usize) = (rest[0].parse().unwrap(), rest[1].parse().unwrap());
        let peer = if words[0] == "unexpected" {
            0
        } else {
            words[1].parse().unwrap()
        };
        let peer = self.known(|known| known.peers[peer]);
        let mut buffer = match rest.get(2) {
            Some(&"memory") => self.bmi.allocate(peer, len).unwrap(),
            _ => Buffer::zeroed(len).unwrap(),
        };
        let posted = match words[0] {
            "receive" => self
                .bmi
                .post_receive(self.context, peer, buffer, Tag(tag), 1),
            sends => {
                buffer.copy_from_slice(&pattern(tag, len));
                let (context, tag) = (self.context, Tag(tag));
                match sends {
                    "send" => self.bmi.post_send(context, peer, buffer, tag, 0),
                    _ => self
                        .bmi
                        .post_send_unexpected(context, peer, buffer, tag, Class(0), 0),
                }
            }
        };
        self.posted(posted, tag, words[0] == "receive")
    }

    fn posted(&self, posted: Result<Post, Rejected>, tag: i32, received: bool) -> String {
        match posted {
            Ok(Post::Immediate(len, payload)) => match intact(received, tag, len, payload) {
                true => format!("done {len}"),
                false => "corrupt".into(),
            },
            Ok(Post::Pending(op)) => self.known(|known| {
                known.ops.push((op, tag));
                format!("pending {}", known.ops.len() - 1)
            }),
            Err(refused) => shown(refused.error),
        }
    }

    fn test(&self, op: usize, wait: Duration) -> String {
        let op = self.known(|known| known.ops[op].0);
        match self.bmi.test(op, wait) {
            Ok(done) => self.completions(done.into_iter().collect()),
            Err(error) => shown(error),
        }
    }

    fn completions(&self, found: Vec<Completion>) -> String {
        let said = found.into_iter().map(|done| {
            let find = |known: &mut Known| known.ops.iter().position(|(op, _)| *op == done.op);
            // Another thread's post may have returned and not yet stored its operation.
            let at = loop {
                match self.known(find) {
                    Some(at) => break at,
                    None => std::thread::yield_now(),
                }
            };
            let tag = self.known(|known| known.ops[at].1);
            match done.result {
                Ok(len) if intact(done.user == 1, tag, len, done.payload) => format!("{at} {len}"),
                Ok(_) => "corrupt".into(),
                Err(error) => format!("{at} {}", shown(error)),
            }
        });
        listed(said.collect())
    }

    fn fetch(&self, capacity: usize, wait: Duration) -> String {
        let found = match self.bmi.test_unexpected(Class(0), capacity, wait) {
            Ok(found) => found,
            Err(error) => return shown(error),
        };
        let said = found.into_iter().map(|message| {
            let (tag, len) = (message.tag.0, message.data.len());
            let intact = *message.data == pattern(tag, len);
            let place = self.place(&message.data);
            let peer = self.known(|known| {
                let at = known.peers.iter().position(|peer| *peer == message.from);
                let at = at.unwrap_or_else(|| {
                    known.peers.push(message.from);
                    known.peers.len() - 1
                });
                known.kept.push_back(message);
                at
            });
            match intact {
                true => format!("{peer} {tag} {len} at {place}"),
                false => "corrupt".into(),
            }
        });
        listed(said.collect())
    }

    fn keep_memory(&self, len: usize) -> String {
        let server = self.known(|known| known.peers[0]);
        let buffer = match self.bmi.allocate(server, len) {
            Ok(buffer) => buffer,
            Err(error) => return shown(error),
        };
        let place = self.place(&buffer);
        self.known(|known| known.memory.push(buffer));
        place.to_string()
    }

    /// Returns the offset of memory in the mapping of the segment, including the header page, or its address.
    fn place(&self, buffer: &Buffer) -> usize {
        let address = buffer.addresses().start;
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mapping = maps.lines().filter(|line| line.contains(&self.segment));
        let bounds = mapping.filter_map(|line| line.split(' ').next()?.split_once('-'));
        let hex = |text| usize::from_str_radix(text, 16).unwrap();
        let start = bounds
            .map(|(start, end)| hex(start)..hex(end))
            .find(|range| range.contains(&address))
            .map_or(0, |range| range.start);
        address - start
    }
}

/// Returns whether the received bytes are the sent ones. Always true for a send.
fn intact(received: bool, tag: i32, len: usize, payload: Payload) -> bool {
    if !received {
        return true;
    }
    let buffer = payload.into_buffer();
    let (message, rest) = buffer.split_at(len);
    message == pattern(tag, len) && rest.iter().all(|byte| *byte == 0)
}

/// Longer than any test.
const HOURS: Duration = Duration::from_secs(3600);

/// Serves forever: an unexpected message with tag T and L bytes announces an expected message of 64 × L bytes
/// with tag T, which is received and sent back.
fn echo(party: &Party) -> String {
    std::thread::scope(|scope| {
        while let Ok(found) = party.bmi.test_unexpected(Class(0), 8, HOURS) {
            for message in found {
                // A client that dies fails its exchange only.
                scope.spawn(move || echo_one(party, message).is_ok());
            }
        }
    });
    "over".to_owned()
}

fn echo_one(party: &Party, message: Unexpected) -> Result<(), Error> {
    let (bmi, context, from, tag) = (&party.bmi, party.context, message.from, message.tag);
    let room = bmi.allocate(from, message.data.len() * 64)?;
    drop(message);
    let got = finish(bmi, bmi.post_receive(context, from, room, tag, 1)?)?;
    finish(bmi, bmi.post_send(context, from, got, tag, 0)?)?;
    Ok(())
}

/// The client's side of [`echo_one`].
fn exchange(party: &Party, tag: i32, len: usize) -> Result<(), Error> {
    let (bmi, context) = (&party.bmi, party.context);
    let server = party.known(|known| known.peers[0]);
    let announced = Buffer::from(pattern(tag, len));
    let post = bmi.post_send_unexpected(context, server, announced, Tag(tag), Class(0), 0)?;
    finish(bmi, post)?;
    let bytes = pattern(tag, len * 64);
    finish(
        bmi,
        bmi.post_send(context, server, bytes.clone(), Tag(tag), 0)?,
    )?;
    let room = Buffer::zeroed(bytes.len())?;
    let got = finish(bmi, bmi.post_receive(context, server, room, Tag(tag), 1)?)?;
    match *got.into_buffer() == bytes {
        true => Ok(()),
        false => Err(Error::BadMsg),
    }
}

/// Waits until a post completes.
fn finish(bmi: &Bmi, post: Post) -> Result<Payload, Error> {
    match post {
        Post::Immediate(_, payload) => Ok(payload),
        Post::Pending(op) => {
            let done = bmi.test(op, HOURS)?.ok_or(Error::TimedOut)?;
            done.result.map(|_| done.payload)
        }
    }
}

/// Returns whether the time of day jumps between two calls, and whether the monotonic clock does.
fn clocks() -> (bool, bool) {
    let hour = Duration::from_secs(3600);
    let (now, day) = (std::time::Instant::now(), std::time::SystemTime::now());
    let jumps = day.elapsed().map_or(true, |passed| passed > hour);
    (jumps, now.elapsed() > hour)
}

fn listed(said: Vec<String>) -> String {
    match said.is_empty() {
        true => "nothing".into(),
        false => said.join(", "),
    }
}

fn shown(error: Error) -> String {
    format!("{error:?}")
}

fn ok<T>(result: Result<T, Error>) -> String {
    result.map_or_else(shown, |_| "ok".into())
}
