//! The ordered list of rules: [UDSP-30].
//!
//! A rule's index is its position. If several rules give a priority to one object, the lowest index
//! wins. No two rules have the same descriptors: adding a second rule with the same descriptors
//! changes the first.

use crate::error::PolicyError;
use crate::rule::Rule;

/// The result of [`RuleList::add`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// The rule is new and has this index; the rules after it moved by one.
    Inserted(usize),
    /// The rule at this index had the same descriptors and now has the new value.
    Updated(usize),
}

/// Rules in their order.
///
/// ```
/// use lnet_policy::{Added, Priority, Rule, RuleList};
///
/// let mut rules = RuleList::new();
/// let rule = |net: &str, value| Rule::local(net.parse().unwrap(), Priority::new(value).unwrap());
/// assert_eq!(rules.add(rule("tcp", 1)?, None)?, Added::Inserted(0));
/// assert_eq!(rules.add(rule("o2ib", 2)?, Some(0))?, Added::Inserted(0));
/// assert_eq!(rules.add(rule("tcp", 5)?, Some(0))?, Added::Updated(1));
/// assert_eq!(rules.delete(7).unwrap_err().errno(), -2);
/// # Ok::<(), lnet_policy::PolicyError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleList {
    rules: Vec<Rule>,
}

impl RuleList {
    /// The most rules: those of three full v1 blocks, in which a net or NID policy counts as two
    /// rules and a pair as one.
    pub const MAX_LEN: usize = 5 * 1024;

    /// A list without rules.
    #[must_use]
    pub const fn new() -> Self {
        Self { rules: Vec::new() }
    }

    /// The rules, by index.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The rule with this index.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&Rule> {
        self.rules.get(index)
    }

    /// Adds `rule` before the rule that now has index `before`; at the end if there is no such
    /// rule.
    ///
    /// If the list has a rule with the same descriptors, that rule keeps its index and takes the
    /// new value.
    ///
    /// # Errors
    ///
    /// [`PolicyError::Exists`] if that rule has the value already; [`PolicyError::TooMany`].
    // [UDSP-31] [UDSP-32]
    pub fn add(&mut self, rule: Rule, before: Option<usize>) -> Result<Added, PolicyError> {
        let position = self.position(&rule);
        if let Some((index, old)) =
            position.and_then(|index| Some((index, self.rules.get_mut(index)?)))
        {
            if *old == rule {
                return Err(PolicyError::Exists { index });
            }
            old.set_value(&rule);
            return Ok(Added::Updated(index));
        }
        if self.rules.len() >= Self::MAX_LEN {
            return Err(PolicyError::TooMany { max: Self::MAX_LEN });
        }
        let index = before.map_or(self.rules.len(), |before| before.min(self.rules.len()));
        self.rules.insert(index, rule);
        Ok(Added::Inserted(index))
    }

    /// Removes the rule with this index; the rules after it move by one.
    ///
    /// # Errors
    ///
    /// [`PolicyError::NotFound`]; the list is then unchanged.
    // [UDSP-33]
    pub fn delete(&mut self, index: usize) -> Result<Rule, PolicyError> {
        if index >= self.rules.len() {
            return Err(PolicyError::NotFound);
        }
        Ok(self.rules.remove(index))
    }

    /// Removes all rules.
    pub fn clear(&mut self) {
        self.rules.clear();
    }

    /// Replaces all rules with `rules`, of which no two have the same descriptors.
    pub(crate) fn replace(&mut self, rules: Vec<Rule>) -> Result<(), PolicyError> {
        if rules.len() > Self::MAX_LEN {
            return Err(PolicyError::TooMany { max: Self::MAX_LEN });
        }
        self.rules = rules;
        Ok(())
    }

    pub(crate) fn retain(&mut self, keep: impl FnMut(&Rule) -> bool) {
        self.rules.retain(keep);
    }

    /// Index of the rule with the descriptors of `rule`.
    pub(crate) fn position(&self, rule: &Rule) -> Option<usize> {
        self.rules
            .iter()
            .position(|other| other.selector() == rule.selector())
    }
}

/// Reads the index of a command line: a decimal number.
///
/// # Errors
///
/// [`PolicyError::BadIndex`], also for -1, with which shipping tools delete all rules.
pub fn parse_index(text: &str) -> Result<usize, PolicyError> {
    let is_decimal = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse::<u32>()
        .ok()
        .filter(|_| is_decimal)
        .and_then(|index| usize::try_from(index).ok())
        .ok_or_else(|| PolicyError::BadIndex(text.to_owned()))
}
