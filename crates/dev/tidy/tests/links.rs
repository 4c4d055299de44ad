//! Links between the texts of the repository lead somewhere, and those of the book stay in the book.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use testkit::workspace::root;

/// Every page below a directory, relative to the root.
fn pages(directory: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(root().join(directory))? {
        let entry = entry?;
        let path = directory.join(entry.file_name());
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        let built = ["target", "corpus", "artifacts"]
            .iter()
            .any(|name| entry.file_name() == *name);
        if entry.file_type()?.is_dir() && !hidden && !built {
            pages(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    Ok(())
}

/// The lines outside code, without what is in backticks.
fn prose(text: &str) -> Vec<String> {
    let mut in_code = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            let parts = line.split('`').enumerate();
            lines.push(
                parts
                    .filter(|(index, _)| index % 2 == 0)
                    .map(|(_, part)| part)
                    .collect(),
            );
        }
    }
    lines
}

/// The targets of links, those of other machines left out.
fn links(text: &str) -> Vec<String> {
    let lines = prose(text);
    let targets = lines.iter().flat_map(|line| line.split("](").skip(1));
    let targets = targets
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.to_owned());
    targets
        .filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
        .collect()
}

/// The anchors that readers make of the headings: small letters, digits, hyphens for blanks.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut in_code = false;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        in_code ^= line.trim_start().starts_with("```");
        if in_code || !line.starts_with('#') {
            continue;
        }
        let title = line
            .trim_start_matches('#')
            .trim()
            .to_lowercase()
            .replace(' ', "-");
        found.insert(
            title
                .chars()
                .filter(|letter| letter.is_alphanumeric() || "-_".contains(*letter))
                .collect(),
        );
    }
    found
}

/// Without `..`, relative to the root.
fn resolved(page: &Path, target: &str) -> PathBuf {
    let mut path = page.parent().map(Path::to_path_buf).unwrap_or_default();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            part => path.push(part),
        }
    }
    path
}

/// What is wrong with a link of a page, if anything is.
fn complaint(page: &Path, text: &str, target: &str, in_book: bool) -> Option<String> {
    let (file, anchor) = target
        .split_once('#')
        .map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    let path = if file.is_empty() {
        page.to_path_buf()
    } else {
        resolved(page, file)
    };
    if !root().join(&path).exists() {
        return Some(format!(
            "{}: {target}: there is no {}",
            page.display(),
            path.display()
        ));
    }
    if in_book && !path.starts_with("docs") {
        return Some(format!("{}: {target}: leaves the book", page.display()));
    }
    let anchor = anchor.filter(|_| path.extension().is_some_and(|extension| extension == "md"))?;
    let there = if file.is_empty() {
        text.to_owned()
    } else {
        fs::read_to_string(root().join(&path)).ok()?
    };
    let known = anchors(&there).contains(anchor);
    (!known).then(|| format!("{}: {target}: no such heading", page.display()))
}

#[test]
fn links_lead_somewhere_and_those_of_the_book_stay_in_it() -> io::Result<()> {
    let mut found = Vec::new();
    pages(Path::new(""), &mut found)?;
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md"))?;
    let of_book: BTreeSet<PathBuf> = links(&summary)
        .iter()
        .map(|link| Path::new("docs").join(link))
        .collect();
    assert!(of_book.len() > 30, "{of_book:?}");
    let mut complaints = Vec::new();
    for page in &found {
        let text = fs::read_to_string(root().join(page))?;
        let in_book = of_book.contains(page);
        complaints.extend(
            links(&text)
                .iter()
                .filter_map(|link| complaint(page, &text, link, in_book)),
        );
    }
    assert!(
        complaints.is_empty(),
        "{} links:\n{}",
        complaints.len(),
        complaints.join("\n")
    );
    Ok(())
}

/// The source files that a page names: what is in backticks and looks like a path.
fn sources(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|word| {
        let is_path = |letter: char| letter.is_ascii_alphanumeric() || "_-./".contains(letter);
        let is_source = Path::new(word)
            .extension()
            .is_some_and(|ending| ["rs", "py", "c", "h"].iter().any(|known| ending == *known));
        is_source && word.contains('/') && word.chars().all(is_path)
    })
}

/// Every source file below `crates`, relative to the root.
fn source_files(directory: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(root().join(directory))? {
        let entry = entry?;
        let path = directory.join(entry.file_name());
        if !entry.file_type()?.is_dir() {
            found.push(path);
        } else if entry.file_name() != "target" {
            source_files(&path, found)?;
        }
    }
    Ok(())
}

/// A page names a file by the end of its path, or by the name of its package and the path in there.
#[test]
fn the_source_files_that_pages_name_exist() -> io::Result<()> {
    let mut files = Vec::new();
    source_files(Path::new("crates"), &mut files)?;
    let packages = testkit::workspace::packages();
    let exists = |word: &str| {
        let (first, rest) = word.split_once('/').unwrap_or((word, ""));
        let package = packages.iter().find(|package| package.name == first);
        package.is_some_and(|package| root().join(&package.directory).join(rest).exists())
            || files.iter().any(|file| file.ends_with(word))
    };
    let mut found = Vec::new();
    pages(Path::new(""), &mut found)?;
    let mut named = 0;
    let mut complaints = Vec::new();
    for page in &found {
        let text = fs::read_to_string(root().join(page))?;
        for word in sources(&text) {
            named += 1;
            if !exists(word) {
                complaints.push(format!("{}: there is no {word}", page.display()));
            }
        }
    }
    assert!(named > 100, "{named}");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(!exists("lnet-core/src/nowhere.rs") && !exists("core/src/nowhere.rs"));
    Ok(())
}

#[test]
fn a_link_without_file_without_heading_or_out_of_the_book_is_a_complaint() {
    let page = Path::new("docs/SUMMARY.md");
    let text = "# A Title: b\n[x](nowhere.md) `[y](code.md)` [z](https://example.org/z)\n```\n[w](code.md)\n```\n";
    assert_eq!(links(text), ["nowhere.md"]);
    let wrong = |target, in_book| complaint(page, text, target, in_book).is_some();
    assert!(wrong("nowhere.md", false) && wrong("#b", false) && wrong("../README.md", true));
    assert!(
        !wrong("#a-title-b", true) && !wrong("../README.md", false) && !wrong("lints.md", true)
    );
}
