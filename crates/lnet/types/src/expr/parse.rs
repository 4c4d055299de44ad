//! The parser of the grammar in the module documentation. Its errors name the place, the problem
//! and a correct form.

use std::net::Ipv6Addr;

use thiserror::Error;
use winnow::combinator::{opt, peek, separated};
use winnow::error::ParserError;
use winnow::prelude::*;
use winnow::stream::{LocatingSlice, Location};
use winnow::token::{any, take_while};

use super::address::AddressExpr;
use super::nid::{NetExpr, NidExpr};
use super::number::{NumberExpr, Range};
use crate::net::{AddressForm, LndType, split_lnd};

/// Why and where a text is not an expression.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{problem} (at character {})", .offset + 1)]
pub struct ParseExprError {
    /// Offset of the problem in the text, in bytes.
    pub offset: usize,
    /// What is wrong.
    pub problem: ExprProblem,
}

/// What is wrong with an expression. The message gives a correct form.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExprProblem {
    /// Text that no rule of the grammar takes.
    #[error("unexpected text")]
    Unexpected,
    /// Another character belongs here.
    #[error("{0} belongs here")]
    Expected(&'static str),
    /// No LND type has this name.
    #[error("no network type begins here; write one such as tcp or o2ib")]
    UnknownNet,
    /// Loopback takes no number.
    #[error("the loopback network takes no number; write lo")]
    NumberedLoopback,
    /// `tcp1[2-3]` or `tcp*[1-2]`: the number or star before the list would have no effect.
    #[error("a list cannot follow a number or '*'; write the list alone, such as tcp[2-3]")]
    BeforeList,
    /// Not a C integer literal.
    #[error("'{0}' is not a number; write decimal, 0x and hexadecimal, or 0 and octal digits")]
    BadNumber(String),
    /// The number exceeds the maximum of its position.
    #[error("{number} is too large; the maximum is {max}")]
    TooLarge {
        /// The number as written.
        number: String,
        /// The largest that is allowed.
        max: u32,
    },
    /// `[2-1]`.
    #[error("the range {low}-{high} runs backwards; write {high}-{low}")]
    Backwards {
        /// The bound written first.
        low: u32,
        /// The bound written second.
        high: u32,
    },
    /// `[1-9/0]`.
    #[error("a stride is at least 1")]
    ZeroStride,
    /// There is no `@` between address and network.
    #[error("a NID expression is ADDRESS@NETWORK, such as 10.0.0.[1-4]@tcp")]
    MissingAt,
    /// `*@tcp`, `10.0.1@tcp`.
    #[error("an address here has four elements; for every address write *.*.*.*")]
    NotFourElements,
    /// Not an IPv6 address.
    #[error("'{0}' is not an IPv6 address")]
    BadIpv6(String),
    /// The prefix length is not a number up to 128.
    #[error("'{0}' is not a prefix length (0 to 128)")]
    BadPrefix(String),
    /// A list without any expression.
    #[error("the list of NIDs is empty")]
    EmptyList,
    /// A list with too many expressions.
    #[error("the list has more than {max} expressions; write ranges such as 10.0.0.[1-99]@tcp")]
    LongList {
        /// The limit.
        max: usize,
    },
}

impl ParseExprError {
    pub(super) const fn new(offset: usize, problem: ExprProblem) -> Self {
        Self { offset, problem }
    }

    /// The same error for a text with `bytes` more bytes in front.
    pub(super) fn behind(self, bytes: usize) -> Self {
        Self {
            offset: self.offset.saturating_add(bytes),
            ..self
        }
    }
}

type Input<'a> = LocatingSlice<&'a str>;
type Result<T, E = ParseExprError> = std::result::Result<T, E>;

impl ParserError<Input<'_>> for ParseExprError {
    type Inner = Self;

    fn from_input(input: &Input<'_>) -> Self {
        error(input, ExprProblem::Unexpected)
    }

    /// If only a primitive of winnow failed, another branch is tried. A named problem ends the
    /// search.
    fn is_backtrack(&self) -> bool {
        self.problem == ExprProblem::Unexpected
    }

    fn into_inner(self) -> Result<Self, Self> {
        Ok(self)
    }
}

fn error(input: &Input<'_>, problem: ExprProblem) -> ParseExprError {
    ParseExprError::new(input.current_token_start(), problem)
}

/// Runs `parser` over all of `text`.
fn complete<'a, T>(
    text: &'a str,
    mut parser: impl FnMut(&mut Input<'a>) -> Result<T>,
) -> Result<T> {
    let mut input = LocatingSlice::new(text);
    let value = parser(&mut input)?;
    if input.is_empty() {
        return Ok(value);
    }
    Err(error(&input, ExprProblem::Unexpected))
}

/// `tcp`, `tcp3`, `tcp*`, `tcp[1-5/2]`.
pub(super) fn net_expr(text: &str) -> Result<NetExpr> {
    let (lnd, rest) = split_lnd(text).ok_or(ParseExprError::new(0, ExprProblem::UnknownNet))?;
    let name_len = text.len() - rest.len();
    let numbers = match rest {
        "" => None,
        _ if lnd == LndType::LO => {
            return Err(ParseExprError::new(name_len, ExprProblem::NumberedLoopback));
        }
        rest => Some(complete(rest, net_numbers).map_err(|error| error.behind(name_len))?),
    };
    // `split_lnd` returns only types that texts may name, and `net_numbers` only numbers of
    // networks.
    NetExpr::new(lnd, numbers).ok_or(ParseExprError::new(0, ExprProblem::UnknownNet))
}

fn net_numbers(input: &mut Input<'_>) -> Result<NumberExpr> {
    let numbers = number_expr(input, NumberExpr::NET_MAX)?;
    if input.starts_with('[') {
        return Err(error(input, ExprProblem::BeforeList));
    }
    Ok(numbers)
}

/// An address expression, `@`, a network expression.
pub(super) fn nid_expr(text: &str) -> Result<NidExpr> {
    let (address, net) = text
        .split_once('@')
        .ok_or(ParseExprError::new(text.len(), ExprProblem::MissingAt))?;
    let net = net_expr(net).map_err(|error| error.behind(address.len() + 1))?;
    let address = match net.lnd().address_form() {
        _ if address.contains(':') => v6_expr(address)?,
        AddressForm::Ip => complete(address, quad)?,
        AddressForm::Number => complete(address, number_address)?,
    };
    // The address was parsed in the form of the network's type.
    NidExpr::new(address, net).ok_or(ParseExprError::new(0, ExprProblem::Unexpected))
}

/// An address expression without a network: its characters alone determine its form.
pub(super) fn bare_address(text: &str) -> Result<AddressExpr> {
    if text.contains(':') {
        v6_expr(text)
    } else if text.contains('.') {
        complete(text, quad)
    } else {
        complete(text, number_address)
    }
}

/// A number expression that stands alone.
pub(super) fn numbers(text: &str) -> Result<NumberExpr> {
    complete(text, |input| number_expr(input, u32::MAX))
}

fn v6_expr(text: &str) -> Result<AddressExpr> {
    let (address, prefix) = text.split_once('/').unwrap_or((text, "128"));
    let network: Ipv6Addr = address
        .parse()
        .map_err(|_| ParseExprError::new(0, ExprProblem::BadIpv6(address.to_owned())))?;
    let is_decimal = prefix.bytes().all(|byte| byte.is_ascii_digit());
    prefix
        .parse()
        .ok()
        .filter(|_| is_decimal)
        .and_then(|prefix| AddressExpr::v6(network, prefix))
        .ok_or_else(|| {
            let problem = ExprProblem::BadPrefix(prefix.to_owned());
            ParseExprError::new(address.len() + 1, problem)
        })
}

fn quad(input: &mut Input<'_>) -> Result<AddressExpr> {
    let octet = |input: &mut Input<'_>| number_expr(input, NumberExpr::OCTET_MAX);
    let octets: Vec<NumberExpr> = separated(1.., octet, '.').parse_next(input)?;
    let octets = octets
        .try_into()
        .map_err(|_| ParseExprError::new(0, ExprProblem::NotFourElements))?;
    Ok(AddressExpr::Quad(octets))
}

fn number_address(input: &mut Input<'_>) -> Result<AddressExpr> {
    number_expr(input, NumberExpr::ADDRESS_MAX).map(AddressExpr::Number)
}

/// `*`, a number, or a list.
fn number_expr(input: &mut Input<'_>, max: u32) -> Result<NumberExpr> {
    let ranges = match peek(opt(any)).parse_next(input)? {
        Some('[') => list(input, max)?,
        _ => vec![star_or_number(input, max, "a number, '*' or '['")?],
    };
    // Every number was checked against the maximum when it was read.
    NumberExpr::new(ranges, max).ok_or_else(|| error(input, ExprProblem::Unexpected))
}

fn list(input: &mut Input<'_>, max: u32) -> Result<Vec<Range>> {
    '['.parse_next(input)?;
    let ranges =
        separated(1.., |input: &mut Input<'_>| range(input, max), ',').parse_next(input)?;
    if opt(']').parse_next(input)?.is_none() {
        return Err(error(input, ExprProblem::Expected("',' or ']'")));
    }
    Ok(ranges)
}

fn range(input: &mut Input<'_>, max: u32) -> Result<Range> {
    let start = input.current_token_start();
    let first = star_or_number(input, max, "a number or '*'")?;
    if first.low() != first.high() || opt('-').parse_next(input)?.is_none() {
        return Ok(first);
    }
    let (low, high) = (first.low(), number(input, max)?);
    let stride = match opt('/').parse_next(input)? {
        Some(_) => number(input, u32::MAX)?,
        None => 1,
    };
    let rejected = || {
        let backwards = ExprProblem::Backwards { low, high };
        let problem = if low > high {
            backwards
        } else {
            ExprProblem::ZeroStride
        };
        ParseExprError::new(start, problem)
    };
    Range::new(low, high, stride).ok_or_else(rejected)
}

fn star_or_number(input: &mut Input<'_>, max: u32, expected: &'static str) -> Result<Range> {
    if opt('*').parse_next(input)?.is_some() {
        // The range from 0 to `max` with a stride of 1 is valid.
        return Range::new(0, max, 1).ok_or_else(|| error(input, ExprProblem::Unexpected));
    }
    if !input.starts_with(|character: char| character.is_ascii_digit()) {
        return Err(error(input, ExprProblem::Expected(expected)));
    }
    number(input, max).map(Range::single)
}

/// A C integer literal and the blanks behind it.
fn number(input: &mut Input<'_>, max: u32) -> Result<u32> {
    let start = input.current_token_start();
    let literal: &str =
        take_while(0.., |character: char| character.is_ascii_alphanumeric()).parse_next(input)?;
    take_while(0.., (' ', '\t')).parse_next(input)?;
    let fail = |problem| ParseExprError::new(start, problem);
    if !literal.starts_with(|character: char| character.is_ascii_digit()) {
        return Err(fail(ExprProblem::Expected("a number")));
    }
    let (digits, radix) = c_literal(literal);
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return Err(fail(ExprProblem::BadNumber(literal.to_owned())));
    }
    // Only digits are left, so the only possible failure is a number that is too large.
    u32::from_str_radix(digits, radix)
        .ok()
        .filter(|value| *value <= max)
        .ok_or_else(|| {
            fail(ExprProblem::TooLarge {
                number: literal.to_owned(),
                max,
            })
        })
}

/// The digits of a C integer literal and their base.
fn c_literal(literal: &str) -> (&str, u32) {
    if let Some(digits) = literal
        .strip_prefix("0x")
        .or_else(|| literal.strip_prefix("0X"))
    {
        return (digits, 16);
    }
    match literal.strip_prefix('0') {
        Some(digits) if !digits.is_empty() => (digits, 8),
        _ => (literal, 10),
    }
}
