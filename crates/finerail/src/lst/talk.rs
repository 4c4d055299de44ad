//! The connection between a command and the console that carries out the command.

use std::env;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use super::NewSessionArgs;
use crate::common::{BAD_INPUT, Negative, complaint, default_control_path};

/// A line from the console to the command.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Line {
    /// A line for standard output, without the line end.
    Out(String),
    /// A line for standard error.
    Err(String),
    /// The exit code. This is the last line.
    Code(u8),
}

/// The limit of bytes of a line: a list of NIDs can be as long as a command line.
pub(super) const LINE_MAX: u64 = 2 << 20;
/// The limit of bytes of a session key.
const KEY_MAX: usize = 64;

/// Returns the path at which the console of this session listens.
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
            "LST_SESSION is not a key: write 1 to {KEY_MAX} letters, digits, dots, dashes and underscores"
        );
    }
    let directory = default_control_path().with_file_name("lst");
    Ok(directory.join(format!("{key}.sock")))
}

/// Sends the arguments of this process that follow `lst` to the console.
pub(super) fn forward() -> anyhow::Result<ExitCode> {
    let words: Vec<String> = env::args().collect();
    let at = words
        .iter()
        .position(|word| word == "lst")
        .map_or(1, |at| at + 1);
    send(&without_log(words.get(at..).unwrap_or_default()))
}

/// Removes `--log` from the arguments. It is an option of this process; the console got its own at its start.
fn without_log(words: &[String]) -> Vec<String> {
    let mut rest = Vec::with_capacity(words.len());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--log" {
            let _value = words.next();
        } else if !word.starts_with("--log=") {
            rest.push(word.clone());
        }
    }
    rest
}

/// Returns the path of the console's log, in the same private directory as its socket. A pipe to the command
/// that began the session cannot serve as the log, because it would end with that command.
pub(super) fn log_path(socket: &Path) -> PathBuf {
    socket.with_extension("log")
}

/// Sends a command line to the console, and prints the output that comes back.
pub(super) fn send(words: &[String]) -> anyhow::Result<ExitCode> {
    let path = socket()?;
    match UnixStream::connect(&path) {
        Ok(stream) => converse(stream, words),
        Err(_) => Err(Negative(format!(
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
            return Err(Negative("the console has ended".to_owned()).into());
        }
        match serde_json::from_str(&line).context("the console sent an invalid answer")? {
            Line::Out(text) => writeln!(out, "{text}")?,
            Line::Err(text) => complaint(&text),
            Line::Code(code) => return Ok(ExitCode::from(code)),
        }
    }
}

/// Begins a session in the console of the key, or starts a console if there is none.
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

/// Makes the directory of the sockets. Rejects a directory that belongs to another user, or is open to others.
fn private_directory(socket: &Path) -> anyhow::Result<()> {
    let directory = socket.parent().context("no directory")?;
    let made = DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory);
    let own = made.and_then(|()| sys::own_directory(directory, 0o077));
    own.map(drop).with_context(|| {
        format!(
            "cannot use {}; remove it, or set XDG_RUNTIME_DIR to a directory that you own",
            directory.display()
        )
    })
}

/// Starts the console with the options of this process, and waits until the console listens.
fn start(socket: &Path) -> anyhow::Result<()> {
    let program = env::current_exe().context("cannot find this program")?;
    let log = log_path(socket);
    let errors = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&log)
        .with_context(|| format!("cannot write {}", log.display()))?;
    let mut child = Command::new(program)
        .args(["lst", "console", "--socket"])
        .arg(socket)
        .args(node_options())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors)
        // Ctrl-C at the terminal must end only the command, not the session.
        .process_group(0)
        .spawn()
        .context("cannot start the console")?;
    let mut ready = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut ready)?;
    }
    if ready.starts_with("ready") {
        if is_log_asked_for() {
            complaint(&format!("the console logs to {}", log.display()));
        }
        return Ok(());
    }
    // The console has ended; its exit code does not matter.
    let _code = child.wait();
    let mut why = String::new();
    let said = File::open(&log).and_then(|file| file.take(LINE_MAX).read_to_string(&mut why));
    said.with_context(|| format!("cannot start the console, nor read {}", log.display()))?;
    let _removed = fs::remove_file(&log);
    let why = why.trim().trim_start_matches("finerail: ");
    bail!("cannot start the console: {why}")
}

/// Returns whether a log filter was given, so that the console may log more than warnings.
fn is_log_asked_for() -> bool {
    let is_given = |word: OsString| {
        let word = word.to_string_lossy().into_owned();
        word == "--log" || word.starts_with("--log=")
    };
    env::var_os("FINERAIL_LOG").is_some() || env::args_os().any(is_given)
}

/// Returns the options of `new_session` that describe the node, as they were typed.
fn node_options() -> Vec<OsString> {
    let names = [
        "--config",
        "--port",
        "--accept",
        "--congestion",
        "--router-check-interval",
        "--log",
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

/// The exit code for wrong usage.
pub(super) const USAGE: u8 = BAD_INPUT;
