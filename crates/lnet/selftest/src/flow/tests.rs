//! Tests of documents, and of the RPCs that flows send.

use super::*;

const FILE: &str = "
seconds: 30
flows:
  - name: checkpoint
    to: 10.0.0.[8-9]@tcp
    mix: { read: 20, write: 75, ping: 5 }
    sizes: { 1M: 90, 64K: 10 }
    check: simple
    concurrency: 4
    rate: 1000
  - name: reads
    to: [10.0.0.8@tcp, 'fd00::1@tcp']
    sizes: 4096
    count: 100
    on_error: stop
    timeout: 2.5
";

fn flows() -> Vec<FlowSpec> {
    parse(FILE).unwrap()
}

fn at(milliseconds: u64) -> Time {
    Time::ZERO + Duration::from_millis(milliseconds)
}

fn end(flow: &mut Flow, shot: &Shot, is_ok: bool, now: Time) {
    let ended = Ended {
        unit: shot.unit,
        work: shot.work,
        is_ok,
        latency: Duration::from_millis(2),
    };
    flow.ended(&ended, now);
}

#[test]
fn a_file_says_what_its_flows_do() {
    let flows = flows();
    let [first, second] = &flows[..] else {
        panic!("{flows:?}")
    };
    assert_eq!(
        (first.servers.len(), first.mix, first.concurrency),
        (2, [20, 75, 5], 4)
    );
    assert_eq!(first.sizes, [(1 << 20, 90), (65_536, 10)]);
    assert_eq!(
        (first.rate, first.duration),
        (Some(1000), Some(Duration::from_secs(30)))
    );
    assert_eq!((second.count, second.duration), (Some(100), None));
    assert!(second.stop_on_error && second.servers[1].is_large());
    assert_eq!(second.timeout, Duration::from_millis(2500));
}

#[test]
fn what_is_wrong_with_a_file_is_named() {
    let wrong = |line: &str| {
        let text = format!("flows:\n  - name: f\n    to: 10.0.0.8@tcp\n    {line}\n");
        parse(&text).unwrap_err().to_string()
    };
    assert!(wrong("mix: { ping: 0 }").contains("no weight above 0"));
    assert!(wrong("sizes: 2M").contains("2M is not between 1 byte and 1M"));
    assert!(wrong("sizes: { 1M: 0 }").contains("no weight above 0"));
    assert!(wrong("check: some").contains("not 'some'"));
    assert!(wrong("rate: 0").contains("rate is at least 1"));
    assert!(wrong("concurrency: 0").contains("concurrency is 1 to"));
    assert!(wrong("concurrency: 70000").contains("concurrency is 1 to"));
    assert!(wrong("seconds: -1").contains("above 0"));
    assert!(wrong("seconds: .nan").contains("above 0"));
    assert!(wrong("speed: 1").contains("speed"));
    assert_eq!(parse("flows: []").unwrap_err().to_string(), "no flows");
    let many = "flows:\n".to_owned() + &"- {name: a, to: 10.0.0.1@tcp}\n".repeat(65);
    let many = parse(&many).unwrap_err().to_string();
    assert_eq!(many, "65 flows, more than 64");
    assert!(parse(&"#".repeat(FILE.len() + (1 << 20))).is_err());
    let nobody = "flows:\n  - name: f\n    to: 10.0.0.[0-255].1@tcp\n";
    assert!(parse(nobody).is_err());
}

#[test]
fn a_flow_keeps_its_rate() {
    let mut flow = Flow::new(flows().remove(0), 1);
    let mut sent = 0;
    for now in 0..100 {
        loop {
            match flow.next(at(now)) {
                Next::Send(shot) => {
                    sent += 1;
                    end(&mut flow, &shot, true, at(now));
                }
                Next::At(due) => {
                    assert!(due > at(now) && due <= at(now + 1));
                    break;
                }
                Next::Wait => panic!("nothing is under way"),
            }
        }
    }
    assert_eq!(sent, 100);
}

#[test]
fn a_flow_mixes_operations_and_sizes_by_their_weights() {
    let spec = FlowSpec {
        rate: None,
        ..flows().remove(0)
    };
    let mut flow = Flow::new(spec, 7);
    let mut counts = [0; 3];
    let mut large = 0;
    for _ in 0..10_000 {
        let Next::Send(shot) = flow.next(at(0)) else {
            panic!("it waits");
        };
        counts[place(shot.work)] += 1;
        large += u32::from(shot.work.len() == 1 << 20);
        end(&mut flow, &shot, true, at(0));
    }
    let near = |count: u32, expected: u32| count.abs_diff(expected) < 200;
    assert!(near(counts[0], 2000) && near(counts[1], 7500) && near(counts[2], 500));
    assert!(near(large, 8550));
}

#[test]
fn each_server_has_as_many_rpcs_under_way_as_the_flow_says() {
    let spec = FlowSpec {
        rate: None,
        ..flows().remove(0)
    };
    let mut flow = Flow::new(spec, 1);
    let mut hosts = Vec::new();
    while let Next::Send(shot) = flow.next(at(0)) {
        hosts.push(shot.target.nid.number() & 0xFF);
    }
    assert_eq!(hosts, [8, 9, 8, 9, 8, 9, 8, 9]);
}

#[test]
fn a_flow_ends_by_its_count_its_time_an_error_or_a_word() {
    let [timed, counted] = [0, 1].map(|which| flows().remove(which));
    let mut flow = Flow::new(counted.clone(), 1);
    let mut sent = 0;
    while let Next::Send(shot) = flow.next(at(0)) {
        sent += 1;
        end(&mut flow, &shot, true, at(5));
    }
    assert_eq!(sent, 100);
    assert!(flow.is_over(at(0)));

    let mut flow = Flow::new(timed.clone(), 1);
    assert!(matches!(flow.next(at(7)), Next::Send(_)));
    assert!(!flow.is_over(at(30_006)));
    assert!(flow.is_over(at(30_007)));

    let mut flow = Flow::new(counted, 1);
    let Next::Send(shot) = flow.next(at(0)) else {
        panic!("it waits");
    };
    end(&mut flow, &shot, false, at(0));
    assert!(flow.is_over(at(0)));
    assert_eq!(flow.report().unwrap().errors(), 1);

    let mut flow = Flow::new(timed, 1);
    flow.stop();
    assert_eq!(flow.next(at(0)), Next::Wait);
}

#[test]
fn a_report_has_rates_and_quantiles() {
    let mut flow = Flow::new(flows().remove(1), 1);
    for _ in 0..100 {
        let Next::Send(shot) = flow.next(at(0)) else {
            panic!("it waits");
        };
        end(&mut flow, &shot, true, at(1000));
    }
    let report = flow.report().unwrap();
    assert_eq!((report.read.done, report.read.bytes), (100, 409_600));
    assert!((report.seconds - 1.0).abs() < 1e-9);
    assert!((report.read.rpcs_per_second - 100.0).abs() < 1e-6);
    let latency = report.read.latency_us.unwrap();
    assert!(latency.p50.abs_diff(2000) <= 2 && latency.max.abs_diff(2000) <= 2);
    assert_eq!(report.write.latency_us, None);
}
