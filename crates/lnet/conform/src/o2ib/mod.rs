//! Checks of a node over RDMA.
//!
//! ```text
//!  Subject, Dialler --new--> O2ibNode --run(O2IB_CHECKS[i])--> Outcome { verdict, observed bytes }
//! ```
//!
//! The checks dial with a device of `lnet-verbs` and write each byte of a request and of a message themselves. They use
//! nothing of the LND, because they check it. An acceptor knows a peer by its NID, and rejects the first request with
//! another incarnation of the peer; so all checks of a run have the same identity, and close their connections.

mod checks;
mod link;
mod messages;
mod probe;
mod requests;
mod transfers;

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lnet_o2ib::{Device, DeviceError, PolledDevice};
use lnet_types::{LndType, Nid};
use lnet_verbs::{Landing, Payload, VerbsDevice};
use lnet_wire::o2ib::{FRAGMENTS_MAX, MESSAGE_MAX, Parameters};

use crate::node::{SetupError, Subject};
use crate::probe::{Check, Outcome, Run, Stop, Verdict};

pub use checks::O2IB_CHECKS;
pub(crate) use probe::Probe;

/// The queue depth that kernels ask for by default.
const DEPTH: u16 = 8;

/// The device that a check dials with, and the time of its waits.
pub trait Dialler {
    /// Returns the device.
    fn device(&mut self) -> &mut dyn PolledDevice<Source = Payload, Sink = Landing>;

    /// Waits until something may have happened, at most for a time.
    ///
    /// # Errors
    ///
    /// The device cannot be asked.
    fn wait(&mut self, most: Duration) -> Result<(), DeviceError>;

    /// Returns the time since the dialler was made.
    fn now(&self) -> Duration;
}

/// A device of this machine.
pub struct RdmaDialler {
    device: VerbsDevice,
    begun: Instant,
}

impl RdmaDialler {
    /// Returns a dialler from an address of this machine.
    ///
    /// # Errors
    ///
    /// [`SetupError::Device`]: RDMA is not installed, or no device has the address.
    pub fn new(from: Ipv4Addr) -> Result<Self, SetupError> {
        let device = VerbsDevice::new().map_err(|error| SetupError::Device(error.to_string()))?;
        let mut device = device.dial_only();
        let found = device.listen(from);
        found.map_err(|DeviceError(why)| SetupError::Device(why))?;
        Ok(Self {
            device,
            begun: Instant::now(),
        })
    }
}

impl Dialler for RdmaDialler {
    fn device(&mut self) -> &mut dyn PolledDevice<Source = Payload, Sink = Landing> {
        &mut self.device
    }

    fn wait(&mut self, most: Duration) -> Result<(), DeviceError> {
        let waited = self.device.wait(most);
        waited.map_err(|error| DeviceError(error.to_string()))
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }
}

/// A node on an o2ib network that can be checked.
pub struct O2ibNode {
    subject: Subject,
    /// The checker's NID, and the addresses of both ends.
    me: Nid,
    from: Ipv4Addr,
    to: Ipv4Addr,
    /// The checker's incarnation, in microseconds.
    incarnation: u64,
    /// What a request asks for: less than the defaults of kernels if the node accepts no more.
    parameters: Parameters,
    dialler: Box<dyn Dialler>,
    /// The number of connections that were dialled.
    dialled: u64,
}

impl O2ibNode {
    /// Connects to the node with a device of this machine.
    ///
    /// # Errors
    ///
    /// See [`SetupError`].
    pub fn dial(subject: Subject) -> Result<Self, SetupError> {
        let IpAddr::V4(from) = subject.source else {
            return Err(SetupError::NotO2ib(subject.nid));
        };
        Self::new(subject, Box::new(RdmaDialler::new(from)?))
    }

    /// Connects to the node with a dialler.
    ///
    /// # Errors
    ///
    /// See [`SetupError`]: the device fails, or the node rejects a good request or does not answer a ping.
    pub fn new(subject: Subject, dialler: Box<dyn Dialler>) -> Result<Self, SetupError> {
        let nid = subject.nid;
        let is_o2ib = nid.net().lnd == LndType::O2IB;
        let (true, IpAddr::V4(from), IpAddr::V4(to)) =
            (is_o2ib, subject.source, subject.address.ip())
        else {
            return Err(SetupError::NotO2ib(nid));
        };
        let mut node = Self {
            subject,
            me: Nid::from_ip(nid.net(), subject.source),
            from,
            to,
            incarnation: microseconds(),
            parameters: Parameters {
                queue_depth: DEPTH,
                fragments: FRAGMENTS_MAX,
                message_size: MESSAGE_MAX as u32,
            },
            dialler,
            dialled: 0,
        };
        match node.try_to_connect() {
            Ok(()) => Ok(node),
            Err(Stop::Local(why)) => Err(SetupError::Device(why)),
            Err(Stop::Failed(why) | Stop::NotApplicable(why)) => Err(SetupError::Rdma { nid, why }),
        }
    }

    fn try_to_connect(&mut self) -> Result<(), Stop> {
        let mut probe = Probe::new(self);
        let connected = probe.open().map(drop);
        probe.close_all();
        connected
    }

    /// Runs one check, and a failed one again: a node is only failed if it fails twice.
    pub fn run(&mut self, check: &Check) -> Outcome {
        Outcome::of(|| self.run_once(check))
    }

    fn run_once(&mut self, check: &Check) -> Outcome {
        let begun = Instant::now();
        let mut probe = Probe::new(self);
        let verdict = match check.run {
            Run::O2ib(run) => run(&mut probe).into(),
            Run::Tcp(_) => Verdict::NotApplicable("a check of tcp networks".to_owned()),
        };
        probe.close_all();
        Outcome {
            verdict,
            observed: probe.observed(),
            elapsed: begun.elapsed(),
        }
    }

    /// The subject of the checks.
    #[must_use]
    pub const fn subject(&self) -> &Subject {
        &self.subject
    }

    /// The checker's NID.
    #[must_use]
    pub const fn source_nid(&self) -> Nid {
        self.me
    }
}

/// Returns the time of day in microseconds.
fn microseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    // 64 bits of microseconds suffice for half a million years.
    since.map_or(1, |elapsed| elapsed.as_micros() as u64)
}
