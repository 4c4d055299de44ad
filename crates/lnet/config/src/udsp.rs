//! The form of selection rules in documents.
//!
//! Descriptors stay text, because kernels print rules that are not valid expressions: a reversed
//! range, a network number above 65535. [`UdspEntry::rule`] checks whether a rule can take effect.

use lnet_policy::{Action, PolicyError, Priority, Profile, Rule, RuleList, RuleText};
use lnet_types::expr::{AddressExpr, Descriptor};

/// An entry of the `udsp` section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UdspEntry {
    /// The index of the rule, or the index at which it is inserted; `None` is the end.
    pub idx: Option<u32>,
    /// The local side.
    pub src: Option<String>,
    /// The remote side.
    pub dst: Option<String>,
    /// The gateway.
    pub rte: Option<String>,
    /// The action of the rule; `None` is the one that its descriptors imply.
    pub action: Option<UdspAction>,
    /// True for a rule that is kept without effect. Kernels have no such rules.
    pub disabled: bool,
}

/// The action of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdspAction {
    /// Gives this priority, 0 best.
    Priority(u32),
    /// Puts NIDs on a preferred list.
    Preferred,
}

impl UdspEntry {
    /// The entries of a list, in the form of an export.
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
            // Kernels of 2.17 print this for a pair without a priority.
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

    /// The position for [`RuleList::add`].
    #[must_use]
    pub fn position(&self) -> Option<usize> {
        self.idx.and_then(|idx| usize::try_from(idx).ok())
    }
}

/// The value that stands for no priority in the 32 bits of kernels.
const NO_PRIORITY: u32 = u32::MAX;

/// Kernels print every `*` of a number as `[0-4294967295]`, which is not a valid range of network
/// numbers.
fn any_number(text: &str) -> String {
    text.replace("[0-4294967295]", "*")
}

/// A descriptor as kernels print it: without `*` in an address of four octets. Forms that kernels
/// print wrongly, such as lists that begin with a single number, are printed correctly.
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
