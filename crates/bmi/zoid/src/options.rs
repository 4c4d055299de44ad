//! The options of the method.

use std::path::PathBuf;
use std::time::Duration;

use zoid_proto::Instance;

/// How a process finds its daemon, and what it does if the daemon is gone.
///
/// [`Options::from_environment`] reads:
///
/// | Variable | Meaning | Default |
/// |---|---|---|
/// | `ZOID_INSTANCE` | the daemon's instance | `default` |
/// | `ZOID_SOCKET` | path of the daemon's Unix-domain socket | by instance |
/// | `ZOID_CONNECT_TIMEOUT_MS` | how long a client waits for the daemon at its start | 5000 |
/// | `ZBMI_CONNECT_TIMEOUT_MS` | how long a server waits for the daemon at its start | no limit |
/// | `ZOID_RECONNECT_MS` | how long a client waits for a daemon that is gone or stopped | 5000 |
/// | `ZOID_ON_SERVER_RESTART` | `keep`: operations that wait for a server survive its death and the daemon's; `fail`: they fail when the next one comes | `fail` |
/// | `ZOID_SERVER_TIMEOUT` | how long, in seconds, an operation waits for a server after the last one has gone; 0: no limit | 60 |
/// | `ZOID_SINGLE_THREAD` | `1`: a client has no thread of its own; the program calls from one thread at a time | off |
/// | `ZOID_EXTENDED_ADDR` | `1`: addresses with an instance or a host are accepted | off |
/// | `ZOID_IO_NODES` | with `ZOID_EXTENDED_ADDR`: further instances that one client uses at the same time, as `zoid://NAME`, separated by commas | none |
/// | `ZOID_INTERRUPTIBLE` | `1`: a signal ends waits | off |
/// | `ZOID_JOB` | number of the job, for fairness between jobs | 0 |
/// | `ZOID_CLIENT_MEMORY` | `off`: the daemon may not copy from and to this process's memory; `allow`: it may, and the kernel is told so | `on`: it may if the kernel allows it |
/// | `ZOID_PIPELINED` | `1`: posts do not wait for their outcome | off |
/// | `ZOID_SPIN_US` | how long a wait polls before it sleeps, in microseconds | 0 |
///
/// ```
/// let options = zoid::Options { pipelined: true, ..zoid::Options::from_environment() };
/// let method = zoid::Zoid::new(options);
/// # drop(method);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The daemon's instance.
    pub instance: Instance,
    /// The path of the daemon's Unix-domain socket, if not the default of the instance.
    pub socket: Option<PathBuf>,
    /// How long a client waits for the daemon at its start.
    pub client_connect: Duration,
    /// How long a server waits for the daemon at its start; `None`: no limit.
    pub server_connect: Option<Duration>,
    /// How long a client waits for a daemon that is gone before its pending operations fail. Also how long it
    /// waits, after three silent heartbeats, for a stopped daemon before that counts as gone.
    pub reconnect: Duration,
    /// Accept `zoid://INSTANCE` and `zoid+tcp://HOST:PORT/INSTANCE`.
    pub extended_addresses: bool,
    /// Further instances that a client can use at the same time, each by its address `zoid://INSTANCE`; see
    /// [`Zoid::io_nodes`](crate::Zoid::io_nodes).
    pub io_nodes: Vec<Instance>,
    /// No thread of the method's own. The program promises to call from one thread at a time.
    pub single_thread: bool,
    /// A client's pending expected operations survive the death of the server or the daemon; the next one can
    /// match them.
    pub keep_on_server_restart: bool,
    /// How long a client's operation waits for a server, once there was one and it is gone; `None`: no limit.
    /// Then the operation fails with [`bmi::Error::ConnReset`]. Before the first server there is no limit, and
    /// with [`Options::keep_on_server_restart`] there is none.
    pub server_timeout: Option<Duration>,
    /// A signal that a thread handles ends its tests with no results and its waiting posts as pending, in
    /// both roles. May be changed with [`setting::INTERRUPTIBLE`](crate::setting::INTERRUPTIBLE).
    pub interruptible: bool,
    /// The job, for fairness between jobs.
    pub job: u32,
    /// Posts return pending at once, and tests complete them, so that one thread has several messages in
    /// flight. A client's post then does not wait for the daemon's answer, and a server's post not for the
    /// transfer. Otherwise a client's post is an attempt whose outcome it returns, and a server's post may
    /// complete at once.
    pub pipelined: bool,
    /// How long a wait polls before it sleeps, at most [`SPIN_MAX`]. This saves a wake-up if the daemon has
    /// another core, and takes the core away from the daemon if not.
    pub spin: Duration,
    /// Whether the daemon may copy messages from and to this process's memory.
    pub client_memory: ClientMemory,
}

/// A client's answer to a daemon that wants to copy from and to its memory. Only daemons with the option
/// `client-memory` want to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientMemory {
    /// Rejected.
    Reject,
    /// Accepted; the kernel decides whether the daemon can.
    #[default]
    Offer,
    /// Accepted, and the kernel is told that this daemon may trace the process (`PR_SET_PTRACER`), as Yama's
    /// `ptrace_scope` 1 requires. A process can name one such process at a time.
    Allow,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            instance: Instance::default(),
            socket: None,
            client_connect: Duration::from_secs(5),
            server_connect: None,
            reconnect: Duration::from_secs(5),
            extended_addresses: false,
            io_nodes: Vec::new(),
            single_thread: false,
            keep_on_server_restart: false,
            server_timeout: Some(SERVER_TIMEOUT),
            interruptible: false,
            job: 0,
            pipelined: false,
            spin: Duration::ZERO,
            client_memory: ClientMemory::default(),
        }
    }
}

/// How long an operation waits for a server by default: longer than a server takes to start again.
const SERVER_TIMEOUT: Duration = Duration::from_secs(60);

/// The longest time that a wait may spin: a tenth of the heartbeat of the server's daemon, so that everything
/// checked between waits is still checked in time.
// [ZOID-65]
pub const SPIN_MAX: Duration = Duration::from_millis(10);

impl Options {
    /// Returns the defaults, changed by the environment. An invalid variable is logged and ignored.
    #[must_use]
    pub fn from_environment() -> Self {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let milliseconds = |name| number(name, variable(name)).map(Duration::from_millis);
        let mut options = Self::default();
        if let Some(text) = variable("ZOID_INSTANCE") {
            match text.parse() {
                Ok(instance) => options.instance = instance,
                Err(error) => tracing::warn!("ZOID_INSTANCE is ignored: {error}"),
            }
        }
        options.socket = variable("ZOID_SOCKET").map(PathBuf::from);
        options.client_connect =
            milliseconds("ZOID_CONNECT_TIMEOUT_MS").unwrap_or(options.client_connect);
        options.server_connect = milliseconds("ZBMI_CONNECT_TIMEOUT_MS");
        options.reconnect = milliseconds("ZOID_RECONNECT_MS").unwrap_or(options.reconnect);
        let is_on = |name| variable(name).as_deref() == Some("1");
        options.single_thread = is_on("ZOID_SINGLE_THREAD");
        options.extended_addresses = is_on("ZOID_EXTENDED_ADDR");
        options.io_nodes = variable("ZOID_IO_NODES").map_or_else(Vec::new, |text| instances(&text));
        options.pipelined = is_on("ZOID_PIPELINED");
        let spin = number("ZOID_SPIN_US", variable("ZOID_SPIN_US"));
        options.spin = spin
            .map_or(Duration::ZERO, Duration::from_micros)
            .min(SPIN_MAX);
        options.interruptible = is_on("ZOID_INTERRUPTIBLE");
        options.keep_on_server_restart = keeps(variable("ZOID_ON_SERVER_RESTART"));
        if let Some(seconds) = number("ZOID_SERVER_TIMEOUT", variable("ZOID_SERVER_TIMEOUT")) {
            options.server_timeout = (seconds > 0).then(|| Duration::from_secs(seconds));
        }
        match variable("ZOID_CLIENT_MEMORY").as_deref() {
            None | Some("on") => {}
            Some("off") => options.client_memory = ClientMemory::Reject,
            Some("allow") => options.client_memory = ClientMemory::Allow,
            Some(other) => {
                tracing::warn!("ZOID_CLIENT_MEMORY is ignored: {other:?} is not on, off or allow");
            }
        }
        let job = number("ZOID_JOB", variable("ZOID_JOB"));
        options.job = job.and_then(|job| u32::try_from(job).ok()).unwrap_or(0);
        options
    }
}

fn instances(text: &str) -> Vec<Instance> {
    let mut instances = Vec::new();
    for name in text.split(',').filter(|name| !name.is_empty()) {
        match name.parse() {
            Ok(instance) if instances.contains(&instance) => {}
            Ok(instance) => instances.push(instance),
            Err(error) => tracing::warn!("{name:?} in ZOID_IO_NODES is ignored: {error}"),
        }
    }
    instances
}

fn keeps(text: Option<String>) -> bool {
    match text.as_deref() {
        Some("keep") => return true,
        None | Some("fail") => {}
        Some(other) => {
            tracing::warn!("ZOID_ON_SERVER_RESTART is ignored: {other:?} is not keep or fail");
        }
    }
    false
}

fn number(name: &str, text: Option<String>) -> Option<u64> {
    let text = text?;
    let number = text.parse().ok();
    if number.is_none() {
        tracing::warn!("{name} is ignored: {text:?} is not a number");
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_overrides_the_defaults_where_it_makes_sense() {
        let options = Options::from_variables(|name| {
            let value = match name {
                "ZOID_INSTANCE" => "blue",
                "ZBMI_CONNECT_TIMEOUT_MS" => "250",
                "ZOID_CONNECT_TIMEOUT_MS" => "soon",
                "ZOID_RECONNECT_MS" => "70",
                "ZOID_SERVER_TIMEOUT" => "0",
                "ZOID_EXTENDED_ADDR" | "ZOID_INTERRUPTIBLE" => "1",
                "ZOID_SINGLE_THREAD" => "1",
                "ZOID_ON_SERVER_RESTART" => "keep",
                "ZOID_CLIENT_MEMORY" => "allow",
                "ZOID_SPIN_US" => "99000000",
                "ZOID_IO_NODES" => "red,a/b,green,red",
                _ => return None,
            };
            Some(value.to_owned())
        });
        assert_eq!(options.instance.to_string(), "blue");
        assert_eq!(options.server_connect, Some(Duration::from_millis(250)));
        assert_eq!(options.client_connect, Duration::from_secs(5));
        assert_eq!(options.reconnect, Duration::from_millis(70));
        assert_eq!(options.server_timeout, None);
        assert!(options.extended_addresses && options.interruptible);
        assert!(options.single_thread && options.keep_on_server_restart);
        assert_eq!(options.client_memory, ClientMemory::Allow);
        assert_eq!(options.spin, SPIN_MAX);
        assert_eq!(options.io_nodes.len(), 2);
    }

    // [DEATH-30]
    #[test]
    fn a_server_waits_for_the_daemon_without_a_limit_unless_told_otherwise() {
        assert_eq!(Options::from_variables(|_| None), Options::default());
        assert_eq!(Options::default().server_connect, None);
    }
}
