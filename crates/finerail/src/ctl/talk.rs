//! Talking to the node, and how what it says is printed.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use lnet_config::{Document, ErrorBlock, ErrorLayout, Reply};
use lnet_control::{Failure, Fault, Request, Section, Show};
use lnet_dlc::{Dlc, DlcError};
use lnet_store::Printable;

use super::args::WatchArgs;
use super::{Partner, Tool};
use crate::common::{complaint, default_control_path};

/// A connection that is made when it is first needed.
pub(super) struct Talk {
    path: PathBuf,
    /// How long the node may say nothing.
    patience: Duration,
    dlc: Option<Dlc>,
    /// It was said which node is changed, or need not be.
    is_named: bool,
    /// Standard input has the commands, and nothing else can be read from it.
    pub(super) in_session: bool,
}

/// Why a command failed: what is printed where, and the exit code.
#[derive(Debug)]
pub(super) enum Failed {
    /// Errors of the node, or of the request, in `lnetctl`'s layouts.
    Blocks(Vec<Failure>),
    /// A line without a number; the exit code of -22.
    Plain(String),
    /// A document that cannot be read, with the place; the exit code of -22.
    Place(String),
    /// A file that cannot be opened.
    Unreadable(Failure),
    /// A command or parameter that does not exist.
    Unknown(String),
    /// A line on standard error, and the exit code.
    Line { text: String, code: u8 },
    /// The node cannot be reached, or does not understand.
    Node(DlcError),
    /// A file, or standard output.
    Io(anyhow::Error),
}

/// The exit code that `lnetctl` gives to most errors: -22 modulo 256.
pub(super) const USAGE: u8 = 234;
/// The exit code of a file that is not there.
const NO_FILE: u8 = 254;
/// The exit code of an unknown command.
pub(super) const UNKNOWN: u8 = 255;
/// The exit code of what is not so, such as a peer that does not answer.
const NOT_SO: u8 = 1;

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
            // Whoever names the socket knows which node is meant.
            is_named: partner.node.is_some(),
            in_session: false,
        }
    }

    /// For commands that come line by line.
    pub(super) fn within_session(partner: Partner<'_>) -> Self {
        Self {
            in_session: true,
            ..Self::new(partner)
        }
    }

    /// The connection broke: the next command makes another one.
    pub(super) fn forget(&mut self) {
        self.dlc = None;
    }

    /// A section of what the node has, read.
    pub(super) fn shown(&mut self, section: Section) -> Result<Document, Failed> {
        let everything = Show::all(section, 0);
        let text = self.dlc()?.request(&Request::Show(everything))?;
        read(&text)
    }

    /// The connection.
    pub(super) fn dlc(&mut self) -> Result<&mut Dlc, Failed> {
        let dlc = match self.dlc.take() {
            Some(dlc) => dlc,
            None => Dlc::connect_within(&self.path, self.patience)?,
        };
        Ok(self.dlc.insert(dlc))
    }

    /// Whether there is a node at all.
    pub(super) fn reach(&mut self) -> Result<(), Failed> {
        self.dlc().map(|_| ())
    }

    /// Makes a request and prints the answer as it comes.
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

    /// Makes a request whose answer has no end, and takes its pieces as long as `take` says that more is wanted.
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

    /// Makes a request, and gives what is answered as a remark: on standard error, which a kernel's tool leaves empty.
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

    /// Says which node is about to be changed, when more than one runs on this machine.
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

    /// Makes a request and puts the answer into a file.
    pub(super) fn write(&mut self, request: &Request, path: &Path) -> Result<(), Failed> {
        let text = self.dlc()?.request(request)?;
        fs::write(path, text).map_err(|error| {
            Failed::Io(
                anyhow::Error::from(error).context(format!("cannot write {}", path.display())),
            )
        })
    }

    /// Prints the answer, again and again if that is wanted.
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

/// What the node answered, as a document.
pub(super) fn read(text: &str) -> Result<Document, Failed> {
    read_named(text, "the node's answer")
}

/// A text of this name, as a document.
pub(super) fn read_named(text: &str, name: &str) -> Result<Document, Failed> {
    let reading = lnet_config::read(text);
    let reading = reading.map_err(|error| Failed::Place(error.render(name)))?;
    Ok(reading.document)
}

/// Whether a request changes the node.
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
            | Request::Fault(Fault::Show { .. })
            | Request::Import { dry_run: true, .. }
    );
    !looks
}

/// The time that a request takes by itself: peers that are asked one after the other.
fn time_of(request: &Request) -> Duration {
    match request {
        Request::Ping { nids, timeout, .. } => {
            let seconds = u64::from(*timeout).saturating_mul(nids.len() as u64);
            Duration::from_secs(seconds)
        }
        _ => Duration::ZERO,
    }
}

/// Processes that are a node of this program, as far as they can be seen.
fn nodes_running() -> usize {
    let Ok(processes) = fs::read_dir("/proc") else {
        return 0;
    };
    let lines = processes.filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
    lines.filter(|line| is_node(line)).count()
}

/// Whether a command line, its words separated by zeros, runs a node.
fn is_node(line: &[u8]) -> bool {
    let mut words = line.split(|&byte| byte == 0);
    let program = words.next().unwrap_or_default();
    let name = program.rsplit(|&byte| byte == b'/').next();
    let words: Vec<&[u8]> = words.collect();
    let has = |word: &[u8]| words.contains(&word);
    name == Some(b"finerail")
        && (words.first() == Some(&b"node".as_slice()) || (has(b"store") && has(b"serve")))
}

/// Clears the terminal and puts the cursor in its corner.
const CLEAR: &[u8] = b"\x1b[2J\x1b[H";

/// Prints why a command failed, and gives the exit code.
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
            NOT_SO
        }
        Err(Failed::Io(error)) => return Err(error),
    })
}

/// Says that a command or parameter does not exist, and gives the exit code.
pub(super) fn unknown(tool: Tool, name: &str) -> io::Result<u8> {
    let name = Printable::text(name);
    let help = match tool {
        Tool::Lnetctl => "lnetctl --list-commands",
        Tool::Lctl => "lctl --help",
    };
    let tool = tool.name();
    writeln!(
        io::stderr(),
        "{tool}: '{name}' is not a valid command. See '{help}'."
    )?;
    Ok(UNKNOWN)
}

/// Prints errors: what concerns a peer's answer beside the answers, the rest as errors.
fn blocks(failures: &[Failure]) -> io::Result<u8> {
    let mut code = 0;
    for failure in failures {
        let layout = layout(failure);
        let text = match failure.descr.as_str() {
            // `lnetctl` says nothing of a peer that is not there.
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

/// Rules and parameters nest their errors, answers to pings stand among the answers (section 11.12 of
/// lnet-selection).
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
        ErrorLayout::Reply => NOT_SO,
        ErrorLayout::Flat => USAGE,
        // A remainder of a division by 256 fits.
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
