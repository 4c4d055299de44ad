//! Tests of the console against nodes that are frameworks without a network.

use std::cell::RefCell;

use super::*;
use crate::framework::{Effect, Framework, Verdict};
use crate::pattern::Check;
use crate::wire::{Message, Order, Params, TestRequest, decode_destinations};

/// Nodes that answer at once, and the requests that each of them received.
#[derive(Default)]
struct Fabric {
    nodes: RefCell<BTreeMap<Nid, Framework>>,
    said: RefCell<Vec<(Nid, Body, Option<bytes::Bytes>)>>,
    now: RefCell<Time>,
}

impl Fabric {
    fn of(nids: &[&str]) -> Self {
        let fabric = Self::default();
        let mut nodes = fabric.nodes.borrow_mut();
        nodes.extend(nids.iter().map(|text| (nid(text), Framework::default())));
        drop(nodes);
        fabric
    }

    fn answer(&self, request: &Request) -> Result<Body, CallError> {
        let mut nodes = self.nodes.borrow_mut();
        let node = nodes.get_mut(&request.target).ok_or(CallError::TimedOut)?;
        let message = Message::new(request.features, request.body);
        match node.handle(&message, *self.now.borrow()) {
            Verdict::Reply(_, body) => Ok(body),
            Verdict::Fetch(test, _) => {
                let list = request.source.as_ref();
                let list = list.and_then(|list| decode_destinations(list, Order::Little));
                Ok(node.add_client(&test, list).1)
            }
            Verdict::Drop => Err(CallError::TimedOut),
        }
    }

    /// Returns the requests that were received since the last call of this function.
    fn heard(&self) -> Vec<(Nid, Body, Option<bytes::Bytes>)> {
        self.said.borrow_mut().drain(..).collect()
    }
}

impl Caller for Fabric {
    fn call(&self, requests: Vec<Request>, _timeout: Duration) -> Vec<Result<Body, CallError>> {
        let answers = requests
            .iter()
            .map(|request| self.answer(request))
            .collect();
        let said = requests
            .into_iter()
            .map(|call| (call.target, call.body, call.source));
        self.said.borrow_mut().extend(said);
        answers
    }

    fn now(&self) -> Time {
        *self.now.borrow()
    }

    fn nid(&self) -> Nid {
        nid("10.0.0.1@tcp")
    }
}

fn nid(text: &str) -> Nid {
    text.parse().unwrap()
}

fn nids(texts: &[&str]) -> Vec<Nid> {
    texts.iter().map(|text| nid(text)).collect()
}

const SERVERS: [&str; 3] = ["10.0.0.11@tcp", "10.0.0.12@tcp", "10.0.0.13@tcp"];
const CLIENTS: [&str; 4] = [
    "10.0.0.21@tcp",
    "10.0.0.22@tcp",
    "10.0.0.23@tcp",
    "10.0.0.24@tcp",
];

/// Makes a console with a session, servers and clients.
fn console() -> Console<Fabric> {
    let all: Vec<&str> = SERVERS.into_iter().chain(CLIENTS).collect();
    let mut console = Console::new(Fabric::of(&all));
    console.new_session("s", 300, false, 7).unwrap();
    assert_eq!(console.add_group("servers", &nids(&SERVERS)).unwrap(), []);
    assert_eq!(console.add_group("clients", &nids(&CLIENTS)).unwrap(), []);
    console.add_batch("b").unwrap();
    console.caller.heard();
    console
}

fn pings(distribution: &str) -> Test {
    Test {
        kind: Kind::Ping,
        repeat: Some(3),
        concurrency: 2,
        stop_on_error: true,
        distribution: Distribution::parse(distribution).unwrap(),
        from: "clients".to_owned(),
        to: "servers".to_owned(),
    }
}

#[test]
fn a_session_is_made_at_every_node_once_and_removed_at_the_end() {
    let mut console = console();
    console.add_group("again", &nids(&SERVERS[..1])).unwrap();
    assert!(console.caller.heard().is_empty());
    assert_eq!(console.end_session().unwrap(), []);
    let removed = console.caller.heard();
    assert_eq!(removed.len(), 7);
    assert!(
        console
            .caller
            .nodes
            .borrow()
            .values()
            .all(|node| node.session().is_none())
    );
    assert_eq!(console.end_session().unwrap_err(), ConsoleError::NoSession);
}

#[test]
fn a_node_of_another_console_is_busy_and_one_that_is_silent_is_down() {
    let mut other = Console::new(Fabric::of(&["10.0.0.11@tcp"]));
    other.new_session("other", 300, false, 1).unwrap();
    other.add_group("g", &nids(&["10.0.0.11@tcp"])).unwrap();
    let mut console = Console::new(other.caller);
    console.new_session("s", 300, false, 2).unwrap();
    let failures = console
        .add_group("g", &nids(&["10.0.0.11@tcp", "10.0.0.99@tcp"]))
        .unwrap();
    assert_eq!(failures[0].1, Err(ConsoleError::Refused(EBUSY)));
    assert_eq!(failures[1].1, Err(ConsoleError::Call(CallError::TimedOut)));
    let session = console.session().unwrap();
    assert_eq!(session.state(nid("10.0.0.11@tcp")), State::Busy);
    assert_eq!(session.state(nid("10.0.0.99@tcp")), State::Down);
    console.clean_group("g", &[State::Down], &[]).unwrap();
    let group = console.session().unwrap().group("g").unwrap().nodes.clone();
    assert_eq!(group, nids(&["10.0.0.11@tcp"]));
}

#[test]
fn force_takes_a_node_from_another_console() {
    let mut console = console();
    console.new_session("next", 300, true, 8).unwrap();
    assert_eq!(console.add_group("g", &nids(&SERVERS)).unwrap(), []);
    assert_eq!(
        console.session().unwrap().state(nid(SERVERS[0])),
        State::Active
    );
}

// [LST-18]
#[test]
fn a_test_goes_to_its_servers_and_then_to_its_clients() {
    let mut console = console();
    assert_eq!(console.add_test("b", pings("1:1")).unwrap(), []);
    let said = console.caller.heard();
    let to: Vec<Nid> = said.iter().map(|(nid, ..)| *nid).collect();
    let all: Vec<&str> = SERVERS.into_iter().chain(CLIENTS).collect();
    assert_eq!(to, nids(&all));
    let test = |at: usize| match said[at].1 {
        Body::TestRequest(test) => test,
        other => panic!("{other:?}"),
    };
    // Two of the four clients load the first server, with two units each.
    let expected = TestRequest {
        session: console.session().unwrap().id,
        batch: 2,
        service: 12,
        repeat: 4,
        concurrency: 2,
        stop_on_error: 1,
        params: Params::Ping { size: 0, flags: 0 },
        ..TestRequest::default()
    };
    assert_eq!(test(0), expected);
    let expected = TestRequest {
        repeat: 3,
        is_client: 1,
        destinations: 1,
        ..expected
    };
    assert_eq!(test(3), expected);
}

#[test]
fn clients_and_servers_are_distributed_in_rows() {
    let servers = nids(&SERVERS);
    let of = |text: &str, client| {
        let distribution = Distribution::parse(text).unwrap();
        let list = distribution.servers_of(client, &servers);
        list.iter()
            .map(|nid| nid.number() & 0xFF)
            .collect::<Vec<_>>()
    };
    assert_eq!((of("1:1", 0), of("1:1", 3)), (vec![11], vec![11]));
    assert_eq!((of("2:1", 1), of("2:1", 2)), (vec![11], vec![12]));
    assert_eq!((of("3:2", 0), of("3:2", 3)), (vec![11, 12], vec![13, 11]));
    assert_eq!(of("1:9", 1), [11, 12, 13]);
    for wrong in ["", "1", "0:1", "1:0", "a:b", "1:1:1"] {
        assert!(Distribution::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_batch_runs_at_its_clients_and_is_idle_when_none_of_them_runs() {
    let mut console = console();
    console.add_test("b", pings("1:1")).unwrap();
    console.caller.heard();
    assert_eq!(console.run("b").unwrap(), []);
    let told: Vec<Nid> = console
        .caller
        .heard()
        .iter()
        .map(|(nid, ..)| *nid)
        .collect();
    assert_eq!(told, nids(&CLIENTS));
    let active = |console: &mut Console<Fabric>| {
        let answers = console.query("b", 0).unwrap();
        let active = answers
            .into_iter()
            .map(|(_, answer)| answer.unwrap().active);
        active.sum::<u32>()
    };
    assert_eq!(active(&mut console), 4);
    assert_eq!(console.run("b"), Err(ConsoleError::Running("b".to_owned())));
    assert_eq!(
        console.add_test("b", pings("1:1")),
        Err(ConsoleError::Running("b".to_owned()))
    );
    for node in console.caller.nodes.borrow_mut().values_mut() {
        while let Some(effect) = node.poll_effect() {
            if let Effect::Start(test, _) = effect {
                node.ended(test);
            }
        }
    }
    assert_eq!(active(&mut console), 0);
    assert_eq!(
        console.session().unwrap().batch("b").unwrap().state,
        BatchState::Idle
    );
}

#[test]
fn what_does_not_exist_is_named() {
    let mut console = console();
    let error = |result: Result<(), ConsoleError>| result.unwrap_err().to_string();
    assert_eq!(error(console.del_group("g")), "there is no group g");
    assert_eq!(error(console.run("x").map(drop)), "there is no batch x");
    assert_eq!(error(console.run("b").map(drop)), "batch b has no tests");
    assert_eq!(
        error(console.query("b", 1).map(drop)),
        "there is no test 1 in batch b"
    );
    assert_eq!(error(console.add_batch("b")), "batch b exists");
    assert_eq!(
        error(console.add_group("servers", &nids(&CLIENTS)).map(drop)),
        "group servers exists"
    );
    let long = "n".repeat(32);
    assert!(error(console.add_batch(&long)).contains("is not a name"));
}

#[test]
fn a_group_that_a_test_uses_stays() {
    let mut console = console();
    console.add_test("b", pings("1:1")).unwrap();
    let in_use = Err(ConsoleError::GroupInUse("clients".to_owned()));
    assert_eq!(console.del_group("clients"), in_use);
    console.del_batch("b").unwrap();
    console.del_group("clients").unwrap();
}

#[test]
fn a_large_nid_is_no_destination_of_a_test() {
    let mut console = Console::new(Fabric::of(&["fd00::1@tcp", CLIENTS[0]]));
    console.new_session("s", 300, false, 7).unwrap();
    console
        .add_group("servers", &nids(&["fd00::1@tcp"]))
        .unwrap();
    console.add_group("clients", &nids(&CLIENTS[..1])).unwrap();
    let error = console.add_test("batch", pings("1:1")).unwrap_err();
    assert_eq!(
        error,
        ConsoleError::LargeDestination("fd00::1@tcp".to_owned())
    );
}

// [LST-17]
#[test]
fn nodes_that_heard_nothing_for_half_a_timeout_are_spoken_to() {
    let mut console = console();
    assert!(!console.keep_alive());
    *console.caller.now.borrow_mut() = Time::ZERO + SESSION_TIMEOUT / 2;
    assert!(console.keep_alive());
    let said = console.caller.heard();
    assert_eq!(said.len(), 7);
    assert!(matches!(said[0].1, Body::DebugRequest(_)));
    assert!(!console.keep_alive());
}

#[test]
fn a_node_that_forgot_the_session_is_unknown_until_it_is_refreshed() {
    let mut console = console();
    let node = nid(SERVERS[0]);
    *console.caller.nodes.borrow_mut().get_mut(&node).unwrap() = Framework::default();
    let answers = console.stat(&[node]).unwrap();
    assert_eq!(answers[0].1, Err(ConsoleError::Refused(ESRCH)));
    assert_eq!(console.session().unwrap().state(node), State::Unknown);
    assert_eq!(console.refresh_group("servers").unwrap(), []);
    assert_eq!(console.session().unwrap().state(node), State::Active);
}

#[test]
fn parameters_of_a_test_are_those_of_lst() {
    let parse = |text: &str| {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        parse_parameters(&words)
    };
    let bulk = |is_write, len, check, offset| {
        Ok(Kind::Bulk {
            is_write,
            len,
            check,
            offset,
        })
    };
    assert_eq!(parse("ping"), Ok(Kind::Ping));
    assert_eq!(parse("brw"), bulk(false, 4096, Check::None, 0));
    let both = parse("brw read write").unwrap_err().to_string();
    assert!(both.contains("a test for each"), "{both}");
    assert_eq!(
        parse("brw write size=1M check=full"),
        bulk(true, 1 << 20, Check::Full, 0)
    );
    assert_eq!(
        parse("brw read size=64K off=8 check=discard"),
        bulk(false, 65_536, Check::Discard, 8)
    );
    for wrong in [
        "",
        "pong",
        "ping size=4",
        "brw size=2M",
        "brw size=0",
        "brw size=4G",
        "brw check=some",
        "brw off=4096",
        "brw off=3",
        "brw sideways",
    ] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}
