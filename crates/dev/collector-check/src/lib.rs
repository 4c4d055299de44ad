//! Contains only a test: `lustre_collector`, a published program that reads the output of
//! `lnetctl`, accepts the output of Finerail's nodes (`tests/collector.rs`).
//!
//! The test has a crate of its own because `lustre_collector` depends on an older YAML reader,
//! which no shipped crate may use. `deny.toml` permits that reader only in this crate.
