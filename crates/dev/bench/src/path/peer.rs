//! The processes of the bench: clients, and the plain programs.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::{Context, anyhow, ensure};
use bmi::Bmi;
use clap::{Args, ValueEnum};
use files::{Caller, FileSystem, Handle, Place};
use files_bmi::BmiFiles;
use nix::unistd::{getegid, geteuid};
use zoid::Zoid;
use zoid_proto::Instance;

use super::plain;
use super::task::{BLOCK, Operation, PIECE, Side, Task};
use crate::peer::{end_with_standard_input, ready};

/// Arguments of the hidden `bench path-peer`.
#[derive(Args)]
pub(crate) struct PathPeerArgs {
    role: Role,
    /// The congestion control of plain sockets
    #[arg(long)]
    congestion: String,
    /// The directory of a plain server, or the directory of a client's files without a path
    #[arg(long)]
    directory: PathBuf,
    /// The log of a plain server, or the mount of a client
    #[arg(long)]
    other: PathBuf,
    /// The daemon's socket, for a client
    #[arg(long)]
    socket: Option<PathBuf>,
    /// The daemon's name
    #[arg(long)]
    instance: Option<Instance>,
    /// Ports: of the next hop, or of the plain program with all hops and of the one with one less
    #[arg(long)]
    port: Vec<u16>,
}

/// The role of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Role {
    /// Executes tasks
    Client,
    /// The plain program at the end of a path
    PlainServer,
    /// The plain program in the middle
    PlainRelay,
}

pub(crate) fn run(args: &PathPeerArgs) -> ExitCode {
    match serve(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The bench reads this line. If the bench is gone, nothing can be done.
            let _unread = writeln!(io::stdout(), "failed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn serve(args: &PathPeerArgs) -> anyhow::Result<()> {
    let port = |index: usize| args.port.get(index).copied().context("a port is missing");
    match args.role {
        Role::PlainServer => {
            end_with_standard_input()?;
            plain::serve(&args.directory, &args.other, &args.congestion)
        }
        Role::PlainRelay => {
            end_with_standard_input()?;
            plain::relay(port(0)?, &args.congestion)
        }
        Role::Client => {
            let mut client = Client {
                args,
                path: None,
                plain: plain::Client::connect(port(0)?, &args.congestion)?,
                routed: plain::Client::connect(port(1)?, &args.congestion)?,
            };
            ready(0)?;
            for line in io::stdin().lines() {
                let task: Task = line.context("cannot read from standard input")?.parse()?;
                client.run(&task).with_context(|| task.to_string())?;
                writeln!(io::stdout(), "done").context("cannot write to standard output")?;
            }
            Ok(())
        }
    }
}

struct Client<'a> {
    args: &'a PathPeerArgs,
    /// Connected when it is first needed.
    path: Option<Arc<BmiFiles>>,
    plain: plain::Client,
    routed: plain::Client,
}

impl Client<'_> {
    fn run(&mut self, task: &Task) -> anyhow::Result<()> {
        match task.side {
            Side::Plain => self.plain.run(task),
            Side::PlainRouted => self.routed.run(task),
            Side::Local => carry_out(&Local::open(self.args.directory.clone(), task)?, task),
            // A program closes a file after it has written it, and opens a file before it reads what others have
            // written. So each task opens the file anew.
            Side::Mount => carry_out(&Local::open(self.args.other.clone(), task)?, task),
            Side::Path => {
                let files = match &self.path {
                    Some(files) => Arc::clone(files),
                    None => Arc::clone(self.path.insert(self.args.connect()?)),
                };
                carry_out(&Remote::open(files, task)?, task)
            }
        }
    }
}

impl PathPeerArgs {
    /// Connects as `finerail files` does.
    fn connect(&self) -> anyhow::Result<Arc<BmiFiles>> {
        let zoid = zoid::Options {
            instance: self.instance.clone().unwrap_or_default(),
            socket: self.socket.clone(),
            pipelined: true,
            ..zoid::Options::default()
        };
        let bmi = Bmi::builder().method(Zoid::new(zoid)).start()?;
        let options = files_bmi::ClientOptions::default();
        let files = BmiFiles::connect(Arc::new(bmi), "zoid://", options)?;
        Ok(Arc::new(files))
    }
}

/// A file, and names beside it.
trait Files: Sync {
    /// The number of pieces of [`PIECE`] bytes that one call moves.
    const PIECES: u64;

    fn write(&self, offset: u64, bytes: &[u8]) -> anyhow::Result<()>;
    fn read(&self, offset: u64, bytes: &mut [u8]) -> anyhow::Result<()>;
    fn look(&self) -> anyhow::Result<()>;
    fn make_and_remove(&self, number: u64) -> anyhow::Result<()>;
}

/// Runs a task with as many threads as operations that should be in progress at the same time.
fn carry_out<F: Files>(files: &F, task: &Task) -> anyhow::Result<()> {
    let next = AtomicU64::new(0);
    let step = match task.operation {
        Operation::Write | Operation::Read => F::PIECES,
        _ => 1,
    };
    let work = || -> anyhow::Result<()> {
        let mut memory = vec![0x5A; F::PIECES as usize * PIECE];
        loop {
            let at = next.fetch_add(step, Ordering::Relaxed);
            if at >= task.count {
                return Ok(());
            }
            let offset = at * PIECE as u64;
            let length = step.min(task.count - at) as usize * PIECE;
            match task.operation {
                Operation::Write => files.write(offset, &memory[..length])?,
                Operation::Read => files.read(offset, &mut memory[..length])?,
                Operation::Random => files.read(task.block(at), &mut memory[..BLOCK])?,
                Operation::Look => files.look()?,
                Operation::Names => files.make_and_remove(at)?,
            }
        }
    };
    thread::scope(|scope| {
        let others: Vec<_> = (1..task.depth).map(|_| scope.spawn(work)).collect();
        let own = work();
        let joined = others.into_iter().map(|other| other.join());
        let ended = joined.map(|end| end.map_err(|_| anyhow!("a thread panicked"))?);
        ended.fold(own, Result::and)
    })
}

/// Access by system calls.
struct Local {
    file: File,
    directory: PathBuf,
    number: u32,
}

impl Local {
    fn open(directory: PathBuf, task: &Task) -> anyhow::Result<Self> {
        let path = directory.join(name(task.file));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(&path);
        Ok(Self {
            file: file.with_context(|| format!("cannot open {}", path.display()))?,
            directory,
            number: task.file,
        })
    }
}

fn name(number: u32) -> String {
    format!("f{number}")
}

impl Files for Local {
    const PIECES: u64 = 1;

    fn write(&self, offset: u64, bytes: &[u8]) -> anyhow::Result<()> {
        Ok(self.file.write_all_at(bytes, offset)?)
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> anyhow::Result<()> {
        Ok(self.file.read_exact_at(bytes, offset)?)
    }

    fn look(&self) -> anyhow::Result<()> {
        fs::metadata(self.directory.join(name(self.number)))?;
        Ok(())
    }

    fn make_and_remove(&self, number: u64) -> anyhow::Result<()> {
        let path = self.directory.join(format!("n{}-{number}", self.number));
        File::create_new(&path)?;
        Ok(fs::remove_file(&path)?)
    }
}

/// Access by the calls that the tools use.
struct Remote {
    files: Arc<BmiFiles>,
    caller: Caller,
    handle: Handle,
    number: u32,
}

impl Remote {
    fn open(files: Arc<BmiFiles>, task: &Task) -> anyhow::Result<Self> {
        let caller = Caller {
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
            groups: Vec::new(),
        };
        let (entry, _) = files.create(&caller, place(&name(task.file))?, 0o644, false)?;
        Ok(Self {
            files,
            caller,
            handle: entry.handle,
            number: task.file,
        })
    }
}

fn place(name: &str) -> anyhow::Result<Place> {
    Ok(Place::of(Handle::ROOT, name.as_bytes())?)
}

impl Files for Remote {
    const PIECES: u64 = files::tools::PIECE / PIECE as u64;

    fn write(&self, offset: u64, bytes: &[u8]) -> anyhow::Result<()> {
        let count = self.files.write(&self.caller, self.handle, offset, bytes)?;
        ensure!(count == bytes.len(), "{count} bytes were written");
        Ok(())
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> anyhow::Result<()> {
        let count = self.files.read(&self.caller, self.handle, offset, bytes)?;
        ensure!(count == bytes.len(), "{count} bytes were read");
        Ok(())
    }

    fn look(&self) -> anyhow::Result<()> {
        self.files
            .lookup(&self.caller, place(&name(self.number))?)?;
        Ok(())
    }

    fn make_and_remove(&self, number: u64) -> anyhow::Result<()> {
        let name = format!("n{}-{number}", self.number);
        self.files
            .create(&self.caller, place(&name)?, 0o644, true)?;
        Ok(self
            .files
            .remove(&self.caller, place(&name)?, Some(false))?)
    }
}
