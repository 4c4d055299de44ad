//! Conversions between a rule list and blocks.

use std::hash::Hash;

use lnet_types::expr::{AddressExpr, Descriptor};
use rustc_hash::{FxHashMap, FxHashSet};

use super::error::{BlockError, BlockProblem};
use super::record::{
    Fault, NetDescr, NetRule, NidDescr, NidRule, P2pRule, check_products, nid_descrs,
};
use super::{IndexedRule, RuleBlock, RuleType};
use crate::design::{Entry, entries, twins};
use crate::error::PolicyError;
use crate::list::RuleList;
use crate::priority::Priority;
use crate::rule::{Rule, RuleKind};

impl RuleBlock {
    /// The rules of this type in `rules`, as a node answers a request for them.
    ///
    /// A list expression becomes a v1 rule for each combination of its ranges. In a v2 block, the
    /// index of a rule is its position.
    ///
    /// # Errors
    ///
    /// For v1, [`BlockProblem::NotExpressible`] (−EOPNOTSUPP) if v1 cannot express rules of this
    /// type in the list: a priority of one side only, a disabled rule, an IPv6 address.
    /// [`BlockProblem::TooManyProducts`] and [`BlockProblem::TooManyRules`] (−E2BIG).
    pub fn from_list(rules: &RuleList, rule_type: RuleType) -> Result<Self, BlockError> {
        if rule_type == RuleType::Mixed {
            let indexed = rules.rules().iter().zip(0..);
            return Ok(Self::Mixed(
                indexed
                    .map(|(rule, index)| IndexedRule {
                        index: Some(index),
                        rule: rule.clone(),
                    })
                    .collect(),
            ));
        }
        check_expressible(rules, rule_type)?;
        let entries = entries(rules, rule_type);
        match rule_type {
            RuleType::Net => net_records(&entries).map(Self::Net),
            RuleType::Nid => nid_records(&entries).map(Self::Nid),
            RuleType::P2p | RuleType::Mixed => p2p_records(&entries).map(Self::P2p),
        }
    }

    /// The same rules as three v1 blocks: nets, NIDs and pairs.
    ///
    /// # Errors
    ///
    /// As [`Self::to_rules`] and [`Self::from_list`]; also [`BlockProblem::NotExpressible`]
    /// (−EOPNOTSUPP) for router rules and for expressions with several ranges.
    // [BLOCK-5]
    pub fn to_v1(&self) -> Result<[Self; 3], BlockError> {
        let mut list = RuleList::new();
        list.load(self)?;
        for (index, rule) in list.rules().iter().enumerate() {
            let problem = match rule.kind() {
                RuleKind::Router => "router rules",
                _ if has_several_ranges(rule) => "several ranges in one place",
                _ => continue,
            };
            let problem = BlockProblem::NotExpressible(problem);
            return Err(BlockError::in_rule(index, problem));
        }
        Ok([
            Self::from_list(&list, RuleType::Net)?,
            Self::from_list(&list, RuleType::Nid)?,
            Self::from_list(&list, RuleType::P2p)?,
        ])
    }

    /// The same rules as a v2 block, without indices.
    ///
    /// # Errors
    ///
    /// As [`Self::to_rules`].
    pub fn to_v2(&self) -> Result<Self, BlockError> {
        let rules = self.to_rules()?.into_iter();
        Ok(Self::Mixed(
            rules
                .map(|rule| IndexedRule { index: None, rule })
                .collect(),
        ))
    }

    /// The rules of the block in its order. The indices of a v2 block are applied.
    ///
    /// # Errors
    ///
    /// [`BlockError`] for an invalid record, and for two rules with the same descriptors.
    pub fn to_rules(&self) -> Result<Vec<Rule>, BlockError> {
        let rules = match self {
            Self::Net(records) => rules_of(records, |record| both_sides(record.parts()))?,
            Self::Nid(records) => rules_of(records, |record| both_sides(record.parts()))?,
            Self::P2p(records) => rules_of(records, pair)?,
            Self::Mixed(rules) => in_order(rules),
        };
        check_distinct(&rules)?;
        Ok(rules)
    }
}

impl RuleList {
    /// Loads a block: a v1 block replaces the rules of its type, a v2 block replaces all rules.
    ///
    /// The replaced rules move to the end of the list. This changes no effective value, because
    /// rules of different types set different values.
    ///
    /// # Errors
    ///
    /// As [`RuleBlock::to_rules`]; [`PolicyError::TooMany`](crate::PolicyError::TooMany). After an
    /// error the list is unchanged.
    // [BLOCK-2]
    pub fn load(&mut self, block: &RuleBlock) -> Result<(), BlockError> {
        let rule_type = block.rule_type();
        let new = block.to_rules()?;
        let mut rules: Vec<Rule> = self
            .rules()
            .iter()
            .filter(|rule| !belongs(rule, rule_type))
            .cloned()
            .collect();
        rules.extend(new);
        self.replace(rules)
            .map_err(|error| BlockError::in_rule(block.len(), BlockProblem::Policy(error)))
    }
}

/// Returns true if a block of this type replaces the rule.
fn belongs(rule: &Rule, rule_type: RuleType) -> bool {
    let of_kind = match rule.kind() {
        RuleKind::LocalNet | RuleKind::RemoteNet => Some(RuleType::Net),
        RuleKind::LocalNid | RuleKind::RemoteNid => Some(RuleType::Nid),
        RuleKind::NidPair | RuleKind::NetPair => Some(RuleType::P2p),
        RuleKind::Router => None,
    };
    rule_type == RuleType::Mixed || of_kind == Some(rule_type)
}

fn has_several_ranges(rule: &Rule) -> bool {
    let descriptors = rule.selector().descriptors().into_iter().flatten();
    descriptors.into_iter().any(|descriptor| match descriptor {
        Descriptor::Nid(nid) => match nid.address() {
            AddressExpr::Quad(octets) => octets.iter().any(|octet| octet.ranges().len() > 1),
            AddressExpr::Number(number) => number.ranges().len() > 1,
            AddressExpr::V6 { .. } => false,
        },
        Descriptor::Net(_) => false,
    })
}

fn check_expressible(rules: &RuleList, rule_type: RuleType) -> Result<(), BlockError> {
    let twins: FxHashSet<_> = rules
        .rules()
        .iter()
        .map(|rule| (rule.kind(), rule.selector().descriptors(), rule.priority()))
        .collect();
    for (index, rule) in rules.rules().iter().enumerate() {
        let [src, dst, _] = rule.selector().descriptors();
        let twin = match rule.kind() {
            RuleKind::LocalNet => Some((RuleKind::RemoteNet, [None, src, None])),
            RuleKind::LocalNid => Some((RuleKind::RemoteNid, [None, src, None])),
            RuleKind::RemoteNet => Some((RuleKind::LocalNet, [dst, None, None])),
            RuleKind::RemoteNid => Some((RuleKind::LocalNid, [dst, None, None])),
            RuleKind::NidPair | RuleKind::NetPair | RuleKind::Router => None,
        };
        let has_twin =
            twin.is_none_or(|(kind, twin)| twins.contains(&(kind, twin, rule.priority())));
        let problem = match rule.kind() {
            _ if !belongs(rule, rule_type) => continue,
            _ if rule.is_disabled() => "disabled rules",
            _ if !has_twin => "a priority of one side",
            _ if matches!((src, rule_type), (Some(Descriptor::Net(_)), RuleType::P2p)) => {
                "a net as source of a pair"
            }
            _ => continue,
        };
        let problem = BlockProblem::NotExpressible(problem);
        return Err(BlockError::in_rule(index, problem));
    }
    Ok(())
}

/// Which entry counts if two entries have the same record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wins {
    /// The entry of lower index, as for priorities.
    First,
    /// The entry of better rank, as for preferred lists.
    Best,
}

/// The records of every entry, each once.
fn records<K: Eq + Hash + Copy, R>(
    entries: &[Entry<'_>],
    wins: Wins,
    keys: impl Fn(&Entry<'_>) -> Result<Vec<K>, BlockProblem>,
    record: impl Fn(K, u32) -> R,
) -> Result<Vec<R>, BlockError> {
    let mut places: FxHashMap<K, usize> = FxHashMap::default();
    let mut records: Vec<(K, u32)> = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        let keys = keys(entry).map_err(|problem| BlockError::in_rule(number, problem))?;
        for key in keys {
            let place = *places.entry(key).or_insert(records.len());
            match records.get_mut(place) {
                Some(_) if wins == Wins::First => {}
                Some((_, rank)) => *rank = (*rank).min(entry.priority.value()),
                None => records.push((key, entry.priority.value())),
            }
        }
        if records.len() > RuleBlock::V1_RULES_MAX {
            let (count, max) = (records.len(), RuleBlock::V1_RULES_MAX);
            let problem = BlockProblem::TooManyRules { count, max };
            return Err(BlockError::in_rule(number, problem));
        }
    }
    Ok(records
        .into_iter()
        .map(|(key, priority)| record(key, priority))
        .collect())
}

fn net_records(entries: &[Entry<'_>]) -> Result<Vec<NetRule>, BlockError> {
    let keys = |entry: &Entry<'_>| match entry.src {
        Descriptor::Net(net) => Ok(vec![NetDescr::of(net)]),
        Descriptor::Nid(_) => Ok(Vec::new()),
    };
    records(entries, Wins::First, keys, |descr, priority| NetRule {
        descr,
        priority,
    })
}

fn nid_records(entries: &[Entry<'_>]) -> Result<Vec<NidRule>, BlockError> {
    let keys = |entry: &Entry<'_>| sides(entry.src);
    records(entries, Wins::First, keys, |descr, priority| NidRule {
        descr,
        priority,
    })
}

fn p2p_records(entries: &[Entry<'_>]) -> Result<Vec<P2pRule>, BlockError> {
    let keys = |entry: &Entry<'_>| {
        let (srcs, dsts) = (sides(entry.src)?, sides(entry.dst)?);
        check_products(srcs.len().saturating_mul(dsts.len()))?;
        let pairs = srcs
            .iter()
            .flat_map(|&src| dsts.iter().map(move |&dst| (src, dst)));
        Ok(pairs.collect())
    };
    records(entries, Wins::Best, keys, |(src, dst), priority| P2pRule {
        src,
        dst,
        priority,
    })
}

/// The records of one side; a net is a record without an address.
fn sides(descriptor: &Descriptor) -> Result<Vec<NidDescr>, BlockProblem> {
    match descriptor {
        Descriptor::Nid(nid) => nid_descrs(nid),
        Descriptor::Net(net) => Ok(vec![NidDescr {
            net: NetDescr::of(net),
            ..NidDescr::default()
        }]),
    }
}

/// The rules of v1 records.
fn rules_of<R>(
    records: &[R],
    rules: impl Fn(&R) -> Result<Vec<Rule>, BlockProblem>,
) -> Result<Vec<Rule>, BlockError> {
    let mut all = Vec::new();
    for (number, record) in records.iter().enumerate() {
        let rules = rules(record).map_err(|problem| BlockError::in_rule(number, problem))?;
        all.extend(rules);
    }
    Ok(all)
}

/// The rules of a v2 block, each inserted at its index.
fn in_order(indexed: &[IndexedRule]) -> Vec<Rule> {
    let mut rules = Vec::with_capacity(indexed.len());
    for IndexedRule { index, rule } in indexed {
        let end = rules.len();
        let index = index.map_or(end, |index| (index as usize).min(end));
        rules.insert(index, rule.clone());
    }
    rules
}

fn both_sides(parts: Result<(Descriptor, Priority), Fault>) -> Result<Vec<Rule>, BlockProblem> {
    let (both, priority) = parts.map_err(|(_, problem)| problem)?;
    Ok(twins(&both, priority)?)
}

fn pair(record: &P2pRule) -> Result<Vec<Rule>, BlockProblem> {
    let (src, dst, rank) = record.parts().map_err(|(_, problem)| problem)?;
    Ok(vec![Rule::pair(src, dst, rank)?])
}

fn check_distinct(rules: &[Rule]) -> Result<(), BlockError> {
    let mut seen = FxHashSet::default();
    for (index, rule) in rules.iter().enumerate() {
        if !seen.insert(rule.selector()) {
            let exists = PolicyError::Exists { index };
            return Err(BlockError::in_rule(index, BlockProblem::Policy(exists)));
        }
    }
    Ok(())
}
