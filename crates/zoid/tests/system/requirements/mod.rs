//! The requirements that concern the whole, by number.

mod client;
mod forwarded;
mod races;
mod restart;
mod roles;
mod server;
mod threads;
