//! The requirements that concern the whole, by number.

mod client;
mod restart;
mod server;
