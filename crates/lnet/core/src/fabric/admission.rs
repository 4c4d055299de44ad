//! Who may send what to this node, and what a message from a node shows about it: the checks of a header that need no
//! message.

use lnet_types::{Nid, ProcessId, Time};
use lnet_wire::{Header, LNET_MTU, MessageType};

use crate::fabric::Fabric;
use crate::ground::io::NiId;
use crate::ground::status::{DropReason, IllegalMessage};

impl Fabric {
    pub(crate) fn are_one_peer(&self, one: Nid, other: Nid) -> bool {
        self.peers.primary_of(one) == self.peers.primary_of(other)
    }

    /// Returns whether a route of this node leads through the peer with this NID.
    pub(crate) fn is_gateway_nid(&self, nid: Nid) -> bool {
        self.peers.owner_of(nid).is_some_and(|peer| peer.routes > 0)
    }

    /// Applies checks 1 and 3: the length must be legal, and the message must be addressed to this interface or to
    /// another net.
    // [MSG-4] [MSG-5] [MSG-9]
    pub(crate) fn is_for_this_node(
        &self,
        ni: NiId,
        header: &Header,
    ) -> Result<bool, IllegalMessage> {
        let longest = match header.body.message_type() {
            MessageType::Ack | MessageType::Get => 0,
            MessageType::Put | MessageType::Reply => LNET_MTU,
        };
        if header.payload_length > longest {
            return Err(IllegalMessage::BadLength);
        }
        let here = self.nis.get(ni).map(|ni| ni.nid);
        match self.nis.by_nid(header.dest_nid) {
            Some(_) if ni == NiId::LOOPBACK || here == Some(header.dest_nid) => Ok(true),
            Some(_) => Err(IllegalMessage::WrongInterface),
            None if here.is_some_and(|nid| nid.net() == header.dest_nid.net()) => {
                Err(IllegalMessage::MisdirectedOnNet)
            }
            None => Ok(false),
        }
    }

    /// Checks the source of a message. On the net of the connection, a node sends each message from the NID for which
    /// the connection was made. Another NID of the same peer is accepted, too: which NIDs these are, the configuration
    /// or the peer's own answer says. A NID on another net is that of a node behind a router.
    // [MSG-11]
    pub(crate) fn may_be_source(&self, source: Nid, sender: Nid) -> bool {
        if source.is_any() || source.net() == Nid::LOOPBACK.net() {
            return false;
        }
        let is_direct = source.net() == sender.net();
        let is_of_sender =
            || source == sender || self.peers.primary_of(source) == self.peers.primary_of(sender);
        !is_direct || is_of_sender()
    }

    /// Applies check 7 to a message that came through a router.
    // [GATE-24]
    pub(crate) fn came_through(
        &mut self,
        gateway: Nid,
        source: Nid,
        for_this_node: bool,
        now: Time,
    ) -> Result<(), DropReason> {
        self.revive_gateway(gateway, source.net(), now);
        let primary = self.peers.primary_of(gateway);
        let routed = self
            .routes
            .to(source.net())
            .iter()
            .any(|state| self.peers.primary_of(state.route.gateway) == primary);
        if for_this_node && self.globals().drop_asym_route && !routed {
            return Err(DropReason::AsymmetricRoute);
        }
        Ok(())
    }

    /// Returns the initiator of a message by the name that upper layers use.
    // [DATA-16]
    pub(crate) fn initiator(&self, header: &Header) -> ProcessId {
        let source = header.src_nid;
        let own = self.nis.by_nid(source).is_some() && !source.is_loopback();
        let nid = match self.primary_nid().filter(|_| own) {
            Some(primary) => primary,
            None => self.peers.primary_of(source),
        };
        ProcessId {
            nid,
            pid: header.src_pid,
        }
    }

    /// Returns the NIDs of an initiator's peer.
    pub(crate) fn aliases(&self, initiator: ProcessId) -> &[Nid] {
        self.peers
            .peer(initiator.nid)
            .map_or(&[], |peer| &peer.nids)
    }
}
