//! Protocol checks of an LNet node over TCP, from outside: does a node, ours or a foreign one, do what the
//! wire description says?
//!
//! ```text
//!  Subject --meet--> Meeting --run(CHECKS[i])--> Outcome { verdict, observed bytes }
//! ```
//!
//! Each check is a row of one table, [`CHECKS`]: a name, the section with the rule, a title, whether it is
//! safe, and a function. Checks share no state: each dials its own connections under an identity of its own,
//! so that one check does not change the answer to another. A check waits for an answer until the timeout of
//! the subject, and never for silence: what must not come is shown to be absent by the answer to a later ping.
//!
//! The crate judges nodes, so it uses plain blocking sockets and the codecs of `lnet-wire`, and nothing of
//! the node's own code. No check opens a listening socket.
//!
//! [`examine`] asks another question: what keeps this machine from using a node, as a network and its
//! administrators see it. It is one examination in place of many checks, and gives findings with what to do.
//!
//! Safe checks ([`Risk::Safe`]) send only what nodes in good order send, and leave nothing behind.
//! Intrusive checks ([`Risk::Intrusive`]) send malformed input that kernels log, make the node close
//! connections, or leave a peer in its tables. No check sends what can stop or crash a kernel node: no PUT to
//! portal 0 with other match bits than a push, no GET to a lazy portal (section 12.2).

mod checks;
mod doctor;
mod exchange;
mod link;
mod meeting;
mod probe;

pub use checks::CHECKS;
pub use doctor::{
    AILMENTS, Ailment, Diagnosis, Examination, Finding, NAME_UNKNOWN, Severity, Step, examine,
};
pub use exchange::{Exchange, Way};
pub use meeting::{MeetError, Meeting, Subject};
pub use probe::{Check, Outcome, Risk, Verdict};
