//! The rules of security of a file system, as its log describes them.
//!
//! ```text
//!  [srpc.flavor.]NET[.DIRECTION]=FLAVOR      default=krb5i, tcp1.cli2ost=ska, o2ib.mdt2ost=null
//! ```
//!
//! Of the rules that fit a connection, one of its net counts before `default`, and of those one of its direction before one
//! without. A rule of a target replaces the same rule of the file system, and an empty flavor removes a rule.

use std::collections::{BTreeMap, BTreeSet};

use lnet_types::Net;

use crate::client::Service;
use crate::log::{Command, Group};
use crate::text::Text;

/// The most rules that are kept.
const RULES_MAX: usize = 4096;

/// What stands in front of a rule in the name of a parameter.
const PREFIX: &str = "srpc.flavor.";

/// The flavors for which a client needs keys.
const WITH_KEYS: [&str; 8] = [
    "krb5n", "krb5a", "krb5i", "krb5p", "skn", "ska", "ski", "skpi",
];

/// The rules of security that are in force.
#[derive(Clone, Debug, Default)]
pub struct SecurityRules {
    texts: Vec<String>,
    group: Group,
    general: Place,
    of_targets: BTreeMap<String, Place>,
}

/// The rules of the file system, or of one target.
#[derive(Clone, Debug, Default)]
struct Place {
    /// By net and direction; `None` is any.
    rules: BTreeMap<(Option<Net>, Option<Direction>), Rule>,
    /// The last rule that cannot be read.
    unreadable: Option<String>,
}

#[derive(Clone, Debug)]
struct Rule {
    flavor: String,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Direction {
    ClientToMdt,
    ClientToOst,
    BetweenServers,
}

/// What the rules ask of a client that connects to a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing.
    Nothing,
    /// Keys, by this rule.
    Keys(String),
    /// Perhaps another flavor than null, by this rule.
    Unclear(String),
}

impl SecurityRules {
    /// Takes the next command of the log, in the order of the records.
    // [PTLRPC-19]
    pub fn take(&mut self, command: &Command<'_>) {
        let counts = self.group.counts(command);
        if counts && command.name() == Some("security_rule") && self.texts.len() < RULES_MAX {
            let place = command.text(0).to_string();
            let text = Text::new(command.buffer(1).bytes()).to_string();
            self.add(&place, text);
        }
    }

    fn add(&mut self, place: &str, text: String) {
        let name = place.strip_suffix("_UUID").unwrap_or(place);
        let rules = match Service::of_target(name) {
            Some(_) => self.of_targets.entry(name.to_owned()).or_default(),
            None => &mut self.general,
        };
        match parse(&text) {
            Some((selector, "")) => {
                rules.rules.remove(&selector);
            }
            Some((selector, flavor)) => {
                let flavor = flavor.to_owned();
                let text = text.clone();
                rules.rules.insert(selector, Rule { flavor, text });
            }
            None if text.is_empty() => {}
            None => rules.unreadable = Some(text.clone()),
        }
        self.texts.push(text);
    }

    /// Returns the rules as the log has them, without those that were replaced by the MGS.
    #[must_use]
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// Returns what a client needs that connects to a target from one of these nets.
    #[must_use]
    pub fn needs(&self, target: &str, service: Service, nets: &BTreeSet<Net>) -> Needs {
        let own = self.of_targets.get(target);
        let mut needs = nets.iter().map(|net| self.needs_on(own, service, *net));
        let Some(first) = needs.next() else {
            return Needs::Nothing;
        };
        let mut all = first;
        for other in needs {
            all = match (all, other) {
                (Needs::Nothing, Needs::Nothing) => Needs::Nothing,
                (Needs::Keys(rule), Needs::Keys(_)) => Needs::Keys(rule),
                // The client takes one of its nets: which one, nobody knows here.
                (Needs::Keys(rule) | Needs::Unclear(rule), _)
                | (Needs::Nothing, Needs::Keys(rule) | Needs::Unclear(rule)) => {
                    Needs::Unclear(rule)
                }
            };
        }
        let places = own.into_iter().chain([&self.general]);
        let unreadable = places
            .into_iter()
            .find_map(|place| place.unreadable.clone());
        match (all, unreadable) {
            (Needs::Nothing, Some(rule)) => Needs::Unclear(rule),
            (needs, _) => needs,
        }
    }

    fn needs_on(&self, own: Option<&Place>, service: Service, net: Net) -> Needs {
        let direction = match service {
            Service::Mdt => Direction::ClientToMdt,
            Service::Ost => Direction::ClientToOst,
            Service::Mgs => return Needs::Nothing,
        };
        let selectors = [
            (Some(net), Some(direction)),
            (Some(net), None),
            (None, Some(direction)),
            (None, None),
        ];
        let found = selectors.iter().find_map(|selector| {
            let own = own.and_then(|own| own.rules.get(selector));
            own.or_else(|| self.general.rules.get(selector))
        });
        match found {
            None => Needs::Nothing,
            Some(rule) if rule.flavor == "null" => Needs::Nothing,
            Some(rule) if WITH_KEYS.contains(&rule.flavor.as_str()) => {
                Needs::Keys(rule.text.clone())
            }
            Some(rule) => Needs::Unclear(rule.text.clone()),
        }
    }
}

type Selector = (Option<Net>, Option<Direction>);

/// Returns for what a rule is, and its flavor; `None` if the text is no rule.
fn parse(text: &str) -> Option<(Selector, &str)> {
    let (selector, flavor) = text.strip_prefix(PREFIX).unwrap_or(text).split_once('=')?;
    let (net, direction) = match selector.split_once('.') {
        Some((net, direction)) => (net, Some(direction)),
        None => (selector, None),
    };
    let net = match net {
        "default" => None,
        net => Some(net.parse().ok()?),
    };
    let direction = match direction {
        None => None,
        Some("cli2mdt") => Some(Direction::ClientToMdt),
        Some("cli2ost") => Some(Direction::ClientToOst),
        Some("mdt2mdt" | "mdt2ost") => Some(Direction::BetweenServers),
        Some(_) => return None,
    };
    Some(((net, direction), flavor))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(rules: &[(&str, &str)]) -> SecurityRules {
        let mut all = SecurityRules::default();
        for (place, text) in rules {
            all.add(place, (*text).to_owned());
        }
        all
    }

    /// What the MDT and the OST with index 0 ask of a client on these nets: - nothing, K keys, ? unclear.
    fn asked(of: &[(&str, &str)], nets: &[&str]) -> String {
        let nets = nets.iter().map(|net| net.parse().unwrap()).collect();
        let targets = [("fs1-MDT0000", Service::Mdt), ("fs1-OST0000", Service::Ost)];
        let letter = |(name, service)| match rules(of).needs(name, service, &nets) {
            Needs::Nothing => '-',
            Needs::Keys(_) => 'K',
            Needs::Unclear(_) => '?',
        };
        targets.into_iter().map(letter).collect()
    }

    #[test]
    fn rule_counts_for_its_net_and_direction_only() {
        for (text, expected) in [
            ("default=krb5i", "KK"),
            ("srpc.flavor.default=krb5i", "KK"),
            ("tcp=skpi", "KK"),
            ("tcp0.cli2mdt=ska", "K-"),
            ("default.cli2ost=krb5p", "-K"),
            ("default.mdt2ost=ska", "--"),
            ("default.mdt2mdt=krb5n", "--"),
            ("tcp9=krb5i", "--"),
            ("o2ib.cli2mdt=krb5i", "--"),
            ("default=null", "--"),
            ("default=", "--"),
            ("", "--"),
            ("default=plain", "??"),
            ("default=gssnull", "??"),
            ("default.cli2mdt=new", "?-"),
            ("default.up=krb5i", "??"),
            ("no rule", "??"),
        ] {
            assert_eq!(asked(&[("fs1", text)], &["tcp"]), expected, "{text}");
        }
    }

    #[test]
    fn most_specific_rule_counts_and_the_last_of_the_same_selector() {
        let fs = |texts: &[&'static str]| -> Vec<(&'static str, &'static str)> {
            texts.iter().map(|text| ("fs1", *text)).collect()
        };
        for (texts, expected) in [
            (fs(&["default=krb5i", "tcp=null"]), "--"),
            (fs(&["tcp=null", "default.cli2mdt=krb5i"]), "--"),
            (fs(&["tcp=krb5i", "tcp.cli2ost=null"]), "K-"),
            (fs(&["default=krb5i", "default=null"]), "--"),
            (fs(&["default=krb5i", "default="]), "--"),
            (vec![("fs1-MDT0000", "default=ska")], "K-"),
            (vec![("fs1-OST0000_UUID", "default=ska")], "-K"),
            (vec![("fs1-OST0001", "default=ska")], "--"),
            (
                vec![("fs1-OST0000", "default=null"), ("fs1", "default=krb5i")],
                "K-",
            ),
        ] {
            assert_eq!(asked(&texts, &["tcp"]), expected, "{texts:?}");
        }
    }

    #[test]
    fn client_of_two_nets_with_different_rules_is_unclear() {
        let rules = [("fs1", "tcp1=krb5i")];
        assert_eq!(asked(&rules, &["tcp", "tcp1"]), "??");
        assert_eq!(asked(&rules, &["tcp1"]), "KK");
        assert_eq!(asked(&rules, &[]), "--");
        assert_eq!(asked(&[("fs1", "default=krb5i")], &["tcp", "tcp1"]), "KK");
    }
}
