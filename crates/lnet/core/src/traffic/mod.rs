//! Traffic: messages on their way. Portals and descriptors, messages being sent and received, messages for other nodes,
//! injected faults.
//!
//! ```text
//!      put get attach …                                 Event
//!           │                                            ▲
//!  ┌────────▼────────────────────────────────────────────┴────────┐
//!  │ portals: calls, matching, descriptors, responses             │
//!  │    │                      ▲                                  │
//!  │    ▼                      │                                  │
//!  │  send                  receive ──▶ router ─┐                 │
//!  │    ▲                      ▲  ▲             │                 │
//!  │    └──────────────────────┼──┼─────────────┘                 │
//!  │                           │  └─ fault                        │
//!  └────┼──────────────────────┼──────────────────────────────────┘
//!       ▼                      │
//!    Transmit   sent        header   Verdict   arrived   Resume
//! ```
//!
//! Operations that the node starts for itself are those of [`Upkeep`](crate::upkeep): their events wait in `later`.

pub(in crate::traffic) mod answer;
pub(in crate::traffic) mod buffers;
pub(crate) mod fault;
pub(crate) mod health;
pub(in crate::traffic) mod latency;
pub(crate) mod portals;
pub(crate) mod receive;
pub(in crate::traffic) mod router;
pub(crate) mod send;
#[cfg(test)]
mod tests;
pub(crate) mod watch;

use std::collections::VecDeque;

use lnet_types::Time;

use crate::fabric::Fabric;
use crate::ground::config::CoreConfig;
use crate::ground::counters::Counters;
use crate::ground::globals::Globals;
use crate::ground::io::{RxId, TxId};
use crate::ground::md::MdHandle;
use crate::ground::table::Table;
use crate::traffic::buffers::Buffers;
use crate::traffic::fault::Faults;
use crate::traffic::portals::descriptor::Mds;
use crate::traffic::portals::lifecycle::Later;
use crate::traffic::portals::table::Portals;
use crate::traffic::portals::wire_handle::WireHandles;
use crate::traffic::receive::rx::Rx;
use crate::traffic::router::hops::Hops;
use crate::traffic::router::pool::Pools;
use crate::traffic::send::tx::Tx;

/// Messages on their way.
#[derive(Debug)]
pub(crate) struct Traffic {
    pub(crate) fabric: Fabric,
    pub(crate) wire_handles: WireHandles,
    pub(crate) portals: Portals,
    pub(crate) mds: Mds,
    pub(crate) rx: Table<RxId, Rx>,
    pub(crate) tx: Table<TxId, Box<Tx>>,
    /// Places of messages that have ended, for the next messages.
    #[expect(clippy::vec_box, reason = "a message keeps its place")]
    spare: Vec<Box<Tx>>,
    /// Messages that wait for a resend, oldest first.
    pub(crate) resends: VecDeque<TxId>,
    /// What [`Upkeep::settle`](crate::upkeep::Upkeep::settle) handles after the input.
    pub(crate) later: VecDeque<Later>,
    pub(crate) faults: Faults,
    pub(crate) pools: Pools,
    pub(crate) hops: Hops,
    pub(crate) buffers: Buffers,
    /// The descriptor that answers pings.
    pub(in crate::traffic) ping_answer: Option<MdHandle>,
    /// A defect that a test switches on: a response is accepted from any sender.
    #[cfg(feature = "defects")]
    pub(crate) gullible: bool,
}

impl Traffic {
    pub(crate) fn new(config: CoreConfig, now: Time) -> Self {
        Self {
            wire_handles: WireHandles::new(&config.entropy),
            portals: Portals::new(),
            mds: Mds::default(),
            rx: Table::default(),
            tx: Table::default(),
            spare: Vec::new(),
            resends: VecDeque::new(),
            later: VecDeque::new(),
            faults: Faults::new(config.seed),
            pools: Pools::new(config.buffers),
            hops: Hops::default(),
            buffers: Buffers::default(),
            ping_answer: None,
            #[cfg(feature = "defects")]
            gullible: false,
            fabric: Fabric::new(config, now),
        }
    }

    /// Returns the parameters of the node.
    pub(crate) fn globals(&self) -> &Globals {
        self.fabric.globals()
    }

    /// Returns the counters of the node.
    pub(crate) fn counters(&mut self) -> &mut Counters {
        self.fabric.counters()
    }

    /// Does the same as [`Counters::broken`].
    #[cold]
    pub(crate) fn broken(&mut self, what: &'static str) {
        self.fabric.broken(what);
    }

    /// Notes the time of an input. Deadlines rely on a time that never goes back.
    pub(crate) fn note_time(&mut self, now: Time) {
        self.fabric.note_time(now);
    }
}
