//! Small files: a tree that is put over the path, beside `cp -a` of the same tree.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use serde::Serialize;

use super::chain::{Chain, Places, finerail};

/// The number of files in a directory.
const PER_DIRECTORY: u32 = 100;
/// The limit on the size of a file, in KiB.
const KIB_MAX: u32 = 16;

/// The results for the same tree on three paths.
#[derive(Serialize)]
pub(super) struct SmallFiles {
    files: u32,
    bytes: u64,
    /// The seconds of `cp -a` to a directory beside the storage.
    copied: f64,
    /// The seconds of `finerail files put`.
    put: f64,
    /// The seconds of `cp -a` into the mount, if there is one.
    through_mount: Option<f64>,
    /// The CPU seconds of the put for each process, the command's own first.
    cpu: Vec<(&'static str, f64)>,
}

impl SmallFiles {
    /// Copies a tree of so many files.
    pub(super) fn measure(places: &Places, chain: &mut Chain, files: u32) -> anyhow::Result<Self> {
        let source = places.local().join("small");
        let bytes = make(&source, files)?;
        let copied = copy(&source, &places.local().join("copied"))?;
        let services = chain.services();
        let cpu_times = || -> anyhow::Result<Vec<Duration>> {
            let own = getrusage(UsageWho::RUSAGE_CHILDREN)?;
            let micros = [own.user_time(), own.system_time()]
                .map(|time| time.tv_sec() * 1_000_000 + time.tv_usec());
            let micros = micros.iter().sum::<i64>().try_into().unwrap_or(0);
            let all = services.iter().map(|service| service.cpu_time());
            std::iter::once(Ok(Duration::from_micros(micros)))
                .chain(all)
                .collect()
        };
        let before = cpu_times()?;
        let mut command = finerail()?;
        command
            .args(["files", "put", "--recursive", "--no-verify"])
            .arg(&source)
            .arg("zoid:/put")
            .env("ZOID_SOCKET", places.socket())
            .env("ZOID_INSTANCE", places.instance());
        let put = timed(&mut command)?;
        let names = ["put"]
            .into_iter()
            .chain(services.iter().map(|service| service.name));
        let spent = cpu_times()?
            .into_iter()
            .zip(before)
            .map(|(now, then)| now.saturating_sub(then));
        let cpu = names.zip(spent.map(|time| time.as_secs_f64())).collect();
        let through_mount = match chain.mount {
            Ok(_) => Some(copy(&source, &places.mount().join("copied"))?),
            Err(_) => None,
        };
        Ok(Self {
            files,
            bytes,
            copied,
            put,
            through_mount,
            cpu,
        })
    }

    pub(super) fn text(&self) -> String {
        let Self {
            files,
            bytes,
            copied,
            put,
            ..
        } = self;
        let mut text = format!(
            "{files} small files, {} MB: files put {put:.2} s beside cp -a {copied:.2} s, {:.1} times as long",
            bytes / 1_000_000,
            put / copied
        );
        if let Some(mount) = self.through_mount {
            text += &format!(
                "; cp -a into the mount {mount:.2} s, {:.1} times",
                mount / copied
            );
        }
        let cpu: Vec<String> = self
            .cpu
            .iter()
            .map(|(name, seconds)| format!("{name} {seconds:.2} s"))
            .collect();
        text + "\n  CPU time of the put: " + &cpu.join(", ")
    }
}

/// Makes the files; returns the number of their bytes.
fn make(source: &Path, files: u32) -> anyhow::Result<u64> {
    let content = vec![0x5A; KIB_MAX as usize * 1024];
    let mut bytes = 0;
    for number in 0..files {
        let directory = source.join(format!("d{}", number / PER_DIRECTORY));
        if number % PER_DIRECTORY == 0 {
            fs::create_dir_all(&directory).context("cannot make a directory")?;
        }
        let length = (number % KIB_MAX + 1) as usize * 1024 - 1;
        fs::write(directory.join(format!("f{number}")), &content[..length])
            .context("cannot write a small file")?;
        bytes += length as u64;
    }
    Ok(bytes)
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<f64> {
    timed(Command::new("cp").arg("-a").arg(from).arg(to))
}

/// Returns the time that a command takes, in seconds.
fn timed(command: &mut Command) -> anyhow::Result<f64> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let begun = Instant::now();
    let output = command
        .output()
        .with_context(|| format!("cannot run {shown}"))?;
    ensure!(
        output.status.success(),
        "{shown} failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(begun.elapsed().as_secs_f64())
}
