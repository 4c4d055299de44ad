//! The RPCs of a test: its units, as a console asked for them.
//!
//! ```text
//!   destination 0: unit 0, unit 1 …   each: RPC, RPC, RPC … one after another, `repeat` of them
//!   destination 1: unit n, …
//! ```
//!
//! This module does no I/O. The driver asks a [`Generator`] for RPCs while fewer are under way than the limit
//! allows, and reports the result of each RPC.

use std::collections::VecDeque;
use std::time::Duration;

use lnet_types::{ProcessId, Time};

use crate::flow::FlowReport;
use crate::framework::TestSpec;
use crate::pattern::Check;
use crate::wire::{BULK_MAX, BulkRequest, FEATURE_BULK_LEN, Params, Service};

/// Length of a page in requests of old consoles, in bytes.
const PAGE: u32 = 4096;

/// The operation of one RPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// A ping.
    Ping,
    /// A read: the server sends this many bytes.
    Read(u32, Check),
    /// A write: the server fetches this many bytes.
    Write(u32, Check),
}

impl Work {
    /// Returns the operation of each RPC of a test. Returns `None` if the operation is out of range: some
    /// kernel nodes do not survive a request for such an operation.
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

    /// Returns bulk with this operation, check and length; `None` if one of them is out of range.
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

    /// Returns the length of the bulk, in bytes; 0 for a ping.
    #[must_use]
    pub const fn len(self) -> u32 {
        match self {
            Self::Ping => 0,
            Self::Read(len, _) | Self::Write(len, _) => len,
        }
    }

    /// Reports whether the operation is a ping.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns the service that does this operation.
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
    /// The unit that the RPC belongs to. The generator gets this number back when the RPC has ended.
    pub unit: u32,
    /// The node to send the RPC to.
    pub target: ProcessId,
    /// The operation of the RPC.
    pub work: Work,
    /// The features in the header of the request.
    pub features: u32,
}

/// The next step of a generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send this RPC now.
    Send(Shot),
    /// Ask the generator at this time.
    At(Time),
    /// Ask the generator when one of its RPCs has ended.
    Wait,
}

/// The result of an RPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The unit of the RPC.
    pub unit: u32,
    /// The operation of the RPC.
    pub work: Work,
    /// True if the RPC was answered with success, and its data is good.
    pub is_ok: bool,
    /// The time from the request until everything had arrived.
    pub latency: Duration,
}

/// A source of RPCs.
pub trait Generator: Send {
    /// Returns what to do now.
    // [LST-16]
    fn next(&mut self, now: Time) -> Next;
    /// Takes the result of one of the generator's RPCs.
    fn ended(&mut self, ended: &Ended, now: Time);
    /// Stops the generator: it makes no more RPCs.
    fn stop(&mut self);
    /// Reports whether the generator will make no more RPCs, whatever the results of those under way.
    fn is_over(&self, now: Time) -> bool;
    /// Returns what the generator has done; `None` if it makes no report.
    fn report(&self) -> Option<FlowReport> {
        None
    }
}

/// The units of a test that a console added.
#[derive(Debug)]
pub(crate) struct Units {
    destinations: Vec<ProcessId>,
    concurrency: u32,
    work: Work,
    features: u32,
    stop_on_error: bool,
    is_counted: bool,
    /// Units that may send, each with the RPCs that it still has to send. Without a count, that number stays 1.
    ready: VecDeque<(u32, u32)>,
    /// Units with an RPC under way, each with the RPCs that it still has to complete.
    under_way: rustc_hash::FxHashMap<u32, u32>,
}

impl Units {
    /// Makes the units of this test; `None` if its RPCs would be out of range.
    pub(crate) fn new(spec: &TestSpec) -> Option<Self> {
        let work = Work::of(spec.service, &spec.params)?;
        let is_old = matches!(spec.params, Params::Pages { .. });
        let units = spec.destinations.len() as u64 * u64::from(spec.concurrency);
        // The framework has limited the number of units.
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
        // There is a destination for each unit, because there are `concurrency` units for each destination.
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
        // Each unit with an RPC under way ends with that RPC.
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
            .map(|request| request.target.nid.number() & 0xFF)
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
