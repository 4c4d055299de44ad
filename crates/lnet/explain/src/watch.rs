//! A record of what selection reports while it chooses: the candidates of each level, and the values that were
//! compared.
//!
//! Selection reports candidates, exclusions and eliminations in the order in which it processes them. It compares
//! the NIs of several gateways, gateway by gateway, before it compares the routes. The recorder files a contest
//! when its winner is known, so the levels are in the order of the decisions.

use lnet_core::{
    Classification, Criterion, Exclusion, Health, Level, Observer, SelectionState, Subject,
};
use lnet_types::Nid;

/// The contest among the candidates of one level.
#[derive(Clone, Debug)]
pub(crate) struct Contest {
    pub(crate) level: Level,
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) excluded: Vec<(Subject, Exclusion)>,
    pub(crate) winner: Option<Subject>,
    /// The candidate that would win without the winner, and the criterion by which it lost.
    next: Option<(Subject, Criterion)>,
    /// The index in `candidates` of the candidate that has won so far.
    champion: usize,
}

/// A candidate of a contest.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) subject: Subject,
    pub(crate) values: Vec<(Criterion, i64)>,
    /// The candidate that it lost to, and the criterion by which it lost.
    pub(crate) lost: Option<(Subject, Criterion)>,
}

/// An observer that records a selection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) classification: Option<Classification>,
    decided: Vec<Contest>,
    open: Vec<Contest>,
}

impl Recorder {
    /// Returns the contests in the order of their decisions. Contests without a winner come last.
    pub(crate) fn contests(self) -> Vec<Contest> {
        let Self { decided, open, .. } = self;
        decided.into_iter().chain(open).collect()
    }

    fn contest(&mut self, level: Level) -> &mut Contest {
        let at = self.open.iter().position(|contest| contest.level == level);
        let at = at.unwrap_or_else(|| {
            self.open.push(Contest {
                level,
                candidates: Vec::new(),
                excluded: Vec::new(),
                winner: None,
                next: None,
                champion: 0,
            });
            self.open.len() - 1
        });
        &mut self.open[at]
    }
}

impl Observer for Recorder {
    fn classified(&mut self, classification: &Classification) {
        self.classification = Some(*classification);
    }

    fn candidate(&mut self, level: Level, subject: Subject, values: &[(Criterion, i64)]) {
        let values = values.to_vec();
        self.contest(level).candidates.push(Candidate {
            subject,
            values,
            lost: None,
        });
    }

    fn excluded(&mut self, level: Level, subject: Subject, why: Exclusion) {
        self.contest(level).excluded.push((subject, why));
    }

    fn eliminated(&mut self, level: Level, loser: Subject, winner: Subject, by: Criterion) {
        let contest = self.contest(level);
        let lost = contest.place_of(loser);
        if let Some(candidate) = lost.and_then(|at| contest.candidates.get_mut(at)) {
            candidate.lost = Some((winner, by));
        }
        contest.champion = contest.place_of(winner).unwrap_or(0);
    }

    fn chosen(&mut self, level: Level, winner: Subject, next: Option<(Subject, Criterion)>) {
        let of_level = self.contest(level);
        (of_level.winner, of_level.next) = (Some(winner), next);
        let decided = |contest: &mut Contest| contest.winner.is_some();
        self.decided.extend(self.open.extract_if(.., decided));
    }
}

impl Contest {
    /// Returns the index of a candidate. A subject that wins or loses is nearly always the newest candidate or the
    /// champion, so these two are tried first: a search among thousands of candidates for each report would be
    /// slow.
    fn place_of(&self, subject: Subject) -> Option<usize> {
        let is_at = |at: &usize| {
            self.candidates
                .get(*at)
                .is_some_and(|one| one.subject == subject)
        };
        let newest = self.candidates.len().checked_sub(1);
        let mut near = newest.into_iter().chain([self.champion]);
        near.find(is_at).or_else(|| {
            self.candidates
                .iter()
                .position(|one| one.subject == subject)
        })
    }

    /// Returns the candidate that won.
    pub(crate) fn best(&self) -> Option<&Candidate> {
        let winner = self.winner?;
        self.candidates.iter().find(|one| one.subject == winner)
    }

    /// Returns the candidate that would win without the winner, and the criterion by which it lost.
    pub(crate) fn runner_up(&self) -> Option<(&Candidate, Criterion)> {
        let (next, by) = self.next?;
        let found = self.candidates.iter().find(|one| one.subject == next);
        found.map(|one| (one, by))
    }

    /// Returns the criterion in which the winner differed from the last rival; `None` without a rival.
    pub(crate) fn decided_by(&self) -> Option<Criterion> {
        self.next.map(|(_, by)| by)
    }
}

/// Returns the words for a criterion.
pub(crate) fn word(criterion: Criterion) -> &'static str {
    match criterion {
        Criterion::Fatal => "fatal",
        Criterion::Health => "health",
        Criterion::PeerNetHealth => "peer net health",
        Criterion::PeerNetPriority => "peer net priority",
        Criterion::LocalNetHealth => "local net health",
        Criterion::LocalNetPriority => "local net priority",
        Criterion::Used => "used before",
        Criterion::Priority => "priority",
        Criterion::Device => "device",
        Criterion::Distance => "distance",
        Criterion::Preference => "preference",
        Criterion::Credits => "credits",
        Criterion::QueuedBytes => "queued bytes",
        Criterion::PreferredGateway => "not preferred",
        Criterion::RoutePriority => "route priority",
        Criterion::Hops => "hops",
        Criterion::Sequence => "sequence",
        Criterion::LocalNetSequence => "local net sequence",
        Criterion::Order => "list order",
    }
}

/// Returns the words for a level.
pub(crate) fn level_word(level: Level) -> &'static str {
    match level {
        Level::Net => "net",
        Level::RemoteNet => "remote net",
        Level::FinalPeerNi => "final peer NI",
        Level::Route => "route",
        Level::GatewayNi => "gateway NI",
        Level::LocalNi => "local NI",
        Level::PeerNi => "peer NI",
    }
}

/// Returns the words for the reason of an exclusion.
pub(crate) fn exclusion_word(why: Exclusion) -> &'static str {
    match why {
        Exclusion::NotOptimal => "not in full health and up, which a resend requires",
        Exclusion::Used => "an earlier try used it",
        Exclusion::OtherAddressSize => "IPv4 and IPv6 addresses have no connection with each other",
        Exclusion::NoCounterpart => "nothing at the other end could be used with it",
        Exclusion::PeerNotOnNet => "the peer has no interface on this net",
        Exclusion::NetNotLocal => "this node has no interface on this net",
        Exclusion::DeadRoute => "the route is dead",
        Exclusion::NotFromSource => "the gateway cannot be reached from the source",
        Exclusion::CameFrom => "the message came from this gateway",
        Exclusion::NoLink => "no interface of this node on the gateway's net is up",
        Exclusion::Silent => "several messages in a row did not come back through the gateway",
        Exclusion::Avoided => "the sender wants another gateway after an attempt without an answer",
    }
}

/// Returns the name of a subject.
pub(crate) fn subject_name(subject: Subject) -> String {
    match subject {
        Subject::Net(net) => net.to_string(),
        Subject::Ni(_, nid) | Subject::PeerNi(nid) => nid.to_string(),
        Subject::Route { net, gateway } => format!("{net} via {gateway}"),
    }
}

/// Returns the NID of a subject in the state; `None` for a net. A route has its gateway's NID.
pub(crate) fn nid_of(subject: Subject) -> Option<Nid> {
    match subject {
        Subject::Net(_) => None,
        Subject::Ni(_, nid) | Subject::PeerNi(nid) => Some(nid),
        Subject::Route { gateway, .. } => Some(gateway),
    }
}

/// Returns the health of a local NI or peer NI, if the state contains it.
pub(crate) fn health_of(state: &SelectionState, nid: Nid) -> Option<Health> {
    let local = state.nis.iter().find(|ni| ni.nid == nid);
    let peer = state.peer_nis.iter().find(|ni| ni.nid == nid);
    local.map(|ni| ni.health).or(peer.map(|ni| ni.health))
}
