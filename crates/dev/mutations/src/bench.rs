//! A copy of the workspace in which mutations are built and tested.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::Value;
use tempfile::TempDir;

use crate::list::Mutation;
use crate::place::Catalogue;

/// Far longer than any of the tests runs.
const TEST_TIME_MAX: Duration = Duration::from_secs(120);

/// The result of a mutation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The tests that failed.
    Caught(Vec<String>),
    /// The test did not end.
    Hung,
    /// The test passed.
    Survived,
    /// The code did not compile; holds the first error.
    DidNotCompile(String),
}

impl Fate {
    /// Returns whether the test noticed the mutation.
    #[must_use]
    pub fn is_caught(&self) -> bool {
        matches!(self, Self::Caught(_) | Self::Hung)
    }
}

/// A copy of the workspace, which is removed when this value is dropped.
#[derive(Debug)]
pub struct Bench {
    tree: TempDir,
    target: PathBuf,
}

impl Bench {
    /// Copies all files that Git tracks or does not ignore. Builds go to `target`, which is kept
    /// between runs.
    ///
    /// # Errors
    ///
    /// Errors of Git or the file system.
    pub fn new(root: &Path, target: &Path) -> anyhow::Result<Self> {
        let tree = tempfile::tempdir()?;
        let listed = Command::new("git")
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .current_dir(root)
            .output()
            .context("git")?;
        let names = String::from_utf8(listed.stdout)?;
        for name in names.split('\0').filter(|name| !name.is_empty()) {
            let (from, to) = (root.join(name), tree.path().join(name));
            // The file was deleted, but Git still lists it.
            if !from.is_file() {
                continue;
            }
            fs::create_dir_all(to.parent().unwrap_or(tree.path()))?;
            fs::copy(&from, &to).with_context(|| name.to_owned())?;
        }
        Ok(Self {
            tree,
            target: target.to_owned(),
        })
    }

    /// Runs the tests of these mutations without any mutation.
    ///
    /// # Errors
    ///
    /// A test is missing or fails, so that the run would prove nothing.
    pub fn check(&self, catalogue: &Catalogue, of: &[&Mutation]) -> anyhow::Result<()> {
        let binaries = match self.build(&catalogue.package)? {
            Ok(binaries) => binaries,
            Err(error) => bail!("{} does not compile: {error}", catalogue.package),
        };
        for mutation in of {
            match self.run(catalogue, &binaries, &mutation.test)? {
                Fate::Survived => {}
                other => bail!("{} without any mutation: {other:?}", mutation.test),
            }
        }
        Ok(())
    }

    /// Applies one mutation, and returns its result.
    ///
    /// # Errors
    ///
    /// The place is missing, or the file system, Cargo or the test failed.
    pub fn test_mutation(
        &self,
        catalogue: &Catalogue,
        mutation: &Mutation,
    ) -> anyhow::Result<Fate> {
        let path = self
            .tree
            .path()
            .join(&catalogue.directory)
            .join(&mutation.file);
        let text = fs::read_to_string(&path).with_context(|| mutation.file.clone())?;
        fs::write(&path, mutation.apply(&text)?)?;
        let fate = self.fate(catalogue, mutation);
        fs::write(&path, text)?;
        fate
    }

    fn fate(&self, catalogue: &Catalogue, mutation: &Mutation) -> anyhow::Result<Fate> {
        match self.build(&catalogue.package)? {
            Ok(binaries) => self.run(catalogue, &binaries, &mutation.test),
            Err(error) => Ok(Fate::DidNotCompile(error)),
        }
    }

    /// Builds the tests of a package. Returns their binaries, or the compiler's first error.
    fn build(&self, package: &str) -> anyhow::Result<Result<Vec<PathBuf>, String>> {
        let built = Command::new(env!("CARGO"))
            .args(["test", "--no-run", "--offline", "--lib", "--tests"])
            .args(["--message-format=json", "--package", package])
            .env("CARGO_TARGET_DIR", &self.target)
            .current_dir(self.tree.path())
            .stderr(Stdio::null())
            .output()
            .context("cargo")?;
        let stdout = String::from_utf8_lossy(&built.stdout);
        let messages = || {
            stdout
                .lines()
                .filter_map(|line| serde_json::from_str(line).ok())
        };
        if !built.status.success() {
            let mut errors = messages().filter_map(|message: Value| {
                let message = message.get("message")?;
                let error = message.get("level")?.as_str()? == "error";
                error.then(|| message.get("message")?.as_str().map(str::to_owned))?
            });
            return Ok(Err(errors
                .next()
                .unwrap_or_else(|| "no message".to_owned())));
        }
        let binaries = messages().filter_map(|message: Value| {
            let is_test = message.get("profile")?.get("test")?.as_bool()?;
            is_test.then(|| message.get("executable")?.as_str().map(PathBuf::from))?
        });
        Ok(Ok(binaries.collect()))
    }

    /// Runs a test by name in the binary that has it.
    fn run(&self, catalogue: &Catalogue, binaries: &[PathBuf], test: &str) -> anyhow::Result<Fate> {
        let mut ran = 0;
        for binary in binaries {
            let output = tempfile::NamedTempFile::new()?;
            let child = Command::new(binary)
                .arg(test)
                .current_dir(self.tree.path().join(&catalogue.directory))
                .stdout(output.reopen()?)
                .stderr(Stdio::null())
                .spawn()
                .with_context(|| binary.display().to_string())?;
            if !ends(child)? {
                return Ok(Fate::Hung);
            }
            let report = fs::read_to_string(output.path())?;
            let failed = results(&report, "FAILED");
            if !failed.is_empty() {
                return Ok(Fate::Caught(failed));
            }
            ran += results(&report, "ok").len();
        }
        if ran == 0 {
            bail!("{} has no test {test}", catalogue.package);
        }
        Ok(Fate::Survived)
    }
}

/// Waits for a test. Returns whether it ended by itself.
fn ends(mut child: Child) -> anyhow::Result<bool> {
    let begun = Instant::now();
    while child.try_wait()?.is_none() {
        if begun.elapsed() > TEST_TIME_MAX {
            child.kill()?;
            child.wait()?;
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(true)
}

/// Returns the names of the tests with this result.
fn results(report: &str, how: &str) -> Vec<String> {
    let lines = report.lines().filter_map(|line| {
        let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
        (result.trim() == how).then(|| name.to_owned())
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_parsed_from_the_report_of_a_test() {
        let report = "running 2 tests\ntest a::b ... ok\ntest c ... FAILED\n\nfailures:\n    c\n";
        assert_eq!(results(report, "FAILED"), ["c"]);
        assert_eq!(results(report, "ok"), ["a::b"]);
    }
}
