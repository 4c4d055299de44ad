//! The bytes of blocks, and conversions between blocks and lists.

use lnet_policy::{
    BlockError, BlockProblem, Place, RuleBlock, RuleList, RuleType, lnet_sel_rule_deserialize,
    lnet_sel_rule_serialize,
};

use crate::build::{list, rule, texts};

/// Selection 5.3: one net rule, `tcp[1-5]` priority 3.
const NET_EXAMPLE: &str = "
    2c 00 00 00  00 00 01 00  00 00 00 00  14 00 00 00
    18 00 00 00  00 00 00 00
    00 00 02 00  01 00 00 00  05 00 00 00  01 00 00 00  03 00 00 00";

/// Selection 5.3: the bytes of the NID rule `10.0.0.[1-9/2]@o2ib3` priority 0.
const NID_EXAMPLE: &str = "
    0a 00 00 00 0a 00 00 00 01 00 00 00
    00 00 00 00 00 00 00 00 01 00 00 00
    00 00 00 00 00 00 00 00 01 00 00 00
    01 00 00 00 09 00 00 00 02 00 00 00
    03 00 05 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00";

fn hex(text: &str) -> Vec<u8> {
    text.split_whitespace()
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect()
}

fn block(rules: &RuleList, rule_type: RuleType) -> Vec<u8> {
    RuleBlock::from_list(rules, rule_type)
        .unwrap()
        .encode()
        .unwrap()
}

fn loaded(bytes: &[u8]) -> RuleList {
    let mut rules = RuleList::new();
    rules
        .load(&lnet_sel_rule_deserialize(bytes).unwrap())
        .unwrap();
    rules
}

fn rejection(bytes: &[u8]) -> (Place, i32) {
    let error = lnet_sel_rule_deserialize(bytes).unwrap_err();
    (error.place, error.errno())
}

/// The bytes with the little-endian word at `offset` replaced.
fn with_word(bytes: &[u8], offset: usize, word: u32) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[offset..offset + 4].copy_from_slice(&word.to_le_bytes());
    bytes
}

#[test]
fn t_u46_design_the_example_of_a_net_block_is_byte_exact() {
    let rules = list(&["--src tcp[1-5] --priority 3", "--dst tcp[1-5] --priority 3"]);
    assert_eq!(block(&rules, RuleType::Net), hex(NET_EXAMPLE));
    assert_eq!(loaded(&hex(NET_EXAMPLE)), rules);
}

#[test]
fn t_u46_design_the_example_of_a_nid_rule_is_byte_exact() {
    let rules = list(&["--src 10.0.0.[1-9/2]@o2ib3", "--dst 10.0.0.[1-9/2]@o2ib3"]);
    let bytes = block(&rules, RuleType::Nid);
    assert_eq!(bytes[24..], hex(NID_EXAMPLE));
    assert_eq!(
        bytes[..24],
        hex("5c 0 0 0  0 0 1 0  1 0 0 0  44 0 0 0  18 0 0 0 0 0 0 0")
    );
    assert_eq!(loaded(&bytes), rules);
}

#[test]
fn a_pair_block_holds_both_sides_and_the_rank() {
    let rules = list(&["--src 7@gni --dst tcp* --priority 9"]);
    let bytes = block(&rules, RuleType::P2p);
    let mut expected = hex("9c 0 0 0  0 0 1 0  2 0 0 0  84 0 0 0  18 0 0 0 0 0 0 0");
    expected.extend(hex("7 0 0 0  7 0 0 0  1 0 0 0"));
    expected.extend([0; 36]);
    expected.extend(hex("0 0 d 0  0 0 0 0  0 0 0 0  0 0 0 0"));
    expected.extend([0; 48]);
    expected.extend(hex("0 0 2 0  0 0 0 0  ff ff 0 0  1 0 0 0  9 0 0 0"));
    assert_eq!(bytes, expected);
    assert_eq!(loaded(&bytes), rules);
}

#[test]
fn a_pair_without_source_address_means_every_nid_of_the_net() {
    let rules = list(&["--src 1.1.1.1@tcp --dst tcp --priority 2"]);
    let bytes = block(&rules, RuleType::P2p);
    let mut no_address = bytes.clone();
    no_address[24..72].fill(0);
    assert_eq!(
        texts(&loaded(&no_address)),
        ["--src *.*.*.*@tcp --dst tcp --priority 2"]
    );
}

#[test]
fn a_bare_net_name_and_number_zero_stay_apart() {
    let rules = list(&["--src tcp", "--dst tcp", "--src tcp0", "--dst tcp0"]);
    assert_eq!(loaded(&block(&rules, RuleType::Net)), rules);
}

#[test]
fn a_mixed_block_is_byte_exact() {
    let rules = list(&["--src tcp --priority 0"]);
    let expected = hex("5c 0 0 0  0 0 2 0  ff ff ff ff  0 0 0 0  18 0 0 0 0 0 0 0
        44 0 0 0  0 0 0 0  0 0 0 0  1 0 0 0  0 0 0 0
        53 52 43 0  0 0 0 0  2 0 0 0  0 0 0 0
        44 53 54 0  0 0 0 0  0 0 0 0  0 0 0 0
        52 54 45 0  0 0 0 0  0 0 0 0  0 0 0 0");
    assert_eq!(block(&rules, RuleType::Mixed), expected);
    assert_eq!(loaded(&expected), rules);
}

#[test]
fn a_mixed_block_holds_lists_ranges_gateways_and_disabled_rules() {
    let mut rules = list(&["--dst 10.0.[1,3-5].*@tcp[1-9/2] --rte 5@gni"]);
    rules
        .add(rule("--src 1.1.1.1@tcp --dst kfi").disabled(true), None)
        .unwrap();
    let bytes = block(&rules, RuleType::Mixed);
    assert_eq!(loaded(&bytes), rules);
    let first = hex("
        ac 0 0 0  0 0 0 0  0 0 0 0  2 0 0 0  ff ff ff ff
        53 52 43 0  0 0 0 0  0 0 0 0  0 0 0 0
        44 53 54 0  4 0 0 0  2 0 0 0  1 0 0 0  1 0 0 0  9 0 0 0  2 0 0 0
        1 0 0 0  a 0 0 0  a 0 0 0  1 0 0 0
        1 0 0 0  0 0 0 0  0 0 0 0  1 0 0 0
        2 0 0 0  1 0 0 0  1 0 0 0  1 0 0 0  3 0 0 0  5 0 0 0  1 0 0 0
        1 0 0 0  0 0 0 0  ff 0 0 0  1 0 0 0
        52 54 45 0  1 0 0 0  d 0 0 0  0 0 0 0
        1 0 0 0  5 0 0 0  5 0 0 0  1 0 0 0");
    let mut first = first;
    let len = first.len() as u32;
    first[..4].copy_from_slice(&len.to_le_bytes());
    assert_eq!(bytes[24..24 + first.len()], first);
}

#[test]
fn t_u47_a_bad_block_is_rejected_with_its_place_and_changes_nothing() {
    let good = hex(NET_EXAMPLE);
    let at = |offset| (Place::Offset(offset), -22);
    assert_eq!(rejection(&good[..10]), at(10));
    assert_eq!(rejection(&good[..43]), at(0));
    assert_eq!(rejection(&with_word(&good, 0, 43)), at(0));
    assert_eq!(rejection(&with_word(&good, 0, 20)), at(0));
    assert_eq!(rejection(&with_word(&good, 4, 0x0003_0000)), at(4));
    assert_eq!(rejection(&with_word(&good, 4, 0x0002_0000)), at(8));
    assert_eq!(rejection(&with_word(&good, 8, 9)), at(8));
    assert_eq!(rejection(&with_word(&good, 8, u32::MAX)), at(8));
    assert_eq!(rejection(&with_word(&good, 12, 16)), at(12));
    assert_eq!(rejection(&with_word(&good, 16, 20)), at(16));
    assert_eq!(rejection(&with_word(&good, 16, 45)), at(16));
    assert_eq!(rejection(&with_word(&good, 20, 1)), at(16));
    assert_eq!(rejection(&with_word(&good, 24, 0x0063_0000)), at(24));
    assert_eq!(rejection(&with_word(&good, 24, 0x0102_0000)), at(24));
    assert_eq!(rejection(&with_word(&good, 24, 0x0002_0001)), at(24));
    assert_eq!(rejection(&with_word(&good, 28, 6)), at(28));
    assert_eq!(rejection(&with_word(&good, 32, 0x1_0000)), at(28));
    assert_eq!(rejection(&with_word(&good, 36, 0)), at(28));
    assert_eq!(rejection(&with_word(&good, 40, u32::MAX)), at(40));
}

#[test]
fn a_nid_rule_with_a_bad_address_is_rejected() {
    let rules = list(&["--src 10.0.0.1@tcp", "--dst 10.0.0.1@tcp"]);
    let good = block(&rules, RuleType::Nid);
    let mut absent = good.clone();
    absent[24..72].fill(0);
    assert_eq!(rejection(&absent), (Place::Offset(24), -22));
    let mut three = good.clone();
    three[60..72].fill(0);
    assert_eq!(rejection(&three), (Place::Offset(24), -22));
    assert_eq!(
        rejection(&with_word(&good, 28, 256)),
        (Place::Offset(24), -22)
    );
    let half_absent = with_word(&with_word(&good, 36, 5), 44, 0);
    assert_eq!(rejection(&half_absent), (Place::Offset(36), -22));
    assert_eq!(
        rejection(&with_word(&good, 72, 0x000D_0000)),
        (Place::Offset(24), -22)
    );
}

#[test]
fn a_bad_mixed_rule_is_rejected_with_its_place() {
    let good = block(&list(&["--src tcp1 --priority 0"]), RuleType::Mixed);
    let at = |offset| (Place::Offset(offset), -22);
    assert_eq!(rejection(&with_word(&good, 12, 4)), at(12));
    assert_eq!(rejection(&with_word(&good, 24, 78)), at(24));
    assert_eq!(rejection(&with_word(&good, 24, 64)), at(24));
    assert_eq!(rejection(&with_word(&good, 24, 84)), at(24));
    assert_eq!(rejection(&with_word(&good, 28, 2)), at(28));
    assert_eq!(rejection(&with_word(&good, 32, 0xFFFF_FFFE)), at(32));
    assert_eq!(rejection(&with_word(&good, 36, 2)), at(36));
    assert_eq!(rejection(&with_word(&good, 36, 0)), at(36));
    assert_eq!(rejection(&with_word(&good, 40, u32::MAX)), at(40));
    assert_eq!(rejection(&with_word(&good, 44, 0)), at(44));
    assert_eq!(rejection(&with_word(&good, 48, 2)), at(48));
    assert_eq!(rejection(&with_word(&good, 52, 23)), at(52));
    assert_eq!(rejection(&with_word(&good, 56, 2)), at(56));
    assert_eq!(rejection(&with_word(&good, 60, 2)), at(60));
}

// [BLOCK-7]
#[test]
fn rules_of_a_later_minor_version_are_read_without_what_they_have_more() {
    let mut bytes = hex(NET_EXAMPLE);
    bytes.extend([0xAA; 4]);
    let mut bytes = with_word(&with_word(&bytes, 0, 48), 12, 24);
    bytes[4] = 7;
    bytes.extend([0xBB; 9]);
    assert_eq!(
        lnet_sel_rule_deserialize(&bytes),
        lnet_sel_rule_deserialize(&hex(NET_EXAMPLE))
    );
}

#[test]
fn too_many_rules_are_rejected_with_e2big() {
    let record = hex(NET_EXAMPLE)[24..].to_vec();
    let mut bytes = hex(NET_EXAMPLE)[..24].to_vec();
    (0..1025).for_each(|_| bytes.extend(&record));
    let bytes = with_word(&bytes, 0, bytes.len() as u32);
    assert_eq!(rejection(&bytes).1, -7);
    let RuleBlock::Net(mut rules) = lnet_sel_rule_deserialize(&hex(NET_EXAMPLE)).unwrap() else {
        panic!("a net block")
    };
    rules.resize(1025, rules[0]);
    assert_eq!(RuleBlock::Net(rules).encode().unwrap_err().errno(), -7);
}

#[test]
fn a_buffer_that_is_too_small_gets_the_size_that_is_needed() {
    let block = lnet_sel_rule_deserialize(&hex(NET_EXAMPLE)).unwrap();
    let mut small = [0; 43];
    let error = lnet_sel_rule_serialize(&block, &mut small).unwrap_err();
    assert_eq!(error.errno(), -28);
    assert_eq!(
        error.problem,
        BlockProblem::BufferTooSmall {
            needed: 44,
            available: 43
        }
    );
    assert_eq!(small[..4], [44, 0, 0, 0]);
    assert!(small[24..].iter().all(|&byte| byte == 0));
    let mut enough = [0xEE; 50];
    assert_eq!(lnet_sel_rule_serialize(&block, &mut enough), Ok(44));
    assert_eq!(
        (&enough[..44], &enough[44..]),
        (&hex(NET_EXAMPLE)[..], &[0xEE; 6][..])
    );
    assert_eq!(
        lnet_sel_rule_serialize(&block, &mut [])
            .unwrap_err()
            .errno(),
        -28
    );
}

// [BLOCK-4]
#[test]
fn a_list_expression_becomes_a_rule_for_each_combination() {
    let rules = list(&[
        "--src 10.0.[1,3].[5,7-9]@tcp",
        "--dst 10.0.[1,3].[5,7-9]@tcp",
    ]);
    let split = texts(&loaded(&block(&rules, RuleType::Nid)));
    let sources: Vec<&String> = split.iter().filter(|text| text.contains("--src")).collect();
    assert_eq!(
        sources,
        [
            "--src 10.0.1.5@tcp --priority 0",
            "--src 10.0.1.[7-9]@tcp --priority 0",
            "--src 10.0.3.5@tcp --priority 0",
            "--src 10.0.3.[7-9]@tcp --priority 0",
        ]
    );
    let many = "[1,2,3,4,5,6,7,8,9]";
    let nid = format!("10.0.{many}.{many}@tcp");
    let rules = list(&[&format!("--src {nid}"), &format!("--dst {nid}")]);
    assert_eq!(
        RuleBlock::from_list(&rules, RuleType::Nid)
            .unwrap_err()
            .errno(),
        -7
    );
}

// [BLOCK-5]
#[test]
fn what_v1_cannot_say_is_rejected_with_eopnotsupp() {
    let errno = |rules: &[&str], rule_type| {
        RuleBlock::from_list(&list(rules), rule_type).map_err(|error| error.errno())
    };
    assert_eq!(errno(&["--src tcp"], RuleType::Net), Err(-95));
    assert_eq!(
        errno(&["--src tcp", "--dst tcp --priority 1"], RuleType::Net),
        Err(-95)
    );
    assert_eq!(
        errno(&["--dst fd00::1@tcp", "--src fd00::1@tcp"], RuleType::Nid),
        Err(-95)
    );
    assert_eq!(errno(&["--src tcp --dst tcp"], RuleType::P2p), Err(-95));
    assert_eq!(
        errno(&["--src tcp"], RuleType::Nid),
        Ok(RuleBlock::Nid(Vec::new()))
    );
    let ipv6 = RuleBlock::from_list(&list(&["--dst fd00::1@tcp"]), RuleType::Mixed).unwrap();
    assert_eq!(ipv6.encode().unwrap_err().errno(), -95);
}

#[test]
fn v2_converts_to_v1_and_back_except_what_v1_cannot_say() {
    let mixed = |rules: &[&str]| RuleBlock::from_list(&list(rules), RuleType::Mixed).unwrap();
    let good = mixed(&[
        "--src tcp",
        "--dst tcp",
        "--src 1@kfi --dst kfi --priority 2",
    ]);
    let [nets, nids, pairs] = good.to_v1().unwrap();
    assert_eq!((nets.len(), nids.len(), pairs.len()), (1, 0, 1));
    assert_eq!(nets.to_v2().unwrap().len(), 2);
    assert_eq!(
        pairs.to_v2().unwrap().to_rules().unwrap(),
        [rule("--src 1@kfi --dst kfi --priority 2")]
    );
    for rules in [
        &["--dst tcp --rte 1@kfi"][..],
        &["--src tcp"],
        &["--src [1,3]@kfi", "--dst [1,3]@kfi"],
    ] {
        assert_eq!(mixed(rules).to_v1().unwrap_err().errno(), -95);
    }
}

#[test]
fn a_block_replaces_the_rules_of_its_type_and_nothing_when_it_is_rejected() {
    let before = list(&[
        "--src kfi --priority 5",
        "--src 1@kfi --dst kfi --priority 2",
        "--dst kfi",
    ]);
    let mut rules = before.clone();
    rules
        .load(&lnet_sel_rule_deserialize(&hex(NET_EXAMPLE)).unwrap())
        .unwrap();
    assert_eq!(
        texts(&rules),
        [
            "--src 1@kfi --dst kfi --priority 2",
            "--src tcp[1-5] --priority 3",
            "--dst tcp[1-5] --priority 3",
        ]
    );
    let RuleBlock::Net(mut twice) = lnet_sel_rule_deserialize(&hex(NET_EXAMPLE)).unwrap() else {
        panic!("a net block")
    };
    twice.push(twice[0]);
    let mut rules = before.clone();
    let error: BlockError = rules.load(&RuleBlock::Net(twice)).unwrap_err();
    assert_eq!((error.errno(), rules), (-114, before));
}

#[test]
fn the_empty_block_is_the_empty_list() {
    let mut rules = list(&["--src tcp", "--dst 1@kfi"]);
    for rule_type in [RuleType::Net, RuleType::Mixed] {
        let empty = RuleBlock::from_list(&RuleList::new(), rule_type).unwrap();
        assert_eq!(empty.encode().unwrap().len(), 24);
        rules
            .load(&lnet_sel_rule_deserialize(&empty.encode().unwrap()).unwrap())
            .unwrap();
    }
    assert!(rules.rules().is_empty());
}

#[test]
fn indices_of_a_mixed_block_are_applied_in_its_order() {
    let RuleBlock::Mixed(mut rules) = RuleBlock::from_list(
        &list(&["--src tcp", "--src tcp1", "--src tcp2"]),
        RuleType::Mixed,
    )
    .unwrap() else {
        panic!("a mixed block")
    };
    rules[0].index = None;
    rules[1].index = Some(77);
    rules[2].index = Some(1);
    let mut list = RuleList::new();
    list.load(&RuleBlock::Mixed(rules)).unwrap();
    let nets = ["tcp", "tcp2", "tcp1"];
    assert_eq!(
        texts(&list),
        nets.map(|net| format!("--src {net} --priority 0"))
    );
}

#[test]
fn an_absent_expression_that_is_not_zero_is_rejected() {
    let rules = list(&["--src 7@gni", "--dst 7@gni"]);
    let good = block(&rules, RuleType::Nid);
    let rejected = rejection(&with_word(&good, 24 + 36, 1));
    assert_eq!(rejected, (Place::Offset(24 + 36), -22));
}

#[test]
fn of_pairs_that_become_one_v1_rule_the_better_rank_counts() {
    let rules = list(&[
        "--src [1,3]@gni --dst kfi --priority 8",
        "--src 3@gni --dst kfi --priority 2",
    ]);
    assert_eq!(
        texts(&loaded(&block(&rules, RuleType::P2p))),
        [
            "--src 1@gni --dst kfi --priority 8",
            "--src 3@gni --dst kfi --priority 2"
        ]
    );
}
