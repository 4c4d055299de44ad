//! The requirements that are about processes, by number.

mod client;
mod interrupted;
mod server;
