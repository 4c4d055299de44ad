//! Expressions that match networks, addresses and NIDs (selection, section 4.2).
//!
//! ```text
//! descriptor = net | address "@" net            tcp3         10.0.0.[1-10/2]@o2ib1
//! net        = name [ "*" | number | list ]     tcp*         o2ib[0-8/2]
//! address    = quad | expr | ipv6 ["/" prefix]  10.0.[1,3].* [5-7]       fd00::/64
//! quad       = expr "." expr "." expr "." expr  each 0..255
//! expr       = "*" | number | list
//! list       = "[" range { "," range } "]"
//! range      = "*" | number [ "-" number [ "/" stride ] ]
//! number     = decimal, 0x hexadecimal or 0 octal; blanks may follow
//! ```
//!
//! Whether an address is four expressions or one is decided by the network's type, as it is for
//! concrete NIDs; types without a name (`<23>5`) and IPv6 text are taken on every network.
//!
//! An expression prints in one canonical form, and parsing that form gives an equal expression: `*`
//! for everything, decimal numbers, a stride only where it is not 1, a prefix only where it is not
//! 128 and without host bits. `tcp` and `tcp0` both match only `tcp0` but stay different expressions.
//!
//! Refused although some implementations take it, because what it would do is not what it says: a
//! number before a list (`tcp1[2-3]`, whose 1 would be dropped), `*` before a list, reversed ranges, a
//! stride of 0, and `*@tcp` for `*.*.*.*@tcp`.
//!
//! Nothing here loops over what an expression matches except [`NidExpr::expand`], [`NetExpr::expand`]
//! and [`NidList::expand`], which take a limit.

mod address;
mod list;
mod nid;
mod number;
mod parse;

pub use address::AddressExpr;
pub use list::NidList;
pub use nid::{Descriptor, NetExpr, NidExpr};
pub use number::{NumberExpr, Range};
pub use parse::{ExprProblem, ParseExprError};

use thiserror::Error;

/// An expression matches more values than the caller wants to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{count} values, the limit is {limit}")]
pub struct ExpandError {
    /// How many values there would be; where ranges of one list overlap, their values count twice.
    /// Saturates at 2^128 - 1.
    pub count: u128,
    /// The caller's limit.
    pub limit: usize,
}

/// Passes `count` through when `limit` allows it.
fn check_limit(count: u128, limit: usize) -> Result<(), ExpandError> {
    if count > limit as u128 {
        return Err(ExpandError { count, limit });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
