//! The files of a site's directory.

use std::collections::{BTreeMap, BTreeSet};

use lnet_site::{Selection, Site, SiteFile, check, each_rail, gather, reach};

/// The most nodes and the most files of an input; more would only be slow.
const NODES_MAX: usize = 12;

/// A directory whose files each begin with a line `=== PATH`: no panic, and every finding names a
/// line of a given file.
pub fn site_files(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let files: Vec<SiteFile> = files(text);
    let gathered = gather(&files);
    let nodes: usize = gathered.nodes.iter().map(|node| node.count).sum();
    if nodes > NODES_MAX || files.len() > 2 * NODES_MAX {
        return;
    }
    let Ok(site) = Site::new(gathered) else {
        return;
    };
    let Ok(found) = check(&site) else {
        return;
    };
    let lines: BTreeMap<&str, usize> = files
        .iter()
        .map(|file| (file.path.as_str(), file.text.lines().count()))
        .collect();
    for finding in &found.report.findings {
        let lines = lines.get(finding.file.as_str()).copied();
        // A finding may concern the end of the text.
        assert!(
            lines.is_some_and(|lines| (1..=lines + 1).contains(&finding.line)),
            "{finding:?}"
        );
    }
    let (text, html) = (found.to_text(), found.to_html());
    assert!(text.lines().count() >= found.causes.len() && html.contains("</html>"));
    let all = Selection::default();
    let reached = reach(&site, &all, &all);
    let ends = reached.ends.len();
    assert!(
        reached
            .directions
            .iter()
            .all(|one| one.from < ends && one.to < ends)
    );
    assert!(reached.to_html().contains("</html>"));
    let impacts = each_rail(&site);
    assert!(impacts.iter().all(|impact| !impact.failed.is_empty()));
}

/// The first text of each path.
fn files(text: &str) -> Vec<SiteFile> {
    let mut seen = BTreeSet::new();
    let parts = text.split("=== ").skip(1);
    let files = parts.filter_map(|part| part.split_once('\n'));
    files
        .filter(|(path, _)| seen.insert(*path))
        .map(|(path, text)| SiteFile {
            path: path.to_owned(),
            text: text.to_owned(),
        })
        .collect()
}
