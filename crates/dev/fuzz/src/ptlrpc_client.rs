//! The client half of a mount check: a server that answers what it likes, when it likes.

use std::time::Duration;

use lnet_ptlrpc::client::{Ending, Exchange, Export, Limits, Outgoing, Service, Start, Step};
use lnet_ptlrpc::mount::{Facts, Mgs, Reach, TargetFacts, Way, Why, check};
use lnet_ptlrpc::server::{Answer, LogWriter, Served, Server};
use lnet_ptlrpc::{FileSystem, Target, mount};
use lnet_types::Time;

/// Whatever the server does, the conversation ends within its time and asks for nothing harmful, and what comes when it
/// is over changes nothing. The first byte chooses the conversation; each request takes what happens to it from the
/// bytes behind, and is answered honestly once there are no more.
pub fn ptlrpc_client(data: &[u8]) {
    let mut input = Input(data);
    let service = match input.byte() % 3 {
        0 => Service::Mgs,
        1 => Service::Mdt,
        _ => Service::Ost,
    };
    let mut play = Play {
        exchange: begin(service),
        server: Server::new(vec![mgs(), target(Service::Mdt), target(Service::Ost)]),
        now: BEGIN,
        all: Vec::new(),
    };
    play.run(&mut input);
    let took = play.now.saturating_since(BEGIN);
    assert!(took <= TOTAL, "it took {took:?}");
    assert_eq!(play.server.harm(), [] as [String; 0]);
    play.nothing_changes();
    play.verdict();
}

const BEGIN: Time = Time::from_secs(1);

/// How long all takes at most.
const TOTAL: Duration = Duration::from_secs(120);

/// More steps than any conversation has.
const STEPS_MAX: usize = 100_000;

/// The most answers that come again when all is over.
const KEPT_MAX: usize = 64;

/// The rest of the input.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        self.some(1).first().copied().unwrap_or(0)
    }

    fn some(&mut self, count: usize) -> &'a [u8] {
        let (some, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        some
    }
}

fn begin(service: Service) -> Exchange {
    let uuid = "d1fc5a72-0d0e-4cb6-9da1-e3f1d2c45ba6".to_owned();
    let name = name_of(service);
    let export = Export::new(service, name, uuid, 0x1122_3344_5566_7788);
    let start = Start {
        first_xid: 0x0006_536c_f000_0000,
        limits: Limits::within(TOTAL),
        now: BEGIN,
    };
    match service {
        Service::Mgs => Exchange::read_log(export, "fs1", start),
        Service::Mdt | Service::Ost => Exchange::knock(export, start),
    }
}

const fn name_of(service: Service) -> &'static str {
    match service {
        Service::Mgs => "MGS",
        Service::Mdt => "fs1-MDT0000_UUID",
        Service::Ost => "fs1-OST0000_UUID",
    }
}

fn target(service: Service) -> Served {
    Served::new(service, name_of(service))
}

fn mgs() -> Served {
    let node = 0x0002_0000_c0a8_010a;
    let nodes: &[&[(u64, &str)]] = &[&[(node, "192.168.1.10@tcp")]];
    let log = LogWriter::of_targets(&[("fs1-MDT0000", nodes), ("fs1-OST0000", nodes)]);
    let mut rules = LogWriter::default();
    rules.command(0xc_e016, 0, &["fs1", "tcp=krb5p"]);
    target(Service::Mgs)
        .log("fs1-client", log)
        .log("fs1-sptlrpc", rules)
        .ost_is_at(2, 0, &[node])
        .ost_is_at(5, 0, &[node + 1])
}

/// A conversation.
struct Play {
    exchange: Exchange,
    server: Server,
    now: Time,
    /// The last answers, which come again.
    all: Vec<Answer>,
}

impl Play {
    fn run(&mut self, input: &mut Input<'_>) {
        let has_ended = (0..STEPS_MAX).any(|_| self.is_over(input));
        assert!(has_ended, "the conversation does not end");
    }

    /// Takes one step. Returns whether the conversation was over before.
    fn is_over(&mut self, input: &mut Input<'_>) -> bool {
        match self.exchange.step(self.now) {
            Step::Over => return true,
            Step::Wait(until) => {
                assert!(until > self.now, "a wait that ends at once");
                self.now = until;
            }
            Step::Send(request) => {
                self.server.at(self.now.saturating_since(BEGIN));
                self.play(&request, input);
            }
        }
        false
    }

    /// Does with a request what the input says.
    fn play(&mut self, request: &Outgoing, input: &mut Input<'_>) {
        let what = input.byte();
        if what % 8 == 6 {
            if what & 8 != 0 {
                self.exchange.never_left();
            }
            if !self.exchange.hand_over(self.now) {
                self.exchange.unsent("the way is lost", self.now);
            }
            return;
        }
        let mut answers = self
            .server
            .request(request.portal, request.match_bits, &request.bytes);
        match what % 8 {
            1 => answers.iter_mut().for_each(|answer| edit(answer, input)),
            2 => answers.iter_mut().for_each(|answer| cut(answer, input)),
            3 => answers.clear(),
            4 => answers = vec![made_up(request, input)],
            5 => answers.extend(self.all.iter().take(KEPT_MAX).cloned()),
            7 => self.exchange.stop(self.now),
            _ => {}
        }
        for answer in answers {
            self.give(request, &answer);
            self.all.insert(0, answer);
        }
        self.all.truncate(KEPT_MAX);
    }

    fn give(&mut self, request: &Outgoing, answer: &Answer) {
        let bulk = request.bulk.map(|bulk| bulk.portal);
        if bulk == Some(answer.portal) {
            return self.exchange.bulk(answer.match_bits, &answer.bytes);
        }
        let len = answer.bytes.len();
        self.exchange
            .answer(answer.match_bits, &answer.bytes, len, self.now);
    }

    /// What the conversation found out.
    fn found(&self) -> String {
        let exchange = &self.exchange;
        let (ending, failure) = (exchange.ending(), exchange.failure());
        let (granted, statfs, log) = (exchange.granted(), exchange.statfs(), exchange.log());
        format!("{ending:?} {failure:?} {granted:?} {statfs:?} {log:?}")
    }

    /// Gives all answers once more to the conversation that is over.
    fn nothing_changes(&mut self) {
        let before = self.found();
        for answer in std::mem::take(&mut self.all) {
            let len = answer.bytes.len();
            self.exchange
                .answer(answer.match_bits, &answer.bytes, len, self.now);
            self.exchange.bulk(answer.match_bits, &answer.bytes);
        }
        assert_eq!(self.exchange.step(self.now), Step::Over);
        assert_eq!(self.found(), before);
    }

    /// The verdict about what the server said has three printable lines at most.
    fn verdict(&self) {
        let outcome = match (self.exchange.failure(), self.exchange.granted()) {
            (Some(failure), _) => Err(failure.clone()),
            (None, granted) => Ok(granted.copied().unwrap_or_default()),
        };
        let log = self.exchange.log();
        let (system, rules) = log
            .map(|(system, rules)| (system.clone(), rules.clone()))
            .unwrap_or_default();
        let mgs = Mgs {
            nids: Vec::new(),
            outcome: Some(outcome),
        };
        let facts = Facts {
            fs: "fs1".to_owned(),
            has_log: log.is_some(),
            mgs: vec![mgs],
            targets: targets(&system),
            problems: system.problems,
            rules,
            ..Facts::default()
        };
        let text = check(&facts).to_string();
        assert!(text.lines().count() <= 3, "{text:?}");
        let is_printable = |c: char| c == '\n' || !c.is_control();
        assert!(text.chars().all(is_printable), "{text:?}");
        if let Ending::Left(left) = self.exchange.ending() {
            assert_eq!(left.uuid.len(), 36);
        }
    }
}

/// Returns the targets of a log. Which of their NIDs answer depends on the texts of the NIDs.
fn targets(system: &FileSystem) -> Vec<TargetFacts> {
    let reaches = |nids: &Vec<String>| nids.iter().map(|nid| reach(nid)).collect::<Vec<Reach>>();
    let facts = |(name, target): (&String, &Target)| {
        let service = Service::of_target(name)?;
        let mut nodes = vec![reaches(&target.nids)];
        nodes.extend(target.failover.iter().map(reaches));
        Some(TargetFacts {
            name: name.clone(),
            service,
            index: target.index,
            is_inactive: target.is_inactive,
            nodes,
            now: reaches(&target.now),
            knocks: Vec::new(),
            is_unasked: false,
        })
    };
    system.targets.iter().filter_map(facts).collect()
}

fn reach(nid: &str) -> Reach {
    let from = "192.168.1.1@tcp".to_owned();
    let sum = nid.bytes().fold(0, u8::wrapping_add);
    let (way, answer) = match sum % 5 {
        0 => (Way::NoNet, mount::Answer::NotAsked),
        1 => (Way::Unreadable, mount::Answer::NotAsked),
        2 => {
            let seen = format!("no reply from {nid}");
            let why = Why::Silent;
            (Way::Direct { from }, mount::Answer::No { why, seen })
        }
        _ => (Way::Direct { from }, mount::Answer::Yes),
    };
    Reach {
        nid: nid.to_owned(),
        way,
        answer,
    }
}

/// Overwrites some bytes. The first 256 are those of the header, the body and the first buffers.
fn edit(answer: &mut Answer, input: &mut Input<'_>) {
    for _ in 0..input.byte() % 8 {
        let (at, value) = (usize::from(input.byte()), input.byte());
        if let Some(byte) = answer.bytes.get_mut(at) {
            *byte = value;
        }
    }
}

/// Makes an answer shorter or longer.
fn cut(answer: &mut Answer, input: &mut Input<'_>) {
    let len = answer.bytes.len();
    let wanted = usize::from(input.byte()) * (len / 192 + 1);
    answer.bytes.resize(wanted, input.byte());
}

/// Returns an answer of bytes of the input.
fn made_up(request: &Outgoing, input: &mut Input<'_>) -> Answer {
    let len = usize::from(input.byte()) * 4;
    Answer {
        portal: request.reply_portal,
        match_bits: request.match_bits,
        bytes: input.some(len).to_vec(),
        after: Duration::ZERO,
    }
}
