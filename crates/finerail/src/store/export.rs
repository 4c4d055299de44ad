//! The export of `finerail store serve`, and the identity with which operations on it run.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::ValueEnum;
use files::dir::{Identity, LocalDirectory, Squash};
use files_lnet::files::{FileGateway, ReplyLog, Step};
use lnet_rpc::Entropy;
use nix::sys::signal::{Signal, raise};
use nix::sys::stat::{Mode, umask};

/// The exported directory and its rules.
#[derive(clap::Args)]
pub(super) struct ExportArgs {
    /// The directory to serve; it must exist
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Reject every operation that changes the directory
    #[arg(long)]
    read_only: bool,
    /// The identity with which operations run [default: caller if root starts the gateway, otherwise server]
    #[arg(long, value_enum, value_name = "WHO")]
    identity: Option<Who>,
    /// With --identity caller: the callers that count as anonymous, as in exports(5)
    #[arg(long, value_enum, value_name = "WHOM", default_value_t = Anonymous::Root)]
    squash: Anonymous,
    /// With --identity caller: the user and group of anonymous callers
    #[arg(long, value_name = "UID:GID", default_value_t = Owner { uid: 65534, gid: 65534 })]
    anonymous: Owner,
    /// The directory is the coherent file system NAME, which other gateways serve too: clients may change between
    /// gateways of the same NAME
    #[arg(long, value_name = "NAME", value_parser = coherent_name)]
    coherent: Option<String>,
    /// A directory of this gateway alone, on a local disk, for its log of replies: operations that must not run twice then
    /// run only once, even if the gateway restarts
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Kill or stop the process at a step of an operation, for tests: STEP=kill or STEP=stop, with @N at the N-th time
    #[arg(long, hide = true)]
    failpoint: Option<Failpoint>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Who {
    /// The user whom the client names; needs root, or `CAP_SETUID` and `CAP_SETGID`
    Caller,
    /// The user who started the gateway, for all callers
    Server,
}

#[derive(Clone, Copy, ValueEnum)]
enum Anonymous {
    /// Root, and the group root of other users
    Root,
    /// No caller: a client's root is root here
    None,
    /// All callers
    All,
}

/// A user and a group.
#[derive(Clone, Copy)]
struct Owner {
    uid: u32,
    gid: u32,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.uid, self.gid)
    }
}

impl FromStr for Owner {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let ids = text.split_once(':').and_then(|(uid, gid)| {
            let (uid, gid) = (uid.parse().ok()?, gid.parse().ok()?);
            Some(Self { uid, gid })
        });
        // System calls take the highest id as "do not change".
        ids.filter(|ids| ids.uid != u32::MAX && ids.gid != u32::MAX)
            .ok_or("two numbers, a user and a group, such as 65534:65534")
    }
}

/// The step at which the process ends or stops.
#[derive(Clone, Copy)]
struct Failpoint {
    step: Step,
    signal: Signal,
    time: u64,
}

impl FromStr for Failpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "STEP=kill@N or STEP=stop@N";
        let (step, rest) = text.split_once('=').ok_or(FORM)?;
        let (action, time) = rest.split_once('@').unwrap_or((rest, "1"));
        let signal = match action {
            "kill" => Signal::SIGKILL,
            "stop" => Signal::SIGSTOP,
            _ => return Err(FORM.to_owned()),
        };
        let time = time.parse().map_err(|_| FORM)?;
        let step = step.parse()?;
        Ok(Self { step, signal, time })
    }
}

/// The file in the state directory that is there while clients have locks.
const LOCKS: &str = "locks";

impl ExportArgs {
    /// Opens a gateway to the directory. With `--state`, first completes the calls that earlier runs left in
    /// the log.
    pub(super) fn open(&self, entropy: &Entropy) -> anyhow::Result<FileGateway<LocalDirectory>> {
        // The client's kernel has already applied the caller's umask.
        umask(Mode::empty());
        if let Err(error) = files::dir::obey_quotas() {
            tracing::warn!(%error, "quotas do not apply to writes of root");
        }
        let options = files::dir::Options {
            identity: self.identity(),
            read_only: self.read_only,
            ..files::dir::Options::default()
        };
        let files = LocalDirectory::open(&self.directory, options)
            .with_context(|| format!("cannot serve {}", self.directory.display()))?;
        let files = match &self.state {
            Some(state) => files.remember_locks(state.join(LOCKS)),
            None => files,
        };
        let name = self.coherent.as_deref().unwrap_or_default();
        let mut gateway = FileGateway::new(files, entropy).coherent(name.as_bytes());
        if let Some(failpoint) = self.failpoint {
            gateway = gateway.on_step(failpoint.watch());
        }
        match &self.state {
            None => Ok(gateway),
            Some(state) => {
                let log = self.log(state, entropy)?;
                let gateway = gateway.remember(Arc::clone(&log))?;
                tracing::info!(counters = ?log.counters(), "completed the operations that were in progress");
                Ok(gateway)
            }
        }
    }

    fn log(&self, state: &Path, entropy: &Entropy) -> anyhow::Result<Arc<ReplyLog>> {
        let export = real(&self.directory)?;
        if real(state)?.starts_with(&export) {
            bail!(
                "--state {} is below {}, where clients could change it; name a directory elsewhere",
                state.display(),
                export.display()
            );
        }
        Ok(Arc::new(ReplyLog::open(state, &export, entropy)?))
    }

    /// Returns true if operations run with identities other than that of this process.
    pub(super) fn acts_as_callers(&self) -> bool {
        matches!(self.identity(), Identity::Caller { .. })
    }

    fn identity(&self) -> Identity {
        let is_root = nix::unistd::geteuid().is_root();
        let default = if is_root { Who::Caller } else { Who::Server };
        match self.identity.unwrap_or(default) {
            Who::Server => Identity::Server,
            Who::Caller => Identity::Caller {
                squash: match self.squash {
                    Anonymous::Root => Squash::Root,
                    Anonymous::None => Squash::None,
                    Anonymous::All => Squash::All,
                },
                uid: self.anonymous.uid,
                gid: self.anonymous.gid,
            },
        }
    }
}

impl fmt::Display for ExportArgs {
    /// Formats the export for the line that reports the gateway as ready.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.directory.display())?;
        if self.read_only {
            write!(f, " read-only")?;
        }
        if let Some(name) = &self.coherent {
            write!(f, " as {name}")?;
        }
        let anonymous = self.anonymous;
        match (self.identity(), self.squash) {
            (Identity::Server, _) => {
                let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
                write!(f, "; all operations run as {uid}:{gid}")?;
            }
            (_, Anonymous::Root) => {
                write!(f, "; operations run as the caller, root's as {anonymous}")?
            }
            (_, Anonymous::None) => write!(f, "; operations run as the caller, root's as root")?,
            (_, Anonymous::All) => write!(f, "; all operations run as {anonymous}")?,
        }
        match &self.state {
            Some(state) => write!(f, "; replies are kept in {}", state.display()),
            None => write!(f, "; replies are not kept across restarts"),
        }
    }
}

impl Failpoint {
    fn watch(self) -> impl Fn(Step) + Send + Sync + 'static {
        let passed = std::sync::atomic::AtomicU64::new(0);
        move |step| {
            if step == self.step
                && passed.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1 == self.time
                && raise(self.signal).is_err()
            {
                std::process::abort();
            }
        }
    }
}

fn real(path: &Path) -> anyhow::Result<PathBuf> {
    path.canonicalize()
        .with_context(|| path.display().to_string())
}

fn coherent_name(text: &str) -> Result<String, &'static str> {
    let is_good = (1..=files::COHERENT_MAX).contains(&text.len());
    if is_good && !text.chars().any(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err("a name of 1 to 255 bytes without control characters")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_and_names_are_checked() {
        assert_eq!("1:2".parse::<Owner>().unwrap().to_string(), "1:2");
        for bad in ["", "1", "1:", "a:b", "1:4294967295", "-1:1"] {
            assert!(bad.parse::<Owner>().is_err(), "{bad}");
        }
        assert!(coherent_name("scratch").is_ok());
        for bad in ["", "a\nb", &"x".repeat(256)] {
            assert!(coherent_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn failpoints_name_a_step_and_a_time() {
        let point: Failpoint = "after-intent=kill@3".parse().unwrap();
        assert_eq!((point.step, point.time), (Step::AfterIntent, 3));
        assert_eq!(point.signal, Signal::SIGKILL);
        let point: Failpoint = "before-answer=stop".parse().unwrap();
        assert_eq!((point.signal, point.time), (Signal::SIGSTOP, 1));
        for bad in [
            "",
            "after-intent",
            "nowhere=kill",
            "after-intent=stopped",
            "after-intent=stop@",
            "after-intent=kill@x",
        ] {
            assert!(bad.parse::<Failpoint>().is_err(), "{bad}");
        }
    }
}
