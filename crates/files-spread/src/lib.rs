//! One file system from several gateways that export it.
//!
//! ```text
//!                    Spread (a FileSystem)
//!      ┌────────────────┼─────────────────┐         order.rs   who is asked first
//!   gateway 0        gateway 1         gateway 2    health.rs  who is asked at all
//!      └────────────────┼─────────────────┘         drive.rs   who is asked next
//!           one coherent file system                proof.rs   what a lost reply has done
//! ```
//!
//! [`Spread`] implements [`files::FileSystem`] by [`Server`]s that implement it: clients over LNet, clients over BMI, or
//! local directories in tests. [`Mode`] says who gets which operation. Parts of one read or write go to their gateways at
//! the same time.
//!
//! * **Coherence.** More than one gateway needs that all declare the same name of a coherent file system
//!   ([`files::Export`]) and show the same root. One that does not is never used.
//! * **Handles** of a spread name objects, not what one gateway calls them. A gateway that does not know an object (it is
//!   asked for the first time, it was started again, it took over) finds it by its path. What is found there is taken only
//!   if it is the same object, by kind, number and time of birth; else the caller gets `ESTALE`.
//! * **Failover.** A gateway that does not answer is left alone for a while, and the next one in order takes over what can
//!   be carried out twice. For the rest, the next one is asked what has become of it: a name that must be gone is
//!   gone, an object that must have moved has moved, a name that must be new is not there, so that nothing was
//!   done. What remains open ends with [`files::OUTCOME_UNKNOWN`]. Nothing is carried out twice.
//! * **Waiting.** An operation waits as long as the carrier of a gateway waits for it, at most twice for each gateway.
//!   No operation waits for another one.
//! * **`Commit`** goes to each gateway that has taken changes of the object since the last one. It fails where one of them
//!   does not answer, and once where its machine was started again, because what was not committed is lost then.
//!
//! What is not promised: a gateway that hangs, and goes on after another one took over, may still carry out what it had
//! received. Carriers prevent that for the bytes of writes, which a server fetches from the client; other changes can come
//! late, the length of a file and names among them. A site where gateways hang and come back fences them first.

mod drive;
mod gateway;
mod health;
mod order;
mod parts;
mod proof;
mod spread;
mod surroundings;
mod table;
mod translate;

pub use gateway::{GatewayReport, Server};
pub use order::Mode;
pub use spread::{GATEWAYS_MAX, Options, Spread, SpreadError};
pub use surroundings::{Later, Part, Real, Surroundings};
