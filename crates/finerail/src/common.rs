//! What several commands share: logging, errors, the arguments that describe a node, reading of input files.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::io::{self, IsTerminal, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use files_lnet::Printable;
use lnet_config::Config;
use lnet_node::{AcceptMode, Globals, Node, NodeOptions, SourcePorts};
use lnet_noded::{
    ControlEndpoint, ControlOptions, ManagedNode, MetricsEndpoint, MetricsOptions, Service,
};
use lnet_policy::Profile;
use lnet_site::SavedTargets;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::Group;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

/// Exit code: the command ran and the result is negative, such as a failed check or a peer that did not answer.
pub const NEGATIVE: u8 = 1;
/// Exit code: wrong usage or bad input.
pub const BAD_INPUT: u8 = 2;

/// A failure that the user's input did not cause: the process exits with 1 ([`NEGATIVE`]) instead of 2.
#[derive(Debug)]
pub struct Negative(pub String);

impl fmt::Display for Negative {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Negative {}

/// Prints the error of a program with its causes and returns the exit code of the process. A closed pipe on
/// standard output (its reader has ended) is not an error.
pub fn report(program: &str, error: &anyhow::Error) -> ExitCode {
    let broken_pipe = |cause: &(dyn std::error::Error + 'static)| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    };
    if error.chain().any(broken_pipe) && is_output_closed() {
        return ExitCode::SUCCESS;
    }
    print_complaint(program, &format!("{error:#}"));
    let code = if error.chain().any(|cause| cause.is::<Negative>()) {
        NEGATIVE
    } else {
        BAD_INPUT
    };
    ExitCode::from(code)
}

/// Returns whether nobody reads standard output any more. A node that closes a connection gives the same error as a closed
/// pipe.
fn is_output_closed() -> bool {
    let out = io::stdout();
    let mut polled = [PollFd::new(out.as_fd(), PollFlags::empty())];
    let known = poll(&mut polled, PollTimeout::ZERO).is_ok();
    let [out] = polled;
    let closed = PollFlags::POLLERR | PollFlags::POLLHUP;
    known && out.revents().is_some_and(|flags| flags.intersects(closed))
}

/// Prints what is wrong with the arguments, or the help that they ask for, and returns the exit code.
pub fn print_usage(error: &clap::Error) -> u8 {
    // The output is closed: there is no other place to report the error.
    let _unprinted = error.print();
    u8::try_from(error.exit_code()).unwrap_or(BAD_INPUT)
}

/// Writes an error message to standard error. Control characters are escaped, because a message can contain
/// file names from any source.
pub fn complaint(text: &str) {
    print_complaint("finerail", text);
}

fn print_complaint(program: &str, text: &str) {
    // Standard error is closed or its disk is full: there is no other place to report the error.
    let _unprinted = writeln!(io::stderr(), "{program}: {}", Shown(text));
}

/// Text of several lines, displayed with control characters escaped, so that it cannot send commands to the
/// terminal.
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, line) in self.0.split('\n').enumerate() {
            if number > 0 {
                f.write_char('\n')?;
            }
            fmt::Display::fmt(&Printable::text(line), f)?;
        }
        Ok(())
    }
}

/// Writes to `out` and flushes it.
pub fn print_bytes(bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
    out.write_all(bytes)?;
    out.flush()
}

/// Returns the name of the called command: the first argument that is not an option, nor the value of `--log`.
pub fn command_of(arguments: &[OsString]) -> Option<&OsStr> {
    let mut rest = arguments.iter().skip(1);
    while let Some(word) = rest.next() {
        if word == "--log" {
            rest.next();
        } else if !word.as_encoded_bytes().starts_with(b"-") {
            return Some(word);
        }
    }
    None
}

/// Logging.
#[derive(clap::Args)]
pub struct LogArgs {
    /// What to log to standard error: error, warn, info, debug, trace, or a filter such as
    /// `lnet_tcp=debug,info`
    #[arg(
        long,
        value_name = "FILTER",
        default_value = "warn",
        env = "FINERAIL_LOG",
        hide_env_values = true,
        global = true
    )]
    log: String,
}

impl LogArgs {
    /// Returns the filter as it was given.
    pub fn filter(&self) -> &str {
        &self.log
    }

    /// Starts logging. If the filter cannot be parsed, logs with `warn` and reports the bad filter as a
    /// warning.
    pub fn start(&self) {
        let parsed = log_filter(&self.log);
        let bad = parsed.as_ref().err().cloned();
        let lines = tracing_subscriber::fmt::layer()
            .with_ansi(io::stderr().is_terminal())
            .with_writer(io::stderr);
        tracing_subscriber::registry()
            .with(parsed.unwrap_or_else(|_| Targets::new().with_default(LevelFilter::WARN)))
            .with(lines)
            .init();
        if let Some(error) = bad {
            tracing::warn!(
                filter = self.log,
                error,
                "cannot read the log filter; using 'warn'"
            );
        }
    }
}

/// Reads a filter of levels and modules.
fn log_filter(text: &str) -> Result<Targets, String> {
    let filter: Targets = text.parse().map_err(|error| format!("{error}"))?;
    let is_module = |name: &str| {
        let mut bytes = name.bytes();
        bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':' | b'-'))
    };
    // A word that is no level is taken for a module.
    match filter.iter().find(|(name, _)| !is_module(name)) {
        Some((name, _)) => Err(format!("'{name}' is neither a level nor a module")),
        None => Ok(filter),
    }
}

/// How a node uses the operating system's network.
#[derive(clap::Args, Clone)]
pub struct TransportArgs {
    /// TCP port to listen on and to dial; below 1024 needs CAP_NET_BIND_SERVICE
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = NodeOptions::LNET_PORT,
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    pub port: u16,
    /// The source ports that may connect [default: secure on a port below 1024, all otherwise]
    #[arg(long, value_enum, value_name = "MODE")]
    accept: Option<Accept>,
    /// TCP congestion control of the node's connections, such as cubic or reno [default: the system's]
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,
    /// Seconds between two pings of a gateway; 0: no pings
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    router_check_interval: u32,
}

/// The variants of selection and health that a node can follow.
#[derive(Clone, Copy, ValueEnum)]
pub enum ProfileName {
    /// The design documents
    Design,
    /// Shipping kernels, as 2.16 behaves
    Lustre,
    /// Shipping kernels, as 2.17 behaves
    #[value(name = "lustre-2.17")]
    Lustre217,
}

impl From<ProfileName> for Profile {
    fn from(name: ProfileName) -> Self {
        match name {
            ProfileName::Design => Self::Design,
            ProfileName::Lustre => Self::Lustre,
            ProfileName::Lustre217 => Self::Lustre217,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Accept {
    /// Source ports up to 1023 only, as kernel nodes do
    Secure,
    /// Any source port
    All,
    /// Do not listen
    None,
}

impl TransportArgs {
    /// Returns the options of a node with these arguments.
    pub fn options(&self) -> NodeOptions {
        NodeOptions {
            port: self.port,
            accept: self.accept.map(|mode| match mode {
                Accept::Secure => AcceptMode::Secure,
                Accept::All => AcceptMode::All,
                Accept::None => AcceptMode::None,
            }),
            congestion: self.congestion.clone(),
            globals: Globals {
                alive_router_check_interval: Duration::from_secs(self.router_check_interval.into()),
                ..Globals::default()
            },
            ..NodeOptions::default()
        }
    }

    /// Returns the same options, except that the node dials from any source port, which needs no privilege.
    pub fn unprivileged_options(&self) -> NodeOptions {
        NodeOptions {
            source_ports: Some(SourcePorts::Any),
            ..self.options()
        }
    }
}

/// What a node that serves others may use of the machine, and how it behaves.
#[derive(clap::Args, Clone)]
pub struct ServiceArgs {
    /// I/O threads; a router with several fast links has the highest throughput with one thread for each link
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    io_threads: u16,
    /// How long to poll for work before sleeping, such as 50us or 1ms; 0: no polling. Polling shortens response times and
    /// costs CPU time
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = spin)]
    spin: Duration,
    /// Behave like the design documents, or like shipping kernels; `global: profile` of the configuration has precedence
    #[arg(long, value_enum, value_name = "NAME", default_value = "design")]
    profile: ProfileName,
    /// Accept a peer only if it connects from the address of its NID. Kernel nodes do not check this. A peer behind address
    /// translation, or with several addresses on one network, may be refused. `global: match_addresses` of the
    /// configuration has precedence
    #[arg(long)]
    match_addresses: bool,
}

/// The longest spin. A node checks all of its state once a second, so a longer spin has no use.
const SPIN_MAX: Duration = Duration::from_secs(1);

/// Parses the time of `--spin`: `0`, `50us`, `20ms`, `1s`.
pub fn spin(text: &str) -> Result<Duration, String> {
    let unit = text.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let number: Option<u64> = text.strip_suffix(unit).and_then(|text| text.parse().ok());
    let span = number.and_then(|number| match unit {
        "us" => Some(Duration::from_micros(number)),
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "" if number == 0 => Some(Duration::ZERO),
        _ => None,
    });
    let span = span.filter(|&span| span <= SPIN_MAX);
    span.ok_or_else(|| "write a time such as 50us, 1ms or 0, at most 1s".to_owned())
}

impl ServiceArgs {
    /// Returns `options` with the settings of these arguments.
    pub fn on(&self, options: NodeOptions) -> NodeOptions {
        NodeOptions {
            globals: Globals {
                profile: self.profile.into(),
                ..options.globals
            },
            io_threads: self.io_threads,
            spin: self.spin,
            match_addresses: self.match_addresses,
            log_news: true,
            ..options
        }
    }
}

/// Where a node is controlled.
#[derive(clap::Args, Clone)]
pub struct ControlArgs {
    /// Unix socket over which the node is controlled [default: finerail/control.sock in
    /// $XDG_RUNTIME_DIR, or in /run]
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// Let the members of this group control the node too
    #[arg(long, value_name = "GROUP")]
    control_group: Option<String>,
    /// Do not open a control socket
    #[arg(long, conflicts_with_all = ["control", "control_group"])]
    no_control: bool,
}

impl ControlArgs {
    /// Opens the node's control endpoint. An error at a path or for a group that the user named is returned. An
    /// error at the default path is only logged, because that path may belong to another node or to root.
    pub fn open(&self, node: &ManagedNode) -> anyhow::Result<Control> {
        if self.no_control {
            return Ok(Control::Unwanted);
        }
        let options = ControlOptions {
            path: self.control.clone().unwrap_or_else(default_control_path),
            group: self.control_group.as_deref().map(group).transpose()?,
        };
        match ControlEndpoint::open(node, &options) {
            Ok(endpoint) => Ok(Control::At(endpoint)),
            Err(error) if self.control.is_none() && self.control_group.is_none() => {
                tracing::warn!(%error, "this node has no control socket; --control SOCKET names another path");
                Ok(Control::Not(error.to_string()))
            }
            Err(error) => Err(error).context("cannot open the control socket"),
        }
    }
}

/// The result of opening the control endpoint.
pub enum Control {
    /// The node is controlled at this endpoint until the endpoint is dropped.
    At(ControlEndpoint),
    /// The node is not controlled, because of `--no-control`.
    Unwanted,
    /// The node is not controlled, for this reason.
    Not(String),
}

impl fmt::Display for Control {
    /// Formats the end of the line that reports the node as ready.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(endpoint) => write!(f, "controlled at {}", endpoint.path().display()),
            Self::Unwanted => f.write_str("not controlled (--no-control)"),
            Self::Not(why) => write!(f, "not controlled: {why} (--control SOCKET)"),
        }
    }
}

/// Returns the default path of the control socket of this user's node.
pub fn default_control_path() -> PathBuf {
    lnet_dlc::protocol::default_socket_path(env::var_os("XDG_RUNTIME_DIR").as_deref())
}

/// Returns the number of a group that is given by its name or number.
fn group(name: &str) -> anyhow::Result<u32> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let group = Group::from_name(name).with_context(|| format!("cannot look up group {name}"))?;
    let group = group.with_context(|| format!("there is no group '{name}'"))?;
    Ok(group.gid.as_raw())
}

/// Where a node serves its metrics.
#[derive(clap::Args, Clone)]
pub struct MetricsArgs {
    /// Serve metrics for Prometheus at http://ADDRESS/metrics: ADDRESS:PORT, or a PORT of 127.0.0.1
    #[arg(long, value_name = "ADDRESS", value_parser = metrics_address)]
    metrics: Option<SocketAddr>,
}

impl MetricsArgs {
    /// Opens the node's metrics endpoint, if `--metrics` asks for it.
    pub fn open(&self, node: &Node) -> anyhow::Result<Option<MetricsEndpoint>> {
        let Some(address) = self.metrics else {
            return Ok(None);
        };
        let endpoint = MetricsEndpoint::open(node, &MetricsOptions::at(address))?;
        tracing::info!(address = %endpoint.address(), "metrics are served");
        Ok(Some(endpoint))
    }
}

impl MetricsArgs {
    /// Opens the metrics endpoint of a node and the service on it, if `--metrics` asks for it.
    pub fn open_with(
        &self,
        node: &Node,
        service: Arc<Service>,
    ) -> anyhow::Result<Option<MetricsEndpoint>> {
        let Some(address) = self.metrics else {
            return Ok(None);
        };
        let endpoint = MetricsEndpoint::open_with(node, &MetricsOptions::at(address), service)?;
        tracing::info!(address = %endpoint.address(), "metrics are served");
        Ok(Some(endpoint))
    }

    /// Opens the node's metrics endpoint with lines of something beside it, if `--metrics` asks for it.
    pub fn open_beside(
        &self,
        node: &Node,
        lines: impl Fn() -> String + Send + Sync + 'static,
    ) -> anyhow::Result<Option<MetricsEndpoint>> {
        let Some(address) = self.metrics else {
            return Ok(None);
        };
        let endpoint = MetricsEndpoint::open_beside(node, &MetricsOptions::at(address), lines)?;
        tracing::info!(address = %endpoint.address(), "metrics are served");
        Ok(Some(endpoint))
    }

    /// Opens the metrics endpoint of a service that has no node, if `--metrics` asks for it.
    pub fn open_text(
        &self,
        text: impl Fn() -> String + Send + Sync + 'static,
    ) -> anyhow::Result<Option<MetricsEndpoint>> {
        let Some(address) = self.metrics else {
            return Ok(None);
        };
        let endpoint = MetricsEndpoint::open_text(address, text)?;
        tracing::info!(address = %endpoint.address(), "metrics are served");
        Ok(Some(endpoint))
    }
}

/// Parses the address of `--metrics`. A port alone means 127.0.0.1: metrics show which nodes talk to each
/// other, so they leave the machine only if the user names another address.
pub fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse() {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    text.parse()
        .map_err(|_| "neither a port nor an IP address with a port".to_owned())
}

/// Where a node writes its counters.
#[derive(clap::Args, Clone)]
pub struct StatsArgs {
    /// Write the node's counters to this file when it ends (JSON)
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
}

impl StatsArgs {
    /// Writes the counters of a node, if `--stats` asks for it.
    pub fn write(&self, node: &Node) -> anyhow::Result<()> {
        let Some(path) = &self.stats else {
            return Ok(());
        };
        let text = serde_json::to_string_pretty(&node.stats())? + "\n";
        sys::write_file(path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Where a node's configuration is.
#[derive(clap::Args, Clone)]
pub struct ConfigArgs {
    /// The node's configuration: the YAML that lnetctl imports
    #[arg(long, value_name = "FILE", default_value = lnet_config::DEFAULT_PATH)]
    pub config: PathBuf,
}

impl ConfigArgs {
    /// Reads the configuration. Error messages name the file, line and key.
    pub fn read(&self) -> anyhow::Result<Config> {
        self.read_as("--config")
    }

    /// Reads the configuration. `word` is the argument that names the file, for error messages.
    pub fn read_as(&self, word: &str) -> anyhow::Result<Config> {
        let is_default = self.config == Path::new(lnet_config::DEFAULT_PATH);
        let read = read_config(&self.config);
        match read {
            Err(error) if is_default && !self.config.exists() => {
                Err(error.context(format!("no {word} is given")))
            }
            read => read,
        }
    }
}

/// Reads a node's configuration again and applies the differences, all of them or none. If the configuration
/// cannot be read or applied, the node stays unchanged, and a warning is logged.
pub fn reload(node: &ManagedNode, config: &ConfigArgs) {
    let done = config
        .read()
        .and_then(|wanted| Ok(node.reconfigure(&wanted)?));
    match done {
        Ok(changes) => tracing::info!(changes, "the configuration was read again"),
        Err(error) => tracing::warn!("the configuration was read again and rejected: {error:#}"),
    }
}

/// Reads a configuration file. Error messages name the file, line and key.
pub fn read_config(path: &Path) -> anyhow::Result<Config> {
    let name = path.display().to_string();
    let text = read_text(path).with_context(|| format!("cannot read {name}"))?;
    lnet_config::parse(&text).map_err(|error| anyhow::anyhow!("{}", error.render(&name)))
}

/// Reads the targets of a file system, as `finerail doctor mount --save` writes them.
///
/// # Errors
///
/// The file cannot be read, or is another file.
pub fn read_targets(path: &Path) -> anyhow::Result<SavedTargets> {
    let name = path.display();
    let text = read_text(path).with_context(|| format!("cannot read {name}"))?;
    serde_json::from_str(&text)
        .with_context(|| format!("{name} is not what `finerail doctor mount --save` writes"))
}

/// Reads a file, at most one byte more than the limit of a configuration. The extra byte lets the parser reject
/// the file as too long.
pub fn read_text(path: &Path) -> io::Result<String> {
    read_limited(path, lnet_config::MAX_BYTES as u64)
}

/// Reads a text file, at most one byte more than `limit`. The extra byte lets the caller reject the file as too
/// long.
pub fn read_limited(path: &Path, limit: u64) -> io::Result<String> {
    let read = || limited(File::open(path)?, limit);
    match is_regular(path) {
        true => read(),
        false => while_waiting(&path.display().to_string(), read),
    }
}

/// Reads standard input, at most one byte more than the limit of a configuration.
pub fn read_standard_input() -> io::Result<String> {
    let read = || limited(io::stdin().lock(), lnet_config::MAX_BYTES as u64);
    while_waiting("standard input", read)
}

/// Opens a file for reading. For a named pipe, this call returns when another process opens the pipe for
/// writing.
pub fn open(path: &Path) -> io::Result<File> {
    match is_regular(path) {
        true => File::open(path),
        false => while_waiting(&path.display().to_string(), || File::open(path)),
    }
}

fn is_regular(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file())
}

/// The number of bytes after which `limited` examines what it has read.
const BLOCK: u64 = 1 << 20;

/// The longest character has four bytes.
const CHARACTER_MAX: usize = 4;

/// Reads text block by block, so that a source that is no text is refused at its first such block.
fn limited(source: impl Read, limit: u64) -> io::Result<String> {
    let mut source = source.take(limit + 1);
    let (mut text, mut rest) = (String::new(), Vec::new());
    loop {
        let count = source.by_ref().take(BLOCK).read_to_end(&mut rest)?;
        let valid = rest.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        let length = valid.len();
        if let Some(at) = valid.find('\0') {
            let why = format!("no text: byte {} is 0", text.len() + at + 1);
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        text.push_str(valid);
        rest.drain(..length);
        // A block may end inside a character.
        if rest.len() >= CHARACTER_MAX || (count == 0 && !rest.is_empty()) {
            let why = "stream did not contain valid UTF-8";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        if count == 0 {
            return Ok(text);
        }
    }
}

/// How long `while_waiting` waits before it prints a message.
const SILENCE: Duration = Duration::from_secs(2);

/// Runs work that may block. If the work takes longer than [`SILENCE`], prints what the program waits for to
/// standard error; otherwise the program would seem to hang.
fn while_waiting<T>(for_what: &str, work: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let (done, watch) = mpsc::channel::<()>();
        let tell = move || {
            if watch.recv_timeout(SILENCE) == Err(RecvTimeoutError::Timeout) {
                complaint(&format!("waiting for {for_what}"));
            }
        };
        // If the thread cannot be started, no message is printed; the work runs nevertheless.
        let _untold = thread::Builder::new().spawn_scoped(scope, tell);
        let result = work();
        drop(done);
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_closes_a_connection_is_no_closed_output() {
        let error = io::Error::new(io::ErrorKind::BrokenPipe, "the node has ended");
        let error = anyhow::Error::new(error).context("cannot ask the node");
        let code = format!("{:?}", report("finerail", &error));
        assert_eq!(code, format!("{:?}", ExitCode::from(BAD_INPUT)));
    }

    #[test]
    fn a_source_that_is_no_text_is_refused_at_its_first_block() {
        let mut endless = io::repeat(0xff).take(1 << 30);
        let error = limited(&mut endless, 1 << 30).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(endless.limit() >= (1 << 30) - 2 * BLOCK);
    }

    #[test]
    fn zeros_are_no_text() {
        let mut endless = io::repeat(0).take(1 << 30);
        let error = limited(&mut endless, 1 << 30).unwrap_err();
        assert_eq!(error.to_string(), "no text: byte 1 is 0");
        assert!(endless.limit() >= (1 << 30) - 2 * BLOCK);
        let late = "a".repeat(BLOCK as usize) + "b\0";
        let error = limited(late.as_bytes(), 2 * BLOCK).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("no text: byte {} is 0", BLOCK + 2)
        );
    }

    #[test]
    fn characters_on_the_border_of_two_blocks_are_read_and_those_that_are_cut_are_refused() {
        for before in BLOCK - 4..=BLOCK {
            let text = "a".repeat(before as usize) + "😀é";
            assert_eq!(limited(text.as_bytes(), 2 * BLOCK).unwrap(), text);
            let cut = &text.as_bytes()[..text.len() - 1];
            assert!(limited(cut, 2 * BLOCK).is_err(), "{before}");
        }
        // One byte more than the limit tells that a text is too long.
        assert_eq!(limited(&b"abcd"[..], 2).unwrap(), "abc");
        assert_eq!(limited(&b""[..], 2).unwrap(), "");
    }

    #[test]
    fn a_spin_is_a_time_with_its_unit_of_at_most_a_second() {
        assert_eq!(spin("0"), Ok(Duration::ZERO));
        assert_eq!(spin("50us"), Ok(Duration::from_micros(50)));
        assert_eq!(spin("20ms"), Ok(Duration::from_millis(20)));
        assert_eq!(spin("1s"), Ok(SPIN_MAX));
        for wrong in [
            "",
            "50",
            "us",
            "-1us",
            "1.5ms",
            "2s",
            "1m",
            "99999999999999999999us",
        ] {
            assert!(spin(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_complaint_keeps_its_lines_and_nothing_else_that_moves_the_cursor() {
        let shown = Shown("a\x1b[2J\u{202e}b:1\n  | x\r").to_string();
        assert_eq!(shown, "a\\u{1b}[2J\\u{202e}b:1\n  | x\\r");
    }

    #[test]
    fn the_command_stands_behind_the_options_of_all_commands() {
        let of = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            command_of(&words).map(|word| word.to_str().unwrap().to_owned())
        };
        assert_eq!(of("finerail convert --log x").unwrap(), "convert");
        assert_eq!(of("finerail --log debug ctl net").unwrap(), "ctl");
        assert_eq!(of("finerail --log=debug ctl").unwrap(), "ctl");
        assert_eq!(of("finerail --help"), None);
    }

    #[test]
    fn metrics_stay_on_this_machine_unless_an_address_says_otherwise() {
        let parsed = |text| metrics_address(text).map(|address| address.to_string());
        assert_eq!(parsed("9123").unwrap(), "127.0.0.1:9123");
        assert_eq!(parsed("0.0.0.0:9123").unwrap(), "0.0.0.0:9123");
        assert_eq!(parsed("[::1]:9123").unwrap(), "[::1]:9123");
        for bad in ["", "host", "1.2.3.4", "70000", "host:9123"] {
            assert!(parsed(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_configuration_without_end_is_refused() {
        let error = read_config(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(
            format!("{error:#}"),
            "cannot read /dev/zero: no text: byte 1 is 0"
        );
    }
}
