//! The server of the bench: one loop that serves the tasks of all clients with every method.
//!
//! ```text
//!   exchange     receive ─▶ answer, next receive ─▶ …
//!   stream       receive, receive, … ─▶ next receive ─▶ …   done, when all have arrived
//! ```
//!
//! Each message in flight of a stream has a lane, which is a tag. Messages with the same tag never overtake one
//! another, so a lane has only one message in flight.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bmi::{Address, Bmi, Buffer, Class, Completion, ContextId, Payload, Post, Tag, Unexpected};

use super::memory::{self, Stock};
use super::task::{Pattern, Task};

/// The tags of the bench's messages. This one begins a task.
pub(super) const BEGIN: Tag = Tag(1);
/// Data to a client.
pub(super) const ANSWER: Tag = Tag(2);
/// Reports that the last message of a stream has arrived.
pub(super) const ARRIVED: Tag = Tag(3);
/// The limit on the lanes.
const LANES: usize = 64;

/// Returns the tag of data from a client in a lane.
pub(super) const fn data(lane: u32) -> Tag {
    // The number is far below 2^31, as `begin` has checked.
    Tag(16 + lane as i32)
}

/// Returns the number of messages in one lane of a task.
pub(super) fn share(task: &Task, lane: u32) -> u64 {
    let lanes = u64::from(task.in_flight);
    task.count / lanes + u64::from(u64::from(lane) < task.count % lanes)
}

/// The time that the server sleeps if no message arrives.
const WAIT: Duration = Duration::from_secs(10);
/// The limit on the completions or messages that are collected at once.
const AT_ONCE: usize = 64;
/// The number of rounds of completions between two checks for new clients.
const LOOK_EVERY: u32 = 16;

/// The kind of an operation, as a part of its user value beside the client's number. A receive has the number of
/// its lane.
const SEND: u64 = LANES as u64;
const KINDS: u64 = SEND + 1;

/// Serves until the process ends.
pub(super) fn serve(bmi: &Bmi) -> anyhow::Result<()> {
    let context = bmi.open_context()?;
    let mut server = Server {
        bmi,
        context,
        stock: Stock::default(),
        clients: Vec::new(),
        numbers: BTreeMap::new(),
        finished: VecDeque::new(),
        posted: 0,
    };
    let mut rounds = 0_u32;
    loop {
        rounds = rounds.wrapping_add(1);
        server.turn(rounds.is_multiple_of(LOOK_EVERY))?;
    }
}

struct Server<'a> {
    bmi: &'a Bmi,
    context: ContextId,
    stock: Stock,
    clients: Vec<Client>,
    numbers: BTreeMap<Address, usize>,
    /// Operations that completed in their post: user value, bytes, memory.
    finished: VecDeque<(u64, usize, Payload)>,
    /// The number of operations that have not completed.
    posted: usize,
}

struct Client {
    address: Address,
    task: Task,
    /// The number of receives of each lane that are not posted yet.
    to_post: [u64; LANES],
    /// The number of messages that have arrived.
    arrived: u64,
    /// The buffers for the next receives of a stream.
    spare: VecDeque<Buffer>,
}

impl Server<'_> {
    fn turn(&mut self, look: bool) -> anyhow::Result<()> {
        let mut idle = true;
        if self.posted > 0 {
            let done = self.bmi.test_context(self.context, AT_ONCE, WAIT)?;
            idle = done.is_empty();
            self.posted -= done.len();
            for Completion {
                result,
                user,
                payload,
                ..
            } in done
            {
                let len = result.with_context(|| self.describe(user))?;
                self.finish(user, len, payload)?;
            }
        }
        // This comes before any call that may sleep: otherwise these operations would wait, too.
        self.drain()?;
        if idle || look {
            let wait = if self.posted == 0 {
                WAIT
            } else {
                Duration::ZERO
            };
            for message in self.bmi.test_unexpected(Class(0), AT_ONCE, wait)? {
                self.unexpected(message)?;
            }
        }
        self.drain()
    }

    /// Processes the operations that completed in their post.
    fn drain(&mut self) -> anyhow::Result<()> {
        while let Some((user, len, payload)) = self.finished.pop_front() {
            self.finish(user, len, payload)?;
        }
        Ok(())
    }

    fn describe(&self, user: u64) -> String {
        let what = match user % KINDS {
            SEND => "a send",
            _ => "a receive",
        };
        let client = self.clients.get((user / KINDS) as usize);
        let task = client.map_or_else(String::new, |client| client.task.to_string());
        format!("{what} of {task:?} failed")
    }

    fn unexpected(&mut self, message: Unexpected) -> anyhow::Result<()> {
        if message.tag == BEGIN {
            let task = std::str::from_utf8(&message.data)?.parse()?;
            return self.begin(message.from, task);
        }
        let number = self.numbers.get(&message.from);
        let number = *number.context("data of a client without a task")?;
        let client = &mut self.clients[number];
        client.arrived += 1;
        match client.task.pattern {
            Pattern::UnexpectedExchange => self.answer(number, message.data),
            Pattern::UnexpectedStream if client.arrived == client.task.count => {
                self.say_arrived(number)
            }
            _ => Ok(()),
        }
    }

    fn begin(&mut self, address: Address, task: Task) -> anyhow::Result<()> {
        ensure!(
            (1..=LANES as u32).contains(&task.in_flight),
            "{} lanes",
            task.in_flight
        );
        // Posts for this client do not wait, because the server collects completions.
        self.bmi.set(Some(address), &zoid::setting::PIPELINED)?;
        let next = self.clients.len();
        let number = *self.numbers.entry(address).or_insert(next);
        let client = Client {
            address,
            task,
            to_post: std::array::from_fn(|lane| share(&task, lane as u32)),
            arrived: 0,
            spare: self.spare(address, &task)?,
        };
        match self.clients.get_mut(number) {
            Some(known) => *known = client,
            None => self.clients.push(client),
        }
        match task.pattern {
            Pattern::Exchange | Pattern::Verify | Pattern::Stream => {
                (0..task.in_flight).try_for_each(|lane| self.post_fresh(number, lane))
            }
            Pattern::UnexpectedExchange | Pattern::UnexpectedStream => Ok(()),
            Pattern::Refused | Pattern::Silence => bail!("a task without a server"),
        }
    }

    /// Takes the buffers that a stream uses in addition to the posted ones.
    fn spare(&mut self, address: Address, task: &Task) -> anyhow::Result<VecDeque<Buffer>> {
        let count = match task.pattern {
            Pattern::Stream => task.buffers.saturating_sub(task.in_flight),
            _ => 0,
        };
        let stock = &mut self.stock;
        let fresh = || stock.take(self.bmi, address, task.origin, task.bytes);
        std::iter::repeat_with(fresh).take(count as usize).collect()
    }

    /// Posts a receive into a buffer of the stock.
    fn post_fresh(&mut self, number: usize, lane: u32) -> anyhow::Result<()> {
        let Client { address, task, .. } = self.clients[number];
        let stock = &mut self.stock;
        let buffer = stock.take(self.bmi, address, task.origin, task.bytes)?;
        self.post_receive(number, lane, buffer)
    }

    /// Posts a receive, unless all receives of the lane were posted. In that case the buffer and the spare buffers
    /// return to the stock.
    fn post_receive(&mut self, number: usize, lane: u32, buffer: Buffer) -> anyhow::Result<()> {
        let client = &mut self.clients[number];
        client.spare.push_back(buffer);
        let to_post = &mut client.to_post[lane as usize];
        if *to_post == 0 {
            for buffer in client.spare.drain(..) {
                self.stock.put(buffer);
            }
            return Ok(());
        }
        *to_post -= 1;
        let buffer = client.spare.pop_front().context("no buffer")?;
        let (address, user) = (client.address, number as u64 * KINDS + u64::from(lane));
        let posted = self
            .bmi
            .post_receive(self.context, address, buffer, data(lane), user)?;
        self.note(user, posted);
        Ok(())
    }

    fn send(&mut self, number: usize, tag: Tag, buffer: Buffer) -> anyhow::Result<()> {
        let (address, user) = (self.clients[number].address, number as u64 * KINDS + SEND);
        let posted = self
            .bmi
            .post_send(self.context, address, buffer, tag, user)?;
        self.note(user, posted);
        Ok(())
    }

    fn note(&mut self, user: u64, posted: Post) {
        match posted {
            Post::Immediate(len, payload) => self.finished.push_back((user, len, payload)),
            Post::Pending(_) => self.posted += 1,
        }
    }

    fn say_arrived(&mut self, number: usize) -> anyhow::Result<()> {
        self.send(number, ARRIVED, Buffer::from(vec![0; 8]))
    }

    fn answer(&mut self, number: usize, buffer: Buffer) -> anyhow::Result<()> {
        self.send(number, ANSWER, buffer)
    }

    fn finish(&mut self, user: u64, len: usize, payload: Payload) -> anyhow::Result<()> {
        let number = (user / KINDS) as usize;
        let buffer = payload.into_buffer();
        let client = &mut self.clients[number];
        let Task {
            pattern,
            bytes,
            count,
            ..
        } = client.task;
        if user % KINDS == SEND {
            // The message that reports the end of a stream, and answers of another length, are freed.
            if pattern == Pattern::Exchange && buffer.len() == bytes {
                self.stock.put(buffer);
            }
            return Ok(());
        }
        client.arrived += 1;
        let all = client.arrived == count;
        let lane = (user % KINDS) as u32;
        match pattern {
            Pattern::Verify => self.verify(number, len, buffer),
            Pattern::Exchange => {
                self.answer(number, buffer)?;
                match all {
                    true => Ok(()),
                    false => self.post_fresh(number, lane),
                }
            }
            _ => {
                self.post_receive(number, lane, buffer)?;
                if all {
                    self.say_arrived(number)
                } else {
                    Ok(())
                }
            }
        }
    }

    /// Verifies every byte, and sends all bytes back from other memory.
    fn verify(&mut self, number: usize, len: usize, buffer: Buffer) -> anyhow::Result<()> {
        let client = &self.clients[number];
        let Task {
            bytes,
            client: seed,
            ..
        } = client.task;
        let index = client.arrived - 1;
        if len != memory::length_of(seed, index, bytes) {
            bail!("message {index} of client {seed} has {len} bytes");
        }
        if !memory::is_filled(seed, index, &buffer[..len]) {
            bail!("message {index} of client {seed} has wrong bytes");
        }
        let mut answer = match index % 2 {
            0 => self.bmi.allocate(client.address, len)?,
            _ => Buffer::zeroed(len)?,
        };
        answer.copy_from_slice(&buffer[..len]);
        self.answer(number, answer)?;
        self.post_receive(number, 0, buffer)
    }
}
