//! Rules with a length of their own, which express everything that a list holds.
//!
//! ```text
//!  0        4       8       12       16         20
//!  +--------+-------+-------+--------+----------+-----+-----+-----+
//!  | length | flags | index | action | priority | SRC | DST | RTE |
//!  +--------+-------+-------+--------+----------+-----+-----+-----+
//!
//!  descriptor:  tag, address expressions (0, 1, 4), net type, net ranges (0, 1)   16 bytes
//!               net ranges {lo, hi, stride}
//!               per address expression: number of ranges, ranges {lo, hi, stride}
//!  absent:      net type 0, nothing after the 16 bytes
//! ```

use lnet_types::expr::{AddressExpr, Descriptor, NetExpr, NidExpr, NumberExpr, Range};

use super::error::{BlockError, BlockProblem};
use super::record::{named_lnd, put, words};
use crate::list::RuleList;
use crate::priority::Priority;
use crate::rule::{Rule, Selector, net_part};

/// A rule and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedRule {
    /// The rule is inserted before the rule with this index, at most 2³¹ − 1; `None` is the end of
    /// the list.
    pub index: Option<u32>,
    /// The rule.
    pub rule: Rule,
}

/// Bytes before the descriptors.
const FIXED_LEN: usize = 20;
/// Bytes of a descriptor without ranges.
const DESCRIPTOR_LEN: usize = 16;
/// The shortest rule: one net without a range.
const RULE_LEN_MIN: usize = FIXED_LEN + 3 * DESCRIPTOR_LEN;
const TAGS: [[u8; 4]; 3] = [*b"SRC\0", *b"DST\0", *b"RTE\0"];
const DISABLED: u32 = 1;
const ACTION_PRIORITY: u32 = 1;
pub(super) const ACTION_PREFERRED: u32 = 2;
/// The index that stands for the end of the list.
const APPEND: i32 = -1;

/// Appends `rules`.
pub(super) fn write(rules: &[IndexedRule], out: &mut Vec<u8>) -> Result<(), BlockError> {
    for (number, rule) in rules.iter().enumerate() {
        let start = out.len();
        write_rule(rule, out).map_err(|problem| BlockError::in_rule(number, problem))?;
        let len = u32::try_from(out.len() - start)
            .map_err(|_| BlockError::in_rule(number, BlockProblem::NotExpressible("4 GiB")))?;
        out.splice(start..start + 4, len.to_le_bytes());
    }
    Ok(())
}

fn write_rule(indexed: &IndexedRule, out: &mut Vec<u8>) -> Result<(), BlockProblem> {
    let rule = &indexed.rule;
    let index = match indexed.index {
        None => APPEND,
        Some(index) => i32::try_from(index).map_err(|_| index_out_of_range(index))?,
    };
    let action = match rule.selector() {
        Selector::Local(_) | Selector::Remote(_) => ACTION_PRIORITY,
        Selector::Pair { .. } | Selector::Router { .. } => ACTION_PREFERRED,
    };
    let flags = if rule.is_disabled() { DISABLED } else { 0 };
    let fixed = [
        0,
        flags,
        index.cast_unsigned(),
        action,
        rule.priority().value(),
    ];
    put(out, &fixed);
    for (tag, descriptor) in TAGS.iter().zip(rule.selector().descriptors()) {
        out.extend_from_slice(tag);
        match descriptor {
            None => put(out, &[0, 0, 0]),
            Some(descriptor) => write_descriptor(descriptor, out)?,
        }
    }
    Ok(())
}

fn write_descriptor(descriptor: &Descriptor, out: &mut Vec<u8>) -> Result<(), BlockProblem> {
    let numbers: &[NumberExpr] = match descriptor {
        Descriptor::Net(_) => &[],
        Descriptor::Nid(nid) => match nid.address() {
            AddressExpr::Quad(octets) => octets,
            AddressExpr::Number(number) => std::slice::from_ref(number),
            AddressExpr::V6 { .. } => return Err(BlockProblem::NotExpressible("IPv6 addresses")),
        },
    };
    let net = net_part(descriptor);
    let nets = net.numbers().map_or(&[][..], NumberExpr::ranges);
    let count =
        |len: usize| u32::try_from(len).map_err(|_| BlockProblem::NotExpressible("so many ranges"));
    let lnd = u32::from(net.lnd().0);
    put(out, &[count(numbers.len())?, lnd, count(nets.len())?]);
    nets.iter().for_each(|range| write_range(*range, out));
    for expr in numbers {
        put(out, &[count(expr.ranges().len())?]);
        expr.ranges()
            .iter()
            .for_each(|range| write_range(*range, out));
    }
    Ok(())
}

fn write_range(range: Range, out: &mut Vec<u8>) {
    put(out, &[range.low(), range.high(), range.stride()]);
}

const fn index_out_of_range(index: u32) -> BlockProblem {
    BlockProblem::out_of_range("index", index as u64, 0, i32::MAX as u64)
}

/// Reads the rules in `bytes`, which begin at `start` in the block.
pub(super) fn read(bytes: &[u8], start: usize) -> Result<Vec<IndexedRule>, BlockError> {
    let mut rules = Vec::new();
    let mut left = bytes;
    while !left.is_empty() {
        let at = start + (bytes.len() - left.len());
        if rules.len() == RuleList::MAX_LEN {
            let (count, max) = (rules.len() + 1, RuleList::MAX_LEN);
            return Err(BlockError::at(
                at,
                BlockProblem::TooManyRules { count, max },
            ));
        }
        let (rule, rest) =
            read_rule(left).map_err(|(offset, problem)| BlockError::at(at + offset, problem))?;
        rules.push(rule);
        left = rest;
    }
    Ok(rules)
}

type Fault = (usize, BlockProblem);

// [BLOCK-7]
fn read_rule(bytes: &[u8]) -> Result<(IndexedRule, &[u8]), Fault> {
    let len = words(bytes).next().unwrap_or_default();
    if (len as usize) < RULE_LEN_MIN || len as usize > bytes.len() {
        let (least, most) = (RULE_LEN_MIN as u64, bytes.len() as u64);
        let problem = BlockProblem::out_of_range("rule length", len.into(), least, most);
        return Err((0, problem));
    }
    if !len.is_multiple_of(4) {
        let field = "rule length";
        let problem = BlockProblem::NotAMultiple {
            field,
            value: len,
            of: 4,
        };
        return Err((0, problem));
    }
    let (rule, rest) = bytes.split_at_checked(len as usize).unwrap_or_default();
    let mut reader = Reader {
        bytes: rule,
        offset: 4,
    };
    Ok((read_fields(&mut reader)?, rest))
}

fn read_fields(reader: &mut Reader<'_>) -> Result<IndexedRule, Fault> {
    let flags = reader.word()?;
    if flags & !DISABLED != 0 {
        return Err((4, BlockProblem::UnknownFlags(flags)));
    }
    let index = match reader.word()?.cast_signed() {
        APPEND => None,
        index => {
            Some(u32::try_from(index).map_err(|_| (8, index_out_of_range(index.cast_unsigned())))?)
        }
    };
    let action = reader.word()?;
    let priority = Priority::from_wire(reader.word()?);
    let rule = rule_of(action, priority, reader.descriptors()?)?;
    let rule = rule.disabled(flags & DISABLED != 0);
    Ok(IndexedRule { index, rule })
}

/// Builds the rule of these fields. Rejects rules that shipping kernels store without effect.
pub(super) fn rule_of(
    action: u32,
    priority: Priority,
    descriptors: [Option<Descriptor>; 3],
) -> Result<Rule, Fault> {
    let made = match (action, descriptors) {
        (ACTION_PRIORITY, [Some(_), None, None] | [None, Some(_), None]) if priority.is_none() => {
            return Err((16, BlockProblem::ReservedPriority));
        }
        (ACTION_PRIORITY, [Some(local), None, None]) => Rule::local(local, priority),
        (ACTION_PRIORITY, [None, Some(remote), None]) => Rule::remote(remote, priority),
        (ACTION_PREFERRED, [Some(local), Some(remote), None]) => {
            Rule::pair(local, remote, priority)
        }
        (ACTION_PREFERRED, [None, Some(remote), Some(gateway)]) if priority.is_none() => {
            Rule::router(remote, gateway)
        }
        _ => return Err((12, BlockProblem::BadAction(action))),
    };
    made.map_err(|error| (FIXED_LEN, BlockProblem::Policy(error)))
}

/// The bytes of one rule.
pub(super) struct Reader<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) offset: usize,
}

impl Reader<'_> {
    pub(super) fn word(&mut self) -> Result<u32, Fault> {
        let end = self.offset.saturating_add(4);
        let word = self
            .bytes
            .get(self.offset..end)
            .and_then(|bytes| words(bytes).next());
        let word = word.ok_or_else(|| {
            let (needed, available) = (end, self.bytes.len());
            (available, BlockProblem::Truncated { needed, available })
        })?;
        self.offset = end;
        Ok(word)
    }

    /// A set of `count` ranges.
    fn numbers(&mut self, count: u32, max: u32) -> Result<NumberExpr, Fault> {
        let at = self.offset;
        let mut ranges = Vec::new();
        // The loop ends at the latest with the rule's bytes, whatever `count` is.
        for _ in 0..count {
            let at = self.offset;
            let (low, high, stride) = (self.word()?, self.word()?, self.word()?);
            let bad = BlockProblem::BadRange {
                low,
                high,
                stride,
                max,
            };
            let range = Range::new(low, high, stride).filter(|range| range.high() <= max);
            ranges.push(range.ok_or((at, bad))?);
        }
        NumberExpr::new(ranges, max).ok_or((at, BlockProblem::BadCount(count)))
    }

    /// SRC, DST, RTE.
    pub(super) fn descriptors(&mut self) -> Result<[Option<Descriptor>; 3], Fault> {
        let [src, dst, rte] = TAGS.map(|tag| self.descriptor(tag));
        Ok([src?, dst?, rte?])
    }

    fn descriptor(&mut self, tag: [u8; 4]) -> Result<Option<Descriptor>, Fault> {
        let start = self.offset;
        let (found, count) = (self.word()?, self.word()?);
        let (lnd, nets) = (self.word()?, self.word()?);
        if lnd == 0 {
            return Ok(None);
        }
        if found != u32::from_le_bytes(tag) {
            return Err((start, BlockProblem::BadTag(found)));
        }
        let lnd = named_lnd(lnd).map_err(|problem| (start + 8, problem))?;
        let numbers = match nets {
            0 => None,
            1 => Some(self.numbers(1, NumberExpr::NET_MAX)?),
            _ => {
                let field = "number of net ranges";
                return Err((
                    start + 12,
                    BlockProblem::out_of_range(field, nets.into(), 0, 1),
                ));
            }
        };
        let net = NetExpr::new(lnd, numbers);
        let net = net.ok_or((start + 12, BlockProblem::BadNetId(u32::from(lnd.0) << 16)))?;
        let address = match count {
            0 => return Ok(Some(Descriptor::Net(net))),
            1 => AddressExpr::Number(self.address_expr(NumberExpr::ADDRESS_MAX)?),
            4 => AddressExpr::Quad(self.quad()?),
            _ => return Err((start + 4, BlockProblem::BadCount(count))),
        };
        let nid = NidExpr::new(address, net);
        let nid = nid.ok_or((start + 4, BlockProblem::BadAddress(lnd)))?;
        Ok(Some(Descriptor::Nid(nid)))
    }

    fn address_expr(&mut self, max: u32) -> Result<NumberExpr, Fault> {
        let count = self.word()?;
        self.numbers(count, max)
    }

    fn quad(&mut self) -> Result<[NumberExpr; 4], Fault> {
        let mut octet = || self.address_expr(NumberExpr::OCTET_MAX);
        Ok([octet()?, octet()?, octet()?, octet()?])
    }
}
