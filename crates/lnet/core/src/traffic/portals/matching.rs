//! The match entries of one portal, and the search for the entry that accepts a message.
//!
//! ```text
//!  unique portal     key = bits + NID + pid ──▶ entries in list order
//!  wildcard portal   entries with ignore bits, in list order; then key = bits ──▶ entries in list order
//! ```
//!
//! Entries are found by a hash, but the order of the hash has no effect: the entries of a key are an ordered list, and
//! a message has one key (on a unique portal, one for each known NID of its initiator).

use lnet_types::{Nid, ProcessId};
use lnet_wire::MessageType;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::ground::md::{InsertPosition, MdHandle, MdOptions, MdSpec, MeHandle, MeSpec};
use crate::ground::status::DropReason;
use crate::traffic::portals::descriptor::{Md, Mds, Owner};

/// A match entry.
#[derive(Debug)]
pub(in crate::traffic) struct Me {
    pub(in crate::traffic) spec: MeSpec,
    pub(in crate::traffic) md: Option<MdHandle>,
}

impl Me {
    /// Creates an entry without memory.
    pub(crate) fn new(spec: MeSpec) -> Self {
        Self { spec, md: None }
    }
}

/// The properties of a message that matching compares.
#[derive(Clone, Copy, Debug)]
pub(in crate::traffic) struct Wanted {
    pub(in crate::traffic) operation: MessageType,
    pub(in crate::traffic) match_bits: u64,
    /// Bytes offered (PUT) or requested (GET).
    pub(in crate::traffic) rlength: u32,
    pub(in crate::traffic) offset: u32,
    /// Primary NID of the source's peer, and the pid in the header.
    pub(in crate::traffic) initiator: ProcessId,
}

/// The place that a message was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::traffic) struct Match {
    pub(in crate::traffic) md: MdHandle,
    /// The descriptor's memory, and its owner.
    pub(in crate::traffic) spec: MdSpec,
    pub(in crate::traffic) owner: Owner,
    pub(in crate::traffic) offset: u32,
    pub(in crate::traffic) mlength: u32,
}

/// The kind of a portal, which its first entry determines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::traffic) enum PortalKind {
    /// Every entry names one initiator and ignores no bits.
    Unique,
    /// Entries may name any initiator or ignore bits.
    Wildcard,
}

impl PortalKind {
    pub(in crate::traffic) fn of(spec: &MeSpec) -> Self {
        let any = spec.match_id.nid.is_any() || spec.match_id.pid == ProcessId::ANY_PID;
        if spec.ignore_bits == 0 && !any {
            Self::Unique
        } else {
            Self::Wildcard
        }
    }
}

type Entries = SmallVec<[MeHandle; 2]>;

/// The match entries of one portal.
#[derive(Debug, Default)]
pub(in crate::traffic) struct Portal {
    /// The kind, set by the first entry and never changed.
    kind: Option<PortalKind>,
    ignoring: Entries,
    keyed: FxHashMap<ProcessKey, Entries>,
}

/// The key of an entry. In a wildcard portal every key has the wildcard initiator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ProcessKey {
    match_bits: u64,
    initiator: ProcessId,
}

impl Portal {
    fn key(&self, match_bits: u64, initiator: ProcessId) -> ProcessKey {
        match self.kind {
            Some(PortalKind::Unique) => ProcessKey {
                match_bits,
                initiator,
            },
            _ => ProcessKey {
                match_bits,
                initiator: ProcessId::ANY,
            },
        }
    }

    /// Sets the kind of the portal if it has none. Returns whether the portal has this kind.
    pub(in crate::traffic) fn takes(&mut self, kind: PortalKind) -> bool {
        *self.kind.get_or_insert(kind) == kind
    }

    /// Adds an entry of the portal's kind.
    pub(crate) fn insert(&mut self, handle: MeHandle, spec: &MeSpec) {
        let key = self.key(spec.match_bits, spec.match_id);
        let entries = if spec.ignore_bits != 0 {
            &mut self.ignoring
        } else {
            self.keyed.entry(key).or_default()
        };
        match spec.position {
            InsertPosition::Before => entries.insert(0, handle),
            InsertPosition::After => entries.push(handle),
        }
    }

    pub(in crate::traffic) fn remove(&mut self, handle: MeHandle, spec: &MeSpec) {
        if spec.ignore_bits != 0 {
            self.ignoring.retain(|entry| *entry != handle);
            return;
        }
        let key = self.key(spec.match_bits, spec.match_id);
        if let Some(entries) = self.keyed.get_mut(&key) {
            entries.retain(|entry| *entry != handle);
            if entries.is_empty() {
                self.keyed.remove(&key);
            }
        }
    }

    /// Returns the entries that may accept a message, in order. `aliases` are the other NIDs of the initiator's peer:
    /// an entry that names one of them matches, too.
    pub(in crate::traffic) fn candidates<'a>(
        &'a self,
        wanted: &'a Wanted,
        aliases: &'a [Nid],
    ) -> impl Iterator<Item = MeHandle> + 'a {
        let unique = self.kind == Some(PortalKind::Unique);
        let others = aliases
            .iter()
            .filter(move |_| unique)
            .map(|&nid| ProcessId {
                nid,
                pid: wanted.initiator.pid,
            });
        let keyed = std::iter::once(wanted.initiator)
            .chain(others)
            .filter_map(|initiator| self.keyed.get(&self.key(wanted.match_bits, initiator)));
        self.ignoring.iter().chain(keyed.flatten()).copied()
    }
}

impl Me {
    /// Offers a message to this entry. `None` means that the entry does not accept the message; the search continues.
    // [DATA-13]
    pub(in crate::traffic) fn offer(
        &self,
        mds: &Mds,
        wanted: &Wanted,
        aliases: &[Nid],
    ) -> Option<Result<Match, DropReason>> {
        let handle = self.md?;
        let md = mds.get(handle)?;
        let takes = !md.is_exhausted()
            && md.spec.options.contains(operation_bit(wanted.operation))
            && (self.spec.match_bits ^ wanted.match_bits) & !self.spec.ignore_bits == 0
            && self.takes_initiator(wanted.initiator, aliases);
        takes.then(|| fit(handle, md, wanted))
    }

    fn takes_initiator(&self, initiator: ProcessId, aliases: &[Nid]) -> bool {
        let ProcessId { nid, pid } = self.spec.match_id;
        (pid == ProcessId::ANY_PID || pid == initiator.pid)
            && (nid.is_any() || nid == initiator.nid || aliases.contains(&nid))
    }
}

fn operation_bit(operation: MessageType) -> MdOptions {
    match operation {
        MessageType::Get => MdOptions::OP_GET,
        _ => MdOptions::OP_PUT,
    }
}

// [DATA-6] [DATA-14] [DATA-15]
fn fit(handle: MdHandle, md: &Md, wanted: &Wanted) -> Result<Match, DropReason> {
    let remote = md.spec.options.contains(MdOptions::MANAGE_REMOTE);
    let offset = if remote { wanted.offset } else { md.offset };
    let room = md.room(offset);
    let mlength = match wanted.rlength {
        rlength if rlength <= room => rlength,
        _ if md.spec.options.contains(MdOptions::TRUNCATE) => room,
        _ => return Err(DropReason::TooLong),
    };
    Ok(Match {
        md: handle,
        spec: md.spec,
        owner: md.owner,
        offset,
        mlength,
    })
}
