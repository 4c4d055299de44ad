//! Requirements that involve processes, by number.

mod client;
mod interrupted;
mod server;
