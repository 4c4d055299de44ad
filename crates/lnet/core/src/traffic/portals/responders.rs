//! Decides from which nodes a response is accepted.
//!
//! A response must name a secret handle ([`wire_handle`](crate::traffic::portals::wire_handle)). In addition, its
//! sender must be a node from which the response can come:
//!
//! | the source is | received from | accepted |
//! |---|---|---|
//! | a NID of the target's peer | that peer | yes |
//! | a NID of the target's peer | a router, after a request through a router | yes; the paths there and back may differ |
//! | another NID | a gateway of this node, after a request through a router | yes; a router may divert a request to an interface of the target that only the router knows |
//! | anything else | | no |

use lnet_types::Nid;
use lnet_wire::{Body, Handle, MessageType};

use crate::ground::event::Event;
use crate::ground::io::{Landing, NiId};
use crate::ground::md::MdOptions;
use crate::ground::status::DropReason;
use crate::traffic::Traffic;
use crate::traffic::portals::responses::{Asked, Responses};
use crate::traffic::receive::rx::Origin;

impl Traffic {
    /// Accepts an ACK or REPLY only for a descriptor that waits for one, and only from a node that it waits for.
    /// Without this check, a REPLY could overwrite the memory of a descriptor that is only the source of PUTs.
    // [DATA-10]
    pub(in crate::traffic) fn accept_response(
        &mut self,
        origin: &Origin,
        handle: Handle,
    ) -> Result<(Event, Landing), DropReason> {
        let header = &origin.header;
        let unknown = DropReason::UnknownHandle;
        let md = self.wire_handles.descriptor(handle).ok_or(unknown)?;
        let entry = self.mds.get(md).ok_or(unknown)?;
        if entry.dead || entry.attached || entry.threshold == Some(0) {
            return Err(unknown);
        }
        let response = header.body.message_type();
        let target = self.asked_for(&entry.responses, origin, response)?;
        let truncate = entry.spec.options.contains(MdOptions::TRUNCATE);
        let length = header.payload_length;
        if response == MessageType::Reply && length > entry.spec.length && !truncate {
            return Err(DropReason::TooLong);
        }
        let landing = Landing {
            place: entry.owner.place(md),
            offset: 0,
            length: length.min(entry.spec.length),
        };
        let mut event = origin.event(md, entry.spec.user);
        if let Some(entry) = self.mds.get_mut(md) {
            entry.responses.arrives(target, response);
            entry.begin();
        }
        self.responded(md);
        event.initiator = self.fabric.initiator(header);
        event.mlength = match header.body {
            Body::Ack(ack) => ack.mlength,
            _ => landing.length,
        };
        Ok((event, landing))
    }

    /// Returns the NID that was asked for this response.
    fn asked_for(
        &self,
        responses: &Responses,
        origin: &Origin,
        response: MessageType,
    ) -> Result<Nid, DropReason> {
        let mut refused = DropReason::UnknownHandle;
        responses
            .asked(response)
            .find(|asked| {
                refused = DropReason::WrongResponder;
                self.may_answer_for(asked, origin)
            })
            .map(|asked| asked.target)
            .ok_or(refused)
    }

    fn may_answer_for(&self, asked: &Asked, origin: &Origin) -> bool {
        #[cfg(feature = "defects")]
        if self.gullible {
            return true;
        }
        if origin.ni == NiId::LOOPBACK {
            return true;
        }
        let (source, sender) = (origin.header.src_nid, origin.from.nid);
        let is_target = source == asked.target
            || source == asked.destination
            || self.fabric.are_one_peer(source, asked.target);
        if source.net() == sender.net() {
            return is_target && (source == sender || self.fabric.are_one_peer(source, sender));
        }
        asked.routed && (is_target || self.fabric.is_gateway_nid(sender))
    }
}
