//! The fields that each verbosity prints: [CONF-8].

use crate::document::{Document, NiShow, PeerNiShow, PeerShow, RouteShow};
use crate::model::{LndTunables, NiConfig, Tunables};

/// The level of detail of `show -v N`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// 0: NIDs, status, interfaces.
    #[default]
    Names,
    /// 1, and `-v` alone: counts, tunables, credits; routes in full.
    Counts,
    /// 2: messages by type, health.
    Health,
    /// 3: the state of peers.
    State,
    /// 4 and more: values that selection rules give to interfaces.
    Rules,
}

impl Verbosity {
    /// The verbosity of `-v level`.
    #[must_use]
    pub const fn new(level: u32) -> Self {
        match level {
            0 => Self::Names,
            1 => Self::Counts,
            2 => Self::Health,
            3 => Self::State,
            _ => Self::Rules,
        }
    }
}

impl Document {
    /// The part of this document that `net show`, `peer show` and `route show` print at a
    /// verbosity.
    #[must_use]
    pub fn limited(mut self, verbosity: Verbosity) -> Self {
        for ni in self.nets.iter_mut().flat_map(|net| &mut net.nis) {
            ni.limit(verbosity);
        }
        for peer in &mut self.peers {
            peer.limit(verbosity);
        }
        for route in &mut self.routes {
            route.limit(verbosity);
        }
        self
    }

    /// The part that `export` prints: networks as at verbosity 2, peers as at 3, routes in full.
    #[must_use]
    pub fn exported(self) -> Self {
        self.limited(Verbosity::State)
    }

    /// The part that `export --backup` prints: everything that an import can set. It includes
    /// discovered peers and excludes loopback. An interface with a name is named by it alone.
    // [CONF-2]
    #[must_use]
    pub fn backup(&self) -> Self {
        let (config, _) = self.config();
        let mut backup = Self::from(&config);
        backup.derived = self.derived;
        backup.udsp.clone_from(&self.udsp);
        for ni in backup.nets.iter_mut().flat_map(|net| &mut net.nis) {
            if !ni.config.interfaces.is_empty() {
                ni.config.nid = None;
            }
            // Derived from traffic_class; imports reject it.
            ni.config.lnd_tunables.other.remove("traffic_class_num");
        }
        for (route, shown) in backup.routes.iter_mut().zip(&self.routes) {
            route.health_sensitivity = shown.health_sensitivity;
        }
        for (peer, shown) in backup.peers.iter_mut().zip(&self.peers) {
            peer.nis = shown.nis.iter().map(|ni| PeerNiShow::new(ni.nid)).collect();
        }
        backup
    }

    /// The same without the timeouts of LNDs that follow from `lnd_timeout`, the node-wide value in seconds. Release
    /// 2.17.0 does not read the key in a backup; release 2.16 prints the key.
    #[must_use]
    pub fn without_derived_timeouts(mut self, lnd_timeout: Option<u32>) -> Self {
        let nis = self.nets.iter_mut().flat_map(|net| &mut net.nis);
        for tunables in nis.map(|ni| &mut ni.config.lnd_tunables) {
            tunables.timeout = tunables.timeout.filter(|_| tunables.timeout != lnd_timeout);
        }
        self
    }
}

impl NiShow {
    fn limit(&mut self, verbosity: Verbosity) {
        if verbosity < Verbosity::Rules {
            self.udsp = None;
        }
        if verbosity < Verbosity::Health {
            (self.sent, self.received, self.dropped) = (None, None, None);
            self.health = None;
        }
        if verbosity < Verbosity::Counts {
            self.statistics = None;
            self.dev_cpt = None;
            self.config = NiConfig {
                tunables: Tunables::default(),
                lnd_tunables: LndTunables::default(),
                cpts: Vec::new(),
                ..std::mem::take(&mut self.config)
            };
        }
    }
}

impl PeerShow {
    fn limit(&mut self, verbosity: Verbosity) {
        if verbosity < Verbosity::State {
            self.state = None;
        }
        for ni in &mut self.nis {
            ni.limit(verbosity);
        }
    }
}

impl PeerNiShow {
    fn limit(&mut self, verbosity: Verbosity) {
        if verbosity < Verbosity::Rules {
            self.udsp = None;
        }
        if verbosity < Verbosity::Health {
            (self.sent, self.received, self.dropped) = (None, None, None);
            self.health = None;
        }
        if verbosity < Verbosity::Counts {
            self.statistics = None;
            self.credits = None;
        }
    }
}

impl RouteShow {
    fn limit(&mut self, verbosity: Verbosity) {
        if verbosity < Verbosity::Counts {
            *self = Self {
                net: self.net,
                gateway: self.gateway,
                hop: None,
                priority: None,
                health_sensitivity: None,
                state: None,
                kind: None,
            };
        }
    }
}
