//! A command and the console that carries it out.

use std::env;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};
use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};

use super::NewSessionArgs;
use crate::common::{BAD_INPUT, NotSo, complaint, default_control_path};

/// A line from the console.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Line {
    /// For standard output, without the end of the line.
    Out(String),
    /// For standard error.
    Err(String),
    /// The last line: the exit code.
    Code(u8),
}

/// Bytes of a line at most: a list of NIDs as long as a command line can be.
pub(super) const LINE_MAX: u64 = 2 << 20;
/// Bytes of a key at most.
const KEY_MAX: usize = 64;

/// Where the console of this session listens.
fn socket() -> anyhow::Result<PathBuf> {
    let Some(key) = env::var_os("LST_SESSION") else {
        bail!(
            "LST_SESSION is not set: export LST_SESSION=$$ before the first command of a session"
        );
    };
    let key = key.to_string_lossy();
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if key.is_empty() || key.len() > KEY_MAX || !key.bytes().all(is_good) {
        bail!(
            "LST_SESSION is no key: 1 to {KEY_MAX} letters, digits, dots, dashes and underscores"
        );
    }
    let directory = default_control_path().with_file_name("lst");
    Ok(directory.join(format!("{key}.sock")))
}

/// Sends the words of this process to the console: those behind `lst`.
pub(super) fn forward() -> anyhow::Result<ExitCode> {
    let words: Vec<String> = env::args().collect();
    let at = words
        .iter()
        .position(|word| word == "lst")
        .map_or(1, |at| at + 1);
    send(words.get(at..).unwrap_or_default())
}

/// Sends words to the console, and prints what comes back.
pub(super) fn send(words: &[String]) -> anyhow::Result<ExitCode> {
    let path = socket()?;
    match UnixStream::connect(&path) {
        Ok(stream) => converse(stream, words),
        Err(_) => Err(NotSo(format!(
            "there is no session at {}; begin one with new_session",
            path.display()
        ))
        .into()),
    }
}

fn converse(mut stream: UnixStream, words: &[String]) -> anyhow::Result<ExitCode> {
    let line = serde_json::to_string(words)? + "\n";
    stream
        .write_all(line.as_bytes())
        .context("cannot reach the console")?;
    let mut lines = BufReader::new(stream);
    let mut out = io::stdout();
    loop {
        let mut line = String::new();
        lines.by_ref().take(LINE_MAX).read_line(&mut line)?;
        if line.is_empty() {
            return Err(NotSo("the console has ended".to_owned()).into());
        }
        match serde_json::from_str(&line).context("the console says something else")? {
            Line::Out(text) => writeln!(out, "{text}")?,
            Line::Err(text) => complaint(&text),
            Line::Code(code) => return Ok(ExitCode::from(code)),
        }
    }
}

/// Begins a session: in the console that there is for the key, or in a new one.
pub(super) fn new_session(args: &NewSessionArgs) -> anyhow::Result<ExitCode> {
    let path = socket()?;
    let session = &args.session;
    let mut words = vec![
        "new_session".to_owned(),
        format!("--timeout={}", session.timeout),
    ];
    words.extend(session.force.then(|| "--force".to_owned()));
    words.extend(["--".to_owned(), session.name.clone()]);
    if let Ok(stream) = UnixStream::connect(&path) {
        return converse(stream, &words);
    }
    private_directory(&path)?;
    start(&path)?;
    let stream = UnixStream::connect(&path).context("the console has ended")?;
    converse(stream, &words)
}

/// The sockets' directory, in which nobody else can put anything.
fn private_directory(socket: &Path) -> anyhow::Result<()> {
    let directory = socket.parent().context("no directory")?;
    let made = DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory);
    made.with_context(|| {
        format!(
            "cannot make {}; set XDG_RUNTIME_DIR to a directory of yours",
            directory.display()
        )
    })?;
    let found = fs::symlink_metadata(directory)?;
    if !found.is_dir() || found.uid() != geteuid().as_raw() || found.mode() & 0o077 != 0 {
        bail!(
            "{} is open to others; remove it, or set XDG_RUNTIME_DIR",
            directory.display()
        );
    }
    Ok(())
}

/// Starts the console with the options of this process, and waits until it listens.
fn start(socket: &Path) -> anyhow::Result<()> {
    let program = env::current_exe().context("cannot find this program")?;
    let mut child = Command::new(program)
        .args(["lst", "console", "--socket"])
        .arg(socket)
        .args(node_options())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A terminal's Ctrl-C is for the command, and not for the session.
        .process_group(0)
        .spawn()
        .context("cannot start the console")?;
    let mut ready = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut ready)?;
    }
    if ready.starts_with("ready") {
        return Ok(());
    }
    let mut why = String::new();
    if let Some(errors) = child.stderr.take() {
        errors.take(LINE_MAX).read_to_string(&mut why)?;
    }
    let why = why.trim().trim_start_matches("finerail: ");
    // Whatever its exit code is, there is no console.
    let _code = child.wait();
    bail!("cannot start the console: {why}")
}

/// The options of `new_session` that describe the node, as they were typed.
fn node_options() -> Vec<OsString> {
    let names = [
        "--config",
        "--port",
        "--accept",
        "--congestion",
        "--router-check-interval",
    ];
    let words: Vec<OsString> = env::args_os().collect();
    let mut options = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let text = word.to_string_lossy();
        let name = text.split('=').next().unwrap_or_default();
        if names.contains(&name) {
            options.push(word.clone());
            options.extend(words.get(at + 1).filter(|_| !text.contains('=')).cloned());
        }
    }
    options
}

/// The exit code of wrong usage.
pub(super) const USAGE: u8 = BAD_INPUT;
