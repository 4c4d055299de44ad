//! Sends the events of the node to a client until the client closes its connection.
//!
//! The lock is held for one page of events at a time, and not while text is made. A client that does not read fills
//! its socket and is then cut off, as any slow client is.

use std::io;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lnet_core::{Health, HealthCause, Watched, WatchedAttempt, WatchedEvent, Watcher};
use lnet_dlc::protocol::{Happened, Happening, Happenings, Reply};
use lnet_node::reason_name;
use lnet_types::{Nid, Time};

use super::connection::Pieces;
use crate::managed::ManagedNode;

/// The pause between two readings if there are no events.
const PAUSE: Duration = Duration::from_millis(100);

/// The longest time without a write: only a write shows that the client has closed its connection.
const SILENCE_MAX: Duration = Duration::from_millis(500);

/// Events that are copied under one lock; some 120 bytes each.
const EVENTS_PER_PAGE: usize = 512;

/// Sends events until the client closes its connection, which is an error of `send`.
pub(super) fn tell(
    node: &ManagedNode,
    kinds: &[Happenings],
    send: Pieces<'_>,
) -> io::Result<Reply> {
    let wanted = Wanted::of(kinds);
    let mut watch = Watch::begin(node, wanted.successes());
    send(piece(&[])?)?;
    let mut written = Instant::now();
    loop {
        let (events, is_full) = watch.page(&wanted);
        if !events.is_empty() || written.elapsed() >= SILENCE_MAX {
            send(piece(&events)?)?;
            written = Instant::now();
        }
        if !is_full {
            std::thread::sleep(PAUSE);
        }
    }
}

fn piece(events: &[Happening]) -> io::Result<Reply> {
    Ok(Reply::Text(serde_json::to_string(events)?))
}

/// The kinds of events that a client wants.
struct Wanted(Vec<Happenings>);

impl Wanted {
    fn of(kinds: &[Happenings]) -> Self {
        use Happenings::{Dropped, FailedSends, Health, Routes, Sends};
        let mut kinds = match kinds {
            [] => vec![Dropped, Health, Routes, FailedSends],
            kinds => kinds.to_vec(),
        };
        if kinds.contains(&Sends) {
            kinds.push(FailedSends);
        }
        Self(kinds)
    }

    fn successes(&self) -> bool {
        self.0.contains(&Happenings::Sends)
    }

    fn has(&self, event: &Happened) -> bool {
        event.kind().is_none_or(|kind| self.0.contains(&kind))
    }
}

/// A watch of the core, which ends with the client's connection.
struct Watch<'a> {
    node: &'a ManagedNode,
    /// The core's watcher; `None` once the watch has ended.
    watcher: Option<Watcher>,
}

impl<'a> Watch<'a> {
    fn begin(node: &'a ManagedNode, successes: bool) -> Self {
        let watcher = node.with_core(|core, _| core.watch(successes));
        Self {
            node,
            watcher: Some(watcher),
        }
    }

    /// Returns the next events, and whether there may be more already.
    fn page(&mut self, wanted: &Wanted) -> (Vec<Happening>, bool) {
        let Some(watcher) = &mut self.watcher else {
            return (Vec::new(), false);
        };
        let (events, lost, now) = self.node.with_core(|core, now| {
            let (events, lost) = core.watched(watcher, EVENTS_PER_PAGE);
            (events, lost, now)
        });
        let is_full = events.len() == EVENTS_PER_PAGE;
        let clock = Clock::at(now);
        let left_out = (lost > 0).then(|| Happening {
            time: events.first().map_or(clock.now, |event| clock.of(event.at)),
            what: Happened::LeftOut { count: lost },
        });
        let told = events.iter().map(|event| clock.told(event));
        let told = told.filter(|event| wanted.has(&event.what));
        (left_out.into_iter().chain(told).collect(), is_full)
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if let Some(watcher) = self.watcher.take() {
            self.node.with_core(|core, _| core.unwatch(watcher));
        }
    }
}

/// Translates the node's time into seconds since 1970.
struct Clock {
    node: Time,
    now: f64,
}

impl Clock {
    fn at(node: Time) -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            node,
            now: since_1970.map_or(0.0, |time| time.as_secs_f64()),
        }
    }

    fn of(&self, at: Time) -> f64 {
        self.now - self.node.saturating_since(at).as_secs_f64()
    }

    fn told(&self, event: &WatchedEvent) -> Happening {
        Happening {
            time: self.of(event.at),
            what: happened(&event.what),
        }
    }
}

fn happened(what: &Watched) -> Happened {
    match what {
        Watched::Dropped {
            ni,
            sender,
            message,
            length,
            reason,
        } => Happened::Dropped {
            ni: ni.map(|ni| ni.to_string()),
            sender: sender.to_string(),
            message: reason_name(message),
            length: *length,
            reason: reason_name(reason),
        },
        Watched::GivenUp {
            target,
            message,
            length,
            errno,
            reason,
        } => Happened::GivenUp {
            target: target.to_string(),
            message: reason_name(message),
            length: *length,
            errno: errno.0,
            reason: reason.as_ref().map(reason_name),
        },
        Watched::Attempt(attempt) => of_attempt(attempt),
        Watched::NiHealth {
            nid,
            before,
            health,
            cause,
        } => of_health((*nid, true), (*before, *health), *cause),
        Watched::PeerNiHealth {
            nid,
            before,
            health,
            cause,
        } => of_health((*nid, false), (*before, *health), *cause),
        Watched::Fatal { nid, fatal } => Happened::Fatal {
            nid: nid.to_string(),
            fatal: *fatal,
        },
        Watched::Routes {
            gateway,
            down,
            all,
            fault,
        } => Happened::Routes {
            gateway: gateway.to_string(),
            down: *down,
            all: *all,
            reason: fault.map(|fault| fault.to_string()),
        },
        Watched::Peer { nid, connected } => Happened::Peer {
            nid: nid.to_string(),
            connected: *connected,
        },
    }
}

fn of_attempt(attempt: &WatchedAttempt) -> Happened {
    Happened::Send {
        ni: attempt.ni.map(|ni| ni.to_string()),
        next_hop: attempt.next_hop.to_string(),
        target: attempt.target.to_string(),
        message: reason_name(&attempt.message),
        length: attempt.length,
        attempt: attempt.number,
        status: reason_name(&attempt.status),
        again: attempt.again,
    }
}

fn of_health(
    (nid, own): (Nid, bool),
    (before, health): (Health, Health),
    cause: HealthCause,
) -> Happened {
    Happened::Health {
        nid: nid.to_string(),
        own,
        before: before.value(),
        health: health.value(),
        cause: cause_name(cause),
    }
}

/// Returns the reason for a change of health, in words.
fn cause_name(cause: HealthCause) -> String {
    match cause {
        HealthCause::Sent => "a message was sent".to_owned(),
        HealthCause::Received => "a message was received".to_owned(),
        HealthCause::Failed(status) => format!("an attempt failed: {}", reason_name(&status)),
        HealthCause::NoResponse => "no response came in time".to_owned(),
        HealthCause::Recovered => "a recovery ping was answered".to_owned(),
        HealthCause::Told => "its node reported it".to_owned(),
        HealthCause::Administrator => "an administrator set it".to_owned(),
    }
}
