//! Steps and their generators.

use proptest::prelude::*;
use proptest::sample::select;

use crate::{AllocateMode, Place, RenameMode, XattrMode};

/// Number of handles that are kept for later steps. Slot 0 always has the handle of the root.
pub(crate) const SLOTS: usize = 8;

/// Operations, each with the number of its client.
#[derive(Clone, Debug)]
pub struct Steps(pub(crate) Vec<(usize, Step)>);

/// A path, given by its names from the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target(pub(crate) Vec<&'static str>);

impl Target {
    /// Returns the place that the path names.
    #[expect(clippy::expect_used, reason = "the names are those of `NAMES`")]
    pub(crate) fn place(&self) -> Place {
        Place::from_root(self.0.join("/").as_bytes()).expect("names of this file")
    }
}

/// One operation. A slot number selects the kept handle to use, or the slot for the new handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Lookup {
        at: Target,
        slot: usize,
    },
    GetAttr {
        slot: usize,
    },
    Create {
        at: Target,
        mode: u32,
        exclusive: bool,
        slot: usize,
    },
    Mkdir {
        at: Target,
        mode: u32,
        slot: usize,
    },
    Symlink {
        at: Target,
        to: &'static str,
        slot: usize,
    },
    ReadLink {
        slot: usize,
    },
    Link {
        slot: usize,
        at: Target,
    },
    Remove {
        at: Target,
        directory: Option<bool>,
    },
    Rename {
        from: Target,
        to: Target,
        mode: RenameMode,
    },
    Read {
        slot: usize,
        offset: u64,
        length: usize,
    },
    Write {
        slot: usize,
        offset: u64,
        length: usize,
        byte: u8,
    },
    Append {
        slot: usize,
        length: usize,
        byte: u8,
    },
    SetSize {
        slot: usize,
        size: u64,
    },
    SetMode {
        slot: usize,
        mode: u32,
    },
    Allocate {
        slot: usize,
        mode: AllocateMode,
        offset: u64,
        length: u64,
    },
    List {
        slot: usize,
        page: u32,
    },
    SetXattr {
        slot: usize,
        name: &'static str,
        value: u8,
        mode: XattrMode,
    },
    GetXattr {
        slot: usize,
        name: &'static str,
    },
    ListXattr {
        slot: usize,
    },
    RemoveXattr {
        slot: usize,
        name: &'static str,
    },
    Commit {
        slot: usize,
    },
}

impl Step {
    /// Returns whether the step may be executed twice.
    pub(crate) fn is_idempotent(&self) -> bool {
        match self {
            Self::Create { exclusive, .. } => !exclusive,
            Self::SetXattr { mode, .. } => *mode != XattrMode::Create,
            Self::Mkdir { .. }
            | Self::Symlink { .. }
            | Self::Link { .. }
            | Self::Remove { .. }
            | Self::Rename { .. }
            | Self::RemoveXattr { .. }
            | Self::Append { .. } => false,
            _ => true,
        }
    }

    /// Returns whether the step may change anything.
    pub(crate) fn is_change(&self) -> bool {
        !matches!(
            self,
            Self::Lookup { .. }
                | Self::GetAttr { .. }
                | Self::ReadLink { .. }
                | Self::Read { .. }
                | Self::List { .. }
                | Self::GetXattr { .. }
                | Self::ListXattr { .. }
                | Self::Commit { .. }
        )
    }

    /// Returns the slot that receives a new handle.
    pub(crate) fn new_slot(&self) -> Option<usize> {
        match *self {
            Self::Lookup { slot, .. }
            | Self::Create { slot, .. }
            | Self::Mkdir { slot, .. }
            | Self::Symlink { slot, .. } => Some(slot),
            _ => None,
        }
    }
}

const NAMES: [&str; 3] = ["a", "b", "c"];
const XATTRS: [&str; 2] = ["user.x", "user.y"];
/// Values around the sizes at which carriers and file systems change their behaviour.
const OFFSETS: [u64; 6] = [0, 1, 7, 4095, 4096, 70_000];
const LENGTHS: [usize; 6] = [0, 1, 9, 4096, 5000, 140_000];

/// Generates at most `length` steps, each with the number of its client.
pub fn steps(length: usize, clients: usize) -> impl Strategy<Value = Steps> {
    prop::collection::vec((0..clients, step()), 1..length).prop_map(Steps)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![4 => on_names(), 2 => on_places(), 3 => on_content(), 1 => on_the_rest()]
}

fn target() -> impl Strategy<Value = Target> {
    prop::collection::vec(select(&NAMES[..]), 1..=3).prop_map(Target)
}

fn slot() -> impl Strategy<Value = usize> {
    0..SLOTS
}

/// Generates a slot that can receive a new handle.
fn new_slot() -> impl Strategy<Value = usize> {
    1..SLOTS
}

/// Generates modes with all permissions of the owner that the model assumes.
fn mode() -> impl Strategy<Value = u32> {
    select(&[0o600_u32, 0o644, 0o700, 0o755][..])
}

fn on_names() -> impl Strategy<Value = Step> {
    prop_oneof![
        (target(), new_slot()).prop_map(|(at, slot)| Step::Lookup { at, slot }),
        (target(), mode(), any::<bool>(), new_slot()).prop_map(|(at, mode, exclusive, slot)| {
            Step::Create {
                at,
                mode,
                exclusive,
                slot,
            }
        }),
        (target(), mode(), new_slot()).prop_map(|(at, mode, slot)| Step::Mkdir { at, mode, slot }),
    ]
}

fn on_places() -> impl Strategy<Value = Step> {
    let kind = select(&[None, Some(true), Some(false)][..]);
    let modes = [RenameMode::Replace, RenameMode::Keep, RenameMode::Exchange];
    let to = select(&["a", "../b", "/none"][..]);
    prop_oneof![
        2 => (target(), kind).prop_map(|(at, directory)| Step::Remove { at, directory }),
        3 => (target(), target(), select(modes.to_vec()))
            .prop_map(|(from, to, mode)| Step::Rename { from, to, mode }),
        1 => (slot(), target()).prop_map(|(slot, at)| Step::Link { slot, at }),
        1 => (target(), to, new_slot()).prop_map(|(at, to, slot)| Step::Symlink { at, to, slot }),
    ]
}

fn on_content() -> impl Strategy<Value = Step> {
    let (offset, length) = (|| select(&OFFSETS[..]), || select(&LENGTHS[..]));
    prop_oneof![
        (slot(), offset(), length()).prop_map(|(slot, offset, length)| {
            Step::Read {
                slot,
                offset,
                length,
            }
        }),
        (slot(), offset(), length(), 1..=255_u8).prop_map(|(slot, offset, length, byte)| {
            Step::Write {
                slot,
                offset,
                length,
                byte,
            }
        }),
        (slot(), length(), 1..=255_u8).prop_map(|(slot, length, byte)| Step::Append {
            slot,
            length,
            byte
        }),
        (slot(), offset()).prop_map(|(slot, size)| Step::SetSize { slot, size }),
        (slot(), 1..5_u32).prop_map(|(slot, page)| Step::List { slot, page }),
    ]
}

fn on_the_rest() -> impl Strategy<Value = Step> {
    let name = || select(&XATTRS[..]);
    let modes = [XattrMode::Any, XattrMode::Create, XattrMode::Replace];
    let allocations = [
        AllocateMode::Extend,
        AllocateMode::KeepSize,
        AllocateMode::PunchHole,
    ];
    prop_oneof![
        slot().prop_map(|slot| Step::GetAttr { slot }),
        slot().prop_map(|slot| Step::ReadLink { slot }),
        slot().prop_map(|slot| Step::Commit { slot }),
        (slot(), mode()).prop_map(|(slot, mode)| Step::SetMode { slot, mode }),
        (
            slot(),
            select(allocations.to_vec()),
            select(&OFFSETS[..]),
            1..6000_u64
        )
            .prop_map(|(slot, mode, offset, length)| Step::Allocate {
                slot,
                mode,
                offset,
                length
            }),
        (slot(), name(), any::<u8>(), select(modes.to_vec())).prop_map(
            |(slot, name, value, mode)| Step::SetXattr {
                slot,
                name,
                value,
                mode
            }
        ),
        (slot(), name()).prop_map(|(slot, name)| Step::GetXattr { slot, name }),
        (slot(), name()).prop_map(|(slot, name)| Step::RemoveXattr { slot, name }),
        slot().prop_map(|slot| Step::ListXattr { slot }),
    ]
}
