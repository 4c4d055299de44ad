//! Sites of files on disk.

use std::fs;
use std::path::Path;

use lnet_site::SiteFile;

/// Returns the files of a directory, sorted by their paths, with `below` before each path.
pub(crate) fn files_of(directory: &Path, below: &str) -> Vec<SiteFile> {
    let mut files = Vec::new();
    read(directory, below, &mut files);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

fn read(directory: &Path, below: &str, files: &mut Vec<SiteFile>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        match path.is_dir() {
            true => read(&path, &format!("{below}{name}/"), files),
            false => files.push(SiteFile {
                path: format!("{below}{name}"),
                text: fs::read_to_string(&path).unwrap(),
            }),
        }
    }
}
