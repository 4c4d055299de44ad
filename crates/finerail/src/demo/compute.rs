//! The compute processes: the files they write through the daemon, and the manifest of what must be stored
//! afterwards.
//!
//! ```text
//!   large    files put LARGE zoid:/large-N        one large file after another, overwritten in turn
//!   small    files put -r SMALL zoid:/small-N     many small files, then a walk over them
//!   tar      tar -xf - in a mount of zoid:/       an unmodified program, where a mount is possible
//! ```
//!
//! A command that fails during a fault is retried. The manifest holds the files that were stored last.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use super::cast::this_program;
use super::data::{self, Digests, Step};
use super::world::{COMPUTE, World};

/// The number of target directories below the storage. The work writes to them in turn.
const TURNS: u64 = 2;
/// The limit of attempts of one command. The pauses between the attempts add up to more than the longest fault.
const ATTEMPTS: u32 = 12;
const PAUSE: Duration = Duration::from_millis(500);

/// State that the compute processes share.
pub(super) struct Compute<'a> {
    pub(super) world: &'a World,
    /// The daemon's socket.
    pub(super) socket: PathBuf,
    /// The directory of the source files: `large`, and `small/`.
    pub(super) source: PathBuf,
    /// The path of the mount, if there is one.
    pub(super) mount: Option<PathBuf>,
    /// Set when the work must end.
    pub(super) stop: &'a AtomicBool,
    pub(super) tally: &'a Tally,
}

/// Counters of what the compute processes did.
#[derive(Default)]
pub(super) struct Tally {
    /// Commands that completed.
    pub(super) commands: AtomicU64,
    /// Bytes of the files that those commands carried.
    pub(super) bytes: AtomicU64,
    /// Commands that failed and were retried.
    pub(super) retries: AtomicU64,
    /// The last line of each distinct error message, with the number of failures.
    pub(super) failures: Mutex<BTreeMap<String, u64>>,
    /// The stored trees: the path below the storage, and the source tree that it must equal.
    pub(super) put: Mutex<BTreeMap<String, String>>,
}

impl Tally {
    fn note_failure(&self, why: &str) {
        self.retries.fetch_add(1, Ordering::Relaxed);
        let line = why
            .lines()
            .last()
            .unwrap_or("no reason was given")
            .to_owned();
        // Code that holds this lock cannot panic, so the lock is not poisoned.
        if let Ok(mut failures) = self.failures.lock() {
            *failures.entry(line).or_default() += 1;
        }
    }

    fn note_put(&self, target: String, source: &str, bytes: u64) {
        self.commands.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if let Ok(mut put) = self.put.lock() {
            put.insert(target, source.to_owned());
        }
    }
}

impl Compute<'_> {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// Writes the large file repeatedly, until the work must end.
    pub(super) fn write_large(&self, bytes: u64) -> anyhow::Result<()> {
        let source = self.source.join("large").display().to_string();
        for turn in 0.. {
            let name = format!("large-{}", turn % TURNS);
            self.run(&["files", "put", &source, &format!("zoid:/{name}")])?;
            self.tally.note_put(name, "large", bytes);
            if !self.goes_on() {
                break;
            }
        }
        Ok(())
    }

    /// Writes the small files repeatedly, and walks over them, until the work must end.
    pub(super) fn write_small(&self, bytes: u64) -> anyhow::Result<()> {
        let source = self.source.join("small").display().to_string();
        for turn in 0.. {
            let name = format!("small-{}", turn % TURNS);
            let target = format!("zoid:/{name}");
            if turn >= TURNS {
                self.run(&["files", "rm", "-r", &target])?;
            }
            self.run(&["files", "put", "-r", &source, &target])?;
            self.tally.note_put(name, "small", bytes);
            self.run(&["files", "du", &target])?;
            if !self.goes_on() {
                break;
            }
        }
        Ok(())
    }

    /// Unpacks an archive of the small files into the mount. `tar` is a program that does not know Finerail.
    pub(super) fn unpack(&self, bytes: u64) -> anyhow::Result<()> {
        let Some(mount) = &self.mount else {
            return Ok(());
        };
        let target = mount.join("tar");
        std::fs::create_dir_all(&target)
            .with_context(|| format!("cannot make {}", target.display()))?;
        loop {
            self.pipe_tar(&target)?;
            self.tally.note_put("tar/small".to_owned(), "small", bytes);
            if !self.goes_on() {
                return Ok(());
            }
        }
    }

    fn pipe_tar(&self, target: &Path) -> anyhow::Result<()> {
        let tar = |words: &[&str], directory: &Path| {
            let mut command = Command::new("tar");
            command.arg("-C").arg(directory).args(words);
            command
        };
        for _ in 0..ATTEMPTS {
            let mut pack = tar(&["-cf", "-", "small"], &self.source);
            let mut pack = pack
                .stdout(Stdio::piped())
                .spawn()
                .context("cannot run 'tar'")?;
            let archive = pack.stdout.take().context("'tar' has no output")?;
            let mut unpack = tar(&["-xf", "-"], target);
            unpack
                .stdin(archive)
                .stdout(Stdio::null())
                .stderr(Stdio::piped());
            let unpacked = unpack.output().context("cannot run 'tar'")?;
            let packed = pack.wait().context("cannot wait for 'tar'")?;
            if packed.success() && unpacked.status.success() {
                return Ok(());
            }
            self.tally
                .note_failure(&String::from_utf8_lossy(&unpacked.stderr));
            std::thread::sleep(PAUSE);
        }
        bail!("'tar' failed {ATTEMPTS} times in a row");
    }

    /// Runs a command to its end, and retries it if it fails.
    pub(super) fn run(&self, words: &[&str]) -> anyhow::Result<()> {
        let mut why = String::new();
        for _ in 0..ATTEMPTS {
            match self.run_once(words)? {
                Ok(()) => {
                    self.tally.commands.fetch_add(1, Ordering::Relaxed);
                    return Ok(());
                }
                Err(failure) => why = failure,
            }
            self.tally.note_failure(&why);
            std::thread::sleep(PAUSE);
        }
        bail!(
            "'finerail {}' failed {ATTEMPTS} times in a row: {why}",
            words.join(" ")
        )
    }

    fn run_once(&self, words: &[&str]) -> anyhow::Result<Result<(), String>> {
        let mut command = self.command(words)?;
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let child = self.world.spawn(COMPUTE, &mut command)?;
        let output = child
            .wait_with_output()
            .context("cannot wait for a process")?;
        if output.status.success() {
            return Ok(Ok(()));
        }
        Ok(Err(String::from_utf8_lossy(&output.stderr)
            .trim()
            .to_owned()))
    }

    /// Returns a command that runs this program and connects to the daemon of the demo.
    pub(super) fn command(&self, words: &[&str]) -> anyhow::Result<Command> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let mut command = this_program(&words)?;
        command.env("ZOID_SOCKET", &self.socket);
        Ok(command)
    }
}

/// The files that must be below the storage: the BLAKE3 digest of every file, in hexadecimal digits, by path.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) files: BTreeMap<String, String>,
}

impl Manifest {
    /// Returns the manifest of all trees that were stored.
    pub(super) fn of(put: &BTreeMap<String, String>, source: &Digests) -> Self {
        let mut files = BTreeMap::new();
        for (target, tree) in put {
            for (path, digest) in source {
                if let Ok(below) = path.strip_prefix(tree) {
                    let path = Path::new(target).join(below);
                    let path = path.components().collect::<PathBuf>();
                    files.insert(path.display().to_string(), digest.to_hex().to_string());
                }
            }
        }
        Self { files }
    }

    /// Compares every file below `storage` with the manifest. Returns at most ten differences, and the number
    /// of bytes read.
    pub(super) fn verify(
        &self,
        storage: &Path,
        step: &Step<'_>,
    ) -> anyhow::Result<(Vec<String>, u64)> {
        let (found, amount) = data::digests(storage, step)?;
        let mut wanted = Digests::new();
        for (path, hex) in &self.files {
            let digest = blake3::Hash::from_hex(hex);
            let digest = digest.with_context(|| format!("{path} has no digest in the manifest"))?;
            wanted.insert(path.into(), digest);
        }
        Ok((data::differences(&wanted, &found, 10), amount.bytes))
    }

    pub(super) fn write(&self, directory: &Path) -> anyhow::Result<()> {
        let path = directory.join(MANIFEST);
        let text = serde_json::to_string_pretty(self)?;
        sys::write_file(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    pub(super) fn read(directory: &Path) -> anyhow::Result<Self> {
        let path = directory.join(MANIFEST);
        let text =
            std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_slice(&text)
            .with_context(|| format!("{} is not a manifest", path.display()))
    }
}

const MANIFEST: &str = "manifest.json";
