//! Tests that feed samples and keys to the view, and compare the drawn screens with `frames/NAME.txt`. With
//! `FINERAIL_OVERWRITE=1` they write these files.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::path::Path;
use std::time::Duration;
use std::{env, fs};

use lnet_dlc::protocol::{
    Condition, NiNumbers, NodeNumbers, O2ibNumber, PeerNiNumbers, PoolNumbers, RouteNumbers,
    RpcNumbers, RpcRow, RpcTable, RpcTold, ServiceNumber, Traffic,
};
use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;

use super::frame::Page;
use super::keys::{Action, action};
use super::model::Model;
use super::sample::Sample;
use super::{interval, plain, screen, wants_colours};

const SECOND: u64 = 1_000_000_000;

fn traffic(at: u64, weight: u64) -> Traffic {
    Traffic {
        sent: at * weight,
        sent_bytes: at * weight * 1000,
        received: at * weight / 2,
        received_bytes: at * weight * 10,
        dropped: at * (weight / 100),
        failures: at * (weight / 500),
    }
}

fn condition(health: u16, credits: i64) -> Condition {
    Condition {
        up: health > 0,
        health,
        recovering: health < 500,
        credits,
        credits_max: 8,
    }
}

fn ni(nid: &str, at: u64, weight: u64) -> NiNumbers {
    NiNumbers {
        nid: nid.to_owned(),
        condition: Condition {
            credits: 250,
            credits_max: 256,
            ..condition(1000, 0)
        },
        traffic: traffic(at, weight),
        round_trips: vec![(50_000, at * 9), (2_000_000, at), (0, 0)],
    }
}

fn peer(number: u64, at: u64) -> PeerNiNumbers {
    PeerNiNumbers {
        nid: format!("10.0.{}.{}@tcp", number / 250, number % 250 + 1),
        primary: (number % 7 == 3).then(|| "10.9.9.9@tcp".to_owned()),
        condition: condition(
            [1000, 1000, 900, 400, 0][number as usize % 5],
            8 - (number as i64 % 12),
        ),
        traffic: traffic(at, number),
        queued_bytes: number * 4096,
    }
}

fn route(net: &str, gateway: &str, up: bool, at: u64) -> RouteNumbers {
    RouteNumbers {
        net: net.to_owned(),
        gateway: gateway.to_owned(),
        up,
        hops: up.then_some(1),
        priority: 0,
        sent: at * 10,
        sent_bytes: at * 10_000,
        dropped: if up { 0 } else { at },
    }
}

/// Returns the counters of a router `at` seconds after its start.
fn sample(at: u64, peers: u64) -> Sample {
    let pool = |buffers, credits| PoolNumbers {
        buffers,
        credits,
        min_credits: credits,
    };
    Sample {
        rpcs: RpcNumbers::default(),
        o2ib: Vec::new(),
        node: NodeNumbers {
            uptime_nanos: at * SECOND,
            nids: vec!["10.0.0.1@tcp".into(), "10.1.0.1@tcp1".into()],
            routing: true,
            routing_change: None,
            sent: at * 1234,
            sent_bytes: at * 5_000_000,
            received: at * 617,
            received_bytes: at * 12_340,
            routed: at * 1000,
            routed_bytes: at * 4_000_000,
            dropped: at * 2,
            resends: at / 2,
            resends_failed: 0,
            response_timeouts: 0,
            failures: at,
            events_lost: 0,
            under_way: 3,
            resend_queue: 1,
            connections: 6,
            pools: vec![pool(512, 512), pool(4096, 4090), pool(256, -2)],
        },
        nis: vec![ni("10.0.0.1@tcp", at, 1000), ni("10.1.0.1@tcp1", at, 234)],
        routes: vec![
            route("tcp7", "10.1.0.9@tcp1", true, at),
            route("tcp8", "10.1.0.8@tcp1", false, at),
        ],
        peer_nis: (0..peers).map(|number| peer(number, at)).collect(),
        service: Vec::new(),
    }
}

/// Returns the counters of a node with a storage gateway.
fn gateway_sample(at: u64) -> Sample {
    let number = |(name, value, is_counter): (&str, u64, bool)| ServiceNumber {
        name: name.to_owned(),
        value,
        is_counter,
    };
    let service = [
        ("rpc_sessions", 12, false),
        ("rpc_running", 3, false),
        ("rpc_requests", at * 900, true),
        ("rpc_busy", at * 40, true),
        ("rpc_crowded", at, true),
        ("rpc_refused", 0, true),
        ("rpc_malformed", at * 5000, true),
    ];
    Sample {
        service: service.map(number).to_vec(),
        ..sample(at, 2)
    }
}

/// Returns the counters of a node with networks over RDMA.
fn o2ib_sample(at: u64) -> Sample {
    let number = |(counter, of, value): (&str, &str, u64)| O2ibNumber {
        counter: counter.to_owned(),
        of: of.to_owned(),
        value,
        is_level: counter == "pinned",
        is_bytes: ["pinned", "written by RDMA"].contains(&counter),
    };
    let numbers = [
        ("sent", "immediate", at * 900),
        ("sent", "put_req", at * 40),
        ("received", "noop", at),
        ("waited for credits", "", at * 3),
        ("written by RDMA", "", (at * 40) << 20),
        ("rejected by a peer", "msg_queue_size", 1),
        ("pinned", "", 9 << 20),
    ];
    Sample {
        o2ib: numbers.map(number).to_vec(),
        ..sample(at, 2)
    }
}

#[test]
fn a_node_over_rdma_has_a_page_of_its_counters_as_long_as_it_has_such_networks() {
    let mut model = Model::new("/run/finerail/control.sock".to_owned());
    model.take(Ok(o2ib_sample(180)));
    model.take(Ok(o2ib_sample(182)));
    press(&mut model, "4", 10);
    assert_eq!(model.page, Page::O2ib);
    compare("o2ib", &drawn(&model, 80, 24));
    let json: serde_json::Value = serde_json::from_str(&plain::json(&model).unwrap()).unwrap();
    assert_eq!(json["o2ib"][0]["of"], "immediate");
    assert_eq!(json["o2ib"][0]["per_second"], 900.0);
    model.take(Ok(sample(184, 2)));
    assert_eq!((model.page, model.pages.len()), (Page::Interfaces, 3));
    press(&mut model, "4", 10);
    assert_eq!(model.page, Page::Interfaces, "there is no such page");
}

/// Returns a model after two samples that were taken 2 s apart.
fn watched(peers: u64) -> Model {
    let mut model = Model::new("/run/finerail/control.sock".to_owned());
    model.take(Ok(sample(180, peers)));
    model.take(Ok(sample(182, peers)));
    model
}

fn press(model: &mut Model, keys: &str, rows: usize) {
    for letter in keys.chars() {
        let code = match letter {
            '\t' => KeyCode::Tab,
            '\n' => KeyCode::Enter,
            '\x1b' => KeyCode::Esc,
            letter => KeyCode::Char(letter),
        };
        let key = KeyEvent::new(code, KeyModifiers::NONE);
        let wanted = action(key, model.is_editing).unwrap();
        assert!(model.act(wanted, rows), "it goes on");
    }
}

fn terminal(width: u16, height: u16) -> Terminal<TestBackend> {
    Terminal::new(TestBackend::new(width, height)).unwrap()
}

fn drawn(model: &Model, width: u16, height: u16) -> String {
    let mut terminal = terminal(width, height);
    terminal
        .draw(|frame| screen::draw(frame, model, false))
        .unwrap();
    let buffer = terminal.backend().buffer();
    let lines = buffer.content().chunks(width.into()).map(|line| {
        let text: String = line.iter().map(|cell| cell.symbol()).collect();
        text.trim_end().to_owned() + "\n"
    });
    lines.collect()
}

fn compare(name: &str, found: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/top/frames/{name}.txt"));
    if env::var_os("FINERAIL_OVERWRITE").is_some() {
        fs::write(&file, found).unwrap();
    }
    let expected = fs::read_to_string(&file).unwrap();
    assert_eq!(found, expected, "FINERAIL_OVERWRITE=1 draws it anew");
}

#[test]
fn each_page_fits_into_80_columns_and_24_lines() {
    let mut model = watched(1034);
    let rows = screen::rows_in(24, &model);
    compare("interfaces", &drawn(&model, 80, 24));
    press(&mut model, "2", rows);
    compare("peers", &drawn(&model, 80, 24));
    press(&mut model, "\t", rows);
    compare("routes", &drawn(&model, 80, 24));
}

#[test]
fn a_gateway_has_a_line_of_its_own() {
    let mut model = Model::new("/run/finerail/control.sock".to_owned());
    model.take(Ok(gateway_sample(180)));
    model.take(Ok(gateway_sample(182)));
    compare("gateway", &drawn(&model, 80, 24));
    let json: serde_json::Value = serde_json::from_str(&plain::json(&model).unwrap()).unwrap();
    assert_eq!(json["service"]["rpc_requests"], 182 * 900);
}

/// Returns what a node has seen of Lustre's RPCs after so many seconds.
fn rpc_sample(at: u64) -> Sample {
    let row = |name: &str, weight: u64| RpcRow {
        name: name.to_owned(),
        rpcs: at * weight,
        errors: at * (weight / 100),
        unanswered: at * (weight / 400),
        bytes: at * weight * 4096,
        answered: at * weight,
        micros: at * weight * (300 + weight),
        micros_99: Some(900 + weight * 7),
        micros_max: (weight > 10).then_some(2_500_000),
    };
    let table = |by: &str, names: [&str; 3]| RpcTable {
        by: by.to_owned(),
        rows: vec![row(names[0], 40), row(names[1], 900), row(names[2], 2)],
    };
    let slow = |number: u64| RpcTold {
        client: format!("10.0.0.{number}@tcp"),
        server: "10.0.9.1@tcp".into(),
        target: format!("fs1-OST{number:04x}"),
        operation: "OST_WRITE".into(),
        job: "ior.1000".into(),
        subject: format!("0x280000400:{number:#x}"),
        xid: number * 128,
        bytes: number << 20,
        status: Some(if number == 3 { -5 } else { 0 }),
        micros: Some(9_000_000 / number),
        ..RpcTold::default()
    };
    let rpcs = RpcNumbers {
        all: row("all", 942),
        outstanding: 17,
        missed: 3,
        not_followed: 0,
        tables: vec![
            table("client", ["10.0.0.1@tcp", "10.0.0.2@tcp", "other"]),
            table("target", ["fs1-MDT0000", "fs1-OST0000", "fs1-OST0001"]),
            table("operation", ["LDLM_ENQUEUE", "OST_WRITE", "OBD_PING"]),
            table("job", ["cp.0", "ior.1000", "-"]),
        ],
        slowest: (1..=4).map(slow).collect(),
    };
    Sample {
        rpcs,
        ..sample(at, 2)
    }
}

#[test]
fn rpcs_have_a_page_for_each_of_their_tables() {
    let mut model = Model::of_rpcs("/run/finerail/control.sock".to_owned());
    model.take(Ok(rpc_sample(180)));
    model.take(Ok(rpc_sample(182)));
    let rows = screen::rows_in(24, &model);
    for (key, name) in [
        ("1", "rpc-clients"),
        ("2", "rpc-targets"),
        ("3", "rpc-operations"),
        ("4", "rpc-jobs"),
        ("5", "rpc-slowest"),
    ] {
        press(&mut model, key, rows);
        compare(name, &drawn(&model, 80, 12));
    }
    compare("rpc-slowest-wide", &drawn(&model, 140, 12));
    press(&mut model, "?", rows);
    compare("rpc-help", &drawn(&model, 80, 24));
}

#[test]
fn a_wide_terminal_shows_more_columns() {
    let mut model = watched(30);
    let rows = screen::rows_in(30, &model);
    press(&mut model, "2", rows);
    compare("wide", &drawn(&model, 120, 30));
}

#[test]
fn the_keys_are_explained_on_top_of_what_is_shown() {
    let mut model = watched(30);
    press(&mut model, "?", 17);
    compare("help", &drawn(&model, 80, 24));
    press(&mut model, "\x1b", 17);
    assert!(!model.shows_help);
}

#[test]
fn a_node_that_is_away_is_waited_for_and_what_was_seen_stays() {
    let mut model = watched(3);
    model.take(Err("Connection refused".to_owned()));
    compare("away", &drawn(&model, 80, 12));
    // After its restart there are no rates until the second sample, and no negative ones.
    model.take(Ok(sample(1, 3)));
    assert!(model.away.is_none() && model.totals().is_none());
    model.take(Ok(sample(3, 3)));
    assert_eq!(model.totals().unwrap().sent, 1234.0);
}

#[test]
fn a_node_that_was_never_there_is_waited_for() {
    let mut model = Model::new("/run/finerail/control.sock".to_owned());
    model.take(Err("No such file or directory".to_owned()));
    compare("never", &drawn(&model, 80, 10));
}

#[test]
fn plain_text_shows_everything_once() {
    compare("once", &plain::text(&watched(5), usize::MAX));
}

#[test]
fn json_has_numbers_under_names_and_null_for_what_is_not_known() {
    let value = |model: &Model| -> serde_json::Value {
        serde_json::from_str(&plain::json(model).unwrap()).unwrap()
    };
    let seen = value(&watched(5));
    assert_eq!(seen["per_second"]["sent"], 1234.0);
    assert_eq!(seen["node"]["routing"], true);
    assert_eq!(seen["interfaces"][0]["nid"], "10.0.0.1@tcp");
    assert_eq!(seen["interfaces"][0]["sent_per_second"], 1000.0);
    assert_eq!(seen["interfaces"][0]["round_trip_median_nanos"], 50_000);
    assert_eq!(seen["interfaces"][0]["round_trip_99_nanos"], 2_000_000);
    assert_eq!(seen["routes"][1]["state"], "down");
    assert_eq!(seen["peers"].as_array().unwrap().len(), 5);
    let mut model = Model::new(String::new());
    model.take(Ok(sample(9, 1)));
    let first = value(&model);
    assert!(first["per_second"].is_null());
    assert!(first["interfaces"][0]["sent_per_second"].is_null());
}

#[test]
fn peers_are_sorted_by_what_is_asked_for_and_turned() {
    let mut model = watched(100);
    press(&mut model, "2", 10);
    let nids = |model: &Model| -> Vec<String> {
        model.rows().iter().map(|row| row.cells[0].text()).collect()
    };
    assert_eq!(nids(&model)[0], "10.0.0.100@tcp", "the most messages");
    press(&mut model, "r", 10);
    assert_eq!(nids(&model)[0], "10.0.0.1@tcp", "the fewest");
    // Three columns to the left is the state. Rows that are down come first.
    press(&mut model, "<<<", 10);
    assert_eq!(model.order().column, Some(1));
    assert_eq!(model.rows()[0].cells[1].text(), "down");
    press(&mut model, "<<", 10);
    assert_eq!(model.order().column, None);
    assert_eq!(nids(&model)[..2], ["10.0.0.1@tcp", "10.0.0.2@tcp"]);
}

#[test]
fn a_filter_shows_what_contains_it_and_is_forgotten_by_escape() {
    let mut model = watched(1000);
    press(&mut model, "2/0.3.1@\n", 10);
    assert_eq!(model.rows().len(), 1);
    assert!(!model.is_editing);
    compare("filter", &drawn(&model, 80, 12));
    press(&mut model, "\x1b", 10);
    assert_eq!(model.rows().len(), 1000);
    press(&mut model, "/down\n", 10);
    assert_eq!(model.rows().len(), 200, "a state is found, too");
}

#[test]
fn scrolling_ends_with_the_last_row() {
    let mut model = watched(100);
    press(&mut model, "2", 10);
    press(&mut model, "G", 10);
    assert_eq!(model.first, 90);
    press(&mut model, " ", 10);
    assert_eq!(model.first, 90);
    press(&mut model, "bk", 10);
    assert_eq!(model.first, 79);
    press(&mut model, "g", 10);
    assert_eq!(model.first, 0);
    assert!(!model.act(Action::Quit, 10));
}

#[test]
fn what_is_down_is_red_and_without_colours_it_is_a_word() {
    let mut model = watched(0);
    press(&mut model, "3", 10);
    let red = |colours| {
        let mut terminal = terminal(80, 24);
        terminal
            .draw(|frame| screen::draw(frame, &model, colours))
            .unwrap();
        let buffer = terminal.backend().buffer();
        buffer.content().iter().any(|cell| cell.fg == Color::Red)
    };
    assert!(red(true));
    assert!(!red(false));
    assert!(drawn(&model, 80, 24).contains("down"));
}

#[test]
fn a_name_that_commands_the_terminal_does_not_get_there() {
    let mut model = Model::new("/tmp/\x1b[2J".to_owned());
    let mut hostile = sample(1, 1);
    hostile.peer_nis[0].nid = "\x1b[2J\u{202e}@tcp".to_owned();
    model.take(Ok(hostile));
    press(&mut model, "2", 10);
    model.take(Err("no\nsuch\x07thing".to_owned()));
    for text in [drawn(&model, 80, 24), plain::text(&model, 80)] {
        let commands = |c: char| c.is_control() && c != '\n';
        assert!(!text.contains(commands), "{text:?}");
    }
}

fn any_action() -> impl Strategy<Value = Action> {
    prop_oneof![
        (0..9_usize).prop_map(Action::Page),
        Just(Action::NextPage),
        Just(Action::NextColumn),
        Just(Action::PreviousColumn),
        Just(Action::Reverse),
        Just(Action::Down),
        Just(Action::PageUp),
        Just(Action::PageDown),
        Just(Action::Bottom),
        Just(Action::Help),
        Just(Action::Filter),
        any::<char>().prop_map(Action::Type),
        Just(Action::Erase),
        Just(Action::Accept),
        Just(Action::Cancel),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_is_pressed_on_a_screen_of_any_size_something_is_drawn(
        actions in proptest::collection::vec(any_action(), 0..30),
        width in 1..150_u16,
        height in 1..50_u16,
        peers in 0..60_u64,
    ) {
        let mut model = watched(peers);
        for action in actions {
            let rows = screen::rows_in(height, &model);
            prop_assert!(model.act(action, rows));
            let rows = model.rows().len();
            prop_assert!(rows == 0 || model.first < rows);
            drawn(&model, width, height);
        }
        let shown: usize = Page::OF_NODE.iter().map(|page| model.count(*page)).sum();
        prop_assert_eq!(shown as u64, 4 + peers);
    }
}

#[test]
fn an_interval_is_some_seconds_and_no_nonsense() {
    assert_eq!(interval("0.5"), Ok(Duration::from_millis(500)));
    for bad in ["", "0", "-1", "nan", "inf", "1e99", "0.1", "2s"] {
        assert!(interval(bad).is_err(), "{bad}");
    }
}

#[test]
fn colours_are_left_out_where_nobody_wants_them() {
    let of = |no_color: Option<&str>, term: &str| {
        wants_colours(|name| match name {
            "NO_COLOR" => no_color.map(|value| Ok(value.to_owned())),
            _ => Some(Ok(term.to_owned())),
        })
    };
    assert!(of(None, "xterm"));
    assert!(of(Some(""), "xterm"), "an empty one counts as unset");
    assert!(!of(Some("1"), "xterm"));
    assert!(!of(None, "dumb"));
    assert!(!of(None, "vt100-mono"));
}

#[test]
fn figures_that_are_older_than_they_should_be_are_called_stale() {
    let interval = Duration::from_secs(2);
    let mut model = Model::new("/run/node".to_owned());
    let line = |model: &Model| super::plain::summary(model)[0].clone();
    assert!(model.age(Duration::from_secs(9), interval));
    assert_eq!(
        line(&model),
        "connecting to the node at /run/node",
        "nothing is shown yet"
    );
    model.take(Ok(sample(1, 0)));
    assert!(model.age(Duration::from_secs(1), interval));
    assert!(!line(&model).contains("STALE"));
    assert!(model.age(Duration::from_secs(7), interval));
    assert!(
        line(&model).starts_with("STALE, 7 s old: "),
        "{}",
        line(&model)
    );
    assert!(
        !model.age(Duration::from_millis(7_900), interval),
        "nothing new to draw"
    );
    let silent = "the node at /run/node (process 7) has not answered for 3 s";
    model.take(Err(silent.to_owned()));
    assert_eq!(line(&model), format!("STALE, 7 s old: {silent}"));
}
