//! Messages being sent: credits, queues, attempts, resends.

pub(crate) mod credits;
pub(crate) mod queues;
pub(crate) mod resend;
pub(crate) mod tx;
