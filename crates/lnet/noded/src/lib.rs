//! Runs a node that documents configure, that is controlled from outside, and that Prometheus watches.
//!
//! ```text
//!  lnetctl's YAML ──▶ start, reconfigure ──┐
//!  control socket ──▶ ControlEndpoint ─────┤ one change at a time
//!                                          ▼
//!                     ManagedNode: what the configuration says beyond the node
//!                                          │
//!                                          ▼
//!  GET /metrics ────▶ MetricsEndpoint ──▶ Node (lnet-node)
//! ```
//!
//! A program that needs only a node uses `lnet-node` alone.

mod change;
mod changing;
mod control;
mod managed;
mod metrics;
mod record;
mod rpcs;
mod rules;
mod serving;
mod setup;
mod testing;
mod users;

pub use control::{ControlEndpoint, ControlError, ControlOptions, ReconfigureError};
pub use managed::{ManagedNode, start, start_recorded, start_with_or_without_networks};
pub use metrics::{MetricsEndpoint, MetricsError, MetricsOptions, Service, ServiceMetric, metrics};
pub use record::{RecordFile, RecordStatus};
pub use rpcs::{RpcCounts, RpcQueue};
pub use setup::{StartError, own_nids};
pub use testing::TestConsole;
pub use users::UsersFile;
