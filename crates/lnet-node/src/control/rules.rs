//! The two requests of the selection design: rule blocks in, rule blocks out.
//!
//! The order is the design's: the list is rebuilt, applied to the local nets, applied to the peers, and
//! stored, all in one step under the engine's lock. A message sees the rules before or after.

use lnet_policy::{BlockError, RuleBlock, RuleType, lnet_sel_rule_deserialize};

use super::connection::Answer;
use super::request;
use crate::node::Node;

const EINVAL: i32 = 22;

/// `IOC_LIBCFS_ADD_RULES`: the block's rules replace those of its type.
pub(super) fn add(node: &Node, block: &[u8]) -> serde_json::Result<Answer> {
    let added = lnet_sel_rule_deserialize(block).and_then(|block| {
        node.with_core(|core, _| {
            let mut rules = core.rules().clone();
            rules.load(&block)?;
            core.set_rules(rules);
            Ok(())
        })
    });
    answer(added.map(|()| Vec::new()))
}

/// `IOC_LIBCFS_GET_RULES`: the rules of the type that the body names.
pub(super) fn list(node: &Node, wanted: &[u8]) -> serde_json::Result<Answer> {
    let number = <[u8; 4]>::try_from(wanted).map(u32::from_le_bytes);
    let Some(rule_type) = number.ok().and_then(RuleType::from_number) else {
        return refused(
            -EINVAL,
            "the body is not the number of a rule type".to_owned(),
        );
    };
    let rules = node.with_core(|core, _| core.rules().clone());
    answer(RuleBlock::from_list(&rules, rule_type).and_then(|block| block.encode()))
}

fn answer(result: Result<Vec<u8>, BlockError>) -> serde_json::Result<Answer> {
    match result {
        Ok(body) => Ok(Answer { status: 0, body }),
        Err(error) => refused(error.errno(), error.to_string()),
    }
}

fn refused(status: i32, descr: String) -> serde_json::Result<Answer> {
    let body = request::refusal(status, descr).to_body()?;
    Ok(Answer { status, body })
}
