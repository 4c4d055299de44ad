//! A rule: the objects that it matches, and the value that it gives them.
//!
//! | Kind         | `src` | `dst` | `rte` | Sets |
//! |--------------|-------|-------|-------|------|
//! | local net    | net   |       |       | priority of the local nets |
//! | local NID    | NID   |       |       | priority of the local NIs |
//! | remote net   |       | net   |       | priority of the peer nets |
//! | remote NID   |       | NID   |       | priority of the peer NIs |
//! | NID pair     | any   | NID   |       | preferred local NIDs of the peer NIs, with a rank |
//! | net pair     | any   | net   |       | the same for all peer NIs of the peer nets |
//! | router       |       | any   | any   | preferred gateways of the peer NIs |
//!
//! Rules that no kernel acts on are rejected: a priority with a gateway, a gateway alone, two
//! ranges in a net part. A net as `src` of a pair or as `rte` is accepted and matches nothing,
//! because a net never matches a NID; [`audit`](crate::audit) reports such a rule.

use std::fmt;
use std::str::FromStr;

use lnet_types::expr::{Descriptor, NetExpr, ParseExprError};
use lnet_types::{Net, Nid};
use thiserror::Error;

use crate::error::{Argument, PolicyError};
use crate::priority::Priority;

/// Whether rules behave as in the design documents or as in shipping kernels.
///
/// `Design` accepts ranked pairs, and merges the preferred lists of all rules that match a peer NI.
/// The profiles of kernels reject a priority on a pair, take the whole list from the matching rule
/// of lowest index, and give a peer that is not Multi-Rail at most one preferred NID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Profile {
    /// The design documents; the default.
    #[default]
    Design,
    /// Shipping kernels, as 2.16 behaves.
    Lustre,
    /// Shipping kernels, as 2.17 behaves.
    Lustre217,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Self; 3] = [Self::Design, Self::Lustre, Self::Lustre217];

    /// Returns true if this is the profile of a kernel release.
    #[must_use]
    pub const fn is_lustre(self) -> bool {
        matches!(self, Self::Lustre | Self::Lustre217)
    }

    /// The name in documents and on command lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Design => "design",
            Self::Lustre => "lustre",
            Self::Lustre217 => "lustre-2.17",
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text is not the name of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("profile is 'design', 'lustre' or 'lustre-2.17'")]
pub struct UnknownProfile;

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(text: &str) -> Result<Self, UnknownProfile> {
        let named = Self::ALL.into_iter().find(|profile| profile.name() == text);
        named.ok_or(UnknownProfile)
    }
}

/// What a rule matches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Selector {
    /// Local nets, or local NIs: `src`.
    Local(Descriptor),
    /// Peer nets, or peer NIs: `dst`.
    Remote(Descriptor),
    /// Local NIs for peer NIs: `src` and `dst`.
    Pair {
        /// Which local NIDs are preferred.
        local: Descriptor,
        /// The peer NIs that the preference applies to.
        remote: Descriptor,
    },
    /// Gateways for peer NIs: `dst` and `rte`.
    Router {
        /// The peer NIs that the preference applies to.
        remote: Descriptor,
        /// Which gateways are preferred.
        gateway: Descriptor,
    },
}

/// The kinds of rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleKind {
    /// Priority of local nets.
    LocalNet,
    /// Priority of local NIs.
    LocalNid,
    /// Priority of peer nets.
    RemoteNet,
    /// Priority of peer NIs.
    RemoteNid,
    /// Preferred local NIDs of peer NIs.
    NidPair,
    /// Preferred local NIDs of all peer NIs of peer nets.
    NetPair,
    /// Preferred gateways.
    Router,
}

/// What a rule does with the objects that it matches, as its text has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Gives a priority.
    Priority(Priority),
    /// Puts NIDs on a preferred list.
    Preferred,
}

impl Action {
    /// Reads the library's type string: `priority…` or `pref…`.
    ///
    /// # Errors
    ///
    /// [`PolicyError::BadAction`] for another string, and for `priority` without a value.
    pub fn from_name(name: &str, priority: Option<Priority>) -> Result<Self, PolicyError> {
        match priority {
            Some(priority) if name.starts_with("priority") => Ok(Self::Priority(priority)),
            _ if name.starts_with("pref") => Ok(Self::Preferred),
            _ => Err(PolicyError::BadAction(name.to_owned())),
        }
    }
}

/// A rule in the form of a command line or of YAML.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RuleText<'a> {
    /// The local side.
    pub src: Option<&'a str>,
    /// The remote side.
    pub dst: Option<&'a str>,
    /// The gateway.
    pub rte: Option<&'a str>,
    /// The action; `None` for the one that the combination of descriptors implies.
    pub action: Option<Action>,
}

/// A selection rule.
///
/// ```
/// use lnet_policy::{Action, Priority, Profile, Rule, RuleKind, RuleText};
///
/// let text = RuleText { dst: Some("o2ib[1-3]"), ..RuleText::default() };
/// let rule = Rule::from_text(&text, Profile::Design)?;
/// assert_eq!((rule.kind(), rule.priority()), (RuleKind::RemoteNet, Priority::BEST));
/// assert_eq!(rule.to_string(), "--dst o2ib[1-3] --priority 0");
/// # Ok::<(), lnet_policy::PolicyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    selector: Selector,
    priority: Priority,
    disabled: bool,
}

impl Rule {
    /// A rule that gives a priority to the local nets or local NIs that `local` matches.
    ///
    /// # Errors
    ///
    /// [`PolicyError::SeveralNetRanges`], [`PolicyError::UnknownNet`]; [`PolicyError::BadPriority`] for
    /// [`Priority::NONE`].
    pub fn local(local: Descriptor, priority: Priority) -> Result<Self, PolicyError> {
        Self::with_priority(Selector::Local(local), priority)
    }

    /// A rule that gives a priority to the peer nets or peer NIs that `remote` matches.
    ///
    /// # Errors
    ///
    /// As [`Self::local`].
    pub fn remote(remote: Descriptor, priority: Priority) -> Result<Self, PolicyError> {
        Self::with_priority(Selector::Remote(remote), priority)
    }

    /// A rule that prefers the local NIs that match `local` for the peer NIs that match `remote`.
    ///
    /// `rank` orders the preferred NIDs, and thereby the peer NIs that prefer one local NI.
    /// [`Priority::NONE`] means that the pair has no rank; it then counts as 0. The `lustre`
    /// profile requires [`Priority::NONE`].
    ///
    /// # Errors
    ///
    /// [`PolicyError::SeveralNetRanges`], [`PolicyError::UnknownNet`].
    pub fn pair(
        local: Descriptor,
        remote: Descriptor,
        rank: Priority,
    ) -> Result<Self, PolicyError> {
        Self::checked(Selector::Pair { local, remote }, rank)
    }

    /// A rule that prefers the gateways that match `gateway` for messages to the peer NIs that
    /// match `remote`.
    ///
    /// # Errors
    ///
    /// [`PolicyError::SeveralNetRanges`], [`PolicyError::UnknownNet`].
    pub fn router(remote: Descriptor, gateway: Descriptor) -> Result<Self, PolicyError> {
        Self::checked(Selector::Router { remote, gateway }, Priority::NONE)
    }

    /// Builds a rule as `lnetctl udsp add` does. Without an action, one descriptor gets priority 0,
    /// and two descriptors make a preferred list. A preferred list of one descriptor becomes
    /// priority 0.
    ///
    /// # Errors
    ///
    /// The combinations that `lnetctl` rejects, and those that shipping kernels store without effect.
    // [UDSP-1] [UDSP-3] [UDSP-9]
    pub fn from_text(text: &RuleText<'_>, profile: Profile) -> Result<Self, PolicyError> {
        match (text.src, text.dst, text.rte) {
            (Some(_), Some(_), Some(_)) => return Err(PolicyError::ThreeDescriptors),
            (Some(_), None, Some(_)) => return Err(PolicyError::SrcWithRte),
            (None, None, None) => return Err(PolicyError::NoDescriptor),
            _ => {}
        }
        let parse = |argument, text: Option<&str>| text.map(|text| descriptor(argument, text));
        let src = parse(Argument::Src, text.src).transpose()?;
        let dst = parse(Argument::Dst, text.dst).transpose()?;
        let rte = parse(Argument::Rte, text.rte).transpose()?;
        let priority = match text.action {
            Some(Action::Priority(priority)) if priority.is_none() => {
                return Err(PolicyError::BadPriority(priority.to_string()));
            }
            Some(Action::Priority(priority)) => Some(priority),
            Some(Action::Preferred) | None => None,
        };
        match (src, dst, rte) {
            (Some(local), None, _) => Self::local(local, priority.unwrap_or(Priority::BEST)),
            (None, Some(remote), None) => Self::remote(remote, priority.unwrap_or(Priority::BEST)),
            (Some(_), Some(_), _) if priority.is_some() && profile.is_lustre() => {
                Err(PolicyError::PriorityOnList(Argument::Src))
            }
            (Some(local), Some(remote), _) => {
                Self::pair(local, remote, priority.unwrap_or(Priority::NONE))
            }
            (None, Some(_), Some(_)) if priority.is_some() => {
                Err(PolicyError::PriorityOnList(Argument::Rte))
            }
            (None, Some(remote), Some(gateway)) => Self::router(remote, gateway),
            (None, None, _) => Err(PolicyError::RteAlone),
        }
    }

    fn with_priority(selector: Selector, priority: Priority) -> Result<Self, PolicyError> {
        if priority.is_none() {
            return Err(PolicyError::BadPriority(priority.to_string()));
        }
        Self::checked(selector, priority)
    }

    fn checked(selector: Selector, priority: Priority) -> Result<Self, PolicyError> {
        let [src, dst, rte] = selector.descriptors();
        let arguments = [Argument::Src, Argument::Dst, Argument::Rte];
        for (argument, descriptor) in arguments.into_iter().zip([src, dst, rte]) {
            if let Some(descriptor) = descriptor {
                check_net(argument, net_part(descriptor))?;
            }
        }
        Ok(Self {
            selector,
            priority,
            disabled: false,
        })
    }

    /// The same rule, disabled or enabled. A disabled rule stays in the list and has no effect.
    #[must_use]
    pub fn disabled(self, disabled: bool) -> Self {
        Self { disabled, ..self }
    }

    /// Returns true if the rule is disabled.
    #[must_use]
    pub const fn is_disabled(&self) -> bool {
        self.disabled
    }

    /// The objects that the rule matches. No two rules of a list have equal selectors.
    #[must_use]
    pub const fn selector(&self) -> &Selector {
        &self.selector
    }

    /// The priority, or the rank of a pair; [`Priority::NONE`] for a pair without rank and a router
    /// rule.
    #[must_use]
    pub const fn priority(&self) -> Priority {
        self.priority
    }

    /// The rank of the rule's entries on a preferred list.
    #[must_use]
    pub const fn rank(&self) -> Priority {
        if self.priority.is_none() {
            return Priority::BEST;
        }
        self.priority
    }

    /// The action of the rule, as a command line or a document has it.
    #[must_use]
    pub const fn action(&self) -> Action {
        if self.priority.is_none() {
            return Action::Preferred;
        }
        Action::Priority(self.priority)
    }

    /// The kind.
    #[must_use]
    pub const fn kind(&self) -> RuleKind {
        match &self.selector {
            Selector::Local(Descriptor::Net(_)) => RuleKind::LocalNet,
            Selector::Local(Descriptor::Nid(_)) => RuleKind::LocalNid,
            Selector::Remote(Descriptor::Net(_)) => RuleKind::RemoteNet,
            Selector::Remote(Descriptor::Nid(_)) => RuleKind::RemoteNid,
            Selector::Pair {
                remote: Descriptor::Nid(_),
                ..
            } => RuleKind::NidPair,
            Selector::Pair {
                remote: Descriptor::Net(_),
                ..
            } => RuleKind::NetPair,
            Selector::Router { .. } => RuleKind::Router,
        }
    }

    pub(crate) fn set_value(&mut self, from: &Self) {
        self.priority = from.priority;
        self.disabled = from.disabled;
    }
}

impl Selector {
    /// `src`, `dst` and `rte`.
    #[must_use]
    pub const fn descriptors(&self) -> [Option<&Descriptor>; 3] {
        match self {
            Self::Local(local) => [Some(local), None, None],
            Self::Remote(remote) => [None, Some(remote), None],
            Self::Pair { local, remote } => [Some(local), Some(remote), None],
            Self::Router { remote, gateway } => [None, Some(remote), Some(gateway)],
        }
    }
}

impl fmt::Display for Rule {
    /// The arguments of `lnetctl udsp add`, followed by `(disabled)` if the rule is disabled.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = ["--src", "--dst", "--rte"];
        let mut blank = "";
        for (name, descriptor) in names.into_iter().zip(self.selector.descriptors()) {
            if let Some(descriptor) = descriptor {
                write!(f, "{blank}{name} {descriptor}")?;
                blank = " ";
            }
        }
        if let Action::Priority(priority) = self.action() {
            write!(f, " --priority {priority}")?;
        }
        f.write_str(if self.disabled { " (disabled)" } else { "" })
    }
}

/// Returns true if `descriptor` is a net that covers `net`.
pub(crate) fn matches_net(descriptor: &Descriptor, net: Net) -> bool {
    matches!(descriptor, Descriptor::Net(expr) if expr.matches(net))
}

/// Returns true if `descriptor` has an address part and covers `nid`. A net never does (selection
/// 4.3).
pub(crate) fn matches_nid(descriptor: &Descriptor, nid: Nid) -> bool {
    matches!(descriptor, Descriptor::Nid(expr) if expr.matches(nid))
}

pub(crate) const fn net_part(descriptor: &Descriptor) -> &NetExpr {
    match descriptor {
        Descriptor::Net(net) => net,
        Descriptor::Nid(nid) => nid.net(),
    }
}

pub(crate) fn descriptor(argument: Argument, text: &str) -> Result<Descriptor, PolicyError> {
    text.parse()
        .map_err(|source: ParseExprError| PolicyError::Unparsable { argument, source })
}

// [UDSP-21]
fn check_net(argument: Argument, net: &NetExpr) -> Result<(), PolicyError> {
    if net.lnd().name().is_none() {
        let lnd = net.lnd();
        return Err(PolicyError::UnknownNet { argument, lnd });
    }
    match net.numbers().map(|numbers| numbers.ranges().len()) {
        None | Some(1) => Ok(()),
        Some(_) => Err(PolicyError::SeveralNetRanges(argument)),
    }
}
