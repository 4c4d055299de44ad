//! The view of the design's library.

use lnet_policy::{DesignRules, Priority, RuleList};

use crate::build::{list, priority, rule, texts};

#[test]
fn t_u40_design_adding_a_net_twice_leaves_one_entry_with_the_second_priority() {
    let mut rules = RuleList::new();
    let mut design = DesignRules::new(&mut rules);
    design.add_net("tcp", priority(3)).unwrap();
    design.add_net("tcp", priority(1)).unwrap();
    design.add_net("tcp", priority(1)).unwrap();
    let nets = design.nets(None).unwrap();
    assert_eq!(nets.len(), 1);
    assert_eq!(
        (nets[0].net.to_string(), nets[0].priority),
        ("tcp".to_owned(), priority(1))
    );
    assert_eq!(
        texts(&rules),
        ["--src tcp --priority 1", "--dst tcp --priority 1"]
    );
}

#[test]
fn t_u41_design_delete_by_id_by_descriptor_and_by_both() {
    let filled = || {
        let mut rules = RuleList::new();
        let mut design = DesignRules::new(&mut rules);
        for net in ["tcp", "tcp1", "tcp2"] {
            design.add_net(net, Priority::BEST).unwrap();
        }
        rules
    };
    let delete = |net, id| {
        let mut rules = filled();
        let result = DesignRules::new(&mut rules).delete_net(net, id);
        let left = DesignRules::new(&mut rules).nets(None).unwrap();
        let left: Vec<String> = left.iter().map(|policy| policy.net.to_string()).collect();
        (result.map_err(|error| error.errno()), left.join(" "))
    };
    let unchanged = || "tcp tcp1 tcp2".to_owned();
    assert_eq!(delete(None, Some(1)), (Ok(()), "tcp tcp2".to_owned()));
    assert_eq!(delete(None, Some(3)), (Err(-2), unchanged()));
    assert_eq!(delete(Some("tcp1"), None), (Ok(()), "tcp tcp2".to_owned()));
    assert_eq!(delete(Some("tcp9"), None), (Err(-2), unchanged()));
    assert_eq!(
        delete(Some("tcp1"), Some(1)),
        (Ok(()), "tcp tcp2".to_owned())
    );
    assert_eq!(delete(Some("tcp1"), Some(2)), (Err(-22), unchanged()));
    assert_eq!(delete(Some("tcp1"), Some(9)), (Err(-2), unchanged()));
    assert_eq!(delete(None, None), (Err(-22), unchanged()));
}

#[test]
fn nids_and_pairs_have_ids_of_their_own_and_are_shown_by_filter() {
    let mut rules = list(&["--src kfi"]);
    let mut design = DesignRules::new(&mut rules);
    design.add_nid("10.0.0.1@tcp", priority(4)).unwrap();
    design.add_nid("10.0.0.[1-9]@tcp", priority(5)).unwrap();
    design
        .add_peer("10.0.0.1@tcp", "10.0.9.1@tcp", priority(6))
        .unwrap();
    let ids = |filter: &str| -> Vec<usize> {
        design
            .nids(Some(filter))
            .unwrap()
            .iter()
            .map(|policy| policy.id)
            .collect()
    };
    assert_eq!(ids("10.0.0.1@tcp"), [0, 1]);
    assert_eq!(ids("10.0.0.2@tcp"), [1]);
    assert_eq!(ids("10.0.0.[1-9]@tcp"), [1]);
    assert_eq!(ids("10.0.0.[1-2]@tcp"), [0usize; 0]);
    let pairs = design.peers(None, Some("10.0.9.1@tcp")).unwrap();
    assert_eq!((pairs[0].id, pairs[0].priority), (0, priority(6)));
    assert_eq!(design.peers(Some("1.1.1.1@tcp"), None).unwrap(), []);
    assert_eq!(design.nets(None).unwrap(), []);
}

#[test]
fn a_priority_of_one_side_is_no_policy_of_the_design_until_it_is_added_there() {
    let mut rules = list(&["--src tcp --priority 3", "--dst tcp --priority 4"]);
    assert_eq!(DesignRules::new(&mut rules).nets(None).unwrap(), []);
    DesignRules::new(&mut rules)
        .add_net("tcp", priority(4))
        .unwrap();
    assert_eq!(DesignRules::new(&mut rules).nets(None).unwrap().len(), 1);
    assert_eq!(rules.rules()[0], rule("--src tcp --priority 4"));
}

#[test]
fn what_the_design_does_not_take_is_rejected_and_changes_nothing() {
    let mut rules = RuleList::new();
    let mut design = DesignRules::new(&mut rules);
    assert_eq!(
        design
            .add_net("1.1.1.1@tcp", Priority::BEST)
            .unwrap_err()
            .errno(),
        -22
    );
    assert_eq!(
        design
            .add_net("tcp[1,3]", Priority::BEST)
            .unwrap_err()
            .errno(),
        -22
    );
    assert_eq!(
        design.add_net("tcp", Priority::NONE).unwrap_err().errno(),
        -22
    );
    assert_eq!(
        design.add_nid("tcp", Priority::BEST).unwrap_err().errno(),
        -22
    );
    let pair = design.add_peer("1.1.1.1@tcp", "1.1.1.2@tcp", Priority::NONE);
    assert_eq!(pair.unwrap_err().errno(), -22);
    assert!(rules.rules().is_empty());
}
