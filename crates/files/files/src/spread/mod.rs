//! One file system from several gateways that export it.
//!
//! ```text
//!                    Spread (a FileSystem)
//!      ┌────────────────┼─────────────────┐         order.rs   the order of the gateways for an operation
//!   gateway 0        gateway 1         gateway 2    health.rs  which gateways get operations
//!      └────────────────┼─────────────────┘         drive.rs   the next gateway after a failure
//!           one coherent file system                proof.rs   what an operation without a reply has done
//! ```
//!
//! [`Spread`] implements [`FileSystem`](crate::FileSystem) with [`Server`]s that implement it: clients over LNet, clients over
//! BMI, or local directories in tests. [`Mode`] decides which gateway gets which operation. The parts of one read or
//! write go to their gateways at the same time.
//!
//! * **Coherence.** If there is more than one gateway, all must declare the same name of a coherent file system
//!   ([`Export`](crate::Export)) and show the same root. A gateway that does not is never used.
//! * **Handles** of a spread name objects. The handles of the gateways are separate. If a gateway does not know an
//!   object yet, or forgot it in a restart, the spread finds the object there by its path. The result is used only if
//!   it is the same object, by type, number and time of creation; otherwise the caller gets `ESTALE`.
//! * **Failover.** A gateway that does not answer gets no operations during a pause. The next gateway in order
//!   executes operations that may be executed twice. For other operations, the next gateway is asked for the result:
//!   a name to remove no longer exists, an object to rename has the new name, or a name to create does not exist, so
//!   that nothing was done. If the result remains unclear, the operation completes with [`OUTCOME_UNKNOWN`](crate::OUTCOME_UNKNOWN).
//!   No operation is executed twice.
//! * **Waiting.** An operation waits as long as the carrier of a gateway waits for a reply, at most twice for each
//!   gateway. No operation waits for another operation.
//! * **`Commit`** goes to each gateway that has executed changes of the object since the last commit. It fails if one
//!   of these gateways does not answer. It fails once if the machine of such a gateway rebooted, because the
//!   uncommitted changes are then lost.
//!
//! There is no protection from a gateway that hangs and continues after another one took over: it may still execute
//! operations that it had received. Carriers prevent this for the bytes of writes, which a server fetches from the
//! client. Other changes can be executed late, for example of the length of a file or of names. A site whose gateways
//! hang and continue must fence them first.

mod drive;
mod gateway;
mod health;
mod holds;
mod order;
mod parts;
mod proof;
mod surroundings;
mod table;
mod translate;

pub use gateway::{GatewayReport, Server};
pub use order::Mode;
pub use several::{GATEWAYS_MAX, Options, Spread, SpreadError};
pub use surroundings::{Later, Part, Real, Surroundings};
mod several;
