//! `finerail mount`: mounts the files at an address as a directory of this machine.

mod options;

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::thread;

use anyhow::{Context, bail};
use files::FileSystem;
use files::dir::{Identity, LocalDirectory, Squash};
use files::mount::{Ender, MountError, Mounted};
use files::tools::Below;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{dup2_stderr, setsid};

use self::options::MountOptions;
use crate::common::{NEGATIVE, Negative, complaint, report};
use crate::files::address::Address;
use crate::files::connections::Connections;
use crate::service::{GRACE, StopSignals, raise_descriptor_limit};

/// The program name that mount(8) calls for the type `finerail`.
const HELPER: &str = "mount.finerail";
/// The exit code that mount(8) expects of a helper if the mount failed.
const HELPER_FAILED: u8 = 32;
/// The start of the line that a detached service prints when it is ready.
const READY: &str = "ready: ";

/// Inserts `mount --helper` into the arguments if the program was called as `mount.finerail`.
pub(crate) fn with_command(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let name = arguments.first().map(Path::new).and_then(Path::file_name);
    if name.is_some_and(|name| name == HELPER) {
        arguments.splice(1..1, ["mount", "--helper"].map(OsString::from));
    }
    arguments
}

/// Arguments of `finerail mount`.
#[derive(clap::Args)]
#[command(after_help = "\
ADDRESS is dir:PATH, a directory of this machine; lnet:NID[,NID…][:/PATH], below what gateways export; \
zoid:[INSTANCE][:/PATH] or bmi:tcp://HOST:PORT[:/PATH], below what a forwarder exports. Options of -o:
  ro, rw            read-only, or read and write (the default)
  allow_other       other users may use the mount, as far as permission bits allow
  actimeo=SECONDS   how long names and attributes are cached, at most 3600 [default: 1];
                    acregmin=SECONDS for files only, acdirmin=SECONDS for directories and names only
  noac              nothing is cached, and write returns when the server has all data
  threads=N         limit of operations at the same time, 1 to 256 [default: 16]
  sync              write returns when the server has all data, also of long pieces
  locks=gateway     flock and fcntl locks hold among the programs of all clients; the default
  locks=local       locks hold among the programs of this mount, and no other client sees them
  locks=refuse      locks fail (ENOLCK)
  suid, noexec, noatime   as in mount(8); nosuid is the default
  timeout=SECONDS   an operation waits so long for a server that is away, or a small multiple of it
                    [default: 60], and fails with ETIMEDOUT; Ctrl-C and SIGKILL end it at once
  config=FILE, port=PORT, accept=MODE, congestion=NAME, router_check_interval=SECONDS, stats=FILE
                    the node of this machine, for lnet: [default: /etc/lnet.conf, 988]
  mode=MODE, block=BYTES, failover=SECONDS   how several gateways are used: see 'finerail files put --help'
Options that only mount(8) uses (noauto, nofail, _netdev, user, x-…) are ignored.

The command serves until the directory is unmounted or a signal ends it. At SIGTERM it writes back mapped \
pages, unmounts, and waits 10 seconds for files that are open. With -b it returns as soon as the directory is \
mounted. mount(8), /etc/fstab and systemd call the program if it is linked as /sbin/mount.finerail:
  lnet:10.2.0.9@tcp1:/scratch  /scratch  finerail  allow_other,_netdev,nofail  0 0
docs/files-semantics.md describes the guarantees of a mount.

Examples
  finerail mount dir:/srv/scratch /mnt                 until Ctrl-C
  finerail mount -b -o ro,allow_other dir:/srv /mnt    in the background, readable by all users
  finerail mount -o config=client.yaml,port=9988 lnet:127.0.0.5@tcp /mnt
  umount /mnt
")]
pub(crate) struct MountArgs {
    /// The address of the files
    #[arg(value_name = "ADDRESS")]
    address: OsString,
    /// The directory to mount them on
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Mount options, separated by commas
    #[arg(short = 'o', long = "options", value_name = "OPTIONS")]
    options: Vec<String>,
    /// Return as soon as the directory is mounted, and serve it in the background
    #[arg(short, long)]
    background: bool,
    /// Called by mount(8)
    #[arg(long, hide = true)]
    helper: bool,
    /// The process in the background
    #[arg(long, hide = true)]
    detached: bool,
    /// Do everything except the mount itself (mount(8))
    #[arg(short = 'f', hide = true, requires = "helper")]
    fake: bool,
    /// Ignore unknown options (mount(8))
    #[arg(short = 's', hide = true, requires = "helper")]
    sloppy: bool,
    /// Accepted without effect: do not write an entry into mtab (mount(8))
    #[arg(short = 'n', hide = true, requires = "helper")]
    no_mtab: bool,
    /// Print more (mount(8))
    #[arg(short = 'v', hide = true, requires = "helper")]
    verbose: bool,
    /// The type of the mount (mount(8))
    #[arg(short = 't', hide = true, requires = "helper")]
    kind: Option<String>,
}

pub(crate) fn run(args: &MountArgs, log: &str) -> anyhow::Result<ExitCode> {
    if !args.helper {
        return mount(args, log);
    }
    // The exit codes that mount(8) expects: 1 for wrong usage, 32 for a mount that failed.
    match mount(args, log) {
        Ok(code) if code == ExitCode::from(NEGATIVE) => Ok(ExitCode::from(HELPER_FAILED)),
        Ok(code) if code == ExitCode::SUCCESS => Ok(code),
        Ok(_) => Ok(ExitCode::FAILURE),
        Err(error) if error.is::<Negative>() => {
            complaint(&format!("{error:#}"));
            Ok(ExitCode::from(HELPER_FAILED))
        }
        Err(error) => {
            report("finerail", &error);
            Ok(ExitCode::FAILURE)
        }
    }
}

fn mount(args: &MountArgs, log: &str) -> anyhow::Result<ExitCode> {
    let options = MountOptions::parse(&args.options, args.sloppy)?;
    if args.fake {
        return Ok(ExitCode::SUCCESS);
    }
    if args.background || args.helper {
        return detach(args, log);
    }
    if args.detached {
        // The leader of a session of its own gets no signals of the terminal. The call fails only if the
        // process already leads one.
        let _session = setsid();
    }
    serve(args, &options)
}

/// Starts this program again as a service in the background, and waits until the service is ready.
fn detach(args: &MountArgs, log: &str) -> anyhow::Result<ExitCode> {
    let program = env::current_exe().context("this program has no path")?;
    let mut command = Command::new(program);
    command.args(["--log", log, "mount", "--detached"]);
    for options in &args.options {
        command.args(["-o", options]);
    }
    if args.sloppy {
        command.args(["--helper", "-s"]);
    }
    command.arg("--").arg(&args.address).arg(&args.directory);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start the service")?;
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut line)?;
    }
    if line.starts_with(READY) {
        return Ok(ExitCode::SUCCESS);
    }
    // The service has printed the reason on standard error.
    let status = child.wait()?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(NEGATIVE)))
}

fn serve(args: &MountArgs, options: &MountOptions) -> anyhow::Result<ExitCode> {
    raise_descriptor_limit();
    let signals = StopSignals::register()?;
    let address = Address::parse_whole(&args.address)?;
    let mut connections = Connections::new(&options.connection);
    let (files, groups) = open(&address, &args.directory, &mut connections)?;
    let mut mount = options.mount.clone();
    mount.source = args.address.to_string_lossy().into_owned();
    mount.groups = groups;
    let mounted = Mounted::open(files, &args.directory, &mount).map_err(failure)?;
    let ready = format!("{READY}{}", mounted.directory().display());
    let ender = mounted.ender();
    if args.detached {
        leave_terminal()?;
    }
    // If `umount` ends the mount, the process must end too, so a thread waits for the signals.
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            let reload = || tracing::info!("settings cannot change while a directory is mounted");
            signals.wait_until_stopped(&ready, reload);
            end(&ender);
        })
        .context("cannot start a thread")?;
    mounted
        .wait()
        .map_err(|error| Negative(format!("the mount has ended: {error}")))?;
    connections.close()?;
    Ok(ExitCode::SUCCESS)
}

/// Unmounts. The process ends with the mount, or after [`GRACE`] if files are still open.
fn end(ender: &Ender) {
    if let Err(error) = ender.end() {
        complaint(&format!("cannot unmount: {error}"));
    }
    thread::sleep(GRACE);
    complaint("files are still open; data that is not written yet is lost");
    std::process::exit(NEGATIVE.into());
}

/// Releases the terminal and the current directory of the user who started the service.
fn leave_terminal() -> anyhow::Result<()> {
    let null = File::options().write(true).open("/dev/null")?;
    env::set_current_dir("/")?;
    dup2_stderr(&null).context("cannot detach from the terminal")?;
    Ok(())
}

fn failure(error: MountError) -> anyhow::Error {
    match error {
        MountError::Directory { .. } => error.into(),
        error => Negative(error.to_string()).into(),
    }
}

/// Opens the files at an address. The second value says whether the server acts with the identity of the
/// caller.
fn open(
    address: &Address,
    directory: &Path,
    connections: &mut Connections<'_>,
) -> anyhow::Result<(Arc<dyn FileSystem>, bool)> {
    let path = match address {
        Address::Local(path) => path,
        Address::Remote(remote) => {
            let files = connections.lasting(&remote.server)?;
            let files: Arc<dyn FileSystem> = match &remote.path {
                None => files,
                Some(path) => Arc::new(Below::new(files, path.clone())),
            };
            // The kernel has already applied the caller's umask. The server's own umask does not concern this
            // process.
            return Ok((files, true));
        }
    };
    require_outside(path, directory)?;
    // The kernel has already applied the caller's umask.
    umask(Mode::empty());
    let is_root = nix::unistd::geteuid().is_root();
    let identity = Identity::Caller {
        squash: Squash::None,
        uid: 65534,
        gid: 65534,
    };
    let with = |identity| files::dir::Options {
        identity,
        ..files::dir::Options::default()
    };
    if is_root && let Ok(files) = LocalDirectory::open(path, with(identity)) {
        return Ok((Arc::new(files), true));
    }
    // This process is not root, or is root of a user namespace without other users: it does everything as
    // itself.
    let files = LocalDirectory::open(path, with(Identity::Server))?;
    Ok((Arc::new(files), false))
}

/// Rejects a mount point below the mounted directory, because the mount would wait for itself.
fn require_outside(path: &Path, directory: &Path) -> anyhow::Result<()> {
    let (Ok(path), Ok(directory)) = (path.canonicalize(), directory.canonicalize()) else {
        return Ok(());
    };
    if directory != path && directory.starts_with(&path) {
        bail!(
            "{} is below {}: a mount there would wait for itself; mount elsewhere",
            directory.display(),
            path.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn called_as_the_helper_of_mount_it_mounts() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let called = words(&["/sbin/mount.finerail", "dir:/a", "/b", "-o", "ro"]);
        let meant = [
            "/sbin/mount.finerail",
            "mount",
            "--helper",
            "dir:/a",
            "/b",
            "-o",
            "ro",
        ];
        assert_eq!(with_command(called), words(&meant));
        assert_eq!(
            with_command(words(&["finerail", "ping"])),
            words(&["finerail", "ping"])
        );
    }

    #[test]
    fn a_directory_below_itself_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let below = directory.path().join("below");
        std::fs::create_dir(&below).unwrap();
        assert!(require_outside(directory.path(), &below).is_err());
        assert!(require_outside(directory.path(), directory.path()).is_ok());
        assert!(require_outside(&below, directory.path()).is_ok());
    }
}
