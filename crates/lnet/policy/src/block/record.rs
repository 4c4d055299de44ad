//! The records of v1 blocks, and the expressions that they stand for: [BLOCK-1].
//!
//! ```text
//!  lnet_expr   12   lo, hi, stride            stride 0: absent, and then lo = hi = 0
//!  net_descr   16   net id, expr              net id: type << 16 | number; number 0 with an expr
//!  nid_descr   64   expr × 4, net_descr       numeric addresses: the first expr alone
//!  net rule    20   net_descr, priority
//!  NID rule    68   nid_descr, priority
//!  p2p rule   132   nid_descr × 2, priority   no address: every NID of the net
//! ```
//!
//! All members are 32-bit and little-endian.

use lnet_types::LndType;
use lnet_types::expr::{AddressExpr, Descriptor, NetExpr, NidExpr, NumberExpr, Range};

use super::error::BlockProblem;
use crate::priority::Priority;

/// One range: `lnet_expr`, 12 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Expr {
    /// `ex_lo`: the first number.
    pub low: u32,
    /// `ex_hi`: the upper bound.
    pub high: u32,
    /// `ex_stride`: the distance; 0 for an absent expression, whose bounds are then 0.
    pub stride: u32,
}

/// Networks: `lnet_net_descr`, 16 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct NetDescr {
    /// `nsd_net_id`: the type in the upper half, the number in the lower one.
    pub net_id: u32,
    /// `nsd_expr`: the numbers, if the net id has none.
    pub expr: Expr,
}

/// NIDs: `lnet_nid_descr`, 64 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct NidDescr {
    /// `nir_ip`: the octets in the order of their text; or one number.
    pub ip: [Expr; 4],
    /// `nir_net`: the networks.
    pub net: NetDescr,
}

/// A net rule: `lnet_ioctl_net_rule`, 20 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct NetRule {
    /// `nsr_descr`: local nets and peer nets.
    pub descr: NetDescr,
    /// `nsr_prio`: their priority, less is better.
    pub priority: u32,
}

/// A NID rule: `lnet_ioctl_nid_rule`, 68 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct NidRule {
    /// `nir_descr`: local NIs and peer NIs.
    pub descr: NidDescr,
    /// `nir_prio`: their priority, less is better.
    pub priority: u32,
}

/// A peer-to-peer rule: `lnet_ioctl_net_p2p_rule`, 132 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct P2pRule {
    /// `p2p_src_descr`: local NIs.
    pub src: NidDescr,
    /// `p2p_dst_descr`: peer NIs.
    pub dst: NidDescr,
    /// `p2p_prio`: the rank, less is better.
    pub priority: u32,
}

// The sizes of the layout. All members are 32 bits, so the records have no padding.
const _: () = assert!(size_of::<Expr>() == 12);
const _: () = assert!(size_of::<NetDescr>() == 16);
const _: () = assert!(size_of::<NidDescr>() == 64);
const _: () = assert!(size_of::<NetRule>() == 20);
const _: () = assert!(size_of::<NidRule>() == 68);
const _: () = assert!(size_of::<P2pRule>() == 132);

/// What is wrong, and at which offset of the record.
pub(super) type Fault = (usize, BlockProblem);

/// A record of a v1 block.
pub(super) trait Record: Copy {
    /// Appends the bytes.
    fn write(&self, out: &mut Vec<u8>);
    /// Reads exactly `size_of::<Self>()` bytes; missing bytes read as 0.
    fn read(words: &mut impl Iterator<Item = u32>) -> Self;
    /// Checks everything that a block must satisfy.
    fn validate(&self) -> Result<(), Fault>;
}

impl Expr {
    const fn of(range: Range) -> Self {
        Self {
            low: range.low(),
            high: range.high(),
            stride: range.stride(),
        }
    }

    const fn is_absent(self) -> bool {
        self.stride == 0
    }

    /// The set of numbers; `None` if the expression is absent.
    fn numbers(self, max: u32) -> Result<Option<NumberExpr>, BlockProblem> {
        let Self { low, high, stride } = self;
        if self == Self::default() {
            return Ok(None);
        }
        Range::new(low, high, stride)
            .and_then(|range| NumberExpr::new(vec![range], max))
            .map(Some)
            .ok_or(BlockProblem::BadRange {
                low,
                high,
                stride,
                max,
            })
    }

    fn words(self) -> [u32; 3] {
        [self.low, self.high, self.stride]
    }

    fn read(words: &mut impl Iterator<Item = u32>) -> Self {
        let mut next = || words.next().unwrap_or_default();
        Self {
            low: next(),
            high: next(),
            stride: next(),
        }
    }
}

impl NetDescr {
    /// The record of an expression with at most one range, as the net part of every rule has.
    pub(super) fn of(net: &NetExpr) -> Self {
        let net_id = u32::from(net.lnd().0) << 16;
        let range = net.numbers().and_then(|numbers| numbers.ranges().first());
        match range {
            None => Self {
                net_id,
                expr: Expr::default(),
            },
            // A net id with number 0 reads as the bare name, so `tcp0` is written as an expression.
            Some(range) if range.low() == range.high() && range.low() != 0 => Self {
                net_id: net_id | range.low(),
                expr: Expr::default(),
            },
            Some(range) => Self {
                net_id,
                expr: Expr::of(*range),
            },
        }
    }

    fn net(&self) -> Result<NetExpr, Fault> {
        let (lnd, number) = (self.net_id >> 16, self.net_id & 0xFFFF);
        let lnd = named_lnd(lnd).map_err(|problem| (0, problem))?;
        let mut numbers = self
            .expr
            .numbers(NumberExpr::NET_MAX)
            .map_err(|problem| (4, problem))?;
        let bad = (0, BlockProblem::BadNetId(self.net_id));
        if number != 0 {
            if numbers.is_some() {
                return Err(bad);
            }
            numbers = NumberExpr::new(vec![Range::single(number)], NumberExpr::NET_MAX);
        }
        NetExpr::new(lnd, numbers).ok_or(bad)
    }

    fn write(&self, out: &mut Vec<u8>) {
        put(out, &[self.net_id]);
        put(out, &self.expr.words());
    }

    fn read(words: &mut impl Iterator<Item = u32>) -> Self {
        Self {
            net_id: words.next().unwrap_or_default(),
            expr: Expr::read(words),
        }
    }
}

impl NidDescr {
    /// Offset of the net descriptor.
    const NET: usize = 48;

    /// The expression of the descriptor; a net if it has no address.
    fn descriptor(&self) -> Result<Descriptor, Fault> {
        let net = self.net.net().map_err(|fault| behind(Self::NET, fault))?;
        let bad = (0, BlockProblem::BadAddress(net.lnd()));
        let present = self.ip.map(|expr| !expr.is_absent());
        for index in (0..4).filter(|&index| present.get(index) == Some(&false)) {
            // An absent expression must be zero throughout.
            self.octet(index, 0)?;
        }
        let address = match present {
            [false, false, false, false] => return Ok(Descriptor::Net(net)),
            [true, false, false, false] => self
                .octet(0, NumberExpr::ADDRESS_MAX)?
                .map(AddressExpr::Number),
            _ => self.quad()?.try_into().ok().map(AddressExpr::Quad),
        };
        address
            .and_then(|address| NidExpr::new(address, net))
            .map(Descriptor::Nid)
            .ok_or(bad)
    }

    fn octet(&self, index: usize, max: u32) -> Result<Option<NumberExpr>, Fault> {
        let expr = self.ip.get(index).copied().unwrap_or_default();
        expr.numbers(max)
            .map_err(|problem| (index * size_of::<Expr>(), problem))
    }

    fn quad(&self) -> Result<Vec<NumberExpr>, Fault> {
        (0..4)
            .filter_map(|index| self.octet(index, NumberExpr::OCTET_MAX).transpose())
            .collect()
    }

    /// The address part, which is required here.
    pub(super) fn nid(&self) -> Result<Descriptor, Fault> {
        match self.descriptor()? {
            Descriptor::Net(_) => Err((0, BlockProblem::NoAddress)),
            nid => Ok(nid),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.ip.iter().for_each(|expr| put(out, &expr.words()));
        self.net.write(out);
    }

    fn read(words: &mut impl Iterator<Item = u32>) -> Self {
        Self {
            ip: std::array::from_fn(|_| Expr::read(words)),
            net: NetDescr::read(words),
        }
    }
}

impl NetRule {
    /// Offset of the priority.
    const PRIORITY: usize = 16;

    /// The net expression and its priority.
    pub(super) fn parts(&self) -> Result<(Descriptor, Priority), Fault> {
        let net = self.descr.net()?;
        Ok((
            Descriptor::Net(net),
            priority(self.priority, Self::PRIORITY)?,
        ))
    }
}

impl Record for NetRule {
    fn write(&self, out: &mut Vec<u8>) {
        self.descr.write(out);
        put(out, &[self.priority]);
    }

    fn read(words: &mut impl Iterator<Item = u32>) -> Self {
        Self {
            descr: NetDescr::read(words),
            priority: words.next().unwrap_or_default(),
        }
    }

    fn validate(&self) -> Result<(), Fault> {
        self.parts().map(drop)
    }
}

impl NidRule {
    /// Offset of the priority.
    const PRIORITY: usize = 64;

    /// The NID expression and its priority.
    pub(super) fn parts(&self) -> Result<(Descriptor, Priority), Fault> {
        Ok((self.descr.nid()?, priority(self.priority, Self::PRIORITY)?))
    }
}

impl Record for NidRule {
    fn write(&self, out: &mut Vec<u8>) {
        self.descr.write(out);
        put(out, &[self.priority]);
    }

    fn read(words: &mut impl Iterator<Item = u32>) -> Self {
        Self {
            descr: NidDescr::read(words),
            priority: words.next().unwrap_or_default(),
        }
    }

    fn validate(&self) -> Result<(), Fault> {
        self.parts().map(drop)
    }
}

impl P2pRule {
    /// Offset of the destination.
    const DST: usize = 64;
    /// Offset of the priority.
    const PRIORITY: usize = 128;

    /// The two sides and the rank. A source without an address becomes the expression for every NID
    /// of its net, because a net matches no NID.
    pub(super) fn parts(&self) -> Result<(Descriptor, Descriptor, Priority), Fault> {
        let src = match self.src.descriptor()? {
            Descriptor::Net(net) => every_nid(net),
            nid => nid,
        };
        let dst = self
            .dst
            .descriptor()
            .map_err(|fault| behind(Self::DST, fault))?;
        Ok((src, dst, priority(self.priority, Self::PRIORITY)?))
    }
}

impl Record for P2pRule {
    fn write(&self, out: &mut Vec<u8>) {
        self.src.write(out);
        self.dst.write(out);
        put(out, &[self.priority]);
    }

    fn read(words: &mut impl Iterator<Item = u32>) -> Self {
        Self {
            src: NidDescr::read(words),
            dst: NidDescr::read(words),
            priority: words.next().unwrap_or_default(),
        }
    }

    fn validate(&self) -> Result<(), Fault> {
        self.parts().map(drop)
    }
}

/// The LND type with this number, if it has a name.
pub(super) fn named_lnd(number: u32) -> Result<LndType, BlockProblem> {
    u8::try_from(number)
        .ok()
        .map(LndType)
        .filter(|lnd| lnd.name().is_some())
        .ok_or(BlockProblem::UnknownNet(number))
}

/// `*.*.*.*` or `*` on `net`.
fn every_nid(net: NetExpr) -> Descriptor {
    let quad = std::array::from_fn(|_| NumberExpr::any(NumberExpr::OCTET_MAX));
    let number = NumberExpr::any(NumberExpr::ADDRESS_MAX);
    // One of the two is valid for the net's type.
    NidExpr::new(AddressExpr::Quad(quad), net.clone())
        .or_else(|| NidExpr::new(AddressExpr::Number(number), net.clone()))
        .map_or(Descriptor::Net(net), Descriptor::Nid)
}

fn priority(value: u32, offset: usize) -> Result<Priority, Fault> {
    Priority::new(value).ok_or((offset, BlockProblem::ReservedPriority))
}

fn behind(bytes: usize, (offset, problem): Fault) -> Fault {
    (bytes + offset, problem)
}

/// Appends words, little-endian.
pub(super) fn put(out: &mut Vec<u8>, words: &[u32]) {
    for word in words {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

/// The little-endian words of `bytes`.
pub(super) fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().map(|word| u32::from_le_bytes(*word))
}

/// The records of an address: one for each combination of its ranges.
pub(super) fn nid_descrs(nid: &NidExpr) -> Result<Vec<NidDescr>, BlockProblem> {
    let net = NetDescr::of(nid.net());
    let numbers: &[NumberExpr] = match nid.address() {
        AddressExpr::Quad(octets) => octets,
        AddressExpr::Number(number) => std::slice::from_ref(number),
        AddressExpr::V6 { .. } => return Err(BlockProblem::NotExpressible("IPv6 addresses")),
    };
    let count = numbers.iter().fold(1usize, |count, expr| {
        count.saturating_mul(expr.ranges().len())
    });
    check_products(count)?;
    let mut descrs = vec![NidDescr {
        net,
        ..NidDescr::default()
    }];
    for (index, expr) in numbers.iter().enumerate() {
        descrs = descrs
            .into_iter()
            .flat_map(|descr| {
                expr.ranges().iter().map(move |&range| {
                    let mut descr = descr;
                    if let Some(octet) = descr.ip.get_mut(index) {
                        *octet = Expr::of(range);
                    }
                    descr
                })
            })
            .collect();
    }
    Ok(descrs)
}

/// The most records of one rule.
// [BLOCK-4]
const PRODUCTS_MAX: usize = 64;

pub(super) fn check_products(count: usize) -> Result<(), BlockProblem> {
    if count > PRODUCTS_MAX {
        let max = PRODUCTS_MAX;
        return Err(BlockProblem::TooManyProducts { count, max });
    }
    Ok(())
}
