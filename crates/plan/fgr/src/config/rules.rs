//! Selection rules of the Multi-Rail form: which router is preferred for which destination.
//!
//! A kernel does not apply a rule with a net as destination to peers that it learns of later, but
//! it does apply a rule whose destination has an address part.
//! Every rule made here therefore has an address part, even if it means a whole net.

use std::collections::BTreeMap;

use lnet_policy::{Profile, Rule, RuleText};
use lnet_types::{Net, Nid};

use crate::input::fits;
use crate::problem::{InputError, Problems};

/// Most addresses of one rule: a block of the last octet.
const BLOCK: u32 = 256;

/// Makes the rule that prefers this gateway to every node on a net. There is no rule for a net
/// without a written form; such nets were rejected earlier.
pub(super) fn towards_net(net: Net, gateway: Nid) -> Option<Rule> {
    let has_octets = Nid::from_number(net, 1).ip().is_some();
    let all = if has_octets { "*.*.*.*" } else { "*" };
    rule(&format!("{all}@{net}"), gateway)
}

/// Makes the rules that prefer this gateway to these NIDs, which are all on one net and in
/// ascending order.
pub(super) fn towards_nids(nids: &[Nid], gateway: Nid) -> Vec<Rule> {
    let mut blocks: BTreeMap<u32, Vec<Nid>> = BTreeMap::new();
    for &nid in nids {
        blocks.entry(nid.number() / BLOCK).or_default().push(nid);
    }
    let rules = blocks.into_values();
    rules
        .filter_map(|nids| rule(&expression(&nids), gateway))
        .collect()
}

fn rule(dst: &str, gateway: Nid) -> Option<Rule> {
    let rte = gateway.to_string();
    let text = RuleText {
        dst: Some(dst),
        rte: Some(&rte),
        ..RuleText::default()
    };
    Rule::from_text(&text, Profile::Lustre).ok()
}

/// Formats the NIDs of one block as an expression: `10.1.0.[1-3,7]@tcp100`.
fn expression(nids: &[Nid]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for number in nids.iter().map(|nid| nid.number()) {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let Some(nid) = nids.first() else {
        return String::new();
    };
    let octets = nid.ip().is_some();
    let part = |number: u32| if octets { number % BLOCK } else { number };
    let runs = runs.into_iter().map(|(first, last)| match last - first {
        0 => part(first).to_string(),
        _ => format!("{}-{}", part(first), part(last)),
    });
    let list = runs.collect::<Vec<_>>().join(",");
    let block = nid.number() / BLOCK;
    let head = match octets {
        true => format!("{}.{}.{}.", block >> 16, block >> 8 & 0xFF, block & 0xFF),
        false => String::new(),
    };
    format!("{head}[{list}]@{}", nid.net())
}

/// Reads selection rules as commands, one per line: `lnetctl udsp add --dst NET --rte GATEWAY`, or with
/// `--src` in place of `--rte`.
///
/// # Errors
///
/// Every line with another command or an invalid rule.
pub fn read_udsp(file: &str, text: &str) -> Result<Vec<Rule>, InputError> {
    const WANTED: &str = "lnetctl udsp add --dst NET --rte GATEWAY, or --src NIDS --dst NIDS";
    let mut problems = Problems::new(file);
    let mut rules = Vec::new();
    let readable = fits(&mut problems, text);
    for (line, content) in (1..).zip(text.lines()).take_while(|_| readable) {
        let words: Vec<&str> = content.split_whitespace().collect();
        let text = match words[..] {
            [] => continue,
            ["lnetctl", "udsp", "add", "--dst", dst, "--rte", rte] => RuleText {
                dst: Some(dst),
                rte: Some(rte),
                ..RuleText::default()
            },
            ["lnetctl", "udsp", "add", "--src", src, "--dst", dst] => RuleText {
                src: Some(src),
                dst: Some(dst),
                ..RuleText::default()
            },
            _ => RuleText::default(),
        };
        match Rule::from_text(&text, Profile::Lustre) {
            Ok(rule) => rules.push(rule),
            Err(_) => problems.value(line, "command", content, WANTED),
        }
    }
    problems.into_result(rules)
}
