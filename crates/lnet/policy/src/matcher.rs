//! Finds the rules that cover a NID, for many rules and many NIDs.
//!
//! A set of rules has one bit for each rule, by index. For each octet of a quad and each of its 256
//! values the table has the set of rules that match the value. The rules that cover a NID are the
//! intersection of the four sets of its octets:
//!
//! ```text
//!             rule 0 1 2 …
//!  10.*.*.*  ▶     1 1 0   octet 0 = 10
//!  *.0.*.*   ▶     1 1 1   octet 1 = 0
//!  *.*.9.*   ▶     0 1 1   octet 2 = 9
//!  *.*.*.7   ▶     1 1 1   octet 3 = 7
//!                  -----
//!  10.0.9.7        0 1 0
//! ```
//!
//! The cost of a NID is therefore four loads for every 64 rules. Number and IPv6 addresses have no
//! octets; their rules are evaluated one by one.

use lnet_types::Nid;
use lnet_types::expr::{AddressExpr, NumberExpr};

/// Bits of a word of a set.
const WORD_BITS: usize = u64::BITS as usize;
/// Values of an octet.
const VALUES: usize = 256;

/// A set of rules, by index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct RuleSet(Vec<u64>);

impl RuleSet {
    /// The empty set, with room for `rules` rules.
    pub(crate) fn new(rules: usize) -> Self {
        Self(vec![0; rules.div_ceil(WORD_BITS)])
    }

    /// The rules below index `rules` for which `belongs` returns true.
    pub(crate) fn of(rules: usize, mut belongs: impl FnMut(usize) -> bool) -> Self {
        let mut set = Self::new(rules);
        (0..rules)
            .filter(|&rule| belongs(rule))
            .for_each(|rule| set.insert(rule));
        set
    }

    pub(crate) fn insert(&mut self, rule: usize) {
        if let Some(word) = self.0.get_mut(rule / WORD_BITS) {
            *word |= 1 << (rule % WORD_BITS);
        }
    }

    /// Sets this set to the intersection of two sets.
    pub(crate) fn set_to_both(&mut self, a: &Self, b: &Self) {
        self.0.clear();
        self.0.extend(a.0.iter().zip(&b.0).map(|(a, b)| a & b));
    }

    /// Sets this set to a copy of `other`.
    pub(crate) fn set_to(&mut self, other: &Self) {
        self.0.clone_from(&other.0);
    }

    /// The member of lowest index that is also in `mask`.
    pub(crate) fn first_in(&self, mask: &Self) -> Option<usize> {
        self.0
            .iter()
            .zip(&mask.0)
            .enumerate()
            .find_map(|(index, (word, mask))| {
                let both = word & mask;
                (both != 0).then(|| index * WORD_BITS + both.trailing_zeros() as usize)
            })
    }

    /// The members, in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(index, &word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(index * WORD_BITS + bit)
            })
        })
    }
}

/// The address parts of rules.
#[derive(Clone, Debug)]
pub(crate) struct AddressTable {
    /// Words of a set.
    words: usize,
    /// Sets by octet and value in sequence; empty if no rule has a quad.
    octets: Vec<u64>,
    /// The rules whose address is not a quad.
    others: Vec<(usize, AddressExpr)>,
}

impl AddressTable {
    /// The table for a list of `rules` rules; `addresses` are the address parts of those that have
    /// one.
    pub(crate) fn new<'a>(
        rules: usize,
        addresses: impl Iterator<Item = (usize, &'a AddressExpr)>,
    ) -> Self {
        let words = rules.div_ceil(WORD_BITS);
        let mut table = Self {
            words,
            octets: Vec::new(),
            others: Vec::new(),
        };
        for (rule, address) in addresses {
            match address {
                AddressExpr::Quad(octets) => table.add_quad(rule, octets),
                other => table.others.push((rule, other.clone())),
            }
        }
        table
    }

    fn add_quad(&mut self, rule: usize, octets: &[NumberExpr; 4]) {
        self.octets.resize(4 * VALUES * self.words, 0);
        for (octet, expr) in octets.iter().enumerate() {
            let ranges = expr.ranges().iter();
            let values = ranges.flat_map(|range| {
                (range.low()..=range.high()).filter(|value| range.contains(*value))
            });
            for value in values {
                let set = self.start(octet, value as usize);
                if let Some(word) = self.octets.get_mut(set + rule / WORD_BITS) {
                    *word |= 1 << (rule % WORD_BITS);
                }
            }
        }
    }

    /// Where the set of a value begins in `octets`.
    const fn start(&self, octet: usize, value: usize) -> usize {
        (octet * VALUES + value) * self.words
    }

    fn set(&self, octet: usize, value: u8) -> &[u64] {
        let start = self.start(octet, usize::from(value));
        self.octets
            .get(start..start + self.words)
            .unwrap_or_default()
    }

    /// Adds to `found` the rules among `among` whose address part covers `nid`.
    pub(crate) fn collect(&self, nid: Nid, among: &RuleSet, found: &mut RuleSet) {
        if !nid.is_large() && !nid.is_any() {
            let [a, b, c, d] = nid.number().to_be_bytes();
            let first = self.set(0, a).iter().zip(self.set(1, b));
            let last = self.set(2, c).iter().zip(self.set(3, d));
            let covering = first.zip(last).map(|((a, b), (c, d))| a & b & c & d);
            for ((found, among), covering) in found.0.iter_mut().zip(&among.0).zip(covering) {
                *found |= among & covering;
            }
        }
        for (rule, address) in &self.others {
            let candidate = among.0.get(rule / WORD_BITS).copied().unwrap_or_default();
            if candidate >> (rule % WORD_BITS) & 1 == 1 && address.matches(nid) {
                found.insert(*rule);
            }
        }
    }
}
