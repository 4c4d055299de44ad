//! RDMA: libibverbs and librdmacm, loaded at run time.
//!
//! ```text
//!   Verbs::load ─▶ CmChannel ─▶ CmConnection ─▶ Domain ─▶ Completions, Registered
//! ```
//!
//! Nothing is loaded before [`Verbs::load`], so that a program starts where the libraries are missing. No call waits,
//! except that the drop of a connection waits for the kernel. Memory is kept by its [`Registered`], and a device cannot
//! touch it after that is dropped.

mod cm;
mod layout;
mod library;
mod queue;

pub use cm::{CmChannel, CmConnection, CmEventKind, CmNews};
pub use library::Verbs;
pub use queue::{
    Completed, Completions, DeviceNews, Domain, Part, QueueName, Registered, RemotePart,
};
