//! The fault rules as callers give them and as they are listed.

use std::time::Duration;

use bitflags::bitflags;
use lnet_types::{Net, Nid};
use lnet_wire::{Body, MessageType};
use thiserror::Error;

use crate::ground::event::Errno;
use crate::ground::status::MessageStatus;
use crate::traffic::fault::Sighting;
use crate::traffic::fault::pace::Pace;

/// A set of NIDs that a rule is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NidFilter {
    /// All NIDs.
    #[default]
    Any,
    /// All NIDs on a net.
    Net(Net),
    /// This NID.
    Nid(Nid),
}

impl NidFilter {
    /// Returns whether the filter matches this NID.
    #[must_use]
    pub fn matches(&self, nid: Nid) -> bool {
        match *self {
            Self::Any => true,
            Self::Net(net) => nid.net() == net,
            Self::Nid(wanted) => nid == wanted,
        }
    }
}

bitflags! {
    /// Types of message, with the bits that `lctl` gives to the kernel.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct FaultTypes: u32 {
        /// ACKs.
        const ACK = 1;
        /// PUTs.
        const PUT = 2;
        /// GETs.
        const GET = 4;
        /// REPLYs.
        const REPLY = 8;
    }
}

impl From<MessageType> for FaultTypes {
    fn from(message_type: MessageType) -> Self {
        match message_type {
            MessageType::Ack => Self::ACK,
            MessageType::Put => Self::PUT,
            MessageType::Get => Self::GET,
            MessageType::Reply => Self::REPLY,
        }
    }
}

/// A set of messages that a rule is about. Source and destination are those of the header, not of the hop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultFilter {
    /// The source.
    pub source: NidFilter,
    /// The destination.
    pub destination: NidFilter,
    /// The interface that the message arrives on. A rule that names one matches no message being sent.
    pub local: NidFilter,
    /// The types; an empty set matches all.
    pub types: FaultTypes,
    /// The portals, one bit each; 0 matches all. Only PUT and GET have a portal.
    pub portals: u64,
}

impl FaultFilter {
    pub(super) fn matches(&self, sighting: &Sighting<'_>) -> bool {
        let header = sighting.header;
        let local = match sighting.local {
            Some(nid) => self.local.matches(nid),
            None => self.local == NidFilter::Any,
        };
        local
            && self.source.matches(header.src_nid)
            && self.destination.matches(header.dest_nid)
            && (self.types.is_empty() || self.types.contains(sighting.message_type().into()))
            && (self.portals == 0 || self.has_portal(&header.body))
    }

    fn has_portal(&self, body: &Body) -> bool {
        let portal = match body {
            Body::Put(put) => put.ptl_index,
            Body::Get(get) => get.ptl_index,
            Body::Ack(_) | Body::Reply(_) => return false,
        };
        self.portals.checked_shr(portal).unwrap_or(0) & 1 == 1
    }

    fn check(&self) -> Result<(), FaultError> {
        let with_portal = FaultTypes::PUT | FaultTypes::GET;
        if self.portals != 0 && !self.types.is_empty() && !self.types.intersects(with_portal) {
            return Err(FaultError::NoPortal);
        }
        Ok(())
    }
}

/// A rule that drops messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropRule {
    /// The messages that the rule matches.
    pub filter: FaultFilter,
    /// Which of the matching messages the rule hits.
    pub pace: Pace,
    /// With classes, the rule is for messages being sent, which fail with one of the classes, chosen at random.
    /// Without classes, the rule is for messages that arrive, which are dropped silently.
    pub classes: Vec<MessageStatus>,
    /// True if the rule hits every matching message, in both directions. A message being sent then fails with one of
    /// `classes`, or with [`MessageStatus::LocalDropped`] if there are none.
    pub all: bool,
}

impl DropRule {
    pub(super) fn check(&self) -> Result<(), FaultError> {
        check_pace(self.pace)?;
        if self.classes.contains(&MessageStatus::Ok) {
            return Err(FaultError::NotAFailure);
        }
        self.filter.check()
    }
}

/// A rule that delays messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelayRule {
    /// The messages that the rule matches.
    pub filter: FaultFilter,
    /// Which of the matching messages the rule hits.
    pub pace: Pace,
    /// The length of the delay.
    pub latency: Duration,
}

impl DelayRule {
    pub(super) fn check(&self) -> Result<(), FaultError> {
        check_pace(self.pace)?;
        if self.latency.is_zero() {
            return Err(FaultError::NoLatency);
        }
        self.filter.check()
    }
}

// [FAULT-2]
fn check_pace(pace: Pace) -> Result<(), FaultError> {
    match pace {
        Pace::Rate(0) => Err(FaultError::NoPace),
        Pace::Interval(length) if length.is_zero() => Err(FaultError::NoPace),
        _ => Ok(()),
    }
}

/// The counts of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultStats {
    /// Messages that matched.
    pub matched: u64,
    /// Messages that the rule dropped or delayed.
    pub struck: u64,
    /// PUTs among them.
    pub put: u64,
    /// ACKs among them.
    pub ack: u64,
    /// GETs among them.
    pub get: u64,
    /// REPLYs among them.
    pub reply: u64,
}

impl FaultStats {
    pub(super) fn count_struck(&mut self, message_type: MessageType) {
        self.struck += 1;
        match message_type {
            MessageType::Ack => self.ack += 1,
            MessageType::Put => self.put += 1,
            MessageType::Get => self.get += 1,
            MessageType::Reply => self.reply += 1,
        }
    }
}

/// The reason why a rule is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FaultError {
    /// The rate or the interval is zero.
    #[error("a rate or an interval above zero is needed")]
    NoPace,
    /// The delay is zero.
    #[error("a latency above zero is needed")]
    NoLatency,
    /// The rule names portals, but only types that have none.
    #[error("only PUT and GET have a portal")]
    NoPortal,
    /// A class of failure is the success.
    #[error("a message cannot fail with success")]
    NotAFailure,
    /// The limit of rules is reached.
    #[error("there are {max} rules already")]
    TooMany {
        /// The limit of rules.
        max: usize,
    },
}

impl FaultError {
    /// Returns the errno that `lnetctl` reports for this error.
    #[must_use]
    pub const fn errno(&self) -> Errno {
        match self {
            Self::TooMany { .. } => Errno::ENOMEM,
            _ => Errno::EINVAL,
        }
    }
}
