//! Carries out the two requests of the selection design: to store a rule block and to fetch one.
//!
//! The order is the design's: the list is rebuilt, applied to the local nets, applied to the peers, and stored, all
//! in one step under the engine's lock. A message sees the rules before or after the change.
//!
//! A client changes the list in three steps: it fetches the list, changes its copy, and sends the copy back. The list
//! has a generation, so that two clients cannot undo each other's change: a copy of a list that has changed meanwhile
//! is rejected, in the same step.

use lnet_core::Core;
use lnet_dlc::protocol::{Reply, RuleChange, UdspRule};
use lnet_node::Engine;
use lnet_policy::{
    Action, BlockError, PolicyError, Priority, Profile, Rule, RuleBlock, RuleText, RuleType,
    lnet_sel_rule_deserialize,
};

use super::connection::Answer;
use super::request;
use crate::managed::{Configured, ManagedNode};

const EINVAL: i32 = 22;
const ESTALE: i32 = 116;

/// The reason why a list is not replaced.
enum Refused {
    Block(BlockError),
    /// The client has seen another generation of the list.
    Stale {
        seen: u32,
        now: u32,
    },
}

impl From<BlockError> for Refused {
    fn from(error: BlockError) -> Self {
        Self::Block(error)
    }
}

/// Handles `IOC_LIBCFS_ADD_RULES`: the block's rules replace those of its type, if the list is still of generation
/// `seen`; 0 accepts any generation.
pub(super) fn add(node: &ManagedNode, seen: u32, block: &[u8]) -> serde_json::Result<Answer> {
    let block = lnet_sel_rule_deserialize(block);
    let (added, generation) = node.changing().make(|node, _| {
        let added = block
            .map_err(Refused::from)
            .and_then(|block| replace(node.engine, seen, &block));
        (added, generation(node.engine))
    });
    answer(generation, added.map(|()| Vec::new()))
}

fn replace(engine: &mut Engine, seen: u32, block: &RuleBlock) -> Result<(), Refused> {
    let now = generation(engine);
    if seen != ANY && seen != now {
        return Err(Refused::Stale { seen, now });
    }
    let core = engine.core_mut();
    let mut rules = core.rules().clone();
    rules.load(block)?;
    core.set_rules(rules);
    Ok(())
}

/// Changes the list as `lnetctl udsp` does. This works without a block, so rules that no block can hold are no
/// obstacle.
pub(super) fn change(node: &ManagedNode, change: &RuleChange) -> Reply {
    let (verb, done) = match change {
        RuleChange::Add { rule, idx } => ("add", add_rule(node, rule, *idx)),
        RuleChange::Del { idx } => {
            let gone = |node: &mut Configured<'_>, _| delete(node.core_mut(), *idx);
            ("del", node.changing().make(gone))
        }
    };
    match done {
        Ok(()) => Reply::Done,
        Err(error) => request::failure(verb, "udsp", error.lnetctl_errno(), error.to_string()),
    }
}

fn add_rule(node: &ManagedNode, rule: &UdspRule, idx: Option<u32>) -> Result<(), PolicyError> {
    let bad = |value: u32| PolicyError::BadPriority(value.to_string());
    let priority = rule
        .priority
        .map(|value| Priority::new(value).ok_or_else(|| bad(value)));
    let text = RuleText {
        src: rule.src.as_deref(),
        dst: rule.dst.as_deref(),
        rte: rule.rte.as_deref(),
        action: priority.transpose()?.map(Action::Priority),
    };
    let rule = Rule::from_text(&text, Profile::Design)?;
    let before = idx.map(|idx| idx as usize);
    let added = |node: &mut Configured<'_>, _| node.core_mut().add_rule(rule, before);
    node.changing().make(added).map(|_| ())
}

fn delete(core: &mut Core, idx: Option<u32>) -> Result<(), PolicyError> {
    match idx {
        Some(idx) => core.delete_rule(idx as usize).map(|_| ()),
        None => {
            core.clear_rules();
            Ok(())
        }
    }
}

/// Handles `IOC_LIBCFS_GET_RULES`: returns the rules of the type that the body names.
pub(super) fn list(node: &ManagedNode, wanted: &[u8]) -> serde_json::Result<Answer> {
    let (rules, generation) = node
        .node()
        .with_engine(|engine, _| (engine.core().rules().clone(), generation(engine)));
    let number = <[u8; 4]>::try_from(wanted).map(u32::from_le_bytes);
    let Some(rule_type) = number.ok().and_then(RuleType::from_number) else {
        let descr = "the body is not the number of a rule type".to_owned();
        return refused(generation, -EINVAL, descr);
    };
    let block = RuleBlock::from_list(&rules, rule_type).and_then(|block| block.encode());
    answer(generation, block.map_err(Refused::from))
}

/// The generation of a client that has not seen a list.
const ANY: u32 = 0;

/// Returns the generation of the list. It changes with every change of the list and from one run of the node to the
/// next, so that a generation of an earlier run is not valid in this one. Never [`ANY`].
fn generation(engine: &Engine) -> u32 {
    let changes = engine.core().rule_changes();
    let number = engine.incarnation().wrapping_add(changes) % u64::from(u32::MAX);
    // A remainder of this division is less than the largest u32.
    number as u32 + 1
}

fn answer(generation: u32, result: Result<Vec<u8>, Refused>) -> serde_json::Result<Answer> {
    match result {
        Ok(body) => Ok(Answer {
            status: 0,
            generation,
            body,
        }),
        Err(Refused::Block(error)) => refused(generation, error.errno(), error.to_string()),
        Err(Refused::Stale { seen, now }) => {
            let descr = format!(
                "the rules have changed since they were read: they have generation {now}, the request has {seen}"
            );
            refused(generation, -ESTALE, descr)
        }
    }
}

fn refused(generation: u32, status: i32, descr: String) -> serde_json::Result<Answer> {
    let body = request::refusal(status, descr).to_body()?;
    Ok(Answer {
        status,
        generation,
        body,
    })
}
