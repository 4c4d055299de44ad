//! The view of the list in the design's library: nets, NIDs and pairs, each with its own
//! ids.
//!
//! A net or NID policy of the design applies to both sides. The list has two rules for it, `src`
//! and `dst`, with the same descriptor and priority; a rule without its counterpart is not in the
//! view. Ids are positions in the view.

use lnet_types::expr::{Descriptor, NetExpr, NidExpr};
use rustc_hash::FxHashSet;

use crate::block::RuleType;
use crate::error::{Argument, PolicyError};
use crate::list::RuleList;
use crate::priority::Priority;
use crate::rule::{Rule, Selector, descriptor, matches_net, matches_nid};

/// A net policy, which applies to local nets and peer nets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetPolicy {
    /// Its id.
    pub id: usize,
    /// The nets.
    pub net: NetExpr,
    /// Their priority.
    pub priority: Priority,
}

/// A NID policy, which applies to local NIs and peer NIs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NidPolicy {
    /// Its id.
    pub id: usize,
    /// The NIDs.
    pub nid: NidExpr,
    /// Their priority.
    pub priority: Priority,
}

/// A peer-to-peer policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerPolicy {
    /// Its id.
    pub id: usize,
    /// The local NIDs.
    pub src: Descriptor,
    /// The peer NIDs, or all NIDs of a net.
    pub dst: Descriptor,
    /// The rank of the local NIDs on the preferred lists.
    pub priority: Priority,
}

/// The view. Adding a policy whose descriptors the list has already changes that policy.
///
/// ```
/// use lnet_policy::{DesignRules, Priority, RuleList};
///
/// let mut rules = RuleList::new();
/// let mut design = DesignRules::new(&mut rules);
/// design.add_net("tcp", Priority::new(3).unwrap())?;
/// design.add_net("tcp", Priority::new(1).unwrap())?;
/// assert_eq!(design.nets(None)?.len(), 1);
/// assert_eq!(design.nets(None)?[0].priority.value(), 1);
/// design.delete_net(Some("tcp"), None)?;
/// assert!(rules.rules().is_empty());
/// # Ok::<(), lnet_policy::PolicyError>(())
/// ```
#[derive(Debug)]
pub struct DesignRules<'a> {
    rules: &'a mut RuleList,
}

impl<'a> DesignRules<'a> {
    /// Makes the view of `rules`.
    #[must_use]
    pub fn new(rules: &'a mut RuleList) -> Self {
        Self { rules }
    }

    /// Adds or changes the policy of a net expression.
    ///
    /// # Errors
    ///
    /// [`PolicyError::Unparsable`] also for a NID; those of [`Rule::local`];
    /// [`PolicyError::TooMany`]. After an error the list is unchanged.
    pub fn add_net(&mut self, net: &str, priority: Priority) -> Result<(), PolicyError> {
        self.upsert(twins(&Descriptor::Net(net_expr(net)?), priority)?)
    }

    /// Adds or changes the policy of a NID expression, local or remote.
    ///
    /// # Errors
    ///
    /// As [`Self::add_net`]; [`PolicyError::Unparsable`] for text that is not a NID expression.
    // [UDSP-40]
    pub fn add_nid(&mut self, nid: &str, priority: Priority) -> Result<(), PolicyError> {
        let nid = Descriptor::Nid(nid_expr(Argument::Src, nid)?);
        self.upsert(twins(&nid, priority)?)
    }

    /// Adds or changes the policy of a pair of NID expressions.
    ///
    /// # Errors
    ///
    /// As [`Self::add_nid`].
    pub fn add_peer(&mut self, src: &str, dst: &str, rank: Priority) -> Result<(), PolicyError> {
        let src = Descriptor::Nid(nid_expr(Argument::Src, src)?);
        let dst = Descriptor::Nid(nid_expr(Argument::Dst, dst)?);
        if rank.is_none() {
            return Err(PolicyError::BadPriority(rank.to_string()));
        }
        self.upsert(vec![Rule::pair(src, dst, rank)?])
    }

    /// The net policies. `filter` selects the policy with this expression and those that cover this
    /// net.
    ///
    /// # Errors
    ///
    /// [`PolicyError::Unparsable`] for the filter.
    pub fn nets(&self, filter: Option<&str>) -> Result<Vec<NetPolicy>, PolicyError> {
        let filter = filter.map(net_expr).transpose()?.map(Descriptor::Net);
        let shown = shown(self.rules, RuleType::Net, filter.as_ref(), None);
        Ok(shown
            .filter_map(|(id, entry)| match entry.src {
                Descriptor::Net(net) => Some(NetPolicy {
                    id,
                    net: net.clone(),
                    priority: entry.priority,
                }),
                Descriptor::Nid(_) => None,
            })
            .collect())
    }

    /// The NID policies. `filter` selects the policy with this expression and those that cover this
    /// NID.
    ///
    /// # Errors
    ///
    /// As [`Self::nets`].
    pub fn nids(&self, filter: Option<&str>) -> Result<Vec<NidPolicy>, PolicyError> {
        let filter = parsed(Argument::Src, filter)?;
        let shown = shown(self.rules, RuleType::Nid, filter.as_ref(), None);
        Ok(shown
            .filter_map(|(id, entry)| match entry.src {
                Descriptor::Nid(nid) => Some(NidPolicy {
                    id,
                    nid: nid.clone(),
                    priority: entry.priority,
                }),
                Descriptor::Net(_) => None,
            })
            .collect())
    }

    /// The peer-to-peer policies. Each side can be filtered.
    ///
    /// # Errors
    ///
    /// As [`Self::nets`].
    pub fn peers(
        &self,
        src: Option<&str>,
        dst: Option<&str>,
    ) -> Result<Vec<PeerPolicy>, PolicyError> {
        let src = parsed(Argument::Src, src)?;
        let dst = parsed(Argument::Dst, dst)?;
        let shown = shown(self.rules, RuleType::P2p, src.as_ref(), dst.as_ref());
        Ok(shown
            .map(|(id, entry)| PeerPolicy {
                id,
                src: entry.src.clone(),
                dst: entry.dst.clone(),
                priority: entry.priority,
            })
            .collect())
    }

    /// Deletes the net policy with this expression, or this id, or both.
    ///
    /// # Errors
    ///
    /// [`PolicyError::NoDescriptor`] if both are absent, [`PolicyError::NotFound`],
    /// [`PolicyError::IdMismatch`], [`PolicyError::Unparsable`].
    pub fn delete_net(&mut self, net: Option<&str>, id: Option<usize>) -> Result<(), PolicyError> {
        let net = net.map(net_expr).transpose()?.map(Descriptor::Net);
        self.delete(RuleType::Net, net.as_ref(), net.as_ref(), id)
    }

    /// Deletes the NID policy with this expression, or this id, or both.
    ///
    /// # Errors
    ///
    /// As [`Self::delete_net`].
    pub fn delete_nid(&mut self, nid: Option<&str>, id: Option<usize>) -> Result<(), PolicyError> {
        let nid = parsed(Argument::Src, nid)?;
        self.delete(RuleType::Nid, nid.as_ref(), nid.as_ref(), id)
    }

    /// Deletes the peer-to-peer policy with these expressions, or this id, or all three.
    ///
    /// # Errors
    ///
    /// As [`Self::delete_net`]; one expression alone is [`PolicyError::NoDescriptor`].
    pub fn delete_peer(
        &mut self,
        src: Option<&str>,
        dst: Option<&str>,
        id: Option<usize>,
    ) -> Result<(), PolicyError> {
        let src = parsed(Argument::Src, src)?;
        let dst = parsed(Argument::Dst, dst)?;
        self.delete(RuleType::P2p, src.as_ref(), dst.as_ref(), id)
    }

    // [UDSP-41]
    fn upsert(&mut self, rules: Vec<Rule>) -> Result<(), PolicyError> {
        let new = rules
            .iter()
            .filter(|rule| self.rules.position(rule).is_none());
        if self.rules.rules().len() + new.count() > RuleList::MAX_LEN {
            let max = RuleList::MAX_LEN;
            return Err(PolicyError::TooMany { max });
        }
        for rule in rules {
            match self.rules.add(rule, None) {
                Ok(_) | Err(PolicyError::Exists { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    // [UDSP-42]
    fn delete(
        &mut self,
        view: RuleType,
        src: Option<&Descriptor>,
        dst: Option<&Descriptor>,
        id: Option<usize>,
    ) -> Result<(), PolicyError> {
        let entries = entries(self.rules, view);
        let named = match (src, dst) {
            (Some(src), Some(dst)) => Some(
                entries
                    .iter()
                    .position(|entry| entry.src == src && entry.dst == dst)
                    .ok_or(PolicyError::NotFound)?,
            ),
            (None, None) => None,
            _ => return Err(PolicyError::NoDescriptor),
        };
        let position = match (named, id) {
            (None, None) => return Err(PolicyError::NoDescriptor),
            (Some(named), Some(id)) if id < entries.len() && id != named => {
                return Err(PolicyError::IdMismatch);
            }
            (_, Some(id)) => id,
            (Some(named), None) => named,
        };
        let entry = entries.get(position).ok_or(PolicyError::NotFound)?;
        let selectors = entry.selectors(view);
        self.rules
            .retain(|rule| !selectors.contains(rule.selector()));
        Ok(())
    }
}

/// A policy of the design's view: an id, its descriptors and its priority.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) src: &'a Descriptor,
    /// The same as `src` for nets and NIDs.
    pub(crate) dst: &'a Descriptor,
    pub(crate) priority: Priority,
}

impl Entry<'_> {
    /// The selectors of the rules of this policy.
    fn selectors(&self, view: RuleType) -> Vec<Selector> {
        if view == RuleType::P2p {
            let (local, remote) = (self.src.clone(), self.dst.clone());
            return vec![Selector::Pair { local, remote }];
        }
        vec![
            Selector::Local(self.src.clone()),
            Selector::Remote(self.dst.clone()),
        ]
    }
}

/// The policies of one type, by id.
pub(crate) fn entries(rules: &RuleList, view: RuleType) -> Vec<Entry<'_>> {
    let twins: FxHashSet<(&Descriptor, Priority)> = rules
        .rules()
        .iter()
        .filter_map(|rule| match rule.selector() {
            Selector::Remote(remote) => Some((remote, rule.priority())),
            _ => None,
        })
        .collect();
    rules
        .rules()
        .iter()
        .filter_map(|rule| entry(rule, view))
        .filter(|entry| view == RuleType::P2p || twins.contains(&(entry.dst, entry.priority)))
        .collect()
}

/// The policy of a rule; of the two rules of a policy for both sides, only the `src` rule has one.
fn entry(rule: &Rule, view: RuleType) -> Option<Entry<'_>> {
    let (src, dst) = match (rule.selector(), view) {
        (Selector::Local(net @ Descriptor::Net(_)), RuleType::Net) => (net, net),
        (Selector::Local(nid @ Descriptor::Nid(_)), RuleType::Nid) => (nid, nid),
        (Selector::Pair { local, remote }, RuleType::P2p) => (local, remote),
        _ => return None,
    };
    let priority = rule.rank();
    Some(Entry { src, dst, priority })
}

/// The two rules of a policy for both sides.
pub(crate) fn twins(both: &Descriptor, priority: Priority) -> Result<Vec<Rule>, PolicyError> {
    Ok(vec![
        Rule::local(both.clone(), priority)?,
        Rule::remote(both.clone(), priority)?,
    ])
}

fn shown<'a>(
    rules: &'a RuleList,
    view: RuleType,
    src: Option<&'a Descriptor>,
    dst: Option<&'a Descriptor>,
) -> impl Iterator<Item = (usize, Entry<'a>)> {
    let entries = entries(rules, view).into_iter().enumerate();
    entries.filter(move |(_, entry)| {
        src.is_none_or(|src| passes(entry.src, src)) && dst.is_none_or(|dst| passes(entry.dst, dst))
    })
}

/// Returns true if `filter` equals this descriptor, or is one net or NID that the descriptor
/// covers.
fn passes(descriptor: &Descriptor, filter: &Descriptor) -> bool {
    descriptor == filter
        || match filter {
            Descriptor::Net(net) => net
                .expand(1)
                .is_ok_and(|nets| nets.iter().all(|&net| matches_net(descriptor, net))),
            Descriptor::Nid(nid) => nid
                .expand(1)
                .is_ok_and(|nids| nids.iter().all(|&nid| matches_nid(descriptor, nid))),
        }
}

fn net_expr(text: &str) -> Result<NetExpr, PolicyError> {
    text.parse().map_err(|source| PolicyError::Unparsable {
        argument: Argument::Src,
        source,
    })
}

fn nid_expr(argument: Argument, text: &str) -> Result<NidExpr, PolicyError> {
    text.parse()
        .map_err(|source| PolicyError::Unparsable { argument, source })
}

fn parsed(argument: Argument, text: Option<&str>) -> Result<Option<Descriptor>, PolicyError> {
    text.map(|text| descriptor(argument, text)).transpose()
}
