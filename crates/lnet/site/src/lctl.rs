//! Converts the output of `lctl` about a node's NIDs, its routes and whether it forwards into sections of a
//! document. Sosreports contain no other output that says whether the node forwards.
//!
//! ```text
//!   net               tcp5 hops 1 gw                     10.1.0.3@tcp down pri 2      lctl route_list
//!
//!   Routing enabled                                                                   lctl get_param routes
//!   net      hops priority   state router
//!   tcp5        1        2    down 10.1.0.3@tcp
//!
//!   10.1.0.2@tcp                                                                      lctl list_nids
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;

use lnet_types::{Net, Nid};

use crate::gather::{Part, SiteFile};

/// Decides whether a text is such an output.
pub(crate) fn is_output(text: &str) -> bool {
    text.lines()
        .any(|line| routing(line).is_some() || route(line).is_some())
        || nids(text).is_some()
}

/// Returns the NIDs with the numbers of their lines, if the text holds nothing else.
fn nids(text: &str) -> Option<Vec<(usize, Nid)>> {
    let lines = text.lines().map(str::trim).enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty());
    let nid = |(at, line): (usize, &str)| {
        let nid = line.contains('@').then(|| line.parse().ok())?;
        nid.map(|nid| (at, nid))
    };
    let nids: Vec<(usize, Nid)> = lines.map(nid).collect::<Option<_>>()?;
    (!nids.is_empty()).then_some(nids)
}

/// Returns the `net` section for a list of NIDs. All NIs of a net are on the line of the net's first NID, so that
/// line numbers stay the same.
fn net_section(nids: &[(usize, Nid)]) -> String {
    let mut nets: BTreeMap<Net, (usize, Vec<String>)> = BTreeMap::new();
    for (at, nid) in nids.iter().filter(|(_, nid)| !nid.is_loopback()) {
        let (_, entries) = nets.entry(nid.net()).or_insert((*at, Vec::new()));
        entries.push(format!("{{nid: \"{nid}\"}}"));
    }
    let last = nids.last().map_or(0, |(at, _)| *at);
    let mut lines = vec!["#".to_owned(); last + 1];
    for (net, (at, entries)) in nets {
        let entries = entries.join(", ");
        if let Some(line) = lines.get_mut(at) {
            *line = format!("- {{net type: {net}, local NI(s): [{entries}]}}");
        }
    }
    format!("net:\n{}\n", lines.join("\n"))
}

/// Returns the YAML sections for the output, each with its origin. The `route` section has one line for each line
/// of the output, after its own first line, so that line numbers correspond.
pub(crate) fn sections(file: &SiteFile) -> Vec<(&'static str, String, Part)> {
    let at = |line_there| Part {
        line: 0,
        path: file.path.clone(),
        line_there,
        is_made: false,
    };
    let mut found = Vec::new();
    let mut routes = "route:\n".to_owned();
    let mut count = 0;
    for (number, line) in file.text.lines().enumerate() {
        if let Some(enabled) = routing(line) {
            let body = format!("routing: {{enable: {}}}\n", u8::from(enabled));
            found.push(("routing", body, at(number + 1)));
        }
        match route(line) {
            Some(route) => {
                count += 1;
                routes.push_str(&route);
            }
            None => routes.push_str("#\n"),
        }
    }
    if let Some(nids) = nids(&file.text) {
        found.push(("net", net_section(&nids), at(0)));
    }
    if count > 0 {
        found.push(("route", routes, at(0)));
    }
    found
}

/// Returns whether a line says that the node forwards or that it does not; `None` for any other line.
fn routing(line: &str) -> Option<bool> {
    let line = line.trim_end();
    let line = line.strip_prefix("routes=").unwrap_or(line);
    match line {
        "Routing enabled" => Some(true),
        "Routing disabled" => Some(false),
        _ => None,
    }
}

/// Converts a line of either list of routes into a YAML entry.
fn route(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_ascii_whitespace().take(10).collect();
    let (net, hops, gateway, state, priority) = match words[..] {
        [
            "net",
            net,
            "hops",
            hops,
            "gw",
            gateway,
            state,
            "pri",
            priority,
        ] => (net, hops, gateway, state, priority),
        [net, hops, priority, state, gateway] => (net, hops, gateway, state, priority),
        _ => return None,
    };
    let (net, gateway): (Net, Nid) = (net.parse().ok()?, gateway.parse().ok()?);
    let (hops, priority): (i64, u32) = (hops.parse().ok()?, priority.parse().ok()?);
    // An undefined hop count is the largest number in one list, and -1 in the other.
    let hop = i32::try_from(hops).unwrap_or(-1);
    if state != "up" && state != "down" {
        return None;
    }
    let mut entry = String::new();
    let _infallible = writeln!(
        entry,
        "- {{net: {net}, gateway: {gateway}, hop: {hop}, priority: {priority}, state: {state}}}"
    );
    Some(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> SiteFile {
        SiteFile {
            path: "list".to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn what_kernels_list_is_read_line_by_line() {
        let file = file(
            "\nnet               tcp5 hops 1 gw                     10.1.0.3@tcp down pri 2\n\
             net               o2ib hops 4294967295 gw                     10.1.0.4@tcp up pri 0\n",
        );
        assert!(is_output(&file.text));
        let sections = sections(&file);
        let [(key, body, _)] = &sections[..] else {
            panic!("{sections:?}");
        };
        assert_eq!(*key, "route");
        let read = lnet_config::survey(body).unwrap();
        assert!(
            read.rejected.is_empty() && read.unknown.is_empty(),
            "{body}"
        );
        let routes = read.document.routes;
        assert_eq!(routes.len(), 2);
        assert_eq!(
            (routes[0].hop, routes[0].priority, routes[1].hop),
            (Some(1), Some(2), None)
        );
        let second = body.lines().nth(2);
        assert!(second.is_some_and(|line| line.contains("tcp5") && line.ends_with("state: down}")));
    }

    #[test]
    fn a_list_of_nids_is_the_interfaces_of_their_nets_each_on_the_line_of_its_first() {
        let file = file("\n10.1.0.2@tcp\n10.2.0.2@o2ib5\n10.1.0.3@tcp\n2001:db8::2@tcp6\n");
        assert!(is_output(&file.text));
        let sections = sections(&file);
        let [(key, body, _)] = &sections[..] else {
            panic!("{sections:?}");
        };
        assert_eq!(*key, "net");
        let read = lnet_config::survey(body).unwrap();
        assert!(
            read.rejected.is_empty() && read.unknown.is_empty(),
            "{body}"
        );
        let second = body.lines().nth(2).unwrap();
        assert!(second.contains("10.1.0.2@tcp") && second.contains("10.1.0.3@tcp"));
        assert_eq!(read.document.nets.len(), 3);
        for other in ["", "10.1.0.2@tcp up", "10.1.0.2", "user@example.org"] {
            assert!(!is_output(other), "{other}");
        }
    }

    #[test]
    fn the_parameter_says_whether_the_node_forwards() {
        let text = "routers=\nref  rtr_ref alive router\n3          1    up 10.1.0.3@tcp\n\
                    routes=Routing enabled\nnet      hops priority   state router\n\
                    tcp1       -1        0      up 10.1.0.3@tcp\n\
                    nis=\nnid                      status alive refs peer  rtr   max    tx   min\n\
                    0@lo                         up     0    2    0    0     0     0     0\n";
        let sections = sections(&file(text));
        let keys: Vec<&str> = sections.iter().map(|(key, _, _)| *key).collect();
        assert_eq!(keys, ["routing", "route"]);
        assert_eq!(sections[0].1, "routing: {enable: 1}\n");
        assert_eq!(sections[0].2.line_there, 4);
        assert_eq!(sections[1].1.lines().filter(|line| *line != "#").count(), 2);
    }

    #[test]
    fn other_text_is_no_output() {
        for text in [
            "",
            "net:\n",
            "net tcp hops x gw 10.0.0.1@tcp up pri 0",
            "routes\nnet",
        ] {
            assert!(!is_output(text), "{text}");
        }
    }
}
