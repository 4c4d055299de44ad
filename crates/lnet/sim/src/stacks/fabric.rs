//! The virtual network of all machines, and the queue of future events.
//!
//! The network part of a machine, comparable to its kernel, continues while the machine's program stands still: it
//! answers connection requests, and it accepts and acknowledges bytes as long as there is room for them.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use lnet_tcp::{DialFailure, Readiness};

use crate::agenda::Agenda;
use crate::random::Random;
use crate::stacks::line::{Arrived, End, Line, Parcel, Stage};
use crate::stacks::links::{self, HEAD_MAX};
use crate::stacks::plan;

/// An event of the simulation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Happening {
    /// A parcel may have reached an end of a line; the line, and the end (0 or 1).
    Arrival(u64, usize),
    /// A writer that found a line full is told that the line has room again; the line, and the writer's end.
    Room(u64, usize),
    /// A connection request has reached its target; the line.
    Dialled(u64),
    /// Something moves over RDMA.
    Rdma,
    /// A machine continues.
    Step(u32),
    /// A program begins an operation.
    Operation(u32),
    /// A fault begins.
    FaultBegins(u32),
    /// A handshake triggers a fault, because a connection request has arrived; the fault.
    Falls(u32),
    /// A fault ends.
    FaultEnds(u32),
    /// The checkers examine all machines.
    Look,
}

/// A listener at an address.
#[derive(Debug)]
struct Listener {
    machine: u32,
    slot: usize,
    waiting: VecDeque<u64>,
}

/// The state of a machine in the network.
#[derive(Debug, Default)]
pub(crate) struct Plug {
    /// Readiness that its program has not been told yet.
    pub(crate) news: VecDeque<(usize, Readiness)>,
    /// The number of faults that cut the machine off: nothing reaches or leaves it.
    pub(crate) cuts: u32,
    /// The number of faults that make it reject connections.
    pub(crate) rejects: u32,
    /// The number of faults that keep its RDMA ports without a link.
    pub(crate) ports_down: u32,
    /// The number of faults that keep its power off.
    pub(crate) off: u32,
    /// The addresses whose links are cut, once for each fault.
    pub(crate) cut_links: Vec<IpAddr>,
    /// If set, each connection that the machine dials or accepts is reset when this end has written so many bytes.
    pub(crate) breaks: Option<(plan::End, u32)>,
    /// If set, a connection request on which the machine has this end triggers the fault with this index.
    pub(crate) trap: Option<(plan::End, u32)>,
    /// The factor by which the machine's connections are slowed.
    pub(crate) slow: u32,
    /// The time for which its next step is planned.
    pub(crate) step_at: u64,
    next_port: u16,
}

/// All lines, listeners and machines.
#[derive(Debug)]
pub(crate) struct Fabric {
    pub(crate) now: u64,
    pub(crate) agenda: Agenda<Happening>,
    pub(crate) plugs: Vec<Plug>,
    pub(crate) random: Random,
    listeners: BTreeMap<SocketAddr, Listener>,
    lines: BTreeMap<u64, Line>,
    next_line: u64,
    /// The machine that has each address.
    homes: BTreeMap<IpAddr, u32>,
    /// The first answer to a HELLO that differs from the one that the protocol prescribes.
    pub(crate) wrong_answer: Option<String>,
    /// The number of connections that lost the race of two dials.
    pub(crate) races: u64,
}

/// The limit on the connections that wait to be accepted at one address.
const BACKLOG: usize = 127;

/// The time after which an unanswered connection request is resent, in nanoseconds; also the pause before data that
/// a cut delayed is resent.
const AGAIN_NS: u64 = 200_000_000;

/// The first port that a dialler gets.
const FIRST_PORT: u16 = 32_768;

impl Fabric {
    pub(crate) fn new(seed: u64, homes: BTreeMap<IpAddr, u32>, machines: usize) -> Self {
        let plug = || Plug {
            slow: 1,
            step_at: u64::MAX,
            next_port: FIRST_PORT,
            ..Plug::default()
        };
        Self {
            now: 0,
            agenda: Agenda::new(),
            plugs: std::iter::repeat_with(plug).take(machines).collect(),
            random: Random::stream(seed, 11),
            listeners: BTreeMap::new(),
            lines: BTreeMap::new(),
            next_line: 0,
            homes,
            wrong_answer: None,
            races: 0,
        }
    }

    pub(crate) fn line(&self, line: u64) -> Option<&Line> {
        self.lines.get(&line)
    }

    pub(crate) fn line_mut(&mut self, line: u64) -> Option<&mut Line> {
        self.lines.get_mut(&line)
    }

    /// Returns the lines that exist.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &Line> {
        self.lines.values()
    }

    /// Plans the next step of a machine, unless an earlier step is planned.
    pub(crate) fn wake(&mut self, machine: u32, at: u64) {
        let Some(plug) = self.plugs.get_mut(machine as usize) else {
            return;
        };
        if at < plug.step_at {
            plug.step_at = at;
            self.agenda.plan(at, Happening::Step(machine));
        }
    }

    /// Reports the readiness of one end of a line to its machine.
    pub(crate) fn tell(&mut self, line: u64, at: usize, readiness: Readiness) {
        let Some(end) = self.lines.get(&line).map(|line| &line.ends[at]) else {
            return;
        };
        if let Some(slot) = end.slot {
            self.tell_slot(end.machine, slot, readiness);
        }
    }

    fn tell_slot(&mut self, machine: u32, slot: usize, readiness: Readiness) {
        if let Some(plug) = self.plugs.get_mut(machine as usize) {
            plug.news.push_back((slot, readiness));
        }
        let delay = self.random.within(1_000, 30_000);
        self.wake(machine, self.now + delay);
    }

    // --- listening and dialling ---

    pub(crate) fn listen(&mut self, machine: u32, slot: usize, address: SocketAddr) {
        let listener = Listener {
            machine,
            slot,
            waiting: VecDeque::new(),
        };
        self.listeners.insert(address, listener);
    }

    pub(crate) fn close_listener(&mut self, address: SocketAddr) {
        let gone = self.listeners.remove(&address);
        for line in gone.into_iter().flat_map(|listener| listener.waiting) {
            self.close(line, 1);
        }
    }

    /// Accepts the next connection that waits at an address.
    pub(crate) fn accept(&mut self, address: SocketAddr) -> Option<(u64, SocketAddr)> {
        let line = self.listeners.get_mut(&address)?.waiting.pop_front()?;
        let remote = self.lines.get(&line)?.ends[0].address;
        Some((line, remote))
    }

    pub(crate) fn dial(
        &mut self,
        machine: u32,
        slot: usize,
        local: IpAddr,
        remote: SocketAddr,
    ) -> u64 {
        let port = self.plugs.get_mut(machine as usize).map_or(0, |plug| {
            plug.next_port = plug.next_port.checked_add(1).unwrap_or(FIRST_PORT);
            plug.next_port
        });
        let target = self.homes.get(&remote.ip()).copied().unwrap_or(u32::MAX);
        let mut line = Line::new((machine, (local, port).into()), (target, remote));
        line.ends[0].slot = Some(slot);
        line.latency_ns = self.random.within(20_000, 400_000);
        line.picoseconds_per_byte = self.random.within(50, 2_000);
        let capacities = [8 << 10, 64 << 10, 256 << 10, 2 << 20];
        line.capacity = self.random.of(&capacities).copied().unwrap_or(8 << 10);
        line.breaks_at = [machine, target].into_iter().find_map(|machine| {
            let (end, byte) = self.plugs.get(machine as usize)?.breaks?;
            Some((end.index(), u64::from(byte)))
        });
        self.next_line += 1;
        let delay = line.latency_ns + self.random.below(1_000_000);
        self.lines.insert(self.next_line, line);
        self.agenda
            .plan(self.now + delay, Happening::Dialled(self.next_line));
        self.next_line
    }

    /// Processes a connection request that has reached its target.
    pub(crate) fn dialled(&mut self, line: u64) {
        let Some(it) = self.lines.get(&line) else {
            return;
        };
        let target = it.ends[1].machine;
        if it.stage != Stage::Dialling || !it.ends[0].open {
            return;
        }
        let Some(plug) = self.plugs.get(target as usize) else {
            return self.answer(line, Stage::Failed(DialFailure::Unreachable));
        };
        let listener = self.listeners.get(&it.ends[1].address);
        let full = listener.is_some_and(|listener| listener.waiting.len() >= BACKLOG);
        if self.is_cut(it) || plug.off > 0 || full {
            let again = self.now + AGAIN_NS;
            return self.agenda.plan(again, Happening::Dialled(line));
        }
        if plug.rejects > 0 || listener.is_none() {
            return self.answer(line, Stage::Failed(DialFailure::Refused));
        }
        self.answer(line, Stage::Up);
        let address = self.lines.get(&line).map(|found| found.ends[1].address);
        let listener = address.and_then(|address| self.listeners.get_mut(&address));
        if let Some(listener) = listener {
            listener.waiting.push_back(line);
            let (machine, slot) = (listener.machine, listener.slot);
            self.tell_slot(machine, slot, READABLE);
        }
    }

    fn answer(&mut self, line: u64, stage: Stage) {
        if let Some(it) = self.lines.get_mut(&line) {
            it.stage = stage;
        }
        self.tell(line, 0, WRITABLE);
    }

    // --- moving ---

    fn is_cut(&self, line: &Line) -> bool {
        let cut = |end: &End| {
            let plug = self.plugs.get(end.machine as usize);
            let address = end.address.ip();
            plug.is_some_and(|plug| plug.cuts > 0 || plug.cut_links.contains(&address))
        };
        line.ends.iter().any(cut)
    }

    /// Records a write of an end, and cuts off the bytes after the byte at which the line breaks. Returns true if
    /// the line breaks.
    pub(crate) fn wrote(&mut self, line: u64, at: usize, bytes: &mut Vec<u8>) -> bool {
        let Some(it) = self.lines.get_mut(&line) else {
            return false;
        };
        let end = &mut it.ends[at];
        let is_first = end.wrote == 0;
        if let Some(room) = HEAD_MAX.checked_sub(end.head.len()) {
            end.head.extend(bytes.iter().take(room));
        }
        let limit = it.breaks_at.filter(|(breaks, _)| *breaks == at);
        let left = limit.map(|(_, byte)| byte.saturating_sub(end.wrote));
        end.wrote += bytes.len() as u64;
        if at == 1 && is_first {
            self.answered(line);
        }
        match left {
            Some(left) if (bytes.len() as u64) >= left => {
                bytes.truncate(left as usize);
                true
            }
            _ => false,
        }
    }

    /// Handles the arrival of bytes. The first bytes for the acceptor are the connection request.
    fn begins(&mut self, line: u64, at: usize) {
        let is_answered = |line: &Line| line.ends[1].wrote > 0 || line.ends[1].took > 0;
        if at == 1 && self.lines.get(&line).is_some_and(|line| !is_answered(line)) {
            self.strike(line);
        }
    }

    fn answered(&mut self, line: u64) {
        let Some(it) = self.lines.get(&line) else {
            return;
        };
        match links::check_answer(it, self.lines.values()) {
            Ok(refused) => self.races += u64::from(refused),
            Err(what) => {
                self.wrong_answer.get_or_insert(what);
            }
        }
    }

    /// Triggers the faults of machines that wait for the arrival of a connection request.
    fn strike(&mut self, line: u64) {
        let Some(it) = self.lines.get(&line) else {
            return;
        };
        let machines = [it.ends[0].machine, it.ends[1].machine];
        for end in [plan::End::Dialler, plan::End::Acceptor] {
            let machine = machines[end.index()] as usize;
            let Some(plug) = self.plugs.get_mut(machine) else {
                continue;
            };
            if let Some((_, fault)) = plug.trap.take_if(|(trap, _)| *trap == end) {
                self.agenda.plan(self.now, Happening::Falls(fault));
            }
        }
    }

    /// Sends a parcel.
    pub(crate) fn send(&mut self, line: u64, from: usize, parcel: Parcel) {
        let jitter = match self.random.below(16) {
            0 => self.random.below(5_000_000),
            _ => self.random.below(20_000),
        };
        let Some(it) = self.lines.get_mut(&line) else {
            return;
        };
        let slow = it.ends.iter().filter_map(|end| {
            let plug = self.plugs.get(end.machine as usize)?;
            Some(u64::from(plug.slow))
        });
        let slow = slow.max().unwrap_or(1);
        let delay = jitter * slow + it.latency_ns * (slow - 1);
        let at = it.send(from, self.now, delay, parcel);
        self.agenda.plan(at, Happening::Arrival(line, 1 - from));
    }

    /// Processes the parcels that have arrived at an end of a line.
    pub(crate) fn arrival(&mut self, line: u64, at: usize) {
        let now = self.now;
        while let Some(it) = self.lines.get(&line) {
            if self.is_cut(it) {
                return;
            }
            let off = |machine: u32| {
                let plug = self.plugs.get(machine as usize);
                plug.is_some_and(|plug| plug.off > 0)
            };
            if it.ends[at].gone && off(it.ends[at].machine) {
                // No end acknowledges the parcel; the machine may be on again when the parcel is resent.
                return self
                    .agenda
                    .plan(now + AGAIN_NS, Happening::Arrival(line, at));
            }
            let Some(arrived) = self
                .lines
                .get_mut(&line)
                .and_then(|line| line.arrive(at, now))
            else {
                break;
            };
            match arrived {
                Arrived::Readable => {
                    self.tell(line, at, READABLE);
                    self.begins(line, at);
                }
                Arrived::Closed => self.tell(line, at, CLOSED),
                Arrived::NobodyThere => self.send(line, at, Parcel::Reset),
                Arrived::Ignored => {}
            }
        }
        if self.lines.get(&line).is_some_and(Line::is_over) {
            self.lines.remove(&line);
        }
    }

    /// Tells a writer that found the line full that there is room.
    pub(crate) fn room(&mut self, line: u64, at: usize) {
        let Some(it) = self.lines.get_mut(&line) else {
            return;
        };
        if std::mem::take(&mut it.ends[at].wants_room) {
            if it.room(at) > 0 {
                self.tell(line, at, WRITABLE);
            } else {
                it.ends[at].wants_room = true;
            }
        }
    }

    /// Closes an end when its last handle is dropped. As in TCP, unread bytes turn the end into a reset.
    pub(crate) fn close(&mut self, line: u64, at: usize) {
        let Some(it) = self.lines.get_mut(&line) else {
            return;
        };
        let end = &mut it.ends[at];
        if !end.open {
            return;
        }
        end.open = false;
        end.slot = None;
        let parcel = if end.inbox.is_empty() {
            Parcel::End
        } else {
            Parcel::Reset
        };
        end.inbox.clear();
        if it.stage == Stage::Up {
            self.send(line, at, parcel);
        } else {
            self.lines.remove(&line);
        }
    }

    // --- faults ---

    /// Switches off the power of a machine. The other ends are not told.
    pub(crate) fn power_off(&mut self, machine: u32) {
        let own = self
            .lines
            .values_mut()
            .flat_map(|line| line.ends.iter_mut())
            .filter(|end| end.machine == machine && end.open);
        for end in own {
            end.open = false;
            end.gone = true;
            end.slot = None;
            end.inbox.clear();
        }
        self.forget(machine);
    }

    /// Removes the pending readiness and the listeners of a machine's program.
    pub(crate) fn forget(&mut self, machine: u32) {
        if let Some(plug) = self.plugs.get_mut(machine as usize) {
            plug.news.clear();
        }
        let gone: Vec<SocketAddr> = self
            .listeners
            .iter()
            .filter(|(_, listener)| listener.machine == machine)
            .map(|(address, _)| *address)
            .collect();
        for address in gone {
            self.close_listener(address);
        }
    }

    /// Resets a connection at both ends.
    pub(crate) fn reset(&mut self, line: u64) {
        self.send(line, 0, Parcel::Reset);
        self.send(line, 1, Parcel::Reset);
    }

    /// Resets one of so many connections of a machine, at both ends.
    pub(crate) fn reset_some(&mut self, machine: u32, one_in: u64) {
        let of_machine = |line: &Line| {
            line.stage == Stage::Up && line.ends.iter().any(|end| end.machine == machine)
        };
        let lines: Vec<u64> = self
            .lines
            .iter()
            .filter(|(_, line)| of_machine(line))
            .map(|(number, _)| *number)
            .collect();
        for line in lines {
            if self.random.one_in(one_in) {
                self.reset(line);
            }
        }
    }

    /// Ends a cut: the data that the cut delayed is resent.
    pub(crate) fn heal(&mut self) {
        let lines: Vec<u64> = self.lines.keys().copied().collect();
        for line in lines {
            let at = self.now + AGAIN_NS + self.random.below(AGAIN_NS);
            self.agenda.plan(at, Happening::Arrival(line, 0));
            self.agenda.plan(at, Happening::Arrival(line, 1));
        }
    }
}

const READABLE: Readiness = Readiness {
    readable: true,
    writable: false,
    closed: false,
};
const WRITABLE: Readiness = Readiness {
    readable: false,
    writable: true,
    closed: false,
};
const CLOSED: Readiness = Readiness {
    readable: true,
    writable: true,
    closed: true,
};
