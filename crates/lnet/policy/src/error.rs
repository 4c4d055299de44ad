//! Errors of rules and of requests to the list, with the texts and numbers of
//! `lnetctl`: [UDSP-33], [UDSP-37].

use std::fmt;

use lnet_types::LndType;
use lnet_types::expr::ParseExprError;
use thiserror::Error;

const ENOENT: i32 = 2;
const E2BIG: i32 = 7;
const EINVAL: i32 = 22;
const EALREADY: i32 = 114;

/// One of the descriptors of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Argument {
    /// The local side, `src`.
    Src,
    /// The remote side, `dst`.
    Dst,
    /// The gateway, `rte`.
    Rte,
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Src => "src",
            Self::Dst => "dst",
            Self::Rte => "rte",
        })
    }
}

/// Why a rule or a request is rejected. The text of a variant is the `descr` of the tool's error,
/// if the tool has one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// `src`, `dst` and `rte` in one rule.
    #[error("The combination of src, dst and rte is not supported")]
    ThreeDescriptors,
    /// `src` with `rte`.
    #[error("src and rte cannot be combined")]
    SrcWithRte,
    /// No descriptor.
    #[error("Missing required argument(s)")]
    NoDescriptor,
    /// `rte` alone, which shipping kernels store as a rule without effect.
    #[error("rte needs dst: a gateway is preferred for something")]
    RteAlone,
    /// A descriptor is not a net or NID expression. The source has the place and the reason.
    #[error("failed to parse {argument} parameter")]
    Unparsable {
        /// Which descriptor.
        argument: Argument,
        /// What is wrong with it.
        source: ParseExprError,
    },
    /// The net part has several ranges, as in `tcp[1,3]`; one is allowed.
    #[error("cannot add udsp: Invalid argument")]
    SeveralNetRanges(Argument),
    /// The network type has no name, `<23>`.
    #[error("{argument}: {lnd} is not a network type that rules can name")]
    UnknownNet {
        /// Which descriptor.
        argument: Argument,
        /// The type.
        lnd: LndType,
    },
    /// The action is neither a priority nor a preferred list.
    #[error("bad action type specified: {0}")]
    BadAction(String),
    /// Not a number from 0 to 4294967294.
    #[error("Invalid priority \"{0}\"")]
    BadPriority(String),
    /// Not an index.
    #[error("Invalid index \"{0}\"")]
    BadIndex(String),
    /// A priority on a rule with `rte`, or in the `lustre` profile on a rule with `src` and `dst`;
    /// shipping kernels store such a rule without effect.
    #[error("a rule with {0} makes a preferred list, which has no priority")]
    PriorityOnList(Argument),
    /// The list has this rule already.
    #[error("cannot add udsp: Operation already in progress")]
    Exists {
        /// Its index.
        index: usize,
    },
    /// No rule has this index, or none matches the descriptors.
    #[error("cannot del udsp: No such file or directory")]
    NotFound,
    /// The given id and descriptors name different rules.
    #[error("the id and the descriptors name different rules")]
    IdMismatch,
    /// The list is full.
    #[error("cannot add udsp: Argument list too long ({max} rules at most)")]
    TooMany {
        /// How many rules there may be.
        max: usize,
    },
}

impl PolicyError {
    /// The negative errno that the library returns.
    #[must_use]
    pub const fn errno(&self) -> i32 {
        -match self {
            Self::NotFound => ENOENT,
            Self::TooMany { .. } => E2BIG,
            Self::Exists { .. } => EALREADY,
            _ => EINVAL,
        }
    }

    /// The errno that `lnetctl` prints: positive if the kernel rejects a request that the library
    /// accepted.
    #[must_use]
    pub const fn lnetctl_errno(&self) -> i32 {
        match self {
            Self::Exists { .. } | Self::SeveralNetRanges(_) | Self::TooMany { .. } => -self.errno(),
            _ => self.errno(),
        }
    }

    /// The exit status of `lnetctl`: the errno modulo 256.
    #[must_use]
    pub const fn exit_status(&self) -> u8 {
        // The remainder of a division by 256 fits.
        self.lnetctl_errno().rem_euclid(256) as u8
    }
}
