//! Routes and their gateways: the route table, the distance to a NID, and the signs by which a gateway is known to be
//! alive.

pub(crate) mod distance;
pub(crate) mod obstacle;
pub(crate) mod route;
pub(crate) mod signs;
