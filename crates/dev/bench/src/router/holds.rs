//! Measures the longest call of the state machine while 100,000 peers are told of a change.
//!
//! A node's data path stands still during a call, and while the outputs of the call are taken: the stack of a node
//! does both under its lock. Here the same calls are made in the same order, without sockets and in virtual time.
//! Peers answer at once.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use bytes::Bytes;
use lnet_core::{
    Core, CoreConfig, Entropy, Errno, Globals, MessageStatus, NiConfig, NiId, Output, PeerState,
    Place, RouterBuffers, Transmit, Tunables, Verdict,
};
use lnet_types::{Net, Nid, ProcessId, Time};
use lnet_wire::{Body, Header};
use serde::Serialize;

use super::played;

/// The number of peers, each with one NID. All of them are discovered and get pushes.
const PEERS: u32 = 100_000;
/// The limit on the longest call, in milliseconds.
const TARGET_MS: f64 = 1.0;
/// 10.64.0.0.
const FIRST_PEER: u32 = 0x0A40_0000;
/// The number of discoveries that are begun before their messages are delivered.
const DISCOVERED_AT_ONCE: u32 = 64;

/// The results of pushes to all peers.
#[derive(Serialize)]
pub(super) struct Holds {
    peers: u32,
    /// The longest call of the fastest round.
    longest_milliseconds: f64,
    longest_of_all_rounds_milliseconds: f64,
    /// The longest call of each round.
    longest_milliseconds_rounds: Vec<f64>,
    /// The sum of all calls of the fastest round.
    sum_milliseconds: f64,
    target_milliseconds: f64,
    pub(super) met: bool,
}

impl Holds {
    /// Discovers the peers, and changes this node's information so many times.
    pub(super) fn measure(rounds: u32) -> anyhow::Result<Self> {
        let mut bed = Bed::new()?;
        bed.discover()?;
        let calls = (0..rounds).map(|round| bed.change(round % 2 == 0));
        let calls: Vec<Calls> = calls.collect::<anyhow::Result<_>>()?;
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        let best = calls.iter().min_by_key(|calls| calls.longest);
        let best = best.context("no round")?;
        let worst = calls.iter().map(|calls| calls.longest).max();
        Ok(Self {
            peers: PEERS,
            longest_milliseconds: millis(best.longest),
            longest_of_all_rounds_milliseconds: millis(worst.unwrap_or_default()),
            longest_milliseconds_rounds: calls.iter().map(|calls| millis(calls.longest)).collect(),
            sum_milliseconds: millis(best.sum),
            target_milliseconds: TARGET_MS,
            met: millis(best.longest) < TARGET_MS,
        })
    }

    pub(super) fn text(&self) -> String {
        format!(
            "a change pushed to {} discovered peers, without sockets: longest call of the core {:.3} ms, all calls \
             {:.0} ms\n  fastest of {} rounds, longest call of all rounds {:.3} ms, target < {TARGET_MS} ms",
            self.peers,
            self.longest_milliseconds,
            self.sum_milliseconds,
            self.longest_milliseconds_rounds.len(),
            self.longest_of_all_rounds_milliseconds,
        )
    }
}

/// The times of calls of the core.
#[derive(Default)]
struct Calls {
    longest: Duration,
    sum: Duration,
}

/// The core, its interfaces, and the messages in flight to peers.
struct Bed {
    core: Core,
    /// The interface that carries pushes, and the interface whose state changes.
    carrying: NiId,
    changing: NiId,
    now: Time,
    calls: Calls,
    messages: VecDeque<Transmit>,
    /// The number of pushes that were acknowledged.
    acknowledged: u32,
}

impl Bed {
    fn new() -> anyhow::Result<Self> {
        let config = CoreConfig {
            entropy: Entropy::from_seed(1),
            seed: 1,
            globals: Globals {
                discovery: true,
                ..Globals::default()
            },
            buffers: RouterBuffers::default(),
            routing: false,
            pid: ProcessId::LUSTRE_PID,
        };
        let now = Time::from_secs(1);
        let mut core = Core::new(config, now);
        let mut add = |nid: &str| {
            let (nid, tunables) = (nid.parse()?, Tunables::default());
            anyhow::Ok(core.add_ni(NiConfig { nid, tunables }, now)?)
        };
        let (carrying, changing) = (add("10.0.0.1@tcp")?, add("10.1.0.1@tcp1")?);
        Ok(Self {
            core,
            carrying,
            changing,
            now,
            calls: Calls::default(),
            messages: VecDeque::new(),
            acknowledged: 0,
        })
    }

    fn discover(&mut self) -> anyhow::Result<()> {
        for number in 0..PEERS {
            let (nid, now) = (peer(number), self.now);
            let begun = self.core.discover(nid, now);
            begun.map_err(|errno| refused(nid, errno))?;
            if number % DISCOVERED_AT_ONCE == 0 {
                self.carry()?;
            }
        }
        self.carry()?;
        let (last, count) = (peer(PEERS - 1), self.acknowledged);
        let known = self.core.discovery(last).map(|view| view.state);
        ensure!(
            known.is_some_and(|state| state.contains(PeerState::DISCOVERED)) && count == PEERS,
            "{count} of {PEERS} peers were pushed to; the last is {known:?}"
        );
        Ok(())
    }

    /// Changes the state of an interface's link, so that all peers are told.
    fn change(&mut self, down: bool) -> anyhow::Result<Calls> {
        (self.calls, self.acknowledged) = (Calls::default(), 0);
        let (changing, now) = (self.changing, self.now);
        self.call(|core| core.set_ni_fatal(changing, down, now));
        while self.acknowledged < PEERS {
            let Some(next) = self.core.next_deadline() else {
                bail!(
                    "{} of {PEERS} peers were told of a change",
                    self.acknowledged
                );
            };
            self.now = self.now.max(next);
            self.turn();
            self.carry()?;
        }
        Ok(std::mem::take(&mut self.calls))
    }

    /// Runs what is due and takes the outputs, as in one hold of a node's lock.
    fn turn(&mut self) {
        let now = self.now;
        let messages = self.call(|core| {
            core.tick(now);
            outputs(core)
        });
        self.messages.extend(messages);
    }

    /// Delivers messages to peers and their answers to the core, until no message remains.
    fn carry(&mut self) -> anyhow::Result<()> {
        self.turn();
        let now = self.now;
        while let Some(message) = self.messages.pop_front() {
            self.call(|core| core.sent(message.tx, MessageStatus::Ok, now));
            let from = message.to;
            if let Some((header, payload)) = played::answer(from.nid, &message.header)? {
                self.answer(from, &header, &payload)?;
            }
            self.turn();
        }
        Ok(())
    }

    fn answer(&mut self, from: ProcessId, header: &Header, payload: &[u8]) -> anyhow::Result<()> {
        let (ni, now) = (self.carrying, self.now);
        let verdict = self.call(|core| core.header(ni, from, header, now));
        let Verdict::Receive { rx, landing } = verdict else {
            bail!("the core does not want an answer of {from}: {verdict:?}");
        };
        self.call(|core| {
            if let Place::Core(buffer) = landing.place {
                let buffer = core.core_buffer_mut(buffer).iter_mut();
                buffer.zip(payload).for_each(|(to, from)| *to = *from);
            }
            core.arrived(rx, Ok(()), now);
        });
        self.acknowledged += u32::from(matches!(header.body, Body::Ack(_)));
        Ok(())
    }

    fn call<R>(&mut self, call: impl FnOnce(&mut Core) -> R) -> R {
        let begun = Instant::now();
        let result = call(&mut self.core);
        let took = begun.elapsed();
        self.calls.longest = self.calls.longest.max(took);
        self.calls.sum += took;
        result
    }
}

/// Takes the messages to send, with a copy of each payload, as a node's stack does.
fn outputs(core: &mut Core) -> Vec<Transmit> {
    let mut messages = Vec::new();
    while let Some(output) = core.poll_output() {
        if let Output::Transmit(message) = output {
            if let Some(Place::Core(buffer)) = message.payload.map(|payload| payload.place) {
                std::hint::black_box(Bytes::copy_from_slice(core.core_buffer(buffer)));
            }
            messages.push(message);
        }
    }
    messages
}

fn peer(number: u32) -> Nid {
    Nid::from_number(Net::tcp(0), FIRST_PEER + number)
}

fn refused(nid: Nid, errno: Errno) -> anyhow::Error {
    anyhow!("the discovery of {nid} is refused with errno {}", errno.0)
}
