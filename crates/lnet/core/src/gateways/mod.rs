//! Routes and their gateways: the route table, the distance to a NID, and the checker that pings gateways.

pub(crate) mod checker;
pub(crate) mod distance;
pub(crate) mod obstacle;
pub(crate) mod route;
