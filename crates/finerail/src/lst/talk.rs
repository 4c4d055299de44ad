//! The connection between a command and the console that carries out the command.

use std::env;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use lnet_config::{Config, NiConfig, NiShow};
use lnet_dlc::protocol::{Request, Said, Section, Show, is_lst_key};
use lnet_dlc::{Dlc, DlcError};
use lnet_types::Net;

use super::NewSessionArgs;
use crate::common::{Negative, complaint, default_control_path};

/// The limit of bytes of a console's log that is read.
const LOG_MAX: u64 = 2 << 20;
/// The timeout of a connection to a console.
const CONNECT: Duration = Duration::from_secs(10);
/// The timeout of a console's answer, beside the time that a command itself takes: two RPCs and some waiting.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns the key of the session that this process belongs to.
fn key() -> anyhow::Result<String> {
    let Some(key) = env::var_os("LST_SESSION") else {
        bail!(
            "LST_SESSION is not set: export LST_SESSION=$$ before the first command of a session"
        );
    };
    let key = key.to_string_lossy().into_owned();
    if !is_lst_key(&key) {
        bail!(
            "LST_SESSION is not a key: write 1 to 64 letters, digits, dots, dashes and underscores"
        );
    }
    Ok(key)
}

/// Returns the path at which the console process of a session listens, if the session has one.
fn socket(key: &str) -> PathBuf {
    let directory = default_control_path().with_file_name("lst");
    directory.join(format!("{key}.sock"))
}

/// Connects to the node of this machine. `None` if none runs.
fn node() -> anyhow::Result<Option<Dlc>> {
    let named = env::var_os("FINERAIL_CONTROL").filter(|path| !path.is_empty());
    let path = named.map_or_else(default_control_path, PathBuf::from);
    match Dlc::connect_within(&path, CONNECT) {
        Ok(dlc) => Ok(Some(dlc)),
        Err(DlcError::Connect { error, .. })
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::ConnectionRefused
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error).context("cannot reach the node of this machine"),
    }
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

/// Sends the words of a command to the console of the session, and prints the output that comes back. `own_time` is
/// the time that the command itself may take.
pub(super) fn send(words: &[String], own_time: Duration) -> anyhow::Result<ExitCode> {
    let key = key()?;
    let path = socket(&key);
    let console = match Dlc::connect_within(&path, CONNECT) {
        Ok(console) => Some(console),
        Err(_) => node()?,
    };
    let Some(console) = console else {
        return Err(Negative(format!(
            "there is no session at {}, and no node runs here; begin one with new_session",
            path.display()
        ))
        .into());
    };
    converse(console, &key, &without_log(words), own_time)
}

fn converse(
    mut console: Dlc,
    key: &str,
    words: &[String],
    own_time: Duration,
) -> anyhow::Result<ExitCode> {
    console.set_timeout(PATIENCE.saturating_add(own_time))?;
    let request = Request::Lst {
        key: key.to_owned(),
        words: words.to_vec(),
    };
    let mut printed = Ok(None);
    let asked = console.request_while(&request, |piece| {
        printed = print(piece);
        matches!(printed, Ok(None))
    });
    if let Err(DlcError::Rejected(failures)) = &asked {
        let why = failures.iter().map(|failure| failure.descr.as_str());
        return Err(Negative(why.collect::<Vec<_>>().join("; ")).into());
    }
    match (printed?, asked) {
        (Some(code), _) => Ok(ExitCode::from(code)),
        (None, Err(error @ DlcError::Io(_))) => {
            let text =
                format!("there is no session any more, since the console has ended: {error}");
            Err(Negative(text).into())
        }
        (None, Err(error)) => Err(Negative(error.to_string()).into()),
        (None, Ok(())) => Err(Negative("the console has ended".to_owned()).into()),
    }
}

/// Prints a piece of an answer. Returns the exit code if the piece is the last one.
fn print(piece: &str) -> anyhow::Result<Option<u8>> {
    let said = serde_json::from_str(piece).context("the console sent an invalid answer")?;
    match said {
        Said::Out(text) => writeln!(io::stdout(), "{text}")?,
        Said::Err(text) => complaint(&text),
        Said::Waits => {}
        Said::Code(code) => return Ok(Some(code)),
    }
    Ok(None)
}

/// Begins a session: in the console process of the key if there is one; on the node of this machine, unless the
/// options describe another one; in a new console process.
pub(super) fn new_session(args: &NewSessionArgs) -> anyhow::Result<ExitCode> {
    let key = key()?;
    let path = socket(&key);
    let session = &args.session;
    let mut words = vec![
        "new_session".to_owned(),
        format!("--timeout={}", session.timeout),
    ];
    words.extend(session.force.then(|| "--force".to_owned()));
    words.extend(["--".to_owned(), session.name.clone()]);
    let console = match Dlc::connect_within(&path, CONNECT) {
        Ok(console) => console,
        Err(_) => match node_for(args)? {
            Some(node) => node,
            None => {
                private_directory(&path)?;
                start(&path)?;
                Dlc::connect_within(&path, CONNECT).context("the console has ended")?
            }
        },
    };
    converse(console, &key, &words, Duration::ZERO)
}

/// Returns the node of this machine if it is to be the console: two nodes with one NID on one machine would take each
/// other's messages.
fn node_for(args: &NewSessionArgs) -> anyhow::Result<Option<Dlc>> {
    let Some(mut node) = node()? else {
        return Ok(None);
    };
    if node_options().iter().all(is_log_option) {
        return Ok(Some(node));
    }
    let config = args.config.read()?;
    let is_same = shares_an_interface(&mut node, &config, args.transport.port)
        .context("cannot compare --config with the node of this machine")?;
    if !is_same {
        return Ok(None);
    }
    complaint(&format!(
        "the node of {} runs on this machine: it is the console, and the other options are without effect",
        args.config.config.display()
    ));
    Ok(Some(node))
}

/// Returns whether a configuration gives an interface or a NID that the running node has, on the same port. A
/// configuration by addresses counts if it names a network of the node.
fn shares_an_interface(node: &mut Dlc, config: &Config, port: u16) -> anyhow::Result<bool> {
    let name = "accept_port".to_owned();
    if node.request(&Request::Parameter { name })? != port.to_string() {
        return Ok(false);
    }
    let shown = node.request(&Request::Show(Show::all(Section::Net, 0)))?;
    let running = lnet_config::read(&shown)?.document.nets;
    let of = |net: Net| running.iter().filter(move |one| one.net == net);
    let is_one = |net: Net, ni: &NiConfig| {
        let same = |other: &NiShow| match ni.nid {
            Some(nid) => other.config.nid == Some(nid),
            None => {
                let names = &other.config.interfaces;
                ni.interfaces.iter().any(|name| names.contains(name))
            }
        };
        of(net).any(|one| one.nis.iter().any(same))
    };
    let by_name = config
        .nets
        .iter()
        .any(|one| one.nis.iter().any(|ni| is_one(one.net, ni)));
    let by_address = config
        .ip2nets
        .iter()
        .any(|rule| of(rule.net).next().is_some());
    Ok(by_name || by_address)
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
    let said = File::open(&log).and_then(|file| file.take(LOG_MAX).read_to_string(&mut why));
    said.with_context(|| format!("cannot start the console, nor read {}", log.display()))?;
    let _removed = fs::remove_file(&log);
    let why = why.trim().trim_start_matches("finerail: ");
    bail!("cannot start the console: {why}")
}

/// Returns whether a log filter was given, so that the console may log more than warnings.
fn is_log_asked_for() -> bool {
    env::var_os("FINERAIL_LOG").is_some() || node_options().iter().any(is_log_option)
}

/// The options of `new_session` that describe the node.
const NODE_OPTIONS: [&str; 6] = [
    "--config",
    "--port",
    "--accept",
    "--congestion",
    "--router-check-interval",
    "--log",
];

/// Returns the options of `new_session` that describe the node, with their full names.
fn node_options() -> Vec<OsString> {
    let words: Vec<String> = env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let mut options = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word.as_str(), words.get(at + 1).map(String::as_str)),
        };
        let is_it = |full: &&&str| name.len() > 2 && full.starts_with(name);
        if let (Some(full), Some(value)) = (NODE_OPTIONS.iter().find(is_it), value) {
            options.push(format!("{full}={value}").into());
        }
    }
    options
}

/// Returns whether an option with its full name is that of the log.
fn is_log_option(option: &OsString) -> bool {
    option.as_encoded_bytes().starts_with(b"--log=")
}
