//! The names of an instance's queues, segment and files, by which the processes of one I/O node find each
//! other.
//!
//! ```text
//! /zbmi.default                        the segment
//! /zbmi.default.ctl                    the control queue
//! /zbmi.default.rep.4711.0             reply queue, slot 0, of the server with process id 4711
//! DIRECTORY/zbmi.default.sock          the daemon's Unix socket
//! DIRECTORY/zbmi.default.lock .journal the daemon's lock and its list of names
//! ```
//!
//! DIRECTORY is the first usable one of [`runtime_directories`].

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::error::{DecodeError, Problem};

/// The name of an instance, one daemon and its clients: 1 to 32 letters, digits, `_` and `-`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instance(String);

/// A text that is not an instance name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not a name of an instance: write 1 to 32 letters, digits, `_` and `-`")]
pub struct BadInstance(pub String);

// [CTL-2]
impl Instance {
    /// The longest name in characters.
    pub const MAX_LEN: usize = 32;

    /// Returns the name of the control queue.
    #[must_use]
    pub fn control_queue(&self) -> String {
        format!("/zbmi.{self}.ctl")
    }

    /// Returns the name of a server's reply queue for one slot.
    #[must_use]
    pub fn reply_queue(&self, server_pid: u32, slot: u32) -> String {
        format!("/zbmi.{self}.rep.{server_pid}.{slot}")
    }

    /// Returns the name of the segment.
    #[must_use]
    pub fn segment(&self) -> String {
        format!("/zbmi.{self}")
    }

    /// Returns the file name of the daemon's Unix-domain socket.
    #[must_use]
    pub fn socket_file(&self) -> String {
        format!("zbmi.{self}.sock")
    }

    /// Returns the file name of the daemon's lock.
    #[must_use]
    pub fn lock_file(&self) -> String {
        format!("zbmi.{self}.lock")
    }

    /// Returns the file name of the journal, the list of names that the instance has created.
    #[must_use]
    pub fn journal_file(&self) -> String {
        format!("zbmi.{self}.journal")
    }

    /// Returns the name of another slot's reply queue, derived from the name of slot 0 in INIT.
    ///
    /// # Errors
    ///
    /// A name that is not one of this instance's for slot 0.
    pub fn other_reply_queue(&self, slot_0: &str, slot: u32) -> Result<String, DecodeError> {
        let pid = slot_0
            .strip_prefix(&format!("/zbmi.{self}.rep."))
            .and_then(|rest| rest.strip_suffix(".0"))
            .filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|pid| pid.parse::<u32>().ok());
        match pid {
            Some(pid) => Ok(self.reply_queue(pid, slot)),
            None => Err(DecodeError {
                what: "INIT",
                offset: crate::ctl::INIT_NAME_AT,
                problem: Problem::BadName("reply queue name"),
            }),
        }
    }
}

impl Default for Instance {
    fn default() -> Self {
        Self("default".to_owned())
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// [ADDR-14]
impl FromStr for Instance {
    type Err = BadInstance;

    fn from_str(text: &str) -> Result<Self, BadInstance> {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if (1..=Self::MAX_LEN).contains(&text.len()) && text.bytes().all(legal) {
            return Ok(Self(text.to_owned()));
        }
        Err(BadInstance(text.to_owned()))
    }
}

/// Returns the directories that may contain an instance's socket, lock and journal, in order of preference. A
/// daemon uses the first whose parent exists; other programs try each.
#[must_use]
pub fn runtime_directories(uid: u32) -> [String; 2] {
    [format!("/run/user/{uid}"), format!("/tmp/zbmi-{uid}")]
}

#[cfg(test)]
mod tests {
    use super::*;

    // [CTL-2]
    #[test]
    fn names_are_those_of_the_default_instance() {
        let instance = Instance::default();
        assert_eq!(instance.control_queue(), "/zbmi.default.ctl");
        assert_eq!(instance.reply_queue(4711, 3), "/zbmi.default.rep.4711.3");
        assert_eq!(instance.segment(), "/zbmi.default");
        assert_eq!(instance.socket_file(), "zbmi.default.sock");
    }

    // [ADDR-14]
    #[test]
    fn an_instance_has_1_to_32_plain_characters() {
        for good in ["a", "A-b_9", &"x".repeat(32)] {
            assert_eq!(good.parse::<Instance>().unwrap().to_string(), good);
        }
        for bad in ["", "a b", "a/b", "a.b", "ä", &"x".repeat(33)] {
            assert_eq!(bad.parse::<Instance>(), Err(BadInstance(bad.to_owned())));
        }
    }

    // [CTL-2]
    #[test]
    fn slots_are_named_after_slot_0() {
        let instance = Instance::default();
        let other = instance.other_reply_queue("/zbmi.default.rep.17.0", 12);
        assert_eq!(other.unwrap(), "/zbmi.default.rep.17.12");
    }

    // [CTL-10]
    #[test]
    fn a_reply_queue_outside_the_instance_is_refused() {
        let instance = Instance::default();
        for bad in [
            "/zbmi.other.rep.17.0",
            "/zbmi.default.rep.17.1",
            "/zbmi.default.rep.17/../x.0",
            "/zbmi.default.rep.+17.0",
            "",
        ] {
            assert!(instance.other_reply_queue(bad, 1).is_err(), "{bad}");
        }
    }
}
