//! Selection rules.
