//! The reference: plain lists in order of arrival, searched from the front.

use super::Said;
use crate::zbmi::*;

/// Milliseconds.
pub(super) type Ms = u64;

/// A deliberately wrong rule, to prove that the comparison notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The newest post is claimed first.
    NewestFirst,
    /// A cancel also ends claimed posts.
    CancelClaimed,
    /// A test counts posts of other clients.
    CountOthers,
    /// Messages are fetched in the order in which their last bytes arrive.
    Overtaking,
    /// Waiting calls are never answered.
    NoDeadlines,
    /// A message larger than its buffer is truncated.
    Truncate,
}

struct Posted {
    bmi: u64,
    peer: usize,
    way: Direction,
    tag: i32,
    size: u64,
    /// The unanswered call.
    call: Option<u64>,
    held_until: Option<Ms>,
    moving: bool,
    cancelled: bool,
}

#[derive(Clone)]
pub(super) enum What {
    Message { way: Direction, tag: i32, size: u64 },
    Memory { tag: i32, class: u8 },
    Test(Vec<TestEntry>),
}

struct Wait {
    request: u32,
    peer: usize,
    what: What,
    until: Ms,
}

#[derive(Clone, Copy, PartialEq)]
enum To {
    Post(u64),
    Letter(i32),
}

struct Move {
    request: u32,
    peer: usize,
    way: Direction,
    total: u64,
    to: To,
    since: Ms,
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Coming,
    Here,
    Ready,
    Taken,
}

struct Letter {
    tag: i32,
    peer: usize,
    class: u8,
    stage: Stage,
}

enum Sleep {
    Test { ids: Option<Vec<u64>>, wake: bool },
    Fetch { class: u8, capacity: usize },
}

struct Sleeper {
    call: u64,
    until: Ms,
    what: Sleep,
}

type Ended = Result<u64, Errno>;

pub(super) struct Reference {
    fault: Option<Fault>,
    hold: Ms,
    stall: Ms,
    slots: usize,
    now: Ms,
    posts: Vec<Posted>,
    waits: Vec<Wait>,
    moves: Vec<Move>,
    letters: Vec<Letter>,
    ready: Vec<i32>,
    done: Vec<(u64, Ended)>,
    sleepers: Vec<Sleeper>,
    progressed: Vec<(usize, Direction, Ms)>,
    pub(super) said: Vec<Said>,
}

impl Reference {
    pub(super) fn new(hold: Ms, stall: Ms, slots: usize, fault: Option<Fault>) -> Self {
        Self {
            fault,
            hold,
            stall,
            slots,
            now: 0,
            posts: Vec::new(),
            waits: Vec::new(),
            moves: Vec::new(),
            letters: Vec::new(),
            ready: Vec::new(),
            done: Vec::new(),
            sleepers: Vec::new(),
            progressed: Vec::new(),
            said: Vec::new(),
        }
    }

    // Clients.

    pub(super) fn call(&mut self, peer: usize, request: u32, what: What, wait: Ms) {
        if self.try_now(peer, request, &what) {
            return;
        }
        if wait > 0 {
            let until = self.now + wait;
            self.waits.push(Wait {
                request,
                peer,
                what,
                until,
            });
        } else {
            self.in_vain(request, &what);
        }
    }

    fn try_now(&mut self, peer: usize, request: u32, what: &What) -> bool {
        match *what {
            What::Message { way, tag, size } => {
                let mut mine = self.posts.iter().filter(|post| {
                    !post.moving && post.peer == peer && post.way == way && post.tag == tag
                });
                let found = match self.fault {
                    Some(Fault::NewestFirst) => mine.next_back(),
                    _ => mine.next(),
                };
                let Some(bmi) = found.map(|post| post.bmi) else {
                    return false;
                };
                self.begin_transfer(peer, request, size, bmi);
                true
            }
            What::Memory { tag, class } => {
                let waited_for = self
                    .waits
                    .iter()
                    .any(|wait| matches!(wait.what, What::Memory { .. }));
                if waited_for || self.letters.len() == self.slots {
                    return false;
                }
                self.accept(peer, request, tag, class);
                true
            }
            What::Test(ref entries) => {
                let ready = self.readiness(peer, entries);
                let any = ready.iter().any(|&count| count > 0);
                if any {
                    self.said.push(Said::Ready(request, ready));
                }
                any
            }
        }
    }

    fn in_vain(&mut self, request: u32, what: &What) {
        self.said.push(match what {
            What::Test(entries) => Said::Ready(request, vec![0; entries.len()]),
            What::Message { .. } | What::Memory { .. } => Said::NotNow(request),
        });
    }

    fn readiness(&self, peer: usize, entries: &[TestEntry]) -> Vec<u32> {
        let memory_waited_for = self
            .waits
            .iter()
            .any(|wait| matches!(wait.what, What::Memory { .. }));
        let mut free = if memory_waited_for {
            0
        } else {
            self.slots - self.letters.len()
        };
        let mut counted: Vec<u64> = Vec::new();
        let mut ready = Vec::new();
        for entry in entries {
            let mut count = 0;
            while count < entry.multiplicity {
                match entry.kind {
                    TestKind::Unexpected { .. } => {
                        if free == 0 {
                            break;
                        }
                        free -= 1;
                    }
                    TestKind::Expected(way, tag) => {
                        let others = self.fault == Some(Fault::CountOthers);
                        let found = self.posts.iter().find(|post| {
                            let mine = post.peer == peer || others;
                            let fits = post.way == way && post.tag == tag.0;
                            mine && fits && !post.moving && !counted.contains(&post.bmi)
                        });
                        let Some(post) = found else { break };
                        counted.push(post.bmi);
                    }
                }
                count += 1;
            }
            ready.push(count);
        }
        ready
    }

    pub(super) fn wake(&mut self, request: u32) {
        if let Some(at) = self.waits.iter().position(|wait| wait.request == request) {
            let wait = self.waits.remove(at);
            self.in_vain(request, &wait.what);
        }
    }

    pub(super) fn lose(&mut self, peer: usize) {
        self.waits.retain(|wait| wait.peer != peer);
        while let Some(at) = self.moves.iter().position(|moving| moving.peer == peer) {
            self.stop(at, false);
        }
        while let Some(bmi) = self
            .posts
            .iter()
            .find(|post| post.peer == peer)
            .map(|post| post.bmi)
        {
            self.end(bmi, Err(Errno::ConnectionReset));
        }
        self.serve();
    }

    // Transfers.

    fn begin_transfer(&mut self, peer: usize, request: u32, size: u64, bmi: u64) {
        let truncate = self.fault == Some(Fault::Truncate);
        let post = self.post(bmi);
        post.moving = true;
        post.held_until = None;
        let way = post.way;
        let (total, room) = match way {
            Direction::ToServer => (size, post.size),
            Direction::ToClient => (post.size, size),
        };
        if total > room && !truncate {
            self.said.push(Said::Failed(request, Errno::MessageSize));
            return self.end(bmi, Err(Errno::MessageSize));
        }
        self.begin(peer, request, way, total.min(room), To::Post(bmi));
    }

    fn accept(&mut self, peer: usize, request: u32, tag: i32, class: u8) {
        self.letters.push(Letter {
            tag,
            peer,
            class,
            stage: Stage::Coming,
        });
        self.begin(peer, request, Direction::ToServer, 8, To::Letter(tag));
    }

    fn begin(&mut self, peer: usize, request: u32, way: Direction, total: u64, to: To) {
        let since = self.now;
        self.moves.push(Move {
            request,
            peer,
            way,
            total,
            to,
            since,
        });
        self.said.push(Said::Moves(request, total));
    }

    fn take_move(&mut self, request: u32) -> Option<Move> {
        let at = self
            .moves
            .iter()
            .position(|moving| moving.request == request)?;
        Some(self.moves.remove(at))
    }

    pub(super) fn finish(&mut self, request: u32) {
        let Some(over) = self.take_move(request) else {
            return;
        };
        if over.way == Direction::ToServer {
            self.said.push(Said::Sent(request));
        }
        match over.to {
            To::Post(bmi) => self.end(bmi, Ok(over.total)),
            To::Letter(tag) => self.letter_here(tag),
        }
    }

    /// The client aborts a grant, or rejects a message.
    pub(super) fn abort(&mut self, request: u32) {
        let Some(over) = self.take_move(request) else {
            return;
        };
        match (over.way, over.to) {
            (Direction::ToClient, To::Post(bmi)) => self.end(bmi, Err(Errno::ConnectionReset)),
            (_, To::Post(bmi)) => {
                self.said.push(Said::NotNow(request));
                self.put_back(bmi);
            }
            (_, To::Letter(tag)) => {
                self.said.push(Said::NotNow(request));
                self.drop_letter(tag);
                self.serve();
            }
        }
    }

    fn put_back(&mut self, bmi: u64) {
        let post = self.post(bmi);
        post.moving = false;
        if post.cancelled {
            return self.end(bmi, Err(Errno::Canceled));
        }
        if let Some(call) = post.call.take() {
            self.said.push(Said::Registered(call));
        }
        if !self.find_waiting(bmi) {
            self.flag_for(bmi);
        }
    }

    pub(super) fn progress(&mut self, request: u32) {
        if let Some(moving) = self.moves.iter().find(|moving| moving.request == request) {
            self.progressed.push((moving.peer, moving.way, self.now));
        }
    }

    fn stop(&mut self, at: usize, told: bool) {
        let over = self.moves.remove(at);
        self.said.push(Said::Stopped(over.request));
        if told {
            self.said
                .push(Said::Failed(over.request, Errno::ConnectionReset));
        }
        match over.to {
            To::Post(bmi) => self.end(bmi, Err(Errno::ConnectionReset)),
            To::Letter(tag) => self.drop_letter(tag),
        }
    }

    // Unexpected messages.

    fn letter(&mut self, tag: i32) -> &mut Letter {
        self.letters
            .iter_mut()
            .find(|letter| letter.tag == tag)
            .unwrap()
    }

    fn letter_here(&mut self, tag: i32) {
        self.letter(tag).stage = Stage::Here;
        self.sort_letters();
    }

    fn drop_letter(&mut self, tag: i32) {
        self.letters.retain(|letter| letter.tag != tag);
        self.sort_letters();
    }

    /// Moves messages that have arrived and that no earlier message of their stream blocks.
    fn sort_letters(&mut self) {
        for at in 0..self.letters.len() {
            let letter = &self.letters[at];
            let mut before = self.letters[..at].iter();
            let held_up = before.any(|other| {
                other.peer == letter.peer
                    && other.class == letter.class
                    && other.stage == Stage::Coming
            });
            let overtakes = self.fault == Some(Fault::Overtaking);
            if letter.stage == Stage::Here && (!held_up || overtakes) {
                let (tag, class) = (letter.tag, letter.class);
                self.letters[at].stage = Stage::Ready;
                self.ready.push(tag);
                self.announce(class);
            }
        }
    }

    fn announce(&mut self, class: u8) {
        let fetcher = self.sleepers.iter().position(
            |sleeper| matches!(sleeper.what, Sleep::Fetch { class: wanted, .. } if wanted == class),
        );
        if let Some(at) = fetcher
            && let Sleep::Fetch { capacity, .. } = self.sleepers[at].what
        {
            let call = self.sleepers.remove(at).call;
            let tags = self.take_letters(class, capacity);
            self.said.push(Said::Messages(call, tags, false));
        }
        let wakes = |sleeper: &Sleeper| matches!(sleeper.what, Sleep::Test { wake: true, .. });
        while let Some(at) = self.sleepers.iter().position(wakes) {
            let call = self.sleepers.remove(at).call;
            self.said
                .push(Said::Ended(call, Vec::new(), !self.ready.is_empty(), false));
        }
    }

    fn take_letters(&mut self, class: u8, capacity: usize) -> Vec<i32> {
        let mut taken = Vec::new();
        for tag in self.ready.clone() {
            if self.letter(tag).class == class && taken.len() < capacity {
                self.letter(tag).stage = Stage::Taken;
                taken.push(tag);
            }
        }
        self.ready.retain(|tag| !taken.contains(tag));
        taken
    }

    fn serve(&mut self) {
        while self.letters.len() < self.slots {
            let is_memory = |wait: &Wait| matches!(wait.what, What::Memory { .. });
            let Some(at) = self.waits.iter().position(is_memory) else {
                break;
            };
            let wait = self.waits.remove(at);
            if let What::Memory { tag, class } = wait.what {
                self.accept(wait.peer, wait.request, tag, class);
            }
        }
        self.flag(
            |entry| matches!(entry.kind, TestKind::Unexpected { .. }),
            None,
        );
    }

    // The server.

    fn post(&mut self, bmi: u64) -> &mut Posted {
        self.posts.iter_mut().find(|post| post.bmi == bmi).unwrap()
    }

    /// Posts an operation whose id is that of the call.
    pub(super) fn post_new(
        &mut self,
        call: u64,
        peer: usize,
        key: (Direction, i32),
        size: u64,
        not_immediate: bool,
    ) {
        let bmi = call;
        let (way, tag) = key;
        let unanswered = (!not_immediate).then_some(call);
        self.posts.push(Posted {
            bmi,
            peer,
            way,
            tag,
            size,
            call: unanswered,
            held_until: None,
            moving: false,
            cancelled: false,
        });
        if not_immediate {
            self.said.push(Said::Registered(call));
        }
        if self.find_waiting(bmi) {
            return;
        }
        let told = self.flag_for(bmi);
        let (until, hold) = (self.now + self.hold, self.hold);
        let post = self.post(bmi);
        if told && hold > 0 && !not_immediate {
            post.held_until = Some(until);
        } else if let Some(call) = post.call.take() {
            self.said.push(Said::Registered(call));
        }
    }

    /// Matches a post with the call that has waited longest for it.
    fn find_waiting(&mut self, bmi: u64) -> bool {
        let post = self.post(bmi);
        let key = (post.peer, post.way, post.tag);
        let found = self.waits.iter().position(|wait| match wait.what {
            What::Message { way, tag, .. } => (wait.peer, way, tag) == key,
            What::Memory { .. } | What::Test(_) => false,
        });
        let Some(at) = found else {
            return false;
        };
        let wait = self.waits.remove(at);
        if let What::Message { size, .. } = wait.what {
            self.begin_transfer(wait.peer, wait.request, size, bmi);
        }
        true
    }

    fn flag_for(&mut self, bmi: u64) -> bool {
        let post = self.post(bmi);
        let (kind, peer) = (TestKind::Expected(post.way, Tag(post.tag)), post.peer);
        self.flag(
            |entry| entry.kind == kind && entry.multiplicity > 0,
            Some(peer),
        )
    }

    fn flag(&mut self, asks: impl Fn(&TestEntry) -> bool, only: Option<usize>) -> bool {
        let mut told = Vec::new();
        for wait in &self.waits {
            if let What::Test(entries) = &wait.what
                && only.is_none_or(|peer| peer == wait.peer)
                && entries.iter().any(&asks)
            {
                let ready = self.readiness(wait.peer, entries);
                if ready.iter().any(|&count| count > 0) {
                    told.push((wait.request, ready));
                }
            }
        }
        self.waits
            .retain(|wait| told.iter().all(|(request, _)| *request != wait.request));
        let any = !told.is_empty();
        self.said.extend(
            told.into_iter()
                .map(|(request, ready)| Said::Ready(request, ready)),
        );
        any
    }

    pub(super) fn cancel(&mut self, bmi: u64) {
        let whatever = self.fault == Some(Fault::CancelClaimed);
        let Some(post) = self.posts.iter_mut().find(|post| post.bmi == bmi) else {
            return;
        };
        if post.moving && !whatever {
            post.cancelled = true;
        } else {
            self.moves.retain(|moving| moving.to != To::Post(bmi));
            self.end(bmi, Err(Errno::Canceled));
        }
    }

    fn end(&mut self, bmi: u64, result: Ended) {
        let at = self.posts.iter().position(|post| post.bmi == bmi).unwrap();
        let post = self.posts.remove(at);
        match (post.call, result) {
            (Some(call), Ok(size)) => return self.said.push(Said::Immediate(call, size)),
            (Some(call), Err(_)) => self.said.push(Said::Registered(call)),
            (None, _) => {}
        }
        let covers = |sleeper: &Sleeper| match &sleeper.what {
            Sleep::Test { ids, .. } => ids.as_ref().is_none_or(|ids| ids.contains(&bmi)),
            Sleep::Fetch { .. } => false,
        };
        if let Some(at) = self.sleepers.iter().position(covers) {
            let call = self.sleepers.remove(at).call;
            let pending = !self.ready.is_empty();
            self.said
                .push(Said::Ended(call, vec![(bmi, result)], pending, false));
        } else {
            self.done.push((bmi, result));
        }
    }

    pub(super) fn test(
        &mut self,
        call: u64,
        ids: Option<Vec<u64>>,
        capacity: usize,
        wait: Ms,
        wake: bool,
    ) {
        let known = |bmi: &u64| {
            self.posts.iter().any(|post| post.bmi == *bmi)
                || self.done.iter().any(|done| done.0 == *bmi)
        };
        let ids = ids.map(|mut ids| {
            ids.retain(known);
            ids.sort_unstable();
            ids.dedup();
            ids
        });
        if ids.as_ref().is_some_and(Vec::is_empty) {
            return self.said.push(Said::Refused(call, Errno::Invalid));
        }
        let ended: Vec<(u64, Ended)> = match &ids {
            None => self.done.iter().take(capacity).copied().collect(),
            Some(ids) => {
                let find = |bmi: &u64| self.done.iter().find(|done| done.0 == *bmi).copied();
                ids.iter().filter_map(find).collect()
            }
        };
        self.done.retain(|done| !ended.contains(done));
        let pending = !self.ready.is_empty();
        if ended.is_empty() && wait > 0 && !(wake && pending) {
            let until = self.now + wait;
            self.sleepers.push(Sleeper {
                call,
                until,
                what: Sleep::Test { ids, wake },
            });
        } else {
            self.said.push(Said::Ended(call, ended, pending, false));
        }
    }

    pub(super) fn fetch(&mut self, call: u64, class: u8, capacity: usize, wait: Ms) {
        let tags = self.take_letters(class, capacity);
        if tags.is_empty() && wait > 0 {
            let until = self.now + wait;
            self.sleepers.push(Sleeper {
                call,
                until,
                what: Sleep::Fetch { class, capacity },
            });
        } else {
            self.said.push(Said::Messages(call, tags, false));
        }
    }

    pub(super) fn free(&mut self, tag: i32) {
        self.letters
            .retain(|letter| letter.tag != tag || letter.stage != Stage::Taken);
        self.serve();
    }

    pub(super) fn server_wake(&mut self) {
        for sleeper in std::mem::take(&mut self.sleepers) {
            self.rise(&sleeper, true);
        }
    }

    fn rise(&mut self, sleeper: &Sleeper, woken: bool) {
        let call = sleeper.call;
        self.said.push(match sleeper.what {
            Sleep::Test { .. } => Said::Ended(call, Vec::new(), !self.ready.is_empty(), woken),
            Sleep::Fetch { .. } => Said::Messages(call, Vec::new(), woken),
        });
    }

    pub(super) fn server_leaves(&mut self, how: Departure) {
        let asleep = self.sleepers.drain(..).map(|sleeper| sleeper.call);
        let posting = self.posts.iter_mut().filter_map(|post| post.call.take());
        let calls: Vec<u64> = asleep.chain(posting).collect();
        if how == Departure::Orderly {
            self.said.extend(
                calls
                    .into_iter()
                    .map(|call| Said::Refused(call, Errno::NetDown)),
            );
        }
        let of_post = |moving: &Move| matches!(moving.to, To::Post(_));
        while let Some(at) = self.moves.iter().position(of_post) {
            self.stop(at, true);
        }
        self.posts.clear();
        self.done.clear();
        self.letters.retain(|letter| letter.stage != Stage::Taken);
        self.serve();
    }

    // Time.

    pub(super) fn pass(&mut self, duration: Ms) {
        let end = self.now + duration;
        while self.now < end {
            self.now += 1;
            self.due();
        }
    }

    /// Handles what expires at this millisecond: calls, commands, holds, stalls.
    fn due(&mut self) {
        let now = self.now;
        if self.fault != Some(Fault::NoDeadlines) {
            while let Some(at) = self.waits.iter().position(|wait| wait.until == now) {
                let wait = self.waits.remove(at);
                self.in_vain(wait.request, &wait.what);
            }
        }
        while let Some(at) = self
            .sleepers
            .iter()
            .position(|sleeper| sleeper.until == now)
        {
            let sleeper = self.sleepers.remove(at);
            self.rise(&sleeper, false);
        }
        for post in self
            .posts
            .iter_mut()
            .filter(|post| post.held_until == Some(now))
        {
            post.held_until = None;
            self.said.extend(post.call.take().map(Said::Registered));
        }
        let stall = self.stall;
        let stalled = |moving: &Move, progressed: &[(usize, Direction, Ms)]| {
            let stream = progressed
                .iter()
                .filter(|(peer, way, _)| (*peer, *way) == (moving.peer, moving.way));
            let last = stream.map(|(_, _, at)| *at).max().unwrap_or(0);
            last.max(moving.since) + stall <= now
        };
        while let Some(at) = self
            .moves
            .iter()
            .position(|moving| stalled(moving, &self.progressed))
        {
            self.stop(at, true);
            self.serve();
        }
    }
}
