//! Protocol checks of an LNet node over TCP or RDMA, from outside: whether a node of any implementation
//! follows the wire description.
//!
//! ```text
//!  Subject --new--> NodeUnderTest --run(CHECKS[i])--> Outcome { verdict, observed bytes }
//! ```
//!
//! Each check is a row of a table, [`CHECKS`] for tcp networks and [`O2IB_CHECKS`] for o2ib networks: a name, the rules of `docs/protocol`, a title, the
//! risk, and a function. Checks share no state: each dials its own connections, over TCP under its own
//! identity, so that checks do not affect each other. A check waits for an answer until the timeout
//! of the subject. To show that no answer comes, it sends a ping and expects the answer to the ping
//! next.
//!
//! ```
//! use std::net::{Ipv4Addr, TcpListener};
//! use std::time::Duration;
//!
//! use lnet_conform::{CHECKS, NodeUnderTest, Risk, SetupError, Subject};
//!
//! let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
//! let subject = Subject {
//!     nid: "127.0.0.1@tcp".parse()?,
//!     address,
//!     source: Ipv4Addr::LOCALHOST.into(),
//!     privileged: false,
//!     timeout: Duration::from_secs(10),
//! };
//! match NodeUnderTest::new(subject) {
//!     Ok(node) => {
//!         for check in CHECKS.iter().filter(|check| check.risk == Risk::Safe) {
//!             println!("{}: {:?}", check.id, node.run(check).verdict);
//!         }
//!     }
//!     // Nothing listens on the port any longer.
//!     Err(error) => assert!(matches!(error, SetupError::Connect { .. })),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The crate uses plain blocking sockets, a device of `lnet-verbs`, and the codecs of `lnet-wire`, and none of the node's
//! own code, because it checks that code. No check opens a listening socket.
//!
//! An [`O2ibNode`] is checked over RDMA. An acceptor knows a peer by its NID there, so that all checks have one identity.
//!
//! [`examine`] finds out why this machine cannot use a node, from the view of an administrator. It
//! is one examination instead of many checks, and returns findings with remedies.
//!
//! Safe checks ([`Risk::Safe`]) send only valid messages and leave no traces. Intrusive checks
//! ([`Risk::Intrusive`]) send malformed input that kernels log, make the node close connections, or
//! leave a peer in its tables. No check sends input that can stop or crash a kernel node: no PUT to
//! portal 0 with match bits other than those of a push, no GET to a lazy portal.
//!
//! [`ATTACKS`] are what a hostile peer does, within limits. They are no checks of rules: an attack passes if the node
//! still answers a new peer. They load the node, and are for a node of one's own.

mod checks;
mod doctor;
mod exchange;
mod hostile;
mod link;
mod node;
mod o2ib;
mod probe;

pub use checks::CHECKS;
pub use doctor::{
    Diagnosis, Examination, FINDING_KINDS, Finding, FindingKind, NAME_UNKNOWN, NI_DOWN,
    NID_NOT_LISTED, NO_LNET_SERVICE, NO_RDMA_DEVICE, NO_WAY, OWN_ADDRESS_MISSING, OWN_NET_MISSING,
    OWN_SOURCE_DIFFERS, PING_UNANSWERED, RDMA_FAILED_HERE, RDMA_REJECTED, RDMA_UNREACHABLE,
    RDMA_VERSION, Severity, Step, UNSTEADY, examine, examine_through,
};
pub use exchange::{Exchange, Way};
pub use hostile::ATTACKS;
pub use node::{NodeUnderTest, SetupError, Subject};
pub use o2ib::{Dialler, O2IB_CHECKS, O2ibNode, RdmaDialler};
pub use probe::{Check, Outcome, Risk, Verdict};
