//! Failures as input, and saved plans: what names mean, and what a plan does with failed parts.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::collections::BTreeSet;

use fgr::{
    InputError, Metric, NameError, Options, Policy, assign, clients, failed, read_machine,
    read_node_table, read_plan, write_csv, write_yaml,
};

use common::{mini, mini_file};

fn ids(list: &str) -> Vec<u32> {
    let machine = mini();
    let named = failed(&machine, list).unwrap();
    named
        .routers
        .iter()
        .map(|&r| machine.routers[usize::from(r)].id)
        .collect()
}

#[test]
fn failed_parts_are_named_by_number_nid_range_blade_and_net() {
    assert_eq!(ids("1011"), [1011]);
    assert_eq!(
        ids("1011@tcp101,1013-1021"),
        ids("1011,1013,1014,1015,1016,1021")
    );
    assert_eq!(ids("A[11-12]"), [1011, 1012]);
    assert_eq!(ids("A11n0"), [1011]);
    assert_eq!(ids("o2ib202"), ids("1021-1026"));
    let named = failed(&mini(), "5,nid00007").unwrap();
    assert_eq!(
        (named.routers.len(), named.clients),
        (0, BTreeSet::from([5, 7]))
    );
    assert_eq!(
        failed(&mini(), "1011,A99"),
        Err(NameError::Unknown("A99".to_owned()))
    );
}

#[test]
fn clients_of_a_job_are_named_once_and_are_clients() {
    let machine = mini();
    assert_eq!(
        clients(&machine, "nid[00007-00009],3-5").unwrap(),
        [3, 4, 5, 7, 8, 9]
    );
    assert_eq!(clients(&machine, "7,6-8"), Err(NameError::Twice(7)));
    assert_eq!(
        clients(&machine, "A11"),
        Err(NameError::NoClient("A11".to_owned()))
    );
    assert_eq!(
        clients(&machine, "x"),
        Err(NameError::Unknown("x".to_owned()))
    );
}

#[test]
fn what_a_machine_file_marks_down_is_known_and_must_exist() {
    let file = mini_file() + "down: [A11, 1026]\n";
    let machine = read_machine("m", &file).unwrap();
    let down: Vec<u32> = machine
        .down
        .iter()
        .map(|&r| machine.routers[usize::from(r)].id)
        .collect();
    assert_eq!(down, [1011, 1026]);
    let InputError(problems) =
        read_machine("m", &(mini_file() + "down: [A11, A99]\n")).unwrap_err();
    let line = mini_file().lines().count() + 1;
    assert_eq!(
        problems[0].to_string(),
        format!("m:{line}: down: 'A99' is not a node, blade, cabinet or net of the machine")
    );
}

#[test]
fn a_plan_around_failures_uses_none_of_them_and_says_which() {
    let machine = mini();
    let dead = failed(&machine, "A11,1021").unwrap().routers;
    let options = Options {
        dead: dead.clone(),
        ..Options::default()
    };
    for policy in Policy::ALL {
        let plan = assign(&machine, policy, &options).unwrap();
        assert_eq!(plan.dead, dead);
        let used = (0..plan.rows().len())
            .flat_map(|row| [plan.routers(row, 0), plan.routers(row, 1)].concat());
        assert!(
            used.into_iter().all(|router| !dead.contains(&router)),
            "{policy:?}"
        );
    }
}

#[test]
fn a_plan_document_is_read_back_as_the_same_routes() {
    let machine = mini();
    for policy in Policy::ALL {
        let plan = assign(&machine, policy, &Options::default()).unwrap();
        let mut document = String::new();
        write_yaml(&machine, &plan, &mut document).unwrap();
        let again = read_plan("plan.yaml", &document, &machine).unwrap();
        let table = |plan| {
            let mut text = String::new();
            write_csv(&machine, plan, &mut text).unwrap();
            text
        };
        assert_eq!(table(&again), table(&plan), "{policy:?}");
        assert_eq!(again.is_shared(), plan.is_shared());
        let clients: u32 = again.rows().iter().map(|row| row.clients).sum();
        assert_eq!(clients as usize, machine.clients.len());
    }
}

#[test]
fn a_plan_document_of_another_machine_is_rejected_with_every_reason() {
    let machine = mini();
    let by = Metric::Cost;
    let plan = assign(&machine, Policy::Nearest { by }, &Options::default()).unwrap();
    let mut document = String::new();
    write_yaml(&machine, &plan, &mut document).unwrap();
    let rejection = |from: &str, to: &str| {
        let InputError(problems) =
            read_plan("p", &document.replacen(from, to, 1), &machine).unwrap_err();
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        lines.join("\n")
    };
    assert!(rejection("\"mini\"", "\"maxi\"").contains("'maxi' is not mini"));
    assert!(rejection("nearest", "guess").contains("'guess' is not one of strict, slices"));
    assert!(rejection("o2ib201", "o2ib209").contains("'o2ib209' is not a net of the machine"));
    assert!(rejection("[10", "[90").contains("is not a router on o2ib201, once"));
    assert!(rejection("clients: \"0", "clients: \"4294967295,9").contains("4294967295"));
    assert!(
        rejection("clients: \"0", "clients: \"191").contains("a table for client 0 is missing")
    );
}

#[test]
fn a_node_table_has_headings_before_its_first_number_only() {
    let text = "    NID    (HEX)    NODENAME     TYPE    STATUS\n\n20 0x14 c0-0c1s5n0 compute up batch\noops\n";
    let InputError(problems) = read_node_table("nodes", text).unwrap_err();
    assert_eq!(problems.len(), 1);
    assert!(
        problems[0]
            .to_string()
            .starts_with("nodes:4: 1 columns instead of 6"),
        "{problems:?}"
    );
    let heading = &text[..text.len() - 5];
    assert_eq!(read_node_table("nodes", heading).unwrap().len(), 1);
}
