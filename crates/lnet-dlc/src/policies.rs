//! The nine functions of the design: add, delete and show policies of nets, NIDs and pairs.
//!
//! A change is made on a copy: the rules are fetched, changed, and put back, as the design has it. Two
//! programs that do so at the same moment can undo each other's change; the node sees either.
//!
//! The copy is a v1 block of the type concerned. Where the node's rules of that type say more than v1
//! can (a priority of one side only, IPv6), it is a v2 block of all rules.

use lnet_policy::{
    DesignRules, NetPolicy, NidPolicy, PeerPolicy, PolicyError, Priority, RuleBlock, RuleList,
    RuleType,
};

use crate::connection::Dlc;
use crate::error::DlcError;

impl Dlc {
    /// Adds or changes the priority of the nets of an expression, such as `o2ib` or `tcp[1-5]`.
    ///
    /// # Errors
    ///
    /// No such expression, a full list, a broken connection.
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
    /// Neither is given, there is none, the two disagree.
    pub fn lustre_lnet_del_net_sel_pol(
        &mut self,
        net: Option<&str>,
        id: Option<usize>,
    ) -> Result<(), DlcError> {
        self.change(RuleType::Net, |rules| rules.delete_net(net, id))
    }

    /// The net policies, with a filter those that cover this net.
    ///
    /// # Errors
    ///
    /// No such expression, a broken connection.
    pub fn lustre_lnet_show_net_sel_pol(
        &mut self,
        net: Option<&str>,
    ) -> Result<Vec<NetPolicy>, DlcError> {
        let mut rules = self.copy(RuleType::Net)?.rules;
        Ok(DesignRules::new(&mut rules).nets(net)?)
    }

    /// Adds or changes the priority of the NIDs of an expression, local or remote.
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

    /// The NID policies, with a filter those that cover this NID.
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

    /// Adds or changes the rank of local NIDs for peer NIDs.
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

    /// The pairs, filtered by either side.
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

    /// Puts other rules in place of all of the node's.
    ///
    /// # Errors
    ///
    /// Rules that no block can hold, a broken connection.
    pub fn set_all_rules(&mut self, rules: &RuleList) -> Result<(), DlcError> {
        self.add_rules(&RuleBlock::from_list(rules, RuleType::Mixed)?)
    }

    fn change(
        &mut self,
        rule_type: RuleType,
        change: impl FnOnce(&mut DesignRules<'_>) -> Result<(), PolicyError>,
    ) -> Result<(), DlcError> {
        let mut copy = self.copy(rule_type)?;
        change(&mut DesignRules::new(&mut copy.rules))?;
        let block = RuleBlock::from_list(&copy.rules, copy.travels_as)?;
        self.add_rules(&block)
    }

    /// The rules of a type, or all of them where v1 cannot hold those.
    fn copy(&mut self, rule_type: RuleType) -> Result<Copy, DlcError> {
        match self.copy_of(rule_type) {
            Err(DlcError::Refused(refused))
                if refused.iter().any(|one| one.errno == -EOPNOTSUPP) =>
            {
                self.copy_of(RuleType::Mixed)
            }
            copy => copy,
        }
    }

    fn copy_of(&mut self, rule_type: RuleType) -> Result<Copy, DlcError> {
        let mut rules = RuleList::new();
        rules.load(&self.rules(rule_type)?)?;
        Ok(Copy {
            rules,
            travels_as: rule_type,
        })
    }
}

/// Rules of a node, fetched to be changed.
struct Copy {
    rules: RuleList,
    travels_as: RuleType,
}

const EOPNOTSUPP: i32 = 95;
