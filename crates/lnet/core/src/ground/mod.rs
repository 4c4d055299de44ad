//! The ground of the core: what every room uses and none owns. Parameters, the clock, timers, counters, the outputs for
//! the driver; ids, events, statuses, limits.
//!
//! The order of the rooms is in the documentation of the crate. A room names only rooms below it.

pub(crate) mod config;
pub(crate) mod counters;
pub(crate) mod credits;
pub(crate) mod entropy;
pub(crate) mod event;
pub(crate) mod globals;
pub(crate) mod health;
pub(crate) mod histogram;
pub(crate) mod ids;
pub(crate) mod invariant;
pub(crate) mod io;
pub(crate) mod latency;
pub(crate) mod md;
pub(crate) mod status;
pub(crate) mod table;
pub(crate) mod timer;

use std::collections::VecDeque;

use lnet_types::Time;

use crate::ground::config::CoreConfig;
use crate::ground::counters::Counters;
use crate::ground::io::Output;
use crate::ground::timer::Timers;

/// What every room uses.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) config: CoreConfig,
    pub(crate) timers: Timers,
    pub(crate) counters: Counters,
    /// What the driver is to do, oldest first.
    pub(crate) outputs: VecDeque<Output>,
    /// The time of the latest input.
    pub(crate) latest: Time,
    /// True if this core was made from the state of another core, to predict the paths that the other core selects.
    pub(crate) is_copy: bool,
}

impl Ground {
    pub(crate) fn new(config: CoreConfig, now: Time) -> Self {
        Self {
            config,
            timers: Timers::default(),
            counters: Counters::default(),
            outputs: VecDeque::new(),
            latest: now,
            is_copy: false,
        }
    }
}
