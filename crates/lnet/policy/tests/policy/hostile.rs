//! Blocks of any bytes, and blocks of any rules.

use lnet_policy::{
    DesignRules, Expr, NetDescr, NetRule, NidDescr, NidRule, P2pRule, Place, Priority, RuleBlock,
    RuleList, RuleType, lnet_sel_rule_deserialize,
};
use lnet_types::expr::Descriptor;
use proptest::prelude::*;

use crate::strategies::{any_list, descriptor};

/// Reading returns a value that writes and reads as itself, or an error whose offset is inside the
/// input.
fn check(bytes: &[u8]) {
    match lnet_sel_rule_deserialize(bytes) {
        Ok(block) => {
            let again = block.encode().unwrap();
            assert_eq!(lnet_sel_rule_deserialize(&again), Ok(block.clone()));
            let mut list = RuleList::new();
            if list.load(&block).is_err() {
                assert!(list.rules().is_empty());
            }
        }
        Err(error) => {
            assert!(matches!(error.place, Place::Offset(offset) if offset <= bytes.len()));
            assert!([-22, -7].contains(&error.errno()), "{error}");
        }
    }
}

fn expr(max: u32) -> impl Strategy<Value = Expr> {
    (any::<u32>(), any::<u32>(), 1..=max).prop_map(move |(a, b, stride)| {
        let (a, b) = (a % (max / 2 + 1), b % (max / 2 + 1));
        Expr {
            low: a.min(b),
            high: a.max(b) + 1,
            stride,
        }
    })
}

fn net_descr(lnd: u32) -> impl Strategy<Value = NetDescr> {
    let absent = any::<u16>().prop_map(move |number| NetDescr {
        net_id: lnd << 16 | u32::from(number),
        ..Default::default()
    });
    let present = expr(0xFFFF).prop_map(move |expr| NetDescr {
        net_id: lnd << 16,
        expr,
    });
    prop_oneof![absent, present]
}

fn nid_descr() -> impl Strategy<Value = NidDescr> {
    let quad =
        (expr(255), expr(255), expr(255), expr(255), net_descr(2)).prop_map(|(a, b, c, d, net)| {
            NidDescr {
                ip: [a, b, c, d],
                net,
            }
        });
    let number = (expr(u32::MAX), net_descr(13)).prop_map(|(number, net)| {
        let none = Expr::default();
        NidDescr {
            ip: [number, none, none, none],
            net,
        }
    });
    prop_oneof![quad, number]
}

fn any_block() -> impl Strategy<Value = RuleBlock> {
    let nets =
        (net_descr(5), 0..u32::MAX).prop_map(|(descr, priority)| NetRule { descr, priority });
    let nids = (nid_descr(), 0..u32::MAX).prop_map(|(descr, priority)| NidRule { descr, priority });
    let pairs = (nid_descr(), nid_descr(), 0..u32::MAX).prop_map(|(src, dst, priority)| P2pRule {
        src,
        dst,
        priority,
    });
    prop_oneof![
        prop::collection::vec(nets, 0..5).prop_map(RuleBlock::Net),
        prop::collection::vec(nids, 0..5).prop_map(RuleBlock::Nid),
        prop::collection::vec(pairs, 0..5).prop_map(RuleBlock::P2p),
        any_list(12).prop_map(|list| RuleBlock::from_list(&list, RuleType::Mixed).unwrap()),
    ]
}

fn ranges(descriptor: &Descriptor) -> usize {
    descriptor.to_string().matches(',').count()
}

proptest! {
    #[test]
    fn decoding_what_was_encoded_gives_the_block(block in any_block()) {
        let bytes = block.encode().unwrap();
        prop_assert_eq!(lnet_sel_rule_deserialize(&bytes), Ok(block));
    }

    #[test]
    fn a_mixed_block_carries_any_list(list in any_list(60)) {
        let bytes = RuleBlock::from_list(&list, RuleType::Mixed).unwrap().encode().unwrap();
        let mut again = RuleList::new();
        again.load(&lnet_sel_rule_deserialize(&bytes).unwrap()).unwrap();
        prop_assert_eq!(again, list);
    }

    #[test]
    fn v1_blocks_carry_the_policies_of_the_design(
        policies in prop::collection::vec((descriptor(), descriptor(), 0..9u32), 0..20),
    ) {
        let mut list = RuleList::new();
        let mut design = DesignRules::new(&mut list);
        for (src, dst, value) in policies {
            let value = Priority::new(value).unwrap();
            match (&src, &dst) {
                _ if ranges(&src) + ranges(&dst) > 0 => {}
                (Descriptor::Net(net), _) => design.add_net(&net.to_string(), value).unwrap(),
                (_, Descriptor::Net(_)) => design.add_nid(&src.to_string(), value).unwrap(),
                _ => design.add_peer(&src.to_string(), &dst.to_string(), value).unwrap(),
            }
        }
        let mut again = RuleList::new();
        for rule_type in [RuleType::Net, RuleType::Nid, RuleType::P2p] {
            let block = RuleBlock::from_list(&list, rule_type).unwrap();
            again.load(&lnet_sel_rule_deserialize(&block.encode().unwrap()).unwrap()).unwrap();
        }
        let (old, new) = (DesignRules::new(&mut list), DesignRules::new(&mut again));
        prop_assert_eq!(old.nets(None), new.nets(None));
        prop_assert_eq!(old.nids(None), new.nids(None));
        prop_assert_eq!(old.peers(None, None), new.peers(None, None));
    }

    #[test]
    fn any_bytes_are_read_or_rejected(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        check(&bytes);
    }

    #[test]
    fn damaged_blocks_are_read_or_rejected(
        block in any_block(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = block.encode().unwrap();
        for (index, value) in edits {
            let at = index.index(bytes.len());
            bytes[at] = value;
        }
        check(&bytes);
        check(&bytes[..cut.index(bytes.len() + 1)]);
    }
}
