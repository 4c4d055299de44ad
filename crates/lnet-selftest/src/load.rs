//! What makes RPCs: the units of a test, as a console asked for them.
//!
//! ```text
//!   destination 0: unit 0, unit 1 …   each: RPC, RPC, RPC … one after another, `repeat` of them
//!   destination 1: unit n, …
//! ```
//!
//! No I/O here. The driver asks a [`Generator`] for RPCs as long as it has room for some under way, and says what became
//! of each.

use std::collections::VecDeque;
use std::time::Duration;

use lnet_types::{ProcessId, Time};

use crate::flow::FlowReport;
use crate::framework::TestSpec;
use crate::pattern::Check;
use crate::wire::{BULK_MAX, BulkRequest, FEATURE_BULK_LEN, Params, Service};

/// Bytes of a page in requests of old consoles.
const PAGE: u32 = 4096;

/// What one RPC does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// A ping.
    Ping,
    /// The server sends so many bytes.
    Read(u32, Check),
    /// The server fetches so many bytes.
    Write(u32, Check),
}

impl Work {
    /// What each RPC of a test does; `None` where a node must not be asked for that: some kernel nodes do not survive an
    /// RPC that is out of range (section 11.5).
    #[must_use]
    pub fn of(service: Service, params: &Params) -> Option<Self> {
        let (operation, flags, len) = match (service, *params) {
            (Service::PING, Params::Ping { .. }) => return Some(Self::Ping),
            (
                Service::BULK,
                Params::Pages {
                    operation,
                    pages,
                    flags,
                },
            ) => (operation, flags, pages.checked_mul(PAGE)?),
            (
                Service::BULK,
                Params::Bytes {
                    operation,
                    flags,
                    len,
                    ..
                },
            ) => (operation.into(), flags.into(), len),
            _ => return None,
        };
        Self::bulk(operation, flags, len)
    }

    /// Bulk of this operation, check and length; `None` where one of them is out of range.
    // [LST-20]
    #[must_use]
    pub fn bulk(operation: u32, flags: u32, len: u32) -> Option<Self> {
        let check = Check::of_flags(flags)?;
        match operation {
            _ if len == 0 || len > BULK_MAX => None,
            BulkRequest::READ => Some(Self::Read(len, check)),
            BulkRequest::WRITE => Some(Self::Write(len, check)),
            _ => None,
        }
    }

    /// Bytes of its bulk.
    #[must_use]
    pub const fn len(self) -> u32 {
        match self {
            Self::Ping => 0,
            Self::Read(len, _) | Self::Write(len, _) => len,
        }
    }

    /// True for a ping.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The service that does it.
    #[must_use]
    pub const fn service(self) -> Service {
        match self {
            Self::Ping => Service::PING,
            Self::Read(..) | Self::Write(..) => Service::BULK,
        }
    }
}

/// An RPC that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shot {
    /// Comes back when it has ended.
    pub unit: u32,
    /// Whom.
    pub target: ProcessId,
    /// What.
    pub work: Work,
    /// Features in its header.
    pub features: u32,
}

/// What a generator wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// This sent, now.
    Send(Shot),
    /// To be asked again at that time.
    At(Time),
    /// To be asked again when an RPC of it has ended.
    Wait,
}

/// What became of an RPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its unit.
    pub unit: u32,
    /// What it was to do.
    pub work: Work,
    /// Answered, with success, and with good data.
    pub is_ok: bool,
    /// From the request until everything had arrived.
    pub latency: Duration,
}

/// Makes RPCs.
pub trait Generator: Send {
    /// What it wants now.
    // [LST-16]
    fn next(&mut self, now: Time) -> Next;
    /// One of its RPCs has ended.
    fn ended(&mut self, ended: &Ended, now: Time);
    /// It makes no more.
    fn stop(&mut self);
    /// True when it will make no more, whatever becomes of those under way.
    fn is_over(&self, now: Time) -> bool;
    /// What it has done, where somebody may want to know.
    fn report(&self) -> Option<FlowReport> {
        None
    }
}

/// The units of a test of a console.
#[derive(Debug)]
pub(crate) struct Units {
    destinations: Vec<ProcessId>,
    concurrency: u32,
    work: Work,
    features: u32,
    stop_on_error: bool,
    is_counted: bool,
    /// Units that may send, with the RPCs that each has left.
    ready: VecDeque<(u32, u32)>,
    /// What units under way have left, in the order of no importance.
    under_way: rustc_hash::FxHashMap<u32, u32>,
}

impl Units {
    /// The units of this test; `None` where its RPCs would be out of range.
    pub(crate) fn new(spec: &TestSpec) -> Option<Self> {
        let work = Work::of(spec.service, &spec.params)?;
        let is_old = matches!(spec.params, Params::Pages { .. });
        let units = spec.destinations.len() as u64 * u64::from(spec.concurrency);
        // The framework has bounded it.
        let units = u32::try_from(units).ok()?;
        let left = spec.repeat.unwrap_or(1);
        Some(Self {
            destinations: spec.destinations.clone(),
            concurrency: spec.concurrency,
            work,
            features: if is_old { 0 } else { FEATURE_BULK_LEN },
            stop_on_error: spec.stop_on_error,
            is_counted: spec.repeat.is_some(),
            ready: (0..units).map(|unit| (unit, left)).collect(),
            under_way: rustc_hash::FxHashMap::default(),
        })
    }
}

impl Generator for Units {
    fn next(&mut self, _now: Time) -> Next {
        let Some((unit, left)) = self.ready.pop_front() else {
            return Next::Wait;
        };
        let at = (unit / self.concurrency) as usize;
        // There are as many units as destinations have concurrency.
        let Some(&target) = self.destinations.get(at) else {
            return Next::Wait;
        };
        self.under_way.insert(unit, left);
        Next::Send(Shot {
            unit,
            target,
            work: self.work,
            features: self.features,
        })
    }

    fn ended(&mut self, ended: &Ended, _now: Time) {
        let Some(left) = self.under_way.remove(&ended.unit) else {
            return;
        };
        let left = if self.is_counted { left - 1 } else { left };
        if left > 0 && (ended.is_ok || !self.stop_on_error) {
            self.ready.push_back((ended.unit, left));
        }
    }

    fn stop(&mut self) {
        self.ready.clear();
        // What is under way has nothing left behind it.
        self.stop_on_error = true;
        self.is_counted = true;
        self.under_way.values_mut().for_each(|left| *left = 1);
    }

    fn is_over(&self, _now: Time) -> bool {
        self.ready.is_empty() && self.under_way.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(repeat: Option<u32>, stop_on_error: bool) -> TestSpec {
        let process = |text: &str| ProcessId::lustre(text.parse().unwrap());
        TestSpec {
            service: Service::PING,
            repeat,
            concurrency: 2,
            stop_on_error,
            params: Params::Ping { size: 0, flags: 0 },
            destinations: vec![process("10.0.0.1@tcp"), process("10.0.0.2@tcp")],
        }
    }

    fn send(units: &mut Units) -> Option<Shot> {
        match units.next(Time::ZERO) {
            Next::Send(shot) => Some(shot),
            Next::At(_) | Next::Wait => None,
        }
    }

    fn end(units: &mut Units, unit: u32, is_ok: bool) {
        let ended = Ended {
            unit,
            work: Work::Ping,
            is_ok,
            latency: Duration::ZERO,
        };
        units.ended(&ended, Time::ZERO);
    }

    // [LST-16]
    #[test]
    fn every_destination_has_as_many_units_as_the_concurrency_says() {
        let mut units = Units::new(&spec(Some(1), false)).unwrap();
        let shots: Vec<Shot> = std::iter::from_fn(|| send(&mut units)).collect();
        let hosts: Vec<u32> = shots
            .iter()
            .map(|it| it.target.nid.number() & 0xFF)
            .collect();
        assert_eq!(hosts, [1, 1, 2, 2]);
    }

    // [LST-16]
    #[test]
    fn a_unit_sends_one_rpc_after_another_until_its_count_is_reached() {
        let mut units = Units::new(&spec(Some(3), false)).unwrap();
        let mut sent = 0;
        while let Some(shot) = send(&mut units) {
            sent += 1;
            end(&mut units, shot.unit, true);
        }
        assert_eq!(sent, 4 * 3);
        assert!(units.is_over(Time::ZERO));
    }

    #[test]
    fn a_failed_rpc_ends_its_unit_only_where_the_test_says_so() {
        for (stop_on_error, expected) in [(true, 4), (false, 12)] {
            let mut units = Units::new(&spec(Some(3), stop_on_error)).unwrap();
            let mut sent = 0;
            while let Some(shot) = send(&mut units) {
                sent += 1;
                end(&mut units, shot.unit, false);
            }
            assert_eq!(sent, expected);
        }
    }

    #[test]
    fn a_test_without_end_ends_when_it_is_stopped() {
        let mut units = Units::new(&spec(None, false)).unwrap();
        for _ in 0..100 {
            let shot = send(&mut units).unwrap();
            end(&mut units, shot.unit, true);
        }
        let under_way = send(&mut units).unwrap();
        units.stop();
        assert_eq!(send(&mut units), None);
        assert!(!units.is_over(Time::ZERO));
        end(&mut units, under_way.unit, true);
        assert_eq!(send(&mut units), None);
        assert!(units.is_over(Time::ZERO));
    }

    // [LST-20]
    #[test]
    fn no_rpc_is_sent_that_a_kernel_might_not_survive() {
        let bytes = |operation, flags, len| Params::Bytes {
            operation,
            flags,
            len,
            offset: 0,
        };
        let of = |params| Work::of(Service::BULK, &params);
        assert_eq!(of(bytes(1, 3, 4096)), Some(Work::Read(4096, Check::Full)));
        assert_eq!(of(bytes(2, 1, 1)), Some(Work::Write(1, Check::None)));
        for wrong in [
            bytes(0, 1, 1),
            bytes(3, 1, 1),
            bytes(1, 0, 1),
            bytes(1, 5, 1),
            bytes(1, 1, 0),
            bytes(1, 1, BULK_MAX + 1),
        ] {
            assert_eq!(of(wrong), None, "{wrong:?}");
        }
        let pages = |pages| Params::Pages {
            operation: 1,
            pages,
            flags: 1,
        };
        assert_eq!(of(pages(256)), Some(Work::Read(BULK_MAX, Check::None)));
        assert_eq!(of(pages(257)), None);
        assert_eq!(of(pages(u32::MAX)), None);
    }
}
