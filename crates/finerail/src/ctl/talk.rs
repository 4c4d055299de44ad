//! The connection to the node, and the output of its answers.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use files_lnet::Printable;
use lnet_config::{Document, ErrorBlock, ErrorLayout, Reply};
use lnet_dlc::protocol::{Failure, Fault, Request, Section, Show};
use lnet_dlc::{Dlc, DlcError};
use lnet_types::Net;

use super::args::WatchArgs;
use super::{Partner, Tool};
use crate::common::{complaint, default_control_path};

/// A connection to a node, made when it is first needed.
pub(super) struct Talk {
    path: PathBuf,
    /// The timeout of the node's answers.
    patience: Duration,
    dlc: Option<Dlc>,
    /// Whether the user named the node, or the node's name has been printed already.
    is_named: bool,
    /// Whether commands come from standard input, so that no document can be read from it.
    pub(super) in_session: bool,
    /// The network that `lctl network NET` chose.
    pub(super) net: Option<Net>,
}

/// Why a command failed. It decides the output and the exit code.
#[derive(Debug)]
pub(super) enum Failed {
    /// Errors of the node or of the request, in the layouts of `lnetctl`.
    Blocks(Vec<Failure>),
    /// A line without an error number; the exit code is that of -22.
    Plain(String),
    /// A document that cannot be parsed, with the place of the error; the exit code is that of -22.
    Place(String),
    /// A file that cannot be opened.
    Unreadable(Failure),
    /// A command or parameter that does not exist.
    Unknown(String),
    /// A line on standard error, and the exit code.
    Line { text: String, code: u8 },
    /// The node cannot be reached, or does not understand the request.
    Node(DlcError),
    /// An error of a file or of standard output.
    Io(anyhow::Error),
}

/// The exit code of most errors of `lnetctl`: -22 modulo 256.
pub(super) const USAGE: u8 = 234;
/// The exit code for a missing file.
const NO_FILE: u8 = 254;
/// The exit code for an unknown command.
pub(super) const UNKNOWN: u8 = 255;
/// The exit code for a negative result, such as a peer that does not answer.
const NEGATIVE: u8 = 1;

impl Failed {
    pub(super) fn plain(text: &str) -> Self {
        Self::Plain(text.to_owned())
    }

    pub(super) fn unknown(name: &str) -> Self {
        Self::Unknown(name.to_owned())
    }

    pub(super) fn unreadable(name: &str, error: &io::Error) -> Self {
        let why = error.to_string();
        let why = why.split(" (os error").next().unwrap_or(&why);
        Self::Unreadable(Failure {
            verb: "yaml".to_owned(),
            entity: "builder".to_owned(),
            errno: -1,
            descr: format!("cannot open '{name}': {why}"),
            seq_no: None,
        })
    }

    pub(super) fn block(verb: &str, entity: &str, errno: i32, descr: impl Into<String>) -> Self {
        Self::Blocks(vec![Failure {
            verb: verb.to_owned(),
            entity: entity.to_owned(),
            errno,
            descr: descr.into(),
            seq_no: None,
        }])
    }
}

impl From<DlcError> for Failed {
    fn from(error: DlcError) -> Self {
        match error {
            DlcError::Rejected(failures) => Self::Blocks(failures),
            other => Self::Node(other),
        }
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::Io(error.into())
    }
}

impl Talk {
    pub(super) fn new(partner: Partner<'_>) -> Self {
        Self {
            path: partner
                .node
                .map_or_else(default_control_path, Path::to_owned),
            patience: partner.patience,
            dlc: None,
            // A user who names the socket knows which node it is.
            is_named: partner.node.is_some(),
            in_session: false,
            net: None,
        }
    }

    /// Creates a connection for commands that come line by line.
    pub(super) fn within_session(partner: Partner<'_>) -> Self {
        Self {
            in_session: true,
            ..Self::new(partner)
        }
    }

    /// Drops the connection after an error. The next command makes a new connection.
    pub(super) fn forget(&mut self) {
        self.dlc = None;
    }

    /// Requests a section of the node and parses it.
    pub(super) fn shown(&mut self, section: Section) -> Result<Document, Failed> {
        let everything = Show::all(section, 0);
        let text = self.dlc()?.request(&Request::Show(everything))?;
        read(&text)
    }

    /// Returns the connection; connects if there is none.
    pub(super) fn dlc(&mut self) -> Result<&mut Dlc, Failed> {
        let dlc = match self.dlc.take() {
            Some(dlc) => dlc,
            None => Dlc::connect_within(&self.path, self.patience)?,
        };
        Ok(self.dlc.insert(dlc))
    }

    /// Checks that the node can be reached.
    pub(super) fn reach(&mut self) -> Result<(), Failed> {
        self.dlc().map(|_| ())
    }

    /// Sends a request, and prints the answer while it arrives.
    pub(super) fn print(&mut self, request: &Request) -> Result<(), Failed> {
        if is_change(request) {
            self.name_the_node()?;
        }
        let own_time = time_of(request);
        let patience = self.patience.saturating_add(own_time);
        self.dlc()?.set_timeout(patience)?;
        let mut out = io::stdout().lock();
        let mut unprinted = None;
        let done = self.dlc()?.request_pieces(request, |piece| {
            if unprinted.is_none() {
                unprinted = out.write_all(piece.as_bytes()).err();
            }
        });
        if let Some(error) = unprinted {
            return Err(error.into());
        }
        out.flush()?;
        Ok(done?)
    }

    /// Sends a request whose answer has no end. Reads pieces of the answer until `take` returns `false`.
    pub(super) fn follow(
        &mut self,
        request: &Request,
        mut take: impl FnMut(&str) -> io::Result<bool>,
    ) -> Result<(), Failed> {
        let mut failed = None;
        let followed = self.dlc()?.request_while(request, |piece| {
            take(piece).unwrap_or_else(|error| {
                failed = Some(error);
                false
            })
        });
        self.forget();
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(followed?),
        }
    }

    /// Sends a request, and prints the answer on standard error: for these requests `lnetctl` prints nothing on
    /// standard output.
    pub(super) fn remark(&mut self, request: &Request) -> Result<(), Failed> {
        if is_change(request) {
            self.name_the_node()?;
        }
        let remark = self.dlc()?.request(request)?;
        for line in remark.lines() {
            complaint(line);
        }
        Ok(())
    }

    /// Names the node that is about to be changed, if several nodes run on this machine and the user did not
    /// name one.
    fn name_the_node(&mut self) -> Result<(), Failed> {
        if std::mem::replace(&mut self.is_named, true) || nodes_running() < 2 {
            return Ok(());
        }
        let nets = self.shown(Section::Net)?.nets;
        let nids = nets
            .iter()
            .flat_map(|net| &net.nis)
            .filter_map(|ni| ni.config.nid);
        let nids: Vec<String> = nids
            .filter(|nid| !nid.is_loopback())
            .map(|nid| nid.to_string())
            .collect();
        let process = self.dlc()?.process();
        let process = process.map_or_else(String::new, |process| format!(", process {process}"));
        let name = match nids.as_slice() {
            [] => "a node without networks".to_owned(),
            nids => format!("the node {}", nids.join(", ")),
        };
        complaint(&format!(
            "several nodes run here; this one is changed: {name} (at {}{process})",
            self.path.display()
        ));
        Ok(())
    }

    /// Sends a request, and writes the answer to a file.
    pub(super) fn write(&mut self, request: &Request, path: &Path) -> Result<(), Failed> {
        let text = self.dlc()?.request(request)?;
        sys::write_file(path, text).map_err(|error| {
            Failed::Io(
                anyhow::Error::from(error).context(format!("cannot write {}", path.display())),
            )
        })
    }

    /// Prints the answer to a request; with `--watch`, repeats this.
    pub(super) fn watch(&mut self, args: &WatchArgs, request: &Request) -> Result<(), Failed> {
        let Some(seconds) = args.watch else {
            return self.print(request);
        };
        loop {
            if io::stdout().is_terminal() {
                io::stdout().write_all(CLEAR)?;
            }
            self.print(request)?;
            thread::sleep(Duration::from_secs(seconds.into()));
        }
    }
}

/// Parses an answer of the node.
pub(super) fn read(text: &str) -> Result<Document, Failed> {
    read_named(text, "the node's answer")
}

/// Parses a text as a document with this name.
pub(super) fn read_named(text: &str, name: &str) -> Result<Document, Failed> {
    let reading = lnet_config::read(text);
    let reading = reading.map_err(|error| Failed::Place(error.render(name)))?;
    Ok(reading.document)
}

/// Returns whether a request changes the node.
const fn is_change(request: &Request) -> bool {
    let looks = matches!(
        request,
        Request::Show(_)
            | Request::Export { .. }
            | Request::Ping {
                discover: false,
                ..
            }
            | Request::SelectionState
            | Request::Numbers
            | Request::RecordStatus
            | Request::Watch { .. }
            | Request::RpcNumbers
            | Request::WatchRpcs(_)
            | Request::Fault(Fault::Show { .. })
            | Request::Import { dry_run: true, .. }
    );
    !looks
}

/// Returns the time that a request itself needs: the node asks peers one after the other.
fn time_of(request: &Request) -> Duration {
    match request {
        Request::Ping { nids, timeout, .. } => {
            let seconds = u64::from(*timeout).saturating_mul(nids.len() as u64);
            Duration::from_secs(seconds)
        }
        _ => Duration::ZERO,
    }
}

/// Returns the number of processes that run a node of this program, as far as this user can see them.
fn nodes_running() -> usize {
    let Ok(processes) = fs::read_dir("/proc") else {
        return 0;
    };
    let lines = processes.filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
    lines.filter(|line| is_node(line)).count()
}

/// Returns whether a command line runs a node. Zero bytes separate its words.
fn is_node(line: &[u8]) -> bool {
    let mut words = line.split(|&byte| byte == 0);
    let program = words.next().unwrap_or_default();
    let name = program.rsplit(|&byte| byte == b'/').next();
    let words: Vec<&[u8]> = words.collect();
    let has = |word: &[u8]| words.contains(&word);
    name == Some(b"finerail")
        && (words.first() == Some(&b"node".as_slice()) || (has(b"store") && has(b"serve")))
}

/// Clears the terminal and moves the cursor to the top left corner.
const CLEAR: &[u8] = b"\x1b[2J\x1b[H";

/// Prints why a command failed, and returns the exit code.
pub(super) fn exit(done: Result<(), Failed>) -> anyhow::Result<u8> {
    Ok(match done {
        Ok(()) => 0,
        Err(Failed::Plain(text)) => {
            writeln!(io::stdout(), "{text}")?;
            USAGE
        }
        Err(Failed::Place(text)) => {
            complaint(&text);
            USAGE
        }
        Err(Failed::Unreadable(failure)) => {
            blocks(&[failure])?;
            NO_FILE
        }
        Err(Failed::Unknown(name)) => unknown(Tool::Lnetctl, &name)?,
        Err(Failed::Line { text, code }) => {
            writeln!(io::stderr(), "{text}")?;
            code
        }
        Err(Failed::Blocks(failures)) => blocks(&failures)?,
        Err(Failed::Node(error)) => {
            complaint(&format!("{error}"));
            NEGATIVE
        }
        Err(Failed::Io(error)) => return Err(error),
    })
}

/// Reports that a command or parameter does not exist, and returns the exit code.
pub(super) fn unknown(tool: Tool, name: &str) -> io::Result<u8> {
    let name = Printable::text(name);
    let help = match tool {
        Tool::Lnetctl => "lnetctl --list-commands",
        Tool::Lctl => "lctl --list-commands",
    };
    let tool = tool.name();
    writeln!(
        io::stderr(),
        "{tool}: '{name}' is not a valid command. See '{help}'."
    )?;
    Ok(UNKNOWN)
}

/// Prints errors. Errors of peers' answers go to standard output with the answers, all others to standard
/// error. Returns the exit code.
fn blocks(failures: &[Failure]) -> io::Result<u8> {
    let mut code = 0;
    for failure in failures {
        let layout = layout(failure);
        let text = match failure.descr.as_str() {
            // `lnetctl` prints nothing for a peer that does not exist.
            "" => String::new(),
            _ => document(failure, layout).to_yaml(),
        };
        match layout {
            ErrorLayout::Reply => io::stdout().write_all(text.as_bytes())?,
            ErrorLayout::Flat | ErrorLayout::Nested => io::stderr().write_all(text.as_bytes())?,
        }
        code = exit_code(failure, layout);
    }
    Ok(code)
}

/// Returns the layout of an error. Errors of rules and parameters are nested; failed pings appear among the
/// answers.
// [CONF-9]
fn layout(failure: &Failure) -> ErrorLayout {
    match (failure.verb.as_str(), failure.entity.as_str()) {
        ("manage", "ping" | "discover") if failure.descr.starts_with("failed to") => {
            ErrorLayout::Reply
        }
        (_, "net" | "route" | "peer" | "import" | "ping" | "discover") => ErrorLayout::Flat,
        _ => ErrorLayout::Nested,
    }
}

fn exit_code(failure: &Failure, layout: ErrorLayout) -> u8 {
    match layout {
        ErrorLayout::Reply => NEGATIVE,
        ErrorLayout::Flat => USAGE,
        // A remainder modulo 256 fits into a byte.
        ErrorLayout::Nested => failure.errno.rem_euclid(256) as u8,
    }
}

fn document(failure: &Failure, layout: ErrorLayout) -> Document {
    let block = ErrorBlock {
        verb: failure.verb.clone(),
        entity: failure.entity.clone(),
        seq_no: failure.seq_no.and_then(|number| u32::try_from(number).ok()),
        errno: failure.errno.into(),
        descr: failure.descr.clone(),
        layout,
    };
    Document {
        replies: vec![Reply::Failure(block)],
        ..Document::default()
    }
}
