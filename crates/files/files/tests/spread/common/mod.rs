//! Gateways of one directory that fail according to a list of faults, with a clock that only the test moves.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use files::dir::{LocalDirectory, Options};
use files::reftest::Trouble;
use files::spread::{Later, Mode, Part, Server, Spread, Surroundings};
use files::{Caller, Data, Errno, Export, FileSystem, OUTCOME_UNKNOWN, Reply, Request};
use proptest::prelude::*;
use tempfile::TempDir;

/// A fault of a gateway.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    /// The gateway, modulo the number of gateways.
    pub(crate) gateway: usize,
    /// The step before which the fault is armed.
    pub(crate) step: usize,
    /// Number of calls that the gateway answers before the fault.
    pub(crate) skip: usize,
    pub(crate) what: What,
}

/// The kind of fault.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    /// The gateway restarts: its handles become stale.
    Restart,
    /// One call fails with an error. `is_done` says whether it was executed.
    Lose { is_done: bool, errno: Errno },
    /// The gateway is dead for some steps, and its machine then reboots. `is_done` says whether the call was
    /// executed.
    Die { is_done: bool, steps: usize },
    /// The gateway does not answer for some steps, and then continues.
    Hang { is_done: bool, steps: usize },
}

/// How long a carrier waits for a gateway that hangs.
const DEADLINE: Duration = Duration::from_secs(5);

/// Generates up to 20 faults.
#[allow(dead_code, reason = "not every test needs it")]
pub(crate) fn faults(steps: usize, gateways: usize) -> impl Strategy<Value = Vec<Fault>> {
    let errnos = [
        Errno::ETIMEDOUT,
        Errno::ECONNRESET,
        Errno::EIO,
        OUTCOME_UNKNOWN,
    ];
    let errno = prop::sample::select(errnos.to_vec());
    let what = prop_oneof![
        Just(What::Restart),
        (any::<bool>(), errno).prop_map(|(is_done, errno)| What::Lose { is_done, errno }),
        (any::<bool>(), 0..9_usize).prop_map(|(is_done, steps)| What::Die { is_done, steps }),
        (any::<bool>(), 0..9_usize).prop_map(|(is_done, steps)| What::Hang { is_done, steps }),
    ];
    let fault = (0..gateways, 0..steps, 0..4_usize, what);
    let fault = fault.prop_map(|(gateway, step, skip, what)| Fault {
        gateway,
        step,
        skip,
        what,
    });
    prop::collection::vec(fault, 0..20)
}

#[allow(dead_code, reason = "not every test needs it")]
pub(crate) fn cases() -> u32 {
    let long = std::env::var("FINERAIL_LONG").is_ok_and(|value| value == "1");
    if long { 2000 } else { 100 }
}

/// A directory, its gateways, and a clock.
pub(crate) struct Site {
    directory: TempDir,
    pub(crate) gates: Vec<Arc<Gate>>,
    pub(crate) clock: Arc<Clock>,
    /// Access to the files that never fails.
    #[allow(dead_code, reason = "not every test needs it")]
    pub(crate) truth: LocalDirectory,
    faults: Vec<Fault>,
}

/// A clock that only the test moves. Work in the background is done at once.
#[derive(Default)]
pub(crate) struct Clock(AtomicU64);

impl Clock {
    pub(crate) fn pass(&self, time: Duration) {
        self.0.fetch_add(time.as_millis() as u64, Ordering::Relaxed);
    }
}

impl Surroundings for Clock {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }

    fn together(&self, parts: Vec<Part<'_>>) {
        parts.into_iter().for_each(|part| part());
    }

    fn later(&self, work: Later) {
        work();
    }
}

/// A gateway that can fail.
pub(crate) struct Gate {
    path: PathBuf,
    clock: Arc<Clock>,
    state: Mutex<GateState>,
    struck: AtomicBool,
}

struct GateState {
    files: Arc<LocalDirectory>,
    /// Faults to come, with the number of calls before each.
    armed: Vec<(usize, What)>,
    /// Number of further steps for which the gateway is dead or hangs, and the fault.
    away: Option<(usize, What)>,
    coherent: Vec<u8>,
    boot: u64,
}

impl Site {
    pub(crate) fn new(gateways: usize, faults: &[Fault]) -> Self {
        let directory = TempDir::new().unwrap();
        let clock = Arc::new(Clock::default());
        let path = directory.path().to_owned();
        // Each gateway has its own machine.
        let gate = |number: usize| {
            let boot = 1000 * (number as u64 + 1);
            Arc::new(Gate::new(path.clone(), Arc::clone(&clock), boot))
        };
        Self {
            gates: (0..gateways).map(gate).collect(),
            truth: LocalDirectory::open(directory.path(), Options::default()).unwrap(),
            clock,
            directory,
            faults: faults.to_vec(),
        }
    }

    /// Returns all gateways as servers for a client.
    pub(crate) fn servers(&self) -> Vec<Server> {
        let server = |(number, gate): (usize, &Arc<Gate>)| Server {
            name: format!("gateway {number}"),
            files: Arc::clone(gate) as Arc<dyn FileSystem>,
        };
        self.gates.iter().enumerate().map(server).collect()
    }

    /// Returns a client of all gateways.
    #[allow(dead_code, reason = "not every test needs it")]
    pub(crate) fn spread(&self, mode: Mode, objects_max: usize) -> Spread {
        let options = files::spread::Options {
            mode,
            block: 4096,
            objects_max,
            ..files::spread::Options::default()
        };
        let clock = Arc::clone(&self.clock) as Arc<dyn Surroundings>;
        Spread::new(self.servers(), options, clock).unwrap()
    }

    #[allow(dead_code, reason = "not every test needs it")]
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

impl Trouble for Site {
    fn before(&self, step: usize) {
        self.clock.pass(Duration::from_millis(300));
        self.gates.iter().for_each(|gate| gate.next_step());
        for fault in self.faults.iter().filter(|fault| fault.step == step) {
            let gate = &self.gates[fault.gateway % self.gates.len()];
            gate.arm(fault.skip, fault.what);
        }
    }

    fn struck(&self) -> bool {
        let struck = self
            .gates
            .iter()
            .map(|gate| gate.struck.swap(false, Ordering::Relaxed));
        struck.fold(false, |any, one| any | one)
    }

    fn heal(&self) {
        self.gates.iter().for_each(|gate| gate.heal());
        self.clock.pass(Duration::from_secs(60));
    }
}

impl Gate {
    fn new(path: PathBuf, clock: Arc<Clock>, boot: u64) -> Self {
        let state = GateState {
            files: open(&path),
            armed: Vec::new(),
            away: None,
            coherent: b"scratch".to_vec(),
            boot,
        };
        Self {
            path,
            clock,
            state: Mutex::new(state),
            struck: AtomicBool::new(false),
        }
    }

    /// Arms a fault, which occurs after `skip` more calls.
    pub(crate) fn arm(&self, skip: usize, what: What) {
        self.state.lock().unwrap().armed.push((skip, what));
    }

    #[allow(dead_code, reason = "not every test needs it")]
    pub(crate) fn declare(&self, coherent: &[u8]) {
        self.state.lock().unwrap().coherent = coherent.to_vec();
    }

    fn next_step(&self) {
        let mut state = self.state.lock().unwrap();
        match &mut state.away {
            Some((0, _)) => self.come_back(&mut state),
            Some((steps, _)) => *steps -= 1,
            None => {}
        }
    }

    fn heal(&self) {
        let mut state = self.state.lock().unwrap();
        state.armed.clear();
        self.come_back(&mut state);
    }

    fn come_back(&self, state: &mut GateState) {
        if let Some((_, What::Die { .. })) = state.away.take() {
            state.files = open(&self.path);
            state.boot += 1;
        }
    }

    /// Moves the gateway to another machine.
    #[allow(dead_code, reason = "not every test needs it")]
    pub(crate) fn runs_on(&self, boot: u64) {
        self.state.lock().unwrap().boot = boot;
    }

    /// Returns the files, the export, and the fault of this call, if any.
    fn fate(&self) -> (Arc<LocalDirectory>, Export, Option<What>) {
        let mut state = self.state.lock().unwrap();
        let due = state.armed.iter().position(|(skip, _)| *skip == 0);
        state
            .armed
            .iter_mut()
            .for_each(|(skip, _)| *skip = skip.saturating_sub(1));
        let mut what = state.away.map(|(_, what)| match what {
            What::Hang { steps, .. } => What::Hang {
                is_done: false,
                steps,
            },
            What::Die { steps, .. } => What::Die {
                is_done: false,
                steps,
            },
            other => other,
        });
        if what.is_none()
            && let Some(due) = due
        {
            let (_, due) = state.armed.remove(due);
            match due {
                What::Restart => state.files = open(&self.path),
                What::Die { steps, .. } | What::Hang { steps, .. } => {
                    state.away = Some((steps, due))
                }
                What::Lose { .. } => {}
            }
            what = Some(due);
        }
        let export = Export {
            coherent: state.coherent.clone(),
            boot: state.boot,
            ..Export::default()
        };
        (Arc::clone(&state.files), export, what)
    }
}

impl FileSystem for Gate {
    fn call(&self, caller: &Caller, request: &Request, data: Data<'_>) -> Result<Reply, Errno> {
        let (files, export, what) = self.fate();
        let answer = |data| match request {
            Request::Identify => Ok(Reply::Export(export)),
            _ => files.call(caller, request, data),
        };
        let (is_done, errno) = match what {
            None => return answer(data),
            Some(What::Restart) => {
                self.struck.store(true, Ordering::Relaxed);
                return answer(data);
            }
            Some(What::Lose { is_done, errno }) => (is_done, errno),
            Some(What::Die { is_done, .. }) => (is_done, Errno::ECONNREFUSED),
            Some(What::Hang { is_done, .. }) => {
                self.clock.pass(DEADLINE);
                (is_done, Errno::ETIMEDOUT)
            }
        };
        self.struck.store(true, Ordering::Relaxed);
        if is_done {
            // The reply is lost.
            let _reply = answer(data);
        }
        Err(errno)
    }
}

fn open(path: &std::path::Path) -> Arc<LocalDirectory> {
    let options = Options {
        descriptors_max: 8,
        ..Options::default()
    };
    Arc::new(LocalDirectory::open(path, options).unwrap())
}
