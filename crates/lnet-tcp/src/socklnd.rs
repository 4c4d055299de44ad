//! The socket LND as the node above drives it.

use lnet_types::Time;
use mio::event::Event;
use mio::net::TcpListener;
use mio::{Interest, Registry, Token};
use rustc_hash::FxHashMap;

use crate::config::{AcceptMode, LndNi, SocklndConfig};
use crate::error::AddNiError;
use crate::socket;
use crate::stats::{SocklndStats, Unsent};
use crate::upper::{Failure, NiKey, RxToken, SendRequest, Upper};
use crate::view::ConnectionView;

/// The socket LND of one node.
pub struct Socklnd {
    config: SocklndConfig,
    registry: Registry,
    first_token: usize,
    nis: FxHashMap<NiKey, (LndNi, Option<TcpListener>)>,
    stats: SocklndStats,
}

impl Socklnd {
    /// An LND without interfaces. It uses mio tokens from `first_token` upwards on `registry`; `seed`
    /// spreads its retries.
    #[must_use]
    pub fn new(config: SocklndConfig, registry: Registry, first_token: usize, seed: u64) -> Self {
        let _ = seed;
        let stats = SocklndStats::default();
        Self {
            config,
            registry,
            first_token,
            nis: FxHashMap::default(),
            stats,
        }
    }

    /// Adds an interface and listens on its address, unless the configuration says to accept nobody.
    ///
    /// # Errors
    ///
    /// [`AddNiError`] says what is wrong and what to do about it.
    pub fn add_ni(&mut self, ni: LndNi) -> Result<(), AddNiError> {
        let address = ni.nid.ip().ok_or(AddNiError::NotTcp(ni.nid))?;
        if self.config.accept == AcceptMode::None {
            socket::probe(address, &self.config)?;
            self.nis.insert(ni.ni, (ni, None));
            return Ok(());
        }
        let mut listener = socket::listen(address, &self.config)?;
        let port = self.config.port;
        let token = Token(self.first_token + self.nis.len());
        self.registry
            .register(&mut listener, token, Interest::READABLE)
            .map_err(|source| AddNiError::Listen {
                address,
                port,
                source,
            })?;
        self.nis.insert(ni.ni, (ni, Some(listener)));
        Ok(())
    }

    /// Closes everything that belongs to an interface and forgets it.
    pub fn remove_ni(&mut self, ni: NiKey, _now: Time, _upper: &mut impl Upper) {
        self.nis.remove(&ni);
    }

    /// Queues a message, dialling its peer where there is no connection.
    pub fn send(&mut self, request: SendRequest, now: Time, upper: &mut impl Upper) {
        self.stats.unsent.add(Unsent::NoRoute);
        upper.sent(request.tx, Err(Failure::RemoteError), now);
    }

    /// Goes on with a message that [`crate::Disposition::Hold`] stopped: `wanted` bytes are read, or
    /// none of it is wanted.
    pub fn resume(
        &mut self,
        _rx: RxToken,
        _wanted: Option<u32>,
        _now: Time,
        _upper: &mut impl Upper,
    ) {
    }

    /// Takes a readiness event whose token is at least the first one.
    pub fn ready(&mut self, _event: &Event, _now: Time, _upper: &mut impl Upper) {}

    /// Writes what is queued where it can be written. True when there is more to do at once.
    pub fn flush(&mut self, _now: Time, _upper: &mut impl Upper) -> bool {
        false
    }

    /// Does what is due.
    pub fn tick(&mut self, _now: Time, _upper: &mut impl Upper) {}

    /// When [`Self::tick`] is wanted next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        None
    }

    /// Closes everything; every pending message is reported.
    pub fn close_all(&mut self, _now: Time, _upper: &mut impl Upper) {
        self.nis.clear();
    }

    /// The counters.
    #[must_use]
    pub fn stats(&self) -> &SocklndStats {
        &self.stats
    }

    /// The established connections, in no particular order.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionView> {
        std::iter::empty()
    }
}
