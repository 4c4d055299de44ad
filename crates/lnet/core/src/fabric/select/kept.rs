//! Records of path selections, which a replay of a recording shows.

use lnet_types::{Nid, ProcessId};

use crate::fabric::Fabric;
use crate::fabric::select::observe::{
    Classification, Criterion, Exclusion, Level, Observer, Subject,
};
use crate::fabric::select::{Choice, Path, PathRequest, Retry, SelectError};

/// One call of an [`Observer`], as a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// [`Observer::classified`].
    Classified(Classification),
    /// [`Observer::candidate`].
    Candidate(Level, Subject, Vec<(Criterion, i64)>),
    /// [`Observer::excluded`].
    Excluded(Level, Subject, Exclusion),
    /// [`Observer::eliminated`]: the loser, then the winner.
    Eliminated(Level, Subject, Subject, Criterion),
    /// [`Observer::chosen`].
    Chosen(Level, Subject, Option<(Subject, Criterion)>),
}

/// A selection that a core made for one of its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The requested source NID, if any; for a forwarded message the originator.
    pub source: Option<Nid>,
    /// The requested destination; for a response the process that sent the request to this node.
    pub target: ProcessId,
    /// The origin of the message.
    pub whose: Whose,
    /// True for a resend.
    pub again: bool,
    /// The calls of the observer. Empty if nothing was compared, as for loopback and responses.
    pub observations: Vec<Observation>,
    /// The path, or the reason why there is none.
    pub choice: Result<Choice, SelectError>,
}

/// The origin of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// A PUT or GET of this node.
    Ours,
    /// An ACK or REPLY, which goes back by the path of its request.
    Response,
    /// A message that this node forwards.
    Forwarded,
}

impl Selection {
    /// Replays the observations to an observer.
    pub fn tell<O: Observer>(&self, observer: &mut O) {
        for one in &self.observations {
            match one {
                Observation::Classified(one) => observer.classified(one),
                Observation::Candidate(level, subject, values) => {
                    observer.candidate(*level, *subject, values);
                }
                Observation::Excluded(level, subject, why) => {
                    observer.excluded(*level, *subject, *why);
                }
                Observation::Eliminated(level, loser, winner, by) => {
                    observer.eliminated(*level, *loser, *winner, *by);
                }
                Observation::Chosen(level, winner, second) => {
                    observer.chosen(*level, *winner, *second);
                }
            }
        }
    }
}

#[derive(Default)]
struct Keeper(Vec<Observation>);

impl Observer for Keeper {
    fn classified(&mut self, one: &Classification) {
        self.0.push(Observation::Classified(*one));
    }

    fn candidate(&mut self, level: Level, candidate: Subject, values: &[(Criterion, i64)]) {
        let values = values.to_vec();
        self.0
            .push(Observation::Candidate(level, candidate, values));
    }

    fn excluded(&mut self, level: Level, subject: Subject, why: Exclusion) {
        self.0.push(Observation::Excluded(level, subject, why));
    }

    fn eliminated(&mut self, level: Level, loser: Subject, winner: Subject, by: Criterion) {
        self.0
            .push(Observation::Eliminated(level, loser, winner, by));
    }

    fn chosen(&mut self, level: Level, winner: Subject, second: Option<(Subject, Criterion)>) {
        self.0.push(Observation::Chosen(level, winner, second));
    }
}

/// The selections that the core makes, while a caller wants them.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    selections: Option<Vec<Selection>>,
}

impl Kept {
    /// Begins to keep selections.
    pub(crate) fn begin(&mut self) {
        self.selections = Some(Vec::new());
    }

    /// Ends, and returns what was kept.
    pub(crate) fn take(&mut self) -> Vec<Selection> {
        self.selections.take().unwrap_or_default()
    }

    fn is_on(&self) -> bool {
        self.selections.is_some()
    }

    /// Keeps a selection if a caller wants selections.
    pub(crate) fn keep(&mut self, selection: Option<Selection>) {
        if let (Some(kept), Some(selection)) = (&mut self.selections, selection) {
            kept.push(selection);
        }
    }
}

impl Fabric {
    /// Keeps the selection that was just made, if a caller wants selections.
    pub(crate) fn note_selection(&mut self, send: &PathRequest, retry: Option<&Retry<'_>>) {
        let seen = self.seen(send, retry);
        self.kept.keep(seen);
    }

    /// Repeats a selection for a recording of selections. It changes nothing and so makes the same choice.
    pub(crate) fn seen(&self, send: &PathRequest, retry: Option<&Retry<'_>>) -> Option<Selection> {
        if !self.kept.is_on() {
            return None;
        }
        let mut keeper = Keeper::default();
        let path = self.view().path(send, retry, &mut keeper);
        let (source, target, whose) = match *send {
            PathRequest::Request(ref request) => (request.source, request.target, Whose::Ours),
            PathRequest::Response { ni, via } => {
                let source = self.nis.get(ni).map(|ni| ni.nid);
                (source, via, Whose::Response)
            }
            PathRequest::Forward { origin, target, .. } => (Some(origin), target, Whose::Forwarded),
        };
        Some(Selection {
            source,
            target,
            whose,
            again: retry.is_some(),
            observations: keeper.0,
            choice: path.map(|path| self.choice_of(&path)),
        })
    }

    pub(super) fn choice_of(&self, path: &Path) -> Choice {
        Choice {
            ni: path.ni,
            source: self.nis.get(path.ni).map_or(Nid::ANY, |ni| ni.nid),
            next_hop: path.next_hop.nid,
            destination: path.dest,
        }
    }
}
