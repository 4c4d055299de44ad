//! The delivery of a call's last request, and the error of a call that gets no reply.
//!
//! ```text
//!   the last request                                     a path at the deadline    none, or gateways that do not answer
//!   the server acknowledged it, or moved bulk for it     Deadline                  Deadline
//!   left                                                 Deadline                  NoPath: what is wrong now
//!   failed, and no path led to the server then           NoPath: what was wrong    NoPath: what is wrong now
//!   failed for another reason                            Undelivered               NoPath: what is wrong now
//! ```
//!
//! Only the last request counts. A gateway may drop a request that has left, and a gateway that closes its connection
//! fails a request with another errno; therefore the state of the routes decides, if there is no path. A server that
//! acknowledged the request has the request, so the error does not call this server unreachable.

use std::time::Duration;

use lnet_node::{Errno, NoPath};

use crate::client::CallError;

/// The known delivery of the last request.
#[derive(Debug, Default)]
pub(crate) enum Delivery {
    /// The request has left, or still waits.
    #[default]
    Unknown,
    /// The server acknowledged the request, or moved bulk for it.
    Heard,
    /// The request was not delivered.
    Failed {
        /// The error of the network.
        errno: Errno,
        /// The reason why no path led to the server at that time; `None` if there was a path.
        no_path: Option<NoPath>,
    },
}

impl Delivery {
    /// Records that the next request is sent. A failure of the request before counts until this one has left.
    pub(crate) fn begin(&mut self) {
        if matches!(self, Self::Heard) {
            *self = Self::Unknown;
        }
    }

    /// Records that the request has left. The server may have acknowledged the request before.
    pub(crate) fn left(&mut self) {
        if matches!(self, Self::Failed { .. }) {
            *self = Self::Unknown;
        }
    }

    /// Returns the error of a call without a reply. `no_path` is the fault of the paths to the server at the deadline;
    /// `None` if there is a path.
    pub(crate) fn no_answer(self, within: Duration, no_path: Option<NoPath>) -> CallError {
        match (self, no_path) {
            (Self::Heard, _) | (Self::Unknown, None) => CallError::Deadline(within),
            (Self::Unknown | Self::Failed { .. }, Some(why)) => CallError::NoPath { within, why },
            (Self::Failed { errno, no_path }, None) => match no_path {
                Some(why) if errno == Errno::EHOSTUNREACH => CallError::NoPath { within, why },
                _ => CallError::Undelivered {
                    within,
                    errno: errno.0,
                },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN: Duration = Duration::from_secs(60);
    const ECONNRESET: Errno = Errno(104);

    fn no_path(net: &str) -> Option<NoPath> {
        Some(NoPath {
            net: net.parse().unwrap(),
            gateways: Vec::new(),
            more: 0,
            other_size: None,
        })
    }

    fn failed(errno: Errno, no_path: Option<NoPath>) -> Delivery {
        Delivery::Failed { errno, no_path }
    }

    fn named(error: CallError) -> Option<String> {
        match error {
            CallError::NoPath { why, .. } => Some(why.net.to_string()),
            _ => None,
        }
    }

    #[test]
    fn without_a_path_at_the_deadline_the_reason_is_named_whatever_became_of_the_request() {
        for delivery in [
            Delivery::Unknown,
            failed(Errno::EHOSTUNREACH, no_path("tcp1")),
            failed(Errno::EHOSTUNREACH, None),
            failed(ECONNRESET, None),
        ] {
            let error = delivery.no_answer(WITHIN, no_path("tcp2"));
            assert_eq!(named(error).as_deref(), Some("tcp2"));
        }
    }

    #[test]
    fn a_route_that_came_up_after_the_last_request_does_not_hide_why_that_one_was_not_sent() {
        let delivery = failed(Errno::EHOSTUNREACH, no_path("tcp1"));
        let error = delivery.no_answer(WITHIN, None);
        assert_eq!(named(error).as_deref(), Some("tcp1"));
    }

    #[test]
    fn a_request_that_failed_for_another_reason_says_that_while_there_is_a_path() {
        for (delivery, errno) in [
            (failed(ECONNRESET, no_path("tcp1")), ECONNRESET.0),
            (failed(Errno::EHOSTUNREACH, None), Errno::EHOSTUNREACH.0),
        ] {
            let within = WITHIN;
            assert_eq!(
                delivery.no_answer(within, None),
                CallError::Undelivered { within, errno }
            );
        }
    }

    #[test]
    fn a_failure_counts_until_the_next_request_has_left() {
        let mut delivery = failed(ECONNRESET, None);
        delivery.begin();
        assert!(matches!(delivery, Delivery::Failed { .. }));
        delivery.left();
        assert_eq!(
            delivery.no_answer(WITHIN, None),
            CallError::Deadline(WITHIN)
        );
    }

    #[test]
    fn what_was_heard_of_one_request_counts_for_no_later_one() {
        let mut delivery = Delivery::Heard;
        delivery.left();
        assert!(matches!(delivery, Delivery::Heard));
        delivery.begin();
        let error = delivery.no_answer(WITHIN, no_path("tcp1"));
        assert_eq!(named(error).as_deref(), Some("tcp1"));
    }

    #[test]
    fn a_server_that_was_heard_of_is_slow_and_not_unreachable() {
        let deadline = CallError::Deadline(WITHIN);
        assert_eq!(Delivery::Unknown.no_answer(WITHIN, None), deadline);
        assert_eq!(Delivery::Heard.no_answer(WITHIN, None), deadline);
        let error = Delivery::Heard.no_answer(WITHIN, no_path("tcp1"));
        assert_eq!(error, deadline);
    }
}
