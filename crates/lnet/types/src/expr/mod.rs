//! Expressions that match networks, addresses and NIDs: [UDSP-20], [UDSP-21], [UDSP-22].
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
//! The network's type decides whether an address is four expressions or one, as for concrete NIDs.
//! Types without a name (`<23>5`) and IPv6 text are accepted on every network.
//!
//! An expression prints in one canonical form, and parsing that form gives an equal expression: `*`
//! for everything, decimal numbers, a stride only if it is not 1, a prefix only if it is not 128
//! and without host bits. `tcp` and `tcp0` both match only `tcp0` but stay different expressions.
//!
//! These forms are rejected although some implementations accept them, because their effect differs
//! from their text: a number before a list (`tcp1[2-3]`, whose 1 would be dropped), `*` before a
//! list, reversed ranges, a stride of 0, and `*@tcp` for `*.*.*.*@tcp`.
//!
//! Only [`NidExpr::expand`], [`NetExpr::expand`] and [`NidList::expand`] loop over the values that
//! an expression matches; each takes a limit.

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

/// An expression matches more values than the caller accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{count} values, the limit is {limit}")]
pub struct ExpandError {
    /// The number of values; values of overlapping ranges of one list count twice. Saturates at
    /// 2^128 - 1.
    pub count: u128,
    /// The caller's limit.
    pub limit: usize,
}

/// Returns an error if `count` is above `limit`.
fn check_limit(count: u128, limit: usize) -> Result<(), ExpandError> {
    if count > limit as u128 {
        return Err(ExpandError { count, limit });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
