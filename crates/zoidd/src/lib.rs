//! The I/O-node daemon around the zbmi engine.
mod error;
mod failpoint;
mod home;
mod options;
mod segment;
mod size;
pub use error::Error;
pub use failpoint::{BadFailpoint, Failpoint, Failpoints, Place};
pub use home::{Removed, cleanup, find_directory};
pub use options::{Options, Prefault, SETTINGS, SettingError, VARIABLES};
