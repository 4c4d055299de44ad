//! Whether a peer's HELLO is accepted (sections 2.6 to 2.8 and 2.13).

use lnet_types::Nid;

use crate::stats::Refusal;

/// What is known when a peer's HELLO has been read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inquiry {
    /// Our interface.
    pub(crate) our_nid: Nid,
    /// The peer.
    pub(crate) peer_nid: Nid,
    /// We are dialling the same peer at the same address.
    pub(crate) is_dialling: bool,
    /// The incarnation in the HELLO.
    pub(crate) incarnation: u64,
    /// The incarnation that the peer's open connections have, if it has any.
    pub(crate) known_incarnation: Option<u64>,
    /// Open connections of the same type between the same addresses.
    pub(crate) same_type: usize,
    /// Their allowed number.
    pub(crate) same_type_max: usize,
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Accept.
    Accept,
    /// Close the connections that the peer had before it restarted, then accept. Kernels answer `NONE`
    /// here and make the peer dial again; nothing is gained by that.
    AcceptAfterRestart,
    /// Answer `NONE`.
    Decline(Refusal),
}

/// Decides about a HELLO.
pub(crate) fn admit(inquiry: &Inquiry) -> Admission {
    if inquiry.is_dialling && inquiry.peer_nid < inquiry.our_nid {
        return Admission::Decline(Refusal::Race);
    }
    if inquiry
        .known_incarnation
        .is_some_and(|known| known != inquiry.incarnation)
    {
        return Admission::AcceptAfterRestart;
    }
    if inquiry.same_type >= inquiry.same_type_max {
        return Admission::Decline(Refusal::Duplicate);
    }
    Admission::Accept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inquiry() -> Inquiry {
        Inquiry {
            our_nid: "10.0.0.2@tcp".parse().unwrap(),
            peer_nid: "10.0.0.1@tcp".parse().unwrap(),
            is_dialling: false,
            incarnation: 7,
            known_incarnation: Some(7),
            same_type: 0,
            same_type_max: 128,
        }
    }

    #[test]
    fn a_stranger_is_accepted() {
        let stranger = Inquiry {
            known_incarnation: None,
            ..inquiry()
        };
        assert_eq!(admit(&stranger), Admission::Accept);
    }

    #[test]
    fn the_lower_nid_loses_the_race() {
        let lower = Inquiry {
            is_dialling: true,
            ..inquiry()
        };
        assert_eq!(admit(&lower), Admission::Decline(Refusal::Race));
    }

    #[test]
    fn the_higher_nid_wins_the_race() {
        let higher = Inquiry {
            is_dialling: true,
            peer_nid: "10.0.0.3@tcp".parse().unwrap(),
            ..inquiry()
        };
        assert_eq!(admit(&higher), Admission::Accept);
    }

    #[test]
    fn the_order_of_nids_is_that_of_their_bytes() {
        let other_net = Inquiry {
            is_dialling: true,
            our_nid: "10.0.0.1@tcp1".parse().unwrap(),
            peer_nid: "10.0.0.9@tcp".parse().unwrap(),
            ..inquiry()
        };
        assert_eq!(admit(&other_net), Admission::Decline(Refusal::Race));
    }

    #[test]
    fn a_restarted_peer_replaces_its_old_connections() {
        let restarted = Inquiry {
            incarnation: 8,
            same_type: 128,
            ..inquiry()
        };
        assert_eq!(admit(&restarted), Admission::AcceptAfterRestart);
    }

    #[test]
    fn one_connection_more_than_allowed_is_declined() {
        let last = Inquiry {
            same_type: 127,
            ..inquiry()
        };
        assert_eq!(admit(&last), Admission::Accept);
        let more = Inquiry {
            same_type: 128,
            ..inquiry()
        };
        assert_eq!(admit(&more), Admission::Decline(Refusal::Duplicate));
    }
}
