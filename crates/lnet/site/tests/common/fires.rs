//! One document in which a lint finds something, and the corrected one.

use lnet_site::lint::{Finding, Input, lint};

/// Returns the findings of a document, with the machine's interfaces if they are given.
pub(crate) fn findings(text: &str, interfaces: Option<&str>) -> Vec<Finding> {
    let input = Input {
        name: "node.yaml",
        text,
        interfaces,
        port: None,
    };
    lint(&[input]).unwrap().findings
}

/// Checks that the lint fires once in the first document and not in the second one.
#[track_caller]
pub(crate) fn fires(code: &str, wrong: &str, right: &str) -> Finding {
    fires_on(code, (wrong, None), (right, None))
}

#[track_caller]
pub(crate) fn fires_on(
    code: &str,
    (wrong, of_wrong): (&str, Option<&str>),
    (right, of_right): (&str, Option<&str>),
) -> Finding {
    let found = findings(wrong, of_wrong);
    let mut of_code = found.iter().filter(|finding| finding.code == code);
    let first = of_code.next();
    let first = first.unwrap_or_else(|| panic!("{code} is not among {found:#?}"));
    let more = of_code.next();
    assert!(more.is_none(), "{code} is found twice: {found:#?}");
    let corrected = findings(right, of_right);
    let left = corrected.iter().find(|finding| finding.code == code);
    assert!(left.is_none(), "still found: {left:#?}");
    first.clone()
}

/// Returns a document with NIs for these NIDs.
pub(crate) fn nets(nids: &[&str]) -> String {
    let mut text = "net:\n".to_owned();
    let mut nets: Vec<&str> = nids
        .iter()
        .map(|nid| nid.split_once('@').unwrap().1)
        .collect();
    nets.dedup();
    for net in nets {
        text += &format!("- net type: {net}\n  local NI(s):\n");
        for nid in nids
            .iter()
            .filter(|nid| nid.split_once('@').unwrap().1 == net)
        {
            text += &format!("  - nid: {nid}\n");
        }
    }
    text
}

/// Returns the output of `ip -j addr` for interfaces with a name, an address with a prefix of 24 bits, and whether
/// they are up.
pub(crate) fn machine(interfaces: &[(&str, &str, bool)]) -> String {
    let links = interfaces.iter().map(|(name, address, up)| {
        let flags = if *up {
            "\"UP\",\"LOWER_UP\""
        } else {
            "\"UP\",\"NO-CARRIER\""
        };
        let address = if address.is_empty() {
            String::new()
        } else {
            format!("{{\"local\":\"{address}\",\"prefixlen\":24,\"label\":\"{name}\"}}")
        };
        format!(
            "{{\"ifname\":\"{name}\",\"mtu\":1500,\"flags\":[{flags}],\"addr_info\":[{address}]}}"
        )
    });
    format!("[{}]", links.collect::<Vec<_>>().join(","))
}
