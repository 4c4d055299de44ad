//! What the messages of a log or of a console mean: a text of the kernel and of programs instead of a configuration.

use std::collections::{BTreeMap, BTreeSet};

use super::messages::{Kind, PING, PING_ONLY, Place, RC};
use super::named::{Named, errno_in};
use super::{errnos, log, messages};
use crate::lint::catalogue::KERNEL_MESSAGE;
use crate::lint::finding::Finding;
use crate::lint::node::Node;

/// The beginnings of messages that report an error.
const ERRORS: [&str; 3] = ["LNetError: ", "LustreError: ", "descr: "];

/// Parts of messages that report no trouble of their own: repetitions, and routes that are up again.
const NO_TROUBLE: [&str; 2] = ["previous similar message", "has gone from down to up"];

/// The most kinds of errors that are reported beside those of the list, and operations that failed with a number that no
/// list has.
const OTHERS_MAX: usize = 100;

/// The most nodes that a finding names.
const NODES_MAX: usize = 20;

/// What a message is: one of the list, or an error that is not in the list.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// The place in the list; of an operation that only its number tells, the number too.
    Known(Place, Option<u32>),
    /// The text, with `#` for each number.
    Other(String),
}

impl What {
    /// Returns what a line of a log is; `None` if it tells of no trouble.
    fn of(line: &str) -> Option<Self> {
        let is_quiet = NO_TROUBLE.iter().any(|quiet| line.contains(quiet));
        if is_quiet || !log::is_message(line) {
            return None;
        }
        let Some(place) = messages::place_of(line) else {
            return Some(Self::Other(shape(error_in(line)?)));
        };
        let is_number = messages::kind_at(place).is_some_and(|kind| kind.has == RC);
        let number = is_number.then(|| errno_in(line)).flatten();
        Some(Self::Known(place, number))
    }

    /// Returns true for what no list bounds.
    fn is_other(&self) -> bool {
        match self {
            Self::Known(_, number) => number.is_some_and(|number| !errnos::is_known(number)),
            Self::Other(_) => true,
        }
    }
}

/// The messages of one kind.
struct Seen {
    line: usize,
    count: usize,
    nodes: BTreeMap<Named, OfNode>,
    /// The first of them.
    text: String,
}

/// The messages of one kind about one node.
#[derive(Clone, Copy)]
struct OfNode {
    line: usize,
    count: usize,
    errno: Option<u32>,
}

/// Reports each kind of message, with the nodes that the messages name.
pub(super) fn kernel_message(node: &Node<'_>) -> Vec<Finding> {
    let mut seen: BTreeMap<What, Seen> = BTreeMap::new();
    let mut others = 0;
    let mut left_out = 0;
    for (line, text) in log::lines_of(node.source.log()) {
        let Some(what) = What::of(&text) else {
            continue;
        };
        if what.is_other() && !seen.contains_key(&what) {
            if others == OTHERS_MAX {
                left_out += 1;
                continue;
            }
            others += 1;
        }
        seen.entry(what)
            .or_insert_with(|| Seen::new(line, &text))
            .add(line, &text);
    }
    let told = seen.into_iter().map(|(what, seen)| {
        let (reason, fix) = match what {
            What::Known(place, _) => of_kind(messages::kind_at(place), &seen),
            What::Other(_) => of_other(&seen),
        };
        let made = node.finding(&KERNEL_MESSAGE, &[], reason, fix);
        Finding {
            line: seen.line,
            column: 1,
            ..made
        }
    });
    let mut told: Vec<Finding> = told.collect();
    if left_out > 0 {
        let reason = format!("{left_out} more errors of other kinds");
        let fix = "lint parts of the log".to_owned();
        told.push(node.finding(&KERNEL_MESSAGE, &[], reason, fix));
    }
    told
}

/// Returns what messages of a kind mean, and the next command.
fn of_kind(kind: Option<&Kind>, seen: &Seen) -> (String, String) {
    let Some(kind) = kind else {
        return of_other(seen);
    };
    let errnos = seen.errnos();
    let what = match (kind.has, errnos.first()) {
        (RC, Some(errno)) => format!("{RC}{errno}"),
        (has, _) => has.trim_end_matches([':', ' ']).to_owned(),
    };
    let reason = format!(
        "'{what}', {}: {}{}",
        seen.times(),
        kind.means,
        errnos_text(&errnos)
    );
    let target = seen.target();
    let fix = match target {
        Some(target) if !is_tcp(&target) => {
            kind.next.replace(PING, PING_ONLY).replace("NID", &target)
        }
        Some(target) => kind.next.replace("NID", &target),
        None => kind.next.to_owned(),
    };
    (reason, fix)
}

/// Returns what is known of an error that is not in the list, and the next command.
fn of_other(seen: &Seen) -> (String, String) {
    let text = error_in(&seen.text).unwrap_or(&seen.text);
    let text: String = text.trim().chars().take(160).collect();
    let reason = format!("{}: {text}{}", seen.times(), errnos_text(&seen.errnos()));
    let target = seen.target();
    let fix = target.map_or_else(
        || "look at what the log has before it".to_owned(),
        |target| format!("lnetctl ping {target}"),
    );
    (reason, fix)
}

/// Returns true for NIDs and names on a net of tcp.
fn is_tcp(target: &str) -> bool {
    let net = target.rsplit('@').next();
    net.is_some_and(|net| net.starts_with("tcp"))
}

impl Seen {
    fn new(line: usize, text: &str) -> Self {
        Self {
            line,
            count: 0,
            nodes: BTreeMap::new(),
            text: text.to_owned(),
        }
    }

    /// Counts a message.
    fn add(&mut self, line: usize, text: &str) {
        self.count += 1;
        for named in Named::all_in(text) {
            let first = OfNode {
                line,
                count: 0,
                errno: errno_in(text),
            };
            self.nodes.entry(named).or_insert(first).count += 1;
        }
    }

    /// Returns the nodes, those with the most messages first, and of these the ones that came first.
    fn ranked(&self) -> Vec<(&Named, OfNode)> {
        let nodes = self.nodes.iter().map(|(named, node)| (named, *node));
        let mut nodes: Vec<(&Named, OfNode)> = nodes.collect();
        nodes.sort_by_key(|(_, node)| (usize::MAX - node.count, node.line));
        nodes
    }

    /// Returns the NID or name of the node with the most messages.
    fn target(&self) -> Option<String> {
        let nodes = self.ranked();
        nodes.iter().find_map(|(named, _)| named.target())
    }

    /// Returns how often the messages came, and of which nodes.
    fn times(&self) -> String {
        let times = match self.count {
            1 => "once".to_owned(),
            count => format!("{count} times"),
        };
        let nodes = self.ranked();
        let (first, rest) = match nodes.as_slice() {
            [] => return times,
            [(one, _)] => return format!("{times}, {one}"),
            [first, rest @ ..] => (first, rest),
        };
        let mut text = format!("{times}, {} ({})", first.0, first.1.count);
        for (named, node) in rest.iter().take(NODES_MAX - 1) {
            let name = named.to_string();
            let name = name.strip_prefix("of ").unwrap_or(&name);
            text += &format!(", {name} ({})", node.count);
        }
        match rest.len().saturating_sub(NODES_MAX - 1) {
            0 => text,
            more => format!("{text} and {more} more"),
        }
    }

    /// Returns the numbers of errors, in the order in which they came first.
    fn errnos(&self) -> Vec<u32> {
        let nodes = self.nodes.values();
        let mut by_line: Vec<(usize, u32)> = nodes
            .filter_map(|node| Some((node.line, node.errno?)))
            .collect();
        by_line.sort_unstable();
        let mut known = BTreeSet::new();
        let numbers = by_line.into_iter().map(|(_, number)| number);
        numbers.filter(|number| known.insert(*number)).collect()
    }
}

/// Returns the names of the first numbers of errors.
fn errnos_text(numbers: &[u32]) -> String {
    const NUMBERS_MAX: usize = 3;
    let texts = numbers.iter().take(NUMBERS_MAX);
    texts.map(|number| errnos::text(*number)).collect()
}

/// Returns the error that a line reports, without the time, the process and the place in the code, such as
/// `8374:0:(acceptor.c:425:lnet_acceptor()) `; `None` if the line reports none.
fn error_in(line: &str) -> Option<&str> {
    let (_, text) = ERRORS.iter().find_map(|error| line.split_once(error))?;
    let after = text.split_once("()) ").map(|(_, after)| after);
    Some(after.unwrap_or(text))
}

/// Returns a text with `#` for each number, so that messages of one kind are one.
fn shape(text: &str) -> String {
    let mut shape = String::new();
    for one in text.chars() {
        if !one.is_ascii_digit() {
            shape.push(one);
        } else if !shape.ends_with('#') {
            shape.push('#');
        }
    }
    shape
}
