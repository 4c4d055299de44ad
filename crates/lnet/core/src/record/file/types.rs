//! The encodings of the types in inputs.

use lnet_policy::{Action, Priority, Profile, Rule, RuleList, RuleText};
use lnet_types::{LndType, Net, Nid, ProcessId, Time};
use lnet_wire::{Ack, Body, Get, Handle, Header, Put as PutBody, Reply};
use smallvec::SmallVec;

use super::codec::{Malformed, Put, Take, array, byte, bytes, choices, fields, wrapped};
use crate::{
    CoreBuffer, CoreConfig, DelayRule, DropRule, Entropy, FaultFilter, FaultTypes, GetRequest,
    Health, InsertPosition, MdHandle, MdOptions, MdSpec, MeHandle, MeSpec, MessageStatus, NiConfig,
    NiDevice, NiId, NidFilter, Pace, PeerState, PutRequest, Route, RouterBuffers, RxId, SendHints,
    Tunables, TxId, UsedPaths,
};

fields! {
    CoreConfig { entropy, seed, globals, buffers, routing, pid }
    RouterBuffers { tiny, small, large }
    NiConfig { nid, tunables }
    Tunables { credits, peer_credits, peer_buffer_credits, peer_timeout }
    NiDevice { rank, distances }
    Route { net, gateway, hops, priority }
    ProcessId { nid, pid }
    Net { lnd, number }
    MeSpec { portal, match_id, match_bits, ignore_bits, unlink_with_md, position }
    MdSpec { length, threshold, max_size, options, unlink_when_exhausted, user }
    PutRequest { md, ack, source, target, portal, match_bits, offset, hdr_data }
    GetRequest { md, source, target, portal, match_bits, offset }
    SendHints { resend_to, cpt, avoid }
    DropRule { filter, pace, classes, all }
    DelayRule { filter, pace, latency }
    FaultFilter { source, destination, local, types, portals }
    Header { dest_nid, src_nid, dest_pid, src_pid, payload_length, body }
    Ack { dst_wmd, match_bits, mlength }
    PutBody { ack_wmd, match_bits, hdr_data, ptl_index, offset }
    Get { return_wmd, match_bits, ptl_index, src_offset, sink_length }
    Reply { dst_wmd }
}

wrapped!(NiId, RxId, TxId, MdHandle, MeHandle, CoreBuffer, LndType);

choices! {
    Profile { 0 Design, 1 Lustre, 2 Lustre217 }
    UsedPaths { 0 Pair, 1 Literal }
    InsertPosition { 0 Before, 1 After }
}

impl Put for Time {
    fn put(&self, out: &mut Vec<u8>) {
        self.as_nanos().put(out);
    }
}

/// Times above this limit, 146 years, are invalid. The limit keeps a late time distinct from one
/// that never comes.
pub(crate) const TIME_MAX: u64 = 1 << 62;

impl Take for Time {
    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        match u64::take(from)? {
            nanos if nanos <= TIME_MAX => Ok(Self::from_nanos(nanos)),
            _ => Err(Malformed("a time above the limit")),
        }
    }
}

impl Put for Entropy {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.reveal());
    }
}

impl Take for Entropy {
    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        Ok(Self::new(array(from)?))
    }
}

/// The length of the address, then its bytes; the wildcard is one byte.
impl Put for Nid {
    fn put(&self, out: &mut Vec<u8>) {
        let wire = self.to_wire();
        let used = match wire[0] {
            _ if self.is_any() => 1,
            0 => 8,
            _ => Self::WIRE_LEN,
        };
        out.extend_from_slice(wire.get(..used).unwrap_or(&wire));
    }
}

impl Take for Nid {
    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        let mut wire = [0; Self::WIRE_LEN];
        wire[0] = byte(from)?;
        let rest = match wire[0] {
            0xFF => return Ok(Self::ANY),
            0 => 7,
            _ => Self::WIRE_LEN - 1,
        };
        let taken = bytes(from, rest)?;
        for (to, from) in wire.iter_mut().skip(1).zip(taken) {
            *to = *from;
        }
        Self::from_wire(wire).ok_or(Malformed("an invalid NID"))
    }
}

impl Put for Handle {
    fn put(&self, out: &mut Vec<u8>) {
        let Self { interface, object } = self;
        out.extend_from_slice(&interface.to_le_bytes());
        out.extend_from_slice(&object.to_le_bytes());
    }
}

impl Take for Handle {
    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        Ok(Self {
            interface: u64::from_le_bytes(array(from)?),
            object: u64::from_le_bytes(array(from)?),
        })
    }
}

impl Put for Body {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(self.message_type() as u8);
        match self {
            Self::Ack(ack) => ack.put(out),
            Self::Put(put) => put.put(out),
            Self::Get(get) => get.put(out),
            Self::Reply(reply) => reply.put(out),
        }
    }
}

impl Take for Body {
    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        Ok(match byte(from)? {
            0 => Self::Ack(Take::take(from)?),
            1 => Self::Put(Take::take(from)?),
            2 => Self::Get(Take::take(from)?),
            3 => Self::Reply(Take::take(from)?),
            _ => return Err(Malformed("no such message type")),
        })
    }
}

impl Put for MessageStatus {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }
}

impl Take for MessageStatus {
    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        let known = Self::ALL.get(usize::from(byte(from)?)).copied();
        known.ok_or(Malformed("no such status of a message"))
    }
}

/// The number of a failure; success is 0.
impl Put for Result<(), MessageStatus> {
    fn put(&self, out: &mut Vec<u8>) {
        self.err().unwrap_or(MessageStatus::Ok).put(out);
    }
}

impl Take for Result<(), MessageStatus> {
    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        Ok(match MessageStatus::take(from)? {
            MessageStatus::Ok => Ok(()),
            failure => Err(failure),
        })
    }
}

impl Put for Health {
    fn put(&self, out: &mut Vec<u8>) {
        self.value().put(out);
    }
}

impl Take for Health {
    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        Self::new(u16::take(from)?).ok_or(Malformed("a health above 1000"))
    }
}

/// Sets of flags as their bits, all of which must be known.
macro_rules! flags {
    ($($name:ident),*) => {$(
        impl Put for $name {
            fn put(&self, out: &mut Vec<u8>) {
                self.bits().put(out);
            }
        }
        impl Take for $name {
            fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
                Self::from_bits(u32::take(from)?).ok_or(Malformed(concat!("no such ", stringify!($name))))
            }
        }
    )*};
}

flags!(PeerState, MdOptions, FaultTypes);

impl Put for NidFilter {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Any => out.push(0),
            Self::Net(net) => {
                out.push(1);
                net.put(out);
            }
            Self::Nid(nid) => {
                out.push(2);
                nid.put(out);
            }
        }
    }
}

impl Take for NidFilter {
    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        Ok(match byte(from)? {
            0 => Self::Any,
            1 => Self::Net(Take::take(from)?),
            2 => Self::Nid(Take::take(from)?),
            _ => return Err(Malformed("no such filter of NIDs")),
        })
    }
}

impl Put for Pace {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Rate(rate) => {
                out.push(0);
                rate.put(out);
            }
            Self::Interval(span) => {
                out.push(1);
                span.put(out);
            }
            Self::HalfOfAll => out.push(2),
        }
    }
}

impl Take for Pace {
    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        Ok(match byte(from)? {
            0 => Self::Rate(Take::take(from)?),
            1 => Self::Interval(Take::take(from)?),
            2 => Self::HalfOfAll,
            _ => return Err(Malformed("no such pace of a fault")),
        })
    }
}

impl Put for SmallVec<[u32; 4]> {
    fn put(&self, out: &mut Vec<u8>) {
        self.len().put(out);
        self.iter().for_each(|one| one.put(out));
    }
}

impl Take for SmallVec<[u32; 4]> {
    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        Ok(Vec::take(from)?.into())
    }
}

/// The texts of the three descriptors, the priority, and whether the rule is disabled.
impl Put for Rule {
    fn put(&self, out: &mut Vec<u8>) {
        for descriptor in self.selector().descriptors() {
            descriptor.map(ToString::to_string).put(out);
        }
        let priority = match self.action() {
            Action::Priority(priority) => Some(priority.value()),
            Action::Preferred => None,
        };
        priority.put(out);
        self.is_disabled().put(out);
    }
}

impl Take for Rule {
    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        let no_rule = Malformed("an invalid rule");
        let [src, dst, rte] = [
            <Option<String> as Take>::take(from)?,
            <Option<String> as Take>::take(from)?,
            <Option<String> as Take>::take(from)?,
        ];
        let priority = <Option<u32> as Take>::take(from)?;
        let priority = priority.map(|value| Priority::new(value).ok_or(no_rule));
        let text = RuleText {
            src: src.as_deref(),
            dst: dst.as_deref(),
            rte: rte.as_deref(),
            action: priority.transpose()?.map(Action::Priority),
        };
        let disabled = bool::take(from)?;
        // A node that changed its profile may hold rules that the new profile would reject.
        let rule = Self::from_text(&text, Profile::Design).map_err(|_| no_rule)?;
        Ok(rule.disabled(disabled))
    }
}

impl Put for RuleList {
    fn put(&self, out: &mut Vec<u8>) {
        self.rules().len().put(out);
        self.rules().iter().for_each(|rule| rule.put(out));
    }
}

impl Take for RuleList {
    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        let mut list = Self::new();
        for rule in Vec::<Rule>::take(from)? {
            let added = list.add(rule, None);
            added.map_err(|_| Malformed("an invalid list of rules"))?;
        }
        Ok(list)
    }
}
