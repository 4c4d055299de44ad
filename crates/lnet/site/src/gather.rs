//! Assigns the files of a directory to nodes, and merges the files of each node.
//!
//! ```text
//!   NAME.yaml  NAME.conf  NAME.json      one node, or with brackets a class of nodes
//!   NAME/…                               the same, several outputs in a folder
//!   sosreport-NAME-DATE-…/…              the files of its lustre plugin and of /etc/modprobe.d
//! ```
//!
//! Outputs of one node are combined section by section: if several outputs hold the same section, the longest one
//! counts.

use std::collections::{BTreeMap, BTreeSet};

use lnet_config::machine::Machine;
use lnet_config::modprobe::is_options;

use crate::document;
use crate::error::SiteError;
use crate::lctl;

/// A file of the site's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteFile {
    /// The path below the directory, with slashes.
    pub path: String,
    /// The content of the file.
    pub text: String,
}

/// A node, or all nodes that one file name stands for, with the texts of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeText {
    /// The name; it may be a host list.
    pub name: String,
    /// The number of nodes that the name stands for.
    pub count: usize,
    /// The document: YAML of `lnetctl`, or options of the kernel module.
    pub text: String,
    /// The output of `ip -j addr` or of `ip addr`, if there is one.
    pub interfaces: Option<String>,
    /// The port of LNet, if options of the module are among the files: a document has none.
    pub port: Option<u16>,
    /// The origin of each part of the text.
    pub parts: Vec<Part>,
}

/// A part of a node's text, with its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The first line of the part in the node's text, counted from 1.
    pub line: usize,
    /// The path of the file that the part comes from.
    pub path: String,
    /// The line in that file where the part begins, counted from 1.
    pub line_there: usize,
    /// True if the whole part was generated from that one line.
    pub is_made: bool,
}

/// The files of a directory, assigned to nodes.
#[derive(Debug, Default)]
pub struct Gathered {
    /// The nodes, sorted by name.
    pub nodes: Vec<NodeText>,
    /// The paths of files that were not understood, each with the reason.
    pub passed_over: Vec<(String, &'static str)>,
    /// The errors for names that are no names of nodes.
    pub unnamed: Vec<SiteError>,
    /// The names of nodes with an unreadable file or folder; each name may be a host list.
    pub unreadable: BTreeSet<String>,
}

impl Gathered {
    /// Records an unreadable file or folder below the directory.
    pub fn note_unreadable(&mut self, path: &str) {
        if !is_backup(path) {
            self.unreadable.extend(name_of(path, &BTreeMap::new()));
        }
    }
}

/// The limit on the nodes under one name.
const NODES_MAX: usize = 1 << 20;

/// The top-level sections of documents.
const SECTIONS: [&str; 10] = [
    "net",
    "ip2nets",
    "route",
    "routing",
    "peer",
    "global",
    "numa",
    "udsp",
    "buffers",
    "statistics",
];

#[derive(Default)]
struct Found<'f> {
    documents: Vec<&'f SiteFile>,
    /// Outputs of `lctl`.
    lctl: Vec<&'f SiteFile>,
    options: Vec<&'f SiteFile>,
    /// The output with the most information about the interfaces.
    interfaces: Option<(Detail, &'f SiteFile)>,
}

/// The amount of information that an output of `ip` holds, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Detail {
    /// `ip -o addr`: addresses only.
    Addresses,
    /// `ip addr`: addresses and the state of links.
    Links,
    /// `ip -j addr`: everything, as JSON.
    Json,
}

/// Decides whether the file may describe a node. In a sosreport only some files do.
#[must_use]
pub fn is_wanted(path: &str) -> bool {
    let hidden = path.split('/').any(|part| part.starts_with('.'));
    let (folder, rest) = path.split_once('/').unwrap_or(("", path));
    !hidden && (!is_report(folder) || report_part(rest))
}

fn is_report(folder: &str) -> bool {
    folder.starts_with("sosreport-")
}

/// Decides whether a file of a sosreport is used (the plugins `lustre` and `networking` of sos 4, and `/etc`).
fn report_part(path: &str) -> bool {
    path == "hostname" || REPORT_BEGINS.iter().any(|begin| path.starts_with(begin))
}

/// The prefixes of the paths that are used, apart from `hostname`.
const REPORT_BEGINS: [&str; 9] = [
    "sos_commands/lustre/lnetctl_",
    "sos_commands/lustre/lctl_route_list",
    "sos_commands/lustre/params-lnet",
    "sos_commands/networking/ip_-j",
    "sos_commands/networking/ip_-d_addr",
    "sos_commands/networking/ip_-o_addr",
    "sos_commands/networking/ip_addr",
    "etc/modprobe.d/",
    "etc/lnet.conf",
];

/// Decides whether a folder below the directory may hold a file that is wanted.
#[must_use]
pub fn may_hold(path: &str) -> bool {
    let hidden = path.split('/').any(|part| part.starts_with('.'));
    match path.split_once('/') {
        Some((folder, rest)) if is_report(folder) => {
            let leads = |wanted: &str| {
                let under = wanted.strip_prefix(rest);
                under.is_some_and(|under| under.starts_with('/'))
            };
            !hidden && REPORT_BEGINS.iter().any(|wanted| leads(wanted))
        }
        _ => !hidden,
    }
}

/// Assigns the files to the nodes that they describe.
#[must_use]
pub fn gather(files: &[SiteFile]) -> Gathered {
    let hosts = report_hosts(files);
    let mut found: BTreeMap<String, Found<'_>> = BTreeMap::new();
    let mut gathered = Gathered::default();
    for file in files.iter().filter(|file| is_wanted(&file.path)) {
        let Some(name) = name_of(&file.path, &hosts) else {
            continue;
        };
        let of_node = found.entry(name).or_default();
        match kind(file) {
            Kind::Document => of_node.documents.push(file),
            Kind::Lctl => of_node.lctl.push(file),
            Kind::Options => of_node.options.push(file),
            Kind::Interfaces(detail) => of_node.look(detail, file),
            Kind::Unknown(why) => gathered.passed_over.push((file.path.clone(), why)),
        }
    }
    for (name, of_node) in found {
        let interfaces = of_node.interfaces;
        match of_node.node(name) {
            Err(error) => gathered.unnamed.push(error),
            Ok(Some(node)) => gathered.nodes.push(node),
            Ok(None) if interfaces.is_some() => {
                let path = interfaces.map_or(String::new(), |(_, file)| file.path.clone());
                let why = "interfaces of a node of which there is no document";
                gathered.passed_over.push((path, why));
            }
            Ok(None) => {}
        }
    }
    gathered
}

/// Returns the host name of each sosreport, by its folder.
fn report_hosts(files: &[SiteFile]) -> BTreeMap<&str, &str> {
    let named = files.iter().filter_map(|file| {
        let (folder, rest) = file.path.split_once('/')?;
        let name = file.text.trim();
        let is_name = rest == "hostname" && is_report(folder) && !name.is_empty();
        (is_name && !name.contains(char::is_whitespace)).then_some((folder, name))
    });
    named.collect()
}

/// Returns the name of the node that a file describes.
fn name_of(path: &str, hosts: &BTreeMap<&str, &str>) -> Option<String> {
    let Some((folder, rest)) = path.split_once('/') else {
        return Some(stem(path).to_owned());
    };
    if !is_report(folder) {
        return Some(folder.to_owned());
    }
    if rest == "hostname" {
        return None;
    }
    let named = hosts.get(folder).map(|name| (*name).to_owned());
    named.or_else(|| Some(report_name(folder).to_owned()))
}

/// Returns `node-7` for `sosreport-node-7-2026-11-24-abcdefg`.
fn report_name(folder: &str) -> &str {
    let rest = folder.strip_prefix("sosreport-").unwrap_or(folder);
    let is_year = |text: &str| {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        digits == 4 && text.as_bytes().get(4) == Some(&b'-')
    };
    let mut dashes = rest.match_indices('-');
    let date = dashes.find(|(at, _)| rest.get(at + 1..).is_some_and(is_year));
    date.and_then(|(at, _)| rest.get(..at)).unwrap_or(rest)
}

/// Returns a file's name without the endings that name its kind.
fn stem(name: &str) -> &str {
    const ENDS: [&str; 9] = [
        ".yaml", ".yml", ".json", ".conf", ".txt", ".out", ".ip", ".addr", ".export",
    ];
    let shorter = ENDS.iter().find_map(|end| name.strip_suffix(end));
    match shorter.filter(|rest| !rest.is_empty()) {
        Some(rest) => stem(rest),
        None => name,
    }
}

enum Kind {
    Document,
    Lctl,
    Options,
    Interfaces(Detail),
    Unknown(&'static str),
}

/// The endings of names that editors and package managers give to former versions of a file.
const BACKUPS: [&str; 9] = [
    "~",
    ".bak",
    ".orig",
    ".old",
    ".swp",
    ".rpmsave",
    ".rpmnew",
    ".dpkg-old",
    ".dpkg-dist",
];

/// Returns whether a path, or a folder in it, is a backup, whose contents are outdated.
fn is_backup(path: &str) -> bool {
    let mut parts = path.split('/');
    parts.any(|part| BACKUPS.iter().any(|end| part.ends_with(end)))
}

fn kind(file: &SiteFile) -> Kind {
    if is_backup(&file.path) {
        return Kind::Unknown("a backup, by its name");
    }
    let text = file.text.trim_start();
    let file_name = file.path.rsplit('/').next().unwrap_or_default();
    if let Some(detail) = detail(text) {
        return Kind::Interfaces(detail);
    }
    if is_options(text) {
        let ours = [
            "lnet", "ksocklnd", "ko2iblnd", "kgnilnd", "kfilnd", "libcfs",
        ];
        let is_ours = |line: &str| {
            let mut words = line.split_whitespace();
            let is_line = words.next() == Some("options");
            is_line && words.next().is_some_and(|module| ours.contains(&module))
        };
        return match text.lines().any(is_ours) {
            true => Kind::Options,
            false => Kind::Unknown("options of other modules"),
        };
    }
    let is_yaml = file_name.ends_with(".yaml") || file_name.ends_with(".yml");
    if is_yaml || !sections(text).is_empty() {
        return Kind::Document;
    }
    if lctl::is_output(text) {
        return Kind::Lctl;
    }
    match text.is_empty() {
        true => Kind::Unknown("empty"),
        false => Kind::Unknown(
            "neither a document of lnetctl, options of lnet, `ip addr`, nor NIDs or routes of lctl",
        ),
    }
}

/// Returns how much a text tells about interfaces, if it is an output of `ip`.
fn detail(text: &str) -> Option<Detail> {
    let is_list = text.starts_with('[');
    if !is_list && !text.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    Machine::parse(text).ok()?;
    let has_links = text.lines().any(|line| line.contains(": <"));
    Some(match (is_list, has_links) {
        (true, _) => Detail::Json,
        (false, true) => Detail::Links,
        (false, false) => Detail::Addresses,
    })
}

/// Returns the sections of a document in block style, each with its name, the number of its first line (from 0),
/// and its text.
fn sections(text: &str) -> Vec<(&str, usize, String)> {
    let mut found: Vec<(&str, usize, String)> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let key = line.split_once(':').map(|(key, _)| key);
        if let Some(key) = key.filter(|key| SECTIONS.contains(key)) {
            found.push((key, at, String::new()));
        }
        if let Some((_, _, body)) = found.last_mut() {
            body.push_str(line);
            body.push('\n');
        }
    }
    found
}

impl<'f> Found<'f> {
    fn look(&mut self, detail: Detail, file: &'f SiteFile) {
        if self.interfaces.is_none_or(|(known, _)| known <= detail) {
            self.interfaces = Some((detail, file));
        }
    }

    fn node(self, name: String) -> Result<Option<NodeText>, SiteError> {
        let sources = (&self.documents[..], &self.lctl[..], &self.options[..]);
        let (text, parts) = match sources {
            ([], [], []) => return Ok(None),
            ([one], [], []) => (one.text.clone(), vec![part(1, one, 1)]),
            ([], [], options) => joined(options),
            (documents, lctl, options) => by_section(documents, lctl, options),
        };
        Ok(Some(NodeText {
            count: count(&name)?,
            interfaces: self.interfaces.map(|(_, file)| file.text.clone()),
            port: document::port(&joined(&self.options).0),
            name,
            text,
            parts,
        }))
    }
}

fn count(name: &str) -> Result<usize, SiteError> {
    let names = fgr::hosts(name).map_err(|error| SiteError::Name(name.to_owned(), error))?;
    match names.len() {
        0 => Ok(1),
        many if many <= NODES_MAX => Ok(many),
        _ => Err(SiteError::TooLarge(NODES_MAX)),
    }
}

fn part(line: usize, file: &SiteFile, line_there: usize) -> Part {
    Part {
        line,
        path: file.path.clone(),
        line_there,
        is_made: false,
    }
}

/// Joins the texts of several files.
fn joined(files: &[&SiteFile]) -> (String, Vec<Part>) {
    let (mut text, mut parts, mut line) = (String::new(), Vec::new(), 1);
    for file in files {
        parts.push(part(line, file, 1));
        for one in file.text.lines() {
            text.push_str(one);
            text.push('\n');
            line += 1;
        }
    }
    (text, parts)
}

/// Combines the files section by section. Documents come first: the longest text of a section counts. `lctl` fills
/// in the sections that no document holds, and the module options fill in those that are still missing.
fn by_section(
    documents: &[&SiteFile],
    lctl: &[&SiteFile],
    options: &[&SiteFile],
) -> (String, Vec<Part>) {
    let mut best: BTreeMap<usize, (String, Part)> = BTreeMap::new();
    for file in documents {
        for (key, line, body) in sections(&file.text) {
            let place = SECTIONS.iter().position(|known| *known == key).unwrap_or(0);
            let known = best.get(&place).map_or(0, |(known, _)| known.len());
            if body.len() > known {
                best.insert(place, (body, part(0, file, line + 1)));
            }
        }
    }
    if best.is_empty() && !documents.is_empty() {
        return joined(documents);
    }
    let mut said: Vec<_> = lctl.iter().flat_map(|file| lctl::sections(file)).collect();
    said.sort_by_key(|(_, body, _)| std::cmp::Reverse(body.len()));
    for (key, body, at) in said {
        let place = SECTIONS.iter().position(|known| *known == key).unwrap_or(0);
        best.entry(place).or_insert((body, at));
    }
    for (key, body, file) in from_options(options) {
        let place = SECTIONS.iter().position(|known| *known == key).unwrap_or(0);
        let known = best.contains_key(&place) || (key == "ip2nets" && best.contains_key(&0));
        if !known {
            let at = Part {
                is_made: true,
                ..part(0, file, 1)
            };
            best.insert(place, (body, at));
        }
    }
    let (mut text, mut parts, mut line) = (String::new(), Vec::new(), 1);
    for (body, at) in best.into_values() {
        parts.push(Part { line, ..at });
        line += body.lines().count();
        text.push_str(&body);
    }
    (text, parts)
}

/// Converts the options of the kernel module into YAML sections.
fn from_options<'f>(options: &[&'f SiteFile]) -> Vec<(&'static str, String, &'f SiteFile)> {
    let mut found = Vec::new();
    let Some(first) = options.first() else {
        return found;
    };
    let (text, _) = joined(options);
    let Some(document) = document::of_options(&text, None) else {
        return found;
    };
    for (key, _, body) in sections(&document.to_yaml()) {
        let known = SECTIONS.iter().find(|known| **known == key);
        if let Some(key) = known {
            found.push((*key, body, *first));
        }
    }
    found
}

impl NodeText {
    /// Returns the path of the file, and the line in it, that a line of this text comes from.
    #[must_use]
    pub fn place(&self, line: usize) -> (&str, usize) {
        let parts = self.parts.iter().take_while(|part| part.line <= line);
        match parts.last().or(self.parts.first()) {
            Some(part) if part.is_made => (&part.path, part.line_there),
            Some(part) => {
                let there = part.line_there + line.saturating_sub(part.line);
                (&part.path, there.max(1))
            }
            None => (&self.name, line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SiteFile {
        SiteFile {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    const NET: &str = "net:\n- net type: tcp\n  local NI(s):\n  - nid: 10.0.0.1@tcp\n";
    const ROUTE: &str = "route:\n- net: o2ib\n  gateway: 10.0.0.9@tcp\n";

    #[test]
    fn what_a_file_was_before_is_no_second_node() {
        let files = [
            file("r1.yaml", NET),
            file("r1.yaml~", NET),
            file("r1.yaml.bak", NET),
            file("r1.old/net.txt", NET),
            file("r1.rpmsave", NET),
        ];
        let gathered = gather(&files);
        let names: Vec<&str> = gathered
            .nodes
            .iter()
            .map(|node| node.name.as_str())
            .collect();
        assert_eq!(names, ["r1"]);
        assert_eq!(gathered.passed_over.len(), 4);
    }

    #[test]
    fn a_file_a_folder_and_a_report_are_a_node_each() {
        let files = [
            file("n[1-3].yaml", NET),
            file("n[1-3].ip.json", "[{\"ifname\":\"eth0\"}]"),
            file("r1/net", NET),
            file("r1/routes.txt", ROUTE),
            file(
                "sosreport-oss-7-2026-01-02-abcdefg/sos_commands/lustre/lnetctl_net_show_-v",
                NET,
            ),
            file(
                "sosreport-oss-7-2026-01-02-abcdefg/etc/modprobe.d/lustre.conf",
                "options lnet networks=tcp(eth0) routes=\"o2ib 10.0.0.9@tcp\"\n",
            ),
            file("sosreport-oss-7-2026-01-02-abcdefg/etc/passwd", "root:"),
            file("README", "words"),
        ];
        let gathered = gather(&files);
        let names: Vec<(&str, usize)> = gathered
            .nodes
            .iter()
            .map(|node| (node.name.as_str(), node.count))
            .collect();
        assert_eq!(names, [("n[1-3]", 3), ("oss-7", 1), ("r1", 1)]);
        assert!(gathered.nodes[0].interfaces.is_some());
        assert!(
            gathered.nodes[1].text.contains("gateway: 10.0.0.9@tcp"),
            "{}",
            gathered.nodes[1].text
        );
        assert_eq!(gathered.nodes[2].text, format!("{NET}{ROUTE}"));
        assert_eq!(gathered.nodes[2].place(6), ("r1/routes.txt", 2));
        assert_eq!(gathered.passed_over.len(), 1);
    }

    #[test]
    fn a_report_says_of_routes_forwarding_and_interfaces_what_lctl_and_ip_say() {
        let report =
            |path: &str, text: &str| file(&format!("sosreport-r1-2026-01-02-abcdefg/{path}"), text);
        let files = [
            report("sos_commands/lustre/lnetctl_net_show_-v", NET),
            report(
                "sos_commands/lustre/lctl_route_list",
                "net               o2ib hops 1 gw                     10.0.0.9@tcp up pri 0\n",
            ),
            report(
                "sos_commands/lustre/params-lnet",
                "routes=Routing enabled\nnet      hops priority   state router\n",
            ),
            report(
                "sos_commands/networking/ip_-o_addr",
                "2: eth0    inet 10.0.0.1/24 brd 10.0.0.255 scope global eth0\\       valid_lft forever\n",
            ),
            report(
                "sos_commands/networking/ip_-d_address",
                "2: eth0: <UP> mtu 1500 qdisc mq\n    inet 10.0.0.1/24 scope global eth0\n",
            ),
            report(
                "sos_commands/networking/ip_maddr_show",
                "1:\tlo\n\tinet  224.0.0.1\n",
            ),
        ];
        let gathered = gather(&files);
        assert!(gathered.passed_over.is_empty(), "{gathered:?}");
        let [node] = &gathered.nodes[..] else {
            panic!("{gathered:?}");
        };
        let routes =
            "route:\n- {net: o2ib, gateway: 10.0.0.9@tcp, hop: 1, priority: 0, state: up}\n";
        assert_eq!(node.text, format!("{NET}{routes}routing: {{enable: 1}}\n"));
        let list = "sosreport-r1-2026-01-02-abcdefg/sos_commands/lustre/lctl_route_list";
        assert_eq!(node.place(6), (list, 1));
        assert!(
            node.interfaces
                .as_deref()
                .is_some_and(|text| text.contains("mtu 1500"))
        );
    }

    #[test]
    fn options_say_what_no_output_says() {
        let options =
            "options lnet networks=tcp9(eth9) forwarding=enabled lnet_health_sensitivity=50\n";
        let gathered = gather(&[file("r1/net", NET), file("r1/lnet.conf", options)]);
        let rest = "routing:\n    enable: 1\nglobal:\n    health_sensitivity: 50\n";
        assert_eq!(gathered.nodes[0].text, format!("{NET}{rest}"));
        assert_eq!(gathered.nodes[0].place(8), ("r1/lnet.conf", 1));
    }

    #[test]
    fn of_a_section_that_two_outputs_have_the_longer_counts() {
        let long = format!("{NET}    status: up\n");
        let gathered = gather(&[file("a/x", NET), file("a/y", &long)]);
        assert_eq!(gathered.nodes[0].text, long);
        assert_eq!(gathered.nodes[0].place(2), ("a/y", 2));
    }

    #[test]
    fn a_name_that_is_no_host_list_hides_nothing_of_the_others() {
        let gathered = gather(&[file("n[3-1].yaml", NET), file("n4.yaml", NET)]);
        assert_eq!((gathered.unnamed.len(), gathered.nodes.len()), (1, 1));
    }

    #[test]
    fn of_a_report_only_the_folders_that_count_are_looked_into() {
        let wanted = |rest: &str| may_hold(&format!("sosreport-n1-2026-01-02-x{rest}"));
        for rest in [
            "",
            "/sos_commands",
            "/sos_commands/lustre",
            "/etc",
            "/etc/modprobe.d",
        ] {
            assert!(wanted(rest), "{rest}");
        }
        for rest in [
            "/proc",
            "/sos_commands/block",
            "/sos_commands/networking/namespaces",
            "/et",
        ] {
            assert!(!wanted(rest), "{rest}");
        }
        assert!(may_hold("node1/deep") && !may_hold(".git"));
    }
}
