//! The process of a session.

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
use crate::common::{ConfigArgs, NOT_SO, TransportArgs};
use crate::service::{GRACE, raise_descriptor_limit, raise_on_signals};

/// Arguments of the hidden command.
#[derive(clap::Args)]
pub(super) struct ConsoleArgs {
    /// Where it listens
    #[arg(long)]
    socket: PathBuf,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    transport: TransportArgs,
}

/// What the threads of a console share.
pub(super) struct Shared {
    console: Mutex<Console<TestNode>>,
    spoken: Mutex<Instant>,
    talking: AtomicUsize,
    pub(super) is_over: AtomicBool,
}

/// Commands that run at the same time.
const COMMANDS_MAX: usize = 16;
/// How often nodes that may take the console for dead are looked for (section 11.7).
const KEEP_ALIVE: Duration = Duration::from_secs(8);
/// How often the end is looked for.
const LOOK: Duration = Duration::from_millis(200);
/// A command that does not arrive is not waited for longer.
const PATIENCE: Duration = Duration::from_secs(10);

impl Shared {
    pub(super) fn console(&self) -> MutexGuard<'_, Console<TestNode>> {
        self.console.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spoken(&self) -> MutexGuard<'_, Instant> {
        self.spoken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody has said anything for as long as the session allows.
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
    let interrupted = raise_on_signals().context("cannot take signals")?;
    let node = lnet_noded::start(&config, TestNode::driving(args.transport.options()))
        .with_context(|| format!("cannot start the node of {}", args.config.config.display()))?
        .into_node();
    let test_node = TestNode::start(node.clone()).context("cannot start the test node")?;
    // What an earlier console left; one that lives was connected to.
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
    // A session that its nodes do not end now, they end by themselves.
    let _ended = shared.console().end_session();
    node.shutdown(GRACE);
    let log = log_path(&args.socket);
    if fs::metadata(&log).is_ok_and(|it| it.len() == 0) {
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
    // A command that was interrupted reads no more.
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
        Ok(false) => NOT_SO,
        Err(error) => {
            let _unread = out.err(&format!("{error:#}"));
            if error.is::<ConsoleError>() {
                NOT_SO
            } else {
                USAGE
            }
        }
    }
}

/// What a command sees.
pub(super) struct Output<'a>(&'a UnixStream);

impl Output<'_> {
    /// A line of output.
    pub(super) fn out(&mut self, text: impl ToString) -> io::Result<()> {
        self.line(&Line::Out(text.to_string()))
    }

    /// A complaint.
    pub(super) fn err(&mut self, text: &str) -> io::Result<()> {
        self.line(&Line::Err(text.to_owned()))
    }

    fn line(&mut self, line: &Line) -> io::Result<()> {
        let text = serde_json::to_string(line)? + "\n";
        self.0.write_all(text.as_bytes())
    }

    /// Waits; an error where the command has gone meanwhile.
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
