//! How long a conversation may take.

use std::time::Duration;

use super::request::Service;

/// How long the parts of a conversation may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The reply to a connect; and the disconnect.
    pub connect: Duration,
    /// The reply to another request.
    pub request: Duration,
    /// All questions together. The disconnect comes after that, within twice the limit of a connect.
    pub whole: Duration,
}

impl Limits {
    /// Returns the limits of a conversation that has ended, disconnect included, after this time.
    #[must_use]
    pub fn within(total: Duration) -> Self {
        let twelfth = total / 12;
        Self {
            connect: twelfth,
            request: twelfth.saturating_mul(3),
            whole: twelfth.saturating_mul(10),
        }
    }

    /// Returns the limits of a conversation with this kind of target. An MDT or OST has the connection for less than ten
    /// seconds, however long the check may take: 6 s for the questions, 1 s for a reply to a connect that is late, and
    /// 2 s for the disconnect.
    // [PTLRPC-21]
    pub(super) fn with(self, service: Service) -> Self {
        const TARGET: Limits = Limits {
            connect: Duration::from_secs(2),
            request: Duration::from_secs(2),
            whole: Duration::from_secs(6),
        };
        match service {
            Service::Mgs => self,
            Service::Mdt | Service::Ost => Self {
                connect: self.connect.min(TARGET.connect),
                request: self.request.min(TARGET.request),
                whole: self.whole.min(TARGET.whole),
            },
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::within(Duration::from_secs(120))
    }
}
