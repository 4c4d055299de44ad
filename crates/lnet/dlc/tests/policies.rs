//! The nine functions of the design against a running node.

#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use lnet_dlc::{Dlc, DlcError};
use lnet_policy::{Action, Priority, Profile, Rule, RuleText, RuleType};

use common::Bed;

fn priority(value: u32) -> Priority {
    Priority::new(value).unwrap()
}

#[test]
fn a_net_policy_is_added_updated_shown_by_filter_and_deleted() {
    let (_bed, mut dlc) = Bed::new();
    dlc.lustre_lnet_add_net_sel_pol("tcp[1-5]", priority(3))
        .unwrap();
    dlc.lustre_lnet_add_net_sel_pol("o2ib", priority(1))
        .unwrap();
    dlc.lustre_lnet_add_net_sel_pol("tcp[1-5]", priority(2))
        .unwrap();
    let all = dlc.lustre_lnet_show_net_sel_pol(None).unwrap();
    let shown: Vec<_> = all
        .iter()
        .map(|p| (p.id, p.net.to_string(), p.priority.value()))
        .collect();
    assert_eq!(shown, [(0, "tcp[1-5]".into(), 2), (1, "o2ib".into(), 1)]);
    assert_eq!(
        dlc.lustre_lnet_show_net_sel_pol(Some("tcp4"))
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        dlc.lustre_lnet_show_net_sel_pol(Some("tcp6"))
            .unwrap()
            .len(),
        0
    );
    dlc.lustre_lnet_del_net_sel_pol(None, Some(0)).unwrap();
    dlc.lustre_lnet_del_net_sel_pol(Some("o2ib"), None).unwrap();
    assert!(dlc.lustre_lnet_show_net_sel_pol(None).unwrap().is_empty());
}

#[test]
fn a_nid_policy_is_added_shown_and_deleted() {
    let (_bed, mut dlc) = Bed::new();
    dlc.lustre_lnet_add_nid_sel_pol("10.0.0.[1-4]@tcp", priority(0))
        .unwrap();
    let shown = dlc
        .lustre_lnet_show_nid_sel_pol(Some("10.0.0.3@tcp"))
        .unwrap();
    assert_eq!(shown[0].nid.to_string(), "10.0.0.[1-4]@tcp");
    dlc.lustre_lnet_del_nid_sel_pol(Some("10.0.0.[1-4]@tcp"), Some(0))
        .unwrap();
    assert!(dlc.lustre_lnet_show_nid_sel_pol(None).unwrap().is_empty());
}

#[test]
fn a_pair_is_added_shown_by_either_side_and_deleted() {
    let (_bed, mut dlc) = Bed::new();
    let (src, dst) = ("10.0.0.1@tcp", "10.0.9.*@tcp");
    dlc.lustre_lnet_add_peer_sel_pol(src, dst, priority(7))
        .unwrap();
    assert_eq!(
        dlc.lustre_lnet_show_peer_sel_pol(Some(src), None)
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        dlc.lustre_lnet_show_peer_sel_pol(None, Some("10.0.9.5@tcp"))
            .unwrap()
            .len(),
        1
    );
    assert!(matches!(
        dlc.lustre_lnet_del_peer_sel_pol(Some(src), None, None),
        Err(DlcError::Policy(_))
    ));
    dlc.lustre_lnet_del_peer_sel_pol(Some(src), Some(dst), None)
        .unwrap();
    assert!(
        dlc.lustre_lnet_show_peer_sel_pol(None, None)
            .unwrap()
            .is_empty()
    );
}

#[test]
fn what_is_not_there_cannot_be_deleted() {
    let (_bed, mut dlc) = Bed::new();
    let missing = dlc
        .lustre_lnet_del_net_sel_pol(Some("tcp"), None)
        .unwrap_err();
    assert_eq!(missing.errno(), -2);
    let neither = dlc.lustre_lnet_del_net_sel_pol(None, None).unwrap_err();
    assert_eq!(neither.errno(), -22);
}

/// A rule for one side only does not fit a v1 block; it must survive a change of its type.
#[test]
fn rules_that_v1_cannot_hold_survive_a_change_of_their_type() {
    let (_bed, mut dlc) = Bed::new();
    let one_sided = RuleText {
        src: Some("tcp"),
        action: Some(Action::Priority(priority(4))),
        ..RuleText::default()
    };
    let mut rules = dlc.all_rules().unwrap();
    rules
        .add(Rule::from_text(&one_sided, Profile::Design).unwrap(), None)
        .unwrap();
    dlc.set_all_rules(&rules).unwrap();
    assert_eq!(dlc.rules(RuleType::Net).unwrap_err().errno(), -95);
    dlc.lustre_lnet_add_net_sel_pol("o2ib", priority(1))
        .unwrap();
    assert_eq!(dlc.all_rules().unwrap().rules().len(), 3);
    assert_eq!(dlc.all_rules().unwrap().rules()[0], rules.rules()[0]);
}

#[test]
fn a_node_that_is_gone_is_an_error_and_no_hang() {
    let (bed, mut dlc) = Bed::new();
    let path = bed.endpoint.path().to_owned();
    drop(bed);
    let gone = dlc.all_rules();
    assert!(matches!(gone, Err(DlcError::Connect { .. })), "{gone:?}");
    assert!(matches!(Dlc::connect(&path), Err(DlcError::Connect { .. })));
}

/// Two programs change policies at the same time, each on a copy of the list. If an addition was
/// lost, its deletion would fail; if a deletion was lost, the rule would still exist at the end.
#[test]
fn of_a_thousand_changes_that_race_none_is_lost() {
    const ADDED: u32 = 256;
    const KEPT: u32 = 12;
    let (bed, _) = Bed::new();
    let path = bed.endpoint.path();
    let race = |host: u32| {
        let mut dlc = Dlc::connect(path).unwrap();
        for number in 0..ADDED {
            let nid = format!("10.{host}.0.{}@tcp", number);
            dlc.lustre_lnet_add_nid_sel_pol(&nid, priority(number))
                .unwrap();
            if number >= KEPT {
                dlc.lustre_lnet_del_nid_sel_pol(Some(&nid), None).unwrap();
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| race(1));
        race(2);
    });
    let mut dlc = Dlc::connect(path).unwrap();
    let kept = dlc.lustre_lnet_show_nid_sel_pol(None).unwrap();
    assert_eq!(kept.len(), 2 * KEPT as usize);
}

/// Without the generation, the race test could not pass.
#[test]
fn a_list_that_was_put_back_late_is_rejected_and_a_change_is_made_again() {
    let (bed, mut dlc) = Bed::new();
    let mut other = Dlc::connect(bed.endpoint.path()).unwrap();
    let (before, seen) = dlc.rules_seen(RuleType::Mixed).unwrap();
    other
        .lustre_lnet_add_net_sel_pol("tcp", priority(1))
        .unwrap();
    let late = dlc.replace_rules(&before, seen).unwrap_err();
    assert!(late.is_stale() && late.errno() == -116, "{late}");

    let mut calls = 0;
    dlc.change_all_rules(|rules| {
        calls += 1;
        if calls == 1 {
            other.lustre_lnet_add_net_sel_pol("o2ib", priority(1))?;
        }
        let descriptors = RuleText {
            src: Some("10.0.0.1@tcp"),
            dst: Some("10.0.0.2@tcp"),
            ..RuleText::default()
        };
        rules.add(Rule::from_text(&descriptors, Profile::Design)?, None)?;
        Ok::<(), DlcError>(())
    })
    .unwrap();
    assert_eq!(calls, 2);
    assert_eq!(dlc.lustre_lnet_show_net_sel_pol(None).unwrap().len(), 2);
    assert_eq!(
        dlc.lustre_lnet_show_peer_sel_pol(None, None).unwrap().len(),
        1
    );
}

/// An expression with lists is one policy with one id, and is shown as it was written.
#[test]
fn a_policy_with_lists_is_one_entry() {
    let (_bed, mut dlc) = Bed::new();
    let lists = "10.1.[1,3].1@tcp";
    for priority in [5, 6] {
        dlc.lustre_lnet_add_nid_sel_pol(lists, Priority::new(priority).unwrap())
            .unwrap();
    }
    let shown = dlc.lustre_lnet_show_nid_sel_pol(None).unwrap();
    assert_eq!((shown.len(), shown[0].nid.to_string().as_str()), (1, lists));
    assert_eq!(shown[0].priority.value(), 6);
    dlc.lustre_lnet_del_nid_sel_pol(Some(lists), Some(0))
        .unwrap();
    assert!(dlc.lustre_lnet_show_nid_sel_pol(None).unwrap().is_empty());
}
