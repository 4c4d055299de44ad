//! Pages of the reference that are made from the program: its commands and its metrics.

use std::collections::BTreeSet;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use testkit::workspace::packages;

use super::ROOT;
use super::page::steps;
use super::run::outputs;

/// Where the help text of each command is written down, from the root of the repository.
const HELP: &str = "crates/finerail/tests/help";

/// Compares a page with what was made for it. With `FINERAIL_OVERWRITE=1`, writes the page.
pub(crate) fn compare(page: &str, made: &str) {
    let path = Path::new(ROOT).join("docs/book/reference").join(page);
    if env::var_os("FINERAIL_OVERWRITE").is_some() {
        fs::write(&path, made).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    for (number, (kept, made)) in kept.lines().zip(made.lines()).enumerate() {
        assert_eq!(
            kept,
            made,
            "line {} of {page}; FINERAIL_OVERWRITE=1 writes the page",
            number + 1
        );
    }
    assert_eq!(
        kept.lines().count(),
        made.lines().count(),
        "{page}; FINERAIL_OVERWRITE=1 writes the page"
    );
}

/// Makes the page of commands. The book takes each help text from the file in which the tests of the command line
/// have it.
pub(crate) fn commands() -> String {
    let mut page =
        "# Commands\n\nThe help text of every command, as `finerail COMMAND --help` prints it. \
                    `finerail man DIRECTORY` writes the same as manual pages.\n"
            .to_owned();
    let files = fs::read_dir(Path::new(ROOT).join(HELP)).unwrap();
    let mut all: Vec<(String, String)> = files
        .map(|file| file.unwrap().path())
        .filter_map(|path| {
            let text = fs::read_to_string(&path).unwrap();
            let command = text.lines().find_map(|line| line.strip_prefix("$ "))?;
            let command = command.strip_suffix(" --help")?;
            Some((
                command.to_owned(),
                path.file_name().unwrap().to_str().unwrap().to_owned(),
            ))
        })
        .collect();
    all.sort();
    assert!(all.len() > 100, "the help texts of {} commands", all.len());
    for (command, file) in all {
        let include = format!("{{{{#include ../../../{HELP}/{file}}}}}");
        write!(page, "\n## {command}\n\n{include}\n").unwrap();
    }
    page
}

/// The services whose metrics are on the page: the heading of each, and the commands that start and scrape it.
const SERVICES: [(&str, &str); 5] = [
    (
        "A node",
        "```text,file=node.yaml\nnet:\n- net type: tcp\n  local NI(s):\n  - nid: 127.0.0.1@tcp\n```\n\
         ```console\n$ finerail node --config node.yaml --port 9988 --metrics 127.0.0.1:9123 &\nready: [..]\n\
         $ curl -sS -H Accept:application/openmetrics-text http://127.0.0.1:9123/metrics\n```\n",
    ),
    (
        "A node that counts the RPCs of Lustre (`--rpc`), beside the others",
        "```text,file=node.yaml\nnet:\n- net type: tcp\n  local NI(s):\n  - nid: 127.0.0.1@tcp\n```\n\
         ```console\n$ finerail node --config node.yaml --port 9988 --rpc --metrics 127.0.0.1:9123 &\nready: [..]\n\
         $ curl -sS -H Accept:application/openmetrics-text http://127.0.0.1:9123/metrics | grep finerail_rpc_\n```\n",
    ),
    (
        "A storage gateway, beside those of its node",
        "```text,file=node.yaml\nnet:\n- net type: tcp\n  local NI(s):\n  - nid: 127.0.0.1@tcp\n```\n\
         ```console\n$ finerail store serve --config node.yaml --port 9988 --metrics 127.0.0.1:9123 --identity server . &\n\
         ready: [..]\n$ curl -sS -H Accept:application/openmetrics-text http://127.0.0.1:9123/metrics\n```\n",
    ),
    (
        "The I/O-node daemon",
        "```console\n$ finerail zoid daemon --total 64M --directory . &\nready: [..]\n\
         $ curl -sS --unix-socket zbmi.default.metrics http://localhost/metrics\n```\n",
    ),
    (
        "The forwarder",
        "```console\n$ finerail zoid daemon --total 256M &\nready: [..]\n\
         $ finerail zoid forward --metrics 127.0.0.1:9123 dir:. &\nready: [..]\n\
         $ curl -sS -H Accept:application/openmetrics-text http://127.0.0.1:9123/metrics\n```\n",
    ),
];

/// Makes the page of metrics from what running services serve. `None` if this machine denies namespaces.
pub(crate) fn metrics() -> Option<String> {
    let mut page = "# Metrics\n\nWhat the services of Finerail serve to Prometheus. The names of counters have the ending \
                    `_total` in addition, those of histograms `_bucket`, `_sum` and `_count`.\n"
        .to_owned();
    for (service, commands) in SERVICES {
        let printed = outputs(&steps(commands).unwrap())?.pop().unwrap();
        let rows = rows(&printed);
        assert!(!rows.is_empty(), "{service}: {printed}");
        write!(page, "\n## {service}\n\n{rows}").unwrap();
    }
    Some(page)
}

/// Reads the metrics of an exposition into a list, sorted by name: narrow screens have no room for a table.
fn rows(exposition: &str) -> String {
    let told = |kind: &str, name: &str| {
        let begin = format!("# {kind} {name} ");
        let line = exposition
            .lines()
            .find_map(|line| line.strip_prefix(&begin));
        line.unwrap_or_default().to_owned()
    };
    let mut names: Vec<&str> = exposition
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    names.sort_unstable();
    let rows = names.iter().map(|name| {
        let (kind, meaning) = (told("TYPE", name), told("HELP", name));
        assert!(!meaning.is_empty(), "{name} has no meaning");
        format!("* `{name}`, {kind}: {meaning}\n")
    });
    rows.collect()
}

/// How the names of variables begin.
const PREFIXES: [&str; 7] = [
    "FINERAIL_",
    "ZOID_",
    "ZBMI_",
    "LST_",
    "XDG_",
    "NO_COLOR",
    "TERM",
];

/// Crates whose sources only tests and benches use.
const DEVELOPMENT: [&str; 5] = [
    "finerail-bench",
    "testkit",
    "mutations",
    "tidy",
    "lnet-fuzz",
];

/// Returns the variables whose names stand in the sources of the programs, outside of tests.
pub(crate) fn variables() -> BTreeSet<String> {
    let mut directories = Vec::new();
    for package in packages() {
        if !DEVELOPMENT.contains(&package.name.as_str()) {
            directories.push(Path::new(ROOT).join(package.directory).join("src"));
        }
    }
    let mut found = BTreeSet::new();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten() {
            let path = entry.unwrap().path();
            let is_of_tests = path
                .file_stem()
                .is_some_and(|stem| stem.to_str().unwrap().contains("tests"));
            if is_of_tests {
                continue;
            } else if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(path).unwrap();
                found.extend(
                    text.split('"')
                        .filter(|word| is_variable(word))
                        .map(str::to_owned),
                );
            }
        }
    }
    found
}

fn is_variable(word: &str) -> bool {
    let is_name = word
        .bytes()
        .all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    is_name && PREFIXES.iter().any(|prefix| word.starts_with(prefix))
}
