//! Requirements that concern the whole method, by number.

mod client;
mod forwarded;
mod races;
mod restart;
mod roles;
mod server;
mod threads;
