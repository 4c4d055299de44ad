//! The nine functions of the design: add, delete and show policies of nets, NIDs and pairs.
//!
//! As in the design, a change reads the rules, changes the copy, and writes it back. If another
//! program changes the rules in between, the node rejects the copy, and the change is repeated on a
//! new copy.
//!
//! The copy is a v2 block of all rules, in which an expression with lists (`10.0.[1,3].1@tcp`)
//! stays one policy. If the node has rules that v2 cannot express (IPv6), the copy is a v1 block of
//! the type concerned, which works if the inexpressible rules have another type.

use std::time::Instant;

use lnet_policy::{
    DesignRules, NetPolicy, NidPolicy, PeerPolicy, PolicyError, Priority, RuleBlock, RuleList,
    RuleType,
};

use crate::connection::{DEFAULT_TIMEOUT, Dlc, Generation};
use crate::error::DlcError;

impl Dlc {
    /// Sets the priority of the nets of an expression, such as `o2ib` or `tcp[1-5]`.
    ///
    /// # Errors
    ///
    /// An invalid expression, a full list, a broken connection.
    pub fn lustre_lnet_add_net_sel_pol(
        &mut self,
        net: &str,
        priority: Priority,
    ) -> Result<(), DlcError> {
        self.change(RuleType::Net, |rules| rules.add_net(net, priority))
    }

    /// Deletes the policy with this expression, or this id as shown, or both.
    ///
    /// # Errors
    ///
    /// Neither argument is given, no policy matches, or the two arguments name different policies.
    pub fn lustre_lnet_del_net_sel_pol(
        &mut self,
        net: Option<&str>,
        id: Option<usize>,
    ) -> Result<(), DlcError> {
        self.change(RuleType::Net, |rules| rules.delete_net(net, id))
    }

    /// The net policies. A filter selects those that cover this net.
    ///
    /// # Errors
    ///
    /// An invalid expression, a broken connection.
    pub fn lustre_lnet_show_net_sel_pol(
        &mut self,
        net: Option<&str>,
    ) -> Result<Vec<NetPolicy>, DlcError> {
        let mut rules = self.copy(RuleType::Net)?.rules;
        Ok(DesignRules::new(&mut rules).nets(net)?)
    }

    /// Sets the priority of the NIDs of an expression, local or remote.
    ///
    /// # Errors
    ///
    /// As [`Dlc::lustre_lnet_add_net_sel_pol`].
    pub fn lustre_lnet_add_nid_sel_pol(
        &mut self,
        nid: &str,
        priority: Priority,
    ) -> Result<(), DlcError> {
        self.change(RuleType::Nid, |rules| rules.add_nid(nid, priority))
    }

    /// Deletes the policy with this expression, or this id as shown, or both.
    ///
    /// # Errors
    ///
    /// As [`Dlc::lustre_lnet_del_net_sel_pol`].
    pub fn lustre_lnet_del_nid_sel_pol(
        &mut self,
        nid: Option<&str>,
        id: Option<usize>,
    ) -> Result<(), DlcError> {
        self.change(RuleType::Nid, |rules| rules.delete_nid(nid, id))
    }

    /// The NID policies. A filter selects those that cover this NID.
    ///
    /// # Errors
    ///
    /// As [`Dlc::lustre_lnet_show_net_sel_pol`].
    pub fn lustre_lnet_show_nid_sel_pol(
        &mut self,
        nid: Option<&str>,
    ) -> Result<Vec<NidPolicy>, DlcError> {
        let mut rules = self.copy(RuleType::Nid)?.rules;
        Ok(DesignRules::new(&mut rules).nids(nid)?)
    }

    /// Sets the rank of local NIDs for peer NIDs.
    ///
    /// # Errors
    ///
    /// As [`Dlc::lustre_lnet_add_net_sel_pol`].
    pub fn lustre_lnet_add_peer_sel_pol(
        &mut self,
        src_nid: &str,
        dst_nid: &str,
        priority: Priority,
    ) -> Result<(), DlcError> {
        self.change(RuleType::P2p, |rules| {
            rules.add_peer(src_nid, dst_nid, priority)
        })
    }

    /// Deletes the policy of this pair, or with this id as shown, or all three.
    ///
    /// # Errors
    ///
    /// As [`Dlc::lustre_lnet_del_net_sel_pol`]; one NID alone.
    pub fn lustre_lnet_del_peer_sel_pol(
        &mut self,
        src_nid: Option<&str>,
        dst_nid: Option<&str>,
        id: Option<usize>,
    ) -> Result<(), DlcError> {
        self.change(RuleType::P2p, |rules| {
            rules.delete_peer(src_nid, dst_nid, id)
        })
    }

    /// The pairs. Each side can be filtered.
    ///
    /// # Errors
    ///
    /// As [`Dlc::lustre_lnet_show_net_sel_pol`].
    pub fn lustre_lnet_show_peer_sel_pol(
        &mut self,
        src_nid: Option<&str>,
        dst_nid: Option<&str>,
    ) -> Result<Vec<PeerPolicy>, DlcError> {
        let mut rules = self.copy(RuleType::P2p)?.rules;
        Ok(DesignRules::new(&mut rules).peers(src_nid, dst_nid)?)
    }

    /// All rules of the node, in their order.
    ///
    /// # Errors
    ///
    /// A broken connection.
    pub fn all_rules(&mut self) -> Result<RuleList, DlcError> {
        let mut rules = RuleList::new();
        rules.load(&self.rules(RuleType::Mixed)?)?;
        Ok(rules)
    }

    /// Replaces all rules of the node unconditionally.
    ///
    /// # Errors
    ///
    /// Rules that no block can express, a broken connection.
    pub fn set_all_rules(&mut self, rules: &RuleList) -> Result<(), DlcError> {
        self.add_rules(&RuleBlock::from_list(rules, RuleType::Mixed)?)
    }

    /// Changes the list of all rules. If another client changes the list in between, `change` is
    /// called again with the new list.
    ///
    /// # Errors
    ///
    /// Those of `change` and of [`Dlc::set_all_rules`]; an error for which [`DlcError::is_stale`]
    /// is true if other clients kept changing the rules for two minutes.
    pub fn change_all_rules<E: From<DlcError>>(
        &mut self,
        mut change: impl FnMut(&mut RuleList) -> Result<(), E>,
    ) -> Result<(), E> {
        self.change_copy(RuleType::Mixed, |copy| change(&mut copy.rules))
    }

    fn change(
        &mut self,
        rule_type: RuleType,
        change: impl Fn(&mut DesignRules<'_>) -> Result<(), PolicyError>,
    ) -> Result<(), DlcError> {
        self.change_copy(rule_type, |copy| {
            Ok(change(&mut DesignRules::new(&mut copy.rules))?)
        })
    }

    fn change_copy<E: From<DlcError>>(
        &mut self,
        rule_type: RuleType,
        mut change: impl FnMut(&mut Copy) -> Result<(), E>,
    ) -> Result<(), E> {
        let begun = Instant::now();
        loop {
            let mut copy = self.copy(rule_type)?;
            change(&mut copy)?;
            let block = RuleBlock::from_list(&copy.rules, copy.travels_as);
            match self.replace_rules(&block.map_err(DlcError::from)?, copy.seen) {
                Err(error) if error.is_stale() && begun.elapsed() < DEFAULT_TIMEOUT => {}
                done => return Ok(done?),
            }
        }
    }

    /// All rules, or those of one type if v2 cannot express all.
    fn copy(&mut self, rule_type: RuleType) -> Result<Copy, DlcError> {
        match self.copy_of(RuleType::Mixed) {
            Err(DlcError::Rejected(rejected))
                if rejected.iter().any(|one| one.errno == -EOPNOTSUPP) =>
            {
                self.copy_of(rule_type)
            }
            copy => copy,
        }
    }

    fn copy_of(&mut self, rule_type: RuleType) -> Result<Copy, DlcError> {
        let mut rules = RuleList::new();
        let (block, seen) = self.rules_seen(rule_type)?;
        rules.load(&block)?;
        Ok(Copy {
            rules,
            travels_as: rule_type,
            seen,
        })
    }
}

/// Rules that were read from a node for a change.
struct Copy {
    rules: RuleList,
    travels_as: RuleType,
    seen: Generation,
}

const EOPNOTSUPP: i32 = 95;
