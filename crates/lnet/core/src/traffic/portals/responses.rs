//! Tracking of responses: which responses a descriptor waits for, from which nodes, and until when.
//!
//! A descriptor may have several operations under way. Each waits for one response. The deadline is that of the
//! operation that began last.

use lnet_types::{Nid, ProcessId, Time};
use lnet_wire::MessageType;
use smallvec::SmallVec;

/// The responses that a descriptor waits for.
#[derive(Debug, Default)]
pub(crate) struct Responses {
    /// The awaited responses, by the NID that was asked.
    asked: SmallVec<[Asked; 1]>,
    /// The deadline of the responses, and the contents of the TIMEOUT event.
    tracked: Option<Tracked>,
}

/// An operation whose response has a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::traffic) struct Tracked {
    pub(in crate::traffic) deadline: Time,
    /// The operation: PUT or GET.
    pub(in crate::traffic) operation: MessageType,
    pub(in crate::traffic) target: ProcessId,
    pub(in crate::traffic) portal: u32,
    pub(in crate::traffic) match_bits: u64,
    /// The next hop of the last attempt; before the first attempt, of the selected path, or the target if there was no
    /// path.
    pub(in crate::traffic) next_hop: Nid,
    /// True after the first attempt. Without an attempt, a timeout is not the fault of the next hop.
    pub(in crate::traffic) departed: bool,
}

/// The responses that one NID was asked for.
#[derive(Clone, Copy, Debug)]
pub(in crate::traffic) struct Asked {
    pub(in crate::traffic) target: Nid,
    /// The NID of the target's peer that the last request was sent to.
    pub(in crate::traffic) destination: Nid,
    /// True if a request went through a router.
    pub(in crate::traffic) routed: bool,
    acks: u32,
    replies: u32,
}

/// The path of an attempt, as far as its response depends on it.
#[derive(Clone, Copy, Debug)]
pub(in crate::traffic) struct Departing {
    /// The NID of the target's peer that the attempt is addressed to.
    pub(in crate::traffic) destination: Nid,
    /// True if the attempt goes through a router.
    pub(in crate::traffic) routed: bool,
    pub(in crate::traffic) next_hop: Nid,
}

impl Asked {
    fn of(&mut self, response: MessageType) -> &mut u32 {
        match response {
            MessageType::Reply => &mut self.replies,
            _ => &mut self.acks,
        }
    }

    fn waits_for(&self, response: MessageType) -> bool {
        match response {
            MessageType::Reply => self.replies > 0,
            _ => self.acks > 0,
        }
    }
}

impl Responses {
    /// Notes that this response is awaited for a request that is about to be sent.
    pub(in crate::traffic) fn wait_for(&mut self, target: Nid, response: MessageType) {
        if let Some(asked) = self.asked.iter_mut().find(|asked| asked.target == target) {
            *asked.of(response) += 1;
            return;
        }
        let mut asked = Asked {
            target,
            destination: target,
            routed: false,
            acks: 0,
            replies: 0,
        };
        *asked.of(response) = 1;
        self.asked.push(asked);
    }

    /// Notes the path of an attempt to send a request.
    pub(in crate::traffic) fn departs(&mut self, target: Nid, to: &Departing) {
        if let Some(asked) = self.asked.iter_mut().find(|asked| asked.target == target) {
            asked.destination = to.destination;
            asked.routed |= to.routed;
        }
        if let Some(tracked) = &mut self.tracked {
            tracked.next_hop = to.next_hop;
            tracked.departed = true;
        }
    }

    /// Notes that an awaited response has arrived.
    pub(in crate::traffic) fn arrives(&mut self, target: Nid, response: MessageType) {
        let Some(at) = self.asked.iter().position(|asked| asked.target == target) else {
            return;
        };
        let left = self.asked[at].of(response);
        *left = left.saturating_sub(1);
        if self.asked[at].acks == 0 && self.asked[at].replies == 0 {
            self.asked.remove(at);
        }
    }

    /// Returns whether no response is awaited.
    pub(in crate::traffic) fn are_complete(&self) -> bool {
        self.asked.is_empty()
    }

    /// Returns the NIDs from which such a response is awaited.
    pub(in crate::traffic) fn asked(&self, response: MessageType) -> impl Iterator<Item = &Asked> {
        let asked = self.asked.iter();
        asked.filter(move |asked| asked.waits_for(response))
    }

    /// Sets the deadline to that of the operation that began last. Returns the operation that held the deadline
    /// before.
    // [DATA-11]
    pub(in crate::traffic) fn track(&mut self, tracked: Tracked) -> Option<Tracked> {
        self.tracked.replace(tracked)
    }

    /// Removes the deadline. Returns the operation that held it.
    pub(in crate::traffic) fn untrack(&mut self) -> Option<Tracked> {
        self.tracked.take()
    }

    /// Returns the next hop of the tracked operation.
    pub(crate) fn next_hop(&self) -> Option<Nid> {
        Some(self.tracked.as_ref()?.next_hop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACK: MessageType = MessageType::Ack;

    fn nid(text: &str) -> Nid {
        text.parse().unwrap()
    }

    fn tracked(seconds: u64) -> Tracked {
        Tracked {
            deadline: Time::from_nanos(seconds * 1_000_000_000),
            operation: MessageType::Put,
            target: ProcessId::lustre(nid("10.0.0.1@tcp")),
            portal: 30,
            match_bits: 7,
            next_hop: nid("10.0.0.1@tcp"),
            departed: false,
        }
    }

    #[test]
    fn responses_are_complete_when_each_nid_has_sent_as_many_as_it_was_asked_for() {
        let (one, two) = (nid("10.0.0.1@tcp"), nid("10.0.0.2@tcp"));
        let mut responses = Responses::default();
        for target in [one, two, one] {
            responses.wait_for(target, ACK);
        }
        responses.arrives(one, ACK);
        responses.arrives(two, ACK);
        let owing: Vec<Nid> = responses.asked(ACK).map(|asked| asked.target).collect();
        assert_eq!(owing, [one]);
        assert!(responses.asked(MessageType::Reply).next().is_none());
        responses.arrives(one, ACK);
        assert!(responses.are_complete());
    }

    #[test]
    fn a_response_that_nobody_owes_changes_nothing() {
        let mut responses = Responses::default();
        responses.wait_for(nid("10.0.0.1@tcp"), ACK);
        responses.arrives(nid("10.0.0.2@tcp"), ACK);
        responses.arrives(nid("10.0.0.1@tcp"), MessageType::Reply);
        assert!(!responses.are_complete());
    }

    #[test]
    fn the_deadline_is_that_of_the_last_operation_and_its_hop_that_of_the_last_attempt() {
        let mut responses = Responses::default();
        let target = nid("10.0.0.1@tcp");
        responses.wait_for(target, ACK);
        assert_eq!(responses.track(tracked(1)), None);
        assert_eq!(responses.track(tracked(2)), Some(tracked(1)));
        let to = Departing {
            destination: nid("10.0.1.1@tcp1"),
            routed: true,
            next_hop: nid("10.0.0.9@tcp"),
        };
        responses.departs(target, &to);
        assert_eq!(responses.next_hop(), Some(to.next_hop));
        let asked = responses.asked(ACK).next().unwrap();
        assert!(asked.routed && asked.destination == to.destination);
        assert!(responses.untrack().is_some());
        assert_eq!(responses.next_hop(), None);
    }
}
