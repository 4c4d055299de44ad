//! The counters of a running forwarder: a socket that sends them to every process that connects, and the client
//! of this socket.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use files_bmi::Forwarder;
use zoid_proto::Instance;

use crate::common::Negative;

/// The socket for `--stat`, open until this is dropped.
pub(super) struct Stat {
    path: PathBuf,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The timeout of one write to, or one read from, the other side.
const PATIENCE: Duration = Duration::from_secs(1);
/// Metrics that are shown even if they are 0.
const ALWAYS: [&str; 3] = ["exchanges", "clients", "memory_bytes"];

impl Stat {
    /// Listens. If this fails, the forwarder runs without `--stat`, and a warning is logged.
    pub(super) fn open(
        instance: &Instance,
        directory: Option<&Path>,
        forwarder: &Arc<Forwarder>,
    ) -> Option<Self> {
        match Self::listen(instance, directory, Arc::clone(forwarder)) {
            Ok(stat) => Some(stat),
            Err(error) => {
                tracing::warn!(%error, "--stat will not work");
                None
            }
        }
    }

    fn listen(
        instance: &Instance,
        directory: Option<&Path>,
        forwarder: Arc<Forwarder>,
    ) -> io::Result<Self> {
        let path = socket(instance, directory)?;
        // The daemon has one server, so a forwarder whose socket does not accept connections is dead.
        if UnixStream::connect(&path).is_err() {
            let _none = fs::remove_file(&path);
        }
        let listener = UnixListener::bind(&path)?;
        let ends = Arc::new(AtomicBool::new(false));
        let thread = thread::Builder::new().name("stat".to_owned()).spawn({
            let ends = Arc::clone(&ends);
            move || {
                for stream in listener.incoming() {
                    if ends.load(Ordering::Acquire) {
                        return;
                    }
                    if let Err(error) = stream.and_then(|stream| say(&forwarder, stream)) {
                        tracing::debug!(%error, "a request was not answered");
                        thread::sleep(Duration::from_millis(10));
                    }
                }
            }
        })?;
        Ok(Self {
            path,
            ends,
            thread: Some(thread),
        })
    }
}

impl Drop for Stat {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        // This connection wakes the thread, which then checks the flag.
        let woken = UnixStream::connect(&self.path);
        if let (Ok(_), Some(thread)) = (woken, self.thread.take()) {
            // A thread that panicked has ended, too.
            let _ended = thread.join();
        }
        let _gone = fs::remove_file(&self.path);
    }
}

fn say(forwarder: &Forwarder, mut stream: UnixStream) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let standing = forwarder.standing().list();
    let counts = forwarder.counters().snapshot().list();
    let lines = standing.into_iter().chain(counts);
    let lines: String = lines
        .map(|(name, _, value)| format!("{name} {value}\n"))
        .collect();
    stream.write_all(lines.as_bytes())
}

/// Returns the path of the socket of an instance.
fn socket(instance: &Instance, directory: Option<&Path>) -> io::Result<PathBuf> {
    let directory = match directory {
        Some(directory) => directory.to_path_buf(),
        None => zoidd::find_directory(sys::effective_user()).ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, "there is no directory of a daemon")
        })?,
    };
    Ok(directory.join(format!("forward.{instance}.sock")))
}

/// Carries out `--stat`.
pub(super) fn show(
    instance: &Instance,
    directory: Option<&Path>,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let asked = socket(instance, directory).and_then(|path| ask(&path));
    let values = asked.map_err(|error| {
        Negative(format!(
            "no forwarder of instance {instance} runs for this user: {error}"
        ))
    })?;
    let text = match json {
        true => {
            serde_json::to_string_pretty(&values.into_iter().collect::<BTreeMap<_, _>>())? + "\n"
        }
        false => table(&values),
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn ask(path: &Path) -> io::Result<Vec<(String, u64)>> {
    /// The limit of an answer, which is longer than any real answer.
    const ANSWER_MAX: u64 = 64 << 10;
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut text = String::new();
    stream.take(ANSWER_MAX).read_to_string(&mut text)?;
    let line = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    Ok(text.lines().filter_map(line).collect())
}

/// Formats the values that are not 0 and those of [`ALWAYS`].
fn table(values: &[(String, u64)]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["metric", "value"]);
    for (name, value) in values {
        if *value != 0 || ALWAYS.contains(&name.as_str()) {
            table.add_row([name.clone(), value.to_string()]);
        }
    }
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let lines = table.lines().map(|line| line.trim_end().to_owned() + "\n");
    lines.collect()
}
