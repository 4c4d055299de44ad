//! Rules in the layout of shipping kernels.

use lnet_policy::{Priority, Rule, kernel_rule};
use proptest::prelude::*;

/// Words, little-endian.
fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn tag(text: &[u8; 4]) -> u32 {
    u32::from_le_bytes(*text)
}

/// `--src tcp --priority 0`, in the layout of kernels: 32 + 3 × 16 bytes.
fn minimal() -> Vec<u8> {
    let fixed = [80, 0x0001_000B, u32::MAX, 1, 48, 0, 0, 0];
    let src = [tag(b"SRC\0"), 0, 2, 0];
    let dst = [tag(b"DST\0"), 0, 0, 0];
    let rte = [tag(b"RTE\0"), 0, 0, 0];
    bytes(&[&fixed[..], &src, &dst, &rte].concat())
}

#[test]
fn t_u48_the_minimal_rule_of_a_kernel_has_80_bytes_and_is_one_rule() {
    let block = minimal();
    assert_eq!(block.len(), 80);
    let read = kernel_rule(&block).unwrap();
    assert_eq!(read.index, None);
    assert_eq!(
        read.rule,
        Rule::local("tcp".parse().unwrap(), Priority::BEST).unwrap()
    );
    let longer = [&block[..], &[7; 9]].concat();
    assert_eq!(
        kernel_rule(&longer),
        Ok(read),
        "what stands behind is ignored"
    );
}

#[test]
fn a_pair_of_a_kernel_has_the_best_rank_whatever_its_priority_says() {
    let fixed = [0, 0x0001_000B, 3, 2, 0, 9, 0, 0];
    let address = [1, 10, 10, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 7, 7, 1];
    let src = [&[tag(b"SRC\0"), 4, 2, 1, 0, 0, 1][..], &address].concat();
    let dst = [&[tag(b"DST\0"), 4, 2, 1, 0, 0, 1][..], &address].concat();
    let rte = [tag(b"RTE\0"), 0, 0, 0];
    let mut block = bytes(&[&fixed[..], &src, &dst, &rte].concat());
    let length = u32::try_from(block.len()).unwrap();
    block[..4].copy_from_slice(&length.to_le_bytes());
    let read = kernel_rule(&block).unwrap();
    let nid = || "10.0.0.7@tcp0".parse().unwrap();
    assert_eq!(read.index, Some(3));
    assert_eq!(read.rule, Rule::pair(nid(), nid(), Priority::BEST).unwrap());
}

#[test]
fn a_bad_rule_of_a_kernel_is_rejected() {
    let errno = |block: &[u8]| kernel_rule(block).unwrap_err().errno();
    let with = |offset: usize, word: u32| {
        let mut block = minimal();
        block[offset..offset + 4].copy_from_slice(&word.to_le_bytes());
        errno(&block)
    };
    assert_eq!(errno(&minimal()[..31]), -28, "shorter than the fixed part");
    assert_eq!(errno(&minimal()[..79]), -22, "truncated");
    assert_eq!(with(0, 40), -22, "its own length cuts it");
    assert_eq!(with(4, 1), -22, "version");
    assert_eq!(with(12, 9), -22, "action");
    assert_eq!(with(32, 0), -22, "tag");
    assert_eq!(with(36, 2), -22, "number of address expressions");
    assert_eq!(with(44, 2), -22, "number of net ranges");
}

proptest! {
    #[test]
    fn no_rule_of_a_kernel_panics(
        at in proptest::collection::vec((0_usize..80, any::<u8>()), 0..8),
        length in 0_usize..100,
    ) {
        let mut block = minimal();
        for (offset, value) in at {
            block[offset] = value;
        }
        block.resize(length, 0);
        let _read = kernel_rule(&block);
    }
}
