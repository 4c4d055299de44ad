//! Nothing but a test: `lustre_collector`, a published program that scrapes `lnetctl`, reads what our
//! nodes print (`tests/collector.rs`).
//!
//! It is a crate of its own because the collector brings an older YAML reader with it, which nothing
//! that ships may depend on; `deny.toml` lets it in under this one.
