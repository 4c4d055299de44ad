//! Failpoints: places in the protocol where a test can make the daemon stop or die.
//!
//! Without failpoints, which is the normal case, a place costs one comparison of an empty list. A hidden flag
//! sets them, so that the crash tests run the same binary that is shipped.

use std::fmt;
use std::process;
use std::str::FromStr;

use tracing::warn;

/// A place in the protocol.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// The journal contains the names; none of them has been created.
    JournalWritten,
    /// Queue and segment exist; nobody can connect yet.
    NamesCreated,
    /// A client is attached and has not been told.
    BeforeWelcome,
    /// A transfer to the segment is granted and the client has not been told.
    BeforeGrant,
    /// Bytes of a transfer to the segment have arrived and are not counted yet.
    AmidArrival,
    /// All bytes have arrived; neither side has been told.
    BeforeSendDone,
    /// A receive is matched and the client has not been told.
    BeforeRecvReply,
    /// Some bytes of a transfer from the segment are sent, not all.
    AmidDelivery,
    /// A server's INIT is accepted and not answered.
    BeforeInitReply,
    /// A server's post is accepted and not answered.
    BeforePostReply,
    /// A server's test has an answer that is not sent.
    BeforeTestReply,
}

/// Each place with its name.
const PLACES: [(&str, Place); 11] = [
    ("journal-written", Place::JournalWritten),
    ("names-created", Place::NamesCreated),
    ("before-welcome", Place::BeforeWelcome),
    ("before-grant", Place::BeforeGrant),
    ("amid-arrival", Place::AmidArrival),
    ("before-send-done", Place::BeforeSendDone),
    ("before-recv-reply", Place::BeforeRecvReply),
    ("amid-delivery", Place::AmidDelivery),
    ("before-init-reply", Place::BeforeInitReply),
    ("before-post-reply", Place::BeforePostReply),
    ("before-test-reply", Place::BeforeTestReply),
];

/// What happens at a place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Action {
    /// The process ends at once, as if killed, without cleaning up.
    Kill,
    /// The process stops until it is continued, as by a debugger.
    Stop,
}

/// A place and an action: `PLACE=kill` or `PLACE=stop`; with `@N` at the N-th time, counted from 1.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Failpoint {
    place: Place,
    action: Action,
    /// How often the place is still passed before the action.
    passes: u32,
}

/// A text that is not a failpoint.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0:?} is not a failpoint: write PLACE=kill or PLACE=stop, and @N for the N-th time")]
pub struct BadFailpoint(String);

impl FromStr for Failpoint {
    type Err = BadFailpoint;

    fn from_str(text: &str) -> Result<Self, BadFailpoint> {
        let bad = || BadFailpoint(text.to_owned());
        let (place, rest) = text.split_once('=').ok_or_else(bad)?;
        let (action, time) = rest.split_once('@').unwrap_or((rest, "1"));
        let time: u32 = time.parse().map_err(|_| bad())?;
        let known = PLACES.iter().find(|(name, _)| *name == place);
        let action = match action {
            "kill" => Action::Kill,
            "stop" => Action::Stop,
            _ => return Err(bad()),
        };
        Ok(Self {
            place: known.ok_or_else(bad)?.1,
            action,
            passes: time.checked_sub(1).ok_or_else(bad)?,
        })
    }
}

/// All failpoints of a daemon; none in normal operation.
#[derive(Clone, Debug, Default)]
pub struct Failpoints(Vec<Failpoint>);

impl Failpoints {
    /// Adds a failpoint.
    pub fn add(&mut self, failpoint: Failpoint) {
        self.0.push(failpoint);
    }

    /// Carries out the action of this place, if there is one.
    pub(crate) fn pass(&mut self, place: Place) {
        let due = self.0.iter_mut().filter(|point| point.place == place);
        for point in due {
            if let Some(left) = point.passes.checked_sub(1) {
                point.passes = left;
                continue;
            }
            act(point.action, place);
        }
    }
}

fn act(action: Action, place: Place) {
    warn!(%place, ?action, "failpoint");
    let signal = match action {
        Action::Kill => nix::sys::signal::Signal::SIGKILL,
        Action::Stop => nix::sys::signal::Signal::SIGSTOP,
    };
    if nix::sys::signal::raise(signal).is_err() {
        process::abort();
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = PLACES.iter().find(|(_, place)| place == self);
        f.write_str(known.map_or("?", |(name, _)| name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_has_a_name_and_reads_back() {
        for (name, place) in PLACES {
            let point: Failpoint = format!("{name}=kill@3").parse().unwrap();
            assert_eq!((point.place, point.passes), (place, 2));
            assert_eq!(place.to_string(), name);
        }
    }

    #[test]
    fn what_is_no_failpoint_is_refused() {
        for bad in [
            "",
            "kill",
            "nowhere=kill",
            "amid-arrival=x",
            "amid-arrival=kill@0",
        ] {
            assert!(bad.parse::<Failpoint>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_place_without_a_failpoint_is_passed() {
        let mut points = Failpoints::default();
        points.add("amid-arrival=kill@1000".parse().unwrap());
        for _ in 0..10 {
            points.pass(Place::AmidArrival);
            points.pass(Place::BeforeGrant);
        }
        assert_eq!(points.0[0].passes, 989);
    }
}
