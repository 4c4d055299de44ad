//! The NIDs of a node, stored compactly: a node has one address on many nets with consecutive
//! numbers.
//!
//! ```text
//!   10.1.0.20@tcp101 10.1.0.20@tcp102 … 10.1.0.20@tcp112 10.2.0.20@o2ib201
//!   = 10.1.0.20@tcp[101-112] 10.2.0.20@o2ib201
//! ```
//!
//! A line of `nodes.csv` holds the NIDs of several nodes with consecutive addresses:
//! `10.1.0.[20-51]@tcp[101-112]`.

use std::net::IpAddr;

use lnet_types::expr::NetExpr;
use lnet_types::{Net, Nid};

/// The NIDs of a node, in the order of its nets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nids(Box<[Run]>);

/// One address on nets with consecutive numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: Nid,
    /// At least 1. The last net number fits in 16 bits.
    nets: u16,
}

impl Run {
    fn iter(self) -> impl Iterator<Item = Nid> + Clone {
        let Net { lnd, number } = self.first.net();
        // The last number fits, as the comment of the field says.
        let numbers = (0..self.nets).map(move |n| number.saturating_add(n));
        numbers.map(move |number| at(self.first, Net::new(lnd, number)))
    }

    /// Returns whether `nid` is on the net that follows the last one.
    fn is_followed_by(self, nid: Nid) -> bool {
        let next = self.first.net().number.checked_add(self.nets);
        next.is_some_and(|number| at(self.first, Net::new(nid.net().lnd, number)) == nid)
            && nid.net().lnd == self.first.net().lnd
    }
}

impl Nids {
    /// The NIDs.
    pub fn iter(&self) -> impl Iterator<Item = Nid> + Clone + '_ {
        self.0.iter().flat_map(|run| run.iter())
    }

    /// The first NID.
    #[must_use]
    pub fn first(&self) -> Option<Nid> {
        self.0.first().map(|run| run.first)
    }

    /// Number of NIDs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|run| usize::from(run.nets)).sum()
    }

    /// Returns whether there are no NIDs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each address once, as a NID on net number 0, which lookups over many nodes compare first.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = Nid> + '_ {
        self.0.iter().map(|run| address(run.first))
    }

    /// Returns whether every address of `next` is the successor of the same address here, in one
    /// block of addresses: the last octet of an IP address, 4,096 numbers of others.
    pub(super) fn are_followed_by(&self, next: &Self) -> bool {
        let pairs = self.0.iter().zip(&next.0);
        self.0.len() == next.0.len()
            && pairs.clone().all(|(run, other)| {
                let (number, block) = (run.first.number(), block(run.first));
                let net = run.first.net();
                run.nets == other.nets
                    && !run.first.is_large()
                    && number / block == other.first.number() / block
                    && number.checked_add(1).map(|n| Nid::from_number(net, n)) == Some(other.first)
            })
    }

    /// Formats these NIDs together with those of the `more` nodes that follow.
    pub(super) fn text(&self, more: u32) -> String {
        let run = |run: &Run| {
            let Net { lnd, number } = run.first.net();
            let whole = run.first.to_string();
            let (alone, net) = whole.split_once('@').unwrap_or((&whole, ""));
            let last = run.first.number() % block(run.first).max(1);
            let address = match (more, alone.rsplit_once('.')) {
                (0, _) => alone.to_owned(),
                (_, Some((head, _))) => format!("{head}.[{last}-{}]", last + more),
                (_, None) => {
                    let first = run.first.number();
                    format!("[{first}-{}]", first + more)
                }
            };
            match run.nets {
                1 => format!("{address}@{net}"),
                nets => format!("{address}@{lnd}[{number}-{}]", number + (nets - 1)),
            }
        };
        self.0.iter().map(run).collect::<Vec<_>>().join(" ")
    }

    /// Parses the NIDs of each of `count` nodes. Returns the first invalid word as an error.
    pub(super) fn parse(text: &str, count: usize) -> Result<Vec<Self>, &str> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let runs: Vec<Vec<Run>> = words
            .iter()
            .map(|word| runs(word, count).ok_or(*word))
            .collect::<Result<_, _>>()?;
        let of_node = |n: usize| {
            runs.iter()
                .map(|runs| runs[n])
                .flat_map(Run::iter)
                .collect()
        };
        Ok((0..count).map(of_node).collect())
    }
}

impl FromIterator<Nid> for Nids {
    fn from_iter<T: IntoIterator<Item = Nid>>(nids: T) -> Self {
        let mut runs: Vec<Run> = Vec::new();
        for nid in nids {
            match runs.last_mut() {
                Some(run) if run.is_followed_by(nid) => run.nets += 1,
                _ => runs.push(Run {
                    first: nid,
                    nets: 1,
                }),
            }
        }
        Self(runs.into_boxed_slice())
    }
}

/// Returns the address of a NID on another net.
fn at(nid: Nid, net: Net) -> Nid {
    match nid.ip() {
        Some(ip @ IpAddr::V6(_)) => Nid::from_ip(net, ip),
        _ => Nid::from_number(net, nid.number()),
    }
}

/// Returns the NID with this address on net number 0.
pub(crate) fn address(nid: Nid) -> Nid {
    at(nid, Net::new(nid.net().lnd, 0))
}

/// Most addresses on one line.
fn block(nid: Nid) -> u32 {
    if nid.ip().is_some() { 1 << 8 } else { 1 << 12 }
}

/// Returns what one word means for each of `count` nodes.
fn runs(word: &str, count: usize) -> Option<Vec<Run>> {
    let (address, net) = word.rsplit_once('@')?;
    let nets = net.parse::<NetExpr>().ok()?;
    let nets = nets.expand(usize::from(u16::MAX)).ok()?;
    let (head, range) = match address.split_once('[') {
        Some((head, range)) => (head, Some(range.strip_suffix(']')?)),
        None => (address, None),
    };
    let (low, high) = match range {
        Some(range) => {
            let (low, high) = range.split_once('-').unwrap_or((range, range));
            (low, high.parse::<u32>().ok()?)
        }
        None => ("", 0),
    };
    let net = *nets.first()?;
    let is_one_run = nets
        .iter()
        .zip(0_u32..)
        .all(|(other, n)| u32::from(other.number) == u32::from(net.number) + n);
    let first: Nid = format!("{head}{low}@{net}").parse().ok()?;
    if !is_one_run || first.is_any() || first.is_loopback() {
        return None;
    }
    let others = match range {
        Some(_) => high.checked_sub(low.parse().ok()?)?,
        None => 0,
    };
    let block = block(first);
    let fits = first.number() % block + others < block && !(first.is_large() && others > 0);
    if !fits || others as usize + 1 != count {
        return None;
    }
    // There are fewer nets than numbers of 16 bits.
    let nets = nets.len() as u16;
    let nth = |n: u32| match first.is_large() {
        true => first,
        false => Nid::from_number(net, first.number() + n),
    };
    let run = |n| Run {
        first: nth(n),
        nets,
    };
    Some((0..=others).map(run).collect())
}

#[cfg(test)]
mod tests {
    use lnet_types::{Net, Nid};
    use proptest::prelude::*;

    use super::Nids;

    fn nids(words: &[&str]) -> Nids {
        words
            .iter()
            .map(|word| word.parse::<Nid>().unwrap())
            .collect()
    }

    #[test]
    fn an_address_on_consecutive_nets_is_one_word() {
        let one = nids(&[
            "10.1.0.20@tcp101",
            "10.1.0.20@tcp102",
            "10.2.0.20@o2ib201",
            "fd00::1@tcp",
            "fd00::1@tcp1",
        ]);
        assert_eq!(
            one.text(0),
            "10.1.0.20@tcp[101-102] 10.2.0.20@o2ib201 fd00::1@tcp[0-1]"
        );
        assert_eq!(nids(&["20@gni1", "21@gni2"]).text(0), "20@gni1 21@gni2");
        assert_eq!(nids(&["20@gni1", "20@gni2"]).text(3), "[20-23]@gni[1-2]");
        assert_eq!(nids(&["10.1.0.20@tcp"]).text(3), "10.1.0.[20-23]@tcp");
    }

    #[test]
    fn words_for_another_number_of_nodes_are_rejected() {
        for (text, count) in [
            ("10.1.0.[1-3]@tcp", 2),
            ("10.1.0.1@tcp", 2),
            ("10.1.0.[250-260]@tcp", 11),
            ("10.1.0.[3-1]@tcp", 1),
            ("10.1.[0-1].1@tcp", 2),
            ("[1-2]@gni[1-2,5]", 2),
            ("*@tcp", 1),
            ("0@lo", 1),
            ("fd00::[1-2]@tcp", 2),
            ("x", 1),
            ("@", 1),
            ("[@tcp", 1),
        ] {
            assert!(Nids::parse(text, count).is_err(), "{text} of {count}");
        }
    }

    proptest! {
        #[test]
        fn the_text_of_nodes_parses_to_the_same_nodes(
            ip in any::<bool>(), first in 0_u32..0x0101_0000, nodes in 1_u32..40,
            runs in proptest::collection::vec((0_u16..0xFFF0, 1_u16..15), 1..4),
        ) {
            let net = |number| match ip {
                true => Net::tcp(number),
                false => Net::new(lnet_types::LndType::from_name("gni").unwrap(), number),
            };
            let of = |n: u32| -> Nids {
                let runs = runs.iter().flat_map(|&(from, nets)| from..from + nets);
                runs.map(|number| Nid::from_number(net(number), first + n)).collect()
            };
            let all: Vec<Nids> = (0..nodes).map(of).collect();
            let together = all.iter().zip(&all[1..]).take_while(|(a, b)| a.are_followed_by(b)).count();
            let text = all[0].text(together as u32);
            prop_assert_eq!(&Nids::parse(&text, together + 1).unwrap()[..], &all[..=together], "{}", text);
        }
    }
}
