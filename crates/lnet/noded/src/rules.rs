//! The selection rules of a running node. Each call is one step under the node's lock: a message that another thread
//! sends at the same time follows the rules before or after the call, never a part of them.

use lnet_policy::{Added, PolicyError, Rule, RuleList};

use crate::managed::ManagedNode;

impl ManagedNode {
    /// Returns the selection rules in their order.
    #[must_use]
    pub fn rules(&self) -> RuleList {
        self.with_core(|core, _| core.rules().clone())
    }

    /// Adds a rule, as [`lnet_core::Core::add_rule`] does.
    ///
    /// # Errors
    ///
    /// Those of [`lnet_core::Core::add_rule`]; after an error, nothing has changed.
    pub fn add_rule(&self, rule: Rule, before: Option<usize>) -> Result<Added, PolicyError> {
        self.changing()
            .make(|node, _| node.core_mut().add_rule(rule, before))
    }

    /// Deletes the rule with this index.
    ///
    /// # Errors
    ///
    /// [`PolicyError::NotFound`].
    pub fn delete_rule(&self, index: usize) -> Result<Rule, PolicyError> {
        self.changing()
            .make(|node, _| node.core_mut().delete_rule(index))
    }

    /// Replaces the list of rules. Once this returns, no message takes a path by the former rules.
    pub fn set_rules(&self, rules: RuleList) {
        self.changing()
            .make(|node, _| node.core_mut().set_rules(rules));
    }
}
