//! Decides whether a peer's HELLO is accepted.

use std::net::IpAddr;

use lnet_types::Nid;

use crate::stats::Refusal;

/// What is known once a peer's HELLO has been read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inquiry {
    /// The NID of our interface.
    pub(crate) our_nid: Nid,
    /// The peer's NID, as its HELLO says.
    pub(crate) peer_nid: Nid,
    /// The address that the peer dials from; `None` if its NID need not agree with that address.
    pub(crate) remote: Option<IpAddr>,
    /// True while we dial the same peer at the same address.
    pub(crate) is_dialling: bool,
    /// The incarnation in the peer's HELLO.
    pub(crate) incarnation: u64,
    /// The incarnation of the peer's open connections, if there are any.
    pub(crate) known_incarnation: Option<u64>,
    /// The number of open connections of the same type between the same addresses.
    pub(crate) same_type: usize,
    /// The limit of `same_type`.
    pub(crate) same_type_max: usize,
    /// True if dials of ours have just made as many of these connections as we want: the peer began to dial before
    /// it knew of them.
    pub(crate) is_made: bool,
}

/// What to do with a HELLO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Accept the connection.
    Accept,
    /// Close the connections from before the peer's restart, then accept. Kernels answer `NONE`
    /// here and make the peer dial again; that gains nothing.
    AcceptAfterRestart,
    /// Answer `NONE`.
    Decline(Refusal),
    /// Close without an answer: the peer cannot be who its HELLO says.
    Distrust(Refusal),
}

/// Decides what to do with a HELLO.
// [SET-5] [SET-6] [SET-9] [SET-14]
pub(crate) fn admit(inquiry: &Inquiry) -> Admission {
    // LNet chooses both ends of a hop on one net. A peer of another net would be a neighbour that
    // no route leads to, and the rules of its net were not written for this interface.
    if inquiry.peer_nid.net() != inquiry.our_nid.net() {
        return Admission::Distrust(Refusal::HelloNet);
    }
    if inquiry
        .remote
        .is_some_and(|remote| inquiry.peer_nid.ip() != Some(remote))
    {
        return Admission::Distrust(Refusal::HelloAddress);
    }
    if inquiry.is_dialling && inquiry.peer_nid < inquiry.our_nid {
        return Admission::Decline(Refusal::Race);
    }
    if inquiry
        .known_incarnation
        .is_some_and(|known| known != inquiry.incarnation)
    {
        return Admission::AcceptAfterRestart;
    }
    // A kernel node closes the second of two connections that crossed, and reads the end of one connection as the
    // end of all. So the second is rejected before it exists.
    if inquiry.is_made || inquiry.same_type >= inquiry.same_type_max {
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
            remote: None,
            is_dialling: false,
            incarnation: 7,
            known_incarnation: Some(7),
            same_type: 0,
            same_type_max: 128,
            is_made: false,
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

    // [SET-5]
    #[test]
    fn the_lower_nid_loses_the_race() {
        let lower = Inquiry {
            is_dialling: true,
            ..inquiry()
        };
        assert_eq!(admit(&lower), Admission::Decline(Refusal::Race));
    }

    // [SET-5]
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
    fn a_peer_of_another_net_is_distrusted() {
        let other_net = Inquiry {
            peer_nid: "10.0.0.1@tcp1".parse().unwrap(),
            ..inquiry()
        };
        assert_eq!(admit(&other_net), Admission::Distrust(Refusal::HelloNet));
    }

    #[test]
    fn where_addresses_have_to_agree_a_nid_is_the_address_dialled_from() {
        let from = |address: &str| Inquiry {
            remote: Some(address.parse().unwrap()),
            ..inquiry()
        };
        assert_eq!(admit(&from("10.0.0.1")), Admission::Accept);
        let borrowed = admit(&from("10.0.0.7"));
        assert_eq!(borrowed, Admission::Distrust(Refusal::HelloAddress));
    }

    // [SET-9]
    #[test]
    fn a_restarted_peer_replaces_its_old_connections() {
        let restarted = Inquiry {
            incarnation: 8,
            same_type: 128,
            ..inquiry()
        };
        assert_eq!(admit(&restarted), Admission::AcceptAfterRestart);
    }

    // [SET-6]
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

    // [SET-14]
    #[test]
    fn a_connection_that_crossed_one_of_ours_is_declined() {
        let crossed = Inquiry {
            same_type: 1,
            is_made: true,
            ..inquiry()
        };
        assert_eq!(admit(&crossed), Admission::Decline(Refusal::Duplicate));
    }
}
