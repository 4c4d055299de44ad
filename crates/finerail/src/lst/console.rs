//! The console: the process of a session.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser;
use lnet_selftest::console::Console;
use lnet_selftest::{ConsoleError, TestNode};

use super::talk::{LINE_MAX, Line, USAGE, log_path};
use super::{ConsoleCommand, Words, commands};
use crate::common::{ConfigArgs, NEGATIVE, TransportArgs};
use crate::service::{GRACE, raise_descriptor_limit, raise_on_signals};

/// Arguments of the hidden command.
#[derive(clap::Args)]
pub(super) struct ConsoleArgs {
    /// The socket of the console
    #[arg(long)]
    socket: PathBuf,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    transport: TransportArgs,
}

/// The state that the threads of a console share.
pub(super) struct Shared {
    console: Mutex<Console<TestNode>>,
    spoken: Mutex<Instant>,
    talking: AtomicUsize,
    pub(super) is_over: AtomicBool,
}

/// The limit of commands that run at the same time. Connections beyond it are closed.
const COMMANDS_MAX: usize = 16;
/// The interval of keepalives to nodes that would otherwise consider the console dead.
// [LST-17]
const KEEP_ALIVE: Duration = Duration::from_secs(8);
/// The interval of the checks whether the console must end.
const LOOK: Duration = Duration::from_millis(200);
/// How long the console waits for a command line after a connection was opened.
const PATIENCE: Duration = Duration::from_secs(10);

impl Shared {
    pub(super) fn console(&self) -> MutexGuard<'_, Console<TestNode>> {
        self.console.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spoken(&self) -> MutexGuard<'_, Instant> {
        self.spoken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether no command has come for the session's timeout, or for 30 s if there is no session.
    fn is_idle(&self) -> bool {
        let silence = self.spoken().elapsed();
        let console = self.console();
        let timeout_s = console.session().map_or(30, |session| session.timeout_s);
        self.talking.load(Ordering::Acquire) == 0
            && silence >= Duration::from_secs(timeout_s.into())
    }
}

pub(super) fn run(args: &ConsoleArgs) -> anyhow::Result<ExitCode> {
    let config = args.config.read()?;
    raise_descriptor_limit();
    let interrupted = raise_on_signals().context("cannot register signal handlers")?;
    let node = lnet_noded::start(&config, TestNode::driving(args.transport.options()))
        .with_context(|| format!("cannot start the node of {}", args.config.config.display()))?
        .into_node();
    let test_node = TestNode::start(node.clone()).context("cannot start the test node")?;
    // A dead console can leave its socket. No console listens there: `new_session` tries to connect first.
    let _absent = fs::remove_file(&args.socket);
    let listener = UnixListener::bind(&args.socket)
        .with_context(|| format!("cannot listen at {}", args.socket.display()))?;
    let shared = Arc::new(Shared {
        console: Mutex::new(Console::new(test_node)),
        spoken: Mutex::new(Instant::now()),
        talking: AtomicUsize::new(0),
        is_over: AtomicBool::new(false),
    });
    writeln!(io::stdout(), "ready")?;
    let accepting = Arc::clone(&shared);
    thread::spawn(move || accept(&listener, &accepting));
    let mut looked = Instant::now();
    while !shared.is_over.load(Ordering::Acquire) && !interrupted.load(Ordering::Acquire) {
        thread::sleep(LOOK);
        if looked.elapsed() >= KEEP_ALIVE {
            looked = Instant::now();
            shared.console().keep_alive();
        }
        if shared.is_idle() {
            break;
        }
    }
    let _removed = fs::remove_file(&args.socket);
    // Nodes that this call does not reach end the session by themselves.
    let _ended = shared.console().end_session();
    node.shutdown(GRACE);
    let log = log_path(&args.socket);
    if fs::metadata(&log).is_ok_and(|metadata| metadata.len() == 0) {
        let _removed = fs::remove_file(log);
    }
    Ok(ExitCode::SUCCESS)
}

fn accept(listener: &UnixListener, shared: &Arc<Shared>) {
    for stream in listener.incoming().flatten() {
        if shared.talking.fetch_add(1, Ordering::AcqRel) >= COMMANDS_MAX {
            shared.talking.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        let talking = Arc::clone(shared);
        thread::spawn(move || {
            talk(&stream, &talking);
            *talking.spoken() = Instant::now();
            talking.talking.fetch_sub(1, Ordering::AcqRel);
        });
    }
}

fn talk(stream: &UnixStream, shared: &Shared) {
    let mut out = Output(stream);
    let limited = stream.set_read_timeout(Some(PATIENCE));
    let mut line = String::new();
    let read = BufReader::new(stream.take(LINE_MAX)).read_line(&mut line);
    if limited.and(read).is_err() {
        return;
    }
    let code = match serde_json::from_str::<Vec<String>>(&line) {
        Ok(words) => carry_out(&words, shared, &mut out),
        Err(_) => USAGE,
    };
    // An interrupted command does not read the exit code.
    let _unread = out.line(&Line::Code(code));
}

fn carry_out(words: &[String], shared: &Shared, out: &mut Output<'_>) -> u8 {
    let command: ConsoleCommand = match Words::try_parse_from(words) {
        Ok(words) => words.command,
        Err(error) => {
            let _unread = out.err(error.to_string().trim_end());
            return USAGE;
        }
    };
    match commands::carry_out(command, shared, out) {
        Ok(true) => 0,
        Ok(false) => NEGATIVE,
        Err(error) => {
            let _unread = out.err(&format!("{error:#}"));
            if error.is::<ConsoleError>() {
                NEGATIVE
            } else {
                USAGE
            }
        }
    }
}

/// The output that a command sees.
pub(super) struct Output<'a>(&'a UnixStream);

impl Output<'_> {
    /// Sends a line for standard output.
    pub(super) fn out(&mut self, text: impl ToString) -> io::Result<()> {
        self.line(&Line::Out(text.to_string()))
    }

    /// Sends an error message.
    pub(super) fn err(&mut self, text: &str) -> io::Result<()> {
        self.line(&Line::Err(text.to_owned()))
    }

    fn line(&mut self, line: &Line) -> io::Result<()> {
        let text = serde_json::to_string(line)? + "\n";
        self.0.write_all(text.as_bytes())
    }

    /// Waits for `time`. Returns an error if the command has ended before.
    pub(super) fn pause(&mut self, time: Duration) -> io::Result<()> {
        self.0.set_read_timeout(Some(time))?;
        let mut byte = [0];
        match self.0.read(&mut byte) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                ) =>
            {
                Ok(())
            }
            Err(error) => Err(error),
            Ok(_) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}
