//! What the description of an adapter says: the host, and which of its adapters.

use crate::input::is_node_name;
use crate::problem::shown;

/// Why an adapter is no interface of a host that a plan can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unnamed {
    Aggregation,
    Default,
    NoHostName,
    BadHostName,
}

impl Unnamed {
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::Aggregation => "they are aggregation nodes of switches",
            Self::Default => "a default description names no host",
            Self::NoHostName => "the description has no host name",
            Self::BadHostName => "no configuration can carry the host name in the description",
        }
    }
}

/// Returns host and adapter: `gpu003` and `mlx5_1` of `gpu003 mlx5_1`.
pub(super) fn host(description: &str) -> Result<(String, String), Unnamed> {
    let lower = description.to_ascii_lowercase();
    if lower.contains("aggregation node") || lower.starts_with("quantum mellanox") {
        return Err(Unnamed::Aggregation);
    }
    // The descriptions of adapters whose driver has not set one: "MT4129 ConnectX7 Mellanox Technologies".
    const DEFAULTS: [&str; 3] = ["mellanox technologies", "infinihost", "qlogic infiniband"];
    let is_chip = lower
        .strip_prefix("mt")
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()) && lower.contains(' '));
    if (is_chip && lower.contains("connectx")) || DEFAULTS.iter().any(|text| lower.contains(text)) {
        return Err(Unnamed::Default);
    }
    let mut words = description.split_whitespace();
    let host = words
        .next()
        .unwrap_or_default()
        .trim_matches(|c| c == ';' || c == '\'');
    match host.to_ascii_lowercase().as_str() {
        "" | "localhost" | "localhost.localdomain" | "(none)" => Err(Unnamed::NoHostName),
        _ if !is_node_name(host) => Err(Unnamed::BadHostName),
        _ => Ok((host.to_owned(), shown(&words.collect::<Vec<_>>().join(" ")))),
    }
}

/// Returns the part of an adapter's name before its number: `mlx5_` of `mlx5_10`.
pub(super) fn stem(adapter: &str) -> &str {
    adapter.trim_end_matches(|c: char| c.is_ascii_digit())
}

/// A key that sorts names as people do: `n2` before `n10`.
pub(super) fn natural(name: &str) -> Vec<(u64, String)> {
    let mut key: Vec<(u64, String)> = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let text = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (before, after) = rest.split_at(text);
        let digits = after
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(after.len());
        let (number, after) = after.split_at(digits);
        match key.last_mut() {
            Some(last) => before.clone_into(&mut last.1),
            None => key.push((0, before.to_owned())),
        }
        if !number.is_empty() {
            key.push((number.parse().unwrap_or(u64::MAX), String::new()));
        }
        rest = after;
    }
    key
}

/// Joins names for a message: the first twenty, and how many more there are.
pub(in crate::import) fn listed(names: &[String]) -> String {
    const SHOWN: usize = 20;
    let some = names
        .iter()
        .take(SHOWN)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => some,
        more => format!("{some} and {more} more"),
    }
}
