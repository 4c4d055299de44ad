//! What the programs `finerail` and `finerail-bench` share: logging, errors and exit codes, the arguments that
//! describe a node or a machine, and what every service does. The libraries below are what other programs use.

pub mod common;
pub mod machine;
pub mod service;
