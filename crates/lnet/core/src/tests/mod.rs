//! Tests of the node as a whole, on a network in memory with virtual time.

mod catalogue;
mod checker;
mod claims;
mod configuration;
mod credits;
mod discovery;
mod discovery_names;
mod discovery_order;
mod discovery_random;
mod foreign_lnds;
mod forward;
mod hostile;
mod hung;
mod lazy;
mod matching;
pub(crate) mod net;
mod pages;
mod ping;
mod put_get;
mod rails;
mod random;
mod releases;
mod responders;
mod routes;
mod state;
mod timeout;
mod watch;

use net::{Net, nid};
