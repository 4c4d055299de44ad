//! The reader of rule blocks.

use lnet_policy::{Place, RuleBlock, RuleList, RuleType, lnet_sel_rule_deserialize};

/// A block of selection rules, of any version and type.
pub fn rule_block(data: &[u8]) {
    let block = match lnet_sel_rule_deserialize(data) {
        Ok(block) => block,
        Err(error) => {
            assert!(matches!(error.place, Place::Offset(offset) if offset <= data.len()));
            assert!(matches!(error.errno(), -22 | -7), "{error}");
            return;
        }
    };
    let again = block
        .encode()
        .and_then(|bytes| lnet_sel_rule_deserialize(&bytes));
    assert_eq!(again.as_ref(), Ok(&block), "what is read can be written");
    check_list(&block);
}

/// A block that a list accepts comes out of the list as the same rules.
fn check_list(block: &RuleBlock) {
    let mut list = RuleList::new();
    if list.load(block).is_err() {
        assert!(
            list.rules().is_empty(),
            "rejected, and yet something changed"
        );
        return;
    }
    let mut copy = RuleList::new();
    let mixed = RuleBlock::from_list(&list, RuleType::Mixed);
    assert_eq!(mixed.and_then(|mixed| copy.load(&mixed)), Ok(()));
    assert_eq!(copy, list);
}
