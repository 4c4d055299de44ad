//! What the programs `finerail` and `finerail-bench` share: logging, errors and exit codes, the arguments that
//! describe a node or a machine, and the parts that every service needs. Other programs use the libraries below
//! this crate instead.

pub mod common;
pub mod machine;
pub mod service;
