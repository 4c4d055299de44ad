//! A client of the bench: it runs the tasks that the bench writes to its standard input, one in each line.
//!
//! Posts of the zoid methods wait for their counterpart, as programs are advised to do. The posts of a stream are
//! pipelined, so that one thread has several messages in flight.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use bmi::{
    Address, Bmi, Buffer, Class, Completion, ContextId, Error, OpId, Payload, Post, Setting, Tag,
};
use zoid::{Counters, Counts, Zoid};

use super::memory::{self, Stock};
use super::peer::Place;
use super::server::{ANSWER, ARRIVED, BEGIN, data, share};
use super::task::{Done, Method, Origin, Pattern, Task};

/// The time that a post of the zoid methods waits for its counterpart.
const POST_TIMEOUT: Duration = Duration::from_secs(20);
/// The time limit of an operation, after which the client fails.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time that a test of [`Pattern::Silence`] waits.
const SILENCE: Duration = Duration::from_millis(500);
/// A tag that the server never uses.
const NOBODY: Tag = Tag(-1);

/// Runs tasks until standard input ends.
pub(super) fn serve(place: &Place) -> anyhow::Result<()> {
    let mut ends = BTreeMap::new();
    for line in io::stdin().lines() {
        let line = line.context("cannot read from standard input")?;
        let (method, task) = line.split_once(' ').context("a line without a task")?;
        let method: Method = method.parse()?;
        let task: Task = task.parse()?;
        let end = match ends.entry(method) {
            Entry::Occupied(end) => end.into_mut(),
            Entry::Vacant(free) => free.insert(End::connect(place, method)?),
        };
        let done = end.run(&task).with_context(|| line.clone())?;
        writeln!(io::stdout(), "{done}").context("cannot write to standard output")?;
    }
    Ok(())
}

/// A lane, in which one message at a time is in flight.
struct Lane {
    tag: Tag,
    /// The number of messages that are not sent yet.
    left: u64,
    /// True if a message is posted.
    busy: bool,
}

/// The function that sends a message, expected or unexpected.
type Send = fn(&End, Buffer, Tag) -> anyhow::Result<Post>;

/// A connection with one method.
struct End {
    bmi: Bmi,
    context: ContextId,
    server: Address,
    counters: Option<Arc<Counters>>,
    stock: Stock,
}

impl End {
    fn connect(place: &Place, method: Method) -> anyhow::Result<Self> {
        let (builder, counters) = match method {
            Method::Tcp => (Bmi::builder().method(bmi::tcp::Tcp::new()), None),
            Method::Zoid | Method::Spinning | Method::ProcessCopy => {
                let zoid = Zoid::new(place.client_options(method)?);
                let counters = zoid.counters();
                (Bmi::builder().method(zoid), Some(counters))
            }
        };
        let bmi = builder.start()?;
        let server = bmi.lookup(&place.server(method))?;
        if counters.is_some() {
            bmi.set(Some(server), &Setting::PostTimeout(POST_TIMEOUT))?;
        }
        Ok(Self {
            context: bmi.open_context()?,
            server,
            counters,
            stock: Stock::default(),
            bmi,
        })
    }

    fn run(&mut self, task: &Task) -> anyhow::Result<Done> {
        if task.needs_server() {
            let begin = Buffer::from(task.to_string().as_bytes());
            let post = self.unexpected(begin, BEGIN)?;
            self.finish(post)?;
        }
        self.bmi.set(Some(self.server), &task.posts())?;
        let before = self.counts();
        let begun = Instant::now();
        match task.pattern {
            Pattern::Exchange => self.exchanges(task, Self::send)?,
            Pattern::UnexpectedExchange => self.exchanges(task, Self::unexpected)?,
            Pattern::Stream => self.stream(task, Self::send)?,
            Pattern::UnexpectedStream => self.stream(task, Self::unexpected)?,
            Pattern::Verify => self.verify(task)?,
            Pattern::Refused => self.refused(task)?,
            Pattern::Silence => self.silence(task)?,
        }
        let took = begun.elapsed();
        let after = self.counts();
        let frames = |counts: Counts| counts.frames_sent + counts.frames_received;
        Ok(Done {
            nanoseconds: u64::try_from(took.as_nanos())?,
            frames: frames(after) - frames(before),
            bytes_sent: after.bytes_sent - before.bytes_sent,
            exchanges: after.exchanges - before.exchanges,
        })
    }

    fn counts(&self) -> Counts {
        let counters = self.counters.as_ref();
        counters.map_or_else(Counts::default, |counters| counters.read())
    }

    fn send(&self, buffer: Buffer, tag: Tag) -> anyhow::Result<Post> {
        let posted = self
            .bmi
            .post_send(self.context, self.server, buffer, tag, 0);
        posted.context("a send was refused")
    }

    fn unexpected(&self, buffer: Buffer, tag: Tag) -> anyhow::Result<Post> {
        let (context, server) = (self.context, self.server);
        let posted = self
            .bmi
            .post_send_unexpected(context, server, buffer, tag, Class(0), 0);
        posted.context("an unexpected send was refused")
    }

    fn receive(&self, buffer: Buffer, tag: Tag) -> anyhow::Result<Post> {
        let posted = self
            .bmi
            .post_receive(self.context, self.server, buffer, tag, 0);
        posted.context("a receive was refused")
    }

    /// Waits for one operation; returns its bytes and its memory.
    fn finish(&self, post: Post) -> anyhow::Result<(usize, Payload)> {
        let op = match post {
            Post::Immediate(len, payload) => return Ok((len, payload)),
            Post::Pending(op) => op,
        };
        let done = self.bmi.test(op, PATIENCE)?;
        let done = done.with_context(|| format!("nothing happened for {PATIENCE:?}"))?;
        Ok((done.result.context("an operation failed")?, done.payload))
    }

    fn take(&mut self, bytes: usize) -> anyhow::Result<Buffer> {
        self.stock.take(&self.bmi, self.server, Origin::Ext, bytes)
    }

    /// Runs exchanges. The client posts the send before the receive: otherwise the post of the receive would wait
    /// for an answer to a message that was not sent.
    fn exchanges(&mut self, task: &Task, send: Send) -> anyhow::Result<()> {
        let (mut out, mut back) = (self.take(task.bytes)?, self.take(task.bytes)?);
        for _ in 0..task.count {
            out = self.finish(send(self, out, data(0))?)?.1.into_buffer();
            let (len, payload) = self.finish(self.receive(back, ANSWER)?)?;
            ensure!(len == task.bytes, "an answer of {len} bytes");
            back = payload.into_buffer();
        }
        self.stock.put(out);
        self.stock.put(back);
        Ok(())
    }

    fn stream(&mut self, task: &Task, send: Send) -> anyhow::Result<()> {
        let mut lanes = Vec::new();
        for number in 0..task.in_flight {
            lanes.push(Lane {
                tag: data(number),
                left: share(task, number),
                busy: false,
            });
        }
        let mut buffers = VecDeque::new();
        for _ in 0..task.buffers.max(task.in_flight) {
            buffers.push_back(self.take(task.bytes)?);
        }
        self.send_all(lanes, &mut buffers, send)?;
        let arrived = self.receive(Buffer::from(vec![0; 8]), ARRIVED)?;
        self.finish(arrived)?;
        buffers.into_iter().for_each(|b| self.stock.put(b));
        Ok(())
    }

    /// Sends all messages of some lanes, one message of each lane at a time. The buffers are used in turn; there
    /// are at least as many buffers as lanes.
    fn send_all(
        &self,
        mut lanes: Vec<Lane>,
        buffers: &mut VecDeque<Buffer>,
        send: Send,
    ) -> anyhow::Result<()> {
        let mut pending: Vec<(OpId, usize)> = Vec::new();
        loop {
            for (number, lane) in lanes.iter_mut().enumerate() {
                while lane.left > 0
                    && !lane.busy
                    && let Some(buffer) = buffers.pop_front()
                {
                    lane.left -= 1;
                    match send(self, buffer, lane.tag)? {
                        Post::Immediate(_, payload) => buffers.push_back(payload.into_buffer()),
                        Post::Pending(op) => {
                            lane.busy = true;
                            pending.push((op, number));
                        }
                    }
                }
            }
            if pending.is_empty() {
                return Ok(());
            }
            let ops: Vec<OpId> = pending.iter().map(|(op, _)| *op).collect();
            let done = self.bmi.test_some(&ops, PATIENCE)?;
            ensure!(!done.is_empty(), "nothing happened for {PATIENCE:?}");
            for (
                place,
                Completion {
                    result, payload, ..
                },
            ) in done
            {
                result.context("a send failed")?;
                lanes[pending[place].1].busy = false;
                buffers.push_back(payload.into_buffer());
            }
            pending.retain(|(_, number)| lanes[*number].busy);
        }
    }

    /// Exchanges messages of all sizes. The answer must contain the bytes that were sent.
    fn verify(&mut self, task: &Task) -> anyhow::Result<()> {
        let mut back = self.take(task.bytes)?;
        for index in 0..task.count {
            let len = memory::length_of(task.client, index, task.bytes);
            let mut out = Buffer::zeroed(len)?;
            memory::fill(task.client, index, &mut out);
            self.finish(self.send(out, data(0))?)?;
            let (answered, payload) = self.finish(self.receive(back, ANSWER)?)?;
            back = payload.into_buffer();
            ensure!(answered == len, "{answered} of {len} bytes came back");
            let same = memory::is_filled(task.client, index, &back[..len]);
            ensure!(same, "wrong bytes came back in message {index}");
        }
        self.stock.put(back);
        Ok(())
    }

    /// Sends messages that are rejected at once, and cancels each.
    fn refused(&mut self, task: &Task) -> anyhow::Result<()> {
        self.set_post_timeout(Duration::ZERO)?;
        let mut buffer = self.take(task.bytes)?;
        for _ in 0..task.count {
            let post = self.send(buffer, NOBODY)?;
            buffer = self.cancelled(&post)?;
        }
        self.stock.put(buffer);
        self.set_post_timeout(POST_TIMEOUT)
    }

    fn silence(&mut self, task: &Task) -> anyhow::Result<()> {
        self.set_post_timeout(Duration::ZERO)?;
        let post = self.receive(Buffer::zeroed(task.bytes)?, NOBODY)?;
        let Post::Pending(op) = post else {
            bail!("a message that nobody sends was received");
        };
        for _ in 0..task.count {
            let done = self.bmi.test(op, SILENCE)?;
            ensure!(done.is_none(), "a message that nobody sends was received");
        }
        self.cancelled(&post)?;
        self.set_post_timeout(POST_TIMEOUT)
    }

    fn set_post_timeout(&self, timeout: Duration) -> anyhow::Result<()> {
        let setting = Setting::PostTimeout(timeout);
        Ok(self.bmi.set(Some(self.server), &setting)?)
    }

    fn cancelled(&self, post: &Post) -> anyhow::Result<Buffer> {
        let Post::Pending(op) = *post else {
            bail!("an operation without a counterpart completed");
        };
        self.bmi.cancel(op)?;
        let done = self.bmi.test(op, PATIENCE)?.context("not cancelled")?;
        ensure!(done.result == Err(Error::Cancel), "not cancelled");
        Ok(done.payload.into_buffer())
    }
}
