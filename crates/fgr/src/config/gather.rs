//! A site from what was written of it, or from the configurations of its nodes.

use std::collections::BTreeMap;

use lnet_config::{Config, Globals, NetConfig};
use lnet_policy::{Profile, Rule, RuleText};
use lnet_types::{Net, Nid};

use crate::config::files::NodeLine;
use crate::config::{Class, NodeRole, Site, SiteNode};
use crate::input::fits;
use crate::problem::{InputError, Problems};

/// What the files of a class say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassText {
    /// Its document.
    pub config: Config,
    /// Its selection rules.
    pub rules: Vec<Rule>,
}

impl Site {
    /// The site of these nodes and classes; nodes whose class is not among `classes` are left out.
    #[must_use]
    pub fn from_lines(lines: Vec<NodeLine>, classes: &BTreeMap<String, ClassText>) -> Self {
        let mut site = Self::default();
        let mut known: BTreeMap<(String, NodeRole), usize> = BTreeMap::new();
        for line in lines {
            let Some(text) = classes.get(&line.class) else {
                continue;
            };
            let next = site.classes.len();
            let class = *known.entry((line.class.clone(), line.role)).or_insert(next);
            if class == next {
                site.classes.push(Class {
                    name: line.class,
                    role: line.role,
                    config: text.config.clone(),
                    rules: text.rules.clone(),
                });
            }
            site.nodes.push(SiteNode {
                name: line.name,
                class,
                blade: line.blade,
                nids: line.nids,
            });
        }
        site
    }

    /// The site of nodes by their own configurations, exports for instance: a node that forwards is a
    /// router, another one on a net that `serves` is a server, the rest are clients. Nodes that route
    /// alike become one class, named after the first of them.
    #[must_use]
    pub fn from_nodes(
        nodes: impl IntoIterator<Item = (String, Config)>,
        serves: impl Fn(Net) -> bool,
    ) -> Self {
        let mut site = Self::default();
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        for (name, config) in nodes {
            let nids = nids(&config);
            let config = what_routes(config);
            let next = site.classes.len();
            let class = *known.entry(config.to_yaml()).or_insert(next);
            if class == next {
                let role = match config.routing {
                    Some(true) => NodeRole::Router,
                    _ if config.nets.iter().any(|net| serves(net.net)) => NodeRole::Server,
                    _ => NodeRole::Client,
                };
                let (name, rules) = (name.clone(), Vec::new());
                site.classes.push(Class {
                    name,
                    role,
                    config,
                    rules,
                });
            }
            let blade = None;
            site.nodes.push(SiteNode {
                name,
                class,
                blade,
                nids,
            });
        }
        site
    }

    /// The nodes by each of their NIDs.
    #[must_use]
    pub fn nodes_by_nid(&self) -> BTreeMap<Nid, &SiteNode> {
        let of = |node| move |&nid| (nid, node);
        let nodes = self.nodes.iter();
        nodes
            .flat_map(|node| node.nids.iter().map(of(node)))
            .collect()
    }
}

/// The NIDs that a configuration names.
#[must_use]
pub fn nids(config: &Config) -> Vec<Nid> {
    let nis = config.nets.iter().flat_map(|net| &net.nis);
    nis.filter_map(|ni| ni.nid).collect()
}

/// What decides about routes, in a form that nodes share.
fn what_routes(config: Config) -> Config {
    let nets = config.nets.iter().map(|net| NetConfig {
        net: net.net,
        nis: vec![lnet_config::NiConfig {
            interfaces: vec!["any".to_owned()],
            ..lnet_config::NiConfig::default()
        }],
    });
    let mut routes = config.routes;
    routes.sort_by_key(|route| (route.net, route.priority, route.gateway));
    Config {
        nets: nets.collect(),
        routes,
        routing: config.routing,
        globals: Globals {
            discovery: config.globals.discovery,
            drop_asym_route: config.globals.drop_asym_route,
            ..Globals::default()
        },
        ..Config::default()
    }
}

/// Reads selection rules as commands: `lnetctl udsp add --dst NET --rte GATEWAY` a line.
///
/// # Errors
///
/// Every line that is another command, or makes no rule.
pub fn read_udsp(file: &str, text: &str) -> Result<Vec<Rule>, InputError> {
    const WANTED: &str = "lnetctl udsp add --dst NET --rte GATEWAY";
    let mut problems = Problems::new(file);
    let mut rules = Vec::new();
    let readable = fits(&mut problems, text);
    for (line, content) in (1..).zip(text.lines()).take_while(|_| readable) {
        let words: Vec<&str> = content.split_whitespace().collect();
        let rule = match words[..] {
            [] => continue,
            ["lnetctl", "udsp", "add", "--dst", dst, "--rte", rte] => {
                let text = RuleText {
                    dst: Some(dst),
                    rte: Some(rte),
                    ..RuleText::default()
                };
                Rule::from_text(&text, Profile::Lustre).ok()
            }
            _ => None,
        };
        match rule {
            Some(rule) => rules.push(rule),
            None => problems.value(line, "command", content, WANTED),
        }
    }
    problems.into_result(rules)
}
