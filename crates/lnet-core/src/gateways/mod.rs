//! Routes and their gateways: what is configured, how far away a net is, and the checker that asks gateways.

pub(crate) mod checker;
pub(crate) mod distance;
pub(crate) mod obstacle;
pub(crate) mod route;
