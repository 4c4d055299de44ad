//! Selection rules as documents have them.
//!
//! The descriptors stay text, because kernels print rules that no expression of ours can be: a range
//! that runs backwards, a network number above 65535. [`UdspEntry::rule`] says which of them can be in
//! force.

use lnet_policy::{Action, PolicyError, Priority, Profile, Rule, RuleList, RuleText};
use lnet_types::expr::{AddressExpr, Descriptor};

/// An entry of the `udsp` section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UdspEntry {
    /// Where the rule stands in the list, or is to be inserted; `None` is at the end.
    pub idx: Option<u32>,
    /// The local side.
    pub src: Option<String>,
    /// The remote side.
    pub dst: Option<String>,
    /// The gateway.
    pub rte: Option<String>,
    /// What the rule does; `None` is as its descriptors imply (selection, section 4.7).
    pub action: Option<UdspAction>,
    /// True for a rule that is kept without being in force. Kernels know no such rule.
    pub disabled: bool,
}

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdspAction {
    /// Gives this priority, 0 best.
    Priority(u32),
    /// Puts on a preferred list.
    Preferred,
}

impl UdspEntry {
    /// The entries of a list, as an export has them.
    #[must_use]
    pub fn list(rules: &RuleList) -> Vec<Self> {
        (0..)
            .zip(rules.rules())
            .map(|(idx, rule)| Self::new(idx, rule))
            .collect()
    }

    /// The entry of a rule at `idx`.
    #[must_use]
    pub fn new(idx: u32, rule: &Rule) -> Self {
        let [src, dst, rte] = rule.selector().descriptors();
        let action = match rule.action() {
            Action::Priority(priority) => Some(UdspAction::Priority(priority.value())),
            // A rule without priority prints no action.
            Action::Preferred => None,
        };
        Self {
            idx: Some(idx),
            src: src.map(rendered),
            dst: dst.map(rendered),
            rte: rte.map(rendered),
            action,
            disabled: rule.is_disabled(),
        }
    }

    /// The rule.
    ///
    /// # Errors
    ///
    /// As [`Rule::from_text`]: among them every rule that kernels store without effect.
    pub fn rule(&self, profile: Profile) -> Result<Rule, PolicyError> {
        let [src, dst, rte] =
            [&self.src, &self.dst, &self.rte].map(|text| text.as_deref().map(any_number));
        let pairs = self.dst.is_some() && (self.src.is_some() || self.rte.is_some());
        let action = match self.action {
            // Kernels of 2.17 print a pair without a priority so.
            Some(UdspAction::Priority(NO_PRIORITY)) if pairs => None,
            Some(UdspAction::Priority(value)) => {
                let bad = || PolicyError::BadPriority(value.to_string());
                Some(Action::Priority(Priority::new(value).ok_or_else(bad)?))
            }
            Some(UdspAction::Preferred) => Some(Action::Preferred),
            None => None,
        };
        let text = RuleText {
            src: src.as_deref(),
            dst: dst.as_deref(),
            rte: rte.as_deref(),
            action,
        };
        Ok(Rule::from_text(&text, profile)?.disabled(self.disabled))
    }

    /// Where [`RuleList::add`] is to put the rule.
    #[must_use]
    pub fn position(&self) -> Option<usize> {
        self.idx.and_then(|idx| usize::try_from(idx).ok())
    }
}

/// No priority, in the 32 bits that kernels keep of one.
const NO_PRIORITY: u32 = u32::MAX;

/// Kernels print every `*` of a number as `[0-4294967295]`, which is no range of network numbers.
fn any_number(text: &str) -> String {
    text.replace("[0-4294967295]", "*")
}

/// A descriptor as kernels print it: no `*` in an address of four octets. What they print wrongly, as
/// lists that begin with a single number, is printed right.
fn rendered(descriptor: &Descriptor) -> String {
    let Descriptor::Nid(nid) = descriptor else {
        return descriptor.to_string();
    };
    let AddressExpr::Quad(octets) = nid.address() else {
        return descriptor.to_string();
    };
    let octets = octets
        .each_ref()
        .map(|octet| match octet.to_string().as_str() {
            "*" => "[0-255]".to_owned(),
            text => text.replace('*', "0-255"),
        });
    format!("{}@{}", octets.join("."), nid.net())
}
