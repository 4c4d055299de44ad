//! Writes a report as SARIF 2.1.0, the format in which code hosts and editors read findings.

use std::fmt::Write as _;

use serde::Serialize;

use crate::lint::catalogue::{LINTS, Lint, Severity};
use crate::lint::finding::{Finding, Report};

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Log<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    version: &'static str,
    runs: [Run<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Run<'a> {
    tool: Tool,
    column_kind: &'static str,
    results: Vec<Outcome<'a>>,
}

#[derive(Serialize)]
struct Tool {
    driver: Driver,
}

#[derive(Serialize)]
struct Driver {
    name: &'static str,
    version: &'static str,
    rules: Vec<Descriptor>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    id: &'static str,
    short_description: Message,
    help: Message,
    default_configuration: Level,
}

#[derive(Serialize)]
struct Level {
    level: &'static str,
}

#[derive(Serialize)]
struct Message {
    text: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome<'a> {
    rule_id: &'static str,
    rule_index: usize,
    level: &'static str,
    message: Message,
    locations: [Location<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Location<'a> {
    physical_location: Physical<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    logical_locations: Vec<Logical<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Physical<'a> {
    artifact_location: Artifact,
    region: Region<'a>,
}

#[derive(Serialize)]
struct Artifact {
    uri: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Region<'a> {
    start_line: usize,
    start_column: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    snippet: Option<Snippet<'a>>,
}

#[derive(Serialize)]
struct Snippet<'a> {
    text: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Logical<'a> {
    fully_qualified_name: &'a str,
}

impl Report {
    /// Returns the report as a SARIF 2.1.0 log of one run, ready to be written as JSON. Columns count characters.
    /// File names are relative references, or `file:` URIs if they are absolute.
    #[must_use]
    pub fn sarif(&self) -> impl Serialize {
        let driver = Driver {
            name: "finerail-lint",
            version: env!("CARGO_PKG_VERSION"),
            rules: LINTS.iter().map(|lint| descriptor(lint)).collect(),
        };
        Log {
            schema: SCHEMA,
            version: "2.1.0",
            runs: [Run {
                tool: Tool { driver },
                column_kind: "unicodeCodePoints",
                results: self.findings.iter().map(outcome).collect(),
            }],
        }
    }
}

fn descriptor(lint: &Lint) -> Descriptor {
    let message = |text: &str| Message {
        text: text.to_owned(),
    };
    Descriptor {
        id: lint.code,
        short_description: message(lint.finds),
        help: message(lint.helps),
        default_configuration: Level {
            level: level(lint.severity),
        },
    }
}

fn outcome(finding: &Finding) -> Outcome<'_> {
    let mut lints = LINTS.iter();
    let key = Some(finding.key.as_str()).filter(|key| !key.is_empty());
    let named = key.map(|fully_qualified_name| Logical {
        fully_qualified_name,
    });
    Outcome {
        rule_id: finding.code,
        // Every finding belongs to a lint of the table. A test checks this.
        rule_index: lints.position(|l| l.code == finding.code).unwrap_or(0),
        level: level(finding.severity),
        message: Message {
            text: format!("{}. Fix: {}", finding.reason, finding.fix),
        },
        locations: [Location {
            physical_location: Physical {
                artifact_location: Artifact {
                    uri: uri(&finding.file),
                },
                region: Region {
                    start_line: finding.line,
                    start_column: finding.column,
                    snippet: finding
                        .shown
                        .as_ref()
                        .map(|shown| Snippet { text: &shown.text }),
                },
            },
            logical_locations: named.into_iter().collect(),
        }],
    }
}

const fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

/// Returns the name of a file as a URI reference (RFC 3986): all bytes other than unreserved characters and slashes
/// are escaped.
fn uri(name: &str) -> String {
    let scheme = if name.starts_with('/') { "file://" } else { "" };
    let mut uri = scheme.to_owned();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _infallible = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_references() {
        assert_eq!(uri("site/node 1.yaml"), "site/node%201.yaml");
        assert_eq!(uri("/etc/lnet.conf"), "file:///etc/lnet.conf");
        assert_eq!(uri("a:b"), "a%3Ab");
    }
}
