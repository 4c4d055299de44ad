//! Messages being sent: credits, queues, attempts, resends.

pub(in crate::traffic) mod queues;
pub(in crate::traffic) mod resend;
pub(crate) mod tx;
