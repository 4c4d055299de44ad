//! Records the names of the reply queues, for cleaning up after a crash.
//!
//! ```text
//!  DIRECTORY/zbmi.INSTANCE.journal      written by the daemon and, one line, by its server:
//!      replies 4711 88541               reply queues of process 4711, which started at tick 88541
//! ```
//!
//! Queues cannot be listed if their file system is not mounted, so a name is recorded before it is created.
//! The daemon learns of a server with INIT; a server that is killed before that leaves this line. The line is
//! written completely or not at all, and once: a server that attaches again finds it. A server works without
//! a journal, too; the daemon's own line covers it from INIT on.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use zoid_proto::runtime_directories;

use crate::options::Options;

/// The longest journal that is read, in bytes; a longer file is not the daemon's.
const JOURNAL_MAX: u64 = 1 << 20;

/// Records that this process is about to create reply queues.
// [DEATH-41]
pub(super) fn announce(options: &Options, process: u32) {
    let Some(start) = sys::process_start(process) else {
        return;
    };
    let line = format!("replies {process} {start}\n");
    for path in places(options) {
        match append(&path, &line) {
            Ok(()) => return,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::debug!(%error, ?path, "cannot write to this journal"),
        }
    }
}

/// Returns where the journal may be: beside the daemon's socket, or in the default directories.
fn places(options: &Options) -> impl Iterator<Item = PathBuf> {
    let file = options.instance.journal_file();
    let beside = options.socket.as_deref().and_then(Path::parent);
    let directories = runtime_directories(sys::effective_user());
    beside
        .map(Path::to_path_buf)
        .into_iter()
        .chain(directories.map(PathBuf::from))
        .map(move |directory| directory.join(&file))
}

/// Appends the line, unless the journal has it.
fn append(path: &Path, line: &str) -> io::Result<()> {
    // In a directory that everybody may write to, the file could be a symbolic link of an attacker.
    let mut file = sys::without_following(OpenOptions::new().read(true).append(true)).open(path)?;
    let opened = file.metadata()?;
    if !opened.is_file() || opened.len() > JOURNAL_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut text = String::new();
    (&mut file).take(JOURNAL_MAX).read_to_string(&mut text)?;
    if text.lines().any(|known| known == line.trim_end()) {
        return Ok(());
    }
    // A crash may have left an incomplete line; do not append to it.
    let line = match text.is_empty() || text.ends_with('\n') {
        true => line.to_owned(),
        false => format!("\n{line}"),
    };
    file.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn options(directory: &Path) -> Options {
        Options {
            instance: format!("j{}", std::process::id()).parse().unwrap(),
            socket: Some(directory.join("socket")),
            ..Options::default()
        }
    }

    // [DEATH-41]
    #[test]
    fn a_server_writes_its_line_once_behind_what_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let options = options(directory.path());
        let path = directory.path().join(options.instance.journal_file());
        fs::write(&path, "queue /zbmi.x.ctl\nrepl").unwrap();
        let own = std::process::id();
        announce(&options, own);
        announce(&options, own);
        let start = sys::process_start(own).unwrap();
        let expected = format!("queue /zbmi.x.ctl\nrepl\nreplies {own} {start}\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    }

    // [SAFE-2]
    #[test]
    fn a_journal_is_neither_made_nor_followed_to_elsewhere() {
        let directory = tempfile::tempdir().unwrap();
        let options = options(directory.path());
        let path = directory.path().join(options.instance.journal_file());
        announce(&options, std::process::id());
        assert!(!path.exists());
        let victim = directory.path().join("victim");
        fs::write(&victim, "precious\n").unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        announce(&options, std::process::id());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious\n");
    }
}
