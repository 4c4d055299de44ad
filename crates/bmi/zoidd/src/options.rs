//! The daemon's settings: names, defaults, checks.
//!
//! A setting is a name and a text. Later sources override earlier ones:
//!
//! ```text
//! compiled defaults → configuration file → environment → command line
//! ```
//!
//! A configuration file has one `name = value` per line; `#` begins a comment. The names are those of
//! [`SETTINGS`], which are also the names of the long flags:
//!
//! ```text
//! # two gigabytes between daemon and server
//! total = 2G
//! unexp = 4M
//! listen = 0.0.0.0:7320
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::Group;
use zoid_proto::Instance;

use crate::failpoint::Failpoints;
use crate::size::{parse_milliseconds, parse_size};

/// Every setting: its name and a one-line description.
pub const SETTINGS: [(&str, &str); 22] = [
    ("instance", "name of this daemon and its pset"),
    ("directory", "where lock, journal and sockets are"),
    ("socket", "path of the clients' Unix socket"),
    (
        "listen",
        "address and port for clients over TCP; empty: none",
    ),
    (
        "group",
        "name or number of a group that may use the daemon too; empty: none",
    ),
    ("total", "bytes of the segment shared with the server"),
    ("unexp", "bytes of it for unexpected messages"),
    ("max-unexpected", "bytes of the largest unexpected message"),
    ("max-expected", "bytes of the largest expected message"),
    (
        "hugepages",
        "auto, 2M, 1G or off: pages of the system's reserve, or transparent ones if it is empty",
    ),
    (
        "prefault",
        "on, off or auto: touch the segment's pages in the background; auto: up to 1G",
    ),
    (
        "hold-ms",
        "how long a server's post waits for the call that follows a client's test; 0: no wait",
    ),
    (
        "stall-ms",
        "how long a transfer may be without progress before it fails",
    ),
    (
        "reattach-ms",
        "how long the state of a client is kept after its connection broke; 0: not at all",
    ),
    (
        "heartbeat-ms",
        "how often an idle client is pinged; it is lost after three silent intervals",
    ),
    ("max-clients", "clients at the same time"),
    ("bulk-slots", "large inbound transfers at the same time"),
    (
        "credits",
        "unexpected slots reserved for each client; 0: none",
    ),
    (
        "spin-us",
        "microseconds that the daemon polls before it sleeps, for a daemon with a core of its own",
    ),
    (
        "client-memory",
        "on, auto or off: copy large messages from and to the memory of clients of this machine",
    ),
    (
        "unexp-share",
        "limit of the unexpected memory that one client may use, in per cent",
    ),
    (
        "job-weights",
        "large transfers of a job per turn, as JOB:WEIGHT,...; 1 for jobs not listed",
    ),
];

/// Environment variables that are settings.
pub const VARIABLES: [(&str, &str); 7] = [
    ("ZOID_SPIN_US", "spin-us"),
    ("ZBMI_SHM_SIZE_TOTAL", "total"),
    ("ZBMI_SHM_SIZE_UNEXP", "unexp"),
    ("ZOID_MAX_UNEXPECTED_MSG", "max-unexpected"),
    ("ZOID_MAX_EXPECTED_MSG", "max-expected"),
    ("ZOID_INSTANCE", "instance"),
    ("ZOID_SOCKET", "socket"),
];

/// Whether the segment's pages are touched at the start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Prefault {
    /// If the segment has at most 1 GiB.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

impl Prefault {
    /// Returns whether a segment of `total` bytes is to be touched.
    #[must_use]
    pub const fn wanted(self, total: u64) -> bool {
        match self {
            Self::Auto => total <= 1 << 30,
            Self::On => true,
            Self::Off => false,
        }
    }
}

/// Whether messages are copied directly from and to clients' memory.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ClientMemory {
    /// Messages use the stream.
    Off,
    /// Like [`ClientMemory::On`], but obstacles are not logged as warnings.
    #[default]
    Auto,
    /// If the system allows it; otherwise the stream is used and the reason logged once.
    On,
}

/// The pages of the segment.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum HugePages {
    /// The machine's normal pages.
    #[default]
    Off,
    /// Like [`HugePages::Huge2M`], but an empty reserve is not logged as a warning.
    Auto,
    /// 2 MiB pages of the system's reserve. If it does not have enough, normal pages with the advice to use
    /// transparent huge pages.
    Huge2M,
    /// The same with 1 GiB pages.
    Huge1G,
}

/// The daemon's settings.
///
/// ```
/// let mut options = zoidd::Options::default();
/// options.set("command line", "total", "2G")?;
/// assert_eq!(options.total, 2 << 30);
/// assert!(options.set("command line", "total", "much").is_err());
/// # Ok::<(), zoidd::SettingError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of the instance.
    pub instance: Instance,
    /// The directory of lock, journal and sockets; the user's runtime directory if `None`.
    pub directory: Option<PathBuf>,
    /// The clients' Unix-domain socket; in the directory if `None`.
    pub socket: Option<PathBuf>,
    /// The TCP address for clients.
    pub listen: Option<SocketAddr>,
    /// A group that may use queues, segment and socket besides the owner.
    pub group: Option<u32>,
    /// The size of both regions in bytes (R4).
    pub total: u64,
    /// The size of the unexpected region in bytes (R5).
    pub unexpected: u64,
    /// The longest unexpected message in bytes (R2).
    pub max_unexpected: u64,
    /// The longest expected message in bytes (R3).
    pub max_expected: u64,
    /// The pages of the segment.
    pub huge_pages: HugePages,
    /// Whether to touch the segment's pages at the start.
    pub prefault: Prefault,
    /// How long a post is held (R57).
    pub hold: Duration,
    /// How long a transfer may make no progress (R57).
    pub stall: Duration,
    /// How long a client keeps its place after its connection broke.
    pub reattach: Duration,
    /// The time limit of draining.
    pub drain: Duration,
    /// The interval of the clients' heartbeats.
    pub heartbeat: Duration,
    /// The most clients.
    pub max_clients: usize,
    /// The most large inbound transfers at once.
    pub bulk_slots: u32,
    /// The number of unexpected slots reserved for each client.
    pub credits: u32,
    /// How long the daemon polls before it sleeps, at most 10 ms.
    pub spin: Duration,
    /// Whether messages are copied directly from and to local clients' memory.
    pub client_memory: ClientMemory,
    /// The most percent of the unexpected memory for one client, 1 to 100.
    pub unexpected_share: u32,
    /// The number of large transfers that each job, by number, begins per turn; 1 for jobs not listed.
    pub job_weights: BTreeMap<u32, u32>,
    /// Places where tests make the daemon stop or die; none in normal operation.
    pub failpoints: Failpoints,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            instance: Instance::default(),
            directory: None,
            socket: None,
            listen: None,
            group: None,
            // [BOUND-3]
            total: 512 << 20,
            // [BOUND-4]
            unexpected: 1 << 20,
            // [BOUND-1]
            max_unexpected: 8192,
            // [BOUND-2]
            max_expected: 128 << 20,
            huge_pages: HugePages::Off,
            prefault: Prefault::Auto,
            hold: Duration::from_millis(2),
            stall: Duration::from_secs(5),
            reattach: Duration::ZERO,
            drain: Duration::from_secs(10),
            heartbeat: Duration::from_secs(2),
            // [BOUND-9]
            max_clients: 4096,
            bulk_slots: 2,
            credits: 0,
            spin: Duration::ZERO,
            client_memory: ClientMemory::default(),
            unexpected_share: 100,
            job_weights: BTreeMap::new(),
            failpoints: Failpoints::default(),
        }
    }
}

/// Why a setting is rejected.
#[derive(Debug, thiserror::Error)]
pub enum SettingError {
    /// No such setting.
    #[error("{place}: there is no setting {name:?}; the settings are: {}", names())]
    Unknown {
        /// Its source.
        place: String,
        /// Its name.
        name: String,
    },
    /// The value is invalid.
    #[error("{place}: {name} = {value:?}: {problem}")]
    BadValue {
        /// Its source.
        place: String,
        /// The setting.
        name: String,
        /// Its value.
        value: String,
        /// What is wrong, or what is expected.
        problem: String,
    },
    /// A line of a file is not a setting.
    #[error("{place}: {line:?} is not `name = value`")]
    BadLine {
        /// The file and line.
        place: String,
        /// The line.
        line: String,
    },
    /// A file cannot be read.
    #[error("cannot read {path}: {cause}")]
    Unreadable {
        /// The file.
        path: String,
        /// The system's error.
        cause: std::io::Error,
    },
    /// Settings contradict each other.
    #[error("{0}")]
    Contradiction(String),
}

impl Options {
    /// Applies one setting. Errors name its source, `place`.
    ///
    /// # Errors
    ///
    /// An unknown name or an invalid value.
    pub fn set(&mut self, place: &str, name: &str, value: &str) -> Result<(), SettingError> {
        if !SETTINGS.iter().any(|(known, _)| *known == name) {
            let (place, name) = (place.to_owned(), name.to_owned());
            return Err(SettingError::Unknown { place, name });
        }
        self.assign(name, value)
            .map_err(|problem| SettingError::BadValue {
                place: place.to_owned(),
                name: name.to_owned(),
                value: value.to_owned(),
                problem,
            })
    }

    fn assign(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "instance" => self.instance = value.parse().map_err(display)?,
            "directory" => self.directory = path(value),
            "socket" => self.socket = path(value),
            "listen" => self.listen = listen(value)?,
            "group" => self.group = group(value)?,
            "total" => self.total = parse_size(value)?,
            "unexp" => self.unexpected = parse_size(value)?,
            "max-unexpected" => self.max_unexpected = parse_size(value)?,
            "max-expected" => self.max_expected = parse_size(value)?,
            "hugepages" => self.huge_pages = huge_pages(value)?,
            "prefault" => self.prefault = prefault(value)?,
            "hold-ms" => self.hold = parse_milliseconds(value)?,
            "stall-ms" => self.stall = parse_milliseconds(value)?,
            "reattach-ms" => self.reattach = parse_milliseconds(value)?,
            "heartbeat-ms" => self.heartbeat = parse_milliseconds(value)?,
            "max-clients" => self.max_clients = number(value)?,
            "bulk-slots" => self.bulk_slots = number(value)?,
            "credits" => self.credits = number(value)?,
            "spin-us" => self.spin = Duration::from_micros(number(value)?).min(SPIN_MAX),
            "client-memory" => self.client_memory = client_memory(value)?,
            "job-weights" => self.job_weights = job_weights(value)?,
            _ => self.unexpected_share = number(value)?,
        }
        Ok(())
    }

    /// Applies a configuration file.
    ///
    /// # Errors
    ///
    /// The first invalid line, with its number.
    pub fn read_file(&mut self, file: &Path) -> Result<(), SettingError> {
        let path = file.display().to_string();
        let text = fs::read_to_string(file).map_err(|cause| SettingError::Unreadable {
            path: path.clone(),
            cause,
        })?;
        for (index, line) in text.lines().enumerate() {
            let place = format!("{path}:{}", index + 1);
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let Some((name, value)) = line.split_once('=') else {
                let line = line.to_owned();
                return Err(SettingError::BadLine { place, line });
            };
            self.set(&place, name.trim(), value.trim())?;
        }
        Ok(())
    }

    /// Applies the variables of [`VARIABLES`] that `environment` has.
    ///
    /// # Errors
    ///
    /// The first invalid value.
    // [BOUND-5]
    pub fn read_environment(
        &mut self,
        environment: &BTreeMap<String, String>,
    ) -> Result<(), SettingError> {
        for (variable, name) in VARIABLES {
            if let Some(value) = environment.get(variable) {
                self.set(&format!("environment variable {variable}"), name, value)?;
            }
        }
        Ok(())
    }

    /// Rounds sizes and rejects settings that cannot work. Must be called once, after the last setting.
    ///
    /// # Returns
    ///
    /// Remarks for the administrator, one sentence each.
    ///
    /// # Errors
    ///
    /// Settings that contradict each other.
    // [BOUND-7]
    pub fn check(&mut self) -> Result<Vec<String>, SettingError> {
        let mut remarks = Vec::new();
        let reject = |text: String| Err(SettingError::Contradiction(text));
        let Some(total) = self
            .total
            .checked_next_multiple_of(PAGE)
            .filter(|n| *n <= TOTAL_MAX)
        else {
            return reject(format!("total {} exceeds the address space", self.total));
        };
        if total != self.total {
            let asked = self.total;
            remarks.push(format!(
                "total {asked} is rounded up to whole pages: {total}"
            ));
            self.total = total;
        }
        let (unexpected, max) = (self.unexpected, self.max_unexpected);
        if unexpected >= total {
            return reject(format!(
                "unexp ({unexpected}) must be smaller than total ({total}): nothing would be left \
                 for expected messages"
            ));
        }
        if unexpected < max {
            return reject(format!(
                "unexp ({unexpected}) must hold at least one message of max-unexpected ({max})"
            ));
        }
        self.check_numbers()?;
        let pool = total - unexpected;
        // The default is the protocol's longest message; it was not asked for explicitly.
        let asked = self.max_expected != Self::default().max_expected;
        if asked && self.max_expected > pool {
            remarks.push(format!(
                "max-expected ({}) is larger than the expected pool ({pool}): such a message can \
                 never use a temporary buffer",
                self.max_expected
            ));
        }
        Ok(remarks)
    }

    fn check_numbers(&self) -> Result<(), SettingError> {
        let wrong = [
            (self.total == 0, "total must not be 0"),
            (self.max_clients == 0, "max-clients must be at least 1"),
            (self.bulk_slots == 0, "bulk-slots must be at least 1"),
            (
                !(1..=100).contains(&self.unexpected_share),
                "unexp-share must be 1 to 100 percent",
            ),
            (self.heartbeat.is_zero(), "heartbeat-ms must not be 0"),
            (self.stall.is_zero(), "stall-ms must not be 0"),
            (
                i32::try_from(self.max_clients).is_err(),
                "max-clients must be below 2^31",
            ),
        ];
        match wrong.iter().find(|(wrong, _)| *wrong) {
            Some((_, text)) => Err(SettingError::Contradiction((*text).to_owned())),
            None => Ok(()),
        }
    }
}

/// The size of the segment is a multiple of this page size in bytes.
const PAGE: u64 = 4096;

/// Half of the address space that x86-64 gives to a process.
const TOTAL_MAX: u64 = 1 << 46;

fn names() -> String {
    let names: Vec<&str> = SETTINGS.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

fn display(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn path(value: &str) -> Option<PathBuf> {
    (!value.is_empty()).then(|| PathBuf::from(value))
}

fn listen(value: &str) -> Result<Option<SocketAddr>, String> {
    if value.is_empty() {
        return Ok(None);
    }
    let address = value.parse();
    let problem = |_| "needs an address and a port, such as 0.0.0.0:7320 or [::]:7320".to_owned();
    address.map(Some).map_err(problem)
}

fn number<T: std::str::FromStr>(value: &str) -> Result<T, String> {
    value.parse().map_err(|_| "needs a number".to_owned())
}

fn group(value: &str) -> Result<Option<u32>, String> {
    if value.is_empty() {
        return Ok(None);
    }
    if let Ok(number) = value.parse() {
        return Ok(Some(number));
    }
    match Group::from_name(value) {
        Ok(Some(group)) => Ok(Some(group.gid.as_raw())),
        Ok(None) => Err("is not a group of this machine".to_owned()),
        Err(error) => Err(format!("cannot be looked up: {error}")),
    }
}

fn job_weights(value: &str) -> Result<BTreeMap<u32, u32>, String> {
    let problem = "needs JOB:WEIGHT,... with each job once and weights from 1, such as 7:2,9:4";
    let mut weights = BTreeMap::new();
    for pair in value
        .split(',')
        .map(str::trim)
        .filter(|pair| !pair.is_empty())
    {
        let (job, weight) = pair.split_once(':').ok_or(problem)?;
        let (job, weight) = (number(job.trim())?, number(weight.trim())?);
        if weight == 0 || weights.insert(job, weight).is_some() {
            return Err(problem.to_owned());
        }
    }
    Ok(weights)
}

/// The longest time that the daemon spins: a tenth of the heartbeat interval on which its server relies.
const SPIN_MAX: Duration = Duration::from_millis(10);

fn client_memory(value: &str) -> Result<ClientMemory, String> {
    match value {
        "on" => Ok(ClientMemory::On),
        "auto" => Ok(ClientMemory::Auto),
        "off" => Ok(ClientMemory::Off),
        _ => Err("is on, auto or off".to_owned()),
    }
}

fn huge_pages(value: &str) -> Result<HugePages, String> {
    match value {
        "auto" => Ok(HugePages::Auto),
        "2M" => Ok(HugePages::Huge2M),
        "1G" => Ok(HugePages::Huge1G),
        "off" => Ok(HugePages::Off),
        _ => Err("is auto, 2M, 1G or off".to_owned()),
    }
}

fn prefault(value: &str) -> Result<Prefault, String> {
    match value {
        "auto" => Ok(Prefault::Auto),
        "on" => Ok(Prefault::On),
        "off" => Ok(Prefault::Off),
        _ => Err("is on, off or auto".to_owned()),
    }
}

#[cfg(test)]
mod tests;
