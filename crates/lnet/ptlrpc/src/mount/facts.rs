//! What a check of a mount finds out, before anything is concluded.

use std::collections::BTreeSet;

use lnet_types::{Net, Nid};
use serde::Serialize;

use crate::client::{Failure, Granted, Service, Statfs};
use crate::rules::{Needs, SecurityRules};

/// Everything that was found out.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The name of the file system.
    pub fs: String,
    /// The nodes of the MGS, in the order in which they were given. Those behind the one that serves were only pinged.
    pub mgs: Vec<Mgs>,
    /// What a client would reject in the log, or what does not fit together.
    pub problems: Vec<String>,
    /// The rules of security of the file system.
    pub rules: SecurityRules,
    /// The targets in the order in which they were asked: MDTs first, and otherwise by their names.
    pub targets: Vec<TargetFacts>,
    /// Whether the log was read to its end.
    pub has_log: bool,
    /// Why the check ended before it had asked everything; `None` if it did not.
    pub cut: Option<String>,
}

impl Facts {
    /// Returns why not everything was asked.
    pub(super) fn why_cut(&self) -> &str {
        self.cut.as_deref().unwrap_or("the check has ended")
    }
}

/// A node of the MGS.
#[derive(Clone, Debug)]
pub struct Mgs {
    /// Its NIDs.
    pub nids: Vec<Reach>,
    /// What the conversation with it gave; `None` if there was none.
    pub outcome: Option<Result<Granted, Failure>>,
}

/// A target, and the nodes that may serve it.
#[derive(Clone, Debug)]
pub struct TargetFacts {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub service: Service,
    /// Its index, if its name has one.
    pub index: Option<u32>,
    /// Whether an administrator switched it off.
    pub is_inactive: bool,
    /// The NIDs of each node: first that of the node that usually serves the target.
    pub nodes: Vec<Vec<Reach>>,
    /// The NIDs from which it registered last with the MGS; empty if the MGS does not know.
    pub now: Vec<Reach>,
    /// The connects to it, one for each node that was tried.
    pub knocks: Vec<Knock>,
    /// Whether the check ended before it had asked this target.
    pub is_unasked: bool,
}

impl TargetFacts {
    /// Returns what the rules of security ask of this machine, on the nets from which it reaches the target.
    #[must_use]
    pub fn needs(&self, rules: &SecurityRules) -> Needs {
        let nids = || self.nodes.iter().flatten();
        let answering = nids().filter(|reach| reach.answers());
        let mut nets: BTreeSet<Net> = answering.filter_map(Reach::own_net).collect();
        if nets.is_empty() {
            nets = nids().filter_map(Reach::own_net).collect();
        }
        rules.needs(&self.name, self.service, &nets)
    }
}

/// A connect to a target.
#[derive(Clone, Debug)]
pub struct Knock {
    /// The NID.
    pub nid: String,
    /// What the target answered.
    pub result: Result<(Granted, Option<Statfs>), Failure>,
}

/// A NID, how this machine reaches it, and whether it answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reach {
    /// The NID as the log has it.
    pub nid: String,
    /// The way.
    pub way: Way,
    /// The answer to a ping.
    pub answer: Answer,
}

impl Reach {
    /// Returns whether a ping could have gone there, and did not.
    #[must_use]
    pub fn is_unasked(&self) -> bool {
        let is_reached = matches!(
            self.way,
            Way::Direct { .. } | Way::Through { .. } | Way::NotAsked
        );
        is_reached && self.answer == Answer::NotAsked
    }

    /// Returns the net of this machine from which the NID is reached.
    fn own_net(&self) -> Option<Net> {
        let own = match &self.way {
            Way::Direct { from } => from,
            // A gateway is on a net of this machine.
            Way::Through { gateways } => gateways.first()?,
            _ => return None,
        };
        Some(own.parse::<Nid>().ok()?.net())
    }

    /// Returns whether the NID answered.
    #[must_use]
    pub fn answers(&self) -> bool {
        self.answer == Answer::Yes
    }
}

/// How this machine reaches a NID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// From an interface of this machine on the same net.
    Direct {
        /// The NID of the interface.
        from: String,
    },
    /// Through routers.
    Through {
        /// The NIDs of the routers.
        gateways: Vec<String>,
    },
    /// The NID is one of this machine.
    Here,
    /// No interface is on its net, and no route leads there.
    NoNet,
    /// The net is an o2ib net, and this machine has no RDMA device for it.
    NoDevice {
        /// What was missing.
        why: String,
    },
    /// The check cannot speak on the net, though this machine may have a way there.
    Unexamined {
        /// What kept the check from it.
        why: String,
    },
    /// The check ended before it looked for a way.
    NotAsked,
    /// The text is no NID.
    Unreadable,
}

/// Whether a NID answered a ping.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It did.
    Yes,
    /// It did not.
    No {
        /// The cause.
        why: Why,
        /// What was seen.
        seen: String,
    },
    /// It was not asked.
    NotAsked,
}

/// Why a NID does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Nothing listens on the port.
    PortClosed,
    /// Something that is no LNet node listens on the port, or a node without this NID, or one that accepts only
    /// privileged ports.
    NotLnet,
    /// No answer came.
    Silent,
    /// The system or the routers have no path.
    NoPath,
    /// Another error.
    Other,
}
