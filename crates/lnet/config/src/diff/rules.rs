//! The changes from one list of rules to another.

use lnet_policy::{Rule, RuleList};

use super::Change;

/// Removes the rules that the new list lacks, from the end, then goes through the new list and
/// moves or adds each rule that is not at its index.
pub(super) fn changes(old: &RuleList, new: &RuleList, changes: &mut Vec<Change>) {
    let mut now: Vec<&Rule> = old.rules().iter().collect();
    for index in (0..now.len()).rev() {
        let stays = new
            .rules()
            .iter()
            .any(|rule| rule.selector() == now[index].selector());
        if !stays {
            now.remove(index);
            changes.push(Change::DelRule { index });
        }
    }
    for (index, rule) in new.rules().iter().enumerate() {
        let at = now
            .iter()
            .position(|other| other.selector() == rule.selector());
        match at {
            Some(at) if at == index => {
                if now[index] != rule {
                    let rule = rule.clone();
                    changes.push(Change::SetRule { index, rule });
                }
                continue;
            }
            Some(at) => {
                now.remove(at);
                changes.push(Change::DelRule { index: at });
            }
            None => {}
        }
        now.insert(index, rule);
        changes.push(Change::AddRule {
            index,
            rule: rule.clone(),
        });
    }
}
