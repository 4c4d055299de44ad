//! Lists of NID expressions, as configurations name gateways.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::ExpandError;
use super::nid::NidExpr;
use super::parse::{ExprProblem, ParseExprError};
use crate::nid::Nid;

/// NID expressions separated by commas or blanks: `10.20.0.[1-2]@o2ib1, 10.20.0.9@o2ib1`.
///
/// Printed with a comma between the expressions. Commas and blanks inside brackets belong to the
/// expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NidList(Vec<NidExpr>);

impl NidList {
    /// The most expressions of a list. A kernel takes 128 NIDs in a command
    /// ([CONF-7]), so the limit rejects no useful list, and a hostile list cannot fill the memory.
    pub const MAX_EXPRS: usize = 1024;

    /// The expressions in the order in which they were written; at least one.
    #[must_use]
    pub fn exprs(&self) -> &[NidExpr] {
        &self.0
    }

    /// Returns true if one of the expressions covers `nid`.
    #[must_use]
    pub fn matches(&self, nid: Nid) -> bool {
        self.0.iter().any(|expr| expr.matches(nid))
    }

    /// The covered NIDs, expression by expression, each once.
    ///
    /// # Errors
    ///
    /// [`ExpandError`] if there are more than `limit`. Its count then covers the expressions up to
    /// the first that exceeds the limit.
    pub fn expand(&self, limit: usize) -> Result<Vec<Nid>, ExpandError> {
        let mut seen = BTreeSet::new();
        let mut nids = Vec::new();
        for expr in &self.0 {
            let left = limit.saturating_sub(nids.len());
            let more = expr.expand(left).map_err(|error| ExpandError {
                count: error.count.saturating_add(nids.len() as u128),
                limit,
            })?;
            nids.extend(more.into_iter().filter(|nid| seen.insert(*nid)));
        }
        Ok(nids)
    }
}

impl FromStr for NidList {
    type Err = ParseExprError;

    fn from_str(text: &str) -> Result<Self, ParseExprError> {
        let mut exprs = Vec::new();
        for (offset, item) in items(text) {
            if exprs.len() == Self::MAX_EXPRS {
                let max = Self::MAX_EXPRS;
                return Err(ParseExprError::new(offset, ExprProblem::LongList { max }));
            }
            let expr = item
                .parse()
                .map_err(|error: ParseExprError| error.behind(offset))?;
            exprs.push(expr);
        }
        if exprs.is_empty() {
            return Err(ParseExprError::new(0, ExprProblem::EmptyList));
        }
        Ok(Self(exprs))
    }
}

/// The pieces of `text` between separators, each with its byte offset.
fn items(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut depth = 0i32;
    let is_separator = move |character: char| {
        match character {
            '[' => depth = depth.saturating_add(1),
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth <= 0 && (character == ',' || character.is_ascii_whitespace())
    };
    let mut offset = 0;
    text.split(is_separator)
        .map(move |item| {
            let start = offset;
            // Every separator is one byte.
            offset += item.len() + 1;
            (start, item)
        })
        .filter(|(_, item)| !item.is_empty())
}

impl fmt::Display for NidList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, expr) in self.0.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { "," })?;
            expr.fmt(f)?;
        }
        Ok(())
    }
}
